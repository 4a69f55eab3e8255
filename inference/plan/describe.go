package plan

import (
	"fmt"
	"strings"
)

// Describe prints the steps with their sizes, and the memory that a row takes.
func (p *Program) Describe() string {
	var b strings.Builder
	fmt.Fprintf(&b, "opset %d; %d of %d nodes needed, %d after folding constants, %d steps; arena %d bytes a row\n",
		p.opset, p.allNodes, p.fileNodes, len(p.nodes), len(p.steps), 4*p.floats+8*p.ints)
	for i := range p.steps {
		s := &p.steps[i]
		fmt.Fprintf(&b, "%3d  %-28s ", i, s.names)
		switch {
		case s.kind == denseStep && s.rows > 1:
			fmt.Fprintf(&b, "%d rows of %d → %d", s.rows, s.dense.K, s.dense.N)
		case s.kind == denseStep:
			fmt.Fprintf(&b, "%d → %d", s.dense.K, s.dense.N)
		default:
			fmt.Fprintf(&b, "%d", s.width)
		}
		b.WriteByte('\n')
	}
	return b.String()
}
