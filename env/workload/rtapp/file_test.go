package rtapp

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"syscall"
	"testing"

	"github.com/ghostgym/ghostgym/agent/kernel"
)

const us = kernel.Microsecond

// task wraps the members of one task into a document.
func task(members string) string { return `{"tasks": {"t": {` + members + `}}}` }

func TestEventsInDocumentOrder(t *testing.T) {
	f, repairs, err := Load("testdata/pipeline.json", false)
	if err != nil || len(repairs) != 0 {
		t.Fatal(err, repairs)
	}
	if len(f.Tasks) != 2 || len(f.Tasks[0].Phases) != 3 {
		t.Fatalf("%d tasks, %d phases", len(f.Tasks), len(f.Tasks[0].Phases))
	}
	p := f.Tasks[0]
	if p.Nice != -5 || p.Loop != -1 || *p.CPUs != (kernel.CPUSet{3}) || p.Phases[2].Name != "steady" {
		t.Errorf("producer: %+v", p)
	}
	want := []Event{
		{Verb: Run, Time: 700 * us}, {Verb: Lock, Ref: "slot"}, {Verb: Run, Time: 100 * us}, {Verb: Signal, Ref: "filled"},
		{Verb: Unlock, Ref: "slot"}, {Verb: Run, Time: 200 * us}, {Verb: Timer, Ref: "beat", Time: 5000 * us},
	}
	if got := p.Phases[1].Events; !reflect.DeepEqual(got, want) {
		t.Errorf("events\n%+v, want\n%+v", got, want)
	}
	c := f.Tasks[1]
	if c.Instances != 2 || c.Delay != 250*us || c.Nice != 3 || c.Loop != -1 || c.Phases[0].Loop != 1 {
		t.Errorf("consumer: %+v", c)
	}
	if f.Duration != 2*kernel.Second || f.CPUs != 3 {
		t.Errorf("duration %d, CPUs %d", f.Duration, f.CPUs)
	}
	if got, want := strings.Join(f.NoEffect, " "), "calibration gnuplot frag ftrace"; got != want {
		t.Errorf("no effect: %q, want %q", got, want)
	}
}

func TestVerbs(t *testing.T) {
	for text, want := range map[string]Event{
		`"run7": 5`:                          {Verb: Run, Time: 5 * us},
		`"runtime2": 5`:                      {Verb: Run, Time: 5 * us},
		`"sleepy": 6`:                        {Verb: Sleep, Time: 6 * us},
		`"suspend"`:                          {Verb: Suspend},
		`"suspend": ""`:                      {Verb: Suspend},
		`"suspend": "x"`:                     {Verb: Suspend, Ref: "x"},
		`"resume": "x"`:                      {Verb: Resume, Ref: "x"},
		`"yield"`:                            {Verb: Yield},
		`"yield": ""`:                        {Verb: Yield},
		`'sem_post1': "s"`:                   {Verb: Post, Ref: "s"},
		`"sem_wait": 's'`:                    {Verb: Acquire, Ref: "s"},
		`"barrier": "b"`:                     {Verb: Barrier, Ref: "b"},
		`"fork": "t"`:                        {Verb: Fork, Ref: "t"},
		`"broad": "c"`:                       {Verb: Broad, Ref: "c"},
		`"mem": 1000`:                        {Verb: Run, Time: 100},
		`"iorun": 1000`:                      {Verb: IO, Time: 1100, Wait: 2000},
		`"sync": {"ref": "c", "mutex": "m"}`: {Verb: Sync, Ref: "c", Mutex: "m"},
		`"timer": {"ref": "x", "period": 9, "mode": "absolute"}`:                 {Verb: Timer, Ref: "x", Time: 9 * us, Absolute: true},
		`"memrun": {"type": "write", "size": 64, "count": 2000}`:                 {Verb: Run, Time: 1000},
		`"memrun": {"type": "chase", "size": 64, "count": 10}`:                   {Verb: Run, Time: 50},
		`"memrun": {"type": "chase", "size": 99999999, "count": 10, "ref": "r"}`: {Verb: Run, Time: 800},
	} {
		f, _, err := Parse("f", []byte(task(text)), false)
		if err != nil {
			t.Errorf("%s: %v", text, err)
		} else if got := f.Tasks[0].Phases[0].Events; len(got) != 1 || got[0] != want {
			t.Errorf("%s: %+v, want %+v", text, got, want)
		}
	}
}

func TestLoops(t *testing.T) {
	for text, want := range map[string][2]int64{ // of the task, of its phase
		`"run": 1`:                    {-1, 1},
		`"run": 1, "loop": 3`:         {1, 3},
		`"run": 1, "loop": -1`:        {1, -1},
		`"phases": {"p": {"run": 1}}`: {-1, 1},
		`"loop": 4, "phases": {"p": {"loop": 2, "run": 1}}`: {4, 2},
		`"loop": 0, "phases": {"p": {"loop": 2, "run": 1}}`: {0, 2},
	} {
		f, _, err := Parse("f", []byte(task(text)), false)
		if err != nil {
			t.Errorf("%s: %v", text, err)
		} else if got := [2]int64{f.Tasks[0].Loop, f.Tasks[0].Phases[0].Loop}; got != want {
			t.Errorf("%s: %v, want %v", text, got, want)
		}
	}
}

func TestKeysWithoutEffect(t *testing.T) {
	for text, want := range map[string]string{
		`{"tasks": {"t": {"run": 1, "taskgroup": ""}}}`:     "",
		`{"tasks": {"t": {"run": 1, "taskgroup": "/web"}}}`: "taskgroup",
		`{"tasks": {"t": {"policy": "SCHED_DEADLINE", "runtime": 10000, "period": 20000, "deadline": 20000, "phases": {"p": {"run": 1}}}}}`: "period deadline policy runtime",
		`{"tasks": {"t": {"lock": "m", "unlock": "m"}}, "resources": {"m": {"type": "mutex"}}}`:                                             "",
		`{"tasks": {"t": {"run": 1}}, "global": {"ftrace": "Main,,stats"}}`:                                                                 "ftrace",
	} {
		f, _, err := Parse("f", []byte(text), false)
		if err != nil {
			t.Error(err)
		} else if got := strings.Join(f.NoEffect, " "); got != want {
			t.Errorf("%s: %q, want %q", text, got, want)
		}
	}
}

// Taken for what rt-app does: the thread runs for ever.
func TestLoopZeroIsEndless(t *testing.T) {
	for _, text := range []string{`"run": 1, "loop": 0`, `"phases": {"p": {"run": 1, "loop": 0}}`} {
		f, repairs, err := Parse("f", []byte(task(text)), true)
		if err != nil || len(repairs) != 1 || f.Tasks[0].Phases[0].Loop != -1 || f.Tasks[0].Loop == 0 {
			t.Errorf("%s: %v %v", text, repairs, err)
		}
	}
}

// Every refusal names line, column and key; where lenient reading has an answer, it says what it did.
func TestRefusals(t *testing.T) {
	for _, c := range []struct {
		text, err string
		repairs   int // of lenient reading; -1: refused too
	}{
		{``, `f:1:1: expected { at the beginning, found the end of the file`, -1},
		{`[]`, `f:1:1: expected { at the beginning, found '['`, -1},
		{`{"tasks": {"t": {"run": 1}}} x`, `f:1:30: text after the end of the document`, 1},
		{`{"tasks": {"t": {"run": 1}}`, `f:1:1: no closing '}' for this bracket`, -1},
		{`{"tasks" {"t": {"run": 1}}}`, `f:1:10: "tasks": expected : after the key, found '{'`, -1},
		{"{\n  tasks: {}}", `f:2:3: expected a key in quotes, found 't'`, -1},
		{`{"tasks": {}, "global": {}}`, `f:1:2: "tasks": no thread to start`, -1},
		{`{"global": {}}`, `f:1:1: "tasks": missing: a workload needs an object of this name`, -1},
		{`{"task": {"t": {"run": 1}}}`, `f:1:2: "task": unknown at the top level; did you mean "tasks"?`, -1},
		{"{\n\"tasks\": {\n\t\"t\": {\"runn\": 1, \"slep\": 2}}}", `f:3:19: "slep": unknown in a task; did you mean "sleep"?`, 1},
		{task(`"run": 1 "sleep": 2`), `f:1:27: no comma before this`, 1},
		{task(`"run": 1,, "sleep": 2`), `f:1:27: a comma after nothing`, 1},
		{task(`"run": "10"`), `f:1:25: "run": expected a whole number, found a string`, 1},
		{task(`"run": 10.0`), `f:1:25: "run": expected a whole number, found one with a fraction or exponent`, 1},
		{task(`"run": 10.5`), `f:1:25: "run": expected a whole number, found a number with a fraction`, -1},
		{task(`"run": 1e12`), `f:1:25: "run": 1e+12 is out of range: allowed are 0 to 2147483647`, -1},
		{`{"global": {"duration": 999999999999999999999}}`, `f:1:25: "duration": 1e+21 is out of range: allowed are -1 to 2147483647`, -1},
		{`{"global": {"ftrace": "main,bogus"}, "tasks": {"t": {"run": 1}}}`, `f:1:23: "ftrace": "bogus": allowed are none, main, task, run, loop, event, stats, with commas between`, 1},
		{task(`"run": 1, "taskgroup": "web"`), `f:1:28: "taskgroup": "web" does not begin with /`, 1},
		{task(`"runtime1": 1, "phases": {"p": {"run": 1}}`), `f:1:18: "runtime1": an event beside phases, which rt-app passes over`, 1},
		{task(`"run": 1O`), `f:1:25: "1O" is no value: expected a number, a string in quotes, true, false, null, { or [`, -1},
		{task(`"run": -3`), `f:1:25: "run": -3 is out of range: allowed are 0 to 2147483647`, -1},
		{task(`"run"`), `f:1:18: "run": has no value: expected a whole number`, -1},
		{task(`"run": 1, "loop": 1, "loop": 2`), `f:1:39: "loop": given before, in line 1`, 1},
		{task(`"run": 1, "priority": 40`), `f:1:40: "priority": 40 is out of range: allowed are -20 to 19`, -1},
		{task(`"run": 1, "policy": "SCHED_FIFO", "priority": 0`), `f:1:64: "priority": 0 is out of range: allowed are 1 to 99`, -1},
		{task(`"phases": {"a": {"policy": "SCHED_FIFO", "run": 1}, "b": {"priority": -3, "run": 1}}`), `f:1:88: "priority": -3 is out of range: allowed are 1 to 99`, -1},
		{task(`"run": 1, "policy": "FIFO"`), `f:1:38: "policy": "FIFO": allowed are SCHED_OTHER, SCHED_BATCH, SCHED_IDLE, SCHED_RR, SCHED_FIFO, SCHED_DEADLINE`, -1},
		{task(`"run": 1, "cpus": 2`), `f:1:36: "cpus": expected a list of numbers, found a whole number`, -1},
		{task(`"run": 1, "cpus": []`), `f:1:28: "cpus": an empty list leaves nothing to run on`, -1},
		{task(`"run": 1, "cpus": [300]`), `f:1:37: "cpus": 300 is out of range: allowed are 0 to 255`, -1},
		{task(`"run": 1, "instance": 10001`), `f:1:40: "instance": 10001 is out of range: allowed are 0 to 10000`, -1},
		{`{"tasks": {"a": {"instance": 9999, "run": 1}, "b": {"instance": 2, "run": 1}}}`, `f:1:47: "b": more than 10000 threads in all`, -1},
		{task(`"loop": 2`), `f:1:12: "t": no event: a thread must do something (runtime, run, sleep, timer, lock, unlock, ...)`, -1},
		{task(`"phases": {}`), `f:1:18: "phases": no phase`, -1},
		{task(`"phases": {"p": {"run": 1, "delay": 4}}`), `f:1:45: "delay": belongs to the task, not to a phase`, 1},
		{task(`"phases": {"p": {"run": 1, "loop": 0}}`), `f:1:45: "loop": 0 makes rt-app repeat the phase without end; write -1`, 1},
		{task(`"run": 1, "loop": 0`), `f:1:28: "loop": 0 makes rt-app repeat the phase without end; write -1`, 1},
		{task(`"run": 1, "phases": {"p": {"run": 1}}`), `f:1:18: "run": an event beside phases, which rt-app passes over`, 1},
		{task(`"timer": 5`), `f:1:27: "timer": expected an object, found a whole number`, -1},
		{task(`"timer": {"ref": "x"}`), `f:1:18: "timer": period is missing`, 1},
		{task(`"timer": {"ref": "x", "periode": 5, "period": 4}`), `f:1:40: "periode": unknown in "timer"; did you mean "period"?`, 1},
		{task(`"timer": {"ref": "x", "period": 4, "mode": "abs"}`), `f:1:61: "mode": "abs": allowed are relative, absolute`, -1},
		{task(`"wait": {"ref": "c"}`), `f:1:18: "wait": mutex is missing`, 1},
		{task(`"lock": ""`), `f:1:26: "lock": an empty string names nothing`, -1},
		{task(`"lock": 3`), `f:1:26: "lock": expected a string, found a whole number`, -1},
		{task(`"fork": "nobody"`), `f:1:18: "nobody": no task of this name to fork`, -1},
		{task(`"fork": "t", "fork2": "y", "fork3": "x", "fork4": "z"`), `f:1:31: "y": no task of this name to fork`, -1},
		{task(`"memrun": {"size": 4, "count": 4}`), `f:1:18: "memrun": type is missing: read, write or chase`, -1},
		{task(`"exec": 5, "run": 1`), `f:1:18: "exec": belongs to the grammar before rt-app 1.0, which is not read; write events (run, lock, sleep, timer) instead`, -1},
		{`{"global": {"durations": 3}, "tasks": {"t": {"run": 1}}}`, `f:1:13: "durations": unknown in global; did you mean "duration"?`, 1},
		{`{"global": {"duration": "long"}, "tasks": {"t": {"run": 1}}}`, `f:1:25: "duration": expected a whole number, found a string`, -1},
		{`{"global": {"gnuplot": 1}, "tasks": {"t": {"run": 1}}}`, `f:1:24: "gnuplot": expected true or false, found a whole number`, 1},
		{`{"global": {"calibration": "cpu"}, "tasks": {"t": {"run": 1}}}`, `f:1:13: "calibration": "cpu": expected CPU and a number, or nanoseconds per loop`, 1},
		{"{/* \n", `f:1:2: comment without end`, -1},
		{"{\"a\n\": 1}", `f:1:2: string without end on its line`, -1},
		{`{"a\q": 1}`, `f:1:4: unknown escape in a string`, -1},
		{`{"é": [[[[[[[[[[[[[[[[[[`, `f:1:22: nested more than 16 deep`, -1},
	} {
		_, repairs, err := Parse("f", []byte(c.text), false)
		if err == nil || err.Error() != c.err {
			t.Errorf("%s:\n got %v\nwant %s", c.text, err, c.err)
		}
		var where *Error
		if err != nil && (!errors.As(err, &where) || where.Line < 1 || where.Col < 1) {
			t.Errorf("%s: %#v", c.text, err)
		}
		if len(repairs) != 0 {
			t.Errorf("%s: strict reading repaired %v", c.text, repairs)
		}
		f, repairs, err := Parse("f", []byte(c.text), true)
		switch {
		case c.repairs < 0 && err == nil:
			t.Errorf("%s: lenient reading accepts it with %v", c.text, repairs)
		case c.repairs >= 0 && (err != nil || f == nil):
			t.Errorf("%s: lenient reading: %v", c.text, err)
		case c.repairs >= 0 && len(repairs) != c.repairs:
			t.Errorf("%s: %d repairs, want %d: %v", c.text, len(repairs), c.repairs, repairs)
		}
	}
}

func TestLoadErrors(t *testing.T) {
	if _, _, err := Load("testdata/none.json", false); !errors.Is(err, os.ErrNotExist) {
		t.Error(err)
	}
	pipe := filepath.Join(t.TempDir(), "pipe.json")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{"testdata", pipe} {
		if _, _, err := Load(path, false); err == nil || !strings.Contains(err.Error(), path+" is not a regular file") {
			t.Error(err)
		}
	}
	if _, _, err := Load("testdata/old.json", true); err == nil || !strings.Contains(err.Error(), "old.json:3:11: \"exec\"") {
		t.Error(err)
	}
	long := filepath.Join(t.TempDir(), "long.json")
	if err := os.WriteFile(long, []byte(`{"tasks": {"t": {"run": 1}}}`+strings.Repeat(" ", MaxBytes)), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, _, err := Load(long, true); err == nil || !strings.Contains(err.Error(), "longer than") {
		t.Error(err)
	}
}

func TestBounds(t *testing.T) {
	long := strings.Repeat("n", MaxText)
	for _, c := range []struct{ what, text, err string }{
		{"events", task(strings.Repeat(`"run": 1,`, MaxEvents+1)), "events in all"},
		{"depth", `{"tasks": ` + strings.Repeat(`{"a":`, 1<<16), "deep"},
		{"items", task(`"cpus": [` + strings.Repeat("0,", MaxNodes) + `], "run": 1`), "more than 400000 keys and list items"},
		{"keys", task(strings.Repeat(`"k",`, MaxNodes)), "more than 400000 keys and list items"},
		{"length of a key", `{"tasks": {"` + long + `n": {"run": 1}}}`, "f:1:12: string of more than 1024 bytes"},
		{"length of a name", task(`"lock": "` + long + `n"`), "f:1:26: string of more than 1024 bytes"},
		{"repairs", task(`"run": 1` + strings.Repeat(",", MaxRepairs+2)), "f:1:127: a comma after nothing; at most 100 such faults are repaired, and this is one more"},
	} {
		if _, _, err := Parse("f", []byte(c.text), true); err == nil || !strings.Contains(err.Error(), c.err) {
			t.Errorf("%s: %.200v, want %s", c.what, err, c.err)
		}
	}
	if _, r, err := Parse("f", []byte(task(`"run": 1`+strings.Repeat(",", MaxRepairs+1))), true); err != nil || len(r) != MaxRepairs {
		t.Errorf("%d repairs: %v", len(r), err)
	}
	if _, _, err := Parse("f", []byte(`{"tasks": {"`+long+`": {"run": 1}}}`), false); err != nil {
		t.Error(err)
	}
}

// What is said about a name of any length fits on a screen.
func TestLongNamesAreCut(t *testing.T) {
	long := strings.Repeat("k", MaxText)
	for _, text := range []string{
		`{"` + long + `": 1}`, task(`"timer` + long + `": 1`), task(`"` + long + `": 1`), task(`"fork": "` + long + `"`),
		task(`"timer` + long + `": {"per": 1}`), `{"tasks": {"` + long + `": 1}}`, task(`"policy": "` + long + `"`),
	} {
		if _, _, err := Parse("f", []byte(text), false); err == nil || len(err.Error()) > 400 {
			t.Errorf("%.40s: %v", text, err)
		}
	}
	f, repairs, err := Parse("f", []byte(task(`"`+long+`": 1, "run": 1, "suspend": "`+long+`"`)), true)
	if err != nil || len(repairs) != 1 || len(repairs[0].String()) > 300 {
		t.Error(repairs, err)
	}
	for _, note := range f.Compile().Notes {
		if len(note) > 300 {
			t.Error(note)
		}
	}
}

func FuzzParse(f *testing.F) {
	files, err := filepath.Glob("testdata/*.json")
	if err != nil || len(files) == 0 {
		f.Fatal(err, files)
	}
	for _, name := range files {
		src, err := os.ReadFile(name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(src)
	}
	f.Add([]byte(task(`"suspend", "memrun": {"type": "chase", "size": 4, "count": 1}, "timer": {"ref": "unique", "period": 1e3}`)))
	f.Fuzz(func(t *testing.T, src []byte) {
		strict, repairs, err := Parse("f", src, false)
		if err == nil && len(repairs) != 0 {
			t.Fatalf("strict reading repaired: %v", repairs)
		}
		lenient, repairs, lerr := Parse("f", src, true)
		if err == nil && (lerr != nil || len(repairs) != 0) {
			t.Fatalf("valid, but lenient reading says %v and repairs %v", lerr, repairs)
		}
		if err == nil && !reflect.DeepEqual(strict, lenient) {
			t.Fatal("strict and lenient reading differ on a valid file")
		}
		for _, e := range []error{err, lerr} {
			var where *Error
			if e != nil && (!errors.As(e, &where) || where.Line < 1 || where.Col < 1) {
				t.Fatalf("no place in %#v", e)
			}
		}
		if lerr != nil {
			return
		}
		threads := 0
		for _, task := range lenient.Tasks {
			threads += task.Instances
			if len(task.Phases) == 0 {
				t.Fatalf("%s: no phases", task.Name)
			}
			for _, ph := range task.Phases {
				if len(ph.Events) == 0 || ph.Loop < -1 {
					t.Fatalf("%s: %+v", task.Name, ph)
				}
				for _, e := range ph.Events {
					if e.Time < 0 || e.Wait < 0 {
						t.Fatalf("%s: %+v", task.Name, e)
					}
				}
			}
		}
		if threads == 0 || threads > MaxThreads || lenient.CPUs > kernel.MaxCPUs {
			t.Fatal(fmt.Sprint(threads, " threads, ", lenient.CPUs, " CPUs"))
		}
		lenient.Compile()
	})
}
