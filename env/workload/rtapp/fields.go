package rtapp

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
)

// mistyped says what a key wants.
func (d *decoder) mistyped(m *member, want string) error {
	if m.value == nil {
		return d.fail(m.at, m.key, "has no value: expected %s", want)
	}
	return d.fail(m.value.at, m.key, "expected %s, found %s", want, kindNames[m.value.kind])
}

func (d *decoder) object(m *member) ([]member, error) {
	if m.value == nil || m.value.kind != kindObject {
		return nil, d.mistyped(m, "an object")
	}
	return m.value.members, nil
}

// integer reads a whole number from lo to hi. Lenient reading takes it out of a string or a number without fraction.
func (d *decoder) integer(m *member, lo, hi int64) (int64, error) {
	if m.value == nil {
		return 0, d.mistyped(m, "a whole number")
	}
	n := m.value.num
	switch v := m.value; v.kind {
	case kindInt:
	case kindString:
		parsed, err := strconv.ParseInt(strings.TrimSpace(v.text), 10, 64)
		if err != nil {
			return 0, d.mistyped(m, "a whole number")
		}
		if err := d.repair(v.at, m.key, "expected a whole number, found a string", fmt.Sprintf("read as %d", parsed)); err != nil {
			return 0, err
		}
		n = parsed
	case kindFloat:
		if v.float < float64(lo) || v.float > float64(hi) {
			return 0, d.fail(v.at, m.key, "%g is out of range: allowed are %d to %d", v.float, lo, hi)
		}
		if v.float != math.Trunc(v.float) {
			return 0, d.mistyped(m, "a whole number")
		}
		n = int64(v.float)
		if err := d.repair(v.at, m.key, "expected a whole number, found one with a fraction or exponent", fmt.Sprintf("read as %d", n)); err != nil {
			return 0, err
		}
	default:
		return 0, d.mistyped(m, "a whole number")
	}
	if n < lo || n > hi {
		return 0, d.fail(m.value.at, m.key, "%d is out of range: allowed are %d to %d", n, lo, hi)
	}
	return n, nil
}

// text reads a string that says something.
func (d *decoder) text(m *member) (string, error) {
	if m.value == nil || m.value.kind != kindString {
		return "", d.mistyped(m, "a string")
	}
	if m.value.text == "" {
		return "", d.fail(m.value.at, m.key, "an empty string names nothing")
	}
	return m.value.text, nil
}

// boolean reads true or false. Lenient reading takes 0, 1 and strings for them.
func (d *decoder) boolean(m *member) (bool, error) {
	if m.value == nil {
		return false, d.mistyped(m, "true or false")
	}
	switch v := m.value; v.kind {
	case kindBool:
		return v.num != 0, nil
	case kindInt, kindString:
		text := v.text
		if v.kind == kindInt {
			text = strconv.FormatInt(v.num, 10)
		}
		b, err := strconv.ParseBool(strings.ToLower(text))
		if err != nil {
			return false, d.mistyped(m, "true or false")
		}
		return b, d.repair(v.at, m.key, "expected true or false, found "+kindNames[v.kind], fmt.Sprintf("read as %v", b))
	}
	return false, d.mistyped(m, "true or false")
}

// oneOf reads one of a few words.
func (d *decoder) oneOf(m *member, words []string) (string, error) {
	text, err := d.text(m)
	if err == nil && !slices.Contains(words, text) {
		err = d.fail(m.value.at, m.key, "%.40q: allowed are %s", text, strings.Join(words, ", "))
	}
	return text, err
}

// fields reads an object whose keys are known and occur once.
func (d *decoder) fields(m *member, known ...string) (map[string]*member, error) {
	members, err := d.object(m)
	if err != nil {
		return nil, err
	}
	fields := map[string]*member{}
	for i := range members {
		f := &members[i]
		if !slices.Contains(known, f.key) {
			if err := d.unknown(f, "in "+quote(m.key), known); err != nil {
				return nil, err
			}
			continue
		}
		if err := d.once(fields[f.key], f); err != nil {
			return nil, err
		}
		fields[f.key] = f
	}
	return fields, nil
}

// textField reads field f of m; rt-app has a default for a missing one, which hides mistakes.
func (d *decoder) textField(m, f *member, key, missing string) (string, error) {
	if f == nil {
		return missing, d.repair(m.at, m.key, key+" is missing", fmt.Sprintf("taken as %q, as rt-app does", missing))
	}
	return d.text(f)
}

// intField reads field f of m, which is at least lo and counts as lo when it is missing.
func (d *decoder) intField(m, f *member, key string, lo int64) (int64, error) {
	if f == nil {
		return lo, d.repair(m.at, m.key, key+" is missing", fmt.Sprintf("taken as %d", lo))
	}
	return d.integer(f, lo, maxInt)
}
