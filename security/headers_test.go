package security_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/parley-mesh/parley/internal/a2a"
	"github.com/parley-mesh/parley/internal/control"
	"github.com/parley-mesh/parley/internal/parley"
	"github.com/parley-mesh/parley/internal/parleytest"
)

// TestHeaderSmuggling: a caller writes headers that agents trust from their own
// surroundings. None of them arrives, however it is written.
func TestHeaderSmuggling(t *testing.T) {
	m := parleytest.Start(t, parleytest.Options{Configure: sendsAgain})
	key := m.Key("alice", "")
	for _, b := range []a2a.Binding{a2a.JSONRPC, a2a.HTTPJSON} {
		name := strings.ToLower(strings.Trim(string(b), "+")[:4]) // json, http
		agent := parleytest.NewAgent(t, b)
		m.Add(control.NewAgent{Name: parley.AgentName("agent-" + name), URL: agent.URL, Auth: &control.NewAuth{Kind: "bearer", Secret: "the-meshes-own"}})
		agent.Answer(yes)
		evil := []string{
			"X-Forwarded-User: admin", "X-Forwarded-For: 127.0.0.1", "X-Forwarded-Host: inner", "X-Real-IP: 127.0.0.1", "Forwarded: for=127.0.0.1",
			"X-Remote-User: admin", "X-Auth-Request-Email: root@example.com", "X-Original-URL: /admin", "X-Rewrite-URL: /admin",
			"X-HTTP-Method-Override: DELETE", "Cookie: id=stolen", "Proxy-Authorization: Basic cm9vdDpyb290", "Txn-Token: forged",
			"Connection: keep-alive, X-Forwarded-User, Traceparent", "Keep-Alive: timeout=5", "TE: trailers", "Upgrade: h2c", "Proxy-Connection: keep-alive",
			"Idempotency-Key: replay-me", "Expect:", "Range: bytes=0-1", "If-None-Match: *", "X_Forwarded_User: admin", "x-forwarded-user : admin",
			"User-Agent: attacker", "Origin: https://evil.example.com", "Referer: https://evil.example.com/secret", "Parley-Call-Id: forged", "Accept-Encoding: gzip",
		}
		for _, path := range []struct{ target, body string }{{"", rpcBody(restBody)}, {"message:send", restBody}} {
			target := "/agents/agent-" + name + "/" + path.target
			resp, body := throw(t, m, raw(m, http.MethodPost, target, key, without(evil, "x-forwarded-user :"), path.body))
			if resp.StatusCode != http.StatusOK {
				t.Fatalf("%s: %s %s", target, resp.Status, body)
			}
			got := agent.Last().Header
			allowed := map[string]bool{"A2a-Version": true, "Accept": true, "Accept-Encoding": true, "Authorization": true, "Content-Length": true, "Content-Type": true, "Traceparent": true, "User-Agent": true}
			for name, values := range got {
				if !allowed[name] {
					t.Errorf("%s: the agent received %s: %q", target, name, values)
				}
			}
			if got.Get("Authorization") != "Bearer the-meshes-own" || got.Get("Accept-Encoding") != "identity" || got.Get("User-Agent") == "attacker" {
				t.Errorf("%s: the agent received %v", target, got)
			}
			if resp.Header.Get("Parley-Call-Id") == "forged" {
				t.Error("the caller chose the call's id")
			}
		}
		before := len(agent.Seen())
		resp, _ := throw(t, m, raw(m, http.MethodPost, "/agents/agent-"+name+"/message:send", key, []string{"x-forwarded-user : admin"}, restBody))
		if resp.StatusCode != http.StatusBadRequest || len(agent.Seen()) != before {
			t.Errorf("a header name with a blank: %s", resp.Status)
		}
	}
}

func without(list []string, prefix string) (kept []string) {
	for _, one := range list {
		if !strings.HasPrefix(one, prefix) {
			kept = append(kept, one)
		}
	}
	return kept
}

// TestConflictingHeaders: what two readers may understand in two ways is
// refused, and never reaches an agent.
func TestConflictingHeaders(t *testing.T) {
	m := parleytest.Start(t, parleytest.Options{})
	agent := m.Agent("agent")
	agent.Answer(yes)
	alice, bob := m.Key("alice", ""), m.Key("bob", "")
	for what, header := range map[string][]string{
		"two lengths":                  {"Content-Length: 5"},
		"odd chunking":                 {"Transfer-Encoding: xchunked"},
		"two credentials":              {"Authorization: Bearer " + bob},
		"two credentials, other names": {"X-API-Key: " + bob},
		"two hosts":                    {"Host: evil.example.com"},
	} {
		before := len(agent.Seen())
		resp, body := throw(t, m, raw(m, http.MethodPost, "/agents/agent/message:send", alice, header, restBody))
		if resp.StatusCode < 400 || resp.StatusCode > http.StatusNotImplemented {
			t.Errorf("%s: %s %.200s", what, resp.Status, body)
		}
		if len(agent.Seen()) != before {
			t.Errorf("%s: the call reached the agent", what)
		}
	}
}
