package a2agrpc

import (
	"bytes"
	"math"
	"strconv"

	"github.com/go-json-experiment/json/jsontext"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/parley-mesh/parley/internal/a2a"
	"github.com/parley-mesh/parley/internal/jsonwire"
)

// fromJSON writes the message of a type that a JSON object stands for, by the
// rules of ProtoJSON. Members that are no fields are left out. The object is one
// that was checked: what it finds wrong is only what the check cannot see. The
// messages that it may become are bounded; an object larger than limits, as an
// answer may be where limits are those of requests, may become as many more.
func fromJSON(t protoreflect.MessageType, object jsontext.Value, limits jsonwire.Limits) ([]byte, error) {
	m := t.New()
	limits.MaxBytes = max(limits.Bytes(), int64(len(object)))
	r := &jsonReader{Decoder: jsontext.NewDecoder(bytes.NewReader(object), jsontext.AllowDuplicateNames(true)), most: mostMessages(limits)}
	if err := r.message(m); err != nil {
		return nil, err
	}
	return proto.Marshal(m.Interface())
}

type jsonReader struct {
	*jsontext.Decoder
	most, made int // messages
}

// makes counts one message more.
func (r *jsonReader) makes() error {
	if r.made++; r.made > r.most {
		return tooMany(r.most)
	}
	return nil
}

func (r *jsonReader) message(m protoreflect.Message) error {
	if err := r.makes(); err != nil {
		return err
	}
	switch m.Descriptor().FullName() {
	case typeStruct:
		return r.object(m)
	case typeValue:
		return r.value(m)
	case typeListValue:
		fd := m.Descriptor().Fields().ByName("values")
		return r.list(fd, m.Mutable(fd).List())
	case typeTimestamp:
		return r.timestamp(m)
	}
	return r.members(func(name string) error {
		fd := m.Descriptor().Fields().ByJSONName(name)
		if fd == nil {
			fd = m.Descriptor().Fields().ByJSONName(oldFields[m.Descriptor().FullName()][name])
		}
		switch {
		case fd == nil, r.PeekKind() == 'n' && !takesNull(fd):
			return r.SkipValue()
		case fd.IsMap():
			return r.entries(fd.MapValue(), m.Mutable(fd).Map())
		case fd.IsList():
			return r.list(fd, m.Mutable(fd).List())
		case fd.Message() != nil:
			return r.message(m.Mutable(fd).Message())
		}
		v, err := r.scalar(fd)
		if err == nil {
			m.Set(fd, v)
		}
		return err
	})
}

// takesNull tells whether null is a value of the field rather than its absence.
func takesNull(fd protoreflect.FieldDescriptor) bool {
	return fd.Message() != nil && fd.Message().FullName() == typeValue
}

// members reads an object and gives each member's name; read takes its value.
func (r *jsonReader) members(read func(name string) error) error {
	if token, err := r.ReadToken(); err != nil || token.Kind() != '{' {
		return wrong("must be an object")
	}
	for r.PeekKind() == '"' {
		token, err := r.ReadToken()
		if err != nil {
			return syntax(err)
		}
		name := token.String()
		if err := read(name); err != nil {
			return inside(name, err)
		}
	}
	_, err := r.ReadToken()
	return syntax(err)
}

func syntax(err error) error {
	if err == nil {
		return nil
	}
	return &fieldError{problem: "is no JSON"}
}

func (r *jsonReader) list(fd protoreflect.FieldDescriptor, list protoreflect.List) error {
	if token, err := r.ReadToken(); err != nil || token.Kind() != '[' {
		return wrong("must be a list")
	}
	for i := 0; r.PeekKind() != ']'; i++ {
		v, err := r.element(fd, list.NewElement)
		if err != nil {
			return inside("["+strconv.Itoa(i)+"]", err)
		}
		list.Append(v)
	}
	_, err := r.ReadToken()
	return syntax(err)
}

func (r *jsonReader) entries(fd protoreflect.FieldDescriptor, entries protoreflect.Map) error {
	return r.members(func(name string) error {
		v, err := r.element(fd, entries.NewValue)
		if err == nil {
			entries.Set(protoreflect.ValueOfString(name).MapKey(), v)
		}
		return err
	})
}

// element reads one value of a list or map.
func (r *jsonReader) element(fd protoreflect.FieldDescriptor, fresh func() protoreflect.Value) (protoreflect.Value, error) {
	if fd.Message() == nil {
		return r.scalar(fd)
	}
	v := fresh()
	return v, r.message(v.Message())
}

func (r *jsonReader) scalar(fd protoreflect.FieldDescriptor) (protoreflect.Value, error) {
	none := protoreflect.Value{}
	raw, err := r.ReadValue()
	if err != nil {
		return none, syntax(err)
	}
	text := ""
	if raw.Kind() == '"' {
		unquoted, err := jsontext.AppendUnquote(nil, raw)
		if err != nil {
			return none, syntax(err)
		}
		text = string(unquoted)
	}
	switch kind := fd.Kind(); {
	case kind == protoreflect.StringKind && raw.Kind() == '"':
		return protoreflect.ValueOfString(text), nil
	case kind == protoreflect.BytesKind && raw.Kind() == '"':
		var b a2a.Bytes
		if err := b.UnmarshalJSON(raw); err != nil {
			return none, wrong("is not base64")
		}
		return protoreflect.ValueOfBytes(b), nil
	case kind == protoreflect.BoolKind && (raw.Kind() == 't' || raw.Kind() == 'f'):
		return protoreflect.ValueOfBool(raw.Kind() == 't'), nil
	case kind == protoreflect.EnumKind && raw.Kind() == '"':
		if v := fd.Enum().Values().ByName(protoreflect.Name(text)); v != nil {
			return protoreflect.ValueOfEnum(v.Number()), nil
		}
		return none, wrong("is not one of the defined values")
	}
	if raw.Kind() == '0' {
		text = string(raw)
	}
	n, err := whole(text)
	if err != nil {
		return none, err
	}
	if fd.Kind() == protoreflect.EnumKind {
		return protoreflect.ValueOfEnum(protoreflect.EnumNumber(n)), nil
	}
	if fd.Kind() == protoreflect.Int32Kind {
		return protoreflect.ValueOfInt32(n), nil
	}
	return none, wrong("is of the wrong type")
}

// whole reads a whole number of 32 bits, in any of JSON's ways to write it.
func whole(text string) (int32, error) {
	f, err := strconv.ParseFloat(text, 64)
	if err != nil || f != math.Trunc(f) || f < math.MinInt32 || f > math.MaxInt32 {
		return 0, wrong("is not a whole number of 32 bits")
	}
	return int32(f), nil
}

func (r *jsonReader) object(m protoreflect.Message) error {
	fields := m.Mutable(m.Descriptor().Fields().ByName("fields")).Map()
	return r.members(func(name string) error {
		v := fields.NewValue()
		if err := r.message(v.Message()); err != nil {
			return err
		}
		fields.Set(protoreflect.ValueOfString(name).MapKey(), v)
		return nil
	})
}

// value reads a free-form value.
func (r *jsonReader) value(m protoreflect.Message) error {
	fields := m.Descriptor().Fields()
	switch r.PeekKind() {
	case '{':
		return r.message(m.Mutable(fields.ByName("struct_value")).Message())
	case '[':
		return r.message(m.Mutable(fields.ByName("list_value")).Message())
	}
	token, err := r.ReadToken()
	if err != nil {
		return syntax(err)
	}
	switch token.Kind() {
	case 'n':
		m.Set(fields.ByName("null_value"), protoreflect.ValueOfEnum(0))
	case 't', 'f':
		m.Set(fields.ByName("bool_value"), protoreflect.ValueOfBool(token.Bool()))
	case '"':
		m.Set(fields.ByName("string_value"), protoreflect.ValueOfString(token.String()))
	default:
		f, err := strconv.ParseFloat(token.String(), 64)
		if err != nil {
			return wrong("is a number that gRPC cannot hold")
		}
		m.Set(fields.ByName("number_value"), protoreflect.ValueOfFloat64(f))
	}
	return nil
}

func (r *jsonReader) timestamp(m protoreflect.Message) error {
	raw, err := r.ReadValue()
	if err != nil {
		return syntax(err)
	}
	var t a2a.Timestamp
	if err := t.UnmarshalJSON(raw); err != nil {
		return wrong("is not a timestamp")
	}
	fields := m.Descriptor().Fields()
	m.Set(fields.ByName("seconds"), protoreflect.ValueOfInt64(t.Unix()))
	m.Set(fields.ByName("nanos"), protoreflect.ValueOfInt32(int32(t.Nanosecond())))
	return nil
}
