package gateway_test

import (
	"context"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/parley-mesh/parley/internal/a2a"
	"github.com/parley-mesh/parley/internal/control"
	"github.com/parley-mesh/parley/internal/parleytest"
	"github.com/parley-mesh/parley/internal/registry"
	"github.com/parley-mesh/parley/internal/tokentest"
)

const clientSecret = "s3cret+with:signs&more"

// guarded is an agent that wants tokens of an endpoint, behind a mesh that has
// the client's secret. calls counts the sends that it took.
func guarded(t *testing.T, endpoint *tokentest.Endpoint) (m *parleytest.Mesh, agent *parleytest.Agent, calls *atomic.Int64) {
	t.Helper()
	m = parleytest.Start(t, parleytest.Options{})
	agent = parleytest.NewAgent(t)
	calls = new(atomic.Int64)
	agent.Answer(func(ctx context.Context, q *a2a.Request) *a2a.Reply {
		if !endpoint.Good(q.Header.Get("Authorization")) {
			return a2a.Fail(a2a.NewError(a2a.ReasonUnauthenticated, "show a token"))
		}
		if q.Method != a2a.SendMessage {
			return a2a.Fail(a2a.TaskNotFound(q.Facts.TaskID))
		}
		calls.Add(1)
		return says("done")(ctx, q)
	})
	m.Add(control.NewAgent{Name: "agent", URL: agent.URL, Auth: &control.NewAuth{
		Kind: registry.OAuth2, Name: endpoint.Client, Secret: endpoint.Secret,
		OAuth2: &control.OAuth2{TokenURL: endpoint.URL, Scopes: []string{"read", "write"}, Audience: "https://agent.example"},
	}})
	return m, agent, calls
}

// TestClientCredentials: the mesh gets a token, keeps it, and gets another one
// where the agent refuses it; the agent sees each send once more at most.
func TestClientCredentials(t *testing.T) {
	endpoint := tokentest.New(t, "mesh at/home", clientSecret)
	m, agent, calls := guarded(t, endpoint)
	key := m.Key("alice", "")
	ctx := t.Context()
	for _, b := range bindings {
		for range 3 {
			if reply, _ := m.Caller("agent", b, key).Do(ctx, a2a.SendMessage, parleytest.Message(fresh("m"), "x")); reply.Err != nil {
				t.Fatalf("%s: %v\n%s", b, reply.Err, m.Log())
			}
		}
	}
	asked := endpoint.Asked()
	if len(asked) != 1 {
		t.Fatalf("the endpoint was asked %d times for one token that lives an hour", len(asked))
	}
	if got := asked[0].Get("scope") + "|" + asked[0].Get("audience"); got != "read write|https://agent.example" {
		t.Errorf("asked for scope and audience %q", got)
	}
	for _, b := range bindings {
		before, took := len(agent.Seen()), calls.Load()
		endpoint.Revoke()
		reply, id := m.Caller("agent", b, key).Do(ctx, a2a.SendMessage, parleytest.Message(fresh("m"), "x"))
		if reply.Err != nil {
			t.Fatalf("%s: a revoked token was not replaced: %v", b, reply.Err)
		}
		wantCall(t, m, id, "ok", "")
		if n := len(agent.Seen()) - before; n != 2 || calls.Load() != took+1 {
			t.Errorf("%s: the agent saw %d requests and took %d, want 2 and 1", b, n, calls.Load()-took)
		}
	}
	if strings.Contains(m.Log(), clientSecret) || strings.Contains(m.Log(), "token-1") {
		t.Error("the log holds a secret or a token")
	}
}

// TestRefusedTwice: where the agent refuses the fresh token too, the caller is
// told that it is the mesh's credential, and nothing is tried a third time.
func TestRefusedTwice(t *testing.T) {
	endpoint := tokentest.New(t, "mesh", clientSecret)
	m, agent, _ := guarded(t, endpoint)
	key := m.Key("alice", "")
	agent.Answer(func(context.Context, *a2a.Request) *a2a.Reply {
		return a2a.Fail(a2a.NewError(a2a.ReasonUnauthenticated, "no"))
	})
	before := len(agent.Seen())
	reply, id := m.Caller("agent", a2a.JSONRPC, key).Do(t.Context(), a2a.SendMessage, parleytest.Message("m", "x"))
	wantErr(t, "an agent that takes no token", reply, a2a.ReasonUnavailable)
	mustHideInternals(t, m, agent, reply.Err.Message)
	if got := m.Call(id).Outcome; got != "agent_error" {
		t.Errorf("outcome %q, want agent_error", got)
	}
	if n := len(agent.Seen()) - before; n != 2 {
		t.Errorf("the agent was asked %d times, want 2", n)
	}
}

// TestNoToken: an endpoint that fails sends nothing to the agent; the caller
// learns no internals, the operator's log the reason, and the endpoint is not
// asked once per call.
func TestNoToken(t *testing.T) {
	endpoint := tokentest.New(t, "mesh", clientSecret)
	endpoint.Life(0) // every call needs a token of its own
	m, agent, _ := guarded(t, endpoint)
	key := m.Key("alice", "")
	endpoint.Break(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusBadRequest)
		_, _ = w.Write([]byte(`{"error":"invalid_scope","error_description":"` + clientSecret + `"}`))
	})
	endpoint.Revoke()
	before := endpoint.Seen()
	for i := range 5 {
		seen := len(agent.Seen())
		reply, id := m.Caller("agent", a2a.JSONRPC, key).Do(t.Context(), a2a.SendMessage, parleytest.Message(fresh("m"), "x"))
		if i == 0 && reply.Err != nil && len(agent.Seen()) > seen {
			continue // a token that had not ended yet was refused by the agent
		}
		wantErr(t, "no token", reply, a2a.ReasonUnavailable)
		mustHideInternals(t, m, agent, reply.Err.Message)
		wantCall(t, m, id, "agent_error", "token")
		if len(agent.Seen()) != seen {
			t.Error("something was sent to the agent without a token")
		}
	}
	if n := endpoint.Seen() - before; n > 3 {
		t.Errorf("a broken endpoint was asked %d times for 5 calls in a row", n)
	}
	if log := m.Log(); !strings.Contains(log, "invalid_scope") || strings.Contains(log, clientSecret) {
		t.Error("the log must tell the endpoint's error code, and nothing of its text")
	}
}

// TestClientCredentialsOverGRPC: the agent's UNAUTHENTICATED is its 401.
func TestClientCredentialsOverGRPC(t *testing.T) {
	endpoint := tokentest.New(t, "mesh", clientSecret)
	m := parleytest.Start(t, parleytest.Options{})
	agent := parleytest.NewAgent(t, a2a.GRPC)
	var calls atomic.Int64
	agent.Answer(func(ctx context.Context, q *a2a.Request) *a2a.Reply {
		if !endpoint.Good(q.Header.Get("Authorization")) {
			return a2a.Fail(a2a.NewError(a2a.ReasonUnauthenticated, "show a token"))
		}
		if q.Method != a2a.SendMessage {
			return a2a.Fail(a2a.TaskNotFound(q.Facts.TaskID))
		}
		calls.Add(1)
		return says("done")(ctx, q)
	})
	m.Add(control.NewAgent{Name: "agent", URL: agent.URL, Auth: &control.NewAuth{
		Kind: registry.OAuth2, Name: endpoint.Client, Secret: endpoint.Secret, Origin: "http://" + agent.GRPC,
		OAuth2: &control.OAuth2{TokenURL: endpoint.URL},
	}})
	key := m.Key("alice", "")
	for i := range 2 {
		reply, _ := m.Caller("agent", a2a.JSONRPC, key).Do(t.Context(), a2a.SendMessage, parleytest.Message(fresh("m"), "x"))
		if reply.Err != nil || calls.Load() != int64(i+1) {
			t.Fatalf("call %d: %v, the agent took %d\n%s", i, reply.Err, calls.Load(), m.Log())
		}
		endpoint.Revoke()
	}
}
