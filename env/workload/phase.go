package workload

// phase has tasks whose past misleads about their future.
var phase = kind{
	name: "phase",
	doc: "Five tasks per CPU with exponential bursts whose mean changes between 60 us and 1.5 ms after 1 + exp(15) bursts, " +
		"exponential sleeps.",
	cpus: 8, load: .8, threads: true, sampled: 1, maxScale: maxScale,
	build: func(p Params, in *Instance) error {
		u, err := evenShare(&p)
		if err != nil {
			return err
		}
		in.Params = p
		newClosed(group{
			name: "task", tasks: p.Threads, cycles: -1, utilisation: u,
			burst: exponential, meanBurst: 60e3 * p.Scale, otherBurst: 1500e3 * p.Scale, sleep: exponential,
		}).declare(in)
		return nil
	},
}
