// Package env makes episodes over the agent in a simulated machine: singly, as a vector over buffers that the caller owns, and as
// fused rollouts in which a policy answers without leaving Go. What it runs is the agent that is deployed, not a model of it.
//
//   - Machine is one simulated machine with its agent and collector, reset from a Setup.
//   - Episode is a Machine stepped decision by decision, as env.step does.
//   - Vector is N episodes over bound buffers, in parallel shards.
//   - Rollout runs whole episodes with policies inside.
package env
