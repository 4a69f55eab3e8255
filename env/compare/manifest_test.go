package compare

import (
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

// TestTheManifestNamesWhatRan: the specs behind a name, and files by what they held.
func TestTheManifestNamesWhatRan(t *testing.T) {
	path := filepath.Join(t.TempDir(), "app.json")
	put(t, path, `{"tasks": {"a": {"loop": 3, "run": 1000, "sleep": 1000}}}`)
	const hash = "2bc7648fbfe36bc0034fdd1bf3fdf2594e776df32630dfe10c147004a6968456"
	specs := map[string][]string{"file": {path + ":lenient=1"}, "pair": {"frame:cpus=2", path}, "frame": {"frame"}}
	var all []Workload
	for _, name := range []string{"file", "pair", "frame"} {
		all = append(all, Workload{Name: name, Specs: specs[name]})
	}
	r := execute(t, Plan{Workloads: all, Schedulers: []string{"rr"}, Reps: 2, Bursts: 20})
	if m := r.Manifest; !reflect.DeepEqual(m.Specs, specs) || !reflect.DeepEqual(m.Files, map[string]string{path: hash}) {
		t.Errorf("specs %q, files %q", m.Specs, m.Files)
	}
	text := r.Markdown()
	for _, part := range []string{"## file\n\n- It is `" + path + ":lenient=1`.\n", "## pair\n\n- Repetitions take turns: `frame:cpus=2`, `" + path + "`.\n",
		"## frame\n\n- A closed loop"} {
		if !strings.Contains(text, part) {
			t.Errorf("%q is not in\n%s", part, text)
		}
	}
}
