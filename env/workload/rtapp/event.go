package rtapp

import (
	"fmt"
	"strings"

	"github.com/ghostgym/ghostgym/agent/kernel"
)

// verbs maps the prefixes by which rt-app knows events; of two that fit, the earlier counts.
var verbs = []struct {
	prefix string
	read   func(d *decoder, m *member, e *Event) error
}{
	{"runtime", readRuntime},
	{"run", timed(Run)},
	{"sleep", timed(Sleep)},
	{"timer", readTimer},
	{"lock", named(Lock)},
	{"unlock", named(Unlock)},
	{"wait", paired(Wait)},
	{"signal", named(Signal)},
	{"broad", named(Broad)},
	{"sync", paired(Sync)},
	{"suspend", readSuspend},
	{"resume", named(Resume)},
	{"sem_post", named(Post)},
	{"sem_wait", named(Acquire)},
	{"barrier", named(Barrier)},
	{"fork", readFork},
	{"yield", readYield},
	{"memrun", readMemrun},
	{"mem", readMem},
	{"iorun", readIO},
}

func verbNames() []string {
	names := make([]string, len(verbs))
	for i := range verbs {
		names[i] = verbs[i].prefix
	}
	return names
}

// isEvent tells events from other keys. "lock_order" belongs to an old grammar.
func isEvent(m *member) bool {
	if m.key == "lock_order" {
		return false
	}
	for i := range verbs {
		if strings.HasPrefix(m.key, verbs[i].prefix) {
			return true
		}
	}
	return false
}

// addEvents decodes the events of a phase of task or phase section.
func (d *decoder) addEvents(ph *Phase, section *member, events []*member) error {
	if len(events) == 0 {
		return d.fail(section.at, section.key, "no event: a thread must do something (%s, ...)", strings.Join(verbNames()[:6], ", "))
	}
	if d.events += len(events); d.events > MaxEvents {
		return d.fail(section.at, section.key, "more than %d events in all", MaxEvents)
	}
	for _, m := range events {
		for i := range verbs {
			if !strings.HasPrefix(m.key, verbs[i].prefix) {
				continue
			}
			var e Event
			if err := verbs[i].read(d, m, &e); err != nil {
				return err
			}
			ph.Events = append(ph.Events, e)
			break
		}
	}
	return nil
}

// timed events have a span in microseconds.
func timed(v Verb) func(*decoder, *member, *Event) error {
	return func(d *decoder, m *member, e *Event) error {
		n, err := d.integer(m, 0, maxInt)
		e.Verb, e.Time = v, kernel.Time(n)*kernel.Microsecond
		return err
	}
}

// readRuntime takes time by the clock for CPU time: the same on a CPU that nobody takes away.
func readRuntime(d *decoder, m *member, e *Event) error {
	d.costed("runtime", "CPU time, which ends later than rt-app's clock does when others take the CPU")
	return timed(Run)(d, m, e)
}

// named events have the name of a resource.
func named(v Verb) func(*decoder, *member, *Event) error {
	return func(d *decoder, m *member, e *Event) (err error) {
		e.Verb = v
		e.Ref, err = d.text(m)
		return err
	}
}

// paired events have a condition and its mutex.
func paired(v Verb) func(*decoder, *member, *Event) error {
	return func(d *decoder, m *member, e *Event) error {
		e.Verb = v
		fields, err := d.fields(m, "ref", "mutex")
		if err != nil {
			return err
		}
		if e.Ref, err = d.textField(m, fields["ref"], "ref", "unknown"); err != nil {
			return err
		}
		e.Mutex, err = d.textField(m, fields["mutex"], "mutex", "unknown")
		return err
	}
}

func readTimer(d *decoder, m *member, e *Event) error {
	e.Verb = Timer
	fields, err := d.fields(m, "ref", "period", "mode")
	if err != nil {
		return err
	}
	if e.Ref, err = d.textField(m, fields["ref"], "ref", "unknown"); err != nil {
		return err
	}
	if f := fields["mode"]; f != nil {
		mode, err := d.oneOf(f, []string{"relative", "absolute"})
		if err != nil {
			return err
		}
		e.Absolute = mode == "absolute"
	}
	period, err := d.intField(m, fields["period"], "period", 0)
	e.Time = kernel.Time(period) * kernel.Microsecond
	return err
}

// readSuspend leaves Ref empty if the event has no name of its own.
func readSuspend(d *decoder, m *member, e *Event) (err error) {
	e.Verb = Suspend
	if m.value != nil && (m.value.kind != kindString || m.value.text != "") {
		e.Ref, err = d.text(m)
	}
	return err
}

func readYield(d *decoder, m *member, e *Event) error {
	e.Verb = Yield
	if m.value != nil && m.value.kind != kindString {
		return d.mistyped(m, "a string, which may be empty, or nothing")
	}
	return nil
}

func readFork(d *decoder, m *member, e *Event) (err error) {
	e.Verb = Fork
	if e.Ref, err = d.text(m); err != nil {
		return err
	}
	if _, ok := d.forks[e.Ref]; !ok {
		d.forks[e.Ref] = m.at
	}
	return nil
}

func readMem(d *decoder, m *member, e *Event) error {
	n, err := d.integer(m, 0, maxInt)
	e.Verb, e.Time = Run, picoseconds(n, fillPsPerByte)
	d.costed("mem", fmt.Sprintf("%.3g ns of CPU time per byte", fillPsPerByte/1e3))
	return err
}

func readMemrun(d *decoder, m *member, e *Event) error {
	e.Verb = Run
	fields, err := d.fields(m, "type", "size", "count", "stride", "pattern", "ref")
	if err != nil {
		return err
	}
	if fields["type"] == nil {
		return d.fail(m.at, m.key, "type is missing: read, write or chase")
	}
	how, err := d.oneOf(fields["type"], []string{"read", "write", "chase"})
	if err != nil {
		return err
	}
	size, err := d.intField(m, fields["size"], "size", 1)
	if err != nil {
		return err
	}
	count, err := d.intField(m, fields["count"], "count", 0)
	if err != nil {
		return err
	}
	if f := fields["stride"]; f != nil {
		if _, err := d.integer(f, 1, maxInt); err != nil {
			return err
		}
	}
	if f := fields["pattern"]; f != nil {
		if _, err := d.oneOf(f, []string{"random", "sequential"}); err != nil {
			return err
		}
	}
	if f := fields["ref"]; f != nil {
		if _, err := d.text(f); err != nil {
			return err
		}
	}
	switch {
	case how != "chase":
		e.Time = picoseconds(count, touchPsPerByte)
	case size <= chaseCache:
		e.Time = kernel.Time(count * chaseNear)
	default:
		e.Time = kernel.Time(count * chaseFar)
	}
	d.costed("memrun", fmt.Sprintf("%.3g ns of CPU time per byte, %d or %d ns per hop of a chase", touchPsPerByte/1e3, chaseNear, chaseFar))
	return nil
}

func readIO(d *decoder, m *member, e *Event) error {
	n, err := d.integer(m, 0, maxInt)
	writes := (n + d.file.memory - 1) / d.file.memory
	e.Verb = IO
	e.Time = kernel.Time(writes)*writeCall + picoseconds(n, fillPsPerByte)
	e.Wait = picoseconds(n, devicePsPerByte)
	d.costed("iorun", fmt.Sprintf("%v of CPU time per write and %.3g ns per byte, then waiting for %.3g ns per byte, whatever io_device is",
		"1 us", fillPsPerByte/1e3, devicePsPerByte/1e3))
	return err
}
