package v03

import (
	"errors"
	"slices"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/parley-mesh/parley/internal/jsonwire"
)

// cardFields are the members of an object of a card, in order. Their values alias
// the card and are never written to.
type cardFields []jsonwire.Member

// fieldsOf reads an object; nil for any other value.
func fieldsOf(raw jsontext.Value) cardFields {
	f := cardFields(jsonwire.Members(raw))
	if f == nil && len(raw) > 0 && raw.Kind() == '{' {
		return cardFields{}
	}
	return f
}

// get gives a member's value, nil where there is none or it is null.
func (f cardFields) get(name string) jsontext.Value {
	for _, m := range f {
		if m.Name == name && m.Value.Kind() != 'n' {
			return m.Value
		}
	}
	return nil
}

// text is the member as a string, "" where it is none.
func (f cardFields) text(name string) string { return jsonwire.String(f.get(name)) }

// set gives a member the value; a new one becomes the last.
func (f cardFields) set(name string, value jsontext.Value) cardFields {
	f = slices.Clone(f)
	for i := range f {
		if f[i].Name == name {
			f[i].Value = value
			return f
		}
	}
	return append(f, jsonwire.Member{Name: name, Value: value})
}

// fill is set for a member that is not there.
func (f cardFields) fill(name string, value jsontext.Value) cardFields {
	if value == nil || f.get(name) != nil {
		return f
	}
	return f.set(name, value)
}

// without leaves members out.
func (f cardFields) without(names ...string) cardFields {
	return slices.DeleteFunc(slices.Clone(f), func(m jsonwire.Member) bool { return slices.Contains(names, m.Name) })
}

// json writes the object.
func (f cardFields) json() jsontext.Value {
	out := jsontext.Value{'{'}
	for i, m := range f {
		if i > 0 {
			out = append(out, ',')
		}
		out = append(append(append(out, jsonwire.Quote(m.Name)...), ':'), m.Value...)
	}
	return append(out, '}')
}

// listOf writes an array.
func listOf(elements []jsontext.Value) jsontext.Value {
	out := jsontext.Value{'['}
	for i, e := range elements {
		if i > 0 {
			out = append(out, ',')
		}
		out = append(out, e...)
	}
	return append(out, ']')
}

// changed rewrites the elements of an array that change gives another value for,
// and tells whether there was one. What is no array stays as it is.
func changed(raw jsontext.Value, change func(element jsontext.Value) (jsontext.Value, bool)) (jsontext.Value, bool) {
	elements, any := jsonwire.Elements(raw), false
	for i, e := range elements {
		if v, ok := change(e); ok {
			elements[i], any = v, true
		}
	}
	if !any {
		return raw, false
	}
	return listOf(elements), true
}

var errNoCard = errors.New("v03: a card must be a JSON object")
