package compare

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
)

// File is written beside its name, and has that name only once it is whole.
type File struct {
	*os.File
	path string // "": it is written in place
}

// Create begins a file. Where the path is a link, the file it leads to is made or replaced, not the link; a pipe or a device is
// written in place, since to rename over it would destroy it. A new file has the mode that the umask leaves, one that replaces
// another the mode of that.
func Create(path string) (*File, error) {
	at, err := destination(path)
	if err != nil {
		return nil, err
	}
	if at.inPlace() {
		f, err := os.OpenFile(at.path, os.O_WRONLY, 0)
		if err != nil {
			return nil, err
		}
		return &File{f, ""}, nil
	}
	f, err := at.beside()
	if err != nil {
		return nil, &fs.PathError{Op: "create", Path: path, Err: cause(err)}
	}
	return &File{f, at.path}, nil
}

// place is what a path leads to.
type place struct {
	path string
	info fs.FileInfo // nil: nothing is there yet
}

func (p place) inPlace() bool { return p.info != nil && !p.info.Mode().IsRegular() }

// destination follows links, also to where nothing is yet.
func destination(path string) (place, error) {
	info, err := os.Stat(path)
	switch {
	case err == nil && info.IsDir():
		return place{}, fmt.Errorf("%s is a folder", path)
	case err == nil && !info.Mode().IsRegular():
		return place{path, info}, nil // as it is named: what a link of /proc says of a pipe is no path
	case err == nil:
		end, err := filepath.EvalSymlinks(path)
		return place{end, info}, err
	case !errors.Is(err, fs.ErrNotExist):
		return place{}, err
	}
	for {
		dir, err := filepath.Abs(filepath.Dir(path))
		if err == nil {
			dir, err = filepath.EvalSymlinks(dir)
		}
		if err != nil {
			return place{}, fmt.Errorf("there is no folder %s: %w", filepath.Dir(path), cause(err))
		}
		path = filepath.Join(dir, filepath.Base(path))
		next, err := os.Readlink(path)
		if err != nil {
			return place{path: path}, nil
		}
		if !filepath.IsAbs(next) {
			next = filepath.Join(dir, next)
		}
		path = next
	}
}

// beside makes the file that is to have the name in the end. Its own name is short, so that every name that fits can be written.
func (p place) beside() (*os.File, error) {
	for {
		name := filepath.Join(filepath.Dir(p.path), fmt.Sprintf(".ghostgym-%016x", rand.Uint64()))
		f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o666)
		if errors.Is(err, fs.ErrExist) {
			continue
		}
		if err == nil && p.info != nil {
			if err = f.Chmod(p.info.Mode().Perm()); err != nil {
				(&File{f, p.path}).Discard()
			}
		}
		return f, err
	}
}

// cause is what went wrong, without the path of a file that is ours.
func cause(err error) error {
	var e *fs.PathError
	if errors.As(err, &e) {
		return e.Err
	}
	return err
}

// Keep gives the file its name. After an error there is no file.
func (f *File) Keep() error {
	err := f.File.Close()
	if f.path == "" {
		return err
	}
	if err == nil {
		err = os.Rename(f.Name(), f.path)
	}
	if err != nil {
		os.Remove(f.Name())
	}
	return err
}

// Discard ends a file that is not kept.
func (f *File) Discard() {
	f.File.Close()
	if f.path != "" {
		os.Remove(f.Name())
	}
}

// WriteFile writes a file whole or not at all.
func WriteFile(path string, data []byte) error {
	f, err := Create(path)
	if err != nil {
		return err
	}
	if _, err := f.Write(data); err != nil {
		f.Discard()
		return err
	}
	return f.Keep()
}

// CheckDir makes a folder where there is none, and reports whether files can be written there, before any work is done for them.
func CheckDir(dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("output folder: %w", err)
	}
	f, err := place{path: filepath.Join(dir, "x")}.beside()
	if err != nil {
		return fmt.Errorf("output folder: no file can be made in %s: %w", dir, cause(err))
	}
	return errors.Join(f.Close(), os.Remove(f.Name()))
}

// CheckFile reports whether a file can be written, before any work is done for it. Its folder must be there. A pipe or a device is
// found out about when it is written.
func CheckFile(path string) error {
	if InPlace(path) {
		return nil
	}
	f, err := Create(path)
	if err != nil {
		return fmt.Errorf("output file: %w", err)
	}
	f.Discard()
	return nil
}

// InPlace reports whether Create would open what is there, as it does a pipe: that may wait for the other end.
func InPlace(path string) bool {
	at, err := destination(path)
	return err == nil && at.inPlace()
}

// SameFile reports whether a file that is written to one path is, or takes the place of, what the other leads to.
func SameFile(a, b string) bool {
	x, err1 := destination(a)
	y, err2 := destination(b)
	switch {
	case err1 != nil || err2 != nil:
		return false
	case x.info != nil && y.info != nil:
		return !x.inPlace() && os.SameFile(x.info, y.info)
	}
	return x.info == nil && y.info == nil && x.path == y.path
}

// JSON is summary.json.
func (r *Report) JSON() ([]byte, error) {
	b, err := json.MarshalIndent(r, "", " ")
	return append(b, '\n'), err
}

// CSV is results.csv: one row per run, an empty field where a figure does not exist.
func (r *Report) CSV() ([]byte, error) {
	head := append([]string{"workload", "spec", "scheduler", "rep", "seed"}, figureNames()...)
	rows := [][]string{append(head, "bursts", "requested", "applied", "fallback", "trivial", "aged", "trace_hash")}
	for i := range r.Runs {
		run := &r.Runs[i]
		row := []string{run.Workload, run.Spec, run.Scheduler, strconv.Itoa(run.Rep), strconv.FormatUint(run.Seed, 10)}
		for k := range figures {
			text := ""
			if v := float64(figures[k].of(&run.Result.Figures)); !math.IsNaN(v) {
				text = strconv.FormatFloat(v, 'g', -1, 64)
			}
			row = append(row, text)
		}
		f := &run.Result.Figures
		for _, n := range []uint64{f.Bursts, f.Fates.Requested, f.Fates.Applied, f.Fates.Fallback, f.Fates.Trivial, f.Fates.Aged} {
			row = append(row, strconv.FormatUint(n, 10))
		}
		rows = append(rows, append(row, run.Result.TraceHash))
	}
	var b bytes.Buffer
	err := csv.NewWriter(&b).WriteAll(rows)
	return b.Bytes(), err
}

// CheckNewDir is CheckDir for a folder that is made with its files: it asks the nearest that there is, so that whoever is stopped
// before there is anything to write leaves none.
func CheckNewDir(dir string) error {
	for _, err := os.Lstat(dir); errors.Is(err, fs.ErrNotExist) && dir != filepath.Dir(dir); _, err = os.Lstat(dir) {
		dir = filepath.Dir(dir)
	}
	return CheckDir(dir)
}

// Files are those that Save writes.
func Files(dir string) []string {
	return []string{filepath.Join(dir, "summary.json"), filepath.Join(dir, "summary.md"), filepath.Join(dir, "results.csv")}
}

// Save writes Files, in place of those that are there.
func (r *Report) Save(dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	summary, err := r.JSON()
	if err != nil {
		return err
	}
	rows, err := r.CSV()
	if err != nil {
		return err
	}
	data := [][]byte{summary, []byte(r.Markdown()), rows}
	for i, path := range Files(dir) {
		if err := WriteFile(path, data[i]); err != nil {
			return err
		}
	}
	return nil
}

// maxSummary bounds what Load takes for a summary.
const maxSummary = 256 << 20

// Load reads a summary.json. Its runs are not in it.
func Load(path string) (*Report, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if info.Size() > maxSummary {
		return nil, fmt.Errorf("%s: %d bytes are more than any summary has", path, info.Size())
	}
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	return parseReport(path, b)
}

func parseReport(path string, b []byte) (*Report, error) {
	var r Report
	if err := json.Unmarshal(b, &r); err != nil {
		return nil, fmt.Errorf("%s: it is no summary of a comparison: %w", path, err)
	}
	if len(r.Workloads) == 0 {
		return nil, fmt.Errorf("%s: it is no summary of a comparison: it has no workloads", path)
	}
	for name, w := range r.Workloads {
		if w == nil {
			return nil, fmt.Errorf("%s: workload %q is null", path, name)
		}
		for s, x := range w.Schedulers {
			if x == nil {
				return nil, fmt.Errorf("%s: workload %q: scheduler %q is null", path, name, s)
			}
		}
	}
	return &r, nil
}
