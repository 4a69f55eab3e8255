// Package rtapp reads the workload files of rt-app, which describe threads as loops of phases and phases as sequences of
// events, and runs them on the simulated machine.
//
// The grammar is rt-app's, together with what its helper workgen adds: comments, trailing commas, keys that repeat within an
// object (all are kept, in the order of the document), and keys without value. Strict reading refuses every key and value
// that rt-app does not know, with file, line, column and key; lenient reading repairs what it can and lists each repair.
//
// Where releases differ, the one that its tutorial describes is followed: "suspend" waits under the name that it is given,
// and under its thread's name if it has no value (releases since 2025 always take the thread's).
//
// Differences from a run of rt-app on a real machine: "run" and "runtime" are CPU time, on a machine whose CPUs are all
// equally fast; memory and I/O events are CPU and waiting time by the constants in cost.go; scheduling policies other than
// the nice value have no effect, since the scheduler is what is compared. What a file asks for in vain is listed, once per run.
package rtapp

import (
	"fmt"
	"io"
	"os"

	"github.com/ghostgym/ghostgym/agent/kernel"
)

// Bounds on what a file may ask for.
const (
	MaxThreads = 10000   // at the start
	MaxForks   = 1024    // of each task, as in rt-app
	MaxEvents  = 100_000 // in all phases

	maxStarted = 2 * MaxThreads // threads of a run, forks included
)

// File is a workload as read.
type File struct {
	Path     string
	Duration kernel.Time // 0: until all threads have ended
	Tasks    []Task
	CPUs     int           // 1 + the highest CPU number in the file; 0 if it names none
	Pinned   kernel.CPUSet // all CPUs that threads name
	NoEffect []string      // keys without effect here, in order of appearance, each once
	Costs    []string      // what events that are no plain run are taken to cost
	memory   int64         // bytes of the buffer of mem and iorun
}

// Task describes like threads.
type Task struct {
	Name      string
	Instances int
	Delay     kernel.Time // before the first event
	Loop      int64       // times that all phases run; -1: for ever
	Nice      int8
	CPUs      *kernel.CPUSet // nil: all
	Phases    []Phase
}

// Phase is a sequence of events that repeats.
type Phase struct {
	Name    string
	Loop    int64 // -1: for ever
	CPUs    *kernel.CPUSet
	Nice    int8
	SetNice bool // the phase sets Nice; it stays set afterwards
	Events  []Event
}

// Verb says what an event does.
type Verb uint8

// What events do.
const (
	Run     Verb = iota // use the CPU for Time
	Sleep               // for Time
	Timer               // wait until Time after the last use of timer Ref
	Lock                // mutex Ref
	Unlock              // mutex Ref
	Wait                // for condition Ref, with Mutex
	Signal              // one waiter of condition Ref
	Broad               // all waiters of condition Ref
	Sync                // signal, then wait
	Suspend             // until somebody resumes Ref
	Resume              // all threads suspended under Ref
	Barrier             // wait for all users of Ref
	Fork                // start one more thread of task Ref
	Yield
	Post    // semaphore Ref
	Acquire // semaphore Ref
	IO      // use the CPU for Time, then wait for Wait
)

// Event is one step of a phase.
type Event struct {
	Verb     Verb
	Ref      string
	Mutex    string
	Time     kernel.Time
	Wait     kernel.Time
	Absolute bool // Timer: overruns are made up for
}

// Load reads a file. The error is an *Error, or one of the file system; repairs are those of lenient reading.
func Load(path string, lenient bool) (*File, []Repair, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, nil, fmt.Errorf("rt-app file: %w", err)
	}
	if !info.Mode().IsRegular() { // to open a pipe may block for ever
		return nil, nil, fmt.Errorf("rt-app file: %s is not a regular file; a workload may be read more than once, so save it in one", path)
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, nil, fmt.Errorf("rt-app file: %w", err)
	}
	defer f.Close()
	src, err := io.ReadAll(io.LimitReader(f, MaxBytes+1))
	if err != nil {
		return nil, nil, fmt.Errorf("rt-app file: %w", err)
	}
	return Parse(path, src, lenient)
}

// Parse reads the text of a file; path stands in errors.
func Parse(path string, src []byte, lenient bool) (*File, []Repair, error) {
	p := parser{reader: reader{path: path, src: string(src), lenient: lenient}}
	root, err := p.document()
	if err != nil {
		return nil, nil, err
	}
	d := decoder{reader: p.reader, file: &File{Path: path, memory: defaultMemory}, forks: map[string]int{}}
	if err := d.document(root); err != nil {
		return nil, nil, err
	}
	return d.file, d.repairs, nil
}
