package trace

import (
	"math"
	"math/bits"

	"github.com/ghostgym/ghostgym/agent/kernel"
	"github.com/ghostgym/ghostgym/agent/sched"
)

// Hash is a running 64-bit hash over turns: their instants, channels, messages, placements, late answers, transactions and
// outcomes; not rows and scores, which follow from them. Zero is the hash of no turn. Two runs with the same hash did the same
// things in the same order; it is no defence against somebody who wants a collision.
//
// # Mixing
//
// Each event is two to four pairs of words. A pair is folded: both words are XORed with constants of their own place and kind,
// multiplied to 128 bits, and the halves XORed. The XOR of an event's folds, m, enters the chain by
//
//	h = (rotl(h, 29) XOR m) × 0x9E3779B97F4A7C15
//
// which for a given m is a permutation of h, and for a given h one of m: one differing event is never forgotten by the step that
// takes it in, and order counts. The folds of an event do not wait for the chain, so a message costs about as much as one multiplication.
// Each turn begins with the lengths of its lists, so that no event can pass for one of another list or turn.
type Hash uint64

// Constants of the folds: the fractional digits of the square roots of the first primes, made odd.
const (
	k0 = 0x6A09E667F3BCC909
	k1 = 0xBB67AE8584CAA73B
	k2 = 0x3C6EF372FE94F82B
	k3 = 0xA54FF53A5F1D36F1
	k4 = 0x510E527FADE682D1
	k5 = 0x9B05688C2B3E6C1F
	k6 = 0x1F83D9ABFB41BD6B
	k7 = 0x5BE0CD19137E2179

	golden = 0x9E3779B97F4A7C15
)

func fold(a, b uint64) uint64 {
	hi, lo := bits.Mul64(a, b)
	return hi ^ lo
}

func (h Hash) step(m uint64) Hash {
	return Hash((bits.RotateLeft64(uint64(h), 29) ^ m) * golden)
}

// Turn takes in a turn.
func (h *Hash) Turn(t *Turn) {
	x := h.step(fold(uint64(t.Now)^k0, uint64(uint32(t.Channel))^k1) ^
		fold((uint64(len(t.Messages))<<32|uint64(len(t.Placements)))^k2, (uint64(len(t.Answers))<<32|uint64(len(t.Txns)))^k3))
	for i := range t.Messages {
		x = x.message(&t.Messages[i])
	}
	for i := range t.Placements {
		x = x.step(placement(&t.Placements[i]))
	}
	for i := range t.Answers {
		a := &t.Answers[i]
		x = x.step(placement(&a.Placement) ^ fold(a.ID^k4, uint64(a.Task)^k5) ^ fold(uint64(a.Seq)^k6, k7))
	}
	for i := range t.Txns {
		x = x.txn(&t.Txns[i])
	}
	*h = x
}

func (h Hash) message(m *kernel.Message) Hash {
	return h.step(fold(uint64(m.Time)^k2, uint64(m.Runtime)^k3) ^
		fold(uint64(m.Task)^k4, (uint64(m.Seq)<<32|uint64(uint32(m.CPU)))^k5) ^
		fold((uint64(m.Type)<<16|uint64(m.Flags)<<8|uint64(uint8(m.Nice)))^k6, k0))
}

func (h Hash) txn(x *kernel.Txn) Hash {
	return h.step(fold(uint64(x.Task)^k4, uint64(x.Slice)^k1) ^
		fold(uint64(x.At)^k6, (uint64(x.Barrier)<<32|uint64(uint32(x.CPU)))^k7) ^
		fold((uint64(x.Flags)<<8|uint64(x.State))^k2, k5))
}

func placement(p *sched.Placement) uint64 {
	key := math.Float64bits(p.Key)
	if p.Key != p.Key {
		key = math.Float64bits(math.NaN()) // all of them say the same
	}
	return fold(key^k0, uint64(p.Slice)^k1) ^ fold((uint64(uint32(p.Slot))<<8|uint64(p.Source))^k2, k3)
}
