package jsonwire

import (
	"reflect"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// Unmarshal decodes one JSON document into the struct v points to, after
// checking it against that struct's Shape. The error is an *Error, the first
// problem in document order; v is untouched then. Members that v does not know
// are kept if it has an embedded jsontext.Value, else dropped.
func Unmarshal(data []byte, v any, lim Limits) error {
	if problems := UnmarshalAll(data, v, CheckOptions{Limits: lim}); len(problems) > 0 {
		return problems[0]
	}
	return nil
}

// UnmarshalAll is Unmarshal that reports every problem it finds.
func UnmarshalAll(data []byte, v any, opt CheckOptions) []*Error {
	t := reflect.TypeOf(v)
	if t == nil || t.Kind() != reflect.Pointer || t.Elem().Kind() != reflect.Struct {
		panic("jsonwire: Unmarshal needs a pointer to a struct")
	}
	if problems := shapeOf(t.Elem()).Check(data, opt); problems != nil {
		return problems
	}
	if err := json.Unmarshal(data, v); err != nil {
		return []*Error{asError(err)}
	}
	return nil
}

// Marshal encodes v: no insignificant white space, map keys sorted, invalid
// UTF-8 refused, nil slices as [] and nil maps as {}.
func Marshal(v any) ([]byte, error) {
	return json.Marshal(v, json.Deterministic(true))
}

// Valid checks that data is one JSON value within the limits, of any kind.
func Valid(data []byte, lim Limits) *Error {
	if e := lim.check(data); e != nil {
		return e
	}
	c := newChecker(data, CheckOptions{Limits: lim})
	defer c.release()
	if c.peek() != 0 {
		c.take()
	}
	c.end()
	if len(c.problems) > 0 {
		return c.problems[0]
	}
	return nil
}

// String returns the text of a JSON string, and "" for any other value.
func String(raw jsontext.Value) string {
	if len(raw) < 2 || raw[0] != '"' {
		return ""
	}
	for _, b := range raw[1 : len(raw)-1] {
		if b == '\\' {
			text, err := jsontext.AppendUnquote(nil, raw)
			if err != nil {
				return ""
			}
			return string(text)
		}
	}
	return string(raw[1 : len(raw)-1])
}

// Quote returns text as a JSON string. Invalid UTF-8 becomes U+FFFD.
func Quote(text string) jsontext.Value {
	raw, err := jsontext.AppendQuote(nil, text)
	if err != nil {
		// AppendQuote reports invalid UTF-8 after writing the replacement.
		return raw
	}
	return raw
}

// Strings returns the texts of a JSON array of strings, and nil for any other
// value.
func Strings(raw jsontext.Value) []string {
	var list []string
	for _, v := range Elements(raw) {
		if v[0] != '"' {
			return nil
		}
		list = append(list, String(v))
	}
	return list
}

// Elements returns the raw values of a JSON array, and nil for any other value.
// They alias raw.
func Elements(raw jsontext.Value) []jsontext.Value {
	c := newChecker(raw, CheckOptions{})
	defer c.release()
	if c.peek() != '[' {
		return nil
	}
	c.token()
	var list []jsontext.Value
	for c.peek() != ']' && !c.dead {
		list = append(list, c.take())
	}
	if c.dead {
		return nil
	}
	return list
}

// Member is one member of a JSON object.
type Member struct {
	Name  string
	Value jsontext.Value
}

// Members returns the members of a JSON object in their order, and nil for any
// other value. The values alias raw.
func Members(raw jsontext.Value) []Member {
	c := newChecker(raw, CheckOptions{})
	defer c.release()
	if c.peek() != '{' {
		return nil
	}
	c.token()
	var list []Member
	for c.peek() == '"' {
		name := String(c.take())
		list = append(list, Member{name, c.take()})
	}
	if c.dead {
		return nil
	}
	return list
}

// EscapePointer writes a name as one step of a JSON pointer.
func EscapePointer(name string) string {
	return strings.ReplaceAll(strings.ReplaceAll(name, "~", "~0"), "/", "~1")
}
