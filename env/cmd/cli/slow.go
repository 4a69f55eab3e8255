package cli

import (
	"fmt"
	"time"
)

// Slow is a note about a model that takes longer than a simulation says; "" where the difference is less than anything else that a
// machine is simulated to do costs.
func Slow(takes, simulated time.Duration) string {
	if takes-simulated <= time.Microsecond {
		return ""
	}
	return fmt.Sprintf("a decision takes %v here and is simulated as %v", Rounded(takes), simulated)
}

// Rounded keeps three digits.
func Rounded(d time.Duration) time.Duration {
	unit := time.Duration(1)
	for d/unit >= 1000 {
		unit *= 10
	}
	return d.Round(unit)
}
