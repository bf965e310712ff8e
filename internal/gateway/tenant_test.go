package gateway_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/parley-mesh/parley/internal/a2a"
	"github.com/parley-mesh/parley/internal/a2a/a2atest"
	"github.com/parley-mesh/parley/internal/control"
	"github.com/parley-mesh/parley/internal/parley"
	"github.com/parley-mesh/parley/internal/parleytest"
)

// TestTenantsOfBothSides: a caller may name the agent as its tenant, in every
// binding; the agent is sent the one of its own card, and never the caller's.
func TestTenantsOfBothSides(t *testing.T) {
	m := parleytest.Start(t, parleytest.Options{})
	key := m.Key("alice", "")
	for _, behind := range bindings {
		for _, inner := range []string{"", "desk-7", "a/b ü"} {
			ref, url := a2atest.Start(t, a2atest.Options{Bindings: []a2a.Binding{behind}, Tenant: inner})
			name := agentName(behind) + "-" + map[string]parley.AgentName{"": "none", "desk-7": "plain", "a/b ü": "odd"}[inner]
			m.Add(control.NewAgent{Name: name, URL: url})
			for _, b := range bindings {
				for _, tenant := range []string{"", "agents." + string(name)} {
					c := m.Caller(name, b, key)
					if b != a2a.GRPC {
						c.Endpoint.Tenant = tenant
					}
					before := len(ref.Seen())
					sent := mustSend(t, c, parleytest.Message(fresh("tck-input-required"), "x"))
					if _, err := c.GetTask(t.Context(), a2a.GetTaskRequest{ID: sent.ID}); err != nil {
						t.Errorf("%s to %s: %v", b, behind, err)
					}
					if _, err := c.CancelTask(t.Context(), a2a.CancelTaskRequest{ID: sent.ID}); err != nil {
						t.Errorf("%s to %s: %v", b, behind, err)
					}
					for _, s := range ref.Seen()[before:] {
						if s.Tenant != inner {
							t.Errorf("%s to %s: %s reached the agent with tenant %q, want %q", b, behind, s.Method, s.Tenant, inner)
						}
					}
				}
			}
		}
	}
}

// TestHostileTenants: a tenant that names anything but the agent at the address is
// refused in all bindings, and reaches nobody.
func TestHostileTenants(t *testing.T) {
	m := parleytest.Start(t, parleytest.Options{})
	key := m.Key("alice", "")
	ref, url := a2atest.Start(t, a2atest.Options{})
	m.Add(control.NewAgent{Name: "agent", URL: url})
	other, otherURL := a2atest.Start(t, a2atest.Options{})
	m.Add(control.NewAgent{Name: "other", URL: otherURL})
	before, beforeOther := len(ref.Seen()), len(other.Seen())
	for _, tenant := range []string{
		"agents.other", "AGENTS.agent", "agents.agent/", "agents.agent ", "agents.", "agent", "agents.agent\x00", "agents.agent/../agents.other",
		"../other", "tasks", "message:send", ".well-known", "contracts.CREDIT@1", "flows.x", "%2e%2e", "agents.agent?x", strings.Repeat("a", 5000),
	} {
		for _, b := range []a2a.Binding{a2a.JSONRPC, a2a.HTTPJSON} {
			c := m.Caller("agent", b, key)
			c.Endpoint.Tenant = tenant
			reply, err := tryDo(t, c, parleytest.Message(fresh("tck-complete-task"), "x"))
			if err == nil && (reply.Err == nil || reply.Err.HTTP < 400 || reply.Err.HTTP >= 500 && reply.Err.HTTP != http.StatusNotImplemented) {
				t.Errorf("%s, tenant %.40q: got %s, %+v; want it refused", b, tenant, reply.Result, reply.Err)
			}
		}
		c := m.Caller("agent", a2a.GRPC, key)
		c.Endpoint.Tenant = tenant
		if reply, err := tryDo(t, c, parleytest.Message(fresh("tck-complete-task"), "x")); err == nil && reply.Err == nil && tenant != "agents.other" {
			t.Errorf("gRPC, tenant %.40q: got %s", tenant, reply.Result)
		}
	}
	if len(ref.Seen()) != before {
		t.Errorf("the agent at the address was reached: %+v", ref.Seen()[before:])
	}
	if n := len(other.Seen()) - beforeOther; n != 1 { // over gRPC the tenant alone names the agent
		t.Errorf("the other agent was reached %d times, want once, by gRPC", n)
	}
}

func tryDo(t *testing.T, c *parleytest.Caller, in a2a.SendMessageRequest) (*a2a.Reply, error) {
	t.Helper()
	q, err := a2a.NewRequest(a2a.SendMessage, in)
	if err != nil {
		return nil, err
	}
	return c.Client.Do(t.Context(), c.Endpoint, q, c.Header)
}
