package gateway_test

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/parley-mesh/parley/internal/a2a"
	"github.com/parley-mesh/parley/internal/a2a/a2atest"
	"github.com/parley-mesh/parley/internal/config"
	"github.com/parley-mesh/parley/internal/control"
	"github.com/parley-mesh/parley/internal/parley"
	"github.com/parley-mesh/parley/internal/parleytest"
)

func agentName(b a2a.Binding) parley.AgentName {
	return parley.AgentName("agent-" + strings.ToLower(strings.ReplaceAll(string(b), "+", "-")))
}

// declaring registers a scripted agent that declares an extended card and
// answers for it with what card gives.
func declaring(t *testing.T, m *parleytest.Mesh, name parley.AgentName, behind a2a.Binding, card func() any) (agent *parleytest.Agent, asked *atomic.Int64) {
	t.Helper()
	agent, asked = parleytest.NewAgent(t, behind), new(atomic.Int64)
	public := parleytest.Card(agent.URL, behind)
	if behind == a2a.GRPC {
		public.SupportedInterfaces[0].URL = agent.GRPC
	}
	yes := true
	public.Capabilities.ExtendedAgentCard = &yes
	agent.SetCard(public)
	agent.Answer(func(_ context.Context, q *a2a.Request) *a2a.Reply {
		if q.Method != a2a.GetExtendedCard {
			return a2a.Fail(a2a.TaskNotFound(q.Facts.TaskID))
		}
		asked.Add(1)
		switch c := card().(type) {
		case *a2a.Error:
			return a2a.Fail(c)
		default:
			return a2a.Answer(q.Method, c)
		}
	})
	m.Add(control.NewAgent{Name: name, URL: agent.URL})
	return agent, asked
}

// TestExtendedCardIsTheAgentsOwn: it is had with the mesh's credential, shown
// with the mesh's addresses, once for all who may call, and to nobody else.
func TestExtendedCardIsTheAgentsOwn(t *testing.T) {
	m := parleytest.Start(t, parleytest.Options{})
	alice := m.Key("alice", "")
	m.Owner("elsewhere")
	outsider := m.Key("olaf", "elsewhere")
	for _, behind := range bindings {
		ref, url := a2atest.Start(t, a2atest.Options{
			Extended: a2atest.ExtendedServed, Bindings: []a2a.Binding{behind}, Credentials: map[string]string{"Bearer inner-token": "mesh"},
		})
		name := agentName(behind)
		auth := &control.NewAuth{Kind: "bearer", Secret: "inner-token"}
		if address := ref.Address(); address != "" {
			auth.Origin = "http://" + address
		}
		m.Add(control.NewAgent{Name: name, URL: url, Auth: auth})
		before := len(ref.Seen())
		for _, b := range bindings {
			reply, id := m.Caller(name, b, alice).Do(t.Context(), a2a.GetExtendedCard, a2a.GetExtendedCardRequest{})
			if reply.Err != nil {
				t.Fatalf("%s to %s: %v", b, behind, reply.Err)
			}
			card, problems := a2a.ParseCard(reply.Result)
			if card == nil {
				t.Fatalf("%s to %s: the card does not pass: %v", b, behind, problems)
			}
			if len(card.Skills) != 2 || card.Capabilities.ExtendedAgentCard == nil || !*card.Capabilities.ExtendedAgentCard {
				t.Errorf("%s to %s: skills %+v, capabilities %+v", b, behind, card.Skills, card.Capabilities)
			}
			if len(card.SupportedInterfaces) != 5 || card.SupportedInterfaces[0].URL != m.Ready.Public+"/agents/"+string(name)+"/" {
				t.Errorf("%s to %s: interfaces %+v, want the mesh's", b, behind, card.SupportedInterfaces)
			}
			if text := string(reply.Result); strings.Contains(text, hostOf(url)) || ref.Address() != "" && strings.Contains(text, ref.Address()) {
				t.Errorf("%s to %s: the card tells where the agent lives: %s", b, behind, text)
			}
			wantCall(t, m, id, "ok", "")
			reply, id = m.Caller(name, b, outsider).Do(t.Context(), a2a.GetExtendedCard, a2a.GetExtendedCardRequest{})
			wantErr(t, "by one who may not call", reply, a2a.ReasonForbidden)
			wantCall(t, m, id, "denied", "")
			reply, _ = m.Caller(name, b, "").Do(t.Context(), a2a.GetExtendedCard, a2a.GetExtendedCardRequest{})
			wantErr(t, "by nobody known", reply, a2a.ReasonUnauthenticated)
		}
		asked := ref.Seen()[before:]
		if len(asked) != 1 || asked[0].Header.Get("Authorization") != "Bearer inner-token" {
			t.Errorf("%s: the agent was asked %+v, want once, with the mesh's credential", behind, asked)
		}
	}
}

// TestExtendedCardNeedsACredential, also of an agent that is open to callers
// without one.
func TestExtendedCardNeedsACredential(t *testing.T) {
	m := parleytest.Start(t, parleytest.Options{Configure: func(c *config.Config) { c.Auth.Anonymous = []parley.AgentName{"open"} }})
	_, asked := declaring(t, m, "open", a2a.JSONRPC, func() any { return parleytest.Card("http://127.0.0.1:1/") })
	for _, b := range bindings {
		reply, _ := m.Caller("open", b, "").Do(t.Context(), a2a.GetExtendedCard, a2a.GetExtendedCardRequest{})
		wantErr(t, string(b), reply, a2a.ReasonUnauthenticated)
		if reply.Err != nil && reply.Err.Challenge == "" {
			t.Errorf("%s: no challenge", b)
		}
	}
	if asked.Load() != 0 {
		t.Error("the agent was asked for a stranger")
	}
}

// TestExtendedCardFailures: what the agent says passes; what cannot be shown is
// not shown, and says nothing of why to callers.
func TestExtendedCardFailures(t *testing.T) {
	m := parleytest.Start(t, parleytest.Options{})
	key := m.Key("alice", "")
	var give atomic.Pointer[any]
	_, asked := declaring(t, m, "agent", a2a.HTTPJSON, func() any { return *give.Load() })
	secret := parleytest.Card("http://127.0.0.1:1/")
	secret.Description = "use Authorization: Bearer " + "a1b2c3d4e5f6g7h8i9j0k1l2m3"
	for name, tc := range map[string]struct {
		card    any
		want    a2a.Reason
		outcome string
	}{
		"declared and missing": {a2a.NewError(a2a.ReasonExtendedCardMissing, "none today"), a2a.ReasonExtendedCardMissing, "agent_error"},
		"unsupported":          {a2a.UnsupportedOperation("no"), a2a.ReasonUnsupportedOperation, "agent_error"},
		"a secret in it":       {secret, a2a.ReasonInvalidAgentResponse, "crash"},
		"not a card":           {map[string]any{"name": "x"}, a2a.ReasonInvalidAgentResponse, "crash"},
	} {
		give.Store(&tc.card)
		for _, b := range bindings {
			reply, id := m.Caller("agent", b, key).Do(t.Context(), a2a.GetExtendedCard, a2a.GetExtendedCardRequest{})
			wantErr(t, name+" by "+string(b), reply, tc.want)
			wantCall(t, m, id, tc.outcome, "")
			if reply.Err != nil && strings.Contains(string(reply.Err.RPC()), "a1b2c3d4e5f6") {
				t.Errorf("%s: the caller reads the secret: %s", name, reply.Err.RPC())
			}
		}
	}
	if asked.Load() != int64(4*len(bindings)) {
		t.Errorf("the agent was asked %d times: a failure was kept", asked.Load())
	}
}

// TestExtendedCardTakesThePublicOnesPlace for what the mesh knows of the agent.
func TestExtendedCardTakesThePublicOnesPlace(t *testing.T) {
	m := parleytest.Start(t, parleytest.Options{})
	key := m.Key("alice", "")
	more := parleytest.Card("http://127.0.0.1:1/")
	more.Capabilities.Extensions = []a2a.AgentExtension{{URI: shout}}
	agent, _ := declaring(t, m, "agent", a2a.JSONRPC, func() any { return more })
	c := m.Caller("agent", a2a.JSONRPC, key).With(a2a.HeaderExtensions, shout)
	ask := func() string {
		c.Do(t.Context(), a2a.SendMessage, parleytest.Message(fresh("m"), "x"))
		return agent.Last().Header.Get(a2a.HeaderExtensions)
	}
	if got := ask(); got != "" {
		t.Errorf("before: the agent was asked for %q, which its public card does not declare", got)
	}
	for range 2 { // also once it says nothing of extendedAgentCard itself
		reply, _ := c.Do(t.Context(), a2a.GetExtendedCard, a2a.GetExtendedCardRequest{})
		if reply.Err != nil || !strings.Contains(string(reply.Result), shout) {
			t.Fatalf("got %s, %v", reply.Result, reply.Err)
		}
	}
	if got := ask(); got != shout {
		t.Errorf("after: the agent was asked for %q, want %s", got, shout)
	}
}
