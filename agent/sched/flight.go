package sched

import "github.com/ghostgym/ghostgym/agent/kernel"

// record is a decision whose answer comes after its turn.
type record struct {
	id       uint64
	task     kernel.TaskID
	serial   uint64 // of the stay in the queue that it is about
	expires  Time
	seen     [Slots]uint64 // serials of the tasks at the first slots when it was asked
	seenN    int
	closed   bool
	answered bool
}

// held is a task kept back until its decision is answered.
type held struct {
	until Time
	id    uint64
	slot  int32 // −1: answered meanwhile
}

// flight holds open decisions, and closed ones as long as there is room, so that a late answer can be told from one to an id
// never issued. Times to live and holds are the same for all, so both end in the order of their ids.
type flight struct {
	recs   []record // ring, addressed by id
	oldest uint64   // no record before it is open
	newest uint64
	open   int
	limit  int
	held   []held
	first  int // of held
}

func (f *flight) reset(limit int) {
	if f.newest > 0 {
		clear(f.recs)
	}
	*f = flight{recs: f.recs, limit: limit, held: f.held[:0]}
}

func (f *flight) get(id uint64) *record {
	if len(f.recs) == 0 || id == 0 {
		return nil
	}
	if r := &f.recs[id&uint64(len(f.recs)-1)]; r.id == id {
		return r
	}
	return nil
}

func (f *flight) add(id uint64, task kernel.TaskID, expires Time) *record {
	if len(f.recs) == 0 {
		n := 64
		for n < 4*f.limit {
			n *= 2
		}
		f.recs = make([]record, n)
	}
	for {
		r := &f.recs[id&uint64(len(f.recs)-1)]
		if r.id == 0 || r.closed {
			*r = record{id: id, task: task, expires: expires}
			break
		}
		f.grow()
	}
	if f.oldest == 0 {
		f.oldest = id
	}
	f.newest = id
	f.open++
	return f.get(id)
}

// grow doubles the ring: a decision that has been open for long stands where a new one must go.
func (f *flight) grow() {
	recs := make([]record, 2*len(f.recs))
	for _, r := range f.recs {
		if r.id != 0 {
			recs[r.id&uint64(len(recs)-1)] = r
		}
	}
	f.recs = recs
}

func (f *flight) close(r *record) {
	r.closed = true
	f.open--
}

// first open record, or nil.
func (f *flight) head() *record {
	for f.open > 0 && f.oldest <= f.newest {
		if r := f.get(f.oldest); r != nil && !r.closed {
			return r
		}
		f.oldest++
	}
	return nil
}

func (f *flight) expired(now Time) *record {
	if r := f.head(); r != nil && r.expires <= now {
		return r
	}
	return nil
}

func (f *flight) hold(slot int32, id uint64, until Time) {
	f.held = append(f.held, held{until: until, id: id, slot: slot})
}

func (f *flight) release(t *Task) {
	for i := f.first; i < len(f.held); i++ {
		if f.held[i].slot == int32(t.slot) {
			f.held[i].slot = -1
			return
		}
	}
}

// trim drops what was released from the front of the list of held tasks.
func (f *flight) trim() {
	for f.first < len(f.held) && f.held[f.first].slot < 0 {
		f.first++
	}
	if f.first == len(f.held) {
		f.held, f.first = f.held[:0], 0
	} else if f.first >= 64 && f.first > len(f.held)/2 {
		n := copy(f.held, f.held[f.first:])
		f.held, f.first = f.held[:n], 0
	}
}

// endHold hands out the tasks whose hold is over, one by one. A hold cut short by the age bound waits behind earlier ones for at
// most their own bound.
func (f *flight) endHold(now Time) (slot int32, ok bool) {
	f.trim()
	if f.first == len(f.held) || f.held[f.first].until > now {
		return 0, false
	}
	slot = f.held[f.first].slot
	f.held[f.first].slot = -1
	return slot, true
}

func (f *flight) deadline() Time {
	if f.open == 0 && f.first == len(f.held) {
		return kernel.Forever
	}
	return f.earliest()
}

func (f *flight) earliest() Time {
	d := kernel.Forever
	if r := f.head(); r != nil {
		d = r.expires
	}
	f.trim()
	if f.first < len(f.held) {
		d = min(d, f.held[f.first].until)
	}
	return d
}
