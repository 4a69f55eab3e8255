package workload

import (
	"fmt"

	"github.com/ghostgym/ghostgym/agent/kernel"
	"github.com/ghostgym/ghostgym/env/workload/rtapp"
)

const (
	fileDuration = 10 * kernel.Second // of a file that names none, or -1 or 0, which mean the same to rt-app
	fileCPUs     = 4                  // at least: a file that pins one thread to CPU 0 means a machine with others
)

// buildFile makes an instance of an rt-app file.
func buildFile(path string, p Params) (*Instance, error) {
	if p.Load != 0 || p.Scale != 0 || p.Threads != 0 || p.Cycles != 0 {
		return nil, fmt.Errorf("workload %s: a file takes cpus and lenient only; its load stands in it", path)
	}
	if err := p.check(); err != nil {
		return nil, fmt.Errorf("workload %s: %w", path, err)
	}
	f, repairs, err := rtapp.Load(path, p.Lenient)
	if err != nil {
		return nil, err
	}
	if p.CPUs == 0 {
		p.CPUs = max(fileCPUs, f.CPUs)
	}
	if p.CPUs < f.CPUs {
		return nil, fmt.Errorf("workload %s: cpus %d: the file names CPU %d, so at least %d are needed", path, p.CPUs, f.CPUs-1, f.CPUs)
	}
	w := f.Compile()
	in := &Instance{Name: path, Params: p, Workload: w, CPUs: p.CPUs, Pinned: f.Pinned, Profile: "kthread", Duration: f.Duration}
	if in.Duration == 0 {
		in.Duration = fileDuration
		in.Notes = append(in.Notes, fmt.Sprintf("no duration: a run ends with its last thread, as in rt-app, but after %d s at the latest",
			fileDuration/kernel.Second))
	}
	for _, r := range repairs {
		in.Notes = append(in.Notes, "repaired "+r.String())
	}
	in.Notes = append(in.Notes, w.Notes...)
	if _, err := in.measure(); err != nil {
		return nil, err
	}
	return in, nil
}
