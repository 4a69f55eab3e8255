// Package compare runs schedulers on workloads, repetition by repetition in random order, and reports what differs.
//
// Every scheduler meets the same instances: repetition r of a workload has seed Plan.Seed + r, so arrivals, bursts and sleeps are
// the same for all (where the workload is a closed loop, only service times and sleeps can match: what a task does next depends on
// when it was served). So schedulers are compared pair by pair, instance by instance, and an interval is Student's over those
// differences. Where nothing is random, all repetitions are one run, known by its trace: they count once, without an interval.
//
// Every figure is simulated, never read from a clock: neither the order of the runs nor the number of workers changes a result.
//
//	c, err := compare.Prepare(plan)       // bad input is found here, before anything runs
//	report, err := c.Run(ctx)             // a report comes also with ErrStopped
//	err = report.Save(dir)                // summary.json, summary.md, results.csv
package compare
