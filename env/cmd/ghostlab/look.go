package main

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/ghostgym/ghostgym/agent/feature"
	"github.com/ghostgym/ghostgym/agent/kernel/sim"
	"github.com/ghostgym/ghostgym/agent/policy"
	"github.com/ghostgym/ghostgym/env"
	"github.com/ghostgym/ghostgym/env/compare"
	"github.com/ghostgym/ghostgym/env/reward"
	"github.com/ghostgym/ghostgym/env/workload"
	"github.com/ghostgym/ghostgym/env/workload/rtapp"
	"github.com/ghostgym/ghostgym/inference"
	"github.com/ghostgym/ghostgym/models"
)

var listCommand = command{
	name: "list", line: "every name there is: workloads, schedulers, profiles, rewards",
	usage: `
Usage: ghostlab list [--json FILE]

Names every workload with its parameters, every policy, every profile, every reward.
`,
	run: runList,
}

type named struct {
	Name string `json:"name"`
	Doc  string `json:"doc"`
}

func runList(c *call) error {
	if err := c.parse(); err != nil {
		return err
	}
	if len(c.args) > 0 {
		return usage("%q is no flag", c.args[0])
	}
	sections := []struct {
		Title string  `json:"-"`
		Key   string  `json:"-"`
		Names []named `json:"-"`
	}{{Title: "Workloads (name:key=value:…)", Key: "workloads"}, {Title: "Policies (policy[+wp][@profile])", Key: "policies"},
		{Title: "Profiles", Key: "profiles"}, {Title: "Rewards", Key: "rewards"}, {Title: "Events", Key: "events"}}
	for _, n := range workload.Names() {
		sections[0].Names = append(sections[0].Names, named{n, workload.Doc(n)})
	}
	sections[0].Names = append(sections[0].Names, named{"FILE.json", workload.Doc("x.json")})
	for _, e := range policy.Entries() {
		sections[1].Names = append(sections[1].Names, named{e.Name, e.Doc})
	}
	sections[1].Names = append(sections[1].Names, named{env.OracleName, "shortest remaining time, known from the future: a yardstick"})
	for _, n := range sim.Profiles() {
		p, err := sim.LoadProfile(n)
		if err != nil {
			return err
		}
		queues := "a queue per CPU"
		if p.Shared {
			queues = "one queue"
		}
		sections[2].Names = append(sections[2].Names, named{n, fmt.Sprintf("%s Model %s, %s, slice %d µs.", p.Doc, p.Model, queues, p.Slice/1000)})
	}
	for _, n := range reward.Names() {
		sections[3].Names = append(sections[3].Names, named{n, ""})
	}
	sections[4].Names = []named{{"default", "every enqueue whose answer can matter"}, {"fork", "where the RL fork of ghOSt asks"},
		{"all", "trivial ones too"}}
	all := map[string][]named{}
	for _, s := range sections {
		all[s.Key] = s.Names
		fmt.Fprintf(c.text(), "%s\n", s.Title)
		for _, n := range s.Names {
			fmt.Fprintf(c.text(), "  %-14s %s\n", n.Name, n.Doc)
		}
		fmt.Fprintln(c.text())
	}
	b, err := json.MarshalIndent(all, "", " ")
	if err != nil {
		return err
	}
	return c.put(append(b, '\n'))
}

var inspectCommand = command{
	name: "inspect", line: "what a model is, and whether the agent takes it",
	usage: `
Usage: ghostlab inspect MODEL [--json FILE]

Prints a model's inputs, outputs, metadata and compiled plan, and says whether it can schedule here.
`,
	run: runInspect,
}

func runInspect(c *call) error {
	if err := c.parse(); err != nil {
		return err
	}
	if len(c.args) != 1 {
		return usage("one model is needed: ghostlab inspect MODEL")
	}
	net, err := inference.LoadFile(c.args[0], inference.Options{})
	if err != nil {
		return usageError{err}
	}
	m, err := models.LoadFile(c.args[0])
	if err != nil {
		return usageError{err}
	}
	verdict := "yes, by " + kindOf(m)
	if err := m.Check(); err != nil {
		verdict = "no: " + err.Error()
	}
	w := c.text()
	fmt.Fprintf(w, "%s\nsha256 %s\n", c.args[0], net.Hash())
	for _, io := range net.Inputs() {
		fmt.Fprintf(w, "input  %s %s %v\n", io.Name, io.Type, dims(io))
	}
	for _, io := range net.Outputs() {
		fmt.Fprintf(w, "output %s %s %v\n", io.Name, io.Type, dims(io))
	}
	for _, k := range slices.Sorted(maps.Keys(m.Meta())) {
		v := m.Meta()[k]
		if k == feature.MetaSchema {
			v = fmt.Sprintf("(%d lines)", strings.Count(v, "\n"))
		}
		fmt.Fprintf(w, "metadata %s = %s\n", k, v)
	}
	fmt.Fprintf(w, "schedules: %s\n%s", verdict, net.Describe())
	b, err := json.MarshalIndent(map[string]any{
		"path": c.args[0], "sha256": net.Hash(), "inputs": net.Inputs(), "outputs": net.Outputs(), "metadata": m.Meta(),
		"schedules": m.Check() == nil, "verdict": verdict, "plan": net.Describe(),
	}, "", " ")
	if err != nil {
		return err
	}
	return c.put(append(b, '\n'))
}

func kindOf(m *models.Model) string {
	if s := m.Schema(); s != nil {
		return s.Kind
	}
	return "no schema of ours"
}

func dims(io inference.IO) []string {
	var all []string
	for i, d := range io.Dims {
		switch {
		case d >= 0:
			all = append(all, strconv.Itoa(d))
		case i < len(io.DimNames) && io.DimNames[i] != "":
			all = append(all, io.DimNames[i])
		default:
			all = append(all, "?")
		}
	}
	return all
}

var inferCommand = command{
	name: "infer", line: "a model's scores for rows in a .npy file",
	usage: `
Usage: ghostlab infer MODEL --rows FILE.npy [--json FILE]

Scores the rows of a float32 NumPy file (n × width) as the agent does. The JSON has each score twice: as a
number, and as the hexadecimal bits of its float32, for comparison to the bit.
`,
	run: runInfer,
}

func runInfer(c *call) error {
	var rows string
	c.flags.StringVar(&rows, "rows", "", "NumPy `FILE` of float32 rows")
	if err := c.parse(); err != nil {
		return err
	}
	if len(c.args) != 1 || rows == "" {
		return usage("a model and --rows FILE.npy are needed")
	}
	m, err := inference.LoadFile(c.args[0], inference.Options{})
	if err != nil {
		return usageError{err}
	}
	data, n, width, err := readNPY(rows)
	if err != nil {
		return usageError{err}
	}
	if width != m.Width() {
		return usage("%s: rows of %d numbers, and the model takes %d", rows, width, m.Width())
	}
	s, err := m.NewSession(max(n, 1))
	if err != nil {
		return err
	}
	out := make([]float32, n*m.OutWidth())
	if err := s.Score(data, n, out); err != nil {
		return err
	}
	scores, bits := make([][]any, n), make([][]string, n)
	for i := range n {
		for _, v := range out[i*m.OutWidth() : (i+1)*m.OutWidth()] {
			x := any(float64(v))
			if f := float64(v); math.IsNaN(f) || math.IsInf(f, 0) {
				x = nil
			}
			scores[i] = append(scores[i], x)
			bits[i] = append(bits[i], fmt.Sprintf("%08x", math.Float32bits(v)))
		}
		fmt.Fprintln(c.text(), strings.Trim(fmt.Sprint(scores[i]), "[]"))
	}
	b, err := json.Marshal(map[string]any{"rows": n, "scores": scores, "bits": bits})
	if err != nil {
		return err
	}
	return c.put(append(b, '\n'))
}

var npyHeader = regexp.MustCompile(`'descr': '(<f4)', 'fortran_order': False, 'shape': \((\d+), (\d+)\)`)

// maxRows bounds what a file may hold: 256 MiB.
const maxRows = 256 << 20

// readNPY reads a two-dimensional little-endian float32 array in NumPy's file format, version 1 or 2.
func readNPY(path string) (data []float32, n, width int, err error) {
	fail := func(why string) ([]float32, int, int, error) {
		return nil, 0, 0, fmt.Errorf("%s: %s; numpy.save(path, rows.astype('float32')) writes what is wanted", path, why)
	}
	info, err := os.Stat(path)
	if err != nil {
		return nil, 0, 0, err
	}
	if info.Size() > maxRows {
		return fail(fmt.Sprintf("%d bytes are more than %d", info.Size(), maxRows))
	}
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, 0, 0, err
	}
	if len(b) < 12 || string(b[:6]) != "\x93NUMPY" {
		return fail("it is no NumPy file")
	}
	start, size := 10, int(binary.LittleEndian.Uint16(b[8:]))
	if b[6] >= 2 {
		start, size = 12, int(binary.LittleEndian.Uint32(b[8:]))
	}
	if size < 0 || size > len(b)-start {
		return fail("its header is cut off")
	}
	m := npyHeader.FindStringSubmatch(string(b[start : start+size]))
	if m == nil {
		return fail("it is no C-ordered two-dimensional float32 array")
	}
	n, err1 := strconv.Atoi(m[2])
	width, err2 := strconv.Atoi(m[3])
	body := b[start+size:]
	if err1 != nil || err2 != nil || width > maxRows || n > maxRows || n*width*4 != len(body) {
		return fail("its size is not what its header says")
	}
	data = make([]float32, n*width)
	for i := range data {
		data[i] = math.Float32frombits(binary.LittleEndian.Uint32(body[4*i:]))
	}
	return data, n, width, nil
}

var validateCommand = command{
	name: "validate", line: "check rt-app files",
	usage: `
Usage: ghostlab validate FILE… [--lenient] [--json FILE]

Reads rt-app files and prints what is wrong with them: file, line, column, key. With --lenient, what can be
repaired is, and each repair is listed.
`,
	run: runValidate,
}

func runValidate(c *call) error {
	lenient := c.flags.Bool("lenient", false, "repair what can be repaired, and list it")
	if err := c.parse(); err != nil {
		return err
	}
	if len(c.args) == 0 {
		return usage("at least one file is needed")
	}
	type result struct {
		File    string   `json:"file"`
		Error   string   `json:"error,omitempty"`
		Repairs []string `json:"repairs,omitempty"`
		Notes   []string `json:"notes,omitempty"`
	}
	var all []result
	var bad []error
	for _, path := range c.args {
		r := result{File: path}
		_, repairs, err := rtapp.Load(path, *lenient)
		for _, x := range repairs {
			r.Repairs = append(r.Repairs, fmt.Sprint(x))
		}
		if err == nil {
			spec := path
			if *lenient {
				spec += ":lenient=1"
			}
			in, e := env.BuildInstance(spec)
			if err = e; e == nil {
				r.Notes = in.Notes
			}
		}
		if err != nil {
			r.Error = err.Error()
			bad = append(bad, err)
		} else {
			fmt.Fprintf(c.text(), "%s: ok\n", path)
		}
		for _, x := range append(r.Repairs, r.Notes...) {
			fmt.Fprintf(c.text(), "  %s\n", x)
		}
		all = append(all, r)
	}
	b, err := json.MarshalIndent(all, "", " ")
	if err != nil {
		return err
	}
	if err := c.put(append(b, '\n')); err != nil {
		return err
	}
	if len(bad) > 0 {
		return usageError{errors.Join(bad...)}
	}
	return nil
}

var reportCommand = command{
	name: "report", line: "render summary.json again, as summary.md",
	usage: `
Usage: ghostlab report FOLDER

Prints the summary of a comparison from its summary.json.
`,
	run: func(c *call) error {
		if err := c.parse(); err != nil {
			return err
		}
		if len(c.args) != 1 {
			return usage("one folder is needed: ghostlab report FOLDER")
		}
		r, err := compare.Load(filepath.Join(c.args[0], "summary.json"))
		if err != nil {
			return usageError{err}
		}
		fmt.Fprint(c.text(), r.Markdown())
		b, err := r.JSON()
		if err != nil {
			return err
		}
		return c.put(b)
	},
}
