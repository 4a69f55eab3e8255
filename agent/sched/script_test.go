package sched

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/ghostgym/ghostgym/agent/kernel"
)

var update = flag.Bool("update", false, "rewrite the transcripts in testdata")

// TestScripts runs every scenario in testdata. A script is a list of commands; below each stands what the core did, as a transcript
// that -update rewrites. Lines that begin with "#" tell the story.
//
//	core cpus=2 queues=1 order=key wp slice=1ms age=1s events=default inflight=4 ttl=10ms switch=2us (until a task has its CPU)
//	at 10us new 1 | wake 1 | block 1 5us | preempt 1 5us slice | yield 1 5us | dead 1 5us | busy 0 | available 0   (several: ";")
//	    a turn of channel 0, or of "ch=N"; "refuse=stale": its first transaction; observes, and shows the batch. Times after block etc. are CPU time used since last on CPU.
//	place key=3 slot=2 …        answers the batch in order ("key=nan" too), acts, and all transactions are done, or "refuse=stale"
//	default | hold=50us         async and hold: default places
//	answer id=1 task=1 key=2    an answer after its turn
//	expire                      what is due at the time of the last "at"
//	stop
//	show                        queues, CPUs, fates
func TestScripts(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("no scripts: %v", err)
	}
	for _, f := range files {
		t.Run(strings.TrimSuffix(filepath.Base(f), ".txt"), func(t *testing.T) {
			b, err := os.ReadFile(f)
			if err != nil {
				t.Fatal(err)
			}
			var got strings.Builder
			r := &script{t: t, out: &got, gen: map[uint32]uint32{}, seq: map[kernel.TaskID]uint32{}, run: map[kernel.TaskID]Time{}}
			for _, line := range strings.Split(strings.TrimRight(string(b), "\n"), "\n") {
				if strings.HasPrefix(line, "    ") {
					continue
				}
				fmt.Fprintln(&got, line)
				if s := strings.TrimSpace(line); s != "" && s[0] != '#' {
					r.command(s)
				}
			}
			if *update {
				if err := os.WriteFile(f, []byte(got.String()), 0o644); err != nil {
					t.Fatal(err)
				}
				return
			}
			if got.String() != string(b) {
				t.Errorf("%s differs; run go test -update and read the difference\n%s", f, got.String())
			}
		})
	}
}

type script struct {
	t    *testing.T
	core *Core
	out  *strings.Builder
	now  Time
	cost Time // of a switch
	ch   kernel.Channel
	gen  map[uint32]uint32
	seq  map[kernel.TaskID]uint32
	run  map[kernel.TaskID]Time
}

func (r *script) printf(format string, args ...any) { fmt.Fprintf(r.out, "    "+format+"\n", args...) }

func span(s string) Time {
	for _, u := range []struct {
		unit string
		ns   float64
	}{{"us", 1e3}, {"ms", 1e6}, {"ns", 1}, {"s", 1e9}} {
		if n, ok := strings.CutSuffix(s, u.unit); ok {
			if v, err := strconv.ParseFloat(n, 64); err == nil {
				return Time(v * u.ns)
			}
		}
	}
	return -1
}

func show(t Time) string {
	if t == kernel.Forever {
		return "forever"
	}
	return strconv.FormatFloat(float64(t)/1e3, 'f', -1, 64) + "us"
}

func (r *script) command(line string) {
	f := strings.Fields(line)
	opt := map[string]string{}
	for _, w := range f[1:] {
		k, v, _ := strings.Cut(w, "=")
		opt[k] = v
	}
	num := func(k string, def int) int {
		if v, ok := opt[k]; ok {
			n, err := strconv.Atoi(v)
			if err != nil {
				r.t.Fatalf("%s: %v", line, err)
			}
			return n
		}
		return def
	}
	switch f[0] {
	case "core":
		r.cost = max(span(opt["switch"]), 0)
		r.open(opt, num)
	case "at":
		r.now = span(f[1])
		r.turn(strings.Join(f[2:], " "))
	case "place":
		var out []Placement
		for range r.core.Batch() {
			out = append(out, ToBack())
		}
		i := -1
		for _, w := range f[1:] {
			k, v, _ := strings.Cut(w, "=")
			switch k {
			case "key", "slot":
				i++
				if k == "key" {
					x, err := strconv.ParseFloat(v, 64)
					if err != nil {
						r.t.Fatal(err)
					}
					out[i].Key = x
				} else {
					n, _ := strconv.Atoi(v)
					out[i].Slot = int32(n)
				}
			case "slice":
				out[i].Slice = span(v)
			case "fallback":
				out[i].Source = FallbackFailed
			}
		}
		r.core.Apply(r.now, out)
		r.act(opt["refuse"])
	case "default":
		r.printf("dropped %d", r.core.Defer(r.now, 0))
		r.act("")
	case "hold":
		r.printf("dropped %d", r.core.Defer(r.now, span(opt["for"])))
		r.act("")
	case "answer":
		x, _ := strconv.ParseFloat(opt["key"], 64)
		task := r.id(uint32(num("task", 0)))
		ch := r.core.Answer(r.now, uint64(num("id", 0)), task, Placement{Key: x, Slot: int32(num("slot", 0))})
		r.ch = max(ch, 0)
		r.act("")
	case "expire":
		r.ch = max(r.core.Expire(r.now), 0)
		r.act("")
	case "undelivered":
		r.core.Undelivered(uint64(num("id", 0)))
	case "stop":
		r.core.Stop()
	case "show":
		r.show()
	default:
		r.t.Fatalf("unknown command %q", line)
	}
	if err := r.core.Fates().Check(r.core.Open()); err != nil {
		r.t.Error(err)
	}
}

func (r *script) open(opt map[string]string, num func(string, int) int) {
	cpus, queues := num("cpus", 1), num("queues", 1)
	topo := &kernel.Topology{CPUs: make([]kernel.CPU, cpus), Channels: make([]kernel.CPUSet, queues)}
	for i := range cpus {
		topo.Channels[i%queues].Add(int32(i))
	}
	cfg := Config{Topology: topo, Slice: kernel.Millisecond, MaxInFlight: num("inflight", 0)}
	if opt["order"] == "key" {
		cfg.Order = ByKey
	}
	_, cfg.Preempt = opt["wp"]
	for k, dst := range map[string]*Time{"slice": &cfg.Slice, "age": &cfg.AgeBound, "ttl": &cfg.TTL} {
		if v, ok := opt[k]; ok {
			*dst = span(v)
		}
	}
	if v, ok := opt["events"]; ok {
		cfg.Events, _ = ParseEvents(v)
	}
	var err error
	if r.core, err = New(cfg); err != nil {
		r.t.Fatal(err)
	}
}

func (r *script) id(slot uint32) kernel.TaskID { return kernel.MakeTaskID(slot, max(r.gen[slot], 1)) }

func (r *script) turn(text string) {
	var msgs []kernel.Message
	refuse := ""
	r.ch = 0
	for _, part := range strings.Split(text, ";") {
		f := strings.Fields(part)
		if len(f) == 0 {
			continue
		}
		if v, ok := strings.CutPrefix(f[0], "ch="); ok {
			n, _ := strconv.Atoi(v)
			r.ch = kernel.Channel(n)
			continue
		}
		if v, ok := strings.CutPrefix(f[0], "refuse="); ok {
			refuse = v
			continue
		}
		n, err := strconv.Atoi(f[1])
		if err != nil {
			r.t.Fatal(err)
		}
		m := kernel.Message{Time: r.now, Task: r.id(uint32(n)), CPU: kernel.NoCPU}
		used := Time(0)
		for _, w := range f[2:] {
			if w == "slice" {
				m.Flags |= kernel.FlagSlice
			} else if v, ok := strings.CutPrefix(w, "nice="); ok {
				x, _ := strconv.Atoi(v)
				m.Nice = int8(x)
			} else {
				used = span(w)
			}
		}
		switch f[0] {
		case "new":
			r.gen[uint32(n)]++
			m.Task, m.Type, m.Flags = r.id(uint32(n)), kernel.TaskNew, kernel.FlagRunnable
		case "wake":
			m.Type = kernel.TaskWakeup
		case "block":
			m.Type = kernel.TaskBlocked
		case "yield":
			m.Type = kernel.TaskYield
		case "preempt":
			m.Type = kernel.TaskPreempt
		case "dead":
			m.Type = kernel.TaskDead
		case "busy":
			m.Type, m.CPU, m.Task = kernel.CPUBusy, int32(n), 0
		case "available":
			m.Type, m.CPU, m.Task = kernel.CPUAvailable, int32(n), 0
		default:
			r.t.Fatalf("unknown message %q", part)
		}
		r.seq[m.Task]++
		r.run[m.Task] += used
		m.Seq, m.Runtime = r.seq[m.Task], r.run[m.Task]
		msgs = append(msgs, m)
	}
	r.core.Observe(r.ch, r.now, msgs)
	r.core.OpenBatch()
	for _, d := range r.core.Batch() {
		if d.Running {
			r.printf("row for running %d", d.Task)
		} else {
			r.printf("decision %d: task %d, %s, queue %d of %d", d.ID, d.Task, d.Reason, d.Queue, r.core.View().Len(d.Queue))
		}
	}
	if len(r.core.Batch()) == 0 {
		r.act(refuse)
	}
}

func (r *script) act(refuse string) {
	txns := r.core.Act(r.ch, r.now, nil)
	for i := range txns {
		txns[i].State, txns[i].At = kernel.StateDone, r.now+r.cost
		if refuse != "" && i == 0 {
			for s := range kernel.NumStates {
				if kernel.TxnState(s).String() == refuse {
					txns[i].State = kernel.TxnState(s)
				}
			}
		}
		verb := "run"
		if txns[i].Flags&kernel.TxnAssign != 0 {
			verb = "assign"
		}
		r.printf("%s task %d on CPU %d for %s: %s", verb, txns[i].Task.Slot(), txns[i].CPU, show(txns[i].Slice), txns[i].State)
	}
	r.core.Settle(r.now, txns)
}

func (r *script) show() {
	for i := range r.core.queues {
		q := &r.core.queues[i]
		var waiting []string
		for _, e := range q.list() {
			w := strconv.Itoa(int(e.task))
			if q.order == ByKey {
				w += "(" + strconv.FormatFloat(e.key, 'g', 4, 64) + ")"
			}
			waiting = append(waiting, w)
		}
		r.printf("queue %d: %s", i, strings.Join(waiting, " "))
	}
	var on []string
	for n, c := range r.core.cpus {
		who := "-"
		if c.task >= 0 {
			who = strconv.Itoa(int(c.task))
		}
		if !c.available {
			who += "(away)"
		}
		on = append(on, fmt.Sprintf("%d:%s", n, who))
	}
	r.printf("CPUs %s", strings.Join(on, " "))
	f := *r.core.Fates()
	r.printf("requested %d: applied %d (fallback %d) late %d superseded %d expired %d dropped %d undelivered %d abandoned %d, open %d",
		f.Requested, f.Applied, f.Fallback, f.Late, f.Superseded, f.Expired, f.Dropped, f.Undelivered, f.Abandoned, r.core.Open())
	r.printf("trivial %d aged %d stale %d unused %d clipped %d", f.Trivial, f.Aged, f.Stale, f.Unused, f.Clipped)
	w, s := r.core.Integrals(r.now)
	r.printf("waited %sus, slowdown integral %s", strconv.FormatFloat(w/1e3, 'f', -1, 64), strconv.FormatFloat(s, 'f', 3, 64))
}
