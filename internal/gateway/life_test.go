package gateway_test

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
	"github.com/parley-mesh/parley/internal/parleytest"
)

// hangs answers nothing until the mesh gives up or release is closed.
func hangs(arrived chan<- struct{}, release <-chan struct{}, then func(*a2a.Request) *a2a.Reply) func(context.Context, *a2a.Request) *a2a.Reply {
	return func(ctx context.Context, q *a2a.Request) *a2a.Reply {
		if arrived != nil {
			arrived <- struct{}{}
		}
		select {
		case <-ctx.Done():
			return a2a.Fail(a2a.Internal("given up"))
		case <-release:
			return then(q)
		}
	}
}

// TestDeadlines: every wait for an agent ends, and the record says timeout.
func TestDeadlines(t *testing.T) {
	m, agent := start(t, func(c *config.Config) {
		c.Limits.UnaryTimeout, c.Limits.FirstByteTimeout = 100*time.Millisecond, 80*time.Millisecond
		c.Limits.CallDeadline, c.Watch.First, c.Watch.Max = 400*time.Millisecond, 20*time.Millisecond, 20*time.Millisecond
	})
	c := m.Caller("agent", a2a.JSONRPC, m.Key("alice", ""))

	agent.Answer(hangs(nil, nil, nil))
	reply, id := c.Do(t.Context(), a2a.SendMessage, parleytest.Message(fresh("m"), "x"))
	wantErr(t, "an answer that never comes", reply, a2a.ReasonTimeout)
	wantCall(t, m, id, "timeout", "deadline")

	agent.Serve(func(w http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	reply, id = c.Do(t.Context(), a2a.SendStreamingMessage, parleytest.Message(fresh("m"), "x"))
	wantErr(t, "a stream that never begins", reply, a2a.ReasonTimeout)
	wantCall(t, m, id, "timeout", "deadline")

	frames := make(chan a2a.Frame, 1)
	frames <- taskFrame(task("t-long", "c", a2a.StateWorking))
	agent.Answer(streams(frames))
	reply, id = c.Do(t.Context(), a2a.SendStreamingMessage, parleytest.Message(fresh("m"), "x"))
	if last := lastFrame(t, reply); last.Err == nil || last.Err.Reason != a2a.ReasonTimeout {
		t.Errorf("a stream over the call's deadline ended with %s %v", last.Result, last.Err)
	}
	wantCall(t, m, id, "timeout", "deadline")

	for _, state := range []a2a.TaskState{a2a.StateWorking, a2a.StateInputRequired, a2a.StateAuthRequired} {
		forever := fresh("t-forever")
		agent.Answer(answersTask(task(forever, "c", state)))
		_, id = c.Do(t.Context(), a2a.SendMessage, parleytest.Message(fresh("m"), "x"))
		got := m.WaitCall(control.CallFilter{Task: forever, Method: "SendMessage"}, parleytest.Ended)
		if got.ID != id || got.Outcome != "timeout" || got.Reason != "deadline" {
			t.Errorf("a task in %s over the call's deadline is recorded as %+v", state, got)
		}
	}
}

// TestCallerLeavesABlockingSend: the agent works on, and the record tells how
// it ended.
func TestCallerLeavesABlockingSend(t *testing.T) {
	m, agent := start(t, func(c *config.Config) { c.Watch.First, c.Watch.Max = 10*time.Millisecond, 20*time.Millisecond })
	c := m.Caller("agent", a2a.JSONRPC, m.Key("alice", ""))
	arrived, release := make(chan struct{}, 1), make(chan struct{})
	agent.Answer(hangs(arrived, release, func(q *a2a.Request) *a2a.Reply {
		one := task("t-alone", "c", a2a.StateCompleted)
		return a2a.Answer(q.Method, a2a.SendMessageResponse{Task: &one})
	}))
	ctx, leave := context.WithCancel(t.Context())
	left := make(chan error, 1)
	go func() {
		_, err := c.SendMessage(ctx, parleytest.Message(fresh("m"), "x"))
		left <- err
	}()
	<-arrived
	leave()
	if err := <-left; err == nil {
		t.Fatal("the caller got an answer after it had left")
	}
	close(release)
	got := m.WaitCall(control.CallFilter{Agent: "agent"}, parleytest.Ended)
	if got.Outcome != "ok" || got.TaskID != "t-alone" || got.TaskState != string(a2a.StateCompleted) {
		t.Errorf("the call is recorded as %+v, want ok with its task", got)
	}
	agent.Answer(answersTask(task("t-alone", "c", a2a.StateCompleted)))
	if _, err := c.GetTask(t.Context(), a2a.GetTaskRequest{ID: "t-alone"}); err != nil {
		t.Errorf("the task is not its caller's: %v", err)
	}
}

// TestReadsEndWithTheirCaller.
func TestReadsEndWithTheirCaller(t *testing.T) {
	m, agent := start(t, func(c *config.Config) { c.Watch.First = time.Hour })
	c := m.Caller("agent", a2a.HTTPJSON, m.Key("alice", ""))
	agent.Answer(answersTask(task("t-read", "c", a2a.StateWorking)))
	mustSend(t, c, parleytest.Message(fresh("m"), "x"))
	arrived := make(chan struct{}, 1)
	given := make(chan struct{})
	agent.Answer(func(ctx context.Context, q *a2a.Request) *a2a.Reply {
		arrived <- struct{}{}
		<-ctx.Done()
		close(given)
		return a2a.Fail(a2a.Internal("given up"))
	})
	ctx, leave := context.WithCancel(t.Context())
	go func() { <-arrived; leave() }()
	if _, err := c.GetTask(ctx, a2a.GetTaskRequest{ID: "t-read"}); err == nil {
		t.Fatal("got an answer")
	}
	<-given
	got := m.WaitCall(control.CallFilter{Method: "GetTask"}, parleytest.Ended)
	if got.Outcome != "canceled" || got.Reason != "caller_gone" {
		t.Errorf("the read is recorded as %s %s, want canceled caller_gone", got.Outcome, got.Reason)
	}
}

// TestOpenCallsSurviveARestart: the next run watches what this one left open.
func TestOpenCallsSurviveARestart(t *testing.T) {
	m, agent := start(t, func(c *config.Config) { c.Watch.First, c.Watch.Max = 10*time.Millisecond, 20*time.Millisecond })
	key := m.Key("alice", "")
	agent.Answer(answersTask(task("t-kept", "c", a2a.StateWorking)))
	_, id := m.Caller("agent", a2a.JSONRPC, key).Do(t.Context(), a2a.SendMessage, parleytest.Message(fresh("m"), "x"))
	m.Restart()
	if got := m.Call(id); got.Ended != nil {
		t.Fatalf("the restart ended the call: %+v", got)
	}
	agent.Answer(answersTask(task("t-kept", "c", a2a.StateFailed)))
	got := m.WaitCall(control.CallFilter{Task: "t-kept"}, parleytest.Ended)
	if got.ID != id || got.Outcome != "agent_error" || got.TaskState != string(a2a.StateFailed) {
		t.Errorf("the call is recorded as %+v, want the task's failure", got)
	}
}

// TestLostTaskEndsItsCall: an agent that no longer knows a task it had named
// has crashed, also where it was restarted.
func TestLostTaskEndsItsCall(t *testing.T) {
	m, agent := start(t, func(c *config.Config) { c.Watch.First, c.Watch.Max = 5*time.Millisecond, 10*time.Millisecond })
	c := m.Caller("agent", a2a.JSONRPC, m.Key("alice", ""))
	agent.Answer(answersTask(task("t-lost", "c", a2a.StateWorking)))
	c.Do(t.Context(), a2a.SendMessage, parleytest.Message(fresh("m"), "x"))
	agent.Answer(func(_ context.Context, q *a2a.Request) *a2a.Reply { return a2a.Fail(a2a.TaskNotFound(q.Facts.TaskID)) })
	if got := m.WaitCall(control.CallFilter{Task: "t-lost"}, parleytest.Ended); got.Outcome != "crash" {
		t.Errorf("the call is recorded as %+v, want crash", got)
	}
}

// TestCancelACall: with a task the agent is asked, without one the exchange is
// broken off.
func TestCancelACall(t *testing.T) {
	m, agent := start(t, func(c *config.Config) { c.Watch.First = time.Hour })
	c := m.Caller("agent", a2a.JSONRPC, m.Key("alice", ""))
	agent.Answer(answersTask(task("t-cancel", "c", a2a.StateWorking)))
	_, id := c.Do(t.Context(), a2a.SendMessage, parleytest.Message(fresh("m"), "x"))
	agent.Answer(answersTask(task("t-cancel", "c", a2a.StateCanceled)))
	if got, err := m.Admin.CancelCall(t.Context(), id); err != nil || got.Outcome != "canceled" {
		t.Errorf("cancel with a task: %+v, %v", got, err)
	}
	if _, err := m.Admin.CancelCall(t.Context(), id); err == nil {
		t.Error("an ended call was canceled again")
	}

	arrived := make(chan struct{}, 1)
	agent.Answer(hangs(arrived, nil, nil))
	answered := make(chan *a2a.Error, 1)
	go func() {
		_, err := c.SendMessage(t.Context(), parleytest.Message(fresh("m"), "x"))
		e, _ := errors.AsType[*a2a.Error](err)
		answered <- e
	}()
	<-arrived
	open := m.WaitCall(control.CallFilter{Outcome: "open"}, func(control.Call) bool { return true })
	if _, err := m.Admin.CancelCall(t.Context(), open.ID); err != nil {
		t.Errorf("cancel without a task: %v", err)
	}
	if e := <-answered; e == nil {
		t.Error("the caller of a canceled call got no error")
	}
	if got := m.WaitCall(control.CallFilter{Agent: "agent"}, func(x control.Call) bool { return x.ID == open.ID && parleytest.Ended(x) }); got.Outcome != "canceled" {
		t.Errorf("the call is recorded as %+v", got)
	}
}

// TestAgentDies in all the ways a unary exchange can break.
func TestAgentDies(t *testing.T) {
	m, agent := start(t, nil, a2a.HTTPJSON)
	c := m.Caller("agent", a2a.HTTPJSON, m.Key("alice", ""))
	for what, tc := range map[string]struct {
		answer  http.HandlerFunc
		reason  a2a.Reason
		outcome string
	}{
		"cut before an answer": {func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, a2a.ReasonUnavailable, "crash"},
		"cut inside an answer": {func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "application/a2a+json")
			w.Header().Set("Content-Length", "1000")
			_, _ = io.WriteString(w, `{"message":`)
			w.(http.Flusher).Flush()
			panic(http.ErrAbortHandler)
		}, a2a.ReasonUnavailable, "crash"},
		"nonsense": {func(w http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(w, "<html>hello</html>") }, a2a.ReasonInvalidAgentResponse, "crash"},
		"empty":    {func(w http.ResponseWriter, r *http.Request) {}, a2a.ReasonInvalidAgentResponse, "crash"},
		"a page of an intermediary": {func(w http.ResponseWriter, r *http.Request) {
			http.Error(w, "<html>10.1.2.3 upstream</html>", http.StatusBadGateway)
		}, "", "crash"},
		"a redirect": {func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "http://10.1.2.3/internal", http.StatusFound)
		}, "", "crash"},
		"too large": {func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "application/a2a+json")
			chunk := make([]byte, 1<<20)
			for range 12 {
				if _, err := w.Write(chunk); err != nil {
					return
				}
			}
		}, a2a.ReasonInvalidAgentResponse, "crash"},
	} {
		t.Run(what, func(t *testing.T) {
			agent.Serve(tc.answer)
			reply, id := c.Do(t.Context(), a2a.SendMessage, parleytest.Message(fresh("m"), "x"))
			if tc.reason != "" {
				wantErr(t, what, reply, tc.reason)
			}
			if reply.Err == nil {
				t.Fatalf("got %s", reply.Result)
			}
			wantCall(t, m, id, tc.outcome, "")
			mustHideInternals(t, m, agent, string(reply.Err.REST())+string(reply.Raw))
		})
	}
}

// TestRecordNamesTheFlaw: an operator sees which part of an answer was not the
// protocol; what the agent wrote there is in no record.
func TestRecordNamesTheFlaw(t *testing.T) {
	m, agent := start(t, nil, a2a.HTTPJSON)
	c := m.Caller("agent", a2a.HTTPJSON, m.Key("alice", ""))
	for answer, want := range map[string]string{
		`{"task":{"id":"t","contextId":"c","status":{"state":"hunter2"}}}`:                       "/task/status/state is not one of the defined values",
		`{"task":{"id":"t","contextId":"c","status":{}}}`:                                        "/task/status/state is required",
		`{"message":{"messageId":7,"role":"ROLE_AGENT","parts":[]}}`:                             "/message/messageId must be a string",
		`{"message":{"messageId":"m","role":"ROLE_AGENT","metadata":{"hunter2":{"a":1,"a":2}}}}`: "/message/metadata the name is used twice",
		`<html>hunter2</html>`: "not valid JSON",
	} {
		agent.Serve(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "application/a2a+json")
			_, _ = io.WriteString(w, answer)
		})
		reply, id := c.Do(t.Context(), a2a.SendMessage, parleytest.Message(fresh("m"), "x"))
		wantErr(t, answer, reply, a2a.ReasonInvalidAgentResponse)
		got := wantCall(t, m, id, "crash", "nonsense")
		if !strings.Contains(got.Detail, "the agent's answer is not A2A 1.0: ") || !strings.Contains(got.Detail, want) || strings.Contains(got.Detail, "hunter2") {
			t.Errorf("%s is recorded as %q, want %q and nothing of the agent's", answer, got.Detail, want)
		}
		if strings.Contains(reply.Err.Message, "/") {
			t.Errorf("the caller reads %q", reply.Err.Message)
		}
	}
}
