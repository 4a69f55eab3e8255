package env

import (
	"cmp"
	"fmt"
	"runtime"
	"sync"
	"unsafe"

	"github.com/vmihailenco/msgpack/v5"

	"github.com/ghostgym/ghostgym/agent/sched"
	"github.com/ghostgym/ghostgym/env/workload"
)

// Vector is N episodes that step together over buffers of the caller. Every unfinished episode has exactly one open decision; a step
// answers one in each, every clock its own. What an episode does does not depend on its neighbours or on the number of workers.
type Vector struct {
	cfg    Config
	mode   Autoreset
	envs   []sub
	width  int
	masks  int
	byKey  bool
	closed bool

	obs, finalObs   []float32
	mask, finalMask []uint8
	slots           []int64
	keys            []float32
	reward          []float64
	terminated      []uint8
	truncated       []uint8
	dt              []int64

	ended    []Ended
	stepping func(i int) error // step, made once: a method value is allocated
	going    func(i int) error // what is under way; nil if nothing is
	shards   []shard
	wake     []chan func(i int) error
	join     sync.WaitGroup
}

// sub is one environment of a vector.
type sub struct {
	Episode
	taken
	started  bool
	finished bool // a reset is due
	result   Ended
}

// taken is what an episode plays.
type taken struct {
	spec     InstanceSpec
	instance *workload.Instance
}

// Ended is what an episode that just ended has to show.
type Ended struct {
	Index int `msgpack:"index"`
	Result
	Illegal int64 `msgpack:"illegal_actions"`
	Steps   int64 `msgpack:"steps"`
	InstanceSpec
}

// Field describes one buffer that Bind wants. Type is NumPy's name of the element.
type Field struct {
	Name  string `msgpack:"name"`
	Type  string `msgpack:"dtype"`
	Shape []int  `msgpack:"shape"`
}

// Open makes the vector that a msgpack-encoded Config describes.
func Open(req []byte) (*Vector, error) {
	var cfg Config
	if err := Decode(req, &cfg); err != nil {
		return nil, err
	}
	return NewVector(cfg)
}

// NewVector makes a vector.
func NewVector(cfg Config) (*Vector, error) {
	mode, err := cfg.check()
	if err != nil {
		return nil, err
	}
	if err := cfg.Options.resolve(); err != nil {
		return nil, err
	}
	v := &Vector{cfg: cfg, mode: mode, envs: make([]sub, cfg.NumEnvs), width: cfg.schema.Width(), masks: cfg.schema.Action.Width()}
	v.byKey = cfg.schema.Order() == sched.ByKey
	v.stepping = v.step
	for i := range v.envs {
		spec := InstanceSpec{Workload: cfg.Workloads[i%len(cfg.Workloads)], Seed: uint64(i)}
		if v.envs[i].taken, err = v.envs[i].take(spec); err != nil {
			return nil, err
		}
	}
	for i := range min(len(cfg.Workloads), cfg.NumEnvs) { // profile and the like are refused now, not at the first reset
		probe := v.cfg.setup
		probe.Instance = v.envs[i].instance
		if err := v.envs[i].Machine.Reset(probe); err != nil {
			return nil, fmt.Errorf("workload %s: %w", cfg.Workloads[i], err)
		}
	}
	workers := min(cmp.Or(cfg.Workers, runtime.GOMAXPROCS(0)), cfg.NumEnvs)
	for w := range workers {
		v.shards = append(v.shards, shard{from: w * cfg.NumEnvs / workers, to: (w + 1) * cfg.NumEnvs / workers, limit: maxBeats})
	}
	for w := range v.shards {
		sh := &v.shards[w]
		for i := sh.from; i < sh.to; i++ {
			v.envs[i].pulse = sh.beat
		}
	}
	for w := 1; w < workers; w++ {
		ch := make(chan func(i int) error)
		v.wake = append(v.wake, ch)
		go v.work(ch, &v.shards[w])
	}
	return v, nil
}

// take makes what a spec names, unless it has it.
func (s *sub) take(spec InstanceSpec) (t taken, err error) {
	t = taken{spec, s.instance}
	if s.instance == nil || s.spec.Workload != spec.Workload {
		t.instance, err = BuildInstance(spec.Workload)
	}
	return t, err
}

// Layout names the buffers that Bind wants, in order.
func (v *Vector) Layout() []Field {
	n := v.cfg.NumEnvs
	action := "int64"
	if v.byKey {
		action = "float32"
	}
	return []Field{
		{"obs", "float32", []int{n, v.width}}, {"mask", "uint8", []int{n, v.masks}}, {"action", action, []int{n}},
		{"reward", "float64", []int{n}}, {"terminated", "uint8", []int{n}}, {"truncated", "uint8", []int{n}},
		{"dt_ns", "int64", []int{n}}, {"final_obs", "float32", []int{n, v.width}}, {"final_mask", "uint8", []int{n, v.masks}},
	}
}

// Bind keeps the buffers until Close. The caller keeps them alive and in place; lengths are checked, alignment is the caller's.
func (v *Vector) Bind(b [][]byte) error {
	layout := v.Layout()
	if len(b) != len(layout) {
		return fmt.Errorf("env: %d buffers bound, %d wanted", len(b), len(layout))
	}
	for i, f := range layout {
		size := map[string]int{"float32": 4, "uint8": 1, "int64": 8, "float64": 8}[f.Type]
		for _, d := range f.Shape {
			size *= d
		}
		if len(b[i]) != size {
			return fmt.Errorf("env: buffer %s has %d bytes, %d wanted", f.Name, len(b[i]), size)
		}
	}
	v.obs, v.mask = as[float32](b[0]), b[1]
	if v.byKey {
		v.keys = as[float32](b[2])
	} else {
		v.slots = as[int64](b[2])
	}
	v.reward, v.terminated, v.truncated, v.dt = as[float64](b[3]), b[4], b[5], as[int64](b[6])
	v.finalObs, v.finalMask = as[float32](b[7]), b[8]
	return nil
}

func as[T any](b []byte) []T {
	var zero T
	return unsafe.Slice((*T)(unsafe.Pointer(unsafe.SliceData(b))), len(b)/int(unsafe.Sizeof(zero)))
}

// resetRequest asks for a reset: of all, or of those that the mask marks.
type resetRequest struct {
	Seed      *uint64         `msgpack:"seed"`  // sub-environment i gets seed + i and episode 0; nil: the next episode
	Seeds     []*uint64       `msgpack:"seeds"` // one each, in place of seed
	Mask      []byte          `msgpack:"mask"`
	Instances []*InstanceSpec `msgpack:"instances"` // one each, nil: keeps its own
}

// Reset starts episodes and goes on to their first decisions. ErrUnderWay is no failure: Resume goes on.
func (v *Vector) Reset(req []byte) ([]byte, error) {
	var r resetRequest
	if err := Decode(req, &r); err != nil {
		return nil, err
	}
	n := v.cfg.NumEnvs
	for name, got := range map[string]int{"seeds": len(r.Seeds), "mask": len(r.Mask), "instances": len(r.Instances)} {
		if got != 0 && got != n {
			return nil, badConfig("%s: %d given for %d environments", name, got, n)
		}
	}
	if v.obs == nil {
		return nil, badConfig("reset: buffers must be bound first")
	}
	next := make([]taken, n) // by all before any has changed
	for i := range v.envs {
		if len(r.Mask) > 0 && r.Mask[i] == 0 {
			continue
		}
		s := &v.envs[i]
		spec := s.spec
		switch {
		case len(r.Instances) > 0 && r.Instances[i] != nil:
			spec = *r.Instances[i]
		case len(r.Seeds) > 0 && r.Seeds[i] != nil:
			spec.Seed, spec.Episode = *r.Seeds[i], 0
		case r.Seed != nil:
			spec.Seed, spec.Episode = *r.Seed+uint64(i), 0
		case s.started:
			spec.Episode++
		}
		var err error
		if next[i], err = s.take(spec); err != nil {
			return nil, fmt.Errorf("environment %d: %w", i, err)
		}
	}
	v.ended = v.ended[:0]
	for i := range v.envs {
		if len(r.Mask) == 0 || r.Mask[i] != 0 {
			s := &v.envs[i]
			s.started, s.waiting, s.result = false, false, Ended{}
		}
	}
	return nil, v.each(func(i int) error {
		s := &v.envs[i]
		if len(r.Mask) > 0 && r.Mask[i] == 0 {
			return nil
		}
		v.reward[i], v.terminated[i], v.truncated[i], v.dt[i] = 0, 0, 0, 0
		if s.waiting {
			return v.begun(i, s.Resume())
		}
		s.taken = next[i]
		return v.begin(i)
	})
}

// begin starts the episode that the sub-environment's spec names and writes its first observation.
func (v *Vector) begin(i int) error {
	s := &v.envs[i]
	setup := v.cfg.setup
	setup.Instance, setup.Seed, setup.Episode = s.instance, s.spec.Seed, s.spec.Episode
	s.started = false
	return v.begun(i, s.Episode.Reset(setup, v.cfg.schema))
}

func (v *Vector) begun(i int, err error) error {
	if err == nil {
		s := &v.envs[i]
		s.started, s.finished = true, false
		v.observe(i)
	}
	return err
}

func (v *Vector) observe(i int) {
	v.envs[i].observation(v.obs[i*v.width:(i+1)*v.width], v.mask[i*v.masks:(i+1)*v.masks])
}

// Step answers one decision in each environment. ErrUnderWay is no failure: Resume goes on.
func (v *Vector) Step() error {
	if v.obs == nil {
		return badConfig("step: buffers must be bound first")
	}
	for i := range v.envs { // before any has taken its step
		s := &v.envs[i]
		if s.waiting {
			return fmt.Errorf("environment %d: a step or a reset was left half-way: %w", i, ErrOver)
		}
		if !s.started || s.finished && v.mode == Disabled {
			return fmt.Errorf("environment %d: %w", i, ErrOver)
		}
	}
	v.ended = v.ended[:0]
	if v.cfg.InvalidAction == "raise" {
		if err := v.legal(); err != nil {
			return err
		}
	}
	return v.each(v.stepping)
}

// Resume goes on with the Reset or the Step that returned ErrUnderWay.
func (v *Vector) Resume() error {
	if v.going == nil {
		return fmt.Errorf("nothing is under way: %w", ErrOver)
	}
	return v.goOn()
}

// collect puts the episodes that have ended into index order, whatever the workers did.
func (v *Vector) collect() {
	for i := range v.envs {
		if s := &v.envs[i]; s.result.Index == i+1 {
			s.result.Index--
			v.ended = append(v.ended, s.result)
			s.result = Ended{}
		}
	}
}

// IllegalActionError is an action outside the action space or forbidden by the mask, where those raise.
type IllegalActionError struct {
	Index  int // of the environment
	Action float64
	Why    string
}

func (e *IllegalActionError) Error() string {
	return fmt.Sprintf("environment %d: illegal action %v: %s", e.Index, e.Action, e.Why)
}

// legal finds an illegal action before any environment has taken its step, so that the caller can correct it.
func (v *Vector) legal() error {
	for i := range v.envs {
		if s := &v.envs[i]; s.finished {
			continue
		}
		if _, legal := v.action(i); !legal && v.byKey {
			return &IllegalActionError{i, float64(v.keys[i]), "outside the bounds of the action space, or not a number"}
		} else if !legal {
			return &IllegalActionError{i, float64(v.slots[i]), "the mask does not allow it"}
		}
	}
	return nil
}

// action reads what the caller wrote for environment i.
func (v *Vector) action(i int) (p sched.Placement, legal bool) {
	if v.byKey {
		return v.envs[i].decodeKey(v.keys[i])
	}
	return v.envs[i].decodeSlot(v.slots[i], v.mask[i*v.masks:(i+1)*v.masks])
}

func (v *Vector) step(i int) error {
	s := &v.envs[i]
	switch {
	case s.waiting && s.opening:
		return v.begun(i, s.Resume())
	case s.waiting:
		return v.answered(i, s.Resume())
	case s.finished:
		v.reward[i], v.terminated[i], v.truncated[i], v.dt[i] = 0, 0, 0, 0
		s.spec.Episode++
		return v.begin(i)
	}
	return v.answered(i, s.answer(v.action(i)))
}

// answered tells what a step has led to.
func (v *Vector) answered(i int, err error) error {
	if err != nil {
		return err
	}
	s := &v.envs[i]
	last := s.last
	v.reward[i], v.dt[i] = last.reward, last.dt
	v.terminated[i], v.truncated[i] = bit(last.terminated), bit(last.truncated)
	v.observe(i)
	if !last.terminated && !last.truncated {
		return nil
	}
	s.finished = true
	if err := s.Finish(); err != nil {
		return err
	}
	s.result = Ended{Index: i + 1, Result: s.Result(), Illegal: s.illegal, Steps: s.steps, InstanceSpec: s.spec}
	if v.mode == SameStep {
		copy(v.finalObs[i*v.width:(i+1)*v.width], v.obs[i*v.width:(i+1)*v.width])
		copy(v.finalMask[i*v.masks:(i+1)*v.masks], v.mask[i*v.masks:(i+1)*v.masks])
		s.spec.Episode++
		return v.begin(i)
	}
	return nil
}

func bit(b bool) uint8 {
	if b {
		return 1
	}
	return 0
}

// Info tells of the episodes that ended in the last step, in index order, as msgpack.
func (v *Vector) Info() ([]byte, error) {
	return msgpack.Marshal(map[string]any{"ended": v.ended})
}

// Close ends the workers. It may be called twice.
func (v *Vector) Close() error {
	if !v.closed {
		v.closed = true
		for _, ch := range v.wake {
			close(ch)
		}
		v.obs = nil
	}
	return nil
}
