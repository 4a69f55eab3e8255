package inference

import (
	"fmt"

	"github.com/ghostgym/ghostgym/inference/plan"
)

// Session scores rows. It owns its memory and belongs to one goroutine.
type Session struct {
	model *Model
	state *plan.State
}

// NewSession makes a session with room for batches of up to maxBatch rows.
func (m *Model) NewSession(maxBatch int) (*Session, error) {
	state, err := m.program.NewState(maxBatch)
	if err != nil {
		return nil, err
	}
	return &Session{m, state}, nil
}

// Model is the model that the session scores with.
func (s *Session) Model() *Model { return s.model }

// Score computes n rows: rows holds n·Width float32s, and the first n·OutWidth of out are overwritten with the
// results, integers as floats. It allocates only when n exceeds every batch before and the session's maxBatch.
// rows and out must not overlap. Results may be infinite or NaN, where the network's are.
func (s *Session) Score(rows []float32, n int, out []float32) error {
	p := s.model.program
	if n < 0 || len(rows) < n*p.InWidth || len(out) < n*p.OutWidth {
		return fmt.Errorf("inference: a batch of %d rows needs %d float32s in and %d out, given %d and %d",
			n, n*p.InWidth, n*p.OutWidth, len(rows), len(out))
	}
	if n == 0 {
		return nil
	}
	if n > s.state.Rows() {
		state, err := p.NewState(n)
		if err != nil {
			return err
		}
		s.state = state
	}
	s.state.Run(out[:n*p.OutWidth], rows[:n*p.InWidth], n)
	return nil
}
