package feature

import (
	"math"
	"strconv"

	"github.com/ghostgym/ghostgym/agent/kernel"
	"github.com/ghostgym/ghostgym/agent/sched"
)

const (
	clip   = 4    // every logarithm ends in [-clip, clip]
	soften = 0.05 // of ref, added to times that may be zero before their logarithm is taken
	unitNs = 2e5  // what ref itself is measured in
)

// The place of each number of a task's row; the table and the code below follow it.
const (
	hasHistory = iota
	lnBurst
	lnAttained
	lnGittins
	lnRest
	lnLast
	deviation
	lnSojourn
	lnSleep
	reasonNew // one bit for each sched.Reason, in their order
	_
	_
	_
	running
	lnWeight
	lnWaiting
	utilisation
	lnSlice
	lnRef
	taskWidth
)

var taskFeatures = [taskWidth]Feature{
	{Name: "has_history", Unit: "bit", Lo: 0, Hi: 1, Version: 1, Presence: true, Formula: "1 if the task has finished a burst"},
	{Name: "ln_burst", Unit: "ln", Lo: -clip, Hi: clip, Version: 1, Formula: "ln(moving geometric mean of its bursts / ref) / 2, 0 without history"},
	{Name: "ln_attained", Unit: "ln", Lo: -clip, Hi: clip, Version: 1, Formula: "ln((CPU time used in this burst + 0.05 ref) / ref) / 2"},
	{Name: "ln_gittins", Unit: "ln", Lo: -clip, Hi: clip, Version: 1, Formula: "ln(Gittins index of all bursts at the time attained / ref) / 2; the index as a cost, smaller is more urgent"},
	{Name: "ln_rest", Unit: "ln", Lo: -clip, Hi: clip, Version: 1, Formula: "ln(expected rest of a burst at the time attained / ref) / 2"},
	{Name: "ln_last", Unit: "ln", Lo: -clip, Hi: clip, Version: 1, Formula: "ln(last burst / ref) / 2, 0 without history"},
	{Name: "deviation", Unit: "ln", Lo: 0, Hi: clip, Version: 1, Formula: "moving mean of |ln(burst) - its moving mean|, 0 without history"},
	{Name: "ln_sojourn", Unit: "ln", Lo: -clip, Hi: clip, Version: 1, Formula: "ln((time since its wakeup + 0.05 ref) / ref) / 3"},
	{Name: "ln_sleep", Unit: "ln", Lo: -clip, Hi: clip, Version: 1, Formula: "ln(moving geometric mean of its sleeps / ref) / 3, 0 without history"},
	{Name: "new", Unit: "bit", Lo: 0, Hi: 1, Version: 1, Formula: "1 if it was enqueued last because it is new"},
	{Name: "woken", Unit: "bit", Lo: 0, Hi: 1, Version: 1, Formula: "1 if because it woke"},
	{Name: "yielded", Unit: "bit", Lo: 0, Hi: 1, Version: 1, Formula: "1 if because it yielded"},
	{Name: "preempted", Unit: "bit", Lo: 0, Hi: 1, Version: 1, Formula: "1 if because it was preempted"},
	{Name: "running", Unit: "bit", Lo: 0, Hi: 1, Version: 1, Formula: "1 if it runs now, and its key is asked for anew"},
	{Name: "ln_weight", Unit: "ln", Lo: -clip, Hi: clip, Version: 1, Formula: "ln(weight of its nice value / 1024) / 2"},
	{Name: "ln_waiting", Unit: "ln", Lo: 0, Hi: clip, Version: 1, Formula: "ln(1 + waiting tasks / CPUs of the queue) / 2"},
	{Name: "utilisation", Unit: "share", Lo: 0, Hi: 1, Version: 1, Formula: "moving average of the share of busy CPUs"},
	{Name: "ln_slice", Unit: "ln", Lo: -clip, Hi: clip, Version: 1, Formula: "ln(common slice / ref) / 4"},
	{Name: "ln_ref", Unit: "ln", Lo: -clip, Hi: clip, Version: 1, Formula: "ln(ref / 200 us) / 4"},
}

// The place of each number of a queued task, in the Placement row, from the first of its slot.
const (
	slotPresent = iota
	slotAttained
	slotBurst
	slotHistory
	slotGittins
	slotRest
	slotSojourn
	slotWidth
)

var slotTable = [slotWidth]Feature{
	{Name: "present", Unit: "bit", Lo: 0, Hi: 1, Version: 1, Presence: true, Formula: "1 if a task waits at this slot; the rest is 0 otherwise"},
	{Name: "ln_attained", Unit: "ln", Lo: -clip, Hi: clip, Version: 1, Formula: "as ln_attained, of the waiting task"},
	{Name: "ln_burst", Unit: "ln", Lo: -clip, Hi: clip, Version: 1, Formula: "as ln_burst, of the waiting task"},
	{Name: "has_history", Unit: "bit", Lo: 0, Hi: 1, Version: 1, Presence: true, Formula: "as has_history, of the waiting task"},
	{Name: "ln_gittins", Unit: "ln", Lo: -clip, Hi: clip, Version: 1, Formula: "as ln_gittins, of the waiting task"},
	{Name: "ln_rest", Unit: "ln", Lo: -clip, Hi: clip, Version: 1, Formula: "as ln_rest, of the waiting task"},
	{Name: "ln_sojourn", Unit: "ln", Lo: -clip, Hi: clip, Version: 1, Formula: "as ln_sojourn, of the waiting task"},
}

func slotFeatures() []Feature {
	fs := make([]Feature, 0, sched.Slots*slotWidth)
	for k := range sched.Slots {
		for _, f := range slotTable {
			f.Name = "slot" + strconv.Itoa(k) + "_" + f.Name
			fs = append(fs, f)
		}
	}
	return fs
}

// scene is what the formulas read beside the task.
type scene struct {
	stats   *sched.Stats
	now     kernel.Time
	lnSlice float64
	perRef  float64 // 1/ref, in 1/ns
	waiting float64 // tasks per CPU of the queue
}

func lnWeightOf(nice int8) float32 { return lnWeights[min(max(int(nice)+20, 0), 39)] }

var lnWeights = func() (w [40]float32) {
	for i := range w {
		w[i] = float32(math.Log(sched.WeightOf(int8(i-20))/1024) / 2)
	}
	return
}()

// lnSoft is ln((t + soften·ref)/ref).
func (c *scene) lnSoft(t kernel.Time) float64 {
	if t <= 0 {
		return lnSoften
	}
	return math.Log(float64(t)*c.perRef + soften)
}

var lnSoften = math.Log(soften)

func clipped(x float64) float32 {
	if x > clip {
		return clip
	}
	if x < -clip {
		return -clip
	}
	return float32(x)
}

func bit(b bool) float32 {
	if b {
		return 1
	}
	return 0
}

// task fills in the row of a task.
func (c *scene) task(t *sched.Task, isRunning bool, row *[taskWidth]float32) {
	g := c.stats
	ref := g.LnRef
	*row = [taskWidth]float32{
		running:     bit(isRunning),
		lnWeight:    lnWeightOf(t.Nice),
		lnWaiting:   clipped(math.Log(1+c.waiting) / 2),
		utilisation: float32(g.Util),
		lnSlice:     clipped((c.lnSlice - ref) / 4),
		lnRef:       clipped((ref - lnUnit) / 4),
	}
	if t.Bursts > 0 {
		row[hasHistory] = 1
		row[lnBurst] = clipped((t.LnBurst - ref) / 2)
		row[lnLast] = clipped((t.LnLast - ref) / 2)
		row[deviation] = clipped(t.LnDev)
		row[lnSleep] = clipped((t.LnSleep - ref) / 3)
	}
	a := t.Attained(c.now)
	b := sched.Bin(float64(a))
	row[lnAttained] = clipped(c.lnSoft(a) / 2)
	row[lnGittins] = clipped((g.LnGittins[b] - ref) / 2)
	row[lnRest] = clipped((g.LnRest[b] - ref) / 2)
	row[lnSojourn] = clipped(c.lnSoft(c.now-t.Woken) / 3)
	row[reasonNew+int(t.Reason&3)] = 1
}

var lnUnit = math.Log(unitNs)

// slot fills in what the Placement row shows of a waiting task.
func (c *scene) slot(t *sched.Task, row *[slotWidth]float32) {
	g := c.stats
	ref := g.LnRef
	a := t.Attained(c.now)
	b := sched.Bin(float64(a))
	*row = [slotWidth]float32{
		slotPresent:  1,
		slotAttained: clipped(c.lnSoft(a) / 2),
		slotGittins:  clipped((g.LnGittins[b] - ref) / 2),
		slotRest:     clipped((g.LnRest[b] - ref) / 2),
		slotSojourn:  clipped(c.lnSoft(c.now-t.Woken) / 3),
	}
	if t.Bursts > 0 {
		row[slotHistory] = 1
		row[slotBurst] = clipped((t.LnBurst - ref) / 2)
	}
}

// Encode fills in the row of a decision; row must be Width long. It does not allocate.
func (s *Schema) Encode(v *sched.View, d *sched.Decision, row []float32) {
	g := v.Stats()
	n := v.Len(d.Queue)
	c := scene{
		stats: g, now: v.Now, lnSlice: v.LnSlice(), perRef: 1 / g.Ref,
		waiting: float64(n) / float64(max(v.CPUs(d.Queue), 1)),
	}
	c.task(v.Task(d.Task), d.Running, (*[taskWidth]float32)(row))
	if s.order == sched.ByKey {
		return
	}
	rest := row[taskWidth:s.Width()]
	n = min(n, sched.Slots)
	for k := range n {
		c.slot(v.Waiting(d.Queue, k), (*[slotWidth]float32)(rest[k*slotWidth:]))
	}
	clear(rest[n*slotWidth:])
}
