package main

import (
	"fmt"
	"math"
	"strings"

	"github.com/ghostgym/ghostgym/agent/feature"
	"github.com/ghostgym/ghostgym/env/cmd/cli"
	"github.com/ghostgym/ghostgym/inference"
)

var inferCommand = command{
	name: "infer", line: "a model's scores for the rows of a NumPy file or of a trace",
	usage: `
Usage: ghostlab infer MODEL --rows FILE [--json FILE]

Scores rows as the agent does. FILE is a NumPy file of float32 (n × width), or a trace that 'ghostd run
--record' wrote: then the scores are compared with those in it, to the bit, and the exit code is 1 if any
differs. One line per row; the JSON has each score twice, as a number and as the hexadecimal bits of its
float32.

  ghostd run --workload bimodal --bursts 200 --record run.trace
  ghostlab infer models/priority.onnx --rows run.trace
`,
	run: runInfer,
}

// scored is what infer reports.
type scored struct {
	Model    string       `json:"model"` // SHA-256
	Rows     int          `json:"rows"`
	Scores   [][]*float64 `json:"scores"` // null where not finite
	Bits     [][]string   `json:"bits"`
	Recorded *recorded    `json:"recorded,omitempty"` // of a trace
}

type recorded struct {
	Rows  int `json:"rows"`  // with scores of as many numbers as the model gives
	Equal int `json:"equal"` // to the bit
}

func runInfer(c *call) error {
	var path string
	cli.InputVar(c.flags, &path, "rows", "NumPy file or trace to read rows from: `FILE`")
	if err := c.parse(); err != nil {
		return err
	}
	if len(c.args) != 1 || path == "" {
		return cli.Usage("a model and --rows FILE are needed: ghostlab infer MODEL --rows FILE")
	}
	if err := c.reads(cli.Path{Name: "MODEL", Path: c.args[0]}, cli.Path{Name: "--rows", Path: path}); err != nil {
		return err
	}
	m, err := inference.LoadFile(c.args[0], inference.Options{})
	if err != nil {
		return cli.AsUsage(err)
	}
	in, err := readRows(path)
	if err != nil {
		return cli.AsUsage(err)
	}
	if hash := m.Meta()[feature.MetaHash]; hash != "" && in.schema != "" && hash != in.schema {
		return cli.Usage("%s: its rows are of schema %s, and the model is for %s", path, in.schema, hash)
	}
	if in.n > 0 && in.width != m.Width() {
		return cli.Usage("%s: rows of %d numbers, and the model takes %d", path, in.width, m.Width())
	}
	s, err := m.NewSession(max(in.n, 1))
	if err != nil {
		return err
	}
	k := m.OutWidth()
	out := make([]float32, in.n*k)
	if err := s.Score(in.data, in.n, out); err != nil {
		return err
	}
	res := scored{Model: m.Hash(), Rows: in.n, Scores: make([][]*float64, in.n), Bits: make([][]string, in.n)}
	if in.scores != nil {
		res.Recorded = &recorded{}
	}
	for i := range in.n {
		row := out[i*k : (i+1)*k]
		var line []string
		for _, v := range row {
			x := float64(v)
			line = append(line, fmt.Sprint(v))
			res.Bits[i] = append(res.Bits[i], fmt.Sprintf("%08x", math.Float32bits(v)))
			if math.IsNaN(x) || math.IsInf(x, 0) {
				res.Scores[i] = append(res.Scores[i], nil)
			} else {
				res.Scores[i] = append(res.Scores[i], &x)
			}
		}
		fmt.Fprintln(c.text(), strings.Join(line, " "))
		if res.Recorded != nil && len(in.scores[i]) == k {
			res.Recorded.Rows++
			if equal(in.scores[i], row) {
				res.Recorded.Equal++
			}
		}
	}
	if in.n == 0 && in.scores != nil {
		return cli.Usage("%s: it has no rows: was it recorded of a scheduler that asks a model?", path)
	}
	if r := res.Recorded; r != nil {
		fmt.Fprintf(c.text(), "# %d rows; of %d scores in the trace, %d are the same to the bit\n", in.n, r.Rows, r.Equal)
	}
	if err := c.put(res); err != nil {
		return err
	}
	if r := res.Recorded; r != nil && r.Equal < r.Rows {
		return fmt.Errorf("%s: %d of %d scores differ from those that %s gives", path, r.Rows-r.Equal, r.Rows, c.args[0])
	}
	return nil
}

func equal(a, b []float32) bool {
	for i := range a {
		if math.Float32bits(a[i]) != math.Float32bits(b[i]) {
			return false
		}
	}
	return true
}
