package workload

import (
	"strconv"
	"strings"
)

// Format is the spec that Parse reads back into the same name and parameters.
func Format(name string, p Params) string {
	var b strings.Builder
	b.WriteString(name)
	put := func(key string, set bool, value string) {
		if set {
			b.WriteString(":" + key + "=" + value)
		}
	}
	put("cpus", p.CPUs != 0, strconv.Itoa(p.CPUs))
	put("load", p.Load != 0, strconv.FormatFloat(p.Load, 'g', -1, 64))
	put("scale", p.Scale != 0, strconv.FormatFloat(p.Scale, 'g', -1, 64))
	put("threads", p.Threads != 0, strconv.Itoa(p.Threads))
	put("cycles", p.Cycles != 0, strconv.Itoa(p.Cycles))
	put("lenient", p.Lenient, "1")
	return b.String()
}
