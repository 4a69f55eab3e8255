package rtapp

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Bounds on what is read.
const (
	MaxBytes   = 4 << 20
	MaxDepth   = 16            // nesting of objects and arrays
	MaxNodes   = 4 * MaxEvents // keys and list items
	MaxText    = 1024          // bytes of a string: the name of a task stands in each of its threads
	MaxRepairs = 100           // of lenient reading
)

// quote shows a name from a file; a long one is cut.
func quote(name string) string { return fmt.Sprintf("%.80q", name) }

// kind is the type of a JSON value.
type kind uint8

const (
	kindNull kind = iota
	kindBool
	kindInt
	kindFloat
	kindString
	kindArray
	kindObject
)

var kindNames = [...]string{"null", "a truth value", "a whole number", "a number with a fraction", "a string", "a list", "an object"}

// value is a JSON value with its place in the file.
type value struct {
	kind    kind
	at      int
	num     int64 // kindInt, kindBool
	float   float64
	text    string
	items   []value
	members []member
}

// member is a key and its value, in document order; keys may repeat.
type member struct {
	key   string
	at    int
	value *value // nil: a key without value, as in "suspend",
}

// Error says what is wrong, and where.
type Error struct {
	Path      string
	Line, Col int    // from 1; columns count characters
	Key       string // the key concerned, if any
	Msg       string
}

func (e *Error) Error() string {
	where := fmt.Sprintf("%s:%d:%d: ", e.Path, e.Line, e.Col)
	if e.Key != "" {
		where += quote(e.Key) + ": "
	}
	return where + e.Msg
}

// Repair is what lenient reading changed.
type Repair struct {
	Line, Col int
	Key       string
	Done      string
}

func (r Repair) String() string {
	where := fmt.Sprintf("%d:%d: ", r.Line, r.Col)
	if r.Key != "" {
		where += quote(r.Key) + ": "
	}
	return where + r.Done
}

// reader is what parser and decoder share: the text, and the list of repairs.
type reader struct {
	path    string
	src     string
	lenient bool
	repairs []Repair
}

func (r *reader) position(at int) (line, col int) {
	before := r.src[:min(at, len(r.src))]
	line = 1 + strings.Count(before, "\n")
	return line, 1 + utf8.RuneCountInString(before[strings.LastIndexByte(before, '\n')+1:])
}

func (r *reader) fail(at int, key, format string, args ...any) error {
	line, col := r.position(at)
	return &Error{Path: r.path, Line: line, Col: col, Key: key, Msg: fmt.Sprintf(format, args...)}
}

// repair records a repair, or fails if the reader is strict or has made too many.
func (r *reader) repair(at int, key, wrong, done string) error {
	if !r.lenient {
		return r.fail(at, key, "%s", wrong)
	}
	if len(r.repairs) == MaxRepairs {
		return r.fail(at, key, "%s; at most %d such faults are repaired, and this is one more", wrong, MaxRepairs)
	}
	line, col := r.position(at)
	r.repairs = append(r.repairs, Repair{Line: line, Col: col, Key: key, Done: wrong + "; " + done})
	return nil
}

// parser reads the dialect that rt-app's users write: JSON with C and C++ comments, trailing commas, repeated keys, keys
// without value, strings in single quotes, and literals in any case.
type parser struct {
	reader
	pos   int
	depth int
	nodes int
}

func (p *parser) document() (value, error) {
	if len(p.src) > MaxBytes {
		return value{}, p.fail(MaxBytes, "", "the file is longer than %d bytes", MaxBytes)
	}
	p.src = strings.TrimPrefix(p.src, "\ufeff")
	if err := p.space(); err != nil {
		return value{}, err
	}
	if p.peek() != '{' {
		return value{}, p.fail(p.pos, "", "expected { at the beginning, found %s", p.found())
	}
	v, err := p.value()
	if err != nil {
		return value{}, err
	}
	if err := p.space(); err != nil {
		return value{}, err
	}
	if p.pos < len(p.src) {
		return v, p.repair(p.pos, "", "text after the end of the document", "ignored")
	}
	return v, nil
}

func (p *parser) peek() byte {
	if p.pos < len(p.src) {
		return p.src[p.pos]
	}
	return 0
}

// found describes what stands at the current place.
func (p *parser) found() string {
	if p.pos >= len(p.src) {
		return "the end of the file"
	}
	r, _ := utf8.DecodeRuneInString(p.src[p.pos:])
	return strconv.QuoteRune(r)
}

// space skips blanks and comments.
func (p *parser) space() error {
	for p.pos < len(p.src) {
		rest := p.src[p.pos:]
		switch {
		case strings.IndexByte(" \t\r\n", rest[0]) >= 0:
			p.pos++
		case strings.HasPrefix(rest, "//"):
			if end := strings.IndexByte(rest, '\n'); end >= 0 {
				p.pos += end
			} else {
				p.pos = len(p.src)
			}
		case strings.HasPrefix(rest, "/*"):
			end := strings.Index(rest[2:], "*/")
			if end < 0 {
				return p.fail(p.pos, "", "comment without end")
			}
			p.pos += 2 + end + 2
		default:
			return nil
		}
	}
	return nil
}

func (p *parser) value() (value, error) {
	v := value{at: p.pos}
	switch c := p.peek(); {
	case c == '{' || c == '[':
		if p.depth++; p.depth > MaxDepth {
			return v, p.fail(p.pos, "", "nested more than %d deep", MaxDepth)
		}
		p.pos++
		err := p.list(&v, c == '{')
		p.depth--
		return v, err
	case c == '"' || c == '\'':
		text, err := p.quoted()
		v.kind, v.text = kindString, text
		return v, err
	}
	return p.word()
}

// list reads members or items up to the closing bracket.
func (p *parser) list(v *value, object bool) error {
	closing := byte(']')
	v.kind = kindArray
	if object {
		closing, v.kind = '}', kindObject
	}
	comma := true // one stands before the place, or nothing does
	for {
		if err := p.space(); err != nil {
			return err
		}
		switch p.peek() {
		case closing:
			p.pos++
			return nil
		case ',':
			if comma {
				if err := p.repair(p.pos, "", "a comma after nothing", "ignored"); err != nil {
					return err
				}
			}
			p.pos++
			comma = true
			continue
		}
		if p.pos >= len(p.src) {
			return p.fail(v.at, "", "no closing %q for this bracket", closing)
		}
		if !comma {
			if err := p.repair(p.pos, "", "no comma before this", "taken as if there were one"); err != nil {
				return err
			}
		}
		comma = false
		if p.nodes++; p.nodes > MaxNodes {
			return p.fail(p.pos, "", "more than %d keys and list items", MaxNodes)
		}
		if !object {
			item, err := p.value()
			if err != nil {
				return err
			}
			v.items = append(v.items, item)
			continue
		}
		m, err := p.member()
		if err != nil {
			return err
		}
		v.members = append(v.members, m)
	}
}

func (p *parser) member() (member, error) {
	m := member{at: p.pos}
	if c := p.peek(); c != '"' && c != '\'' {
		return m, p.fail(p.pos, "", "expected a key in quotes, found %s", p.found())
	}
	var err error
	if m.key, err = p.quoted(); err != nil {
		return m, err
	}
	if err := p.space(); err != nil {
		return m, err
	}
	switch p.peek() {
	case ':':
	case ',', '}':
		return m, nil
	default:
		return m, p.fail(p.pos, m.key, "expected : after the key, found %s", p.found())
	}
	p.pos++
	if err := p.space(); err != nil {
		return m, err
	}
	v, err := p.value()
	m.value = &v
	return m, err
}

func (p *parser) quoted() (string, error) {
	start, closing := p.pos, p.src[p.pos]
	p.pos++
	var b strings.Builder
	for p.pos < len(p.src) {
		c := p.src[p.pos]
		p.pos++
		switch {
		case b.Len() > MaxText:
			return "", p.fail(start, "", "string of more than %d bytes", MaxText)
		case c == closing:
			return b.String(), nil
		case c == '\n':
			return "", p.fail(start, "", "string without end on its line")
		case c != '\\':
			b.WriteByte(c)
		default:
			if err := p.escape(&b); err != nil {
				return "", err
			}
		}
	}
	return "", p.fail(start, "", "string without end")
}

func (p *parser) escape(b *strings.Builder) error {
	at := p.pos - 1
	c := p.peek()
	p.pos++
	if plain := strings.IndexByte(`"'\/bfnrt`, c); c != 0 && plain >= 0 {
		b.WriteByte("\"'\\/\b\f\n\r\t"[plain])
		return nil
	}
	if c == 'u' && p.pos+4 <= len(p.src) {
		if n, err := strconv.ParseUint(p.src[p.pos:p.pos+4], 16, 16); err == nil {
			p.pos += 4
			b.WriteRune(rune(n))
			return nil
		}
	}
	return p.fail(at, "", "unknown escape in a string")
}

// word reads a number or a literal.
func (p *parser) word() (value, error) {
	v := value{at: p.pos}
	end := p.pos
	for end < len(p.src) && strings.IndexByte(" \t\r\n,:{}[]\"'/", p.src[end]) < 0 {
		end++
	}
	word := p.src[p.pos:end]
	if word == "" {
		return v, p.fail(p.pos, "", "expected a value, found %s", p.found())
	}
	p.pos = end
	switch strings.ToLower(word) {
	case "true":
		v.kind, v.num = kindBool, 1
		return v, nil
	case "false":
		v.kind = kindBool
		return v, nil
	case "null":
		return v, nil
	}
	if strings.IndexByte("-0123456789", word[0]) >= 0 {
		n, err := strconv.ParseInt(word, 10, 64)
		if err == nil {
			v.kind, v.num = kindInt, n
			return v, nil
		}
		f, err := strconv.ParseFloat(word, 64)
		if err == nil && !math.IsInf(f, 0) && !strings.ContainsAny(word, "xX_pPnN") {
			v.kind, v.float = kindFloat, f
			return v, nil
		}
	}
	return v, p.fail(v.at, "", "%.40q is no value: expected a number, a string in quotes, true, false, null, { or [", word)
}
