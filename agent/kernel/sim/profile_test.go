package sim

import (
	"strings"
	"testing"

	"github.com/ghostgym/ghostgym/agent/kernel"
)

func FuzzProfile(f *testing.F) {
	for _, n := range Profiles() {
		b, err := profileFiles.ReadFile("profiles/" + n + ".json")
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Add([]byte(`{"model":"inline","queues":"shared","slice_ns":1,"slice_ns":2}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		p, err := parseProfile("x", b)
		if err == nil && (p.Slice <= 0 || p.Switch < 0 || p.Model == kernel.Global && !p.Shared) {
			t.Errorf("%+v was taken", p)
		}
	})
}

func TestProfilesAreChecked(t *testing.T) {
	for text, says := range map[string]string{
		`{"model":"inline","queues":"shared","slice_ns":1,"slice_ns":2}`:                              "twice",
		`{"model":"inline","queues":"shared","slice_ns":1,"speed":2}`:                                 "speed",
		`{"model":"outline","queues":"shared","slice_ns":1}`:                                          "outline",
		`{"model":"percpu","queues":"shared","slice_ns":1}`:                                           "percpu",
		`{"model":"inline","queues":"shared","slice_ns":0}`:                                           "slice_ns",
		`{"model":"inline","queues":"shared","slice_ns":1,"costs_ns":{"switch":-1}}`:                  "switch",
		`{"model":"inline","queues":"shared","slice_ns":1,"costs_ns":{"switch":5}}`:                   "source",
		`{"model":"inline","queues":"shared","slice_ns":1,"costs_ns":{"snooze":5},"source":{}}`:       "snooze",
		`{"model":"inline","queues":"shared","slice_ns":1,"costs_ns":{"switch":9000000000000000000}}`: "switch",
		`{"model":"inline","queues":"shared","slice_ns":1,"Slice_ns":2}`:                              "twice",
		`{"model":"inline","queues":"shared","slice_ns":1} {}`:                                        "follows",
		`{"model":"inline","queues":"shared","slice_ns":1,"source":{"swich":"a"}}`:                    "swich",
		`{`: "x.json",
	} {
		if _, err := parseProfile("x", []byte(text)); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v; want it to say %q", text, err, says)
		}
	}
}
