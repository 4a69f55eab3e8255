package plan

import "github.com/ghostgym/ghostgym/inference/graph"

// reads calls f with every buffer that a step reads.
func (p *Program) reads(s *step, f func(int)) {
	switch s.kind {
	case kernelStep:
		for _, v := range s.node.node.In {
			if v != nil && v.Const == nil {
				f(p.place[v])
			}
		}
	case binaryStep:
		f(s.in)
		f(s.in2)
	default:
		f(s.in)
	}
}

// writes calls f with every buffer that a step writes.
func (p *Program) writes(s *step, f func(int)) {
	if s.kind != kernelStep {
		f(s.out)
		return
	}
	for _, v := range s.node.node.Out {
		if v != nil {
			f(p.place[v])
		}
	}
}

// layout gives every buffer its place in the arena. Buffers that live at the same time do not overlap; a step's
// results do not overlap its operands. Rooms that fall free are taken again by the tightest fit.
func (p *Program) layout(limit int64) {
	for i := range p.steps {
		p.writes(&p.steps[i], func(b int) { p.buffers[b].last = max(p.buffers[b].last, i) })
		p.reads(&p.steps[i], func(b int) { p.buffers[b].last = i })
	}
	type room struct{ offset, width int }
	var free [2][]room // of floats, of integers
	var total [2]int
	kind := func(b *buffer) int {
		if b.ints {
			return 1
		}
		return 0
	}
	taken := make([]room, len(p.buffers))
	for i := range p.steps {
		s := &p.steps[i]
		p.writes(s, func(at int) {
			b := &p.buffers[at]
			if at < arenaBuffers || taken[at].width > 0 || int64(total[0])+int64(total[1]) > limit {
				return
			}
			k, best := kind(b), -1
			for j, r := range free[k] {
				if r.width >= b.width && (best < 0 || r.width < free[k][best].width) {
					best = j
				}
			}
			if best >= 0 {
				taken[at] = free[k][best]
				free[k] = append(free[k][:best], free[k][best+1:]...)
			} else {
				taken[at] = room{total[k], b.width}
				total[k] += b.width
			}
			b.offset = taken[at].offset
		})
		release := func(at int) {
			if b := &p.buffers[at]; at >= arenaBuffers && b.last == i && taken[at].width > 0 {
				free[kind(b)] = append(free[kind(b)], taken[at])
				taken[at] = room{}
			}
		}
		p.writes(s, release)
		p.reads(s, release)
	}
	p.floats, p.ints = total[0], total[1]
}

// dims are the dimensions of a value in a batch of n rows.
func dims(v *graph.Value, n int) []int {
	d := append([]int(nil), v.Dims...)
	if len(d) > 0 && d[0] == graph.Batch {
		d[0] = n
	}
	return d
}
