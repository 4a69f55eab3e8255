package workload

// heavytail has tasks of very different means, and bursts of very different lengths within each task.
var heavytail = sharedKind("heavytail",
	"Five tasks per CPU with bounded-Pareto bursts (shape 1.5) whose means are spread from 30 us to 3 ms, exponential sleeps; "+
		"every task wants the same share of time.",
	group{burst: pareto, meanBurst: 30e3, spread: 100})
