// Package feature is the one codec between the scheduler's state and numbers: a decision becomes a row of float32 and a mask of
// legal actions, an action becomes a placement. Training and deployment use the same code.
//
// There are two rows, Priority for queues kept by key and Placement for queues kept by slot. Their shape depends neither on the
// number of CPUs nor on that of tasks. All lengths of time enter as logarithms of their ratio to ref, the running geometric mean
// of finished bursts (sched.Stats.LnRef), so that a row means the same on a machine of microsecond requests and on one of
// millisecond jobs. A number that may be unknown has a presence bit beside it, and is 0 where the bit is.
//
// A Schema says what a row means. Its hash is part of every model trained on it: a model of another schema is refused. The hash
// covers names, units, types, ranges, constants, the version of each formula, the number of slots and the action. Whoever changes
// a formula raises its Version; the golden rows of the tests fail otherwise.
package feature
