package a2a_test

import (
	"context"
	"errors"
	"io"
	"iter"
	"net/http"
	"net/http/httptest"
	"testing"

	sdk "github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/a2aproject/a2a-go/v2/a2acompat/a2av0"
	"github.com/a2aproject/a2a-go/v2/a2asrv"
	"github.com/a2aproject/a2a-go/v2/a2asrv/push"

	"github.com/parley-mesh/parley/internal/a2a"
	"github.com/parley-mesh/parley/internal/a2a/a2atest"
)

func say(text, task string) a2a.SendMessageRequest {
	return a2a.SendMessageRequest{Message: a2a.Message{MessageID: "m-" + text, TaskID: task, Role: a2a.RoleUser, Parts: []a2a.Part{a2a.TextPart(text)}}}
}

// TestOldAgent: our client works with agents of version 0.3 built on official SDKs.
func TestOldAgent(t *testing.T) {
	client := &a2a.Client{Transport: &http.Transport{}}
	for name, ep := range map[string]a2a.Endpoint{
		"the Go SDK of 0.3, JSON-RPC":         {URL: a2atest.NewOldAgent(t).URL + "/rpc", Binding: a2a.JSONRPC, Version: a2a.V03},
		"the Go SDK of 1.0, HTTP+JSON of 0.3": {URL: oldREST(t), Binding: a2a.HTTPJSON, Version: a2a.V03},
	} {
		t.Run(name, func(t *testing.T) {
			c := &a2a.Conn{Client: client, Endpoint: ep}
			ctx := t.Context()
			var e *a2a.Error
			if got, err := c.SendMessage(ctx, say("message", "")); err != nil || got.Message == nil || got.Message.Role != a2a.RoleAgent {
				t.Errorf("a message: %+v, %v", got, err)
			}
			got, err := c.SendMessage(ctx, say("hello", ""))
			if err != nil || got.Task == nil || got.Task.Status.State != a2a.StateCompleted || len(got.Task.Artifacts) != 1 {
				t.Fatalf("a task: %+v, %v", got, err)
			}
			done := got.Task.ID
			asked, err := c.SendMessage(ctx, say("ask", ""))
			if err != nil || asked.Task.Status.State != a2a.StateInputRequired {
				t.Fatalf("a question: %+v, %v", asked, err)
			}
			if got, err := c.SendMessage(ctx, say("more", asked.Task.ID)); err != nil || got.Task == nil || got.Task.ID != asked.Task.ID || got.Task.Status.State != a2a.StateCompleted {
				t.Errorf("the next turn: %+v, %v", got, err)
			}
			events := read(t, c.SendStreamingMessage)(ctx, say("stream", ""))
			if len(events) < 3 || events[0].Task == nil || events[len(events)-1].StatusUpdate == nil ||
				events[len(events)-1].StatusUpdate.Status.State != a2a.StateCompleted {
				t.Errorf("a stream: %+v", events)
			}
			wait := say("wait", "")
			wait.Configuration = &a2a.SendMessageConfiguration{ReturnImmediately: true}
			open, err := c.SendMessage(ctx, wait)
			if err != nil || open.Task == nil {
				t.Fatalf("a task that goes on: %+v, %v", open, err)
			}
			stream, err := c.SubscribeToTask(ctx, a2a.SubscribeToTaskRequest{ID: open.Task.ID})
			if err != nil {
				t.Fatal(err)
			}
			first, err := stream.Next(ctx)
			if err != nil || first.Task == nil || first.Task.ID != open.Task.ID {
				t.Errorf("the first frame of a subscription: %+v, %v; want the task", first, err)
			}
			if err := stream.Close(); err != nil {
				t.Error(err)
			}
			if got, err := c.CancelTask(ctx, a2a.CancelTaskRequest{ID: open.Task.ID}); err != nil || got.Status.State != a2a.StateCanceled {
				t.Errorf("cancel: %+v, %v", got, err)
			}
			if _, err := c.SubscribeToTask(ctx, a2a.SubscribeToTaskRequest{ID: open.Task.ID}); !errors.As(err, &e) || e.Reason != a2a.ReasonUnsupportedOperation {
				t.Errorf("subscribe to a task that has ended: %v", err)
			}
			if got, err := c.GetTask(ctx, a2a.GetTaskRequest{ID: done}); err != nil || got.ID != done || len(got.History) == 0 {
				t.Errorf("get: %+v, %v", got, err)
			}
			if _, err := c.GetTask(ctx, a2a.GetTaskRequest{ID: "nobody's"}); !errors.As(err, &e) || e.Reason != a2a.ReasonTaskNotFound {
				t.Errorf("get a task that is not there: %v", err)
			}
			if _, err := c.ListTasks(ctx, a2a.ListTasksRequest{}); !errors.As(err, &e) || e.Reason != a2a.ReasonUnsupportedOperation {
				t.Errorf("list: %v", err)
			}
			config, err := c.CreatePushConfig(ctx, a2a.TaskPushNotificationConfig{TaskID: done, ID: "c1", URL: "https://a.example/", Authentication: &a2a.AuthenticationInfo{Scheme: "Bearer", Credentials: "x"}})
			if err != nil || config.ID != "c1" || config.TaskID != done || config.Authentication.Scheme != "Bearer" {
				t.Errorf("a push configuration: %+v, %v", config, err)
			}
			if list, err := c.ListPushConfigs(ctx, a2a.ListPushConfigsRequest{TaskID: done}); err != nil || len(list.Configs) != 1 {
				t.Errorf("push configurations: %+v, %v", list, err)
			}
			if err := c.DeletePushConfig(ctx, a2a.PushConfigRequest{TaskID: done, ID: "c1"}); err != nil {
				t.Errorf("delete a push configuration: %v", err)
			}
		})
	}
}

// read gives all events of a stream.
func read[In any](t *testing.T, open func(context.Context, In) (*a2a.EventStream, error)) func(context.Context, In) []*a2a.StreamResponse {
	return func(ctx context.Context, in In) (all []*a2a.StreamResponse) {
		t.Helper()
		stream, err := open(ctx, in)
		if err != nil {
			t.Fatal(err)
		}
		defer stream.Close()
		for {
			event, err := stream.Next(ctx)
			if err == io.EOF {
				return all
			}
			if err != nil {
				t.Fatalf("after %d events: %v", len(all), err)
			}
			all = append(all, event)
		}
	}
}

// oldREST serves 0.3 over HTTP+JSON, with the current Go SDK: that of 0.3 has no
// such binding. It does what a2atest.OldAgent does.
func oldREST(t *testing.T) string {
	t.Helper()
	handler := a2asrv.NewHandler(echo{}, a2asrv.WithPushNotifications(push.NewInMemoryStore(), push.NewHTTPPushSender(nil)))
	server := httptest.NewServer(a2av0.NewRESTHandler(handler))
	t.Cleanup(server.Close)
	return server.URL
}

type echo struct{}

// Execute implements a2asrv.AgentExecutor.
func (echo) Execute(ctx context.Context, in *a2asrv.ExecutorContext) iter.Seq2[sdk.Event, error] {
	return func(yield func(sdk.Event, error) bool) {
		text := in.Message.Parts[0].Text()
		if text == "message" {
			yield(sdk.NewMessage(sdk.MessageRoleAgent, sdk.NewTextPart(text)), nil)
			return
		}
		events := []sdk.Event{sdk.NewStatusUpdateEvent(in, sdk.TaskStateWorking, nil)}
		if in.StoredTask == nil {
			events = append([]sdk.Event{sdk.NewSubmittedTask(in, in.Message)}, events...)
		}
		switch text {
		case "wait":
		case "ask":
			events = append(events, sdk.NewStatusUpdateEvent(in, sdk.TaskStateInputRequired, nil))
		default:
			events = append(events, sdk.NewArtifactEvent(in, sdk.NewTextPart(text)), sdk.NewStatusUpdateEvent(in, sdk.TaskStateCompleted, nil))
		}
		for _, e := range events {
			if !yield(e, nil) {
				return
			}
		}
		if text == "wait" {
			<-ctx.Done()
		}
	}
}

// Cancel implements a2asrv.AgentExecutor.
func (echo) Cancel(_ context.Context, in *a2asrv.ExecutorContext) iter.Seq2[sdk.Event, error] {
	return func(yield func(sdk.Event, error) bool) {
		yield(sdk.NewStatusUpdateEvent(in, sdk.TaskStateCanceled, nil), nil)
	}
}
