package rtapp

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/ghostgym/ghostgym/agent/kernel"
	"github.com/ghostgym/ghostgym/agent/spell"
)

// decoder turns the document into a File.
type decoder struct {
	reader
	file    *File
	policy  string // default_policy
	threads int
	events  int
	forks   map[string]int // task name → place of the first fork that names it
}

const maxInt = 1<<31 - 1 // rt-app reads C ints

// Keys by place. Those that no decoder below asks for have no effect here; their values are checked all the same.
var (
	rootKeys     = []string{"tasks", "global", "resources"}
	globalKeys   = []string{"duration", "default_policy", "mem_buffer_size", "calibration", "pi_enabled", "lock_pages", "logdir", "log_basename", "log_size", "ftrace", "gnuplot", "io_device", "cumulative_slack", "frag"}
	scheduleKeys = []string{"loop", "priority", "policy", "cpus", "nodes_membind", "taskgroup", "util_min", "util_max", "dl-runtime", "dl-period", "dl-deadline"}
	threadKeys   = append([]string{"instance", "delay", "phases", "period", "deadline"}, scheduleKeys...)
	oldKeys      = []string{"exec", "lock_order", "resources"} // of the grammar before rt-app 1.0
)

func (d *decoder) document(root value) error {
	var global, tasks *member
	for i := range root.members {
		m := &root.members[i]
		switch m.key {
		case "global":
			if err := d.once(global, m); err != nil {
				return err
			}
			global = m
		case "tasks":
			if err := d.once(tasks, m); err != nil {
				return err
			}
			tasks = m
		case "resources":
			if err := d.resources(m); err != nil {
				return err
			}
		default:
			if err := d.unknown(m, "at the top level", rootKeys); err != nil {
				return err
			}
		}
	}
	if global != nil {
		if err := d.global(global); err != nil {
			return err
		}
	}
	if tasks == nil {
		return d.fail(root.at, "tasks", "missing: a workload needs an object of this name")
	}
	return d.tasks(tasks)
}

// once refuses a second value for a key that has one meaning; a lenient reader lets the last one count.
func (d *decoder) once(first, again *member) error {
	if first == nil {
		return nil
	}
	line, _ := d.position(first.at)
	return d.repair(again.at, again.key, fmt.Sprintf("given before, in line %d", line), "the last one counts")
}

func (d *decoder) unknown(m *member, where string, known []string) error {
	for _, old := range oldKeys {
		if m.key == old {
			return d.fail(m.at, m.key, "belongs to the grammar before rt-app 1.0, which is not read; write events (run, lock, sleep, timer) instead")
		}
	}
	return d.repair(m.at, m.key, fmt.Sprintf("unknown %s%s", where, spell.Hint(m.key, known)), "ignored")
}

// resources is the section of old files: rt-app makes resources where events name them, so it changes nothing.
func (d *decoder) resources(m *member) error {
	members, err := d.object(m)
	if err != nil {
		return err
	}
	for i := range members {
		if _, err := d.object(&members[i]); err != nil {
			return err
		}
	}
	return nil
}

func (d *decoder) noEffect(key string) {
	if !slices.Contains(d.file.NoEffect, key) {
		d.file.NoEffect = append(d.file.NoEffect, key)
	}
}

// costed notes, once per kind of event, what an event is taken to cost.
func (d *decoder) costed(event, how string) {
	note := event + " counts as " + how
	if !slices.Contains(d.file.Costs, note) {
		d.file.Costs = append(d.file.Costs, note)
	}
}

func (d *decoder) global(section *member) error {
	members, err := d.object(section)
	if err != nil {
		return err
	}
	seen := map[string]*member{}
	for i := range members {
		m := &members[i]
		if err := d.once(seen[m.key], m); err != nil {
			return err
		}
		seen[m.key] = m
		if err := d.globalKey(m); err != nil {
			return err
		}
	}
	return nil
}

func (d *decoder) globalKey(m *member) (err error) {
	switch m.key {
	case "duration":
		var n int64
		if n, err = d.integer(m, -1, maxInt); err == nil && n > 0 {
			d.file.Duration = kernel.Time(n) * kernel.Second
		}
		return err
	case "default_policy":
		d.policy, err = d.oneOf(m, policies)
		if d.policy != "SCHED_OTHER" {
			d.noEffect(m.key)
		}
		return err
	case "mem_buffer_size":
		d.file.memory, err = d.integer(m, 1, maxInt)
		return err
	case "calibration":
		if m.value != nil && m.value.kind == kindInt {
			_, err = d.integer(m, 1, maxInt)
			break
		}
		var text string
		if text, err = d.text(m); err != nil {
			return err
		}
		cpu, bad := strconv.Atoi(strings.TrimPrefix(text, "CPU"))
		if bad != nil || cpu < 0 || cpu >= kernel.MaxCPUs || !strings.HasPrefix(text, "CPU") {
			return d.repair(m.at, m.key, fmt.Sprintf("%.40q: expected CPU and a number, or nanoseconds per loop", text), "ignored")
		}
		d.file.CPUs = max(d.file.CPUs, cpu+1)
	case "pi_enabled", "lock_pages", "gnuplot", "cumulative_slack":
		_, err = d.boolean(m)
	case "logdir", "log_basename", "io_device":
		_, err = d.text(m)
	case "ftrace":
		err = d.ftrace(m)
	case "log_size":
		if m.value != nil && m.value.kind == kindString {
			m.value.text = strings.ToLower(m.value.text)
			_, err = d.oneOf(m, []string{"file", "disable", "auto"})
		} else {
			_, err = d.integer(m, 0, maxInt)
		}
	case "frag":
		_, err = d.integer(m, 0, maxInt)
	default:
		return d.unknown(m, "in global", globalKeys)
	}
	d.noEffect(m.key)
	return err
}

// ftrace is a truth value in old files, a list of categories in new ones.
func (d *decoder) ftrace(m *member) error {
	if m.value == nil || m.value.kind != kindString {
		_, err := d.boolean(m)
		return err
	}
	for _, category := range strings.Split(m.value.text, ",") {
		if category != "" && !slices.Contains(ftraceCategories, strings.ToLower(category)) {
			return d.repair(m.value.at, m.key, fmt.Sprintf("%.40q: allowed are %s, with commas between", category,
				strings.Join(ftraceCategories, ", ")), "ignored")
		}
	}
	return nil
}

// ftraceCategories are those that rt-app reads and those that its tutorial lists.
var ftraceCategories = []string{"none", "main", "task", "run", "loop", "event", "stats"}

var (
	policies     = []string{"SCHED_OTHER", "SCHED_BATCH", "SCHED_IDLE", "SCHED_RR", "SCHED_FIFO", "SCHED_DEADLINE"}
	fairPolicies = policies[:3]
)

func (d *decoder) tasks(section *member) error {
	if d.policy == "" {
		d.policy = "SCHED_OTHER"
	}
	members, err := d.object(section)
	if err != nil {
		return err
	}
	for i := range members {
		if err := d.task(&members[i]); err != nil {
			return err
		}
	}
	if d.threads == 0 {
		return d.fail(section.at, section.key, "no thread to start")
	}
	return d.checkForks()
}

// checkForks refuses the first fork of a task that is not there.
func (d *decoder) checkForks() error {
	for i := range d.file.Tasks {
		delete(d.forks, d.file.Tasks[i].Name)
	}
	first, at := "", len(d.src)
	for name, place := range d.forks {
		if place < at {
			first, at = name, place
		}
	}
	if first != "" {
		return d.fail(at, first, "no task of this name to fork")
	}
	return nil
}

func (d *decoder) task(section *member) error {
	members, err := d.object(section)
	if err != nil {
		return err
	}
	t := Task{Name: section.key, Instances: 1, Loop: -1}
	s := schedule{policy: d.policy}
	var phases *member
	var inline []*member
	seen := map[string]*member{}
	for i := range members {
		m := &members[i]
		if isEvent(m) {
			inline = append(inline, m)
			continue
		}
		if err := d.once(seen[m.key], m); err != nil {
			return err
		}
		seen[m.key] = m
		var n int64
		switch m.key {
		case "instance":
			if n, err = d.integer(m, 0, MaxThreads); err == nil {
				t.Instances = int(n)
			}
		case "delay":
			if n, err = d.integer(m, 0, maxInt); err == nil {
				t.Delay = kernel.Time(n) * kernel.Microsecond
			}
		case "phases":
			phases = m
		case "period", "deadline": // old spelling of dl-period and dl-deadline
			_, err = d.integer(m, 0, maxInt)
			d.noEffect(m.key)
		default:
			err = d.scheduleKey(m, &s, "in a task", threadKeys)
		}
		if err != nil {
			return err
		}
	}
	if d.threads += t.Instances; d.threads > MaxThreads {
		return d.fail(section.at, section.key, "more than %d threads in all", MaxThreads)
	}
	t.CPUs = s.cpus
	if t.Nice, _, err = d.nice(&s, d.policy); err != nil {
		return err
	}
	if phases == nil {
		// rt-app takes the loop of a task without phases for that of its only phase.
		ph := Phase{Name: t.Name, Loop: 1}
		if s.loop != nil {
			ph.Loop, t.Loop = *s.loop, 1
			if ph.Loop == 0 {
				ph.Loop = -1
				if err := d.endless(seen["loop"]); err != nil {
					return err
				}
			}
		}
		if err := d.addEvents(&ph, section, inline); err != nil {
			return err
		}
		t.Phases = []Phase{ph}
		d.file.Tasks = append(d.file.Tasks, t)
		return nil
	}
	if s.loop != nil {
		t.Loop = *s.loop
	}
	for _, m := range inline {
		if err := d.besidePhases(m); err != nil {
			return err
		}
	}
	members, err = d.object(phases)
	if err != nil {
		return err
	}
	if len(members) == 0 {
		return d.fail(phases.at, phases.key, "no phase")
	}
	for i := range members {
		if err := d.phase(&members[i], &t, &s.policy); err != nil {
			return err
		}
	}
	d.file.Tasks = append(d.file.Tasks, t)
	return nil
}

// besidePhases refuses an event that no phase has. "runtime" is none there, but the old spelling of dl-runtime.
func (d *decoder) besidePhases(m *member) error {
	if m.key != "runtime" {
		return d.repair(m.at, m.key, "an event beside phases, which rt-app passes over", "ignored")
	}
	_, err := d.integer(m, 0, maxInt)
	d.noEffect(m.key)
	return err
}

// phase reads a phase; policy is that of the phase before it, which stays until another is named.
func (d *decoder) phase(section *member, t *Task, policy *string) error {
	members, err := d.object(section)
	if err != nil {
		return err
	}
	ph := Phase{Name: section.key, Loop: 1}
	var s schedule
	var events []*member
	seen := map[string]*member{}
	for i := range members {
		m := &members[i]
		if isEvent(m) {
			events = append(events, m)
			continue
		}
		if err := d.once(seen[m.key], m); err != nil {
			return err
		}
		seen[m.key] = m
		if !slices.Contains(scheduleKeys, m.key) && slices.Contains(threadKeys, m.key) {
			err = d.repair(m.at, m.key, "belongs to the task, not to a phase", "ignored")
		} else {
			err = d.scheduleKey(m, &s, "in a phase", scheduleKeys)
		}
		if err != nil {
			return err
		}
	}
	if s.loop != nil {
		ph.Loop = *s.loop
		if ph.Loop == 0 {
			ph.Loop = -1
			if err := d.endless(seen["loop"]); err != nil {
				return err
			}
		}
	}
	ph.CPUs = s.cpus
	if ph.Nice, ph.SetNice, err = d.nice(&s, *policy); err != nil {
		return err
	}
	if s.policy != "" {
		*policy = s.policy
	}
	if err := d.addEvents(&ph, section, events); err != nil {
		return err
	}
	t.Phases = append(t.Phases, ph)
	return nil
}

// endless is the loop 0 of a phase: rt-app counts its turns and compares afterwards.
func (d *decoder) endless(loop *member) error {
	return d.repair(loop.at, loop.key, "0 makes rt-app repeat the phase without end; write -1", "taken as -1")
}

// schedule is what tasks and phases say about how they want to run.
type schedule struct {
	loop     *int64
	cpus     *kernel.CPUSet
	policy   string
	priority *member
}

func (d *decoder) scheduleKey(m *member, s *schedule, where string, known []string) (err error) {
	switch m.key {
	case "loop":
		n, err := d.integer(m, -1, maxInt)
		s.loop = &n
		return err
	case "priority":
		s.priority = m
		return nil
	case "policy":
		s.policy, err = d.oneOf(m, policies)
		return err
	case "cpus":
		s.cpus, err = d.cpus(m)
		return err
	case "nodes_membind":
		_, err = d.cpus(m)
	case "taskgroup":
		if m.value != nil && m.value.kind == kindString && m.value.text == "" { // none
			return nil
		}
		var text string
		if text, err = d.text(m); err == nil && !strings.HasPrefix(text, "/") {
			err = d.repair(m.at, m.key, fmt.Sprintf("%.40q does not begin with /", text), "ignored")
		}
	case "util_min", "util_max":
		_, err = d.integer(m, -1, 1024)
	case "dl-runtime", "dl-period", "dl-deadline":
		_, err = d.integer(m, 0, maxInt)
	default:
		return d.unknown(m, where, slices.Concat(known, verbNames()))
	}
	d.noEffect(m.key)
	return err
}

// nice reads the priority by the policy that it belongs to: only the fair classes have nice values. A policy that is named
// without a priority sets its default.
func (d *decoder) nice(s *schedule, inherited string) (nice int8, set bool, err error) {
	policy := s.policy
	if policy == "" {
		policy = inherited
	}
	if s.policy != "" && s.policy != "SCHED_OTHER" {
		d.noEffect("policy")
	}
	if s.priority == nil {
		return 0, slices.Contains(fairPolicies, s.policy), nil
	}
	switch policy {
	case "SCHED_RR", "SCHED_FIFO":
		_, err = d.integer(s.priority, 1, 99)
	case "SCHED_DEADLINE":
		_, err = d.integer(s.priority, 0, 99)
	default:
		n, err := d.integer(s.priority, -20, 19)
		return int8(n), err == nil, err
	}
	d.noEffect("priority")
	return 0, false, err
}

// cpus reads a list of CPU or node numbers. The numbers of CPUs make the machine as large as the file needs.
func (d *decoder) cpus(m *member) (*kernel.CPUSet, error) {
	if m.value == nil || m.value.kind != kindArray {
		return nil, d.mistyped(m, "a list of numbers")
	}
	if len(m.value.items) == 0 {
		return nil, d.fail(m.at, m.key, "an empty list leaves nothing to run on")
	}
	set := new(kernel.CPUSet)
	for i := range m.value.items {
		n, err := d.integer(&member{key: m.key, at: m.value.items[i].at, value: &m.value.items[i]}, 0, kernel.MaxCPUs-1)
		if err != nil {
			return nil, err
		}
		set.Add(int32(n))
		if m.key == "cpus" {
			d.file.Pinned.Add(int32(n))
			d.file.CPUs = max(d.file.CPUs, int(n)+1)
		}
	}
	return set, nil
}
