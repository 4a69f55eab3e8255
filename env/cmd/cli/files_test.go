package cli

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestOutputsStayOffInputs(t *testing.T) {
	dir := t.TempDir()
	path := func(name string) string { return filepath.Join(dir, name) }
	if err := os.WriteFile(path("in"), []byte("text"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(os.Symlink("in", path("link")), os.Link(path("in"), path("hard")), os.Symlink("new", path("ahead"))); err != nil {
		t.Fatal(err)
	}
	in := []Path{{"MODEL", path("in")}, {"--rows", ""}}
	for _, c := range []struct {
		record, json string
		says         []string
	}{
		{"", "", nil},
		{path("a"), path("b"), nil},
		{"", "-", nil},
		{"", path("in"), []string{"MODEL and --json", path("in"), "is read"}},
		{path("link"), "", []string{"MODEL and --record", path("link")}},
		{"", dir + "/./hard", []string{"MODEL and --json"}},
		{path("a"), path("a"), []string{"--record and --json", "cannot be both"}},
		{path("ahead"), path("new"), []string{"--record and --json"}},
		{os.DevNull, os.DevNull, nil},
	} {
		err := CheckApart(in, []Path{{"--record", c.record}, {"--json", c.json}})
		if (err != nil) != (c.says != nil) || err != nil && !errors.Is(err, ErrUsage) {
			t.Errorf("%q, %q: %v", c.record, c.json, err)
		}
		for _, s := range c.says {
			if err != nil && !strings.Contains(err.Error(), s) {
				t.Errorf("%q, %q: %q does not say %q", c.record, c.json, err, s)
			}
		}
	}
}

// TestStandardOutputHasOneName, except where nothing that is written meets.
func TestStandardOutputHasOneName(t *testing.T) {
	out, err := os.Create(filepath.Join(t.TempDir(), "out"))
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	old := os.Stdout
	defer func() { os.Stdout = old }()
	os.Stdout = out
	get := func(path string) string {
		f, got := NewFlags("x"), ""
		OutputVar(f, &got, "json", "")
		if _, err := Parse(f, []string{"--json", path}); err != nil {
			t.Fatal(err)
		}
		return got
	}
	for path, want := range map[string]string{out.Name(): "-", "-": "-", out.Name() + "s": out.Name() + "s", os.DevNull: os.DevNull} {
		if got := get(path); got != want {
			t.Errorf("%s means %s, want %s", path, got, want)
		}
	}
	null, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	os.Stdout = null
	if got := get(os.DevNull); got != os.DevNull {
		t.Errorf("the null device means %s", got)
	}
}
