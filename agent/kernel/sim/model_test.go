package sim

import (
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/ghostgym/ghostgym/agent/kernel"
)

func profile(t testing.TB, name string) *Profile {
	t.Helper()
	p, err := LoadProfile(name)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// unruly is an agent that does everything allowed at random: thinks, acts on deadlines of its own, by any channel, replaces running
// tasks, renews slices, takes tasks off and assigns them.
type unruly struct {
	m     *Sim
	rng   *rand.Rand
	seq   map[kernel.TaskID]uint32
	known []kernel.TaskID
}

func (u *unruly) turn(ch kernel.Channel) error {
	topo := u.m.Topology()
	if u.rng.IntN(4) == 0 {
		u.m.Charge(ch, kernel.Time(u.rng.IntN(5000)))
	}
	var txns []kernel.Txn
	for range u.rng.IntN(4) {
		if len(u.known) == 0 {
			break
		}
		id := u.known[u.rng.IntN(len(u.known))]
		x := kernel.Txn{Task: id, CPU: int32(u.rng.IntN(len(topo.CPUs) + 1)), Barrier: u.seq[id], Slice: kernel.Time(1 + u.rng.IntN(40000))}
		switch u.rng.IntN(12) {
		case 0:
			x.Flags = kernel.TxnAssign
		case 1:
			x.Task = 0
		case 2:
			x.Flags = kernel.TxnIdleOnly
		case 3:
			x.Barrier--
		}
		txns = append(txns, x)
	}
	return u.m.Commit(ch, txns)
}

func (u *unruly) take(msgs []kernel.Message) {
	for _, x := range msgs {
		u.seq[x.Task] = x.Seq
		switch x.Type {
		case kernel.TaskNew:
			u.known = append(u.known, x.Task)
		case kernel.TaskDead:
			for i, id := range u.known {
				if id == x.Task {
					u.known = append(u.known[:i], u.known[i+1:]...)
					break
				}
			}
		}
	}
}

// consistent holds the machine's books against each other.
func consistent(t *testing.T, m *Sim) {
	t.Helper()
	waiting, alive := 0, 0
	on := map[int32]int32{}
	for n := range m.cpus {
		if s := m.cpus[n].task; s >= 0 {
			if other, twice := on[s]; twice {
				t.Fatalf("task %d is on CPUs %d and %d", s, other, n)
			}
			on[s] = int32(n)
			if x := &m.tasks[s]; x.state != onCPU || x.cpu != int32(n) || m.topo.CPUs[n].Agent {
				t.Fatalf("CPU %d has task %d, whose state is %d on CPU %d", n, s, x.state, x.cpu)
			}
			if ch := &m.chans[m.cpus[n].channel]; m.cfg.Profile.Model == kernel.PerCPU && !m.cpus[n].paused {
				if reads := ch.ready != kernel.Forever && ch.ready > m.now; reads || ch.busy > m.now && m.cpus[n].start < ch.busy {
					t.Fatalf("task %d runs on CPU %d, whose agent is busy until %d or reads until %d; it is %d", s, n, ch.busy, ch.ready, m.now)
				}
			}
		} else if m.until[n] != kernel.Forever || m.cpus[n].paused {
			t.Fatalf("CPU %d has no task and an event at %d, paused %v", n, m.until[n], m.cpus[n].paused)
		}
	}
	for s := range m.tasks {
		switch x := &m.tasks[s]; x.state {
		case ready:
			waiting++
		case onCPU:
			if on[int32(s)] != x.cpu {
				t.Fatalf("task %d is not on CPU %d", s, x.cpu)
			}
		case gone:
			continue
		}
		alive++
	}
	for i := range m.chans {
		if next := min(m.chans[i].ready, m.chans[i].begin); m.turns[i] != next {
			t.Fatalf("channel %d is due at %d, noted %d", i, next, m.turns[i])
		}
	}
	if waiting != m.ready || alive != m.alive {
		t.Fatalf("%d tasks wait and %d live, counted %d and %d", waiting, alive, m.ready, m.alive)
	}
}

// TestBooks: whatever an agent does, no task is on two CPUs or where an agent works, counters agree, CPU time of tasks is that of CPUs,
// and agents and tasks together have no more time than there was.
func TestBooks(t *testing.T) {
	for _, name := range Profiles() {
		t.Run(name, func(t *testing.T) {
			least := 1
			if profile(t, name).Model == kernel.Global {
				least = 2
			}
			for seed := range uint64(8) {
				books(t, profile(t, name), least, seed)
				books(t, profile(t, name), 4, seed)
			}
		})
	}
}

func books(t *testing.T, p *Profile, cpus int, seed uint64) {
	m, err := New(Config{Profile: p, CPUs: cpus, Horizon: 20 * kernel.Millisecond, Slack: 3000, Seed: seed, Workload: &churn{}})
	if err != nil {
		t.Fatal(err)
	}
	u := &unruly{m: m, rng: rand.New(rand.NewPCG(seed, 1)), seq: map[kernel.TaskID]uint32{}}
	for turns := 0; m.Now() < m.Horizon(); turns++ {
		if turns > 100000 {
			t.Fatal("time does not pass")
		}
		ch, msgs, err := m.Poll(nil, m.Now()+kernel.Time(u.rng.IntN(10000)))
		if err != nil {
			t.Fatal(err)
		}
		u.take(msgs)
		if ch < 0 {
			ch = kernel.Channel(u.rng.IntN(len(m.Topology().Channels)))
		}
		consistent(t, m)
		if err := u.turn(ch); err != nil {
			t.Fatal(err)
		}
		consistent(t, m)
	}
	st := m.Stats()
	var carried, refused int
	for state, n := range st.Outcomes {
		if kernel.TxnState(state) == kernel.StateDone {
			carried += int(n)
		} else {
			refused += int(n)
		}
	}
	if carried < 100 || refused < 100 {
		t.Errorf("%d transactions carried out, %d refused", carried, refused)
	}
	var busy, ahead kernel.Time
	for n := range cpus {
		busy += m.CPUBusy(int32(n))
	}
	for i := range m.chans { // what agents are charged with, but have yet to do
		until := m.chans[i].busy
		if r := m.chans[i].ready; r != kernel.Forever {
			until = max(until, r)
		}
		ahead += max(until-m.now, 0)
	}
	if busy != st.Busy {
		t.Errorf("tasks were busy for %d, CPUs for %d", st.Busy, busy)
	}
	switch all := kernel.Time(cpus) * m.Now(); m.cfg.Profile.Model {
	case kernel.PerCPU:
		if st.Busy+st.Agent > all+ahead {
			t.Errorf("%d CPUs: tasks had %d, agents %d (%d of it ahead) of %d", cpus, st.Busy, st.Agent, ahead, all)
		}
	case kernel.Global:
		if st.Agent > m.Now()+ahead || st.Busy > all-m.Now() {
			t.Errorf("%d CPUs: tasks had %d of %d, the agent %d (%d of it ahead) of %d", cpus, st.Busy, all-m.Now(), st.Agent, ahead, m.Now())
		}
	}
}

// TestAtIsWhenTheTaskStarts: a granted task's CPU time counts from Txn.At on, to its next message. Under PerCPU that holds where its
// agent had no other turn in between, which paused it.
func TestAtIsWhenTheTaskStarts(t *testing.T) {
	const slice = 20 * us
	for _, name := range Profiles() {
		p := *profile(t, name)
		p.Migrate = 700
		m, err := New(Config{Profile: &p, CPUs: 3, Horizon: 50 * kernel.Millisecond, Seed: 4, Workload: &churn{}})
		if err != nil {
			t.Fatal(err)
		}
		type grant struct {
			at   kernel.Time
			turn int // of its channel
		}
		d := driver{m: m, slice: slice}
		grants := map[kernel.TaskID]grant{}
		used := map[kernel.TaskID]kernel.Time{}
		turns := map[kernel.Channel]int{}
		last := kernel.Channel(0) // whose turn the driver's transactions are of
		checked := 0
		d.check = func(ch kernel.Channel, msgs []kernel.Message) {
			for _, x := range d.txns {
				if x.State == kernel.StateDone {
					grants[x.Task] = grant{x.At, turns[last]}
				}
			}
			last = ch
			turns[ch]++
			for i, x := range msgs {
				g, granted := grants[x.Task]
				if !granted || x.Type == kernel.TaskNew || x.Type == kernel.TaskWakeup {
					continue
				}
				stay := x.Runtime - used[x.Task]
				exact := p.Model != kernel.PerCPU || i == 0 && g.turn == turns[ch]-1
				if stay > x.Time-g.at || exact && stay != x.Time-g.at || stay > slice {
					t.Fatalf("%s: task %v was granted its CPU at %d, left it at %d and used %d", name, x.Task, g.at, x.Time, stay)
				}
				used[x.Task] = x.Runtime
				delete(grants, x.Task)
				if exact {
					checked++
				}
			}
		}
		d.run()
		if checked < 200 {
			t.Errorf("%s: only %d stays on a CPU", name, checked)
		}
	}
}

// TestNewSlices: a task that is granted its own CPU anew goes on, and its new slice counts from Txn.At.
func TestNewSlices(t *testing.T) {
	current = t
	for _, name := range Profiles() {
		m, err := New(Config{Profile: profile(t, name), CPUs: 2, Horizon: kernel.Second, Workload: &script{tasks: []string{"run 100"}}})
		if err != nil {
			t.Fatal(err)
		}
		d := driver{m: m, slice: 50 * us, maximum: 1}
		d.run()
		first := d.txns[0]
		if ch, _, err := m.Poll(nil, 30*us); ch != -1 || err != nil {
			t.Fatalf("%s: %d %v", name, ch, err)
		}
		txns := []kernel.Txn{{Task: first.Task, CPU: first.CPU, Barrier: first.Barrier, Slice: 40 * us}}
		if err := m.Commit(0, txns); err != nil || txns[0].State != kernel.StateDone {
			t.Fatalf("%s: %+v, %v", name, txns, err)
		}
		_, msgs, err := m.Poll(nil, kernel.Forever)
		if err != nil || len(msgs) != 1 || msgs[0].Flags != kernel.FlagSlice || msgs[0].Time != txns[0].At+40*us {
			t.Errorf("%s: %+v, %v; the new slice was granted at %d", name, msgs, err, txns[0].At)
		}
	}
}

// TestStreams: a stream depends on seed, episode, kind and index, each of them, and not on what the machine did.
func TestStreams(t *testing.T) {
	m, err := New(Config{Profile: profile(t, "ideal"), CPUs: 2, Horizon: kernel.Millisecond, Seed: 7, Episode: 2, Workload: &churn{}})
	if err != nil {
		t.Fatal(err)
	}
	type pair struct{ a, b uint64 }
	of := func(kind, index uint64) pair { a, b := m.Stream(kind, index); return pair{a, b} }
	first := of(3, 4)
	d := driver{m: m, slice: 10 * us}
	d.run()
	if of(3, 4) != first {
		t.Error("a stream changed while the machine ran")
	}
	seen := map[pair]bool{}
	n := 0
	for seed := range uint64(4) {
		for episode := range uint64(4) {
			m.cfg.Seed, m.cfg.Episode = seed, episode
			for kind := range uint64(4) {
				for index := range uint64(32) {
					n++
					seen[of(kind, index)] = true
				}
			}
		}
	}
	if len(seen) != n {
		t.Errorf("%d streams, %d of them different", n, len(seen))
	}
}

// TestOwnersThatExit: who exits with a mutex keeps it, also when another task has the slot.
func TestOwnersThatExit(t *testing.T) {
	current = t
	m, err := New(Config{Profile: profile(t, "ideal"), CPUs: 1, Horizon: kernel.Second, Workload: &script{
		objects: []string{"mutex"}, tasks: []string{"lock 0; run 1; exit", "run 5; lock 0"}}})
	if err != nil {
		t.Fatal(err)
	}
	d := driver{m: m, slice: kernel.Forever, maximum: 2}
	d.run()
	heir := m.Spawn(TaskSpec{Name: "heir", Program: &scripted{ops: []Op{{Kind: OpSuspend}}}})
	if heir.Slot() != 0 || heir.Generation() != 2 {
		t.Errorf("the slot of the dead task was free, and %v was made", heir)
	}
	d.maximum = 0
	d.run()
	var said []string
	for _, w := range m.Waits() {
		said = append(said, w.String())
	}
	want := "heir waits for a resume; t1 waits for mutex a, held by a task that has exited"
	if got := strings.Join(said, "; "); got != want || !m.Deadlocked() {
		t.Errorf("%q; want %q; deadlocked %v", got, want, m.Deadlocked())
	}
}

// TestSlotsWaitForTheirNews: a slot is not used again before the agent has read that its task is dead.
func TestSlotsWaitForTheirNews(t *testing.T) {
	current = t
	m, err := New(Config{Profile: profile(t, "ghost-global"), CPUs: 2, Horizon: kernel.Second, Workload: &script{tasks: []string{"run 10"}}})
	if err != nil {
		t.Fatal(err)
	}
	d := driver{m: m, slice: kernel.Forever, maximum: 1}
	d.run()
	if _, _, err := m.Poll(nil, d.txns[0].At+10*us+1); err != nil || m.Stats().Finished != 1 {
		t.Fatalf("%d finished, %v", m.Stats().Finished, err)
	}
	if id := m.Spawn(TaskSpec{Program: &scripted{}}); id.Slot() == 0 {
		t.Errorf("%v was made before the end of the first was read", id)
	}
	if ch, msgs, err := m.Poll(nil, kernel.Forever); ch != 0 || err != nil || msgs[0].Type != kernel.TaskDead {
		t.Fatalf("%d %v %v", ch, msgs, err)
	}
	if id := m.Spawn(TaskSpec{Program: &scripted{}}); id != kernel.MakeTaskID(0, 2) {
		t.Errorf("%v was made after the end of the first was read", id)
	}
}

// TestHogs: a task that runs for ever keeps its CPU busy up to the horizon, and is no deadlock.
func TestHogs(t *testing.T) {
	m, err := New(Config{Profile: profile(t, "ideal"), CPUs: 1, Horizon: kernel.Second,
		Workload: endlessLoad{&scripted{ops: []Op{{Kind: OpRun, Time: kernel.Forever}}}}})
	if err != nil {
		t.Fatal(err)
	}
	d := driver{m: m, slice: kernel.Forever}
	d.run()
	if m.Now() != kernel.Second || m.Stats().Busy != kernel.Second || m.Deadlocked() {
		t.Errorf("busy for %d at %d, deadlocked %v", m.Stats().Busy, m.Now(), m.Deadlocked())
	}
}

// TestMessagesTellTheTimeUsed: also those that do not take the task from its CPU.
func TestMessagesTellTheTimeUsed(t *testing.T) {
	current = t
	m, err := New(Config{Profile: profile(t, "ideal"), CPUs: 2, Horizon: kernel.Second, Workload: &script{tasks: []string{"run 100"}}})
	if err != nil {
		t.Fatal(err)
	}
	d := driver{m: m, slice: kernel.Forever, maximum: 1}
	d.run()
	if _, _, err := m.Poll(nil, 30*us); err != nil {
		t.Fatal(err)
	}
	id := d.txns[0].Task
	m.SetNice(id, 5)
	var second kernel.CPUSet
	second.Add(1)
	m.SetAffinity(id, second)
	_, msgs, err := m.Poll(nil, kernel.Forever)
	if err != nil || len(msgs) != 3 {
		t.Fatalf("%v %v", msgs, err)
	}
	for i, want := range []kernel.MsgType{kernel.TaskPriority, kernel.TaskAffinity, kernel.TaskPreempt} {
		if x := msgs[i]; x.Type != want || x.Runtime != 30*us || x.Seq != uint32(2+i) || x.Nice != 5 {
			t.Errorf("%+v; want %v after 30 us", x, want)
		}
	}
	txns := []kernel.Txn{{Task: id, CPU: 0, Barrier: 4}, {Task: id, CPU: 1, Barrier: 4, Slice: 20 * us}}
	if err := m.Commit(0, txns); err != nil || txns[0].State != kernel.StateInvalidCPU || txns[1].State != kernel.StateDone {
		t.Fatalf("%+v, %v", txns, err)
	}
	if _, msgs, err := m.Poll(nil, kernel.Forever); err != nil || msgs[0].Time != 50*us || msgs[0].Runtime != 50*us || msgs[0].Flags != kernel.FlagSlice {
		t.Errorf("%+v, %v", msgs, err)
	}
}

// mother spawns a task inside of each Next, many enough for the table of tasks to move.
type mother struct{ left int }

func (p *mother) Next(m *Sim, _ kernel.TaskID) Op {
	if p.left--; p.left < 0 {
		return Op{Kind: OpExit}
	}
	for range 3 {
		m.Spawn(TaskSpec{Program: &scripted{ops: []Op{{Kind: OpRun, Time: us}}}})
	}
	return [...]Op{{Kind: OpRun, Time: 3 * us}, {Kind: OpSleep, Time: us}, {Kind: OpYield}, {Kind: OpNop}}[p.left%4]
}

func TestSpawningInsideOfNext(t *testing.T) {
	for _, name := range Profiles() {
		m, err := New(Config{Profile: profile(t, name), CPUs: 2, Horizon: kernel.Second, Workload: endlessLoad{&mother{left: 200}}})
		if err != nil {
			t.Fatal(err)
		}
		d := driver{m: m, slice: 2 * us, check: func(kernel.Channel, []kernel.Message) { consistent(t, m) }}
		d.run()
		if st := m.Stats(); st.Finished != 601 || st.Spawned != 601 || st.Busy != 600*us+150*us {
			t.Errorf("%s: %d spawned, %d finished, busy %d", name, st.Spawned, st.Finished, st.Busy)
		}
	}
}

// TestInterruptedReading: an agent that thinks before it has read everything goes on reading afterwards, for as long as was left.
func TestInterruptedReading(t *testing.T) {
	current = t
	for _, name := range []string{"ghost-percpu", "ghost-global"} {
		p := *profile(t, name)
		p.Message = 10 * us
		m, err := New(Config{Profile: &p, CPUs: 2, Horizon: kernel.Second, Workload: &script{tasks: []string{"run 100", "run 100", "run 100"}}})
		if err != nil {
			t.Fatal(err)
		}
		if ch, _, err := m.Poll(nil, 5*us); ch != -1 || err != nil {
			t.Fatalf("%s: %d %v", name, ch, err)
		}
		m.Charge(0, 7*us)
		if ch, msgs, err := m.Poll(nil, kernel.Forever); ch != 0 || len(msgs) != 3 || err != nil || m.Now() != 37*us {
			t.Errorf("%s: channel %d has read %d messages at %d, %v; want 3 at 37 us", name, ch, len(msgs), m.Now(), err)
		}
	}
}

// TestOwnCPUIsFreeLast: an agent's own CPU is its task's once all of its transactions are done.
func TestOwnCPUIsFreeLast(t *testing.T) {
	current = t
	p := *profile(t, "ghost-percpu")
	p.CommitRemote = 5 * us
	m, err := New(Config{Profile: &p, CPUs: 2, Horizon: kernel.Second, Workload: &script{tasks: []string{"run 10", "run 10"}}})
	if err != nil {
		t.Fatal(err)
	}
	_, msgs, err := m.Poll(nil, kernel.Forever)
	if err != nil || len(msgs) != 2 {
		t.Fatalf("%v %v", msgs, err)
	}
	txns := []kernel.Txn{{Task: msgs[0].Task, CPU: 0, Barrier: 1}, {Task: msgs[1].Task, CPU: 1, Barrier: 1, Flags: kernel.TxnAssign}}
	if err := m.Commit(0, txns); err != nil {
		t.Fatal(err)
	}
	busy := m.Now() + p.CommitLocal + p.CommitRemote
	if txns[0].At != busy+p.Switch || txns[1].At != busy+p.IPI {
		t.Errorf("%+v; the agent is busy until %d", txns, busy)
	}
	if ch, _, err := m.Poll(nil, kernel.Forever); ch != 1 || err != nil || m.Now() != txns[1].At+p.Wake {
		t.Errorf("the other agent has read nothing at %d: channel %d, %v", m.Now(), ch, err)
	}
	if _, msgs, err := m.Poll(nil, kernel.Forever); err != nil || msgs[0].Type != kernel.TaskDead || msgs[0].Time != txns[0].At+10*us {
		t.Errorf("%+v, %v", msgs, err)
	}
}
