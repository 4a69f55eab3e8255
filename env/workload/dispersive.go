package workload

// dispersive is the load of Shinjuku, ghOSt and Skyloft (SOSP 2024): few requests are 2500 times as long as the others.
var dispersive = kind{
	name: "dispersive",
	doc:  "Open loop, Poisson: 99.5 % of requests need 4 us, 0.5 % need 10 ms.",
	cpus: 8, load: .8, sampled: 1, maxScale: maxScale,
	build: func(p Params, in *Instance) error {
		newOpen(p, in, 4, 10000, .005)
		return nil
	},
}
