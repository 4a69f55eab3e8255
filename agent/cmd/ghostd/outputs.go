package main

import (
	"cmp"
	"errors"

	"github.com/ghostgym/ghostgym/agent/trace"
	"github.com/ghostgym/ghostgym/env"
	"github.com/ghostgym/ghostgym/env/cmd/cli"
	"github.com/ghostgym/ghostgym/env/compare"
)

// outputs are the files that a run leaves: each of them whole, or none at all.
type outputs struct {
	files    []*compare.File // that have no name yet
	writer   *trace.Writer
	timeline *trace.Timeline
	json     *compare.File // nil: there is none, or it is standard output
}

// create begins what was asked for: what is a pipe or a device already, whose opening may have to wait for somebody, or else the
// rest.
func (x *outputs) create(s *session, inPlace bool) error {
	for _, out := range []struct {
		flag, path string
		begin      func(*session, *compare.File) error
	}{{"record", s.o.record, x.record}, {"timeline", s.o.timeline, x.draw}, {"json", s.o.json, x.report}} {
		if out.path == "" || out.path == "-" || compare.InPlace(out.path) != inPlace {
			continue
		}
		f, err := compare.Create(out.path)
		if err != nil {
			return cli.Usage("--%s: %w", out.flag, err)
		}
		x.files = append(x.files, f)
		if err := out.begin(s, f); err != nil {
			return err
		}
	}
	return nil
}

func (x *outputs) record(s *session, f *compare.File) (err error) {
	h := trace.Header{Schema: s.stats.Schema, Scheduler: s.o.scheduler, Workload: s.o.workload,
		Profile: cmp.Or(s.setup.Profile, s.setup.Instance.Profile), Seed: s.o.seed, Machine: *s.machine.Sim.Topology()}
	x.writer, err = trace.NewWriter(f, &h)
	s.setup.Sinks = append(s.setup.Sinks, x.writer)
	return err
}

func (x *outputs) draw(s *session, f *compare.File) error {
	x.timeline = trace.NewTimeline(f, s.machine.Sim.Topology(), s.machine.Sim.TaskName, trace.TimelineEvents)
	s.setup.Sinks = append(s.setup.Sinks, x.timeline)
	return nil
}

func (x *outputs) report(_ *session, f *compare.File) error {
	x.json = f
	return nil
}

// keep ends the files and gives them their names.
func (x *outputs) keep(m *env.Machine, st *Stats) error {
	var err error
	if x.writer != nil {
		err = errors.Join(err, x.writer.Close(m.Agent.Core().Fates()))
	}
	if x.timeline != nil {
		err = errors.Join(err, x.timeline.Close(m.Agent.Now()))
	}
	if x.json != nil {
		err = errors.Join(err, st.write(x.json))
	}
	for err == nil && len(x.files) > 0 {
		f := x.files[0]
		x.files = x.files[1:]
		err = f.Keep()
	}
	return err
}

// discard removes what has not been kept.
func (x *outputs) discard() {
	for _, f := range x.files {
		f.Discard()
	}
}
