package compare

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

func put(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func content(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// TestFilesAreWholeOrNot: until it is kept, a file has what it had; a discarded one leaves nothing behind.
func TestFilesAreWholeOrNot(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "f")
	put(t, path, "old")
	for _, keep := range []bool{false, true} {
		f, err := Create(path)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := f.WriteString("new"); err != nil {
			t.Fatal(err)
		}
		if got := content(t, path); got != "old" {
			t.Errorf("before it is kept: %q", got)
		}
		want := "old"
		if keep {
			want = "new"
			err = f.Keep()
		} else {
			f.Discard()
		}
		if got := content(t, path); err != nil || got != want {
			t.Errorf("keep %v: %q, %v", keep, got, err)
		}
	}
	if all, _ := os.ReadDir(dir); len(all) != 1 {
		t.Errorf("left over: %v", all)
	}
}

// TestLinksAreFollowed: the file is replaced, and the link stays.
func TestLinksAreFollowed(t *testing.T) {
	dir, elsewhere := t.TempDir(), t.TempDir()
	target, link := filepath.Join(elsewhere, "f"), filepath.Join(dir, "link")
	put(t, target, "old")
	if err := os.Symlink(target, link); err != nil {
		t.Fatal(err)
	}
	if err := CheckFile(link); err != nil {
		t.Error(err)
	}
	if err := WriteFile(link, []byte("new")); err != nil {
		t.Fatal(err)
	}
	if got, err := os.Readlink(link); err != nil || got != target || content(t, target) != "new" {
		t.Errorf("link to %q, %v, of %q", got, err, content(t, target))
	}
	if other := filepath.Join(dir, "other"); !SameFile(link, target) || SameFile(link, other) || !SameFile(other, dir+"/./other") {
		t.Error("one file has many names, and two files have not")
	}
}

// TestLinksToNothingAreFollowed: the file is made where the link leads, and that is the same file for both names.
func TestLinksToNothingAreFollowed(t *testing.T) {
	dir, elsewhere := t.TempDir(), t.TempDir()
	target, link, again := filepath.Join(elsewhere, "f"), filepath.Join(dir, "link"), filepath.Join(dir, "again")
	if err := errors.Join(os.Symlink(target, link), os.Symlink("link", again)); err != nil {
		t.Fatal(err)
	}
	if !SameFile(again, target) || !SameFile(target, link) || SameFile(link, filepath.Join(dir, "f")) {
		t.Error("a link to nothing is taken for something else")
	}
	if err := errors.Join(CheckFile(again), WriteFile(again, []byte("new"))); err != nil {
		t.Fatal(err)
	}
	if to, err := os.Readlink(again); err != nil || to != "link" || content(t, target) != "new" {
		t.Errorf("link to %q, %v, of %q", to, err, content(t, target))
	}
}

func TestHardLinksAreOneFile(t *testing.T) {
	dir := t.TempDir()
	a, b := filepath.Join(dir, "a"), filepath.Join(dir, "b")
	put(t, a, "")
	if err := os.Link(a, b); err != nil {
		t.Fatal(err)
	}
	if !SameFile(a, b) {
		t.Error("two names of one file are taken for two files")
	}
}

// TestModes: a new file has what the umask leaves, and one that replaces another its mode.
func TestModes(t *testing.T) {
	old := syscall.Umask(0o027)
	defer syscall.Umask(old)
	path := filepath.Join(t.TempDir(), "f")
	for _, want := range []os.FileMode{0o640, 0o600, 0o666} {
		if want != 0o640 {
			if err := os.Chmod(path, want); err != nil {
				t.Fatal(err)
			}
		}
		if err := WriteFile(path, []byte("text")); err != nil {
			t.Fatal(err)
		}
		if info, err := os.Stat(path); err != nil || info.Mode().Perm() != want {
			t.Errorf("mode %v, %v; want %v", info.Mode(), err, want)
		}
	}
}

// TestErrorsNameWhatWasAskedFor: not the file beside it, nor a folder that nobody named; and none is made.
func TestErrorsNameWhatWasAskedFor(t *testing.T) {
	dir := t.TempDir()
	for path, says := range map[string]string{
		filepath.Join(dir, "absent", "f"):               "there is no folder " + filepath.Join(dir, "absent"),
		filepath.Join(dir, strings.Repeat("long", 100)): "name too long",
		"/proc/ghostgym":                                "create /proc/ghostgym: ",
	} {
		for _, err := range []error{CheckFile(path), WriteFile(path, nil)} {
			if err == nil || !strings.Contains(err.Error(), says) || strings.Contains(err.Error(), "/.") {
				t.Errorf("%s: %v does not say %q", path, err, says)
			}
		}
	}
	if err := CheckDir("/proc"); err == nil || strings.Contains(err.Error(), "/.") {
		t.Error(err)
	}
	long := filepath.Join(dir, strings.Repeat("n", 255))
	if err := WriteFile(long, nil); err != nil {
		t.Errorf("a name that fits is refused: %v", err)
	}
	if all, _ := os.ReadDir(dir); len(all) != 1 {
		t.Errorf("left over: %v", all)
	}
}

// TestPipesStayPipes: what is no file is written, not replaced.
func TestPipesStayPipes(t *testing.T) {
	path := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	r, err := os.OpenFile(path, os.O_RDWR, 0) // to and fro, so that nobody waits for the other end
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if err := CheckFile(path); err != nil {
		t.Error(err)
	}
	if err := WriteFile(path, []byte("text")); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Lstat(path); err != nil || info.Mode()&os.ModeNamedPipe == 0 {
		t.Fatalf("the pipe was replaced: %v, %v", info, err)
	}
	b := make([]byte, 4)
	if _, err := io.ReadFull(r, b); err != nil || string(b) != "text" {
		t.Errorf("%q, %v", b, err)
	}
	f, err := Create(path)
	if err != nil {
		t.Fatal(err)
	}
	f.Discard()
	if _, err := os.Lstat(path); err != nil {
		t.Errorf("a pipe was removed: %v", err)
	}
	if !InPlace(path) || InPlace(path+"s") || InPlace(filepath.Dir(path)+"/absent/pipe") {
		t.Error("InPlace takes a pipe for a file, or the other way round")
	}
	if SameFile(path, path) {
		t.Error("two may write into one pipe")
	}
}
