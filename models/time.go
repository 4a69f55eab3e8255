package models

import (
	"math"
	"time"
)

// Time is how long a decision takes on this machine, by its clock: the shortest of some times of one row, as whatever else runs here
// only adds. It is for reports; nothing that is decided depends on it.
func (m *Model) Time() (time.Duration, error) {
	const times, enough = 100, 50 * time.Millisecond
	session, err := m.NewSession()
	if err != nil {
		return 0, err
	}
	row, out := make([]float32, m.Width()), make([]float32, m.OutWidth())
	shortest, begin := time.Duration(math.MaxInt64), time.Now()
	for i := 0; i < times && (i == 0 || time.Since(begin) < enough); i++ {
		start := time.Now()
		if err := session.Score(row, 1, out); err != nil {
			return 0, err
		}
		shortest = min(shortest, time.Since(start))
	}
	return shortest, nil
}
