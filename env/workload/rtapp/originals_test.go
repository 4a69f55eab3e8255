package rtapp

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const originals = "/usr/share/doc/rt-app/examples"

// fragments are those of rt-app's examples that are no workloads by themselves or speak the grammar before rt-app 1.0, which
// rt-app does not run either; the value is what the error says.
var fragments = map[string]string{
	"merge/global.json":    `"tasks": missing`,
	"merge/resources.json": `"tasks": missing`,
	"merge/thread0.json":   `"exec": belongs to the grammar before`,
	"merge/thread1.json":   `"exec": belongs to the grammar before`,
	"merge/thread2.json":   `"exec": belongs to the grammar before`,
	"merge/thread3.json":   `"exec": belongs to the grammar before`,
}

func TestOriginals(t *testing.T) {
	if _, err := os.Stat(originals); err != nil {
		t.Skip("rt-app's examples are not installed (Debian: apt-get install rt-app): ", err)
	}
	read := 0
	err := filepath.WalkDir(originals, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || filepath.Ext(path) != ".json" {
			return err
		}
		name, _ := filepath.Rel(originals, path)
		f, repairs, err := Load(path, false)
		if want, ok := fragments[name]; ok {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %v, want %s", name, err, want)
			}
			return nil
		}
		read++
		if err != nil || len(repairs) != 0 {
			t.Errorf("%s: %v %v", name, err, repairs)
			return nil
		}
		events := 0
		for _, task := range f.Tasks {
			for _, ph := range task.Phases {
				events += len(ph.Events)
			}
		}
		if events == 0 {
			t.Errorf("%s: no events", name)
		}
		return nil
	})
	if err != nil || read < 17 {
		t.Errorf("%d files read: %v", read, err)
	}
}
