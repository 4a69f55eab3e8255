package workload

// bimodal is DISP2 of Persephone (SOSP 2021).
var bimodal = kind{
	name: "bimodal",
	doc:  "Open loop, Poisson: half of the requests need 1 us, half 100 us.",
	cpus: 8, load: .8, sampled: 1, maxScale: maxScale,
	build: func(p Params, in *Instance) error {
		newOpen(p, in, 1, 100, .5)
		return nil
	},
}
