package gateway_test

import (
	"strings"
	"testing"

	"github.com/parley-mesh/parley/internal/a2a"
	"github.com/parley-mesh/parley/internal/control"
	"github.com/parley-mesh/parley/internal/parleytest"
)

// An agent that does not declare streaming is not asked for a stream, and is
// not blamed for having none.
func TestAgentThatDoesNotStreamIsNotAskedTo(t *testing.T) {
	m := parleytest.Start(t, parleytest.Options{})
	agent := parleytest.NewAgent(t, a2a.JSONRPC)
	card := parleytest.Card(agent.URL, a2a.JSONRPC)
	no := false
	card.Capabilities.Streaming = &no
	agent.SetCard(card)
	m.Add(control.NewAgent{Name: "plain", URL: agent.URL})
	before := len(agent.Seen())
	caller := m.Caller("plain", a2a.HTTPJSON, m.Key("alice", ""))
	reply, id := caller.Do(t.Context(), a2a.SendStreamingMessage, parleytest.Message("m", "hi"))
	if reply.Err == nil || reply.Err.Reason != a2a.ReasonUnsupportedOperation {
		t.Errorf("answered %+v, want UnsupportedOperation", reply.Err)
	}
	if got := len(agent.Seen()); got != before {
		t.Errorf("the agent was asked %d times", got-before)
	}
	if got := m.Call(id); got.Outcome != "caller_error" {
		t.Errorf("outcome %q, want caller_error", got.Outcome)
	}
}

// A name that no agent can have is answered with what is wrong with it.
func TestImpossibleAgentNameIsNamed(t *testing.T) {
	m := parleytest.Start(t, parleytest.Options{})
	reply, _ := m.Caller("UP", a2a.JSONRPC, m.Key("alice", "")).Do(t.Context(), a2a.SendMessage, parleytest.Message("m", "hi"))
	if reply.Err == nil || !strings.Contains(reply.Err.Message, `"UP"`) {
		t.Errorf("answered %+v, want the name in it", reply.Err)
	}
}
