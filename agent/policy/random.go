package policy

import (
	"math/rand/v2"

	"github.com/ghostgym/ghostgym/agent/sched"
)

// random names one of the legal places, each as likely.
type random struct{ rng rand.PCG }

func newRandom() *random {
	r := &random{}
	r.Reset(0)
	return r
}

// policyStream keeps a policy's chance apart from that of workloads with the same seed.
const policyStream = 0x706f6c696379 // "policy"

// Reset implements Resetter.
func (r *random) Reset(seed uint64) { r.rng.Seed(seed, policyStream) }

// Place implements Policy.
func (r *random) Place(v *sched.View, batch []sched.Decision, out []sched.Placement) {
	for i := range batch {
		legal := uint64(min(v.Len(batch[i].Queue), sched.Slots)) + 1
		slot := int32(r.rng.Uint64() % legal) // the bias is below 2⁻⁶⁰
		if slot == int32(legal)-1 {
			slot = sched.Back
		}
		out[i] = sched.Placement{Key: sched.Behind, Slot: slot}
	}
}
