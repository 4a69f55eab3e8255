package compare

import (
	"crypto/sha256"
	"encoding/hex"
	"io"
	"os"
	"runtime"
	"runtime/debug"
	"strings"
	"time"

	"github.com/ghostgym/ghostgym/agent/feature"
)

// Manifest says how a report came about.
type Manifest struct {
	Command    string              `json:"command,omitempty" msgpack:"command,omitempty"`
	Written    time.Time           `json:"written" msgpack:"written"` // the only thing in a report that comes from a clock
	Commit     string              `json:"commit" msgpack:"commit"`   // "+dirty" where the tree had changes; "" if unknown
	Version    string              `json:"version" msgpack:"version"` // of the program
	Go         string              `json:"go" msgpack:"go"`
	Machine    string              `json:"machine" msgpack:"machine"`
	CPUs       int                 `json:"cpus" msgpack:"cpus"`
	Schemas    map[string]string   `json:"schemas" msgpack:"schemas"`                           // hashes by kind
	Model      string              `json:"model,omitempty" msgpack:"model,omitempty"`           // as it was named
	ModelHash  string              `json:"model_hash,omitempty" msgpack:"model_hash,omitempty"` // SHA-256 of the file
	Workloads  []string            `json:"workloads" msgpack:"workloads"`                       // in the plan's order
	Specs      map[string][]string `json:"specs,omitempty" msgpack:"specs,omitempty"`           // of each workload
	Files      map[string]string   `json:"files,omitempty" msgpack:"files,omitempty"`           // SHA-256 of rt-app files, by path
	Schedulers []string            `json:"schedulers" msgpack:"schedulers"`                     // in the plan's order
	Seed       uint64              `json:"seed" msgpack:"seed"`                                 // of the first repetition; each later one has the next
	Reps       int                 `json:"reps" msgpack:"reps"`
	Runs       int                 `json:"runs" msgpack:"runs"`         // of which
	Finished   int                 `json:"finished" msgpack:"finished"` // fewer where somebody stopped it
	Bursts     float64             `json:"bursts" msgpack:"bursts"`
	Warmup     float64             `json:"warmup" msgpack:"warmup"`
	Timing     string              `json:"timing" msgpack:"timing"`
	Events     string              `json:"events" msgpack:"events"`
	Fallback   string              `json:"fallback" msgpack:"fallback"` // "": by the model's order
}

func (c *Comparison) manifest(finished int) Manifest {
	p := &c.plan
	m := Manifest{
		Command: p.Command, Written: time.Now().UTC().Truncate(time.Second), Commit: Commit(), Version: p.Version, Go: runtime.Version(),
		Machine: cpuName() + ", " + runtime.GOOS + "/" + runtime.GOARCH, CPUs: runtime.NumCPU(), Schemas: map[string]string{},
		Schedulers: p.Schedulers, Seed: p.Seed, Reps: p.Reps, Runs: len(c.runs), Finished: finished,
		Bursts: p.Bursts, Warmup: p.Warmup, Timing: p.Timing.String(), Events: p.Events.String(),
		Fallback: p.Fallback, Specs: map[string][]string{}, Files: c.files,
	}
	for _, w := range p.Workloads {
		m.Workloads, m.Specs[w.Name] = append(m.Workloads, w.Name), w.Specs
	}
	for _, s := range feature.Schemas() {
		m.Schemas[s.Kind] = s.Hash()
	}
	if p.Model != nil {
		m.Model, m.ModelHash = p.Model.Name(), p.Model.Hash()
	}
	return m
}

// hashFile is the SHA-256 of a file, in hexadecimal.
func hashFile(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	h := sha256.New()
	_, err = io.Copy(h, f)
	return hex.EncodeToString(h.Sum(nil)), err
}

// Commit is the commit that the program was built from, as the Go toolchain recorded it.
func Commit() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return ""
	}
	commit, dirty := "", ""
	for _, s := range info.Settings {
		switch {
		case s.Key == "vcs.revision":
			commit = s.Value
		case s.Key == "vcs.modified" && s.Value == "true":
			dirty = "+dirty"
		}
	}
	if commit == "" {
		return ""
	}
	return commit + dirty
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
