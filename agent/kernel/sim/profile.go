package sim

import (
	"bytes"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sort"
	"strings"
	"sync"

	"github.com/ghostgym/ghostgym/agent/kernel"
	"github.com/ghostgym/ghostgym/agent/spell"
)

//go:embed profiles/*.json
var profileFiles embed.FS

// Profile is where a scheduler runs and what that costs: an execution model, how queues are laid out, the common slice, and a
// table of costs. Profiles are data, one file each.
type Profile struct {
	Name   string
	Doc    string
	Source string
	Model  kernel.Model
	Shared bool // one queue for the machine; else one per CPU
	Slice  kernel.Time

	Switch       kernel.Time // to another task than the CPU ran last
	Message      kernel.Time // to produce and read one
	Wake         kernel.Time // of an agent that sleeps
	CommitLocal  kernel.Time // of one transaction, by the agent of the CPU
	CommitRemote kernel.Time // of one transaction, by another CPU's agent
	IPI          kernel.Time // until the target of a remote transaction notices
	Migrate      kernel.Time // of a task that goes on on another CPU than its last
	Inference    kernel.Time // of one decision
}

// profileFile is the form of a profile's file: every cost in ns, with the source of each figure.
type profileFile struct {
	Doc    string            `json:"doc"`
	Model  string            `json:"model"`
	Queues string            `json:"queues"`
	Slice  int64             `json:"slice_ns"`
	Costs  map[string]int64  `json:"costs_ns"`
	Source map[string]string `json:"source"`
}

var loadProfiles = sync.OnceValues(func() (map[string]*Profile, error) {
	entries, err := profileFiles.ReadDir("profiles")
	if err != nil {
		return nil, err
	}
	all := map[string]*Profile{}
	for _, e := range entries {
		b, err := profileFiles.ReadFile("profiles/" + e.Name())
		if err != nil {
			return nil, err
		}
		name := strings.TrimSuffix(e.Name(), ".json")
		if all[name], err = parseProfile(name, b); err != nil {
			return nil, err
		}
	}
	return all, nil
})

// maxCost bounds every figure of a profile: one second.
const maxCost = int64(kernel.Second)

func parseProfile(name string, b []byte) (*Profile, error) {
	fail := func(err error) (*Profile, error) { return nil, fmt.Errorf("profile %s.json: %w", name, err) }
	var f profileFile
	if err := uniqueKeys(b); err != nil {
		return fail(err)
	}
	d := json.NewDecoder(bytes.NewReader(b))
	d.DisallowUnknownFields()
	if err := d.Decode(&f); err != nil {
		return fail(err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return fail(errors.New("something follows the profile's object"))
	}
	p := &Profile{Name: name, Doc: f.Doc, Slice: kernel.Time(f.Slice)}
	switch f.Model {
	case "inline":
		p.Model = kernel.Inline
	case "percpu":
		p.Model = kernel.PerCPU
	case "global":
		p.Model = kernel.Global
	default:
		return fail(fmt.Errorf("model: %q is none of inline, percpu, global", f.Model))
	}
	switch f.Queues {
	case "shared":
		p.Shared = true
	case "percpu":
	default:
		return fail(fmt.Errorf("queues: %q is none of shared, percpu", f.Queues))
	}
	if p.Model == kernel.PerCPU && p.Shared || p.Model == kernel.Global && !p.Shared {
		return fail(fmt.Errorf("queues: %s does not go with model %s", f.Queues, f.Model))
	}
	if f.Slice <= 0 || f.Slice > maxCost {
		return fail(fmt.Errorf("slice_ns: %d is not between 1 and %d", f.Slice, maxCost))
	}
	fields := map[string]*kernel.Time{
		"switch": &p.Switch, "message": &p.Message, "wake": &p.Wake, "commit_local": &p.CommitLocal, "commit_remote": &p.CommitRemote,
		"ipi": &p.IPI, "migrate": &p.Migrate, "inference": &p.Inference,
	}
	var sources []string
	for k, v := range f.Costs {
		dst, ok := fields[k]
		if !ok {
			return fail(fmt.Errorf("costs_ns: unknown cost %q", k))
		}
		if v < 0 || v > maxCost {
			return fail(fmt.Errorf("costs_ns.%s: %d is not between 0 and %d", k, v, maxCost))
		}
		if v > 0 && f.Source[k] == "" {
			return fail(fmt.Errorf("source.%s: each figure needs its source", k))
		}
		*dst = kernel.Time(v)
	}
	for k := range f.Source {
		if _, ok := fields[k]; !ok && k != "slice" {
			return fail(fmt.Errorf("source.%s: there is no such figure", k))
		}
		sources = append(sources, k)
	}
	sort.Strings(sources)
	for i, k := range sources {
		sources[i] = k + ": " + f.Source[k]
	}
	p.Source = strings.Join(sources, "; ")
	return p, nil
}

// check refuses a profile that was put together by hand and cannot be.
func (p *Profile) check() error {
	if p.Model == kernel.PerCPU && p.Shared || p.Model == kernel.Global && !p.Shared {
		return fmt.Errorf("sim: profile %s: model %s does not go with such queues", p.Name, p.Model)
	}
	for _, c := range []kernel.Time{p.Switch, p.Message, p.Wake, p.CommitLocal, p.CommitRemote, p.IPI, p.Migrate, p.Inference} {
		if c < 0 || c > kernel.Time(maxCost) {
			return fmt.Errorf("sim: profile %s: a cost of %d ns is not between 0 and %d", p.Name, c, maxCost)
		}
	}
	return nil
}

// uniqueKeys refuses an object that names a key twice, of which encoding/json would keep the last.
func uniqueKeys(b []byte) error {
	d := json.NewDecoder(bytes.NewReader(b))
	type level struct {
		keys  map[string]bool
		value bool // a value comes next
	}
	var stack []level
	for {
		tok, err := d.Token()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		top := len(stack) - 1
		switch t := tok.(type) {
		case json.Delim:
			if t == '{' || t == '[' {
				if top >= 0 {
					stack[top].value = false
				}
				l := level{}
				if t == '{' {
					l.keys = map[string]bool{}
				}
				stack = append(stack, l)
				continue
			}
			stack = stack[:top]
		case string:
			if top >= 0 && stack[top].keys != nil && !stack[top].value {
				k := strings.ToLower(t) // which encoding/json takes for the same
				if stack[top].keys[k] {
					return fmt.Errorf("key %q stands twice", t)
				}
				stack[top].keys[k], stack[top].value = true, true
				continue
			}
			if top >= 0 {
				stack[top].value = false
			}
		default:
			if top >= 0 {
				stack[top].value = false
			}
		}
	}
}

// Profiles lists the names of all profiles.
func Profiles() []string {
	all, _ := loadProfiles()
	names := make([]string, 0, len(all))
	for n := range all {
		names = append(names, n)
	}
	sort.Strings(names)
	return names
}

// LoadProfile is the profile with the name given.
func LoadProfile(name string) (*Profile, error) {
	all, err := loadProfiles()
	if err != nil {
		return nil, err
	}
	if p, ok := all[name]; ok {
		return p, nil
	}
	return nil, fmt.Errorf("profile %q is unknown: there is %s%s", name, strings.Join(Profiles(), ", "), spell.Hint(name, Profiles()))
}
