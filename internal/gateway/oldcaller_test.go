package gateway_test

import (
	"errors"
	"net/http"
	"slices"
	"testing"

	old "github.com/a2aproject/a2a-go/a2a"
	oldclient "github.com/a2aproject/a2a-go/a2aclient"

	"github.com/parley-mesh/parley/internal/a2a"
	"github.com/parley-mesh/parley/internal/a2a/a2atest"
	"github.com/parley-mesh/parley/internal/control"
	"github.com/parley-mesh/parley/internal/parley"
	"github.com/parley-mesh/parley/internal/parleytest"
)

// credentialed puts a credential on every request.
type credentialed struct {
	key  string
	next http.RoundTripper
}

func (w credentialed) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+w.key)
	return w.next.RoundTrip(r)
}

// oldCaller is the official Go client of version 0.3, towards an address.
func oldCaller(t *testing.T, url, key string) *oldclient.Client {
	t.Helper()
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	c, err := oldclient.NewFromEndpoints(t.Context(), []old.AgentInterface{{URL: url, Transport: old.TransportProtocolJSONRPC}},
		oldclient.WithJSONRPCTransport(&http.Client{Transport: credentialed{key, transport}}))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func oldMessage(id string, parts ...old.Part) *old.MessageSendParams {
	if parts == nil {
		parts = old.ContentParts{old.TextPart{Text: "hi"}}
	}
	return &old.MessageSendParams{Message: &old.Message{ID: id, Role: old.MessageRoleUser, Parts: parts}}
}

// oldTask sends a message that must be answered with a task.
func oldTask(t *testing.T, c *oldclient.Client, in *old.MessageSendParams) *old.Task {
	t.Helper()
	got, err := c.SendMessage(t.Context(), in)
	task, ok := got.(*old.Task)
	if err != nil || !ok {
		t.Fatalf("send %s: %+v, %v; want a task", in.Message.ID, got, err)
	}
	return task
}

// TestOldCaller: a stock client of 0.3 works through the mesh with an agent of 1.0
// over any binding.
func TestOldCaller(t *testing.T) {
	m := parleytest.Start(t, parleytest.Options{})
	key := m.Key("alice", "")
	for i, behind := range bindings {
		ref, url := a2atest.Start(t, a2atest.Options{Bindings: []a2a.Binding{behind}})
		name := []parley.AgentName{"rpc", "rest", "grpc"}[i]
		m.Add(control.NewAgent{Name: name, URL: url})
		t.Run(string(behind), func(t *testing.T) { oldOperations(t, m, ref, oldCaller(t, m.URL(name), key)) })
	}
}

func oldOperations(t *testing.T, m *parleytest.Mesh, ref *a2atest.Agent, c *oldclient.Client) {
	ctx := t.Context()
	if got, err := c.SendMessage(ctx, oldMessage(fresh("tck-message-response"))); err != nil {
		t.Errorf("send: %v", err)
	} else if message, ok := got.(*old.Message); !ok || message.Role != old.MessageRoleAgent || len(message.Parts) == 0 {
		t.Errorf("send: got %+v, want a message of the agent", got)
	}
	last := m.Calls(control.CallFilter{})[0]
	if last.Method != string(a2a.SendMessage) || last.Version != "0.3" || last.Outcome != "ok" {
		t.Errorf("the call is recorded as %s of version %s: %s", last.Method, last.Version, last.Outcome)
	}

	done := oldTask(t, c, oldMessage(fresh("tck-complete")))
	if done.Status.State != old.TaskStateCompleted || done.ContextID == "" {
		t.Errorf("send: got %+v, want a completed task", done)
	}
	asked := oldTask(t, c, oldMessage(fresh("tck-input-required")))
	if asked.Status.State != old.TaskStateInputRequired {
		t.Errorf("got state %s, want a question", asked.Status.State)
	}
	turn := oldMessage(fresh("tck-complete"))
	turn.Message.TaskID = asked.ID
	if got := oldTask(t, c, turn); got.ID != asked.ID || got.Status.State != old.TaskStateCompleted {
		t.Errorf("the answer to the question gave task %s in state %s", got.ID, got.Status.State)
	}

	no := false
	held := oldMessage(fresh("ref-hold"))
	held.Config = &old.MessageSendConfig{Blocking: &no}
	open := oldTask(t, c, held)
	if got, err := c.GetTask(ctx, &old.TaskQueryParams{ID: open.ID}); err != nil || got.Status.State != old.TaskStateWorking {
		t.Errorf("get: %+v, %v", got, err)
	}
	var follow []old.Event
	for event, err := range c.ResubscribeToTask(ctx, &old.TaskIDParams{ID: open.ID}) {
		if err != nil {
			t.Fatalf("resubscribe: %v", err)
		}
		if len(follow) == 0 {
			if got, err := c.CancelTask(ctx, &old.TaskIDParams{ID: open.ID}); err != nil || got.Status.State != old.TaskStateCanceled {
				t.Errorf("cancel: %+v, %v", got, err)
			}
		}
		follow = append(follow, event)
	}
	wantFinal(t, "resubscribe", follow, old.TaskStateCanceled)

	var events []old.Event
	for event, err := range c.SendStreamingMessage(ctx, oldMessage(fresh("ref-stream-3"))) {
		if err != nil {
			t.Fatalf("stream: %v", err)
		}
		events = append(events, event)
	}
	if _, ok := events[0].(*old.Task); !ok {
		t.Errorf("stream: the first event is %T, want the task", events[0])
	}
	if n := len(slices.DeleteFunc(slices.Clone(events), func(e old.Event) bool { _, ok := e.(*old.TaskArtifactUpdateEvent); return !ok })); n != 3 {
		t.Errorf("stream: %d chunks, want 3", n)
	}
	wantFinal(t, "stream", events, old.TaskStateCompleted)

	wantOldErr(t, "get a task that is not there", old.ErrTaskNotFound)(c.GetTask(ctx, &old.TaskQueryParams{ID: "no-such-task"}))
	wantOldErr(t, "cancel a final task", old.ErrTaskNotCancelable)(c.CancelTask(ctx, &old.TaskIDParams{ID: done.ID}))
	if _, err := c.ListTasks(ctx, &old.ListTasksRequest{}); !errors.Is(err, old.ErrMethodNotFound) && !errors.Is(err, old.ErrUnsupportedOperation) {
		t.Errorf("list tasks: %v, want it not to be there", err)
	}
	for event, err := range c.SendStreamingMessage(ctx, oldMessage(fresh("ref-error-UNSUPPORTED_OPERATION"))) {
		if !errors.Is(err, old.ErrUnsupportedOperation) {
			t.Errorf("a stream that the agent refuses: %+v, %v", event, err)
		}
	}
	_ = ref
}

// wantFinal checks that a stream ends with a status that says it is the final one.
func wantFinal(t *testing.T, what string, events []old.Event, state old.TaskState) {
	t.Helper()
	for i, e := range events {
		status, ok := e.(*old.TaskStatusUpdateEvent)
		if final := ok && status.Final; final != (i == len(events)-1) {
			t.Errorf("%s: event %d of %d is %+v", what, i+1, len(events), e)
		} else if final && status.Status.State != state {
			t.Errorf("%s: ended as %s, want %s", what, status.Status.State, state)
		}
	}
}

func wantOldErr(t *testing.T, what string, want error) func(*old.Task, error) {
	t.Helper()
	return func(got *old.Task, err error) {
		t.Helper()
		if !errors.Is(err, want) {
			t.Errorf("%s: %+v, %v; want %v", what, got, err, want)
		}
	}
}
