package layers

import (
	"encoding/json"
	"errors"
	"io"
	"os/exec"
	"strings"
	"testing"
)

const module = "github.com/ghostgym/ghostgym/"

// rule says what packages below a path may import of ours. The longest matching rule counts; paths are relative to the module.
type rule struct {
	path string
	may  []string
}

// rules are the architecture: read from top to bottom, each line may use what stands above it.
var rules = []rule{
	{"agent/spell", nil},
	{"agent/kernel", nil},
	{"agent/kernel/sim", []string{"agent/kernel", "agent/spell"}},
	{"agent/kernel/kerneltest", []string{"agent/kernel"}},
	{"agent/sched", []string{"agent/kernel", "agent/sched", "agent/spell"}},
	{"agent/trace", []string{"agent/kernel", "agent/sched"}},
	{"agent/metrics", []string{"agent/kernel", "agent/sched"}},
	{"agent/feature", []string{"agent/kernel", "agent/sched"}},
	{"agent/policy", []string{"agent/kernel", "agent/sched", "agent/feature", "agent/spell"}},
	{"agent", []string{"agent/kernel", "agent/sched", "agent/trace", "agent/metrics", "agent/feature", "agent/policy"}},
	{"inference", []string{"inference"}},
	{"models", []string{"agent/feature", "agent/policy", "agent/sched", "agent/kernel", "inference"}},
	{"env/workload", []string{"agent/kernel", "agent/spell", "env/workload"}},
	{"env/reward", []string{"agent/kernel", "agent/spell"}},
	{"env", []string{"agent", "models", "env/workload", "env/reward"}},
	{"env/compare", []string{"agent", "models", "env/workload", "env/reward", "env"}},
	{"env/internal/layers", nil},
	{"env/cmd", []string{"agent", "inference", "models", "env"}},
	{"agent/cmd", []string{"agent", "inference", "models", "env"}},
}

// exact imports are needed where a prefix would allow too much: env itself must not import env/compare.
var never = map[string][]string{
	"env":        {"env/compare", "env/cmd"},
	"env/reward": {"env/workload"},
}

type pkg struct {
	ImportPath string
	Imports    []string
}

func ruleFor(path string) *rule {
	var best *rule
	for i := range rules {
		r := &rules[i]
		if (path == r.path || strings.HasPrefix(path, r.path+"/")) && (best == nil || len(r.path) > len(best.path)) {
			best = r
		}
	}
	return best
}

func allowed(from, to string) bool {
	r := ruleFor(from)
	if r == nil {
		return false
	}
	for _, bad := range never[from] {
		if to == bad || strings.HasPrefix(to, bad+"/") {
			return false
		}
	}
	for _, m := range r.may {
		if to == m || strings.HasPrefix(to, m+"/") {
			return true
		}
	}
	return false
}

// TestImportsPointDown reads the import graph, tests left out, and fails on an arrow that points up.
func TestImportsPointDown(t *testing.T) {
	out, err := exec.Command("go", "list", "-json=ImportPath,Imports", module+"...").Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	d := json.NewDecoder(strings.NewReader(string(out)))
	seen := 0
	for {
		var p pkg
		if err := d.Decode(&p); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		from := strings.TrimPrefix(p.ImportPath, module)
		seen++
		if ruleFor(from) == nil {
			t.Errorf("%s: no rule says what it may import: add a line to the table", from)
		}
		for _, i := range p.Imports {
			if to, ours := strings.CutPrefix(i, module); ours && !allowed(from, to) {
				t.Errorf("%s imports %s, which is not below it", from, to)
			}
		}
	}
	if seen < 15 {
		t.Errorf("only %d packages were found", seen)
	}
}

func TestRulesRefuse(t *testing.T) {
	for _, c := range [][2]string{
		{"agent/kernel", "agent/sched"}, {"agent/sched", "agent/policy"}, {"agent/policy", "inference"}, {"inference/op", "agent/kernel"},
		{"env", "env/compare"}, {"agent", "env"}, {"models", "env"}, {"agent/feature", "agent/policy"}, {"env/workload", "env"},
	} {
		if allowed(c[0], c[1]) {
			t.Errorf("%s may import %s", c[0], c[1])
		}
	}
}
