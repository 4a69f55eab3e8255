package workload

// phase has tasks whose past misleads about their future.
var phase = sharedKind("phase",
	"Five tasks per CPU with exponential bursts whose mean changes between 60 us and 1.5 ms after 1 + exp(15) bursts, exponential sleeps.",
	group{burst: exponential, meanBurst: 60e3, otherBurst: 1500e3})
