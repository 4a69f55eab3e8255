package env

import (
	"bytes"
	"context"
	"errors"
	"math"
	"runtime"
	"strconv"
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
		{object{"policies": []any{3}}, &RolloutRequest{}, "policies[0]: a policy is a model's bytes or a scheduler's name, not int8"},
		{object{"evnts": "all"}, &Config{}, "evnts: unknown; there are "},
		{object{"num_envs": strings.Repeat("m", 1000)}, &Config{}, `num_envs: want a whole number, got "` + strings.Repeat("m", 79) + "…"},
		{[]any{1}, &Config{}, "request: "},
	} {
		err := Decode(packed(t, c.req), c.dst)
		if !errors.Is(err, ErrConfig) || !strings.HasPrefix(err.Error(), c.want) {
			t.Errorf("%v: %v, want %s", c.req, err, c.want)
		}
	}
	for i, bad := range [][]byte{
		nil, {0x81}, {0xc1}, {0x81, 0xa1},
		append([]byte("\x81\xa9workloads"), 0xdd, 0xff, 0xff, 0xff, 0xff), // a list of four thousand million texts, none of which follows
		append([]byte("\x81\xa9workloads"), 0xdf, 0xff, 0xff, 0xff, 0xff),
		[]byte("\xd70\xdf0000000"),        // an extension: the decoder takes what it holds for a map
		bytes.Repeat([]byte{0x91}, 1<<20), // lists in lists
		append(packed(t, object{}), 0x80), // one more
	} {
		if err := Decode(bad, &Config{}); !errors.Is(err, ErrConfig) {
			t.Errorf("%d: %v", i, err)
		}
	}
}

// TestWellFormedTakesEveryType that an encoder writes, in every width, and nothing that lacks its last byte.
func TestWellFormedTakesEveryType(t *testing.T) {
	list := func(n int) []any { return make([]any, n) }
	table := object{}
	for i := range 70000 {
		table[strconv.Itoa(i)] = i
	}
	for i, v := range []any{
		nil, true, 7, -7, 200, -200, 40000, -40000, int64(1) << 31, -int64(1) << 32, uint64(math.MaxUint64), float32(.5), .5,
		"", "text", strings.Repeat("x", 200), strings.Repeat("x", 300), strings.Repeat("x", 70000),
		[]byte{1}, make([]byte, 300), make([]byte, 70000), list(3), list(300), list(70000), object{"a": list(2)}, table,
	} {
		b := packed(t, v)
		if err := wellFormed(b); err != nil {
			t.Errorf("value %d: %v", i, err)
		}
		if err := wellFormed(b[:len(b)-1]); !errors.Is(err, errCutShort) {
			t.Errorf("value %d, cut: %v", i, err)
		}
	}
}

// FuzzDecode: whatever the bytes, an answer or an error about them, and no more memory than a multiple of their length.
func FuzzDecode(f *testing.F) {
	f.Add(packed(f, object{"num_envs": 2, "workloads": []any{"frame"}, "profile": "ideal"}))
	f.Add(packed(f, object{"policies": []any{"rr"}, "instances": []any{object{"workload": "frame", "seed": 1}}}))
	f.Add([]byte("\x81\xa9instances\xdd\xff\xff\xff\xff"))
	f.Fuzz(func(t *testing.T, req []byte) {
		for _, dst := range []any{&Config{}, &RolloutRequest{}, &resetRequest{}} {
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			err := Decode(req, dst)
			runtime.ReadMemStats(&after)
			if made := after.TotalAlloc - before.TotalAlloc; made > uint64(1<<23+1000*len(req)) {
				t.Errorf("%d bytes of memory for %d", made, len(req))
			}
			if err != nil && !errors.Is(err, ErrConfig) {
				t.Errorf("%T: %v", dst, err)
			}
		}
	})
}

// TestRefusedCallsChangeNothing: neither a reset that one environment cannot take nor a step that one cannot make.
func TestRefusedCallsChangeNothing(t *testing.T) {
	config := Config{Options: Options{Schema: "priority", HorizonBursts: new(40.0)}, NumEnvs: 2,
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
		t.Fatal("both ended at once: there is nothing to see; take another seed")
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
			Options: Options{Schema: "priority", HorizonBursts: new(40.0)}, Workers: workers,
		})
		if err == nil || strings.Count(err.Error(), "rollout: instance") != 1 || !strings.HasPrefix(err.Error(), "rollout: instance 7:") {
			t.Errorf("%d workers: %v", workers, err)
		}
	}
}
