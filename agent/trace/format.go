package trace

import (
	"errors"
	"fmt"

	"github.com/ghostgym/ghostgym/agent/kernel"
	"github.com/ghostgym/ghostgym/agent/sched"
)

// Format and Version are what a header begins with.
const (
	Format  = "ghostgym-trace"
	Version = 1
)

// Kinds of records after the header, and how many elements they and the entries of their lists have.
const (
	turnRecord = 1
	endRecord  = 2

	turnLen      = 10
	endLen       = 4
	messageLen   = 8
	decisionLen  = 6
	placementLen = 4
	answerLen    = 7
	txnLen       = 7
	cpuLen       = 4
)

// Limits of what one turn may hold. Writer refuses more, and Reader takes no file's word for more.
const (
	MaxList   = 1 << 20 // entries of a list
	MaxTensor = 1 << 26 // bytes of rows or scores
	MaxString = 1 << 16 // bytes of a string of the header
)

// ErrCutOff is matched by the errors of files that have no end record.
var ErrCutOff = errors.New("the trace was cut off")

// Header says what was run.
type Header struct {
	Schema    string // hash of the feature schema, "" if no row was read
	Scheduler string // as typed: policy[+wp]@profile
	Workload  string
	Profile   string
	Seed      uint64
	Episode   uint64
	Machine   kernel.Topology
}

// End is the last record.
type End struct {
	Hash  Hash // over all turns
	Turns uint64
	Fates sched.Fates
}

type fate struct {
	name  string
	count *uint64
}

// fates lists the counts by their names in files.
func fates(f *sched.Fates) []fate {
	return []fate{
		{"applied", &f.Applied}, {"late", &f.Late}, {"superseded", &f.Superseded}, {"expired", &f.Expired},
		{"dropped", &f.Dropped}, {"undelivered", &f.Undelivered}, {"abandoned", &f.Abandoned}, {"requested", &f.Requested},
		{"fallback", &f.Fallback}, {"trivial", &f.Trivial}, {"aged", &f.Aged}, {"stale", &f.Stale}, {"unused", &f.Unused},
		{"clipped", &f.Clipped},
	}
}

// check reports what a file cannot hold, or what does not fit together.
func (t *Turn) check() error {
	for _, l := range []struct {
		what string
		n    int
	}{
		{"messages", len(t.Messages)}, {"decisions", len(t.Decisions)}, {"answers", len(t.Answers)}, {"transactions", len(t.Txns)},
	} {
		if l.n > MaxList {
			return fmt.Errorf("%d %s, at most %d are possible", l.n, l.what, MaxList)
		}
	}
	n := len(t.Decisions)
	if len(t.Placements) != n {
		return fmt.Errorf("%d placements for %d decisions", len(t.Placements), n)
	}
	for _, x := range []struct {
		what   string
		tensor []float32
	}{{"rows", t.Rows}, {"scores", t.Scores}} {
		if 4*len(x.tensor) > MaxTensor {
			return fmt.Errorf("%d bytes of %s, at most %d are possible", 4*len(x.tensor), x.what, MaxTensor)
		}
		if n == 0 && len(x.tensor) > 0 || n > 0 && len(x.tensor)%n != 0 {
			return fmt.Errorf("%d numbers of %s cannot belong to %d decisions", len(x.tensor), x.what, n)
		}
	}
	return nil
}
