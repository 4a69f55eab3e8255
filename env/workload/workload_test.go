package workload

import (
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ghostgym/ghostgym/agent/kernel"
)

func TestParse(t *testing.T) {
	for spec, want := range map[string]struct {
		name string
		p    Params
	}{
		"dispersive":                         {"dispersive", Params{}},
		"dispersive:load=0.9:cpus=8:scale=2": {"dispersive", Params{CPUs: 8, Load: .9, Scale: 2}},
		"heavytail:threads=30:scale=1/4":     {"heavytail", Params{Threads: 30, Scale: .25}},
		"sched_bench:cycles=-1":              {"sched_bench", Params{Cycles: -1}},
		"some/file.json:cpus=4:lenient=1":    {"some/file.json", Params{CPUs: 4, Lenient: true}},
	} {
		name, p, err := Parse(spec)
		if err != nil || name != want.name || p != want.p {
			t.Errorf("%s: %q %+v %v, want %+v", spec, name, p, err, want)
		}
	}
}

func TestParseErrors(t *testing.T) {
	for spec, want := range map[string]string{
		"":                          `workload "": no name before the parameters; known are sched_bench, `,
		":load=1":                   `workload ":load=1": no name before the parameters`,
		"bimodal:load":              `workload "bimodal:load": "load" is not key=value`,
		"bimodal:load=":             `"load=" is not key=value`,
		"bimodal:laod=.5":           `workload "bimodal:laod=.5": unknown key "laod": there is cpus, load, scale; did you mean "load"?`,
		"sched_bench:foo=1":         `unknown key "foo": there is cpus, load, scale, threads, cycles`,
		"phase:thread=1":            `unknown key "thread": there is cpus, load, scale, threads; did you mean "threads"?`,
		"a.json:foo=1":              `unknown key "foo": there is cpus, lenient`,
		"what:foo=1":                `unknown key "foo": there is cpus, load, scale, threads, cycles, lenient`,
		"bimodal:load=3":            `load: "3": allowed are numbers from 0.01 to 2`,
		"bimodal:load=0":            `load: "0": allowed`,
		"bimodal:load=NaN":          `load: "NaN": allowed`,
		"bimodal:scale=1/0":         `scale: "1/0": allowed are numbers from 0.015625 to 64`,
		"bimodal:cpus=0":            `cpus: "0": allowed are whole numbers from 1 to 128`,
		"bimodal:cpus=x":            `cpus: "x": allowed are whole numbers from 1 to 128`,
		"bimodal:cpus=4:cpus=5":     `workload "bimodal:cpus=4:cpus=5": cpus is given twice`,
		"sched_bench:threads=10001": `threads: "10001": allowed are whole numbers from 1 to 10000`,
		"sched_bench:cycles=-2":     `cycles: "-2": allowed are whole numbers from 1 to 1073741824, and -1 for no end`,
		"sched_bench:cycles=0":      `cycles: "0": allowed are whole numbers from 1 to 1073741824, and -1 for no end`,
		"a.json:lenient=perhaps":    `lenient: "perhaps": allowed are 0 and 1`,
	} {
		if _, _, err := Parse(spec); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %s", spec, err, want)
		}
	}
}

func TestBuildErrors(t *testing.T) {
	for _, c := range []struct {
		name string
		p    Params
		want string
	}{
		{"dispersed", Params{}, `workload "dispersed" is unknown: there is sched_bench, dispersive, bimodal, rocksdb, interactive, heavytail, phase, frame, and rt-app files (a path that ends in .json or contains /); did you mean "dispersive"?`},
		{"bimodal", Params{Threads: 3}, "workload bimodal: threads: not a parameter of this kind"},
		{"sched_bench", Params{Threads: 3, Load: .5}, "workload sched_bench: threads 3 and load 0.5: give one of them, each sets the other"},
		{"sched_bench", Params{Threads: 7, CPUs: 1}, "threads 7: on 1 CPUs they are a load of 2.33, at most 2 is allowed: fewer threads or more cpus"},
		{"interactive", Params{Threads: 10000, CPUs: 1}, "threads 10000: on 1 CPUs they are a load of 385"},
		{"frame", Params{CPUs: 1, Scale: 64}, "workload frame: one game alone needs a load of 28.7, at most 2 is allowed: smaller scale or more cpus"},
		{"bimodal", Params{Cycles: 3}, "cycles: only sched_bench"},
		{"bimodal", Params{Lenient: true}, "lenient: only for rt-app files"},
		{"bimodal", Params{CPUs: 1000}, "cpus 1000: allowed are 1 to 128"},
		{"bimodal", Params{Scale: -1}, "scale -1: allowed"},
		{"phase", Params{CPUs: 8, Load: .9, Threads: 4}, "threads 4: at load 0.9 on 8 CPUs at least 8 are needed"},
		{"rtapp/testdata/pingpong.json", Params{Load: .5}, "a file takes cpus and lenient only"},
		{"rtapp/testdata/affinity.json", Params{CPUs: 2}, "cpus 2: the file names CPU 5, so at least 6 are needed"},
		{"rtapp/testdata/none.json", Params{}, "none.json"},
		{"rtapp/testdata/old.json", Params{}, "old.json:3:11"},
	} {
		in, err := Build(c.name, c.p)
		if err == nil || in != nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s %+v: %v, want %s", c.name, c.p, err, c.want)
		}
	}
}

func TestDefaults(t *testing.T) {
	if got := strings.Join(Names(), " "); got != "sched_bench dispersive bimodal rocksdb interactive heavytail phase frame" {
		t.Error(got)
	}
	for _, name := range Names() {
		in, err := Build(name, Params{})
		if err != nil {
			t.Fatal(err)
		}
		if in.Name != name || in.CPUs < 1 || in.CPUs != in.Params.CPUs || in.Params.Load == 0 || in.Params.Scale != 1 ||
			in.Interarrival <= 0 || in.MeanBurst < MinBurst || in.Workload == nil {
			t.Errorf("%s: %+v", name, in)
		}
		if wantMicro := in.Open; wantMicro != (in.Profile == "uthread") || wantMicro != (in.Slice == 30*kernel.Microsecond) {
			t.Errorf("%s: profile %s, slice %d, open %v", name, in.Profile, in.Slice, in.Open)
		}
		if doc := Doc(name); !strings.Contains(doc, "Parameters: cpus=") {
			t.Errorf("%s: %q", name, doc)
		}
	}
	in, _ := Build("sched_bench", Params{})
	if in.CPUs != 6 || in.Params.Threads != 16 || in.Params.Cycles != 200 || in.Slack != 50*kernel.Microsecond ||
		in.MeanBurst != 500*kernel.Microsecond || in.Interarrival != 93750 {
		t.Errorf("sched_bench: %+v", in)
	}
	if Doc("nothing") != "" || !strings.Contains(Doc("a/b.json"), "rt-app") {
		t.Error("docs of what is no kind")
	}
}

func TestSample(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for _, name := range Names() {
		k := find(name)
		for range 300 {
			p := Sample(name, r, false)
			if (p.CPUs != 4 && p.CPUs != 6 && p.CPUs != 8) || p.Load < .5*k.sampled || p.Load > .95*k.sampled || p.Scale < .5 || p.Scale > min(2, k.maxScale) {
				t.Fatalf("%s: %+v", name, p)
			}
			h := Sample(name, r, true)
			if (h.CPUs != 2 && h.CPUs != 12 && h.CPUs != 16) || (h.Scale != .25 && h.Scale != min(4, k.maxScale)) {
				t.Fatalf("%s held: %+v", name, h)
			}
			for _, p := range []Params{p, h} {
				in, err := Build(name, p)
				if err != nil {
					t.Fatalf("%s %+v: %v", name, p, err)
				}
				if name != "frame" && name != "interactive" && name != "sched_bench" && in.Params.Load != p.Load {
					t.Fatalf("%s: load %g, asked %g", name, in.Params.Load, p.Load)
				}
			}
		}
	}
	if p := Sample("nothing", r, false); p != (Params{}) {
		t.Errorf("unknown kind: %+v", p)
	}
}

// A file without a duration runs until its threads end, and a reader is told that this has a bound.
func TestFilesWithoutDuration(t *testing.T) {
	for global, want := range map[string]kernel.Time{
		`{}`: fileDuration, `{"duration": -1}`: fileDuration, `{"duration": 0}`: fileDuration, `{"duration": 3}`: 3 * kernel.Second,
	} {
		path := filepath.Join(t.TempDir(), "w.json")
		if err := os.WriteFile(path, []byte(`{"tasks": {"t": {"run": 10, "sleep": 5}}, "global": `+global+`}`), 0o600); err != nil {
			t.Fatal(err)
		}
		in, err := Build(path, Params{})
		if err != nil {
			t.Fatal(err)
		}
		const note = "no duration: a run ends with its last thread, as in rt-app, but after 10 s at the latest"
		if noted := strings.Contains(strings.Join(in.Notes, "\n"), note); in.Duration != want || noted != (want == fileDuration) {
			t.Errorf("%s: %d ns, notes %q", global, in.Duration, in.Notes)
		}
	}
}

// What an instance says of itself builds it again, also after it was written and read.
func TestInstancesAreBuiltAgain(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	for _, name := range Names() {
		params := []Params{{}, {CPUs: 1, Load: 2}, {CPUs: 3, Load: 2}, {CPUs: 128}, {CPUs: 5, Load: .1, Scale: .5}, {CPUs: 7, Scale: minScale}}
		if find(name).threads {
			params = append(params, Params{Threads: 11}, Params{Threads: 16, CPUs: 3})
		}
		for i := range 300 {
			params = append(params, Sample(name, r, i%2 == 0))
		}
		for _, p := range params {
			in, err := Build(name, p)
			if err != nil {
				t.Fatalf("%s %+v: %v", name, p, err)
			}
			again, err := Build(in.Name, in.Params)
			if err != nil || again.Params != in.Params || again.Interarrival != in.Interarrival || again.MeanBurst != in.MeanBurst {
				t.Fatalf("%s %+v: built %+v, then %+v: %v", name, p, in, again, err)
			}
			if got, q, err := Parse(Format(in.Name, in.Params)); err != nil || got != name || q != in.Params {
				t.Fatalf("%s: read %q %+v: %v", Format(in.Name, in.Params), got, q, err)
			}
		}
	}
	in, err := Build("rtapp/testdata/affinity.json", Params{Lenient: true})
	if err != nil {
		t.Fatal(err)
	}
	if again, err := Build(in.Name, in.Params); err != nil || again.Params != in.Params {
		t.Fatal(again, err)
	}
}

func TestRepairsAreNoted(t *testing.T) {
	path := filepath.Join(t.TempDir(), "w.json")
	if err := os.WriteFile(path, []byte(`{"tasks": {"t": {"run": "10", "sleep": 5}}, "global": {"gnuplot": true}}`), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Build(path, Params{}); err == nil || !strings.Contains(err.Error(), `w.json:1:25: "run"`) {
		t.Error(err)
	}
	in, err := Build(path, Params{Lenient: true})
	if err != nil {
		t.Fatal(err)
	}
	notes := strings.Join(in.Notes, "\n")
	if !strings.Contains(notes, `repaired 1:25: "run"`) || !strings.Contains(notes, "keys without effect here: gnuplot") {
		t.Error(notes)
	}
}

func TestFormatIsParsesInverse(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for _, name := range Names() {
		for i := range 100 {
			p := Sample(name, r, i%2 == 0)
			p.Lenient = i%3 == 0
			if got, q, err := Parse(Format(name, p)); err != nil || got != name || q != p {
				t.Fatalf("%s %+v: %q %+v %v", name, p, Format(name, p), q, err)
			}
		}
	}
	if got := Format("a.json", Params{}); got != "a.json" {
		t.Error(got)
	}
}

func FuzzParse(f *testing.F) {
	for _, spec := range []string{"phase", "frame:load=.4:cpus=2:scale=1/4", "a/b.json:lenient=1", "sched_bench:threads=3:cycles=-1", "x:load=1e-2", ":", "a:=", "a:load=0x1p-2"} {
		f.Add(spec)
	}
	f.Fuzz(func(t *testing.T, spec string) {
		name, p, err := Parse(spec)
		if err != nil {
			return
		}
		if err := p.check(); err != nil {
			t.Fatalf("%q: parsed, but %v", spec, err)
		}
		if again, q, err := Parse(Format(name, p)); err != nil || again != name || q != p {
			t.Fatalf("%q: %q %+v, written and read again %q %+v, %v", spec, name, p, again, q, err)
		}
	})
}
