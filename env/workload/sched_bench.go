package workload

import "github.com/ghostgym/ghostgym/agent/kernel"

// schedBench is the experiment of the RL scheduler for ghOSt: 4 processes of 4 threads on 6 CPUs, 200 cycles each. Without
// timer slack the threads fall into step and never wait.
var schedBench = kind{
	name: "sched_bench",
	doc:  "16 threads on 6 CPUs, each 200 cycles of 500 us of work and 1 ms of sleep; timer slack 50 us. The load sets the number of threads.",
	cpus: 6, load: 16. / 18, threads: true, exclusive: true, cycles: 200, sampled: 1, maxScale: maxScale,
	build: func(p Params, in *Instance) error {
		if err := p.exchange(1. / 3); err != nil {
			return err
		}
		in.Params = p
		in.Slack = 50 * kernel.Microsecond
		newClosed(group{name: "thread", tasks: p.Threads, meanBurst: 500e3 * p.Scale, meanSleep: 1000e3 * p.Scale, cycles: p.Cycles}).declare(in)
		return nil
	},
}
