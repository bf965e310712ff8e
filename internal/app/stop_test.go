package app_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/parley-mesh/parley/internal/a2a"
	"github.com/parley-mesh/parley/internal/config"
	"github.com/parley-mesh/parley/internal/control"
	"github.com/parley-mesh/parley/internal/gateway"
	"github.com/parley-mesh/parley/internal/parley"
	"github.com/parley-mesh/parley/internal/parleytest"
)

func containsFold(text, word string) bool {
	return strings.Contains(strings.ToLower(text), strings.ToLower(word))
}

// connTo is a client of an agent behind a mesh.
func connTo(mesh string, agent parley.AgentName, key string) *a2a.Conn {
	return &a2a.Conn{
		Client:   &a2a.Client{Transport: &http.Transport{DisableCompression: true, MaxIdleConnsPerHost: 64}},
		Endpoint: a2a.Endpoint{URL: mesh + gateway.Prefix + string(agent) + "/", Binding: a2a.JSONRPC, Version: a2a.V10},
		Header:   http.Header{"Authorization": {"Bearer " + key}},
	}
}

func frame(taskID string, state a2a.TaskState) a2a.Frame {
	return a2a.StreamFrame(a2a.StreamResponse{Task: &a2a.Task{ID: taskID, ContextID: "c-" + taskID, Status: a2a.TaskStatus{State: state}}})
}

// TestStopDuringStreams: a stream that ends in time ends well; one that does
// not gets a last frame that says why, and its call goes on in the next run.
// Followers of the event feed hold nobody up.
func TestStopDuringStreams(t *testing.T) {
	m := parleytest.Start(t, parleytest.Options{Configure: func(c *config.Config) {
		c.Limits.ShutdownTimeout = 2 * time.Second
		c.Watch.First, c.Watch.Max = 10*time.Millisecond, 20*time.Millisecond
	}})
	agent := m.Agent("agent")
	short, long := make(chan a2a.Frame, 2), make(chan a2a.Frame, 2)
	agent.Answer(func(_ context.Context, q *a2a.Request) *a2a.Reply {
		if q.Facts.MessageID == "short" {
			return &a2a.Reply{Stream: a2a.NewChanStream(short)}
		}
		return &a2a.Reply{Stream: a2a.NewChanStream(long)}
	})
	short <- frame("t-short", a2a.StateWorking)
	long <- frame("t-long", a2a.StateWorking)
	c := m.Caller("agent", a2a.JSONRPC, m.Key("alice", ""))
	streams, calls := map[string]*a2a.Reply{}, map[string]string{}
	for _, id := range []string{"short", "long"} {
		streams[id], calls[id] = c.Do(t.Context(), a2a.SendStreamingMessage, parleytest.Message(id, "x"))
		if f, err := streams[id].Stream.Next(t.Context()); err != nil || f.Err != nil {
			t.Fatalf("%s: %v, %v", id, f.Err, err)
		}
	}
	followed := make(chan error, 1)
	connected := make(chan struct{}, 1)
	followCtx, unfollow := context.WithCancel(t.Context())
	defer unfollow()
	go func() {
		followed <- m.Admin.FollowEvents(followCtx, 0, func(control.Event) error {
			select {
			case connected <- struct{}{}:
			default:
			}
			return nil
		})
	}()
	<-connected

	go func() { // while the mesh stops
		short <- frame("t-short", a2a.StateCompleted)
		close(short)
	}()
	began := time.Now()
	m.Stop()
	if took := time.Since(began); took > m.Config.Limits.ShutdownTimeout+time.Second {
		t.Errorf("the stop took %v, its one deadline is %v", took, m.Config.Limits.ShutdownTimeout)
	}
	if last := lastOf(t, streams["short"]); last.Err != nil || !last.Facts.Final() {
		t.Errorf("the stream that ended in time ended with %s %v", last.Result, last.Err)
	}
	if last := lastOf(t, streams["long"]); last.Err == nil || !strings.Contains(last.Err.Message, "stopping") {
		t.Errorf("the stream that was broken off ended with %s %v", last.Result, last.Err)
	}
	var at int
	for _, step := range []string{"asked to", `step="finish calls"`, `step="stop background work"`, `step="close the connections to agents"`, `step="flush and close the store"`} {
		i := strings.Index(m.Log()[at:], step)
		if i < 0 {
			t.Fatalf("the log has no line %q in its place:\n%s", step, m.Log()[at:])
		}
		at += i
	}

	agent.Answer(func(_ context.Context, q *a2a.Request) *a2a.Reply {
		one := a2a.Task{ID: q.Facts.TaskID, ContextID: "c", Status: a2a.TaskStatus{State: a2a.StateCompleted}}
		return a2a.Answer(q.Method, &one)
	})
	m.Restart()
	if got := m.EndOf(calls["short"]); got.Outcome != "ok" {
		t.Errorf("the call that ended in time is recorded as %+v", got)
	}
	if got := m.EndOf(calls["long"]); got.Outcome != "ok" || got.TaskState != string(a2a.StateCompleted) {
		t.Errorf("the call that was broken off is recorded as %+v, want as its task ended", got)
	}
}

func lastOf(t *testing.T, reply *a2a.Reply) (last a2a.Frame) {
	t.Helper()
	defer reply.Stream.Close()
	for {
		next, err := reply.Stream.Next(t.Context())
		if errors.Is(err, io.EOF) {
			return last
		}
		if err != nil {
			t.Errorf("the stream broke without a word: %v", err)
			return last
		}
		last = next
	}
}
