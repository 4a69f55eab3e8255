package workload

// rocksdb has the service times of a key-value store under GET and SCAN, as Skyloft (SOSP 2024) measured them.
var rocksdb = kind{
	name: "rocksdb",
	doc:  "Open loop, Poisson: half of the requests are GETs of 0.95 us, half SCANs of 591 us.",
	cpus: 8, load: .8, sampled: 1, maxScale: maxScale,
	build: func(p Params, in *Instance) error {
		newOpen(p, in, .95, 591, .5)
		return nil
	},
}
