package a2agrpc_test

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"strings"
	"testing"

	old "github.com/a2aproject/a2a-go/a2a"
	oldclient "github.com/a2aproject/a2a-go/a2aclient"
	oldpb "github.com/a2aproject/a2a-go/a2apb"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/parley-mesh/parley/internal/a2a"
	"github.com/parley-mesh/parley/internal/a2a/a2agrpc"
	"github.com/parley-mesh/parley/internal/a2a/a2atest"
)

// oldStock is the official Go client of version 0.3 towards an address.
func oldStock(t *testing.T, address string) *oldclient.Client {
	t.Helper()
	c, err := oldclient.NewFromCard(t.Context(), &old.AgentCard{
		URL: "passthrough:///" + address, PreferredTransport: old.TransportProtocolGRPC, SupportsAuthenticatedExtendedCard: true,
		Capabilities: old.AgentCapabilities{Streaming: true, PushNotifications: true},
	}, oldclient.WithGRPCTransport(grpc.WithTransportCredentials(insecure.NewCredentials())))
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

func ask(t *testing.T, c *a2agrpc.Client, address string, v a2a.Version, m a2a.Method, params any) *a2a.Reply {
	t.Helper()
	q, err := a2a.NewRequest(m, params)
	if err != nil {
		t.Fatal(err)
	}
	ep := endpoint(address)
	ep.Version = v
	reply, err := c.Do(t.Context(), ep, q, http.Header{})
	if err != nil {
		t.Fatalf("%s: %v", m, err)
	}
	return reply
}

const servedCard = `{"name":"n","description":"d","version":"1","supportedInterfaces":[{"url":"https://a.example/","protocolBinding":"JSONRPC","protocolVersion":"0.3"}],
	"protocolVersion":"0.3.0","url":"https://a.example/","preferredTransport":"JSONRPC","capabilities":{"streaming":true,"extendedAgentCard":true},"supportsAuthenticatedExtendedCard":true,
	"securitySchemes":{"key":{"type":"apiKey","in":"header","name":"K","apiKeySecurityScheme":{"location":"header","name":"K"}}},"security":[{"key":[]}],
	"defaultInputModes":["text/plain"],"defaultOutputModes":[],"skills":[{"id":"s","name":"S","description":"","tags":["t"]}]}`

// TestOldCallerOfConfigsAndCards: a stock client of 0.3 with push configurations and
// the card, which are served here in 1.0.
func TestOldCallerOfConfigsAndCards(t *testing.T) {
	var got []a2a.TaskPushNotificationConfig
	_, address := serve(t, func(_ context.Context, q *a2a.Request) *a2a.Reply {
		named := func(id string) bool {
			return bytes.Contains(q.Params, []byte(`"taskId":"t1"`)) && (id == "" || bytes.Contains(q.Params, []byte(`"id":"`+id+`"`)))
		}
		switch {
		case q.Version != a2a.V03 || !q.Old():
			t.Errorf("%s came as version %s", q.Method, q.Version)
		case q.Method == a2a.CreatePushConfig:
			c := a2a.TaskPushNotificationConfig{}
			if err := q.Decode(&c); err != nil {
				t.Error(err)
			}
			got = append(got, c)
			return a2a.Answer(q.Method, c)
		case q.Method == a2a.GetPushConfig && named("t1"):
			return a2a.Answer(q.Method, got[0])
		case q.Method == a2a.ListPushConfigs && named(""):
			return a2a.Answer(q.Method, a2a.ListPushConfigsResponse{Configs: got})
		case q.Method == a2a.DeletePushConfig && named("t1"):
			return a2a.Answer(q.Method, a2a.Empty{})
		case q.Method == a2a.GetExtendedCard:
			return &a2a.Reply{Result: []byte(servedCard)}
		}
		t.Errorf("%s %s", q.Method, q.Params)
		return a2a.Fail(a2a.Internal("unexpected"))
	}, a2agrpc.Options{})
	c, ctx := oldStock(t, address), t.Context()
	const task = "t1"
	config := old.PushConfig{URL: "https://hook.example/", Token: "tok", Auth: &old.PushAuthInfo{Schemes: []string{"Bearer"}, Credentials: "c"}}
	if set, err := c.SetTaskPushConfig(ctx, &old.TaskPushConfig{TaskID: task, Config: config}); err != nil || set.TaskID != task || set.Config.URL != config.URL || set.Config.Auth == nil {
		t.Errorf("set: %+v, %v", set, err)
	}
	if len(got) != 1 || got[0].TaskID != "t1" || got[0].ID != "t1" || got[0].Authentication == nil || got[0].Authentication.Scheme != "Bearer" {
		t.Fatalf("set as %+v", got)
	}
	if one, err := c.GetTaskPushConfig(ctx, &old.GetTaskPushConfigParams{TaskID: task}); err != nil || one.Config.Token != "tok" {
		t.Errorf("get: %+v, %v", one, err)
	}
	if all, err := c.ListTaskPushConfig(ctx, &old.ListTaskPushConfigParams{TaskID: task}); err != nil || len(all) != 1 || all[0].Config.URL != config.URL {
		t.Errorf("list: %+v, %v", all, err)
	}
	if err := c.DeleteTaskPushConfig(ctx, &old.DeleteTaskPushConfigParams{TaskID: task, ConfigID: task}); err != nil {
		t.Errorf("delete: %v", err)
	}
	card, err := c.GetAgentCard(ctx)
	if err != nil || card.URL != "https://a.example/" || card.PreferredTransport != old.TransportProtocolJSONRPC || len(card.Skills) != 1 || !card.SupportsAuthenticatedExtendedCard {
		t.Errorf("card: %+v, %v", card, err)
	}
	if key, ok := card.SecuritySchemes["key"].(old.APIKeySecurityScheme); !ok || key.In != old.APIKeySecuritySchemeInHeader || len(card.Security) != 1 {
		t.Errorf("card: schemes %+v, security %+v", card.SecuritySchemes, card.Security)
	}
}

// TestOldAgentByGRPC: everything that a stock agent of 0.3 does, asked by 1.0.
func TestOldAgentByGRPC(t *testing.T) {
	agent, c := a2atest.NewOldAgent(t), client(t)
	do := func(m a2a.Method, params any) *a2a.Reply { return ask(t, c, agent.Address, a2a.V03, m, params) }
	say := func(text string, now bool) a2a.SendMessageRequest {
		in := a2a.SendMessageRequest{Message: a2a.Message{MessageID: "m-" + text, Role: a2a.RoleUser, Parts: []a2a.Part{a2a.TextPart(text)}}}
		in.Configuration = &a2a.SendMessageConfiguration{ReturnImmediately: now}
		return in
	}
	if got := do(a2a.SendMessage, say("message", false)); got.Err != nil || got.Facts.Kind != a2a.KindMessage {
		t.Errorf("a message: %+v %s", got.Err, got.Result)
	}
	if got := do(a2a.SendMessage, say("ask", false)); got.Err != nil || got.Facts.State != a2a.StateInputRequired {
		t.Errorf("a question: %+v %s", got.Err, got.Result)
	}
	open := do(a2a.SendMessage, say("wait", true))
	if open.Err != nil || open.Facts.Final() {
		t.Fatalf("without waiting: %+v %s", open.Err, open.Result)
	}
	task := open.Facts.TaskID
	config := a2a.TaskPushNotificationConfig{TaskID: task, ID: "one", URL: "https://hook.example/"}
	if got := do(a2a.CreatePushConfig, config); got.Err != nil || !strings.Contains(string(got.Result), `"taskId":"`+task+`"`) {
		t.Errorf("create a configuration: %+v %s", got.Err, got.Result)
	}
	for _, m := range []a2a.Method{a2a.GetPushConfig, a2a.ListPushConfigs, a2a.DeletePushConfig} {
		var params any = a2a.PushConfigRequest{TaskID: task, ID: "one"}
		if m == a2a.ListPushConfigs {
			params = a2a.ListPushConfigsRequest{TaskID: task}
		}
		if got := do(m, params); got.Err != nil || m != a2a.DeletePushConfig && !strings.Contains(string(got.Result), "https://hook.example/") {
			t.Errorf("%s: %+v %s", m, got.Err, got.Result)
		}
	}
	if got := do(a2a.CancelTask, a2a.CancelTaskRequest{ID: task}); got.Err != nil || got.Facts.State != a2a.StateCanceled {
		t.Errorf("cancel: %+v %s", got.Err, got.Result)
	}
	streamed := do(a2a.SendStreamingMessage, say("hello", false))
	if states := statesOf(t, streamed.Stream); len(states) < 2 || states[len(states)-1] != a2a.StateCompleted {
		t.Errorf("streamed: %v", states)
	}
	for m, want := range map[a2a.Method]a2a.Reason{
		a2a.GetTask: a2a.ReasonTaskNotFound, a2a.SubscribeToTask: a2a.ReasonTaskNotFound, a2a.GetExtendedCard: a2a.ReasonTaskNotFound, a2a.ListTasks: a2a.ReasonUnsupportedOperation,
	} {
		var params any = a2a.GetTaskRequest{ID: "nothing"}
		if m != a2a.GetTask && m != a2a.SubscribeToTask {
			params = a2a.Empty{}
		}
		if got := do(m, params); got.Err == nil || got.Err.Reason != want {
			t.Errorf("%s: %+v, want %s", m, got.Err, want)
		}
	}
	if got := do(a2a.CancelTask, a2a.CancelTaskRequest{ID: task}); got.Err != nil && got.Err.Reason != a2a.ReasonTaskNotCancelable {
		t.Errorf("cancel again: %+v", got.Err)
	}
}

func statesOf(t *testing.T, s a2a.Stream) (states []a2a.TaskState) {
	t.Helper()
	for {
		f, err := s.Next(t.Context())
		if err == io.EOF {
			return states
		}
		if err != nil || f.Err != nil {
			t.Errorf("after %v: %v, %v", states, err, f.Err)
			return states
		}
		if f.Facts.State != "" {
			states = append(states, f.Facts.State)
		}
	}
}

// TestOldMessagesThatCannotBeRead name the field.
func TestOldMessagesThatCannotBeRead(t *testing.T) {
	_, address := serve(t, func(_ context.Context, q *a2a.Request) *a2a.Reply {
		t.Errorf("%s reached the handler: %s", q.Method, q.Params)
		return a2a.Fail(a2a.Internal("unexpected"))
	}, a2agrpc.Options{})
	c, ctx := oldpb.NewA2AServiceClient(connection(t, address)), t.Context()
	_, err := c.GetTask(ctx, &oldpb.GetTaskRequest{Name: "t"})
	wantField(t, err, "name")
	_, err = c.DeleteTaskPushNotificationConfig(ctx, &oldpb.DeleteTaskPushNotificationConfigRequest{Name: "tasks/t"})
	wantField(t, err, "name")
	_, err = c.CreateTaskPushNotificationConfig(ctx, &oldpb.CreateTaskPushNotificationConfigRequest{})
	wantField(t, err, "parent")
	_, err = c.SendMessage(ctx, &oldpb.SendMessageRequest{Request: &oldpb.Message{MessageId: "m"}})
	wantField(t, err, "role")
}

func wantField(t *testing.T, err error, field string) {
	t.Helper()
	if st := status.Convert(err); st.Code() != codes.InvalidArgument || !strings.Contains(st.Message(), field) {
		t.Errorf("got %v, want %s named", err, field)
	}
}

// TestOldBytesPass where both sides speak gRPC of 0.3, what nobody knows included.
func TestOldBytesPass(t *testing.T) {
	c := client(t)
	_, behind := serve(t, func(_ context.Context, q *a2a.Request) *a2a.Reply {
		if !bytes.Contains(q.Raw, []byte("new-field")) {
			t.Errorf("the agent got %q", q.Raw)
		}
		return a2a.Fail(a2a.TaskNotFound("t"))
	}, a2agrpc.Options{})
	_, address := serve(t, func(ctx context.Context, q *a2a.Request) *a2a.Reply {
		ep := endpoint(behind)
		ep.Version = a2a.V03
		reply, err := c.Do(ctx, ep, q, http.Header{})
		if err != nil {
			t.Error(err)
			return a2a.Fail(a2a.Internal("no answer"))
		}
		return reply
	}, a2agrpc.Options{})
	in := &oldpb.GetTaskRequest{Name: "tasks/t"}
	in.ProtoReflect().SetUnknown(protowire.AppendString(protowire.AppendTag(nil, 1999, protowire.BytesType), "new-field"))
	_, err := oldpb.NewA2AServiceClient(connection(t, address)).GetTask(t.Context(), in)
	if status.Code(err) != codes.NotFound {
		t.Errorf("got %v", err)
	}
}
