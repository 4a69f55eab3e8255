package workload

import "fmt"

// heavytail has tasks of very different means, and bursts of very different lengths within each task.
var heavytail = kind{
	name: "heavytail",
	doc: "Five tasks per CPU with bounded-Pareto bursts (shape 1.5) whose means are spread from 30 us to 3 ms, exponential sleeps; " +
		"every task wants the same share of time.",
	cpus: 8, load: .8, threads: true, sampled: 1, maxScale: maxScale,
	build: func(p Params, in *Instance) error {
		u, err := evenShare(&p)
		if err != nil {
			return err
		}
		in.Params = p
		newClosed(group{
			name: "task", tasks: p.Threads, cycles: -1, utilisation: u,
			burst: pareto, meanBurst: 30e3 * p.Scale, spread: 100, sleep: exponential,
		}).declare(in)
		return nil
	},
}

// evenShare settles the number of tasks (five per CPU) and gives the share of time that each wants.
func evenShare(p *Params) (float64, error) {
	if p.Threads == 0 {
		p.Threads = 5 * p.CPUs
	}
	u := p.Load * float64(p.CPUs) / float64(p.Threads)
	if u >= 1 {
		return 0, fmt.Errorf("threads %d: at load %.3g on %d CPUs at least %d are needed", p.Threads, p.Load, p.CPUs,
			int(p.Load*float64(p.CPUs))+1)
	}
	return u, nil
}
