package env

import (
	"fmt"
	"strings"

	"github.com/ghostgym/ghostgym/agent/kernel"
	"github.com/ghostgym/ghostgym/agent/sched"
)

// renderRows bounds how much of a queue is shown.
const renderRows = 16

// Render describes an environment as text: the open decision, what runs on the CPUs, and the run queues, front first.
func (v *Vector) Render(i int) (string, error) {
	if i < 0 || i >= len(v.envs) {
		return "", badConfig("render: environment %d is none of %d", i, len(v.envs))
	}
	if !v.envs[i].started {
		return "", badConfig("render: reset comes first")
	}
	return v.envs[i].render(), nil
}

func (e *Episode) render() string {
	var b strings.Builder
	view := e.Agent.View()
	core := e.Agent.Core()
	name := func(t *sched.Task) string {
		return fmt.Sprintf("task %d %s", t.ID.Slot(), e.Sim.TaskName(t.ID))
	}
	fmt.Fprintf(&b, "%s  %s of %s\n", e.setup.Instance.Name, span(view.Now), span(e.horizon))
	if e.over {
		b.WriteString("the episode is over\n")
	} else {
		batch := e.Agent.Batch()
		d := &batch[e.at]
		why := d.Reason.String()
		if d.Running {
			why = "running"
		}
		fmt.Fprintf(&b, "decision %d of %d at this instant: %s, %s, queue %d\n", e.at+1, len(batch), name(view.Task(d.Task)), why, d.Queue)
	}
	running := make([]*sched.Task, len(e.Sim.Topology().CPUs))
	for i := range core.NumTasks() {
		if t := view.Task(int32(i)); t.State == sched.OnCPU {
			running[t.CPU] = t
		}
	}
	for n, t := range running {
		if t == nil {
			fmt.Fprintf(&b, "cpu %-3d –\n", n)
			continue
		}
		fmt.Fprintf(&b, "cpu %-3d %s, %s of this burst\n", n, name(t), span(t.Attained(view.Now)))
	}
	for q := range view.Queues() {
		n := view.Len(int32(q))
		fmt.Fprintf(&b, "queue %d  CPUs %d, waiting %d\n", q, view.CPUs(int32(q)), n)
		for i := range min(n, renderRows) {
			t := view.Waiting(int32(q), i)
			fmt.Fprintf(&b, "  %2d  %s, %s since it could run, %s of this burst", i, name(t), span(view.Now-t.Since), span(t.Attained(view.Now)))
			if view.Order() == sched.ByKey {
				fmt.Fprintf(&b, ", key %.4g", t.Key)
			}
			b.WriteByte('\n')
		}
		if n > renderRows {
			fmt.Fprintf(&b, "  and %d more\n", n-renderRows)
		}
	}
	return strings.TrimSuffix(b.String(), "\n")
}

// span is a time as people read it.
func span(t kernel.Time) string { return fmt.Sprintf("%.3f ms", float64(t)/1e6) }
