package a2agrpc

import (
	"encoding/base64"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"google.golang.org/genproto/googleapis/api/annotations"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"

	"github.com/parley-mesh/parley/internal/a2a"
	"github.com/parley-mesh/parley/internal/jsonwire"
)

// fieldError says which member a conversion failed at.
type fieldError struct {
	path    []string // innermost first
	problem string
}

// Error implements error.
func (e *fieldError) Error() string {
	if len(e.path) == 0 {
		return e.problem
	}
	return e.field() + " " + e.problem
}

// field is the place as google.rpc.BadRequest writes it.
func (e *fieldError) field() string {
	var b strings.Builder
	for _, name := range slices.Backward(e.path) {
		if b.Len() > 0 && name[0] != '[' {
			b.WriteByte('.')
		}
		b.WriteString(name)
	}
	return b.String()
}

// inside adds the member around an error's place.
func inside(name string, err error) error {
	if e, ok := errors.AsType[*fieldError](err); ok {
		e.path = append(e.path, name)
	}
	return err
}

func wrong(format string, args ...any) error {
	return &fieldError{problem: fmt.Sprintf(format, args...)}
}

// toJSON writes a message, of size bytes in protobuf, as JSON, by the rules of
// ProtoJSON. required adds the members that the protocol requires where protobuf
// leaves an empty text, list or number out.
func toJSON(m protoreflect.Message, size int, required bool) (jsontext.Value, error) {
	w := jsonWriter{out: make([]byte, 0, 2*size+64), required: required}
	if err := w.message(m); err != nil {
		return nil, err
	}
	return w.out, nil
}

type jsonWriter struct {
	out      []byte
	required bool
}

// The well-known types that have a form of their own in JSON.
const (
	typeStruct    = "google.protobuf.Struct"
	typeValue     = "google.protobuf.Value"
	typeListValue = "google.protobuf.ListValue"
	typeTimestamp = "google.protobuf.Timestamp"
)

func (w *jsonWriter) message(m protoreflect.Message) error {
	switch m.Descriptor().FullName() {
	case typeStruct:
		return w.object(m.Get(m.Descriptor().Fields().ByName("fields")).Map())
	case typeValue:
		return w.value(m)
	case typeListValue:
		return w.list(m.Descriptor().Fields().ByName("values"), m.Get(m.Descriptor().Fields().ByName("values")).List())
	case typeTimestamp:
		return w.timestamp(m)
	}
	w.out = append(w.out, '{')
	first := true
	fields := m.Descriptor().Fields()
	for i := range fields.Len() {
		fd := fields.Get(i)
		if !m.Has(fd) && !(w.required && requiredPlain(fd)) {
			continue
		}
		if !first {
			w.out = append(w.out, ',')
		}
		first = false
		w.quote(fd.JSONName())
		w.out = append(w.out, ':')
		if err := w.field(fd, m.Get(fd)); err != nil {
			return inside(fd.JSONName(), err)
		}
	}
	w.out = append(w.out, '}')
	return nil
}

// requiredPlain tells whether the protocol requires a field whose emptiness
// protobuf does not show. An empty enumeration says nothing and stays out.
func requiredPlain(fd protoreflect.FieldDescriptor) bool {
	if fd.HasPresence() || fd.Kind() == protoreflect.EnumKind && !fd.IsList() {
		return false
	}
	options, ok := fd.Options().(*descriptorpb.FieldOptions)
	if !ok {
		return false
	}
	behaviours, ok := proto.GetExtension(options, annotations.E_FieldBehavior).([]annotations.FieldBehavior)
	return ok && slices.Contains(behaviours, annotations.FieldBehavior_REQUIRED)
}

func (w *jsonWriter) field(fd protoreflect.FieldDescriptor, v protoreflect.Value) error {
	switch {
	case fd.IsMap():
		return w.entries(fd.MapValue(), v.Map())
	case fd.IsList():
		return w.list(fd, v.List())
	}
	return w.single(fd, v)
}

func (w *jsonWriter) list(fd protoreflect.FieldDescriptor, list protoreflect.List) error {
	w.out = append(w.out, '[')
	for i := range list.Len() {
		if i > 0 {
			w.out = append(w.out, ',')
		}
		if err := w.single(fd, list.Get(i)); err != nil {
			return inside("["+strconv.Itoa(i)+"]", err)
		}
	}
	w.out = append(w.out, ']')
	return nil
}

// object writes the members of a Struct.
func (w *jsonWriter) object(members protoreflect.Map) error {
	w.out = append(w.out, '{')
	err := w.each(members, func(v protoreflect.Value) error { return w.value(v.Message()) })
	w.out = append(w.out, '}')
	return err
}

// entries writes a map field. Its keys are text wherever the protocol has one.
func (w *jsonWriter) entries(fd protoreflect.FieldDescriptor, entries protoreflect.Map) error {
	w.out = append(w.out, '{')
	err := w.each(entries, func(v protoreflect.Value) error { return w.single(fd, v) })
	w.out = append(w.out, '}')
	return err
}

// each writes members in the order of their names, so that equal messages become
// equal text.
func (w *jsonWriter) each(members protoreflect.Map, write func(protoreflect.Value) error) error {
	keys := make([]string, 0, members.Len())
	members.Range(func(k protoreflect.MapKey, _ protoreflect.Value) bool {
		keys = append(keys, k.String())
		return true
	})
	slices.Sort(keys)
	for i, key := range keys {
		if i > 0 {
			w.out = append(w.out, ',')
		}
		w.quote(key)
		w.out = append(w.out, ':')
		if err := write(members.Get(protoreflect.ValueOfString(key).MapKey())); err != nil {
			return inside(key, err)
		}
	}
	return nil
}

func (w *jsonWriter) single(fd protoreflect.FieldDescriptor, v protoreflect.Value) error {
	switch fd.Kind() {
	case protoreflect.MessageKind, protoreflect.GroupKind:
		return w.message(v.Message())
	case protoreflect.StringKind:
		w.quote(v.String())
	case protoreflect.BytesKind:
		w.out = append(w.out, '"')
		w.out = base64.StdEncoding.AppendEncode(w.out, v.Bytes())
		w.out = append(w.out, '"')
	case protoreflect.BoolKind:
		w.out = strconv.AppendBool(w.out, v.Bool())
	case protoreflect.EnumKind:
		if name := fd.Enum().Values().ByNumber(v.Enum()); name != nil {
			w.quote(string(name.Name()))
		} else {
			w.out = strconv.AppendInt(w.out, int64(v.Enum()), 10)
		}
	case protoreflect.Int32Kind, protoreflect.Sint32Kind, protoreflect.Sfixed32Kind:
		w.out = strconv.AppendInt(w.out, v.Int(), 10)
	default:
		return wrong("is of a kind that A2A does not use")
	}
	return nil
}

// value writes a free-form value. One that holds nothing is null.
func (w *jsonWriter) value(m protoreflect.Message) error {
	fd := m.WhichOneof(m.Descriptor().Oneofs().ByName("kind"))
	if fd == nil {
		w.out = append(w.out, "null"...)
		return nil
	}
	v := m.Get(fd)
	switch fd.Name() {
	case "null_value":
		w.out = append(w.out, "null"...)
	case "number_value":
		return w.number(v.Float())
	case "string_value":
		w.quote(v.String())
	case "bool_value":
		w.out = strconv.AppendBool(w.out, v.Bool())
	default: // struct_value, list_value
		return w.message(v.Message())
	}
	return nil
}

// number writes a double in the shortest form that reads back as the same. Whole
// numbers stand without an exponent, as whoever wrote them would expect.
func (w *jsonWriter) number(f float64) error {
	if math.IsNaN(f) || math.IsInf(f, 0) {
		return wrong("is no number that JSON can hold")
	}
	const plainBelow = 1e21 // as ECMAScript does
	if abs := math.Abs(f); abs != 0 && (abs < 1e-6 || abs >= plainBelow) {
		w.out = strconv.AppendFloat(w.out, f, 'e', -1, 64)
	} else {
		w.out = strconv.AppendFloat(w.out, f, 'f', -1, 64)
	}
	return nil
}

func (w *jsonWriter) timestamp(m protoreflect.Message) error {
	fields := m.Descriptor().Fields()
	seconds, nanos := m.Get(fields.ByName("seconds")).Int(), m.Get(fields.ByName("nanos")).Int()
	const first, last = -62135596800, 253402300799 // the years 1 to 9999
	if seconds < first || seconds > last || nanos < 0 || nanos > 999_999_999 {
		return wrong("is no time of the years 1 to 9999")
	}
	w.quote(a2a.Timestamp{Time: time.Unix(seconds, nanos)}.String())
	return nil
}

func (w *jsonWriter) quote(text string) { w.out = append(w.out, jsonwire.Quote(text)...) }
