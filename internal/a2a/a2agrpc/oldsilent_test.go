package a2agrpc_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"testing"

	"github.com/parley-mesh/parley/internal/a2a"
	"github.com/parley-mesh/parley/internal/a2a/a2agrpc"
	"github.com/parley-mesh/parley/internal/a2a/a2atest"
)

// TestSubscriptionToASilentOldAgent: a stock agent of 0.3 sends not even headers
// before something happens. The subscriber has the task at once all the same, and what
// happens then.
func TestSubscriptionToASilentOldAgent(t *testing.T) {
	agent := a2atest.NewOldAgent(t)
	ep := endpoint(agent.Address)
	ep.Version = a2a.V03
	c := &a2a.Conn{Client: &a2a.Client{GRPC: client(t)}, Endpoint: ep}
	ctx := t.Context()
	open, err := c.SendMessage(ctx, a2a.SendMessageRequest{
		Message:       a2a.Message{MessageID: "m", Role: a2a.RoleUser, Parts: []a2a.Part{a2a.TextPart("wait")}},
		Configuration: &a2a.SendMessageConfiguration{ReturnImmediately: true},
	})
	if err != nil || open.Task == nil {
		t.Fatalf("%+v, %v", open, err)
	}
	stream, err := c.SubscribeToTask(ctx, a2a.SubscribeToTaskRequest{ID: open.Task.ID})
	if err != nil {
		t.Fatal(err)
	}
	defer stream.Close()
	if first, err := stream.Next(ctx); err != nil || first.Task == nil || first.Task.ID != open.Task.ID {
		t.Fatalf("first: %+v, %v; want the task", first, err)
	}
	if got, err := c.CancelTask(ctx, a2a.CancelTaskRequest{ID: open.Task.ID}); err != nil || got.Status.State != a2a.StateCanceled {
		t.Fatalf("cancel: %+v, %v", got, err)
	}
	var last a2a.TaskState
	for {
		event, err := stream.Next(ctx)
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if event.Task != nil {
			last = event.Task.Status.State
		} else if event.StatusUpdate != nil {
			last = event.StatusUpdate.Status.State
		}
	}
	if last != a2a.StateCanceled {
		t.Errorf("the stream ended with %s", last)
	}
	var e *a2a.Error
	if _, err := c.SubscribeToTask(ctx, a2a.SubscribeToTaskRequest{ID: open.Task.ID}); !errors.As(err, &e) || e.Reason != a2a.ReasonUnsupportedOperation {
		t.Errorf("subscribe to a task that has ended: %v", err)
	}
}

// TestSilenceEndsWithItsContext: the wait for headers that do not come ends when the
// context of the call does, whose cause is told.
func TestSilenceEndsWithItsContext(t *testing.T) {
	reached := make(chan struct{})
	_, address := serve(t, func(ctx context.Context, _ *a2a.Request) *a2a.Reply {
		close(reached)
		<-ctx.Done()
		return a2a.Fail(a2a.Internal("too late"))
	}, a2agrpc.Options{})
	q, err := a2a.NewRequest(a2a.SubscribeToTask, a2a.SubscribeToTaskRequest{ID: "t"})
	if err != nil {
		t.Fatal(err)
	}
	ep := endpoint(address)
	ep.Version = a2a.V03
	ctx, cancel := context.WithCancel(t.Context())
	go func() { // ends with the call
		<-reached
		cancel()
	}()
	reply, err := client(t).Do(ctx, ep, q, http.Header{})
	failure, ok := errors.AsType[*a2a.TransportError](err)
	if reply != nil || !ok || failure.Stage != a2a.StageHeaders || !failure.Wrote || !errors.Is(err, context.Canceled) {
		t.Errorf("got %+v, %v; want a call that was given up", reply, err)
	}
}

// TestOldStreamsBeginWithTheTask also where the agent begins with a status, as a stock
// one does in a further turn.
func TestOldStreamsBeginWithTheTask(t *testing.T) {
	agent := a2atest.NewOldAgent(t)
	ep := endpoint(agent.Address)
	ep.Version = a2a.V03
	c := &a2a.Conn{Client: &a2a.Client{GRPC: client(t)}, Endpoint: ep}
	say := func(text, task string) a2a.SendMessageRequest {
		return a2a.SendMessageRequest{Message: a2a.Message{MessageID: "m-" + text, TaskID: task, Role: a2a.RoleUser, Parts: []a2a.Part{a2a.TextPart(text)}}}
	}
	asked, err := c.SendMessage(t.Context(), say("ask", ""))
	if err != nil || asked.Task == nil {
		t.Fatalf("%+v, %v", asked, err)
	}
	stream, err := c.SendStreamingMessage(t.Context(), say("more", asked.Task.ID))
	if err != nil {
		t.Fatal(err)
	}
	defer stream.Close()
	first, err := stream.Next(t.Context())
	if err != nil || first.Task == nil || first.Task.ID != asked.Task.ID {
		t.Errorf("the first frame is %+v, %v; want the task", first, err)
	}
	if second, err := stream.Next(t.Context()); err != nil || second.StatusUpdate == nil {
		t.Errorf("the second frame is %+v, %v; want the agent's first", second, err)
	}
}
