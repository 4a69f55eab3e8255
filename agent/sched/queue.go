package sched

// entry is a waiting task in its queue.
type entry struct {
	key    float64
	serial uint64
	task   int32
}

// queue is a run queue: a slice with room at its front, so that taking from the front and putting there cost nothing, and an
// insertion elsewhere moves memory.
type queue struct {
	buf     []entry
	head    int
	order   Order
	pinned  int // waiting tasks that may not use every CPU
	minV    float64
	oldest  int32 // ends of the list of waiting tasks by age, −1 if empty
	newest  int32
	running int // tasks on its CPUs
	idle    int // its CPUs that are available and have no task
	cpus    []int32
	pending int           // tasks of this turn's batch that go here
	asked   bool          // the keys of its running tasks were asked for since its agent acted last
	acted   uint64        // the turn in which its agent acted last
	trivial bool          // this turn's enqueues here need no answer
	seen    [Slots]uint64 // serials of the first tasks, as the policy saw them
	seenN   int
}

const frontRoom = 16

func (q *queue) reset(order Order) {
	q.buf, q.head, q.order = q.buf[:0], 0, order
	q.pinned, q.minV, q.oldest, q.newest = 0, 0, -1, -1
	q.running, q.idle, q.pending, q.asked, q.acted = 0, 0, 0, false, 0
}

func (q *queue) len() int        { return len(q.buf) - q.head }
func (q *queue) at(i int) *entry { return &q.buf[q.head+i] }
func (q *queue) list() []entry   { return q.buf[q.head:] }
func (q *queue) find(t int32) int { // index of a waiting task, −1 if it is not here
	for i, e := range q.list() {
		if e.task == t {
			return i
		}
	}
	return -1
}

func (q *queue) insert(i int, e entry) {
	switch {
	case i == 0 && q.head > 0:
		q.head--
		q.buf[q.head] = e
	case i == 0 && len(q.buf) > 0: // make room in front, in proportion, so that it is seldom needed again
		room := frontRoom + len(q.buf)
		old := len(q.buf)
		for range room {
			q.buf = append(q.buf, entry{})
		}
		copy(q.buf[room:], q.buf[:old])
		q.head = room - 1
		q.buf[q.head] = e
	default:
		q.buf = append(q.buf, entry{})
		list := q.list()
		copy(list[i+1:], list[i:])
		list[i] = e
	}
}

func (q *queue) remove(i int) {
	if i == 0 {
		q.head++
		if q.head == len(q.buf) {
			q.buf, q.head = q.buf[:0], 0
		} else if q.head >= 256 && q.head > len(q.buf)/2 {
			n := copy(q.buf, q.buf[q.head:])
			q.buf, q.head = q.buf[:n], 0
		}
		return
	}
	list := q.list()
	copy(list[i:], list[i+1:])
	q.buf = q.buf[:len(q.buf)-1]
}

// place is where a key goes: behind smaller and equal keys that came earlier.
func (q *queue) place(key float64, serial uint64) int {
	list := q.list()
	lo, hi := 0, len(list)
	for lo < hi {
		m := int(uint(lo+hi) >> 1)
		if e := &list[m]; e.key < key || e.key == key && e.serial < serial {
			lo = m + 1
		} else {
			hi = m
		}
	}
	return lo
}
