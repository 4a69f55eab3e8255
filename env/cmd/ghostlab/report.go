package main

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"github.com/ghostgym/ghostgym/env/cmd/cli"
	"github.com/ghostgym/ghostgym/env/compare"
)

var reportCommand = command{
	name: "report", line: "print the report of a comparison from its summary.json",
	usage: `
Usage: ghostlab report FOLDER [--json FILE]

Prints the tables of a comparison again, as its summary.md has them, from the summary.json that 'ghostlab
compare --out FOLDER' left. A path of the file itself does as well. What a recipe appends to summary.md, as
'make demo' does under "In short", is in that file only.

  ghostlab report out/demo
`,
	run: runReport,
}

func runReport(c *call) error {
	if err := c.parse(); err != nil {
		return err
	}
	if len(c.args) != 1 {
		return cli.Usage("one folder is needed: ghostlab report FOLDER")
	}
	path := c.args[0]
	if filepath.Ext(path) != ".json" {
		path = filepath.Join(path, "summary.json")
	}
	r, err := compare.Load(path)
	if errors.Is(err, fs.ErrNotExist) {
		return cli.Usage("%w; 'ghostlab compare --out FOLDER' writes it", err)
	}
	if err != nil {
		return cli.AsUsage(err)
	}
	fmt.Fprint(c.text(), r.Markdown())
	return c.put(r)
}
