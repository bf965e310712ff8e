package app_test

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/parley-mesh/parley/internal/a2a"
	"github.com/parley-mesh/parley/internal/control"
	"github.com/parley-mesh/parley/internal/parleytest"
)

// TestRemovedAgentCallsNoMore: the keys of an agent end with it, at once, and an
// agent of that name under another owner shares nothing with it.
func TestRemovedAgentCallsNoMore(t *testing.T) {
	m := parleytest.Start(t, parleytest.Options{})
	m.Owner("beta")
	worker := m.Agent("worker")
	worker.Answer(func(_ context.Context, q *a2a.Request) *a2a.Reply {
		one := a2a.Task{ID: "t-" + q.Facts.MessageID, ContextID: "c-" + q.Facts.MessageID, Status: a2a.TaskStatus{State: a2a.StateCompleted}}
		if q.Method == a2a.GetTask {
			return &a2a.Reply{Err: a2a.TaskNotFound("t-m")}
		}
		return a2a.Answer(q.Method, a2a.SendMessageResponse{Task: &one})
	})
	planner := parleytest.NewAgent(t)
	m.Add(control.NewAgent{Name: "planner", URL: planner.URL})
	old := m.Caller("worker", a2a.JSONRPC, m.AgentKey("planner"))
	if reply, _ := old.Do(t.Context(), a2a.SendMessage, parleytest.Message("m", "x")); reply.Err != nil {
		t.Fatal(reply.Err)
	}
	if err := m.Admin.RemoveAgent(t.Context(), "planner", 0); err != nil {
		t.Fatal(err)
	}
	reply, _ := old.Do(t.Context(), a2a.SendMessage, parleytest.Message("n", "x"))
	if reply.Err == nil || reply.Err.HTTP != http.StatusUnauthorized {
		t.Errorf("the key of the removed agent is answered with %+v", reply.Err)
	}

	m.Add(control.NewAgent{Name: "planner", URL: planner.URL, Owner: "beta"})
	fresh := m.AgentKey("planner")
	p, err := m.Admin.Principal(t.Context(), "planner")
	if err != nil || p.Owner != "beta" {
		t.Errorf("the new agent calls as %+v, %v", p, err)
	}
	if _, err := m.Admin.AllowOwner(t.Context(), "worker", "beta"); err != nil {
		t.Fatal(err)
	}
	reply, _ = m.Caller("worker", a2a.JSONRPC, fresh).Do(t.Context(), a2a.GetTask, a2a.GetTaskRequest{ID: "t-m"})
	if reply.Err == nil || reply.Err.Reason != a2a.ReasonTaskNotFound {
		t.Errorf("the old agent's task is answered with %+v", reply.Err)
	}
	for _, seen := range worker.Seen() {
		if seen.Method == a2a.GetTask && strings.Contains(string(seen.Params), "t-m") {
			t.Error("the agent was asked for a task that is nobody's")
		}
	}
	if reply, _ := old.Do(t.Context(), a2a.SendMessage, parleytest.Message("o", "x")); reply.Err == nil || reply.Err.HTTP != http.StatusUnauthorized {
		t.Errorf("the old key is answered with %+v once the name is used again", reply.Err)
	}
	keys, err := m.Admin.Keys(t.Context(), "planner", control.List{})
	if err != nil || len(keys.Items) != 1 {
		t.Errorf("keys of the new agent: %+v, %v", keys, err)
	}
}

// TestRemovedAgentKeepsNoConnections: what was open towards an agent is closed
// when the agent is removed.
func TestRemovedAgentKeepsNoConnections(t *testing.T) {
	agent := parleytest.NewAgent(t)
	closed := make(chan string, 64)
	server := httptest.NewUnstartedServer(agent)
	server.Config.ConnState = func(c net.Conn, s http.ConnState) {
		if s == http.StateClosed {
			closed <- c.RemoteAddr().String()
		}
	}
	server.Start()
	defer server.Close()
	agent.SetCard(parleytest.Card(server.URL + "/"))
	m := parleytest.Start(t, parleytest.Options{})
	m.Add(control.NewAgent{Name: "echo", URL: server.URL})
	used := make(chan string, 1)
	agent.Serve(func(w http.ResponseWriter, r *http.Request) {
		used <- r.RemoteAddr
		http.Error(w, "not now", http.StatusServiceUnavailable)
	})
	m.Caller("echo", a2a.JSONRPC, m.Key("alice", "")).Do(t.Context(), a2a.SendMessage, parleytest.Message("m", "hi"))
	if err := m.Admin.RemoveAgent(t.Context(), "echo", 0); err != nil {
		t.Fatal(err)
	}
	conn, patience := <-used, time.After(parleytest.Patience)
	for {
		select {
		case gone := <-closed:
			if gone == conn {
				return
			}
		case <-patience:
			t.Fatal("the connection to the removed agent is still open")
		}
	}
}
