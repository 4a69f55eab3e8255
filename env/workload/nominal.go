package workload

import (
	"fmt"

	"github.com/ghostgym/ghostgym/agent/kernel"
	"github.com/ghostgym/ghostgym/env/workload/internal/fifo"
)

// Bounds of the measurement of a file.
const (
	nominalSpan   = 2 * kernel.Second
	nominalEvents = 500_000    // of the simulator
	nominalLooks  = 20_000_000 // of the scheduler: pinned tasks make it search long queues in vain
)

// effort is the work that a measurement took.
type effort struct{ events, looks uint64 }

// measure settles the nominal interarrival and burst of a workload whose tasks drive each other, so that no formula gives
// them: as they are first come, first served on the file's machine without costs, within the first nominalSpan, nominalEvents
// and nominalLooks. Where nothing ends a burst in that time, both are the span.
func (in *Instance) measure() (effort, error) {
	span := min(nominalSpan, in.Duration)
	m, err := fifo.Machine(in.Workload, in.CPUs, span, in.Slack, 0)
	if err != nil {
		return effort{}, fmt.Errorf("workload %s: %w", in.Name, err)
	}
	var runtime []kernel.Time // by slot, at the end of the last burst
	var bursts, work kernel.Time
	d := fifo.Driver{See: func(msg *kernel.Message) {
		if msg.Task == 0 {
			return
		}
		slot := int(msg.Task.Slot())
		for slot >= len(runtime) {
			runtime = append(runtime, 0)
		}
		switch msg.Type {
		case kernel.TaskNew:
			runtime[slot] = 0
		case kernel.TaskBlocked, kernel.TaskDead:
			if n := msg.Runtime - runtime[slot]; n > 0 {
				bursts++
				work += n
				runtime[slot] = msg.Runtime
			}
		}
	}}
	d.Stop = func() bool { return m.Stats().Events >= nominalEvents || d.Looks >= nominalLooks }
	if _, err := d.Run(m, span); err != nil {
		return effort{}, fmt.Errorf("workload %s: %w", in.Name, err)
	}
	in.Interarrival, in.MeanBurst = span, span
	if bursts > 0 {
		in.Interarrival, in.MeanBurst = max(1, m.Now()/bursts), max(1, work/bursts)
	}
	return effort{m.Stats().Events, d.Looks}, nil
}
