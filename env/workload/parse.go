package workload

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/ghostgym/ghostgym/agent/spell"
)

// keys lists what a spec of this name may set; all there is for an unknown name.
func keys(name string) []string {
	if IsFile(name) {
		return []string{"cpus", "lenient"}
	}
	all := []string{"cpus", "load", "scale"}
	k := find(name)
	if k == nil || k.threads {
		all = append(all, "threads")
	}
	if k == nil || k.cycles != 0 {
		all = append(all, "cycles")
	}
	if k == nil {
		all = append(all, "lenient")
	}
	return all
}

// Parse reads a spec: a kind or a path, then colon-separated key=value. Errors name the spec, the key and what is allowed.
// Whether the kind exists and takes the key is Build's to say.
func Parse(spec string) (name string, p Params, err error) {
	name, rest, more := strings.Cut(spec, ":")
	if name == "" {
		return "", Params{}, fmt.Errorf("workload %q: no name before the parameters; known are %s", spec, strings.Join(Names(), ", "))
	}
	seen := make(map[string]bool)
	for more {
		var field string
		field, rest, more = strings.Cut(rest, ":")
		key, value, ok := strings.Cut(field, "=")
		if !ok || value == "" {
			return "", Params{}, fmt.Errorf("workload %q: %q is not key=value", spec, field)
		}
		if seen[key] {
			return "", Params{}, fmt.Errorf("workload %q: %s is given twice", spec, key)
		}
		seen[key] = true
		if err := p.set(name, key, value); err != nil {
			return "", Params{}, fmt.Errorf("workload %q: %w", spec, err)
		}
	}
	return name, p, nil
}

func (p *Params) set(name, key, value string) error {
	switch key {
	case "cpus":
		return integer(key, value, 1, maxCPUs, &p.CPUs)
	case "load":
		return number(key, value, minLoad, maxLoad, &p.Load)
	case "scale":
		return number(key, value, minScale, maxScale, &p.Scale)
	case "threads":
		return integer(key, value, 1, maxThreads, &p.Threads)
	case "cycles":
		if value == "-1" {
			p.Cycles = -1
			return nil
		}
		if err := integer(key, value, 1, maxCycles, &p.Cycles); err != nil {
			return fmt.Errorf("%w, and -1 for no end", err)
		}
		return nil
	case "lenient":
		v, err := strconv.ParseBool(value)
		if err != nil {
			return fmt.Errorf("lenient: %q: allowed are 0 and 1", value)
		}
		p.Lenient = v
		return nil
	}
	return fmt.Errorf("unknown key %q: there is %s%s", key, strings.Join(keys(name), ", "), spell.Hint(key, keys(name)))
}

func integer(key, value string, lo, hi int, dst *int) error {
	v, err := strconv.Atoi(value)
	if err != nil || v < lo || v > hi {
		return fmt.Errorf("%s: %q: allowed are whole numbers from %d to %d", key, value, lo, hi)
	}
	*dst = v
	return nil
}

// number reads a decimal number or a fraction, as in 1/4.
func number(key, value string, lo, hi float64, dst *float64) error {
	above, below, fraction := strings.Cut(value, "/")
	v, err := strconv.ParseFloat(above, 64)
	if fraction && err == nil {
		var d float64
		d, err = strconv.ParseFloat(below, 64)
		v /= d
	}
	if err != nil || !(v >= lo && v <= hi) {
		return fmt.Errorf("%s: %q: allowed are numbers from %g to %g", key, value, lo, hi)
	}
	*dst = v
	return nil
}
