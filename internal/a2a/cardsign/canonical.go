package cardsign

import (
	"bytes"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/gowebpki/jcs"

	"github.com/parley-mesh/parley/internal/a2a"
	"github.com/parley-mesh/parley/internal/jsonwire"
)

// Form is one reading of which bytes of a card are signed.
type Form string

// The forms, in the order in which a verifier tries them: from the one that covers
// most. All are without the
// member signatures, and in the order and spelling of RFC 8785.
const (
	// Presence is section 8.4.1: required members and optional ones that were
	// written stay, whatever their value; others go where they have their default.
	// Members that the protocol does not know stay as they are.
	Presence Form = "presence"
	// Stripped is Presence without any empty string, list, object or null,
	// wherever it stands: sections 8.4.2 and 8.4.3 taken by their letter.
	Stripped Form = "stripped"
	// Model is Stripped without members that the protocol does not know: what the
	// Python SDK signs, and others who write the card anew from what they have
	// read. It says nothing about the members it leaves out.
	Model Form = "model"
	// Schemeless is Model without securitySchemes: what the JavaScript SDK signs,
	// which loses them (1.3.0). It says nothing about how to authenticate.
	Schemeless Form = "schemeless"
)

// Forms lists them all.
var Forms = []Form{Presence, Stripped, Model, Schemeless}

// limits of a card.
var limits = jsonwire.Limits{MaxBytes: a2a.MaxCardBytes, MaxDepth: 64}

// Canonical gives the bytes of a card that a signature of the form covers. raw is
// the card as received; one with the same name twice in an object, or which is no
// object, has no canonical form.
func Canonical(raw []byte, form Form) ([]byte, error) {
	if e := jsonwire.Valid(raw, limits); e != nil {
		return nil, fmt.Errorf("card: %w", e)
	}
	card := bytes.TrimSpace(raw)
	if len(card) == 0 || card[0] != '{' {
		return nil, fmt.Errorf("card: is no JSON object")
	}
	known := form == Model || form == Schemeless
	out := []string{"/signatures"}
	if known {
		card = a2a.PlainCard(card)
	}
	if form == Schemeless {
		out = append(out, "/securitySchemes")
	}
	for _, member := range out {
		var err error
		if card, err = jsonwire.Delete(card, member); err != nil {
			return nil, fmt.Errorf("card: %w", err)
		}
	}
	value := cardShape().object(card, known)
	if form != Presence {
		var ok bool
		if value, ok = strip(value); !ok {
			value = []byte("{}")
		}
	}
	canonical, err := jcs.Transform(value)
	if err != nil {
		return nil, fmt.Errorf("card: %w", err)
	}
	return canonical, nil
}

// shape is what canonicalising must know of an object's members.
type shape map[string]member

type member struct {
	keep bool  // whatever the value: required, or optional and written
	data bool  // a Struct, which is data and no fields
	of   shape // of the value, its elements, or its entries; nil where they are no objects
	dict bool  // a map
}

// cardShape is made of the types that decode cards, so that there is one word on
// what is required and what is optional.
var cardShape = sync.OnceValue(func() shape { return shapeOf(reflect.TypeFor[a2a.AgentCard]()) })

func shapeOf(t reflect.Type) shape {
	s := shape{}
	for i := range t.NumField() {
		f := t.Field(i)
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if name == "" { // the unknown members
			continue
		}
		rules := strings.Split(f.Tag.Get("wire"), ",")
		m := member{keep: slices.Contains(rules, "required")}
		of := f.Type
		switch of.Kind() {
		case reflect.Pointer: // optional in the sense of ProtoJSON, or a message
			m.keep, of = true, of.Elem()
		case reflect.Struct:
			m.keep = true
		case reflect.Map:
			m.dict, of = true, of.Elem()
		case reflect.Slice:
			if of == reflect.TypeFor[jsontext.Value]() {
				m.keep, m.data = true, true
			} else {
				of = of.Elem()
			}
		}
		if of.Kind() == reflect.Struct && !m.data {
			m.of = shapeOf(of)
		}
		if t == reflect.TypeFor[a2a.OAuthFlows]() {
			m.of = flowShape(name, m.of)
		}
		s[name] = m
	}
	return s
}

// flowShape marks what a flow requires: the flows share one type.
func flowShape(flow string, s shape) shape {
	if flow == "implicit" || flow == "password" {
		return s
	}
	for name, m := range s {
		switch name {
		case "authorizationUrl", "deviceAuthorizationUrl", "tokenUrl", "scopes":
			m.keep = true
			s[name] = m
		}
	}
	return s
}

// object drops the members that equal their default, and with knownOnly those
// that are not known.
func (s shape) object(raw jsontext.Value, knownOnly bool) jsontext.Value {
	if len(raw) == 0 || raw[0] != '{' {
		return raw
	}
	out := []byte{'{'}
	for _, one := range jsonwire.Members(raw) {
		m, known := s[one.Name]
		if knownOnly && !known {
			continue
		}
		value := one.Value
		if known {
			if isNull(value) || !m.keep && isDefault(value) {
				continue
			}
			value = m.value(value, knownOnly)
		}
		out = appendMember(out, one.Name, value)
	}
	return append(out, '}')
}

func (m member) value(raw jsontext.Value, knownOnly bool) jsontext.Value {
	switch {
	case m.data || m.of == nil:
		return raw
	case m.dict && raw[0] == '{':
		out := []byte{'{'}
		for _, entry := range jsonwire.Members(raw) {
			out = appendMember(out, entry.Name, m.of.object(entry.Value, knownOnly))
		}
		return append(out, '}')
	case raw[0] == '[':
		out := []byte{'['}
		for i, e := range jsonwire.Elements(raw) {
			if i > 0 {
				out = append(out, ',')
			}
			out = append(out, m.of.object(e, knownOnly)...)
		}
		return append(out, ']')
	}
	return m.of.object(raw, knownOnly)
}

func appendMember(out []byte, name string, value jsontext.Value) []byte {
	if len(out) > 1 {
		out = append(out, ',')
	}
	out = append(append(out, jsonwire.Quote(name)...), ':')
	return append(out, value...)
}

func isNull(raw jsontext.Value) bool { return len(raw) > 0 && raw[0] == 'n' }

// isDefault reports whether a value is what its field has without being written.
func isDefault(raw jsontext.Value) bool {
	switch raw[0] {
	case '"':
		return len(raw) == 2
	case 'f':
		return true
	case '{', '[':
		return len(bytes.TrimSpace(raw[1:len(raw)-1])) == 0
	}
	return false // no field of a card is a number
}

// strip takes out every empty string, list, object and null, and what is empty
// without them; ok is false where nothing is left of the value itself.
func strip(raw jsontext.Value) (_ jsontext.Value, ok bool) {
	switch {
	case isNull(raw), len(raw) == 2 && raw[0] == '"':
		return nil, false
	case raw[0] == '{':
		out := []byte{'{'}
		for _, m := range jsonwire.Members(raw) {
			if value, ok := strip(m.Value); ok {
				out = appendMember(out, m.Name, value)
			}
		}
		return append(out, '}'), len(out) > 1
	case raw[0] == '[':
		out := []byte{'['}
		for _, e := range jsonwire.Elements(raw) {
			value, ok := strip(e)
			if !ok {
				continue
			}
			if len(out) > 1 {
				out = append(out, ',')
			}
			out = append(out, value...)
		}
		return append(out, ']'), len(out) > 1
	}
	return raw, true
}
