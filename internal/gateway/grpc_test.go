package gateway_test

import (
	"context"
	"testing"

	"github.com/parley-mesh/parley/internal/a2a"
	"github.com/parley-mesh/parley/internal/parleytest"
)

// bindingsAll are all three.
var bindingsAll = []a2a.Binding{a2a.JSONRPC, a2a.HTTPJSON, a2a.GRPC}

func TestEveryPairOfBindings(t *testing.T) {
	for _, agentSpeaks := range bindingsAll {
		m, agent := start(t, nil, agentSpeaks)
		agent.Answer(func(_ context.Context, q *a2a.Request) *a2a.Reply {
			done := task("t-1", "c-1", a2a.StateCompleted)
			return a2a.Answer(q.Method, a2a.SendMessageResponse{Task: &done})
		})
		key := m.Key("alice", "")
		for _, callerSpeaks := range bindingsAll {
			c := m.Caller("agent", callerSpeaks, key)
			got, err := c.SendMessage(t.Context(), parleytest.Message(fresh("m"), "hello"))
			if err != nil || got.Task == nil || got.Task.ID != "t-1" {
				t.Errorf("%s to %s: %+v, %v\n%s", callerSpeaks, agentSpeaks, got, err, m.Log())
			}
		}
	}
}
