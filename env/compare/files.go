package compare

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"strconv"
)

// File is written beside its name, and has that name only once it is whole.
type File struct {
	*os.File
	path string // "": it is written in place
}

// Create begins a file. Where the path is a link, the file it leads to is replaced, not the link; a pipe or a device is written in
// place, since to rename over it would destroy it.
func Create(path string) (*File, error) {
	path, inPlace := destination(path)
	if inPlace {
		f, err := os.OpenFile(path, os.O_WRONLY, 0)
		if err != nil {
			return nil, err
		}
		return &File{f, ""}, nil
	}
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*")
	if err != nil {
		return nil, err
	}
	return &File{f, path}, nil
}

// destination follows links, and tells whether what is there is something else than a file.
func destination(path string) (end string, inPlace bool) {
	info, err := os.Stat(path)
	if err != nil {
		return path, false
	}
	if !info.Mode().IsRegular() {
		return path, true // as it is named: what a link of /proc says of a pipe is no path
	}
	if end, err := filepath.EvalSymlinks(path); err == nil {
		return end, false
	}
	return path, false
}

// Keep gives the file its name. After an error there is no file.
func (f *File) Keep() error {
	if f.path == "" {
		return f.File.Close()
	}
	err := errors.Join(f.Chmod(0o644), f.File.Close())
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
	f, err := os.CreateTemp(dir, ".probe*")
	if err != nil {
		return fmt.Errorf("output folder: %w", err)
	}
	return errors.Join(f.Close(), os.Remove(f.Name()))
}

// CheckFile is CheckDir for one file. A pipe or a device is found out about when it is written.
func CheckFile(path string) error {
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		return fmt.Errorf("output file: %s is a folder", path)
	}
	path, inPlace := destination(path)
	if inPlace {
		return nil
	}
	return CheckDir(filepath.Dir(path))
}

// SameFile reports whether two paths would be written over one another.
func SameFile(a, b string) bool {
	a, pipe := destination(a)
	b, _ = destination(b)
	x, err1 := filepath.Abs(a)
	y, err2 := filepath.Abs(b)
	return !pipe && err1 == nil && err2 == nil && x == y
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
