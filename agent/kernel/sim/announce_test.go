package sim

import (
	"errors"
	"testing"

	"github.com/ghostgym/ghostgym/agent/kernel"
)

// dressed changes its own nice value and CPUs when it is first asked what it does, which is before it is announced.
type dressed struct{ asked int }

func (d *dressed) Next(m *Sim, self kernel.TaskID) Op {
	if d.asked++; d.asked > 1 {
		return Op{Kind: OpExit}
	}
	var second kernel.CPUSet
	second.Add(1)
	m.SetNice(self, 7)
	m.SetAffinity(self, second)
	return Op{Kind: OpRun, Time: us}
}

// TestTheFirstMessageAnnounces: what a program changes in its first Next is in TaskNew, and nothing is said of the task before.
func TestTheFirstMessageAnnounces(t *testing.T) {
	p, err := LoadProfile("ideal")
	if err != nil {
		t.Fatal(err)
	}
	m, err := New(Config{Profile: p, CPUs: 2, Horizon: kernel.Second, Workload: endlessLoad{&dressed{}}})
	if err != nil {
		t.Fatal(err)
	}
	_, msgs, err := m.Poll(nil, kernel.Forever)
	if err != nil || len(msgs) != 1 {
		t.Fatalf("%v, %v", msgs, err)
	}
	if x := msgs[0]; x.Type != kernel.TaskNew || x.Seq != 1 || x.Nice != 7 || x.Flags != kernel.FlagRunnable|kernel.FlagPinned {
		t.Errorf("%+v", x)
	}
	if set := m.Affinity(msgs[0].Task); set.Has(0) || !set.Has(1) {
		t.Errorf("it may use %v", set)
	}
}

// TestLivelocksNameTaskAndOp: also those that pass through the agent, as a task that yields or sleeps for nothing does.
func TestLivelocksNameTaskAndOp(t *testing.T) {
	p, err := LoadProfile("ideal")
	if err != nil {
		t.Fatal(err)
	}
	for _, kind := range []OpKind{OpNop, OpYield, OpSleep} {
		m, err := New(Config{Profile: p, CPUs: 1, Horizon: kernel.Second, Workload: endlessLoad{&scripted{ops: []Op{{Kind: kind}}, loop: true}}})
		if err != nil {
			t.Fatal(err)
		}
		d := driver{m: m, slice: kernel.Forever, maximum: 2 * opLimit}
		d.run()
		_, _, err = m.Poll(nil, kernel.Forever)
		var live *LivelockError
		if !errors.As(err, &live) || live.Task != "spinner" || live.Op != kind || live.At != 0 {
			t.Errorf("%v: %v after %d turns", kind, err, d.turns)
		}
	}
}
