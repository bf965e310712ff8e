package bench

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2apb/v1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
)

// serveRole starts a serving role until the test ends and returns its
// addresses.
func serveRole(t *testing.T, serve func(context.Context, io.Writer) error) []string {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	reader, writer := io.Pipe()
	ended := make(chan error, 1)
	go func() {
		err := serve(ctx, writer)
		writer.CloseWithError(fmt.Errorf("ended: %w", err))
		ended <- err
	}()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	var ready started
	if err := json.NewDecoder(reader).Decode(&ready); err != nil {
		t.Fatal(err)
	}
	return ready.Bases
}

func serveGRPCPaths(t *testing.T) (card, agent, proxy string) {
	t.Helper()
	bases := serveRole(t, ServeGRPCAgent)
	through := serveRole(t, func(ctx context.Context, out io.Writer) error { return ServeGRPCProxy(ctx, out, bases[1]) })
	return bases[0], bases[1], through[0]
}

// What the benchmark writes by hand must be what others read.
func TestGRPCMessages(t *testing.T) {
	for _, tenant := range []string{"", "agents.one"} {
		wire, counter := newGRPCRequest(tenant)
		var before, after a2apb.SendMessageRequest
		if err := proto.Unmarshal(wire, &before); err != nil {
			t.Fatal(err)
		}
		putHex(counter, 0xabc)
		if err := proto.Unmarshal(wire, &after); err != nil {
			t.Fatal(err)
		}
		if after.GetTenant() != tenant || after.GetMessage().GetRole() != a2apb.Role_ROLE_USER || len(after.GetMessage().GetParts()) != 1 ||
			len(after.GetConfiguration().GetAcceptedOutputModes()) != 1 {
			t.Errorf("request for tenant %q: %v", tenant, &after)
		}
		if id := after.GetMessage().GetMessageId(); id == before.GetMessage().GetMessageId() || !strings.HasSuffix(id, "0000000000000abc") {
			t.Errorf("message id %q does not end with its number", id)
		}
		if tenant == "" && len(wire) != payloadBytes {
			t.Errorf("request of %d bytes, want %d", len(wire), payloadBytes)
		}
	}
	var reply a2apb.SendMessageResponse
	if err := proto.Unmarshal(grpcMessage("1"), &reply); err != nil || reply.GetMessage().GetRole() != a2apb.Role_ROLE_AGENT ||
		len(reply.GetMessage().GetParts()[0].GetText()) != replyTextBytes {
		t.Errorf("reply %v, %v", &reply, err)
	}
	for i := range StreamEvents {
		var event a2apb.StreamResponse
		if err := proto.Unmarshal(grpcEvent("1", i), &event); err != nil {
			t.Fatal(err)
		}
		task, update, piece := event.GetTask(), event.GetStatusUpdate(), event.GetArtifactUpdate()
		switch {
		case i == 0 && task.GetStatus().GetState() == a2apb.TaskState_TASK_STATE_WORKING && task.GetId() == "t-1":
		case i == StreamEvents-1 && update.GetStatus().GetState() == a2apb.TaskState_TASK_STATE_COMPLETED && update.GetTaskId() == "t-1":
		case i > 0 && i < StreamEvents-1 && piece.GetAppend() == (i > 1) && len(piece.GetArtifact().GetParts()) == 1:
		default:
			t.Errorf("event %d: %v", i, &event)
		}
	}
}

func TestLoadOnGRPCAgent(t *testing.T) {
	card, agent, proxy := serveGRPCPaths(t)
	response, err := http.Get(card + ".well-known/agent-card.json")
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	if text, err := io.ReadAll(response.Body); err != nil || !bytes.Contains(text, []byte(agent)) {
		t.Errorf("card does not name %s: %s, %v", agent, text, err)
	}
	tests := []struct {
		name string
		spec Spec
	}{
		{"unary", Spec{URLs: []string{agent}, Conns: 2}},
		{"for a tenant", Spec{URLs: []string{agent}, Conns: 1, Tenant: "agents.one", Header: []string{"Authorization: Bearer k"}}},
		{"stream", Spec{URLs: []string{agent}, Conns: 2, Stream: true}},
		{"through the proxy", Spec{URLs: []string{proxy}, Conns: 2}},
		{"stream through the proxy, paced", Spec{URLs: []string{proxy}, Conns: 2, Stream: true, Rate: 200}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			tt.spec.GRPC, tt.spec.Duration = true, 50*ms
			got, err := Load(t.Context(), tt.spec)
			if err != nil {
				t.Fatal(err)
			}
			if got.Requests == 0 || got.P50 <= 0 || got.P99 < got.P50 {
				t.Errorf("got %+v", got)
			}
		})
	}
}

// The proxy passes on metadata, trailers and the status as they are.
func TestGRPCProxyIsTransparent(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	peer := grpc.NewServer(grpc.ForceServerCodecV2(rawCodec{}), grpc.UnknownServiceHandler(func(_ any, stream grpc.ServerStream) error {
		md, _ := metadata.FromIncomingContext(stream.Context())
		stream.SetTrailer(metadata.Pairs("heard", strings.Join(md.Get("said"), ",")))
		return status.Error(codes.ResourceExhausted, "no room")
	}))
	go peer.Serve(listener) // ends with Stop
	t.Cleanup(peer.Stop)
	proxy := serveRole(t, func(ctx context.Context, out io.Writer) error {
		return ServeGRPCProxy(ctx, out, listener.Addr().String())
	})

	conn, err := dialGRPC(proxy[0])
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	ctx, cancel := context.WithTimeout(metadata.AppendToOutgoingContext(t.Context(), "said", "hello"), 10*time.Second)
	defer cancel()
	var trailer metadata.MD
	var reply rawFrame
	err = conn.Invoke(ctx, "/any.Service/Method", frameOf([]byte("x")), &reply, grpc.Trailer(&trailer))
	if got := status.Convert(err); got.Code() != codes.ResourceExhausted || got.Message() != "no room" {
		t.Errorf("status %v, want that of the peer", err)
	}
	if got := trailer.Get("heard"); len(got) != 1 || got[0] != "hello" {
		t.Errorf("trailer %q, want what the peer heard", trailer)
	}
}

// Anything but the reply that was asked for makes the measurement void.
func TestGRPCLoadRefusesOtherAnswers(t *testing.T) {
	tests := []struct {
		name   string
		stream bool
		answer func(grpc.ServerStream) error
		wrong  string
	}{
		{"denied", false, func(grpc.ServerStream) error { return status.Error(codes.Unauthenticated, "no key") }, "no key"},
		{"a task", false, func(s grpc.ServerStream) error { return s.SendMsg(frameOf(grpcEvent("1", 0))) }, "field 1"},
		{"nothing in it", false, func(s grpc.ServerStream) error { return s.SendMsg(frameOf([]byte{replyMessage<<3 | 2, 0})) }, "not the reply"},
		{"no protobuf", false, func(s grpc.ServerStream) error { return s.SendMsg(frameOf([]byte("<html>"))) }, "not the reply"},
		{"an empty stream", true, func(grpc.ServerStream) error { return nil }, "after 0 events"},
		{"a message among events", true, func(s grpc.ServerStream) error { return s.SendMsg(frameOf(grpcMessage("1"))) }, "field 2"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			listener, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			peer := grpc.NewServer(grpc.ForceServerCodecV2(rawCodec{}), grpc.UnknownServiceHandler(func(_ any, stream grpc.ServerStream) error {
				var request rawFrame
				if err := stream.RecvMsg(&request); err != nil {
					return err
				}
				request.data.Free()
				return tt.answer(stream)
			}))
			go peer.Serve(listener) // ends with Stop
			defer peer.Stop()
			_, err = Load(t.Context(), Spec{URLs: []string{listener.Addr().String()}, GRPC: true, Stream: tt.stream, Conns: 1, Duration: time.Second})
			if err == nil || !strings.Contains(err.Error(), tt.wrong) {
				t.Errorf("err = %v, want one with %q", err, tt.wrong)
			}
		})
	}
}
