package env

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/vmihailenco/msgpack/v5"
)

func packed(t testing.TB, v any) []byte {
	t.Helper()
	b, err := msgpack.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

type object = map[string]any

func TestDecodeNamesWhatIsWrong(t *testing.T) {
	for _, c := range []struct {
		req  any
		dst  any
		want string
	}{
		{object{"num_envs": 2.5}, &Config{}, "num_envs: want a whole number, got 2.5"},
		{object{"profile": 3}, &Config{}, "profile: want text, got 3"}, // inlined
		{object{"wakeup_preemption": "yes"}, &Config{}, `wakeup_preemption: want true or false, got "yes"`},
		{object{"workloads": "bimodal"}, &Config{}, `workloads: want a list, got "bimodal"`},
		{object{"workloads": []any{"frame", 7}}, &Config{}, "workloads[1]: want text, got 7"},
		{object{"workload": "frame"}, &Config{}, "workload: unknown; there are schema, profile,"},
		{object{"instances": []any{nil, object{"seed": "x"}}}, &resetRequest{}, `instances[1].seed: want a whole number, got "x"`},
		{object{"instances": []any{object{"sed": 1}}}, &RolloutRequest{}, "instances[0].sed: unknown; there are workload, seed, episode"},
		{object{"instances": []any{"frame"}}, &RolloutRequest{}, `instances[0]: want a map, got "frame"`},
		{object{"options": object{"warmup": "x"}}, &RolloutRequest{}, `options.warmup: want a number, got "x"`},
		{object{"policies": []any{3}}, &RolloutRequest{}, "policies[0]"},
		{object{"num_envs": strings.Repeat("m", 1000)}, &Config{}, `num_envs: want a whole number, got "` + strings.Repeat("m", 79) + "…"},
		{[]any{1}, &Config{}, "request: "},
	} {
		err := Decode(packed(t, c.req), c.dst)
		if !errors.Is(err, ErrConfig) || !strings.HasPrefix(err.Error(), c.want) {
			t.Errorf("%v: %v, want %s", c.req, err, c.want)
		}
	}
	for _, cut := range [][]byte{nil, {0x81}, {0xc1}, {0x81, 0xa1}} {
		if err := Decode(cut, &Config{}); !errors.Is(err, ErrConfig) {
			t.Errorf("%x: %v", cut, err)
		}
	}
}

// TestRefusedCallsChangeNothing: neither a reset that one environment cannot take nor a step that one cannot make.
func TestRefusedCallsChangeNothing(t *testing.T) {
	config := Config{Options: Options{Schema: "priority", HorizonBursts: 40, InferMicros: -1}, NumEnvs: 2,
		Workloads: []string{"bimodal"}, Autoreset: "disabled"}
	b := newBound(t, config)
	bad := packed(t, object{"instances": []any{object{"workload": "frame"}, object{"workload": "nope"}}})
	if _, err := b.v.Reset(bad); !errors.Is(err, ErrConfig) || !strings.HasPrefix(err.Error(), "environment 1:") {
		t.Fatal(err)
	}
	if err := b.v.Step(); !errors.Is(err, ErrOver) {
		t.Fatalf("a step before the first reset: %v", err)
	}
	b.reset(t, 1)
	over := func(i int) bool { return b.v.terminated[i]+b.v.truncated[i] > 0 }
	for step := 0; !over(0) && !over(1); step++ {
		if step%10 == 5 {
			if _, err := b.v.Reset(bad); err == nil {
				t.Fatal("not refused")
			}
		}
		if err := b.v.Step(); err != nil {
			t.Fatal(err)
		}
	}
	runs := 0
	if over(0) {
		runs = 1
	}
	if over(runs) {
		t.Skip("both ended at once")
	}
	before := b.v.envs[runs].steps
	if err := b.v.Step(); !errors.Is(err, ErrOver) {
		t.Fatal(err)
	}
	if after := b.v.envs[runs].steps; after != before {
		t.Errorf("the environment that goes on took a step: %d, %d before", after, before)
	}
	if b.v.envs[runs].spec.Workload != "bimodal" || b.v.envs[runs].spec.Episode != 0 {
		t.Errorf("a refused reset left %+v", b.v.envs[runs].spec)
	}
}

// TestRolloutTellsTheFirstFailure, once, however many workers meet one.
func TestRolloutTellsTheFirstFailure(t *testing.T) {
	var instances []InstanceSpec
	for i := range 40 {
		w := "bimodal"
		if i >= 7 {
			w = "nope:" + strings.Repeat("x", i)
		}
		instances = append(instances, InstanceSpec{Workload: w})
	}
	for _, workers := range []int{1, 3, 16} {
		_, err := Rollout(context.Background(), RolloutRequest{
			Policies: []PolicyRef{{Name: "rr"}, {Name: "las"}}, Instances: instances,
			Options: Options{Schema: "priority", HorizonBursts: 40, InferMicros: -1}, Workers: workers,
		})
		if err == nil || strings.Count(err.Error(), "rollout: instance") != 1 || !strings.HasPrefix(err.Error(), "rollout: instance 7:") {
			t.Errorf("%d workers: %v", workers, err)
		}
	}
}
