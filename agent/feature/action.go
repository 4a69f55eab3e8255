package feature

import (
	"math"

	"github.com/ghostgym/ghostgym/agent/sched"
)

// Mask marks the legal actions of a decision with 1 and the others with 0; mask must be Action.Width long. Slot k is legal while
// a task waits there, the back always. An order by key has no mask: its single entry is 1.
func (s *Schema) Mask(v *sched.View, d *sched.Decision, mask []uint8) {
	if s.order == sched.ByKey {
		mask[0] = 1
		return
	}
	maskOf(v.Len(d.Queue), (*[sched.Slots + 1]uint8)(mask))
}

func maskOf(waiting int, mask *[sched.Slots + 1]uint8) {
	for k := range sched.Slots {
		mask[k] = 0
		if k < waiting {
			mask[k] = 1
		}
	}
	mask[sched.Back] = 1
}

// DecodeKey turns a number into a key. Out of the bounds of the action space it is clipped to them; what is not a number puts the
// task behind all others. Either is reported.
func (s *Schema) DecodeKey(x float32) (key float64, clipped bool) {
	switch {
	case x != x:
		return sched.Behind, true
	case x < s.Action.Lo:
		return float64(s.Action.Lo), true
	case x > s.Action.Hi:
		return float64(s.Action.Hi), true
	}
	return float64(x), false
}

// DecodeSlot turns the index of an action into a slot. An action that the mask forbids, or that does not exist, means the back.
func DecodeSlot(action int, mask []uint8) (slot int32, legal bool) {
	if action < 0 || action >= len(mask) || mask[action] == 0 {
		return sched.Back, false
	}
	return int32(action), true
}

// ArgMax is the index of the greatest logit that the mask allows; the lowest wins a tie, and what is not a number never wins.
// Where none is left it is the last index, the back. logits and mask have one length.
func ArgMax(logits []float32, mask []uint8) int {
	best := len(logits) - 1
	top := math.Inf(-1)
	found := false
	for i, x := range logits {
		if mask[i] != 0 && (float64(x) > top || !found && x == x) {
			best, top, found = i, float64(x), true
		}
	}
	return best
}
