package main

import (
	"cmp"
	"errors"

	"github.com/ghostgym/ghostgym/agent/trace"
	"github.com/ghostgym/ghostgym/env"
	"github.com/ghostgym/ghostgym/env/compare"
)

// outputs are the files that a run leaves, whole or not at all.
type outputs struct {
	files    []*compare.File // that have no name yet
	writer   *trace.Writer
	timeline *trace.Timeline
}

// open adds what was asked for to the sinks of the setup.
func (x *outputs) open(s *session) error {
	create := func(path string) (*compare.File, error) {
		f, err := compare.Create(path)
		if err == nil {
			x.files = append(x.files, f)
		}
		return f, err
	}
	if s.o.record != "" {
		f, err := create(s.o.record)
		if err != nil {
			return err
		}
		h := trace.Header{Schema: s.stats.Schema, Scheduler: s.o.scheduler, Workload: s.o.workload,
			Profile: cmp.Or(s.setup.Profile, s.setup.Instance.Profile), Seed: s.o.seed, Machine: *s.machine.Sim.Topology()}
		if x.writer, err = trace.NewWriter(f, &h); err != nil {
			return err
		}
		s.setup.Sinks = append(s.setup.Sinks, x.writer)
	}
	if s.o.timeline != "" {
		f, err := create(s.o.timeline)
		if err != nil {
			return err
		}
		x.timeline = trace.NewTimeline(f, s.machine.Sim.Topology(), s.machine.Sim.TaskName, trace.TimelineEvents)
		s.setup.Sinks = append(s.setup.Sinks, x.timeline)
	}
	return nil
}

// keep ends the files and gives them their names.
func (x *outputs) keep(m *env.Machine) error {
	var err error
	if x.writer != nil {
		err = errors.Join(err, x.writer.Close(m.Agent.Core().Fates()))
	}
	if x.timeline != nil {
		err = errors.Join(err, x.timeline.Close(m.Agent.Now()))
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
