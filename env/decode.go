package env

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/vmihailenco/msgpack/v5"

	"github.com/ghostgym/ghostgym/agent/spell"
)

// Decode reads a request strictly: an unknown key is an error, since a misspelt option would silently do nothing. The
// error says which value is wrong.
func Decode(req []byte, dst any) error {
	if err := wellFormed(req); err != nil {
		return badConfig("request of %d bytes: %w", len(req), err)
	}
	err := strict(req, dst)
	if err == nil {
		return nil
	}
	if why := culprit(req, reflect.TypeOf(dst).Elem(), ""); why != "" {
		return badConfig("%s", why)
	}
	return badConfig("request: %s", strings.TrimPrefix(err.Error(), "msgpack: "))
}

func strict(req []byte, dst any) error {
	d := msgpack.NewDecoder(bytes.NewReader(req))
	d.DisallowUnknownFields(true)
	return d.Decode(dst)
}

var decoder = reflect.TypeFor[msgpack.CustomDecoder]() // of types that say themselves what they want

// culprit words what in a request cannot be read as a t; "" if it finds nothing. The decoder itself tells neither where it was nor
// what it met, so this looks again, part by part.
func culprit(req []byte, t reflect.Type, path string) string {
	err := strict(req, reflect.New(t).Interface())
	if err == nil {
		return ""
	}
	if reflect.PointerTo(t).Implements(decoder) {
		return path + ": " + err.Error()
	}
	switch t.Kind() {
	case reflect.Pointer:
		return culprit(req, t.Elem(), path)
	case reflect.Struct, reflect.Map:
		var parts map[string]msgpack.RawMessage
		if msgpack.Unmarshal(req, &parts) != nil {
			break
		}
		names := make([]string, 0, len(parts))
		for name := range parts {
			names = append(names, name)
		}
		slices.Sort(names)
		for _, name := range names {
			part, known := partOf(t, name)
			if !known {
				return fmt.Sprintf("%s: unknown; there are %s%s", within(path, name), strings.Join(keys(t), ", "), spell.Hint(name, keys(t)))
			}
			if why := culprit(parts[name], part, within(path, name)); why != "" {
				return why
			}
		}
		return ""
	case reflect.Slice:
		var parts []msgpack.RawMessage
		if t.Elem().Kind() == reflect.Uint8 || msgpack.Unmarshal(req, &parts) != nil {
			break
		}
		for i, part := range parts {
			if why := culprit(part, t.Elem(), fmt.Sprintf("%s[%d]", path, i)); why != "" {
				return why
			}
		}
		return ""
	}
	got, err := msgpack.NewDecoder(bytes.NewReader(req)).DecodeInterface()
	if path == "" || err != nil {
		return ""
	}
	text := fmt.Sprint(got)
	if b, isBytes := got.([]byte); isBytes {
		text = fmt.Sprintf("%d bytes", len(b))
	} else if b, err := json.Marshal(got); err == nil {
		text = string(b)
	}
	if len(text) > 80 {
		text = text[:80] + "…"
	}
	return fmt.Sprintf("%s: want %s, got %s", path, wanted(t), text)
}

func within(path, name string) string { return strings.TrimPrefix(path+"."+name, ".") }

// fields calls f with the key and the type of each field of a struct, inlined ones included.
func fields(t reflect.Type, f func(key string, t reflect.Type)) {
	for i := range t.NumField() {
		field := t.Field(i)
		tag := field.Tag.Get("msgpack")
		switch {
		case strings.HasSuffix(tag, ",inline"):
			fields(field.Type, f)
		case tag != "":
			f(tag, field.Type)
		}
	}
}

func partOf(t reflect.Type, name string) (part reflect.Type, known bool) {
	if t.Kind() == reflect.Map {
		return t.Elem(), true
	}
	fields(t, func(key string, of reflect.Type) {
		if key == name {
			part, known = of, true
		}
	})
	return part, known
}

func keys(t reflect.Type) (names []string) {
	fields(t, func(key string, _ reflect.Type) { names = append(names, key) })
	return names
}

// wanted words a type.
func wanted(t reflect.Type) string {
	switch t.Kind() {
	case reflect.Bool:
		return "true or false"
	case reflect.String:
		return "text"
	case reflect.Float64:
		return "a number"
	case reflect.Int, reflect.Int64, reflect.Uint64:
		return "a whole number"
	case reflect.Struct, reflect.Map:
		return "a map"
	case reflect.Slice:
		if t.Elem().Kind() == reflect.Uint8 {
			return "bytes"
		}
		return "a list"
	}
	return "a " + t.String()
}
