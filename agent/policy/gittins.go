package policy

import (
	"github.com/ghostgym/ghostgym/agent/kernel"
	"github.com/ghostgym/ghostgym/agent/sched"
)

const (
	priorWeight  = 3    // bursts that the histogram of all tasks counts for beside a task's own
	historyDecay = 0.95 // of a task's histogram per burst of its
)

// gittins orders by the Gittins index at the time attained, under each task's own distribution of bursts: a histogram that fades,
// over that of all tasks as a prior. The index minimises mean time in the system where distributions are known (Gittins 1979).
type gittins struct {
	own []history // by index of the task
}

type history struct {
	id   kernel.TaskID // the incarnation it belongs to
	hist sched.Hist
}

// Reset implements Resetter.
func (g *gittins) Reset(uint64) { clear(g.own) }

// BurstEnded implements BurstObserver.
func (g *gittins) BurstEnded(v *sched.View, task int32, burst kernel.Time) {
	for int(task) >= len(g.own) {
		g.own = append(g.own, history{})
	}
	h := &g.own[task]
	if id := v.Task(task).ID; h.id != id {
		*h = history{id: id}
	}
	for i := range h.hist {
		h.hist[i] *= historyDecay
	}
	h.hist[sched.Bin(float64(burst))]++
}

// Place implements Policy.
func (g *gittins) Place(v *sched.View, batch []sched.Decision, out []sched.Placement) {
	all := &v.Stats().Hist
	total := 0.0
	for _, x := range all {
		total += x
	}
	scale := 0.0
	if total > 0 {
		scale = priorWeight / total
	}
	var prior sched.Hist
	for i, x := range all {
		prior[i] = x * scale
	}
	for i := range batch {
		t := v.Task(batch[i].Task)
		h := prior
		if n := batch[i].Task; int(n) < len(g.own) && g.own[n].id == t.ID {
			for j, x := range g.own[n].hist {
				h[j] += x
			}
		}
		cost, _, _ := h.Index(float64(t.Attained(v.Now)))
		out[i] = sched.Placement{Key: cost, Slot: sched.Back}
	}
}
