// Package compare runs schedulers on workloads, repetition by repetition in random order, and reports what differs.
//
// Every scheduler meets the same instances: repetition r of a workload has seed Plan.Seed + r, so arrivals, bursts and sleeps are
// the same for all (where the workload is a closed loop, only service times and sleeps can match: what a task does next depends on
// when it was served). So schedulers are compared pair by pair, instance by instance, and an interval is Student's over those
// differences. Runs are interleaved in an order drawn from the seed, and every figure is simulated: neither the order nor the number
// of workers changes a result.
package compare
