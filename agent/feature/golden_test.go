package feature

import (
	"flag"
	"fmt"
	"math"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/ghostgym/ghostgym/agent/kernel"
	"github.com/ghostgym/ghostgym/agent/sched"
)

var update = flag.Bool("update", false, "write the golden rows of features that are new or whose version has been raised")

const goldenFile = "testdata/golden.txt"

// goldenRows computes, for each feature of a task and of a slot, its values in a few scenes, each unlike the others.
func goldenRows() (names []string, versions map[string]int, values map[string][]float32) {
	type moment struct {
		task    sched.Task
		running bool
		lnRef   float64
		util    float64
		slice   kernel.Time
		waiting float64
	}
	const us = kernel.Microsecond
	moments := []moment{
		{task: sched.Task{Reason: sched.ReasonNew, Woken: 1000 * us}, lnRef: math.Log(2e5), util: 0.5, slice: kernel.Millisecond},
		{task: sched.Task{Reason: sched.ReasonWakeup, Woken: 700 * us, Bursts: 3, MeanBurst: 9e5, LnBurst: 12.5, LnDev: 0.75, LnLast: 14, LnSleep: 16, Nice: -5},
			lnRef: math.Log(3e5), util: 0.9, slice: kernel.Millisecond, waiting: 2.5},
		{task: sched.Task{Reason: sched.ReasonYield, Woken: 100 * us, Runtime: 40 * us, Bursts: 1, LnBurst: 9, LnDev: 1, LnLast: 9, LnSleep: 8, Nice: 10},
			lnRef: math.Log(2e4), util: 0.1, slice: 100 * us, waiting: 30},
		{task: sched.Task{Reason: sched.ReasonPreempt, Woken: 1, Runtime: 800 * us, Bursts: 9, LnBurst: 40, LnDev: 9, LnLast: 6, LnSleep: 1, Nice: 19},
			lnRef: math.Log(5e5), util: 1, slice: kernel.Forever, waiting: 1e6},
		{task: sched.Task{State: sched.OnCPU, Reason: sched.ReasonWakeup, Woken: 500 * us, Runtime: 20 * us, Start: 750 * us, Nice: -20}, running: true,
			lnRef: math.Log(1e6), util: 0.3, slice: 50 * us, waiting: 0.125},
	}
	versions, values = map[string]int{}, map[string][]float32{}
	add := func(prefix string, fs []Feature, row []float32) {
		for i, f := range fs {
			name := prefix + f.Name
			if _, ok := versions[name]; !ok {
				names = append(names, name)
			}
			versions[name] = f.Version
			values[name] = append(values[name], row[i])
		}
	}
	for _, m := range moments {
		stats := sched.Stats{LnRef: m.lnRef, Util: m.util}
		for b := range stats.LnGittins {
			stats.LnGittins[b], stats.LnRest[b] = 10+float64(b)/7, 13-float64(b)/5
		}
		c := scene{stats: &stats, now: 1000 * us, lnSlice: math.Log(float64(m.slice)), perRef: math.Exp(-m.lnRef), waiting: m.waiting}
		var row [taskWidth]float32
		c.task(&m.task, m.running, &row)
		add("task.", taskFeatures[:], row[:])
		var slot [slotWidth]float32
		c.slot(&m.task, &slot)
		add("slot.", slotTable[:], slot[:])
	}
	return names, versions, values
}

type goldenLine struct {
	version int
	values  []float32
}

func readGolden(t *testing.T) map[string]goldenLine {
	t.Helper()
	text, err := os.ReadFile(goldenFile)
	if os.IsNotExist(err) && *update {
		return nil
	}
	if err != nil {
		t.Fatal(err)
	}
	golden := map[string]goldenLine{}
	for _, l := range strings.Split(strings.TrimSpace(string(text)), "\n") {
		fields := strings.Fields(l)
		version, err := strconv.Atoi(fields[1])
		if err != nil {
			t.Fatalf("%s: %q: %v", goldenFile, l, err)
		}
		g := goldenLine{version: version}
		for _, f := range fields[2:] {
			x, err := strconv.ParseFloat(f, 32)
			if err != nil {
				t.Fatalf("%s: %q: %v", goldenFile, l, err)
			}
			g.values = append(g.values, float32(x))
		}
		golden[fields[0]] = g
	}
	return golden
}

func TestGolden(t *testing.T) {
	golden := readGolden(t)
	names, versions, values := goldenRows()
	var out strings.Builder
	for _, name := range names {
		fmt.Fprintf(&out, "%s %d", name, versions[name])
		for _, x := range values[name] {
			fmt.Fprintf(&out, " %v", x)
		}
		out.WriteByte('\n')
		g, ok := golden[name]
		switch {
		case ok && g.version == versions[name] && !near(g.values, values[name]):
			t.Errorf("%s: its values have changed and its Version has not: raise it. Was %v, is %v", name, g.values, values[name])
		case (!ok || g.version != versions[name]) && !*update:
			t.Errorf("%s: version %d has no golden row: run go test ./agent/feature -update", name, versions[name])
		}
	}
	if len(golden) > len(names) && !*update {
		t.Errorf("%s has %d features, the code %d: run go test ./agent/feature -update", goldenFile, len(golden), len(names))
	}
	if *update && !t.Failed() {
		if err := os.WriteFile(goldenFile, []byte(out.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// near allows for the last bits, in which processors differ.
func near(a, b []float32) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if math.Abs(float64(a[i]-b[i])) > 2e-6 {
			return false
		}
	}
	return true
}
