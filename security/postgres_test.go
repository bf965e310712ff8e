package security_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/parley-mesh/parley/internal/a2a"
	"github.com/parley-mesh/parley/internal/config"
	"github.com/parley-mesh/parley/internal/control"
	"github.com/parley-mesh/parley/internal/parley"
	"github.com/parley-mesh/parley/internal/parleytest"
	"github.com/parley-mesh/parley/internal/storetest/pgtest"
)

// TestTextThatPostgreSQLRefuses: whatever text an agent answers with, its call
// ends, and those of others are written beside it.
func TestTextThatPostgreSQLRefuses(t *testing.T) {
	m := parleytest.Start(t, parleytest.Options{Configure: func(c *config.Config) {
		c.Store = config.PostgresStore(pgtest.Database(t))
	}})
	agent := parleytest.NewAgent(t)
	m.Add(control.NewAgent{Name: "agent", URL: agent.URL})
	m.Agent("neighbour").Answer(yes)
	key := m.Key("alice", "")
	errorInfo := func(reason, domain string) string {
		return `"error":{"code":-32603,"message":"x","data":[{"@type":"type.googleapis.com/google.rpc.ErrorInfo","reason":"` + reason + `","domain":"` + domain + `"}]}`
	}
	for _, bad := range []string{`a\u0000b`, `\u0000`, `a\ud800b`, "a\xffb", strings.Repeat("x", 9000), strings.Repeat(`\udbff\udfff`, 256)} {
		for what, answer := range map[string]string{
			"task":          `"result":{"task":{"id":"` + bad + `","contextId":"c1","status":{"state":"TASK_STATE_COMPLETED"}}}`,
			"context":       `"result":{"message":{"messageId":"m","contextId":"` + bad + `","role":"ROLE_AGENT","parts":[{"text":"x"}]}}`,
			"message id":    `"result":{"message":{"messageId":"` + bad + `","role":"ROLE_AGENT","parts":[{"text":"x"}]}}`,
			"state":         `"result":{"task":{"id":"t2","contextId":"c2","status":{"state":"` + bad + `"}}}`,
			"error message": `"error":{"code":-32603,"message":"` + bad + `"}`,
			"reason":        errorInfo(bad, "a2a-protocol.org"),
			"domain":        errorInfo("TASK_NOT_FOUND", bad),
		} {
			agent.Serve(func(w http.ResponseWriter, r *http.Request) {
				var in struct{ ID json.RawMessage }
				if err := json.NewDecoder(r.Body).Decode(&in); err != nil {
					t.Error(err)
				}
				body := fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,%s}`, in.ID, answer)
				if strings.Contains(r.Header.Get("Accept"), "event-stream") {
					w.Header().Set("Content-Type", "text/event-stream")
					body = "data: " + body + "\n\n"
				} else {
					w.Header().Set("Content-Type", "application/json")
				}
				_, _ = io.WriteString(w, body) // the mesh may have left
			})
			for _, method := range []a2a.Method{a2a.SendMessage, a2a.SendStreamingMessage} {
				_, id := say(t, m.Caller("agent", a2a.JSONRPC, key), method)
				if err, _ := say(t, m.Caller("neighbour", a2a.JSONRPC, key), a2a.SendMessage); err != nil {
					t.Errorf("%s %.20q, %s: a neighbour got %v", what, bad, method, err)
				}
				if call := m.Call(id); !parleytest.Ended(call) {
					t.Errorf("%s %.20q, %s: the call is %s", what, bad, method, call.Outcome)
				}
			}
		}
	}
	admin := m.Key("root", "", parley.RoleAdmin)
	for _, query := range []string{"a\x00b", "a\xffb", "'; DROP TABLE calls; --", "%", strings.Repeat("x", 9000)} {
		for _, name := range []string{"caller", "agent", "owner", "method", "task", "reference", "root", "outcome", "cursor", "since"} {
			target := "/api/v1/calls?" + url.Values{name: {query}}.Encode()
			if resp, body := throw(t, m, raw(m, http.MethodGet, target, admin, nil, "")); resp.StatusCode >= http.StatusInternalServerError {
				t.Errorf("%s=%.20q: %s %s", name, query, resp.Status, body)
			}
		}
	}
	if strings.Contains(m.Log(), "cannot write") || strings.Contains(m.Log(), "not settled") || strings.Contains(m.Log(), "level=ERROR") {
		t.Errorf("the log: %s", m.Log())
	}
}
