package gateway_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/parley-mesh/parley/internal/a2a"
	"github.com/parley-mesh/parley/internal/config"
	"github.com/parley-mesh/parley/internal/control"
	"github.com/parley-mesh/parley/internal/parleytest"
)

var bindings = []a2a.Binding{a2a.JSONRPC, a2a.HTTPJSON, a2a.GRPC}

// start runs a mesh with a scripted agent named "agent" behind it.
func start(t *testing.T, configure func(*config.Config), bindings ...a2a.Binding) (*parleytest.Mesh, *parleytest.Agent) {
	t.Helper()
	m := parleytest.Start(t, parleytest.Options{Configure: configure})
	return m, m.Agent("agent", bindings...)
}

var counter atomic.Int64

// fresh makes an id that no test used before.
func fresh(prefix string) string { return fmt.Sprintf("%s-%d", prefix, counter.Add(1)) }

// task is a task in a state.
func task(id, contextID string, state a2a.TaskState) a2a.Task {
	now := a2a.Now()
	return a2a.Task{ID: id, ContextID: contextID, Status: a2a.TaskStatus{State: state, Timestamp: &now}}
}

// answersTask answers a send with a task and every look at it with the same.
func answersTask(tk a2a.Task) func(context.Context, *a2a.Request) *a2a.Reply {
	return func(_ context.Context, q *a2a.Request) *a2a.Reply {
		switch {
		case q.Method == a2a.SendMessage:
			return a2a.Answer(q.Method, a2a.SendMessageResponse{Task: &tk})
		case q.Facts.TaskID != tk.ID:
			return a2a.Fail(a2a.TaskNotFound(q.Facts.TaskID))
		}
		return a2a.Answer(q.Method, &tk)
	}
}

// status is a frame that tells a state.
func status(taskID, contextID string, state a2a.TaskState) a2a.Frame {
	now := a2a.Now()
	return a2a.StreamFrame(a2a.StreamResponse{StatusUpdate: &a2a.TaskStatusUpdateEvent{
		TaskID: taskID, ContextID: contextID, Status: a2a.TaskStatus{State: state, Timestamp: &now},
	}})
}

// taskFrame is a frame that shows a whole task.
func taskFrame(tk a2a.Task) a2a.Frame { return a2a.StreamFrame(a2a.StreamResponse{Task: &tk}) }

// streams answers a streaming method with what comes through frames.
func streams(frames <-chan a2a.Frame) func(context.Context, *a2a.Request) *a2a.Reply {
	return func(_ context.Context, q *a2a.Request) *a2a.Reply {
		return &a2a.Reply{Stream: a2a.NewChanStream(frames)}
	}
}

// wantErr checks that a reply is an error of that reason. Callers who ask for a
// stream may get it as the stream's only frame.
func wantErr(t *testing.T, what string, reply *a2a.Reply, want a2a.Reason) {
	t.Helper()
	if reply.Stream != nil {
		defer reply.Stream.Close()
		frame, err := reply.Stream.Next(t.Context())
		if err != nil {
			t.Errorf("%s: the stream ended with %v, want %s", what, err, want)
			return
		}
		reply = &a2a.Reply{Result: frame.Result, Err: frame.Err}
	}
	if reply.Err == nil || reply.Err.Reason != want {
		t.Errorf("%s: got result %s and error %v, want %s", what, reply.Result, reply.Err, want)
	}
}

// wantCall checks how a call ends.
func wantCall(t *testing.T, m *parleytest.Mesh, id, outcome, reason string) control.Call {
	t.Helper()
	got := m.EndOf(id)
	if got.Outcome != outcome || reason != "" && got.Reason != reason {
		t.Errorf("call %s (%s) is recorded as %s %q (%s), want %s %q", id, got.Method, got.Outcome, got.Reason, got.Detail, outcome, reason)
	}
	return got
}
