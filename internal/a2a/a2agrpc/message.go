package a2agrpc

import (
	"fmt"

	"github.com/a2aproject/a2a-go/v2/a2apb/v1"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/parley-mesh/parley/internal/a2a"
	"github.com/parley-mesh/parley/internal/jsonwire"
)

// ServiceName is the protocol's service, in full.
const ServiceName = "lf.a2a.v1.A2AService"

// path is the method as gRPC names it.
func path(m a2a.Method) string { return "/" + ServiceName + "/" + string(m) }

// messages are the types of a method's request and result.
type messages struct {
	request, result protoreflect.MessageType
	tenant          protowire.Number // the field of that name in the request
}

var methods = func() map[a2a.Method]messages {
	service := a2apb.File_a2av1_proto.Services().ByName("A2AService")
	all := map[a2a.Method]messages{}
	for _, m := range a2a.Methods() {
		method := service.Methods().ByName(protoreflect.Name(m))
		all[m] = messages{
			request: typeOf(method.Input()), result: typeOf(method.Output()),
			tenant: method.Input().Fields().ByName("tenant").Number(),
		}
	}
	return all
}()

// typeOf finds the generated type of a message that the service names: its package
// is imported, so that a missing one is a mistake in this program.
func typeOf(d protoreflect.MessageDescriptor) protoreflect.MessageType {
	t, err := protoregistry.GlobalTypes.FindMessageByName(d.FullName())
	if err != nil {
		panic(fmt.Sprintf("a2agrpc: %s: %v", d.FullName(), err))
	}
	return t
}

// levels is how many messages one level of JSON nests at most: an object in a
// free-form value is a Struct of entries of a Value.
const levels = 3

// decode reads a message of a type. Depth is bounded as that of the JSON it
// becomes, and the messages inside of it are: see crowded.
func decode(t protoreflect.MessageType, raw []byte, limits jsonwire.Limits) (protoreflect.Message, error) {
	if most := mostMessages(limits); crowded(t.Descriptor(), raw, most, limits) {
		return nil, tooMany(most)
	}
	m := t.New()
	opt := proto.UnmarshalOptions{RecursionLimit: levels*limits.Depth() + levels}
	if err := opt.Unmarshal(raw, m.Interface()); err != nil {
		return nil, wrong("is no %s: it is cut short, holds text that is not UTF-8, or nests too deeply", t.Descriptor().Name())
	}
	return m, nil
}

// requestJSON reads a request's message as the request object in JSON. A page size
// of 0 counts as none: the official Go client writes it into every ListTasks.
func requestJSON(m a2a.Method, raw []byte, limits jsonwire.Limits) (jsontext.Value, error) {
	message, err := decode(methods[m].request, raw, limits)
	if err != nil {
		return nil, err
	}
	if m == a2a.ListTasks {
		if fd := message.Descriptor().Fields().ByName("page_size"); message.Get(fd).Int() == 0 {
			message.Clear(fd)
		}
	}
	return toJSON(message, len(raw), false)
}

// resultJSON reads a result's message, or that of a frame, as JSON. Members that
// the protocol requires are there, also where protobuf leaves them out.
func resultJSON(m a2a.Method, raw []byte, limits jsonwire.Limits) (jsontext.Value, error) {
	message, err := decode(methods[m].result, raw, limits)
	if err != nil {
		return nil, err
	}
	return toJSON(message, len(raw), true)
}

func requestMessage(m a2a.Method, params jsontext.Value, limits jsonwire.Limits) ([]byte, error) {
	return fromJSON(methods[m].request, params, limits)
}

func resultMessage(m a2a.Method, result jsontext.Value, limits jsonwire.Limits) ([]byte, error) {
	return fromJSON(methods[m].result, result, limits)
}

// tenantOf reads the tenant of a request without decoding it. ok is false where
// the bytes are no message.
func tenantOf(m a2a.Method, raw []byte) (tenant string, ok bool) {
	wanted := methods[m].tenant
	for len(raw) > 0 {
		number, kind, n := protowire.ConsumeTag(raw)
		if n < 0 {
			return "", false
		}
		raw = raw[n:]
		if number == wanted && kind == protowire.BytesType {
			text, n := protowire.ConsumeBytes(raw)
			if n < 0 {
				return "", false
			}
			tenant, raw = string(text), raw[n:] // the last one counts
			continue
		}
		if n = protowire.ConsumeFieldValue(number, kind, raw); n < 0 {
			return "", false
		}
		raw = raw[n:]
	}
	return tenant, true
}
