package feature

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/ghostgym/ghostgym/agent/sched"
)

// Keys under which a model's metadata carries its schema.
const (
	MetaHash   = "ghostgym.schema_hash" // Schema.Hash
	MetaSchema = "ghostgym.schema"      // Schema.Text, so that a refusal can name what differs
	MetaAction = "ghostgym.action"      // Action.Kind
	MetaRanges = "ghostgym.ranges"      // JSON, {name: [lowest, highest]}: what it was trained on, "cpus" and others
)

// Feature is one number of a row.
type Feature struct {
	Name     string  `json:"name" msgpack:"name"`
	Unit     string  `json:"unit" msgpack:"unit"`
	DType    string  `json:"dtype" msgpack:"dtype"`
	Lo       float32 `json:"lo" msgpack:"lo"` // values are clipped to [Lo, Hi]
	Hi       float32 `json:"hi" msgpack:"hi"`
	Version  int     `json:"version" msgpack:"version"` // of the formula
	Presence bool    `json:"presence" msgpack:"presence"`
	Formula  string  `json:"formula" msgpack:"formula"` // for people; the hash covers Version instead
}

// Action is what answers a row.
type Action struct {
	Kind      string  `json:"kind" msgpack:"kind"` // "key" or "slot"
	Lo        float32 `json:"lo" msgpack:"lo"`
	Hi        float32 `json:"hi" msgpack:"hi"`
	Slots     int     `json:"slots" msgpack:"slots"`         // places from the front that may be named; the action after them is the back
	Direction string  `json:"direction" msgpack:"direction"` // which way the order runs
}

// Width is how many numbers a model gives for a row: one key, or a logit for each slot and the back.
func (a *Action) Width() int {
	if a.Kind == "slot" {
		return a.Slots + 1
	}
	return 1
}

// Constant is a normalising constant that formulas share.
type Constant struct {
	Name  string  `json:"name" msgpack:"name"`
	Value float64 `json:"value" msgpack:"value"`
}

// Schema says what a row and its answer mean.
type Schema struct {
	Kind      string     `json:"kind" msgpack:"kind"` // "priority" or "placement"
	Features  []Feature  `json:"features" msgpack:"features"`
	Action    Action     `json:"action" msgpack:"action"`
	Constants []Constant `json:"constants" msgpack:"constants"`

	order      sched.Order
	text, hash string
}

// KeyBound limits keys: they are clipped to [-KeyBound, KeyBound], the normalised range that learning libraries expect of an action.
const KeyBound = 1

var constants = []Constant{{"clip", clip}, {"soften", soften}, {"unit_ns", unitNs}}

// Priority is the schema of queues kept by key, Placement that of queues kept by slot. They are not to be changed.
var (
	Priority = newSchema(Schema{
		Kind: "priority", Features: taskFeatures[:], order: sched.ByKey,
		Action: Action{Kind: "key", Lo: -KeyBound, Hi: KeyBound, Direction: "smaller first"},
	})
	Placement = newSchema(Schema{
		Kind: "placement", Features: append(taskFeatures[:len(taskFeatures):len(taskFeatures)], slotFeatures()...), order: sched.BySlot,
		Action: Action{Kind: "slot", Lo: 0, Hi: sched.Slots, Slots: sched.Slots, Direction: "0 is the front"},
	})
)

// Schemas are all there are.
func Schemas() []*Schema { return []*Schema{Priority, Placement} }

// ByAction is the schema whose action has the kind given.
func ByAction(kind string) (*Schema, error) {
	for _, s := range Schemas() {
		if s.Action.Kind == kind {
			return s, nil
		}
	}
	return nil, fmt.Errorf("feature: no action is called %q: want key or slot", kind)
}

func newSchema(s Schema) *Schema {
	s.Features = append([]Feature(nil), s.Features...)
	s.Constants = constants
	for i := range s.Features {
		s.Features[i].DType = "float32"
	}
	s.text = s.canonical()
	sum := sha256.Sum256([]byte(s.text))
	s.hash = hex.EncodeToString(sum[:])
	return &s
}

// Width is the length of a row.
func (s *Schema) Width() int { return len(s.Features) }

// Order is that of the queues whose decisions the schema describes.
func (s *Schema) Order() sched.Order { return s.order }

// Hash is the SHA-256 of Text, in hexadecimal.
func (s *Schema) Hash() string { return s.hash }

// Text is the schema in canonical form: one line for each thing the hash covers.
func (s *Schema) Text() string { return s.text }

const heading = "ghostgym-schema 1"

func (s *Schema) canonical() string {
	var b strings.Builder
	num := func(x float32) string { return strconv.FormatFloat(float64(x), 'g', -1, 32) }
	fmt.Fprintf(&b, "%s\nkind %s\n", heading, s.Kind)
	fmt.Fprintf(&b, "action %s lo=%s hi=%s slots=%d direction=%s\n", s.Action.Kind, num(s.Action.Lo), num(s.Action.Hi), s.Action.Slots,
		strings.ReplaceAll(s.Action.Direction, " ", "_"))
	for _, c := range s.Constants {
		fmt.Fprintf(&b, "constant %s %s\n", c.Name, strconv.FormatFloat(c.Value, 'g', -1, 64))
	}
	for _, f := range s.Features {
		presence := ""
		if f.Presence {
			presence = " presence"
		}
		fmt.Fprintf(&b, "feature %s unit=%s dtype=%s lo=%s hi=%s version=%d%s\n", f.Name, f.Unit, f.DType, num(f.Lo), num(f.Hi), f.Version, presence)
	}
	return b.String()
}

// Bounds of what Diff reports about a text that may come from anywhere.
const (
	maxDiffs    = 32
	maxDiffLine = 160
)

// Diff names what differs between the schema and the canonical text of another: for each feature, constant or property "name: ours
// …, theirs …", or who lacks it, or that its place in the row differs. It is empty for the schema's own text. It reports 32
// differences at most.
func (s *Schema) Diff(text string) []string {
	if text == s.text {
		return nil
	}
	if !strings.HasPrefix(text, heading+"\n") {
		return []string{"the other carries no schema text that this version can read"}
	}
	ours, theirs := lines(s.text), lines(text)
	there := make(map[string]int, len(theirs))
	for i, l := range theirs {
		there[l.name] = i
	}
	here := make(map[string]bool, len(ours))
	var diffs []string
	moved := ""
	for i, l := range ours {
		here[l.name] = true
		j, ok := there[l.name]
		switch {
		case !ok:
			diffs = append(diffs, fmt.Sprintf("%s: ours only (%s)", l.name, l.rest))
		case theirs[j].rest != l.rest:
			diffs = append(diffs, fmt.Sprintf("%s: ours %s, theirs %s", l.name, l.rest, theirs[j].rest))
		case i != j && moved == "":
			moved = l.name
		}
	}
	for _, l := range theirs {
		if !here[l.name] {
			diffs = append(diffs, fmt.Sprintf("%s: theirs only (%s)", l.name, l.rest))
		}
	}
	if len(diffs) == 0 && moved != "" {
		diffs = append(diffs, moved+": stands at another place of the row")
	}
	if len(diffs) == 0 {
		diffs = append(diffs, "lines are repeated or spaced differently")
	}
	if n := len(diffs) - maxDiffs; n > 0 {
		diffs = append(diffs[:maxDiffs], fmt.Sprintf("and %d more", n))
	}
	for i, d := range diffs {
		d = strings.Map(printable, d)
		if len(d) > maxDiffLine {
			d = strings.ToValidUTF8(d[:maxDiffLine], "") + "…"
		}
		diffs[i] = d
	}
	return diffs
}

func printable(r rune) rune {
	if r != utf8.RuneError && strconv.IsPrint(r) {
		return r
	}
	return '?'
}

// line is one line of a canonical text: what it is about, and what it says.
type line struct{ name, rest string }

func lines(text string) (ls []line) {
	for _, l := range strings.Split(strings.TrimSuffix(text, "\n"), "\n") {
		kind, rest, _ := strings.Cut(l, " ")
		name := kind
		if kind == "feature" || kind == "constant" {
			name, rest, _ = strings.Cut(rest, " ")
			if kind == "constant" {
				name = "constant " + name
			}
		}
		ls = append(ls, line{name, rest})
	}
	return ls
}
