// Package trace holds what happened in a run, turn by turn: a hash that tells whether two runs were the same, files to be read
// and replayed, and a timeline for Perfetto.
//
// # The file
//
// A trace is a stream of MessagePack values, so that any MessagePack library can read it: a header, one array per turn, one array
// at the end. Integers are MessagePack integers of any width, times are nanoseconds of the kernel's clock, tasks are
// generation << 32 | slot. Lists are arrays of arrays with the fields in this order:
//
//	header     {"format": "ghostgym-trace", "version": 1, "schema": str, "scheduler": str, "workload": str, "profile": str,
//	            "seed": int, "episode": int, "machine": {"model": int, "tasks": int, "cpus": [[core, llc, node, agent], …],
//	            "channels": [[cpu, …], …]}}
//	turn       [1, now, channel, messages, decisions, rows, scores, placements, answers, transactions]
//	end        [2, hash, turns, {fate: int, …}]
//
//	message     [time, runtime, task, seq, cpu, type, flags, nice]      as kernel.Message
//	decision    [id, slot of the task, queue, seq, reason, running]     as sched.Decision
//	placement   [key, slice, slot, source]                              as sched.Placement, one per decision; source
//	                                                                    is 0 the policy, 1 the fallback since the model failed, 2 since
//	                                                                    its scores were not finite
//	answer      [id, task, seq, key, slice, slot, source]               as Answer
//	transaction [task, slice, at, barrier, cpu, flags, state]           as kernel.Txn
//
// Rows and scores are bin values of little-endian float32, as many per decision as the schema says; empty where there are none.
// Keys are float64, "running" and "agent" are bool. The schema is the hash of the feature schema, "" where no row was read. The
// hash in the end record is Hash over all turns. A file without an end record was cut off: what comes before it still counts.
//
// In Python:
//
//	unpacker = msgpack.Unpacker(open(path, "rb"))
//	header = next(unpacker)
//	for kind, *record in unpacker:
//	    if kind == 1:
//	        now, channel, messages, decisions, rows, scores, placements, answers, transactions = record
//	        rows = numpy.frombuffer(rows, "<f4").reshape(len(decisions), -1) if decisions else None
//	    else:
//	        digest, turns, fates = record
//
// A change of any of this raises Version, and Reader refuses versions that it does not know.
//
// # The timeline
//
// Timeline writes the JSON of Chrome's trace viewer, which ui.perfetto.dev opens. Times are in microseconds, exact to the nanosecond.
//
//   - One row per CPU shows who has it: from Txn.At, when the switch to the task is over, to the message that it has left. Switches and
//     idle time are the gaps. In the models inline and global the slices add up to the CPU time that tasks have used. An agent that
//     pauses its CPU's task does not show (see package kernel): under percpu its time and the switch back are inside the slice.
//   - One row per task shows when it waits for a CPU, as package metrics counts it: up to the end of the switch, or until the CPU went
//     to somebody else before that. Its decisions are instants there. Rows bear the names of the tasks, with the slot's number where
//     another has that name.
//   - A counter has the number of tasks without a CPU.
//
// Slices of one row do not overlap. What is under way when the run ends is drawn up to there. What had happened by then and was not
// yet read by the agent is unknown: a task is drawn on a CPU that it has just left. A timeline with a limit ends with the turn that
// reached it, as if the run ended there, and with an instant that says so.
package trace
