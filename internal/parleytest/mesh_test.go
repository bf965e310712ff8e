package parleytest

import (
	"context"
	"testing"

	"github.com/parley-mesh/parley/internal/a2a"
	"github.com/parley-mesh/parley/internal/control"
)

func TestOneCallAndARestart(t *testing.T) {
	m := Start(t, Options{})
	agent := m.Agent("echo")
	agent.Answer(func(_ context.Context, q *a2a.Request) *a2a.Reply {
		return a2a.Answer(q.Method, a2a.SendMessageResponse{Message: &a2a.Message{MessageID: "m2", Role: a2a.RoleAgent, Parts: []a2a.Part{a2a.TextPart("yes")}}})
	})
	key := m.Key("alice", "")
	for range 2 {
		reply, id := m.Caller("echo", a2a.JSONRPC, key).Do(t.Context(), a2a.SendMessage, Message("", "hello"))
		if reply.Err != nil {
			t.Fatalf("the call failed: %v", reply.Err)
		}
		if got := m.WaitCall(control.CallFilter{Agent: "echo"}, Ended); got.Outcome != "ok" || got.Caller != "alice" {
			t.Errorf("call %s is recorded as %+v", id, got)
		}
		m.Restart()
	}
	if got := len(m.Calls(control.CallFilter{Agent: "echo"})); got != 2 {
		t.Errorf("%d calls are on record after restarts, want 2", got)
	}
}
