package fifo

import (
	"github.com/ghostgym/ghostgym/agent/kernel"
	"github.com/ghostgym/ghostgym/agent/kernel/sim"
)

// Machine is one on which scheduling costs nothing.
func Machine(w sim.Workload, cpus int, horizon, slack kernel.Time, seed uint64) (*sim.Sim, error) {
	profile, err := sim.LoadProfile("ideal")
	if err != nil {
		return nil, err
	}
	return sim.New(sim.Config{Profile: profile, CPUs: cpus, Horizon: horizon, Slack: slack, Seed: seed, Workload: w})
}
