package gateway_test

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"

	old "github.com/a2aproject/a2a-go/a2a"
	oldclient "github.com/a2aproject/a2a-go/a2aclient"
	oldpb "github.com/a2aproject/a2a-go/a2apb"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	grpcstatus "google.golang.org/grpc/status"

	"github.com/parley-mesh/parley/internal/a2a"
	"github.com/parley-mesh/parley/internal/a2a/a2atest"
	"github.com/parley-mesh/parley/internal/config"
	"github.com/parley-mesh/parley/internal/control"
	"github.com/parley-mesh/parley/internal/parley"
	"github.com/parley-mesh/parley/internal/parleytest"
)

// wildcard lets each agent have an address of its own below mesh.test.
func wildcard(c *config.Config) { c.GRPCPublicURL = "*.mesh.test:443" }

// oldGRPCCaller is the official Go client of version 0.3 over gRPC, which believes to
// be at an address of the card, and sends metadata of its own.
func oldGRPCCaller(t *testing.T, m *parleytest.Mesh, address, key string, pairs ...string) *oldclient.Client {
	t.Helper()
	with := func(ctx context.Context) context.Context {
		return metadata.AppendToOutgoingContext(ctx, append([]string{"authorization", "Bearer " + key}, pairs...)...)
	}
	c, err := oldclient.NewFromEndpoints(t.Context(), []old.AgentInterface{{URL: "passthrough:///" + address, Transport: old.TransportProtocolGRPC}},
		oldclient.WithGRPCTransport(
			grpc.WithTransportCredentials(insecure.NewCredentials()),
			grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) {
				return new(net.Dialer).DialContext(ctx, "tcp", m.Ready.GRPCListen)
			}),
			grpc.WithChainUnaryInterceptor(func(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoker grpc.UnaryInvoker, opts ...grpc.CallOption) error {
				return invoker(with(ctx), method, req, reply, cc, opts...)
			}),
			grpc.WithChainStreamInterceptor(func(ctx context.Context, desc *grpc.StreamDesc, cc *grpc.ClientConn, method string, streamer grpc.Streamer, opts ...grpc.CallOption) (grpc.ClientStream, error) {
				return streamer(with(ctx), desc, cc, method, opts...)
			}),
		))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Destroy(); err != nil {
			t.Error(err)
		}
	})
	return c
}

// TestOldGRPCCaller: a stock client of 0.3 over gRPC works through the mesh with an
// agent of 1.0 over any binding, by the address in the card.
func TestOldGRPCCaller(t *testing.T) {
	m := parleytest.Start(t, parleytest.Options{Configure: wildcard})
	key := m.Key("alice", "")
	for i, behind := range bindings {
		ref, url := a2atest.Start(t, a2atest.Options{Bindings: []a2a.Binding{behind}})
		name := []parley.AgentName{"rpc", "rest", "grpc"}[i]
		m.Add(control.NewAgent{Name: name, URL: url})
		t.Run(string(behind), func(t *testing.T) {
			oldOperations(t, m, ref, oldGRPCCaller(t, m, string(name)+".mesh.test:443", key))
		})
	}
}

// TestOldGRPCNamesItsAgent by the address where agents have their own, or in the
// metadata; else it is told how.
func TestOldGRPCNamesItsAgent(t *testing.T) {
	for _, own := range []bool{true, false} {
		o := parleytest.Options{}
		if own {
			o.Configure = wildcard
		}
		m := parleytest.Start(t, o)
		key := m.Key("alice", "")
		m.Agent("agent")
		for _, tc := range []struct {
			address string
			pairs   []string
			want    string // in the error; empty for none
		}{
			{"agent.mesh.test:443", nil, map[bool]string{true: "", false: "parley-agent"}[own]},
			{"AGENT.mesh.test", nil, map[bool]string{true: "", false: "parley-agent"}[own]},
			{"mesh.test:443", nil, "parley-agent"},
			{"mesh.test:443", []string{"parley-agent", "agent"}, ""},
			{"agent.mesh.test:443", []string{"parley-agent", "other"}, map[bool]string{true: "another agent than the address", false: "other"}[own]},
			{"a.agent.mesh.test:443", nil, "parley-agent"},
		} {
			c := oldGRPCCaller(t, m, tc.address, key, tc.pairs...)
			_, err := c.GetTask(t.Context(), &old.TaskQueryParams{ID: "no-such-task"})
			if tc.want == "" && !errors.Is(err, old.ErrTaskNotFound) || tc.want != "" && !strings.Contains(err.Error(), tc.want) {
				t.Errorf("own addresses %v, %s with %v: %v", own, tc.address, tc.pairs, err)
			}
		}
		card, problems := a2a.ParseCard(cardText(t, m, "agent"))
		if card == nil {
			t.Fatal(problems)
		}
		at := slices.IndexFunc(card.SupportedInterfaces, func(i a2a.AgentInterface) bool { return i.ProtocolBinding == a2a.GRPC && i.ProtocolVersion == a2a.V03 })
		if own != (at >= 0) || own && card.SupportedInterfaces[at].URL != "agent.mesh.test:443" {
			t.Errorf("own addresses %v: the card names %+v", own, card.SupportedInterfaces)
		}
	}
}

// cardText is the card that the mesh serves of an agent.
func cardText(t *testing.T, m *parleytest.Mesh, agent parley.AgentName) []byte {
	t.Helper()
	resp, err := http.Get(m.URL(agent) + ".well-known/agent-card.json")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

// TestOldAgentOverEveryBinding: callers of 1.0 over any binding, and of 0.3, work with
// an agent on the official Go SDK of 0.3, whichever of its bindings the mesh uses.
func TestOldAgentOverEveryBinding(t *testing.T) {
	m := parleytest.Start(t, parleytest.Options{Configure: wildcard})
	key := m.Key("alice", "")
	for name, only := range map[parley.AgentName]func(*old.AgentCard){
		"rpc": func(c *old.AgentCard) { c.AdditionalInterfaces = nil },
		"grpc": func(c *old.AgentCard) {
			c.URL, c.PreferredTransport = c.AdditionalInterfaces[0].URL, old.TransportProtocolGRPC
			c.AdditionalInterfaces = nil
		},
	} {
		agent := a2atest.NewOldAgent(t)
		agent.Show("", only)
		m.Add(control.NewAgent{Name: name, URL: agent.URL})
		for _, b := range bindings {
			t.Run(string(b)+" to "+string(name), func(t *testing.T) { newOperations(t, m.Caller(name, b, key)) })
		}
		t.Run("0.3 to "+string(name), func(t *testing.T) {
			c := oldGRPCCaller(t, m, string(name)+".mesh.test:443", key)
			if got := oldTask(t, c, oldMessage(fresh("m"), old.TextPart{Text: "hello"})); got.Status.State != old.TaskStateCompleted || len(got.Artifacts) != 1 {
				t.Errorf("got %+v", got)
			}
		})
	}
}

// newOperations calls an agent of OldAgent's manners by 1.0.
func newOperations(t *testing.T, c *parleytest.Caller) {
	ctx := t.Context()
	done, _ := c.Do(ctx, a2a.SendMessage, parleytest.Message(fresh("m"), "hello"))
	if done.Err != nil || done.Facts.State != a2a.StateCompleted || !strings.Contains(string(done.Result), "hello") {
		t.Fatalf("send: %+v %s", done.Err, done.Result)
	}
	if message, _ := c.Do(ctx, a2a.SendMessage, parleytest.Message(fresh("m"), "message")); message.Err != nil || message.Facts.Kind != a2a.KindMessage {
		t.Errorf("send: %+v %s; want a message", message.Err, message.Result)
	}
	if got, _ := c.Do(ctx, a2a.GetTask, a2a.GetTaskRequest{ID: done.Facts.TaskID}); got.Err != nil || got.Facts.State != a2a.StateCompleted {
		t.Errorf("get: %+v %s", got.Err, got.Result)
	}
	missing, _ := c.Do(ctx, a2a.CancelTask, a2a.CancelTaskRequest{ID: done.Facts.TaskID})
	wantErr(t, "cancel what is final", missing, a2a.ReasonTaskNotCancelable)
	streamed, _ := c.Do(ctx, a2a.SendStreamingMessage, parleytest.Message(fresh("m"), "hello"))
	if streamed.Stream == nil {
		t.Fatalf("stream: %+v", streamed.Err)
	}
	var states []a2a.TaskState
	for {
		f, err := streamed.Stream.Next(ctx)
		if err != nil {
			break
		}
		if f.Facts.State != "" {
			states = append(states, f.Facts.State)
		}
	}
	if len(states) == 0 || states[len(states)-1] != a2a.StateCompleted {
		t.Errorf("stream: states %v", states)
	}
}

// TestOldGRPCErrors have the codes of 0.3, and details that tell more.
func TestOldGRPCErrors(t *testing.T) {
	m := parleytest.Start(t, parleytest.Options{Configure: wildcard})
	agent := m.Agent("agent")
	key := m.Key("alice", "")
	for reason, want := range map[a2a.Reason]codes.Code{
		a2a.ReasonUnsupportedOperation: codes.Unimplemented, a2a.ReasonContentTypeNotSupported: codes.InvalidArgument, a2a.ReasonTaskNotCancelable: codes.FailedPrecondition,
	} {
		agent.Answer(func(context.Context, *a2a.Request) *a2a.Reply { return a2a.Fail(a2a.NewError(reason, "no")) })
		conn, err := grpc.NewClient("passthrough:///agent.mesh.test", grpc.WithTransportCredentials(insecure.NewCredentials()),
			grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) {
				return new(net.Dialer).DialContext(ctx, "tcp", m.Ready.GRPCListen)
			}))
		if err != nil {
			t.Fatal(err)
		}
		_, err = oldpb.NewA2AServiceClient(conn).SendMessage(metadata.AppendToOutgoingContext(t.Context(), "authorization", "Bearer "+key), &oldpb.SendMessageRequest{
			Request: &oldpb.Message{MessageId: fresh("m"), Role: oldpb.Role_ROLE_USER, Parts: []*oldpb.Part{{Part: &oldpb.Part_Text{Text: "hello"}}}},
		})
		if st, _ := grpcstatus.FromError(err); st.Code() != want || len(st.Details()) == 0 {
			t.Errorf("%s: %v, want %v; details %v", reason, err, want, st.Details())
		}
		conn.Close()
	}
}
