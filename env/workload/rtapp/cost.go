package rtapp

import "github.com/ghostgym/ghostgym/agent/kernel"

// What memory and I/O events cost here: round figures of a current server, so that such threads load the machine as they
// would there. They are no measurement of any machine.
const (
	defaultMemory = 4 << 20 // bytes of the buffer, rt-app's default

	fillPsPerByte   = 100 // mem, and filling the buffer of iorun: 10 GB/s
	touchPsPerByte  = 500 // memrun read and write: one byte at a time
	chaseNear       = 5   // ns per hop of memrun chase in a buffer that fits into a cache of chaseCache bytes
	chaseFar        = 80  // ns per hop in a larger one
	chaseCache      = 1 << 20
	writeCall       = kernel.Microsecond // CPU time of one write
	devicePsPerByte = 2000               // iorun waits: 500 MB/s

	// upkeep is what a thread needs between two waits even if it does not run in between: it has to be put on a CPU in order to
	// wake others. A loop without any run takes it too, and so does every row of maxRow steps without a run: nothing that goes
	// on is free of cost.
	upkeep = kernel.Microsecond
	maxRow = 16
)

func picoseconds(bytes, each int64) kernel.Time { return kernel.Time(bytes * each / 1000) }
