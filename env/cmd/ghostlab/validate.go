package main

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/ghostgym/ghostgym/env/cmd/cli"
	"github.com/ghostgym/ghostgym/env/workload"
	"github.com/ghostgym/ghostgym/env/workload/rtapp"
)

var validateCommand = command{
	name: "validate", line: "check rt-app files",
	usage: `
Usage: ghostlab validate FILE… [--lenient] [--json FILE]

Reads rt-app files and prints what is wrong with them: file, line, column, key. What a file asks for in vain
here is noted. With --lenient, what can be repaired is, and each repair is listed. The exit code is 2 if any
file is refused.

  ghostlab validate /usr/share/doc/rt-app/examples/tutorial/*.json
`,
	run: runValidate,
}

// verdict is what is found in a file.
type verdict struct {
	File    string    `json:"file"`
	OK      bool      `json:"ok"`
	Problem *problem  `json:"problem,omitempty"`
	Repairs []problem `json:"repairs,omitempty"`
	Notes   []string  `json:"notes,omitempty"`
}

// problem is a place in a file, where that is known, and what is wrong there or was done about it.
type problem struct {
	Line    int    `json:"line,omitempty"`
	Column  int    `json:"column,omitempty"`
	Key     string `json:"key,omitempty"`
	Message string `json:"message"`
}

func runValidate(c *call) error {
	lenient := c.flags.Bool("lenient", false, "repair what can be repaired, and list it")
	if err := c.parse(); err != nil {
		return err
	}
	if len(c.args) == 0 {
		return cli.Usage("at least one file is needed: ghostlab validate FILE…")
	}
	inputs := make([]cli.Path, len(c.args))
	for i, path := range c.args {
		inputs[i] = cli.Path{Name: "FILE", Path: path}
	}
	if err := c.reads(inputs...); err != nil {
		return err
	}
	var all []verdict
	var bad []error
	for _, path := range c.args {
		v, line, err := validate(path, *lenient)
		if err != nil {
			bad = append(bad, err)
		} else {
			fmt.Fprintf(c.text(), "%s: %s\n", path, line)
		}
		for _, r := range v.Repairs {
			fmt.Fprintf(c.text(), "  repaired %s:%d:%d: %s\n", path, r.Line, r.Column, strings.TrimSpace(r.Key+" "+r.Message))
		}
		for _, n := range v.Notes {
			fmt.Fprintf(c.text(), "  note: %s\n", n)
		}
		all = append(all, v)
	}
	if err := c.put(all); err != nil {
		return err
	}
	return cli.AsUsage(errors.Join(bad...))
}

func validate(path string, lenient bool) (v verdict, line string, err error) {
	v.File = path
	f, repairs, err := rtapp.Load(path, lenient)
	for _, r := range repairs {
		v.Repairs = append(v.Repairs, problem{r.Line, r.Col, r.Key, r.Done})
	}
	var in *workload.Instance
	if err == nil {
		v.Notes = f.Compile().Notes
		name := path
		if !workload.IsFile(name) {
			name = "./" + name
		}
		in, err = workload.Build(name, workload.Params{Lenient: lenient}) // also runs it for a moment
	}
	if err != nil {
		v.Problem = &problem{Message: err.Error()}
		var e *rtapp.Error
		if errors.As(err, &e) {
			v.Problem = &problem{e.Line, e.Col, e.Key, e.Msg}
		}
		return v, "", err
	}
	v.OK = true
	threads := 0
	for i := range f.Tasks {
		threads += f.Tasks[i].Instances
	}
	return v, fmt.Sprintf("ok: %d threads, %d CPUs, %s", threads, in.CPUs, time.Duration(in.Duration)), nil
}
