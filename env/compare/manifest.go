package compare

import (
	"os"
	"runtime"
	"runtime/debug"
	"strings"

	"github.com/ghostgym/ghostgym/agent/feature"
)

// Manifest says how a report came about.
type Manifest struct {
	Command  string            `json:"command,omitempty" msgpack:"command,omitempty"`
	Commit   string            `json:"commit" msgpack:"commit"` // "+dirty" where the tree had changes; "" if unknown
	Go       string            `json:"go" msgpack:"go"`
	Machine  string            `json:"machine" msgpack:"machine"`
	CPUs     int               `json:"cpus" msgpack:"cpus"`
	Schemas  map[string]string `json:"schemas" msgpack:"schemas"`
	Model    string            `json:"model,omitempty" msgpack:"model,omitempty"`
	Seed     uint64            `json:"seed" msgpack:"seed"`
	Reps     int               `json:"reps" msgpack:"reps"`
	Bursts   float64           `json:"bursts" msgpack:"bursts"`
	Warmup   float64           `json:"warmup" msgpack:"warmup"`
	Timing   string            `json:"timing" msgpack:"timing"`
	Events   string            `json:"events" msgpack:"events"`
	Fallback string            `json:"fallback" msgpack:"fallback"`
}

func newManifest(p *Plan) Manifest {
	m := Manifest{
		Commit: Commit(), Go: runtime.Version(), Machine: cpuName() + ", " + runtime.GOOS + "/" + runtime.GOARCH, CPUs: runtime.NumCPU(),
		Schemas: map[string]string{}, Seed: p.Seed, Reps: p.Reps, Bursts: p.Bursts, Warmup: p.Warmup, Timing: p.Timing.String(),
		Events: p.Events.String(), Fallback: p.Fallback,
	}
	for _, s := range feature.Schemas() {
		m.Schemas[s.Kind] = s.Hash()
	}
	if p.Model != nil {
		m.Model = p.Model.Name()
	}
	return m
}

// Commit is the commit that the program was built from, as the Go toolchain recorded it.
func Commit() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return ""
	}
	commit := ""
	for _, s := range info.Settings {
		switch {
		case s.Key == "vcs.revision":
			commit = s.Value
		case s.Key == "vcs.modified" && s.Value == "true" && commit != "":
			commit += "+dirty"
		}
	}
	return commit
}

func cpuName() string {
	b, err := os.ReadFile("/proc/cpuinfo")
	if err != nil {
		return "unknown CPU"
	}
	for line := range strings.Lines(string(b)) {
		if name, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(name) == "model name" {
			return strings.TrimSpace(value)
		}
	}
	return "unknown CPU"
}
