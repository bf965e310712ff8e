package conformance

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"

	_ "github.com/a2aproject/a2a-go/v2/a2apb/v1" // the protocol's own messages
	_ "google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	reflectionpb "google.golang.org/grpc/reflection/grpc_reflection_v1"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	"github.com/parley-mesh/parley/internal/a2a"
)

// In gRPC the harness speaks through the generated messages of the official SDK
// and their own JSON form, and so through no code of ours.

const service = "lf.a2a.v1.A2AService"

// types finds the messages of a method in the registered description of the
// protocol.
func types(t *testing.T, method string) (in, out protoreflect.MessageType) {
	t.Helper()
	d, err := protoregistry.GlobalFiles.FindDescriptorByName(service)
	if err != nil {
		t.Fatal(err)
	}
	m := d.(protoreflect.ServiceDescriptor).Methods().ByName(protoreflect.Name(method))
	find := func(d protoreflect.MessageDescriptor) protoreflect.MessageType {
		found, err := protoregistry.GlobalTypes.FindMessageByName(d.FullName())
		if err != nil {
			t.Fatal(err)
		}
		return found
	}
	return find(m.Input()), find(m.Output())
}

// dial connects to the target.
func (c *caller) dial() *grpc.ClientConn {
	c.t.Helper()
	conn, err := grpc.NewClient("passthrough:///"+c.grpc, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(func() { conn.Close() })
	return conn
}

// outgoing gives the caller's headers as metadata.
func (c *caller) outgoing(ctx context.Context) context.Context {
	md := metadata.MD{}
	for name, values := range c.header {
		md[strings.ToLower(name)] = values
	}
	return metadata.NewOutgoingContext(ctx, md)
}

// can tells whether a request can be said in the caller's binding: protobuf has no
// way to break a member's type.
func (c *caller) can(method string, params obj) bool {
	c.t.Helper()
	if c.binding != a2a.GRPC {
		return true
	}
	in, _ := types(c.t, method)
	return protojson.Unmarshal([]byte(encode(params)), in.New().Interface()) == nil
}

// request makes the message of a request.
func (c *caller) request(in protoreflect.MessageType, params obj) proto.Message {
	c.t.Helper()
	all := obj{}
	for name, value := range params {
		all[name] = value
	}
	if c.tenant != "" {
		all["tenant"] = c.tenant
	}
	m := in.New().Interface()
	if err := (protojson.UnmarshalOptions{DiscardUnknown: true}).Unmarshal([]byte(encode(all)), m); err != nil {
		c.t.Fatalf("cannot be said in gRPC: %s: %v", encode(all), err)
	}
	return m
}

// invoke makes a unary call.
func (c *caller) invoke(ctx context.Context, method string, params obj) answer {
	c.t.Helper()
	in, out := types(c.t, method)
	reply := out.New().Interface()
	var header, trailer metadata.MD
	err := c.dial().Invoke(c.outgoing(ctx), "/"+service+"/"+method, c.request(in, params), reply, grpc.Header(&header), grpc.Trailer(&trailer))
	if err != nil {
		return failed(c.t, err, header, trailer)
	}
	result := asJSON(c.t, reply)
	if method == "ListTasks" { // protobuf does not tell an empty member from none
		for name, empty := range map[string]any{"tasks": []any{}, "nextPageToken": "", "pageSize": 0.0, "totalSize": 0.0} {
			if _, ok := result[name]; !ok {
				result[name] = empty
			}
		}
	}
	return answer{status: http.StatusOK, header: headers(header, trailer), body: []byte(encode(result)), result: result}
}

func asJSON(t *testing.T, m proto.Message) obj {
	t.Helper()
	raw, err := protojson.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	var o obj
	if err := json.Unmarshal(raw, &o); err != nil {
		t.Fatal(err)
	}
	return o
}

func headers(all ...metadata.MD) http.Header {
	h := http.Header{}
	for _, md := range all {
		for name, values := range md {
			h[http.CanonicalHeaderKey(name)] = values
		}
	}
	return h
}

// statusNames are the codes by name, with the HTTP status that says the same.
var statusNames = map[codes.Code]struct {
	name string
	http int
}{
	codes.InvalidArgument: {"INVALID_ARGUMENT", 400}, codes.NotFound: {"NOT_FOUND", 404}, codes.FailedPrecondition: {"FAILED_PRECONDITION", 400},
	codes.PermissionDenied: {"PERMISSION_DENIED", 403}, codes.Unauthenticated: {"UNAUTHENTICATED", 401}, codes.Unimplemented: {"UNIMPLEMENTED", 501},
	codes.Unavailable: {"UNAVAILABLE", 503}, codes.Internal: {"INTERNAL", 500}, codes.ResourceExhausted: {"RESOURCE_EXHAUSTED", 429},
}

// failed reads the status of a call.
func failed(t *testing.T, err error, md ...metadata.MD) answer {
	t.Helper()
	st := status.Convert(err)
	known, ok := statusNames[st.Code()]
	if !ok {
		t.Fatalf("the call ended with %v", err)
	}
	body := asJSON(t, st.Proto())
	return answer{status: known.http, header: headers(md...), body: []byte(encode(body)),
		fault: &fault{code: known.http, status: known.name, message: st.Message(), details: list(body, "details")}}
}

// grpcStream is an open stream in gRPC.
type grpcStream struct {
	stream grpc.ClientStream
	out    protoreflect.MessageType
}

// tryGRPC is try in gRPC.
func (c *caller) tryGRPC(ctx context.Context, cancel context.CancelFunc, method string, params obj) (*stream, answer) {
	c.t.Helper()
	in, out := types(c.t, method)
	s, err := c.dial().NewStream(c.outgoing(ctx), &grpc.StreamDesc{ServerStreams: true}, "/"+service+"/"+method)
	if err != nil {
		c.t.Fatal(err)
	}
	if err := s.SendMsg(c.request(in, params)); err != nil && err != io.EOF {
		c.t.Fatal(err)
	}
	if err := s.CloseSend(); err != nil {
		c.t.Fatal(err)
	}
	first := out.New().Interface()
	switch err := s.RecvMsg(first); {
	case err == nil:
	case errors.Is(err, io.EOF):
		c.t.Fatalf("%s: the stream ended before anything came", method)
	default:
		header, _ := s.Header()
		return nil, failed(c.t, err, header, s.Trailer())
	}
	header, err := s.Header()
	if err != nil {
		c.t.Fatal(err)
	}
	open := &stream{c: c, cancel: cancel, Header: headers(header), grpc: &grpcStream{&begun{s, first}, out}}
	c.t.Cleanup(open.close)
	return open, answer{}
}

// begun is a stream whose first message was read.
type begun struct {
	grpc.ClientStream
	first proto.Message
}

// RecvMsg implements grpc.ClientStream.
func (b *begun) RecvMsg(m any) error {
	if b.first == nil {
		return b.ClientStream.RecvMsg(m)
	}
	proto.Merge(m.(proto.Message), b.first)
	b.first = nil
	return nil
}

// next is that of a stream in gRPC.
func (s *grpcStream) next(t *testing.T) (event obj, f *fault, ok bool) {
	t.Helper()
	m := s.out.New().Interface()
	switch err := s.stream.RecvMsg(m); {
	case err == nil:
		return asJSON(t, m), nil, true
	case errors.Is(err, io.EOF):
		return nil, nil, false
	default:
		return nil, failed(t, err).fault, true
	}
}

// wantServices asks the server's reflection for the service and its health.
func (w *world) wantServices(t *testing.T) {
	t.Helper()
	conn := w.as(t, "").dial()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	stream, err := reflectionpb.NewServerReflectionClient(conn).ServerReflectionInfo(ctx)
	if err != nil {
		t.Fatal(err)
	}
	for _, ask := range []*reflectionpb.ServerReflectionRequest{
		{MessageRequest: &reflectionpb.ServerReflectionRequest_ListServices{}},
		{MessageRequest: &reflectionpb.ServerReflectionRequest_FileContainingSymbol{FileContainingSymbol: service + ".SendMessage"}},
	} {
		if err := stream.Send(ask); err != nil {
			t.Fatal(err)
		}
		said, err := stream.Recv()
		if err != nil {
			t.Fatal(err)
		}
		if text := said.String(); !strings.Contains(text, service) && said.GetFileDescriptorResponse() == nil {
			t.Errorf("reflection says %.200s", text)
		}
	}
	for _, name := range []string{"", service} {
		said, err := healthpb.NewHealthClient(conn).Check(ctx, &healthpb.HealthCheckRequest{Service: name})
		if err != nil || said.GetStatus() != healthpb.HealthCheckResponse_SERVING {
			t.Errorf("health of %q: %v, %v", name, said, err)
		}
	}
}
