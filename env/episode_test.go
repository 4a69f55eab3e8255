package env

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
)

// TestALimitOfStepsLeavesTheOpenDecision: the last observation is that of the decision that an episode without the limit goes on with,
// and its rewards add up to the return.
func TestALimitOfStepsLeavesTheOpenDecision(t *testing.T) {
	for _, schema := range []string{"priority", "placement"} {
		for _, limit := range []int64{1, 2, 7, 40} {
			options := Options{Schema: schema, HorizonBursts: new(200.0), Profile: "ghost-global", Timing: "async+20us", Events: "fork"}
			free := newBound(t, Config{Options: options, NumEnvs: 1, Workloads: []string{"frame"}})
			options.MaxSteps = limit
			cut := newBound(t, Config{Options: options, NumEnvs: 1, Workloads: []string{"frame"}, Autoreset: "disabled"})
			free.reset(t, 3)
			cut.reset(t, 3)
			rewards, passed := 0.0, int64(0)
			for step := range int(limit) {
				free.act(0, step, 0)
				cut.act(0, step, 0)
				if err := errors.Join(free.v.Step(), cut.v.Step()); err != nil {
					t.Fatal(err)
				}
				rewards += cut.v.reward[0]
				passed += cut.v.dt[0]
			}
			if !slices.Equal(free.v.obs, cut.v.obs) || !slices.Equal(free.v.mask, cut.v.mask) {
				t.Errorf("%s, %d steps: it ends with\n%v, and goes on with\n%v", schema, limit, cut.v.obs, free.v.obs)
			}
			if cut.v.truncated[0] != 1 || cut.v.terminated[0] != 0 || len(cut.v.ended) != 1 {
				t.Fatalf("%s, %d steps: %d ends, truncated %d", schema, limit, len(cut.v.ended), cut.v.truncated[0])
			}
			end := cut.v.ended[0]
			if math.Abs(rewards-end.Return) > 1e-9 || passed != end.EndNs {
				t.Errorf("%s, %d steps: rewards of %v in %d ns; the return is %v in %d ns", schema, limit, rewards, passed, end.Return, end.EndNs)
			}
		}
	}
}

// TestAStoppedRunHasNotTerminated, though its work is not done.
func TestAStoppedRunHasNotTerminated(t *testing.T) {
	var m Machine
	prepare(t, &m, "rr", "bimodal", 0, func(s *Setup) { s.Bursts = 1e9 })
	ctx, cancel := context.WithCancel(context.Background())
	r, err := m.RunWith(ctx, cancel)
	if !errors.Is(err, context.Canceled) || r.Terminated || r.EndNs >= r.HorizonNs {
		t.Errorf("%v: terminated %v at %d of %d ns", err, r.Terminated, r.EndNs, r.HorizonNs)
	}
}

// TestSwitchesOfTheWarmUpDoNotCount, and all do without one.
func TestSwitchesOfTheWarmUpDoNotCount(t *testing.T) {
	for _, name := range []string{"rr", "gittins+wp", "cfs@linux"} {
		var sims, counted [2]uint64
		for i, warmup := range []float64{0, .5} {
			m, r := play(t, name, "bimodal", 3, func(s *Setup) { s.Bursts, s.Warmup = 500, warmup })
			sims[i], counted[i] = m.Sim.Stats().Switches, r.Figures.Switches
		}
		if sims[0] != sims[1] || counted[0] != sims[0] || counted[1] >= sims[1]*3/4 || counted[1] <= sims[1]/4 {
			t.Errorf("%s: %v switches, of which %v count without and with a warm-up of a half", name, sims, counted)
		}
	}
}

// TestWhatAMachineCannotDoIsRefused when the vector is made, whichever environment it is of.
func TestWhatAMachineCannotDoIsRefused(t *testing.T) {
	for _, c := range []struct {
		cfg  Config
		want string
	}{
		{Config{Options: Options{Schema: "priority", Profile: "ghost-global"}, NumEnvs: 2, Workloads: []string{"bimodal", "bimodal:cpus=1"}},
			"workload bimodal:cpus=1: "},
		{Config{Options: Options{Schema: "priority", HorizonBursts: new(math.Inf(1))}, NumEnvs: 1, Workloads: []string{"bimodal"}}, "horizon_bursts: +Inf"},
		{Config{Options: Options{Schema: "priority"}, NumEnvs: 1, Workers: 257, Workloads: []string{"bimodal"}}, "workers: 257"},
	} {
		if _, err := NewVector(c.cfg); !errors.Is(err, ErrConfig) || !strings.HasPrefix(fmt.Sprint(err), c.want) {
			t.Errorf("%v, want %s", err, c.want)
		}
	}
}
