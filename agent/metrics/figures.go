package metrics

import (
	"encoding/json"
	"math"

	"github.com/vmihailenco/msgpack/v5"

	"github.com/ghostgym/ghostgym/agent/sched"
)

// Number is a figure that may not exist: NaN in Go, null in JSON, nil in msgpack.
type Number float64

// MarshalJSON writes null for what is not a finite number.
func (x Number) MarshalJSON() ([]byte, error) {
	if f := float64(x); !math.IsNaN(f) && !math.IsInf(f, 0) {
		return json.Marshal(f)
	}
	return []byte("null"), nil
}

// UnmarshalJSON reads null as NaN.
func (x *Number) UnmarshalJSON(b []byte) error {
	if string(b) == "null" {
		*x = Number(math.NaN())
		return nil
	}
	return json.Unmarshal(b, (*float64)(x))
}

// EncodeMsgpack writes nil for what is not a finite number.
func (x Number) EncodeMsgpack(e *msgpack.Encoder) error {
	if f := float64(x); !math.IsNaN(f) && !math.IsInf(f, 0) {
		return e.EncodeFloat64(f)
	}
	return e.EncodeNil()
}

// DecodeMsgpack reads nil as NaN.
func (x *Number) DecodeMsgpack(d *msgpack.Decoder) error {
	code, err := d.PeekCode()
	if err != nil {
		return err
	}
	if code == 0xc0 {
		*x = Number(math.NaN())
		return d.DecodeNil()
	}
	f, err := d.DecodeFloat64()
	*x = Number(f)
	return err
}

// Figures are the figures of one run; Definitions says what each is. Those that do not exist are NaN.
type Figures struct {
	WaitMean     Number `json:"wait_mean_us" msgpack:"wait_mean_us"` // over Bursts + Censored
	WaitP99      Number `json:"wait_p99_us" msgpack:"wait_p99_us"`
	WakeupP50    Number `json:"wakeup_p50_us" msgpack:"wakeup_p50_us"` // over Wakeups
	WakeupP99    Number `json:"wakeup_p99_us" msgpack:"wakeup_p99_us"`
	WakeupMax    Number `json:"wakeup_max_us" msgpack:"wakeup_max_us"`
	SlowdownMean Number `json:"slowdown_mean" msgpack:"slowdown_mean"` // over Slowdowns
	SlowdownP99  Number `json:"slowdown_p99" msgpack:"slowdown_p99"`
	Turnaround   Number `json:"turnaround_ms" msgpack:"turnaround_ms"` // over Finished
	Throughput   Number `json:"throughput_per_s" msgpack:"throughput_per_s"`
	Switches     uint64 `json:"switches" msgpack:"switches"`
	AgeMax       Number `json:"age_max_us" msgpack:"age_max_us"`
	Utilisation  Number `json:"utilisation" msgpack:"utilisation"`

	Bursts    uint64 `json:"bursts" msgpack:"bursts"`       // that ended
	Censored  uint64 `json:"censored" msgpack:"censored"`   // that had not ended
	Wakeups   uint64 `json:"wakeups" msgpack:"wakeups"`     // with a wakeup latency
	Unstarted uint64 `json:"unstarted" msgpack:"unstarted"` // of Wakeups: never ran, so that the latency is a lower bound
	Slowdowns uint64 `json:"slowdowns" msgpack:"slowdowns"` // with a slowdown
	Finished  uint64 `json:"finished" msgpack:"finished"`   // tasks that left

	Few   []string    `json:"few" msgpack:"few"` // names of percentiles with too few values
	Fates sched.Fates `json:"fates" msgpack:"fates"`
}
