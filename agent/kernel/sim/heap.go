package sim

import "github.com/ghostgym/ghostgym/agent/kernel"

// event is something that will happen at an instant: a sleeper wakes (slot), or the workload wants to be called (arrival).
type event struct {
	at   kernel.Time
	rank uint64 // kind, then order of asking: breaks ties
	slot int32
}

const arrival int32 = -1

// Kinds of events at one instant, in the order in which they happen. Ends of bursts and slices come before both.
const (
	rankTimer   uint64 = 1 << 62
	rankArrival uint64 = 2 << 62
)

func (a *event) before(b *event) bool { return a.at < b.at || a.at == b.at && a.rank < b.rank }

// events is a binary heap, written out for its type: a third of the time of container/heap.
type events []event

func (h *events) push(e event) {
	a := append(*h, e)
	i := len(a) - 1
	for i > 0 {
		p := (i - 1) / 2
		if !e.before(&a[p]) {
			break
		}
		a[i] = a[p]
		i = p
	}
	a[i] = e
	*h = a
}

func (h *events) pop() event {
	a := *h
	top, last := a[0], a[len(a)-1]
	a = a[:len(a)-1]
	*h = a
	i := 0
	for {
		c := 2*i + 1
		if c >= len(a) {
			break
		}
		if c+1 < len(a) && a[c+1].before(&a[c]) {
			c++
		}
		if !a[c].before(&last) {
			break
		}
		a[i] = a[c]
		i = c
	}
	if len(a) > 0 {
		a[i] = last
	}
	return top
}
