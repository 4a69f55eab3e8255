package env

import (
	"context"
	"testing"
)

// run plays one scheduler on one instance.
func run(t testing.TB, scheduler, load string, seed uint64, options func(*Setup)) Result {
	t.Helper()
	s, err := ParseScheduler(scheduler, nil, "")
	if err != nil {
		t.Fatal(err)
	}
	in, err := BuildInstance(load)
	if err != nil {
		t.Fatal(err)
	}
	var m Machine
	p, err := s.Policy(&m)
	if err != nil {
		t.Fatal(err)
	}
	setup := Setup{Instance: in, Seed: seed}
	if options != nil {
		options(&setup)
	}
	if err := s.Setup(&setup, p); err != nil {
		t.Fatal(err)
	}
	if err := m.Reset(setup); err != nil {
		t.Fatal(err)
	}
	r, err := m.Run(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// TestReturnsOrderSchedulers: the reward sees what an experimenter sees. Where bursts differ and can be told apart, guessing is
// worse than taking turns, the Gittins index is better, and knowing the future is best.
func TestReturnsOrderSchedulers(t *testing.T) {
	for _, load := range []string{"bimodal:load=0.8:cpus=6", "rocksdb:load=0.8:cpus=6"} {
		var returns []float64
		names := []string{"random", "rr", "gittins", "oracle"}
		for _, name := range names {
			sum := 0.0
			for seed := range uint64(4) {
				sum += run(t, name, load, seed, nil).Return
			}
			returns = append(returns, sum)
		}
		t.Logf("%s: %v", load, returns)
		for i := 1; i < len(returns); i++ {
			if !(returns[i-1] < returns[i]) {
				t.Errorf("%s: the return of %s, %v, is not below that of %s, %v", load, names[i-1], returns[i-1], names[i], returns[i])
			}
		}
	}
}
