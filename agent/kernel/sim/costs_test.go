package sim

import (
	"math/rand/v2"
	"testing"

	"github.com/ghostgym/ghostgym/agent/kernel"
)

// TestBooksOfAnyCosts: nor does it depend on which costs are free.
func TestBooksOfAnyCosts(t *testing.T) {
	rng := rand.New(rand.NewPCG(9, 9))
	cost := func() kernel.Time { return [...]kernel.Time{0, 0, 300, 1000, 5000}[rng.IntN(5)] }
	for seed := range uint64(120) {
		p := Profile{Name: "any", Model: []kernel.Model{kernel.Inline, kernel.PerCPU, kernel.Global}[seed%3], Shared: seed%3 == 2, Slice: 1000,
			Switch: cost(), Message: cost(), Wake: cost(), CommitLocal: cost(), CommitRemote: cost(), IPI: cost(), Migrate: cost()}
		if books(t, &p, 3, seed); t.Failed() {
			t.Fatalf("%+v", p)
		}
	}
}

// TestAnAssignedTaskStartsAfterItsAssignment: the agent that gets it may have a turn of its own before, and cannot know of it yet.
func TestAnAssignedTaskStartsAfterItsAssignment(t *testing.T) {
	current = t
	m, err := New(Config{Profile: profile(t, "ghost-percpu"), CPUs: 2, Horizon: kernel.Second,
		Workload: &script{tasks: []string{"run 10", "run 10", "sleep 5; run 1"}}})
	if err != nil {
		t.Fatal(err)
	}
	_, msgs, err := m.Poll(nil, kernel.Forever)
	if err != nil || len(msgs) < 2 {
		t.Fatal(msgs, err)
	}
	commit := func(ch kernel.Channel, x kernel.Txn) kernel.Time {
		t.Helper()
		txns := []kernel.Txn{x}
		if err := m.Commit(ch, txns); err != nil || txns[0].State != kernel.StateDone {
			t.Fatalf("%+v, %v", txns, err)
		}
		return txns[0].At
	}
	commit(0, kernel.Txn{Task: msgs[0].Task, CPU: 1, Barrier: 1, Slice: kernel.Forever}) // whose end is a turn of CPU 1's agent
	m.Charge(0, 500*us)
	assigned := commit(0, kernel.Txn{Task: msgs[1].Task, CPU: 1, Barrier: 1, Flags: kernel.TxnAssign})
	ch, _, err := m.Poll(nil, kernel.Forever)
	if err != nil || ch != 1 || m.Now() >= assigned {
		t.Fatalf("channel %d at %d, %v: want 1 before the assignment at %d", ch, m.Now(), err, assigned)
	}
	if starts := commit(1, kernel.Txn{Task: msgs[1].Task, CPU: 1, Barrier: 1, Slice: kernel.Forever}); starts < assigned {
		t.Errorf("it starts at %d and is assigned at %d", starts, assigned)
	}
}

// TestNoCostIsTooGreat: thinking for ever ends no clock.
func TestNoCostIsTooGreat(t *testing.T) {
	current = t
	for _, name := range Profiles() {
		m, err := New(Config{Profile: profile(t, name), CPUs: 2, Horizon: kernel.Second, Workload: &script{tasks: []string{"run 10"}}})
		if err != nil {
			t.Fatal(err)
		}
		_, msgs, err := m.Poll(nil, kernel.Forever)
		if err != nil {
			t.Fatal(err)
		}
		m.Charge(0, kernel.Forever)
		txns := []kernel.Txn{{Task: msgs[0].Task, CPU: 0, Barrier: 1}}
		if err := m.Commit(0, txns); err != nil || txns[0].At < 0 {
			t.Errorf("%s: %+v, %v", name, txns[0], err)
		}
		if _, _, err := m.Poll(nil, kernel.Forever); err != nil || m.Now() != kernel.Second {
			t.Errorf("%s: it is %d, %v", name, m.Now(), err)
		}
		if st := m.Stats(); st.Busy != 0 {
			t.Errorf("%s: tasks ran for %d", name, st.Busy)
		}
	}
}
