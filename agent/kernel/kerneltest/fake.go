package kerneltest

import (
	"github.com/ghostgym/ghostgym/agent/kernel"
)

// Step is what a Fake answers to one Poll.
type Step struct {
	At       kernel.Time
	Channel  kernel.Channel
	Messages []kernel.Message
	Err      error
}

// Fake is a scripted kernel: it answers each Poll with the next step, but not before the instant of the step, and records what is
// committed. When the script is over, nothing is left to schedule.
type Fake struct {
	Topo    kernel.Topology
	Steps   []Step
	Outcome func(x *kernel.Txn) kernel.TxnState // nil: everything is done
	Commits [][]kernel.Txn                      // as they were answered
	Fail    error                               // of Commit
	Charged kernel.Time
	Closed  int
	now     kernel.Time
}

// NewFake makes a fake with the CPUs given, on one channel.
func NewFake(cpus int, steps ...Step) *Fake {
	f := &Fake{Steps: steps, Topo: kernel.Topology{CPUs: make([]kernel.CPU, cpus), Channels: make([]kernel.CPUSet, 1)}}
	for n := range cpus {
		f.Topo.Channels[0].Add(int32(n))
	}
	return f
}

// Topology implements kernel.Kernel.
func (f *Fake) Topology() *kernel.Topology { return &f.Topo }

// Now implements kernel.Kernel.
func (f *Fake) Now() kernel.Time { return f.now }

// Poll implements kernel.Kernel.
func (f *Fake) Poll(dst []kernel.Message, until kernel.Time) (kernel.Channel, []kernel.Message, error) {
	if len(f.Steps) == 0 {
		if until == kernel.Forever {
			return -1, dst, kernel.ErrDone
		}
		f.now = max(f.now, until)
		return -1, dst, nil
	}
	s := f.Steps[0]
	if s.At > until {
		f.now = max(f.now, until)
		return -1, dst, nil
	}
	f.Steps = f.Steps[1:]
	f.now = max(f.now, s.At)
	return s.Channel, append(dst, s.Messages...), s.Err
}

// Commit implements kernel.Kernel.
func (f *Fake) Commit(_ kernel.Channel, txns []kernel.Txn) error {
	if f.Fail != nil {
		return f.Fail
	}
	for i := range txns {
		txns[i].State, txns[i].At = kernel.StateDone, f.now
		if f.Outcome != nil {
			txns[i].State = f.Outcome(&txns[i])
		}
	}
	f.Commits = append(f.Commits, append([]kernel.Txn(nil), txns...))
	return nil
}

// Affinity implements kernel.Kernel: every CPU.
func (f *Fake) Affinity(kernel.TaskID) kernel.CPUSet { return f.Topo.Channels[0] }

// Charge records what the agent was charged for thinking.
func (f *Fake) Charge(_ kernel.Channel, d kernel.Time) { f.Charged += d }

// Close implements kernel.Kernel.
func (f *Fake) Close() error {
	f.Closed++
	return nil
}
