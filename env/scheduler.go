package env

import (
	"cmp"
	"errors"
	"fmt"
	"strings"

	"github.com/ghostgym/ghostgym/agent/kernel"
	"github.com/ghostgym/ghostgym/agent/kernel/sim"
	"github.com/ghostgym/ghostgym/agent/policy"
	"github.com/ghostgym/ghostgym/agent/sched"
	"github.com/ghostgym/ghostgym/agent/spell"
	"github.com/ghostgym/ghostgym/env/workload"
	"github.com/ghostgym/ghostgym/models"
)

// OracleName is the scheduler that knows the future. It is no policy: only a simulator has it.
const OracleName = "oracle"

var oracle = policy.Entry{
	Name: OracleName, Doc: "shortest remaining time, known from the future: a yardstick, in simulation only", Orders: policy.Key,
}

// Schedulers are the policies, and the oracle.
func Schedulers() []policy.Entry { return append(policy.Entries(), oracle) }

// DefaultFallback is the heuristic that answers where a model cannot, when none is named.
func DefaultFallback(order sched.Order) string {
	if order == sched.ByKey {
		return "las"
	}
	return "rr"
}

// Scheduler is what a name policy[+wp][@profile] stands for, with the model that answers for "learned".
type Scheduler struct {
	text     string
	spec     policy.Spec
	entry    policy.Entry
	order    sched.Order
	model    *models.Model
	fallback string
}

// ParseScheduler resolves a name. model answers for "learned" and may be nil otherwise; fallback is the heuristic that answers
// where it cannot; "" is DefaultFallback.
func ParseScheduler(text string, model *models.Model, fallback string) (*Scheduler, error) {
	s := &Scheduler{text: text, model: model, fallback: fallback}
	head := text
	if rest, ok := strings.CutPrefix(text, OracleName); ok && (rest == "" || rest[0] == '+' || rest[0] == '@') {
		head = "las" + rest // the grammar of what follows the name is the same
		s.entry = oracle
	}
	spec, err := policy.ParseSpec(head, sim.Profiles()...)
	if err != nil {
		return nil, refineSpec(text, err)
	}
	s.spec = spec
	if s.entry.Name == "" {
		if s.entry, err = policy.Find(spec.Policy); err != nil {
			return nil, AsConfig(err)
		}
	}
	if s.entry.NeedsModel {
		if model == nil {
			return nil, badConfig("scheduler %q: it needs a model", text)
		}
		if err := model.Check(); err != nil {
			return nil, badConfig("scheduler %q: %w", text, err)
		}
		s.order = model.Schema().Order()
		if spec.Preempt && s.order != sched.ByKey {
			return nil, badConfig("scheduler %q: wakeup preemption (+wp) needs keys, and this model names slots", text)
		}
		if fallback == "" {
			s.fallback = DefaultFallback(s.order)
		}
		_, err := model.NewPolicy(s.fallback) // what it would refuse, it refuses now
		if err != nil {
			return nil, AsConfig(err)
		}
		return s, nil
	}
	if s.order, err = s.entry.Orders.Choose(spec.Preempt); err != nil {
		return nil, badConfig("scheduler %q: %w", text, err)
	}
	if fallback != "" { // it is not asked, but a name that is none is a mistake
		if _, err := policy.FindFallback(fallback, policy.Slot|policy.Key); err != nil {
			return nil, AsConfig(err)
		}
	}
	return s, nil
}

// refineSpec offers the oracle, too, where a name is that of no policy.
func refineSpec(text string, err error) error {
	name, _, _ := strings.Cut(text, "@")
	name, _, _ = strings.Cut(name, "+")
	if _, unknown := policy.Find(name); name == "" || unknown == nil || name == OracleName {
		return AsConfig(err)
	}
	names := append(policy.Names(), OracleName)
	return badConfig("scheduler %q: policy %q is unknown: want one of %s%s", text, name, strings.Join(names, ", "), spell.Hint(name, names))
}

// String is the name as it was given.
func (s *Scheduler) String() string { return s.text }

// Learned reports whether a model answers.
func (s *Scheduler) Learned() bool { return s.entry.NeedsModel }

// Warnings words what of an instance lies outside the ranges that the model was trained on.
func (s *Scheduler) Warnings(in *workload.Instance) []string {
	if !s.Learned() {
		return nil
	}
	values := map[string]float64{"cpus": float64(in.CPUs)}
	for name, x := range map[string]float64{"load": in.Params.Load, "scale": in.Params.Scale} {
		if x != 0 { // files have neither
			values[name] = x
		}
	}
	return s.model.Outside(values)
}

// Profile is the machine's profile for an instance: the scheduler's own, or else the instance's.
func (s *Scheduler) Profile(in *workload.Instance) (*sim.Profile, error) {
	return sim.LoadProfile(cmp.Or(s.spec.Profile, in.Profile))
}

// Notes words what a reader of results must know of an instance on the machine that the scheduler runs on.
func (s *Scheduler) Notes(in *workload.Instance) []string {
	p, err := s.Profile(in)
	if err != nil {
		return nil
	}
	cpus := machineCPUs(p, in)
	if cpus > in.CPUs {
		return []string{fmt.Sprintf("tasks are pinned to CPU %d, the last: on %s the machine has one more, for the agent", in.CPUs-1, p.Name)}
	}
	if p.Model == kernel.Global {
		cpus-- // the agent has one for itself
	}
	each := 1 + float64(p.Switch)/float64(in.MeanBurst)
	load := in.Params.Load * each * float64(in.CPUs) / float64(cpus)
	if !in.Open || load < 1 {
		return nil
	}
	return []string{fmt.Sprintf("offered load %.2f, with one switch a burst, of the %d CPUs that run tasks on %s: it never settles",
		load, cpus, p.Name)}
}

// machineCPUs is how many CPUs an instance's machine has.
func machineCPUs(p *sim.Profile, in *workload.Instance) int {
	if p.Model == kernel.Global && in.Pinned.Has(int32(in.CPUs-1)) {
		return in.CPUs + 1 // the agent takes the last, and tasks that are pinned to it would never run
	}
	return in.CPUs
}

// Policy is a new instance of what answers, for one machine.
func (s *Scheduler) Policy(m *Machine) (policy.Policy, error) {
	switch {
	case s.entry.Name == OracleName:
		return &Oracle{Sim: &m.Sim}, nil
	case s.Learned():
		return s.model.NewPolicy(s.fallback)
	}
	return s.entry.New(policy.Config{})
}

// Setup fills in what a scheduler determines of a machine's setup, p being an instance of its policy.
func (s *Scheduler) Setup(setup *Setup, p policy.Policy) error {
	if p == nil {
		return errors.New("env: a policy is needed")
	}
	setup.Order, setup.Preempt, setup.ToBlock, setup.Policy = s.order, s.spec.Preempt, s.entry.RunToBlock, p
	if s.spec.Profile != "" {
		if setup.Profile != "" && setup.Profile != s.spec.Profile {
			return badConfig("scheduler %q: profile %q is asked for besides", s.text, setup.Profile)
		}
		setup.Profile = s.spec.Profile
	}
	return nil
}
