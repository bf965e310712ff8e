package gateway_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/a2aproject/a2a-go/v2/a2apb/v1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	grpcstatus "google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/parley-mesh/parley/internal/a2a"
	"github.com/parley-mesh/parley/internal/config"
	"github.com/parley-mesh/parley/internal/parley"
	"github.com/parley-mesh/parley/internal/parleytest"
)

// TestEveryPairOfBindings: a message, a stream and an error between each two.
func TestEveryPairOfBindings(t *testing.T) {
	m := parleytest.Start(t, parleytest.Options{})
	key := m.Key("alice", "")
	for n, agentSpeaks := range bindings {
		name := parley.AgentName(fmt.Sprintf("agent-%d", n))
		agent := m.Agent(name, agentSpeaks)
		agent.Answer(func(_ context.Context, q *a2a.Request) *a2a.Reply {
			id := q.Facts.MessageID
			done := task("t-"+id, "c-"+id, a2a.StateCompleted)
			switch q.Method {
			case a2a.SendMessage:
				return a2a.Answer(q.Method, a2a.SendMessageResponse{Task: &done})
			case a2a.SendStreamingMessage:
				frames := make(chan a2a.Frame, 2)
				frames <- taskFrame(task(done.ID, done.ContextID, a2a.StateWorking))
				frames <- status(done.ID, done.ContextID, a2a.StateCompleted)
				close(frames)
				return &a2a.Reply{Stream: a2a.NewChanStream(frames)}
			}
			return a2a.Fail(a2a.NewError(a2a.ReasonTaskNotCancelable, "it is over").With("taskId", q.Facts.TaskID))
		})
		for _, callerSpeaks := range bindings {
			t.Run(fmt.Sprintf("%s to %s", callerSpeaks, agentSpeaks), func(t *testing.T) {
				c := m.Caller(name, callerSpeaks, key)
				reply, id := c.Do(t.Context(), a2a.SendMessage, parleytest.Message(fresh("m"), "hello"))
				if reply.Err != nil || !reply.Facts.Final() {
					t.Fatalf("sent: %+v\n%s", reply, m.Log())
				}
				got := wantCall(t, m, id, "ok", "")
				if got.CallerBinding != string(callerSpeaks) || got.AgentBinding != string(agentSpeaks) || got.BytesIn == 0 || got.BytesOut == 0 {
					t.Errorf("recorded as %+v", got)
				}
				canceled, id := c.Do(t.Context(), a2a.CancelTask, a2a.CancelTaskRequest{ID: reply.Facts.TaskID})
				wantErr(t, "cancel", canceled, a2a.ReasonTaskNotCancelable)
				wantCall(t, m, id, "agent_error", "TASK_NOT_CANCELABLE")
				streamed, _ := c.Do(t.Context(), a2a.SendStreamingMessage, parleytest.Message(fresh("m"), "hello"))
				if streamed.Stream == nil {
					t.Fatalf("no stream: %+v", streamed.Err)
				}
				defer streamed.Stream.Close()
				for _, want := range []a2a.Kind{a2a.KindTask, a2a.KindStatusUpdate} {
					if frame, err := streamed.Stream.Next(t.Context()); err != nil || frame.Facts.Kind != want {
						t.Errorf("frame %+v, %v, want a %s", frame, err, want)
					}
				}
			})
		}
	}
}

// stock is a client of the mesh's gRPC listener made of the generated code.
func stock(t *testing.T, m *parleytest.Mesh) a2apb.A2AServiceClient {
	t.Helper()
	conn, err := grpc.NewClient("passthrough:///"+m.Ready.GRPC, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return a2apb.NewA2AServiceClient(conn)
}

func withKey(ctx context.Context, key string) context.Context {
	return metadata.AppendToOutgoingContext(ctx, "authorization", "Bearer "+key)
}

// TestUnknownFieldsSurvive: what this version of the protocol does not know passes
// in both directions where both sides speak gRPC, also where the mesh edits the
// message around it.
func TestUnknownFieldsSurvive(t *testing.T) {
	m, agent := start(t, nil, a2a.GRPC)
	strange := func(text string) []byte {
		return protowire.AppendString(protowire.AppendTag(nil, 1999, protowire.BytesType), text)
	}
	agent.Answer(func(_ context.Context, q *a2a.Request) *a2a.Reply {
		reply := a2a.Answer(q.Method, a2a.SendMessageResponse{Message: &a2a.Message{MessageID: "r", Role: a2a.RoleAgent, Parts: []a2a.Part{a2a.TextPart("yes")}}})
		message := append(protowire.AppendString(protowire.AppendTag(nil, 1, protowire.BytesType), "r"), strange("from the agent")...)
		message = append(message, 0x20, 2)               // role
		message = append(message, 0x2a, 3, 0x0a, 1, 'y') // parts
		reply.Raw = protowire.AppendBytes(protowire.AppendTag(nil, 2, protowire.BytesType), message)
		return reply
	})
	request := &a2apb.SendMessageRequest{Tenant: "agents.agent", Message: &a2apb.Message{
		MessageId: "m", Role: a2apb.Role_ROLE_USER, Parts: []*a2apb.Part{{Content: &a2apb.Part_Text{Text: "hello"}}}, ReferenceTaskIds: []string{"foreign"},
	}}
	request.Message.ProtoReflect().SetUnknown(strange("in the message"))
	request.Message.Parts[0].ProtoReflect().SetUnknown(strange("in a part"))
	got, err := stock(t, m).SendMessage(withKey(t.Context(), m.Key("alice", "")), request)
	if err != nil {
		t.Fatal(err)
	}
	if unknown := got.GetMessage().ProtoReflect().GetUnknown(); string(unknown) != string(strange("from the agent")) {
		t.Errorf("the answer lost a field; it has %q", unknown)
	}
	raw := string(agent.Last().Raw)
	for _, want := range []string{"in the message", "in a part"} {
		if !strings.Contains(raw, want) {
			t.Errorf("the agent did not get %q: %q", want, raw)
		}
	}
	for _, gone := range []string{"agents.agent", "foreign"} {
		if strings.Contains(raw, gone) {
			t.Errorf("the agent got %q: %q", gone, raw)
		}
	}
}

// TestTenantNamesTheAgent: in gRPC nothing else does.
func TestTenantNamesTheAgent(t *testing.T) {
	m, agent := start(t, func(c *config.Config) { c.Auth.Anonymous = []parley.AgentName{"open"} }, a2a.JSONRPC)
	m.Agent("open")
	key := m.Key("alice", "")
	for _, test := range []struct {
		tenant, key, says string
		code              codes.Code
	}{
		{"", key, "tenant: is required: it says which agent is called, as agents.NAME", codes.InvalidArgument},
		{"agent", key, "tenant: must be agents.NAME", codes.InvalidArgument},
		{"agents.", key, "tenant: must be agents.NAME", codes.InvalidArgument},
		{"agents.no-such", key, "no-such", codes.NotFound},
		{"agents.NO SUCH", key, "", codes.NotFound},
		{"agents.agent", key, "there is no such task", codes.NotFound},
		{"agents.agent", "", "no credential", codes.Unauthenticated},
		{"agents.agent", "pk_wrong", "", codes.Unauthenticated},
		{"agents.open", "", "there is no such task", codes.NotFound},
		{"", "", "tenant: is required", codes.InvalidArgument},
	} {
		ctx := t.Context()
		if test.key != "" {
			ctx = withKey(ctx, test.key)
		}
		var header metadata.MD
		_, err := stock(t, m).GetTask(ctx, &a2apb.GetTaskRequest{Tenant: test.tenant, Id: "t"}, grpc.Header(&header))
		if grpcstatus.Code(err) != test.code || !strings.Contains(grpcstatus.Convert(err).Message(), test.says) {
			t.Errorf("tenant %q with key %.5q: got %v, want %s and %q", test.tenant, test.key, err, test.code, test.says)
		}
		if len(header.Get("parley-call-id")) != 1 {
			t.Errorf("tenant %q: no call id among %v", test.tenant, header)
		}
	}
	if n := len(agent.Seen()); n != 1 { // the binding probe
		t.Errorf("the agent saw %d requests: %+v", n, agent.Seen())
	}
}
