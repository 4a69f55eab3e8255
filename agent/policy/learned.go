package policy

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/ghostgym/ghostgym/agent/feature"
	"github.com/ghostgym/ghostgym/agent/kernel"
	"github.com/ghostgym/ghostgym/agent/sched"
)

// Scorer is a model: from n rows, one after the other, it gives n outputs, one after the other. It must not keep the slices.
type Scorer interface {
	Score(rows []float32, n int, out []float32) error
}

// FallbackCounts says why the fallback answered, and how often.
type FallbackCounts struct {
	Errors    uint64 `json:"errors" msgpack:"errors"`         // decisions of batches that could not be scored
	NonFinite uint64 `json:"non_finite" msgpack:"non_finite"` // decisions whose scores were not finite
}

// Learned asks a model: it encodes the batch, scores it at once and decodes keys, or the greatest logit among the legal slots.
// The fallback answers a batch that cannot be scored, and a decision whose scores are not finite; its answers say so
// (sched.Source). A fallback's keys live on a scale of their own, so that they and the model's go into one queue each by
// its number.
type Learned struct {
	schema   *feature.Schema
	scorer   Scorer
	fallback Policy

	rows, scores []float32
	mask         []uint8
	counts       FallbackCounts
	lastErr      error
}

// NewLearned joins a model and what its rows mean with the policy that answers where it cannot.
func NewLearned(scorer Scorer, schema *feature.Schema, fallback Policy) (*Learned, error) {
	if scorer == nil || schema == nil || fallback == nil {
		return nil, errors.New("policy learned: a model, its schema and a fallback are needed")
	}
	return &Learned{schema: schema, scorer: scorer, fallback: fallback, mask: make([]uint8, schema.Action.Width())}, nil
}

func newLearnedByName(c Config) (Policy, error) {
	if c.Scorer == nil || c.Schema == nil {
		return nil, errors.New("policy learned: it needs a model")
	}
	e, err := FindFallback(c.Fallback, 1<<c.Schema.Order())
	if err != nil {
		return nil, err
	}
	p, err := e.New(Config{})
	if err != nil {
		return nil, fmt.Errorf("fallback: %w", err)
	}
	return NewLearned(c.Scorer, c.Schema, p)
}

// Reset implements Resetter.
func (l *Learned) Reset(seed uint64) {
	if r, ok := l.fallback.(Resetter); ok {
		r.Reset(seed)
	}
	l.rows, l.scores = l.rows[:0], l.scores[:0]
	l.counts, l.lastErr = FallbackCounts{}, nil
}

// BurstEnded implements BurstObserver: the fallback may learn.
func (l *Learned) BurstEnded(v *sched.View, task int32, burst kernel.Time) {
	if o, ok := l.fallback.(BurstObserver); ok {
		o.BurstEnded(v, task, burst)
	}
}

// Schema is what the rows mean.
func (l *Learned) Schema() *feature.Schema { return l.schema }

// Rows and Scores are those of the last batch, one decision after the other, valid until the next. Scores are empty where scoring
// failed.
func (l *Learned) Rows() []float32   { return l.rows }
func (l *Learned) Scores() []float32 { return l.scores }

// Counts says how often the fallback answered since Reset, and why; Err is the last error of the model.
func (l *Learned) Counts() FallbackCounts { return l.counts }
func (l *Learned) Err() error             { return l.lastErr }

// Place implements Policy.
func (l *Learned) Place(v *sched.View, batch []sched.Decision, out []sched.Placement) {
	n, width, actions := len(batch), l.schema.Width(), l.schema.Action.Width()
	l.rows = slices.Grow(l.rows[:0], n*width)[:n*width]
	l.scores = slices.Grow(l.scores[:0], n*actions)[:n*actions]
	for i := range batch {
		l.schema.Encode(v, &batch[i], l.rows[i*width:(i+1)*width])
	}
	if err := l.scorer.Score(l.rows, n, l.scores); err != nil {
		l.lastErr = err
		l.scores = l.scores[:0]
		l.counts.Errors += uint64(n)
		l.fall(v, batch, out, sched.FallbackFailed)
		return
	}
	for i := range batch {
		if !l.decode(v, &batch[i], l.scores[i*actions:(i+1)*actions], &out[i]) {
			l.counts.NonFinite++
			l.fall(v, batch[i:i+1], out[i:i+1], sched.FallbackNonFinite)
		}
	}
}

// decode turns scores into a placement; false if they are not finite where it matters.
func (l *Learned) decode(v *sched.View, d *sched.Decision, scores []float32, out *sched.Placement) bool {
	if l.schema.Order() == sched.ByKey {
		if !finite(scores[0]) {
			return false
		}
		key, clipped := l.schema.DecodeKey(scores[0])
		*out = sched.Placement{Key: key, Slot: sched.Back, Clipped: clipped}
		return true
	}
	l.schema.Mask(v, d, l.mask)
	for i, x := range scores {
		if l.mask[i] != 0 && !finite(x) {
			return false
		}
	}
	slot, _ := feature.DecodeSlot(feature.ArgMax(scores, l.mask), l.mask)
	*out = sched.Placement{Key: sched.Behind, Slot: slot}
	return true
}

func (l *Learned) fall(v *sched.View, batch []sched.Decision, out []sched.Placement, why sched.Source) {
	l.fallback.Place(v, batch, out)
	for i := range batch {
		out[i].Source = why
	}
}

func finite(x float32) bool { return !math.IsInf(float64(x), 0) && x == x }
