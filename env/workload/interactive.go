package workload

// interactive sets tasks that run briefly and often against batch work that fills every CPU.
var interactive = kind{
	name: "interactive",
	doc: "Interactive tasks (exponential bursts of mean 200 us and sleeps of mean 5 ms) and one hog per CPU (endless, in chunks of 20 ms). " +
		"The load is that of the interactive tasks and sets their number.",
	cpus: 8, load: .64, threads: true, exclusive: true, sampled: .8, maxScale: maxScale,
	build: func(p Params, in *Instance) error {
		if err := p.exchange(200. / 5200); err != nil {
			return err
		}
		in.Params = p
		newClosed(
			group{
				name: "interactive", tasks: p.Threads, cycles: -1,
				burst: exponential, meanBurst: 200e3 * p.Scale, sleep: exponential, meanSleep: 5000e3 * p.Scale,
			},
			hogs(p.CPUs, p.Scale),
		).declare(in)
		return nil
	},
}
