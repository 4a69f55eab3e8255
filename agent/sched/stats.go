package sched

import "math"

// Bins of burst lengths: bin i holds lengths around 500 ns × 2^(0.65 i), so that 28 bins reach several seconds.
const (
	Bins      = 28
	binBase   = 500.0
	binOctave = 0.65
)

// Bin is the bin of a burst length in ns. It looks up what binOf computes: a logarithm for each row and burst would be felt.
func Bin(ns float64) int {
	if !(ns > binBase) {
		return 0
	}
	octave := int(math.Float64bits(ns)>>52) - (1023 + binFirst)
	if octave >= len(binGuess) {
		return Bins - 1
	}
	i := int(binGuess[octave])
	for ns >= binFloors[i+1] { // twice at most
		i++
	}
	return i
}

const binFirst = 8 // the octave of binBase: 2^8 ≤ binBase < 2^9

// binFloors are the least length of each bin, and infinity; binGuess is the bin where each octave from binFirst on begins.
var binFloors, binGuess = func() (floors [Bins + 1]float64, guess [48]uint8) {
	for i := 1; i < Bins; i++ {
		lo, hi := math.Float64bits(binBase), math.Float64bits(1e15)
		for lo+1 < hi {
			if m := (lo + hi) / 2; binOf(math.Float64frombits(m)) < i {
				lo = m
			} else {
				hi = m
			}
		}
		floors[i] = math.Float64frombits(hi)
	}
	floors[Bins] = math.Inf(1)
	for e := range guess {
		guess[e] = uint8(binOf(math.Ldexp(1, binFirst+e)))
	}
	return floors, guess
}()

func binOf(ns float64) int {
	if ns <= binBase {
		return 0
	}
	return min(int(math.Log2(ns/binBase)/binOctave), Bins-1)
}

// BinMiddle is a representative length of a bin, in ns.
func BinMiddle(i int) float64 { return binMiddles[i] }

var binMiddles = func() (m [Bins]float64) {
	for i := range m {
		m[i] = binBase * math.Exp2((float64(i)+0.5)*binOctave)
	}
	return
}()

// Hist is a histogram of burst lengths over Bins.
type Hist [Bins]float64

// Index is the Gittins index of a task that has attained a ns, as a cost: the smallest, over all further allotments of time,
// of the expected time spent per burst finished within it (Gittins 1979; for discrete support, Aalto, Ayesta, Righter 2009).
// Rest is the expected remaining time. ok is false where the histogram knows no burst that long.
func (h *Hist) Index(a float64) (index, rest float64, ok bool) {
	first := 0
	if a > 0 {
		first = Bin(a)
	}
	total := 0.0
	for _, x := range h[first:] {
		total += x
	}
	if total < 0.1 {
		return max(a, binBase), max(a, binBase), false
	}
	index = math.Inf(1)
	done, work := 0.0, 0.0
	for i := first; i < Bins; i++ {
		if h[i] == 0 {
			continue
		}
		// within its own bin a burst that has come this far is taken to have a fifth of the middle left
		d := max(binMiddles[i]-a, 0.2*binMiddles[i])
		done += h[i]
		work += h[i] * d
		if v := (work + (total-done)*d) / done; h[i] > 0.05 && v < index {
			index = v
		}
	}
	if math.IsInf(index, 1) {
		index = work / total
	}
	return index, work / total, true
}

const (
	refWeight    = 1.0 / 64 // of a burst in the running geometric mean
	decayEvery   = 256      // bursts after which the histogram fades
	decayFactor  = 0.7
	refreshEvery = 64 // bursts after which the tables are computed anew
	utilWeight   = 0.02
)

// Stats is what the machine as a whole has shown, learned from finished bursts.
type Stats struct {
	LnRef     float64       // ln of the running geometric mean of bursts, in ns
	Ref       float64       // the mean itself, in ns
	LnDev     float64       // moving average of |ln(burst) − LnRef|
	Util      float64       // moving average of the share of busy CPUs, sampled at ends of bursts
	Bursts    uint64        // finished so far
	Hist      Hist          // of finished bursts, fading
	LnGittins [Bins]float64 // ln of Hist.Index by the bin of the time attained
	LnRest    [Bins]float64 // ln of the expected rest, likewise
}

func (s *Stats) reset(nominal Time) {
	*s = Stats{LnRef: lnSpan(nominal), LnDev: 1, Util: 0.5}
	s.Ref = math.Exp(s.LnRef)
	for i := range s.LnGittins {
		s.LnGittins[i], s.LnRest[i] = s.LnRef, s.LnRef
	}
}

func (s *Stats) finishBurst(ln float64, burst Time, busy float64) {
	s.LnRef += (ln - s.LnRef) * refWeight
	s.Ref = math.Exp(s.LnRef)
	s.LnDev += (math.Abs(ln-s.LnRef) - s.LnDev) * refWeight
	s.Util += (busy - s.Util) * utilWeight
	s.Bursts++
	if s.Bursts%decayEvery == 0 {
		for i := range s.Hist {
			s.Hist[i] *= decayFactor
		}
	}
	s.Hist[Bin(float64(burst))]++
	if s.Bursts%refreshEvery == 0 || s.Bursts == 16 {
		s.refresh()
	}
}

func (s *Stats) refresh() {
	for b := range s.LnGittins {
		a := 0.0
		if b > 0 {
			a = binMiddles[b]
		}
		index, rest, _ := s.Hist.Index(a)
		s.LnGittins[b], s.LnRest[b] = math.Log(index), math.Log(rest)
	}
}
