package agent

import (
	"fmt"
	"strings"
	"time"

	"github.com/ghostgym/ghostgym/agent/kernel"
	"github.com/ghostgym/ghostgym/agent/sched"
)

// Mode is when an answer takes effect.
type Mode uint8

// Modes.
const (
	Sync Mode = iota
	Async
	Hold
)

// Timing says what a task does until its answer is there.
type Timing struct {
	Mode  Mode
	Bound kernel.Time // Hold: the longest that a task is kept back
	Delay kernel.Time // Async, Hold: after how long an answer comes, besides the cost of inference
}

func (t Timing) check() error {
	if t.Delay < 0 || t.Bound < 0 {
		return fmt.Errorf("agent: timing: bound %d and delay %d must not be negative", t.Bound, t.Delay)
	}
	if t.Mode == Hold && t.Bound == 0 {
		return fmt.Errorf("agent: timing: hold needs a bound, as in hold=50us")
	}
	if t.Mode == Sync && t.Delay > 0 {
		return fmt.Errorf("agent: timing: sync waits for its answer, so a delay needs async or hold")
	}
	return nil
}

func (t Timing) String() string {
	var s string
	switch t.Mode {
	case Sync:
		return "sync"
	case Async:
		s = "async"
	case Hold:
		s = "hold=" + time.Duration(t.Bound).String()
	}
	if t.Delay > 0 {
		s += "+" + time.Duration(t.Delay).String()
	}
	return s
}

// ParseTiming reads sync, async[+DELAY] or hold=BOUND[+DELAY], durations as in 50us or 1.5ms.
func ParseTiming(s string) (Timing, error) {
	bad := func(why string) (Timing, error) {
		return Timing{}, fmt.Errorf("timing %q: %s; it is sync, async[+DELAY] or hold=BOUND[+DELAY], as in hold=50us+10us", s, why)
	}
	head, delay, delayed := strings.Cut(s, "+")
	var t Timing
	if delayed {
		d, err := time.ParseDuration(delay)
		if err != nil || d < 0 {
			return bad(fmt.Sprintf("%q is no delay", delay))
		}
		t.Delay = kernel.Time(d)
	}
	switch {
	case head == "sync":
		if delayed {
			return bad("sync waits for its answer and has no delay")
		}
	case head == "async":
		t.Mode = Async
	case strings.HasPrefix(head, "hold="):
		d, err := time.ParseDuration(strings.TrimPrefix(head, "hold="))
		if err != nil || d <= 0 {
			return bad(fmt.Sprintf("%q is no bound", strings.TrimPrefix(head, "hold=")))
		}
		t.Mode, t.Bound = Hold, kernel.Time(d)
	default:
		return bad("no such mode")
	}
	return t, nil
}

// lateAnswers are the in-process answers of async and hold that are under way. They come in the order in which they were asked,
// unless a larger batch costs more than a later, smaller one saves: then the later waits for the earlier, as in one thread.
type lateAnswers struct {
	list  []lateAnswer
	first int
}

type lateAnswer struct {
	at   kernel.Time
	id   uint64 // 0: a new key for a running task
	task kernel.TaskID
	seq  uint32
	p    sched.Placement
}

func (l *lateAnswers) reset() { l.list, l.first = l.list[:0], 0 }

func (l *lateAnswers) deadline() kernel.Time {
	if l.first == len(l.list) {
		return kernel.Forever
	}
	return l.list[l.first].at
}

func (l *lateAnswers) send(v *sched.View, batch []sched.Decision, out []sched.Placement, at kernel.Time) {
	if n := len(l.list); n > l.first {
		at = max(at, l.list[n-1].at)
	}
	for i := len(batch) - 1; i >= 0; i-- { // running tasks first, so that their keys are new when the batch's tasks move
		if batch[i].Running {
			l.add(lateAnswer{at: at, task: v.Task(batch[i].Task).ID, seq: batch[i].Seq, p: out[i]})
		}
	}
	for i := range batch {
		if !batch[i].Running {
			l.add(lateAnswer{at: at, id: batch[i].ID, task: v.Task(batch[i].Task).ID, seq: batch[i].Seq, p: out[i]})
		}
	}
}

func (l *lateAnswers) add(x lateAnswer) {
	if l.first >= 64 && l.first > len(l.list)/2 {
		n := copy(l.list, l.list[l.first:])
		l.list, l.first = l.list[:n], 0
	}
	l.list = append(l.list, x)
}

func (l *lateAnswers) due(now kernel.Time) (lateAnswer, bool) {
	if l.first == len(l.list) || l.list[l.first].at > now {
		return lateAnswer{}, false
	}
	l.first++
	return l.list[l.first-1], true
}

// drop tells the core of the answers that came too late for the run: they had been given when it stopped only if their time had
// come, which due has seen to; the rest is abandoned by Core.Stop.
func (l *lateAnswers) drop(c *sched.Core) {
	now := c.View().Now
	for {
		x, ok := l.due(now)
		if !ok {
			break
		}
		if x.id != 0 {
			c.Undelivered(x.id)
		}
	}
	l.reset()
}
