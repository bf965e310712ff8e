package gateway_test

import (
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	old "github.com/a2aproject/a2a-go/a2a"

	"github.com/parley-mesh/parley/internal/a2a"
	"github.com/parley-mesh/parley/internal/a2a/a2atest"
	"github.com/parley-mesh/parley/internal/a2a/cardsign"
	"github.com/parley-mesh/parley/internal/control"
	"github.com/parley-mesh/parley/internal/parley"
	"github.com/parley-mesh/parley/internal/parleytest"
)

// TestExtendedCardInBothVersions: that of an agent of either version, over each of its
// bindings, is had by callers of either version over each of theirs, with the mesh's
// addresses and signature.
func TestExtendedCardInBothVersions(t *testing.T) {
	m := parleytest.Start(t, parleytest.Options{Configure: wildcard})
	key := m.Key("alice", "")
	add := func(name parley.AgentName, transport old.TransportProtocol) (addresses []string) {
		agent := a2atest.NewOldAgent(t)
		agent.Show("", func(c *old.AgentCard) {
			c.SupportsAuthenticatedExtendedCard = true
			c.PreferredTransport, c.AdditionalInterfaces = transport, nil
			if transport == old.TransportProtocolGRPC {
				c.URL = agent.Address
			}
		})
		m.Add(control.NewAgent{Name: name, URL: agent.URL})
		return []string{agent.URL, agent.Address}
	}
	hidden := map[parley.AgentName][]string{"rpc": add("rpc", old.TransportProtocolJSONRPC), "grpc": add("grpc", old.TransportProtocolGRPC)}
	_, url := a2atest.Start(t, a2atest.Options{
		Extended: a2atest.ExtendedServed, Bindings: []a2a.Binding{a2a.JSONRPC}, Credentials: map[string]string{"Bearer inner-token": "mesh"},
	})
	m.Add(control.NewAgent{Name: "new", URL: url, Auth: &control.NewAuth{Kind: "bearer", Secret: "inner-token"}})
	hidden["new"] = []string{url}
	fetched(t, m.URL("rpc")+".well-known/agent-card.json") // there is a key from the first card on
	keys, _ := fetched(t, m.Ready.Public+"/.well-known/jwks.json")
	set, err := cardsign.ParseKeySet(keys, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	for name, addresses := range hidden {
		check := func(by string, raw []byte) {
			t.Helper()
			card, problems := a2a.ParseCard(raw)
			if card == nil {
				t.Errorf("%s by %s: %v", name, by, problems)
				return
			}
			if len(card.Skills) != 2 || card.SupportedInterfaces[0].URL != m.Ready.Public+"/agents/"+string(name)+"/" {
				t.Errorf("%s by %s: skills %+v, interfaces %+v", name, by, card.Skills, card.SupportedInterfaces)
			}
			for _, address := range addresses {
				if strings.Contains(string(raw), strings.TrimPrefix(address, "http://")) {
					t.Errorf("%s by %s: the card tells where the agent lives: %s", name, by, raw)
				}
			}
		}
		signed := func(by string, raw []byte) {
			t.Helper()
			if v, err := cardsign.Verify(t.Context(), raw, set); err != nil || len(v.Valid) == 0 || len(v.Problems) > 0 {
				t.Errorf("%s by %s: verified %+v, %v", name, by, v, err)
			}
		}
		for _, b := range bindings {
			reply, id := m.Caller(name, b, key).Do(t.Context(), a2a.GetExtendedCard, a2a.GetExtendedCardRequest{})
			if reply.Err != nil {
				t.Errorf("%s by %s: %v", name, b, reply.Err)
				continue
			}
			check(string(b), reply.Result)
			if b != a2a.GRPC { // whose client reads it anew
				signed(string(b), reply.Result)
			}
			wantCall(t, m, id, "ok", "")
		}
		_, raw := post(t, m.URL(name), key, `{"jsonrpc":"2.0","id":1,"method":"agent/getAuthenticatedExtendedCard"}`, map[string]string{a2a.HeaderVersion: "0.3"})
		var answer struct{ Result json.RawMessage }
		if err := json.Unmarshal(raw, &answer); err != nil || answer.Result == nil {
			t.Errorf("%s by JSON-RPC of 0.3: %s", name, raw)
			continue
		}
		check("JSON-RPC of 0.3", answer.Result)
		signed("JSON-RPC of 0.3", answer.Result)
		raw = oldREST(t, http.MethodGet, m.URL(name)+"v1/card", key, "")
		check("HTTP+JSON of 0.3", raw)
		signed("HTTP+JSON of 0.3", raw)
		if card, err := oldCaller(t, m.URL(name), key).GetAgentCard(t.Context()); err != nil || len(card.Skills) != 2 {
			t.Errorf("%s by a stock client of 0.3: %+v, %v", name, card, err)
		}
		if card, err := oldGRPCCaller(t, m, string(name)+".mesh.test:443", key).GetAgentCard(t.Context()); err != nil || len(card.Skills) != 2 || card.URL != m.Ready.Public+"/agents/"+string(name)+"/" {
			t.Errorf("%s by a stock client of 0.3 over gRPC: %+v, %v", name, card, err)
		}
	}
}

// oldREST sends a request of 0.3 over HTTP+JSON that must succeed.
func oldREST(t *testing.T, verb, url, key, body string) []byte {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), verb, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+key)
	req.Header.Set("Content-Type", "application/json")
	resp, err := http.DefaultTransport.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("%s %s: %s %s, %v", verb, url, resp.Status, raw, err)
	}
	return raw
}
