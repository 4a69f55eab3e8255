package feature_test

import (
	"math"
	"testing"

	"github.com/ghostgym/ghostgym/agent/feature"
	"github.com/ghostgym/ghostgym/agent/kernel"
	"github.com/ghostgym/ghostgym/agent/sched"
	"github.com/ghostgym/ghostgym/agent/sched/schedtest"
)

// back is the default place for all.
type back struct{}

func (back) Place(_ *sched.View, batch []sched.Decision, out []sched.Placement) {
	for i := range batch {
		out[i] = sched.ToBack()
	}
}

func index(t testing.TB, s *feature.Schema, name string) int {
	t.Helper()
	for i, f := range s.Features {
		if f.Name == name {
			return i
		}
	}
	t.Fatalf("schema %s has no feature %s", s.Kind, name)
	return -1
}

// want computes a task's features anew, from the formulas as the schema words them.
func want(v *sched.View, task *sched.Task, queue int32, running bool) map[string]float64 {
	s := v.Stats()
	ref := math.Exp(s.LnRef)
	clip := func(x float64) float64 { return math.Max(-4, math.Min(4, x)) }
	attained := float64(task.Attained(v.Now))
	w := map[string]float64{
		"ln_attained":        clip(math.Log((attained+.05*ref)/ref) / 2),
		"ln_gittins":         clip((s.LnGittins[sched.Bin(attained)] - s.LnRef) / 2),
		"ln_rest":            clip((s.LnRest[sched.Bin(attained)] - s.LnRef) / 2),
		"ln_sojourn":         clip(math.Log((float64(v.Now-task.Woken)+.05*ref)/ref) / 3),
		"ln_weight":          math.Log(task.Weight/1024) / 2,
		"ln_waiting":         clip(math.Log(1+float64(v.Len(queue))/float64(v.CPUs(queue))) / 2),
		"utilisation":        s.Util,
		"ln_slice":           clip(math.Log(float64(v.Slice())/ref) / 4),
		"ln_ref":             clip(math.Log(ref/200e3) / 4),
		task.Reason.String(): 1,
	}
	for from, to := range map[string]string{"wakeup": "woken", "yield": "yielded", "preempt": "preempted"} {
		if w[from] == 1 {
			w[to] = 1
			delete(w, from)
		}
	}
	if running {
		w["running"] = 1
	}
	if task.Bursts > 0 {
		w["has_history"] = 1
		w["ln_burst"] = clip((task.LnBurst - s.LnRef) / 2)
		w["ln_last"] = clip((task.LnLast - s.LnRef) / 2)
		w["deviation"] = clip(task.LnDev)
		w["ln_sleep"] = clip((task.LnSleep - s.LnRef) / 3)
	}
	return w
}

// In any state that a core can come into, rows follow the formulas, stay in their ranges, and masks follow the queue.
func TestRowsFollowFormulas(t *testing.T) {
	for _, s := range feature.Schemas() {
		cfg := sched.Config{Order: s.Order(), Preempt: s.Order() == sched.ByKey}
		m := schedtest.New(t, 2, cfg)
		row, mask := make([]float32, s.Width()), make([]uint8, s.Action.Width())
		decisions, runningRows, deep := 0, 0, 0
		m.Shuffle(7, 24, 4000, back{}, func(batch []sched.Decision) {
			v := m.Core.View()
			for i := range batch {
				d := &batch[i]
				for j := range row {
					row[j] = float32(math.NaN())
				}
				s.Encode(v, d, row)
				decisions++
				if d.Running {
					runningRows++
				}
				w := want(v, v.Task(d.Task), d.Queue, d.Running)
				n := v.Len(d.Queue)
				for j, f := range s.Features {
					if !(row[j] >= f.Lo && row[j] <= f.Hi) {
						t.Fatalf("%s: %v is outside of [%v, %v]", f.Name, row[j], f.Lo, f.Hi)
					}
					if f.Unit == "bit" && row[j] != 0 && row[j] != 1 {
						t.Fatalf("%s: the bit is %v", f.Name, row[j])
					}
					x := w[f.Name]
					if k := slotOf(f.Name); k >= 0 {
						x = 0
						if k < n {
							q := v.Waiting(d.Queue, k)
							x = want(v, q, d.Queue, false)[f.Name[len("slot0_"):]]
							if f.Name[len("slot0_"):] == "present" {
								x = 1
							}
						}
					}
					if math.Abs(float64(row[j])-x) > 1e-6 {
						t.Fatalf("%s %s: is %v, the formula gives %v", s.Kind, f.Name, row[j], x)
					}
				}
				s.Mask(v, d, mask)
				for k := range mask {
					legal := s.Order() == sched.ByKey || k < n && k < sched.Slots || k == int(sched.Back)
					if (mask[k] == 1) != legal || mask[k] > 1 {
						t.Fatalf("%d waiting: mask %v", n, mask)
					}
				}
				if n > sched.Slots {
					deep++
				}
			}
		})
		if decisions < 1000 || deep < 20 || s.Order() == sched.ByKey && runningRows < 100 {
			t.Errorf("%s: only %d decisions, %d of running tasks, %d before long queues were looked at", s.Kind, decisions, runningRows, deep)
		}
	}
}

func slotOf(name string) int {
	if len(name) > 6 && name[:4] == "slot" && name[5] == '_' {
		return int(name[4] - '0')
	}
	return -1
}

// A row does not change when every time is stretched alike: but for the numbers that say how long ref is.
func TestRowsAreScaleFree(t *testing.T) {
	rows := func(scale kernel.Time) (all []float32) {
		s := feature.Priority
		m := schedtest.New(t, 1, sched.Config{Order: sched.ByKey, Slice: 100 * kernel.Microsecond * scale, Nominal: 50 * kernel.Microsecond * scale})
		us := kernel.Microsecond * scale
		row := make([]float32, s.Width())
		see := func() {
			for _, d := range m.Core.Batch() {
				s.Encode(m.Core.View(), &d, row)
				row[index(t, s, "ln_ref")] = 0
				all = append(all, row...)
			}
		}
		for round := range kernel.Time(40) {
			for n := range 3 {
				if round == 0 {
					m.Enter(n, 0)
				} else {
					m.Wake(n)
				}
			}
			m.Observe(30 * us)
			see()
			m.Place(back{})
			for range 3 {
				n := m.Granted()[0]
				m.Preempt(n, (10+round)*us)
				m.Observe((10 + round) * us)
				see()
				m.Place(back{})
			}
			for range 3 {
				n := m.Granted()[0]
				m.Block(n, (20+7*kernel.Time(n))*us)
				m.Turn((20+7*kernel.Time(n))*us, back{})
			}
		}
		return all
	}
	// bins of the histogram lie where they lie: a whole number of them apart, all shifts alike (0.65 octaves × 20 = 2^13)
	a, b := rows(1), rows(1<<13)
	if len(a) != len(b) || len(a) < 1000 {
		t.Fatalf("%d and %d numbers", len(a), len(b))
	}
	for i := range a {
		name := feature.Priority.Features[i%feature.Priority.Width()].Name
		if name == "ln_gittins" || name == "ln_rest" {
			continue // the last bin ends the histogram
		}
		if math.Abs(float64(a[i]-b[i])) > 1e-4 {
			t.Fatalf("row %d, %s: %v at one scale, %v at the other", i/feature.Priority.Width(), name, a[i], b[i])
		}
	}
}

func open(tb testing.TB, s *feature.Schema) (*schedtest.Machine, []sched.Decision) {
	m := schedtest.New(tb, 2, sched.Config{Order: s.Order()})
	m.Shuffle(3, 40, 2000, back{}, nil)
	for i := range 4 {
		m.Enter(50+i, 0)
	}
	batch := m.Observe(100 * kernel.Microsecond)
	if len(batch) != 4 {
		tb.Fatalf("%d decisions", len(batch))
	}
	return m, batch
}

func TestEncodeDoesNotAllocate(t *testing.T) {
	for _, s := range feature.Schemas() {
		m, batch := open(t, s)
		row, mask := make([]float32, s.Width()), make([]uint8, s.Action.Width())
		if n := testing.AllocsPerRun(100, func() {
			s.Encode(m.Core.View(), &batch[0], row)
			s.Mask(m.Core.View(), &batch[0], mask)
		}); n != 0 {
			t.Errorf("%s: %v allocations", s.Kind, n)
		}
	}
}

func BenchmarkEncode(b *testing.B) {
	for _, s := range feature.Schemas() {
		b.Run(s.Kind, func(b *testing.B) {
			m, batch := open(b, s)
			row := make([]float32, s.Width())
			v := m.Core.View()
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				s.Encode(v, &batch[i&3], row)
			}
		})
	}
}
