package cli

import (
	"context"
	"errors"
	"flag"
	"io"
	"os"

	"github.com/ghostgym/ghostgym/env/compare"
)

// file is the value of a flag that names a file.
type file struct {
	path   *string
	output bool
}

func (v file) String() string {
	if v.path == nil {
		return ""
	}
	return *v.path
}

// Set implements flag.Value.
func (v file) Set(path string) error {
	switch {
	case path == "":
		return errors.New("want the name of a file")
	case v.output && isStdout(path):
		path = "-"
	}
	*v.path = path
	return nil
}

// InputVar adds a flag that names a file to read.
func InputVar(f *flag.FlagSet, path *string, name, usage string) {
	f.Var(file{path, false}, name, usage)
}

// OutputVar adds a flag that names a file to write. Standard output is "-" by whatever name it comes: two who write there, each from
// its own beginning, write over one another.
func OutputVar(f *flag.FlagSet, path *string, name, usage string) {
	f.Var(file{path, true}, name, usage)
}

// isStdout reports whether a path leads to where standard output goes. Whatever goes to the null device does not meet there.
func isStdout(path string) bool {
	out, err1 := os.Stdout.Stat()
	info, err2 := os.Stat(path)
	null, err3 := os.Stat(os.DevNull)
	return err1 == nil && err2 == nil && os.SameFile(info, out) && !(err3 == nil && os.SameFile(info, null))
}

// Path is a file that a command reads or writes, and what names it: a flag, or an argument as the usage has it.
type Path struct{ Name, Path string }

// CheckApart refuses outputs that would be written over an input, or over one another. Paths that are "" or "-" are none.
func CheckApart(inputs, outputs []Path) error {
	for i, out := range outputs {
		if out.Path == "" || out.Path == "-" {
			continue
		}
		for _, in := range inputs {
			if in.Path != "" && compare.SameFile(in.Path, out.Path) {
				return Usage("%s and %s: %s is read, and would be written over", in.Name, out.Name, out.Path)
			}
		}
		for _, other := range outputs[:i] {
			if other.Path != "" && compare.SameFile(other.Path, out.Path) {
				return Usage("%s and %s: %s cannot be both", other.Name, out.Name, out.Path)
			}
		}
	}
	return nil
}

// Put writes a result where --json says: nowhere, to stdout ("-"), or to a file, whole or not at all.
func Put(path string, stdout io.Writer, b []byte) error {
	switch path {
	case "":
		return nil
	case "-":
		_, err := stdout.Write(b)
		return err
	}
	if !compare.InPlace(path) { // then it does not wait for anybody, and a signal must not leave half of it
		_, stop := Signals(context.Background())
		defer stop()
	}
	return compare.WriteFile(path, b)
}

// CheckPut finds out whether Put can write, before any work is done for it.
func CheckPut(flag, path string) error {
	if path == "" || path == "-" {
		return nil
	}
	if err := compare.CheckFile(path); err != nil {
		return Usage("--%s: %w", flag, err)
	}
	return nil
}
