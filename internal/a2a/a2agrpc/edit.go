package a2agrpc

import (
	"errors"
	"fmt"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/parley-mesh/parley/internal/a2a"
	"github.com/parley-mesh/parley/internal/jsonwire"
)

// editRequest is an a2a.RawEditor: it changes one member of a request's message
// and leaves every other byte, fields it does not know included.
func editRequest(m a2a.Method, raw []byte, path string, value jsontext.Value) ([]byte, error) {
	return edit(methods[m].request, raw, strings.Split(strings.TrimPrefix(path, "/"), "/"), value)
}

// errNoHolder says that the message which should hold a member is not there.
var errNoHolder = errors.New("there is no such message")

// edit gives the member at path the value, or takes it out where value is nil.
func edit(t protoreflect.MessageType, raw []byte, path []string, value jsontext.Value) ([]byte, error) {
	fd := t.Descriptor().Fields().ByJSONName(path[0])
	if fd == nil {
		return nil, fmt.Errorf("%s has no field %q", t.Descriptor().Name(), path[0])
	}
	if len(path) > 1 {
		return editInside(t, fd, raw, path[1:], value)
	}
	out, err := each(raw, fd.Number(), func([]byte) ([]byte, error) { return nil, nil })
	if err != nil || value == nil {
		return out, err
	}
	field, err := fromJSON(t, append(append(append(jsontext.Value{'{'}, jsonwire.Quote(path[0])...), ':'), append(value.Clone(), '}')...), jsonwire.Limits{})
	return append(out, field...), err
}

// editInside edits the message in a field. Where the wire has several pieces of
// it, which count as one, the member is taken out of all and set in the last.
func editInside(t protoreflect.MessageType, fd protoreflect.FieldDescriptor, raw []byte, path []string, value jsontext.Value) ([]byte, error) {
	if fd.Message() == nil || fd.IsList() || fd.IsMap() {
		return nil, fmt.Errorf("%s.%s is no message", t.Descriptor().Name(), fd.Name())
	}
	inner := typeOf(fd.Message())
	pieces := 0
	if _, err := each(raw, fd.Number(), func(piece []byte) ([]byte, error) { pieces++; return piece, nil }); err != nil {
		return nil, err
	}
	if pieces == 0 && value != nil {
		return nil, errNoHolder
	}
	return each(raw, fd.Number(), func(piece []byte) ([]byte, error) {
		pieces--
		set := value
		if pieces > 0 {
			set = nil
		}
		edited, err := edit(inner, piece, path, set)
		if edited == nil {
			edited = []byte{}
		}
		return edited, err
	})
}

// each copies a message with every occurrence of a field replaced, or left out
// where replace gives nil. An occurrence of another wire type is none.
func each(raw []byte, number protowire.Number, replace func(content []byte) ([]byte, error)) ([]byte, error) {
	out := make([]byte, 0, len(raw))
	for len(raw) > 0 {
		n, kind, size := protowire.ConsumeField(raw)
		if size < 0 {
			return nil, protowire.ParseError(size)
		}
		field := raw[:size]
		raw = raw[size:]
		if n != number {
			out = append(out, field...)
			continue
		}
		var content []byte
		if kind == protowire.BytesType {
			_, _, tag := protowire.ConsumeTag(field)
			content, _ = protowire.ConsumeBytes(field[tag:])
		}
		replaced, err := replace(content)
		if err != nil {
			return nil, err
		}
		if replaced != nil {
			out = protowire.AppendBytes(protowire.AppendTag(out, number, protowire.BytesType), replaced)
		}
	}
	return out, nil
}
