package main

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"

	"github.com/vmihailenco/msgpack/v5"

	"github.com/ghostgym/ghostgym/agent/feature"
	"github.com/ghostgym/ghostgym/env"
	"github.com/ghostgym/ghostgym/env/compare"
	"github.com/ghostgym/ghostgym/inference"
	"github.com/ghostgym/ghostgym/models"
)

// product is what this library serves.
var product = backend{
	schema: func() string {
		var hashes []string
		for _, s := range feature.Schemas() {
			hashes = append(hashes, s.Kind+"="+s.Hash())
		}
		slices.Sort(hashes)
		return strings.Join(hashes, ",")
	},
	calls:  allCalls(),
	vector: openVector,
	model:  openModel,
}

func allCalls() map[string]call {
	all := map[string]call{}
	maps.Copy(all, env.Calls())
	maps.Copy(all, compare.Calls(version))
	maps.Copy(all, selftestCalls)
	all["render"], all["progress"] = renderCall, progressCall
	return all
}

// openVector makes the vector that a configuration asks for: {"selftest": n}, or environments.
func openVector(req []byte) (vector, error) {
	var cfg struct {
		Selftest int `msgpack:"selftest"`
	}
	if env.Decode(req, &cfg) == nil && cfg.Selftest > 0 {
		return newCounters(cfg.Selftest)
	}
	return env.Open(req)
}

// renderCall describes one environment of a vector as text.
func renderCall(_ context.Context, req []byte) (body []byte, err error) {
	var r struct {
		Handle int64 `msgpack:"handle"`
		Index  int   `msgpack:"index"`
	}
	if err := env.Decode(req, &r); err != nil {
		return nil, err
	}
	o, v, err := acquire[*env.Vector](r.Handle)
	if err != nil {
		return nil, err
	}
	defer o.release(&err)
	text, err := v.Render(r.Index)
	if err != nil {
		return nil, err
	}
	return msgpack.Marshal(text)
}

// progressCall tells how far the call that runs under a token is: [done, total], [0, 0] where that is unknown.
func progressCall(_ context.Context, req []byte) ([]byte, error) {
	var r struct {
		Token uint64 `msgpack:"token"`
	}
	if err := env.Decode(req, &r); err != nil {
		return nil, err
	}
	var far [2]int64
	if this := running.find(r.Token); this != nil {
		far = [2]int64{this.done.Load(), this.total.Load()}
	}
	return msgpack.Marshal(far)
}

// scorer is a loaded model and a session of its own.
type scorer struct {
	*models.Model
	session *inference.Session
}

func openModel(file []byte) (model, error) {
	m, err := models.Load(file)
	if err != nil {
		return nil, err
	}
	s, err := m.NewSession()
	if err != nil {
		return nil, err
	}
	return &scorer{m, s}, nil
}

func (s *scorer) In() int  { return s.Width() }
func (s *scorer) Out() int { return s.OutWidth() }

func (s *scorer) Score(rows []float32, n int, out []float32) error {
	return s.session.Score(rows, n, out)
}

func (s *scorer) Close() error { return nil }

// productCode is the class of an error of the packages behind the library; 0 where it has none.
func productCode(err error) int {
	var illegal *env.IllegalActionError
	switch {
	case errors.As(err, &illegal):
		return codeAction
	case errors.Is(err, models.ErrModel):
		return codeModel
	case errors.Is(err, env.ErrOver):
		return codeSchedule
	case errors.Is(err, env.ErrConfig):
		return codeConfig
	}
	return 0
}
