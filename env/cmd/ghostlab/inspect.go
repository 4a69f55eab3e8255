package main

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/ghostgym/ghostgym/agent/feature"
	"github.com/ghostgym/ghostgym/env/cmd/cli"
	"github.com/ghostgym/ghostgym/inference"
	"github.com/ghostgym/ghostgym/models"
)

var inspectCommand = command{
	name: "inspect", line: "what a model is, and whether the agent takes it",
	usage: `
Usage: ghostlab inspect MODEL [--json FILE]

Prints what is in an ONNX file: whether it can schedule here and why not, its inputs and outputs, its
metadata, and the plan that it was compiled to. A model whose metadata are wrong is still inspected; of one
made for another schema, the differing features are named.

  ghostlab inspect models/priority.onnx
`,
	run: runInspect,
}

func runInspect(c *call) error {
	if err := c.parse(); err != nil {
		return err
	}
	if len(c.args) != 1 {
		return cli.Usage("one model is needed: ghostlab inspect MODEL")
	}
	if err := c.reads(cli.Path{Name: "MODEL", Path: c.args[0]}); err != nil {
		return err
	}
	net, err := inference.LoadFile(c.args[0], inference.Options{})
	if err != nil {
		return cli.AsUsage(err)
	}
	m, err := models.LoadFile(c.args[0])
	if err != nil {
		return cli.AsUsage(err)
	}
	kind, verdict := "", ""
	if m.Check() != nil {
		verdict = "no: " + m.Check().Error()
	} else {
		kind = m.Schema().Kind
		verdict = "yes, by " + kind
	}
	w := c.text()
	fmt.Fprintf(w, "%s\nsha256 %s\nschedules: %s\n\n", c.args[0], net.Hash(), verdict)
	for _, k := range slices.Sorted(maps.Keys(m.Meta())) {
		v := m.Meta()[k]
		if k == feature.MetaSchema {
			v = fmt.Sprintf("(%d lines; --json shows them)", strings.Count(v, "\n"))
		}
		fmt.Fprintf(w, "metadata %s = %s\n", k, v)
	}
	for _, x := range net.Inputs() {
		fmt.Fprintf(w, "input  %s %s %v\n", x.Name, x.Type, dims(x))
	}
	for _, x := range net.Outputs() {
		fmt.Fprintf(w, "output %s %s %v\n", x.Name, x.Type, dims(x))
	}
	_, plan, _ := strings.Cut(net.Describe(), "\nopset ")
	fmt.Fprintf(w, "opset %s", plan)
	return c.put(map[string]any{
		"path": c.args[0], "sha256": net.Hash(), "schedules": m.Check() == nil, "verdict": verdict, "schema": kind,
		"inputs": signature(net.Inputs()), "outputs": signature(net.Outputs()), "width": net.Width(), "out_width": net.OutWidth(),
		"metadata": m.Meta(), "plan": strings.Split(strings.TrimSuffix("opset "+plan, "\n"), "\n"),
	})
}

type tensor struct {
	Name  string   `json:"name"`
	Type  string   `json:"type"`
	Shape []string `json:"shape"`
}

func signature(all []inference.IO) []tensor {
	var out []tensor
	for _, x := range all {
		out = append(out, tensor{x.Name, x.Type, dims(x)})
	}
	return out
}

// dims is a shape in words, symbolic dimensions by their names.
func dims(x inference.IO) []string {
	var all []string
	for i, d := range x.Dims {
		switch {
		case d >= 0:
			all = append(all, strconv.Itoa(d))
		case i < len(x.DimNames) && x.DimNames[i] != "":
			all = append(all, x.DimNames[i])
		default:
			all = append(all, "?")
		}
	}
	return all
}
