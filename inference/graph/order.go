package graph

import "fmt"

// Order sorts nodes so that every operand is computed before it is used, keeping the file's order where it can.
// It checks what every well-formed graph satisfies: each value is written once, every operand is defined, and
// there is no cycle. Work is linear in nodes and edges.
func Order(nodes []*Node) ([]*Node, error) {
	index := make(map[*Node]int, len(nodes))
	for i, n := range nodes {
		index[n] = i
		for _, v := range n.Out {
			if v != nil && v.From != n {
				return nil, fmt.Errorf("value %q is written more than once, the second time by node %q", v.Name, n.Name)
			}
		}
	}
	sorted := make([]*Node, 0, len(nodes))
	const (
		unseen = iota
		open
		done
	)
	state := make([]uint8, len(nodes))
	type frame struct{ node, next int }
	var stack []frame
	for i := range nodes {
		if state[i] != unseen {
			continue
		}
		state[i] = open
		stack = append(stack[:0], frame{node: i})
		for len(stack) > 0 {
			top := &stack[len(stack)-1]
			n := nodes[top.node]
			if top.next == len(n.In) {
				state[top.node] = done
				sorted = append(sorted, n)
				stack = stack[:len(stack)-1]
				continue
			}
			v := n.In[top.next]
			top.next++
			if v == nil || v.From == nil {
				continue
			}
			j := index[v.From]
			switch state[j] {
			case open:
				return nil, fmt.Errorf("the graph has a cycle through value %q", v.Name)
			case unseen:
				state[j] = open
				stack = append(stack, frame{node: j})
			}
		}
	}
	return sorted, nil
}

// Needed returns the nodes, in order, on which value v depends.
func (g *Graph) Needed(v *Value) []*Node {
	want := map[*Node]bool{}
	if v.From != nil {
		want[v.From] = true
	}
	for i := len(g.Nodes) - 1; i >= 0; i-- {
		if !want[g.Nodes[i]] {
			continue
		}
		for _, in := range g.Nodes[i].In {
			if in != nil && in.From != nil {
				want[in.From] = true
			}
		}
	}
	needed := make([]*Node, 0, len(want))
	for _, n := range g.Nodes {
		if want[n] {
			needed = append(needed, n)
		}
	}
	return needed
}
