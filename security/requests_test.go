package security_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/parley-mesh/parley/internal/a2a"
	"github.com/parley-mesh/parley/internal/config"
	"github.com/parley-mesh/parley/internal/parley"
	"github.com/parley-mesh/parley/internal/parleytest"
)

func allow(t *testing.T, c *config.Config, prefix string) {
	t.Helper()
	p, err := netip.ParsePrefix(prefix)
	if err != nil {
		t.Fatal(err)
	}
	c.Network.Allow = append(c.Network.Allow, p)
}

// TestAdminByCallerKey: whoever may call agents may not manage the mesh, by any
// verb or path; without a key nobody may; operators may not make admins.
func TestAdminByCallerKey(t *testing.T) {
	m := parleytest.Start(t, parleytest.Options{})
	m.Agent("agent")
	caller, agentKey := m.Key("alice", ""), m.AgentKey("agent")
	for _, target := range []string{
		"GET /api/v1/owners", "GET /api/v1/principals", "GET /api/v1/keys", "GET /api/v1/agents", "GET /api/v1/agents/agent", "GET /api/v1/calls",
		"GET /api/v1/tasks", "GET /api/v1/events", "GET /api/v1/events/stream", "GET /api/v1/status", "POST /api/v1/keys", "POST /api/v1/principals",
		"POST /api/v1/agents", "DELETE /api/v1/agents/agent", "POST /api/v1/agents/agent/suspend", "PUT /api/v1/agents/agent/auth",
	} {
		method, path, _ := strings.Cut(target, " ")
		body := ""
		if method == "POST" || method == "PUT" {
			body = "{}"
		}
		for who, want := range map[string]int{caller: http.StatusForbidden, agentKey: http.StatusForbidden, "": http.StatusUnauthorized} {
			resp, text := throw(t, m, raw(m, method, path, who, nil, body))
			if resp.StatusCode != want {
				t.Errorf("%s with key %.6s: %s %.200s, want %d", target, who, resp.Status, text, want)
			}
		}
	}
	operator := m.Key("olga", "", parley.RoleOperator)
	resp, text := throw(t, m, raw(m, "POST", "/api/v1/principals", operator, nil, `{"name":"mine","roles":["admin"]}`))
	if resp.StatusCode != http.StatusForbidden {
		t.Errorf("an operator makes an admin: %s %.200s", resp.Status, text)
	}
}

// TestPathTricks: a path that is not clean is nobody's; nothing is redirected,
// nothing reaches an agent, and no path leads from the edge to the control API.
func TestPathTricks(t *testing.T) {
	m := parleytest.Start(t, parleytest.Options{})
	agent, other := m.Agent("agent"), m.Agent("other")
	agent.Answer(yes)
	other.Answer(yes)
	key := m.Key("alice", "")
	before := len(agent.Seen()) + len(other.Seen())
	for _, path := range []string{
		"/agents/agent/../other/message:send", "/agents/agent/%2e%2e/other/message:send", "/agents/agent%2f..%2fother/message:send",
		"//agents/agent/message:send", "/agents//agent/message:send", "/agents/agent//message:send", "/agents/./agent/message:send", "/./agents/agent/message:send",
		"/agents/agent/message%3asend/x", "/agents/AGENT/message:send", "/agents/agent%00/message:send", "/agents/agent%20/message:send", "/%61gents/agent/message:send",
		"/agents/", "/agents", "/", "/agents/agent;x/message:send", "/agents/agent\\other/message:send",
		"/agents/agent/../../api/v1/keys", "/agents/%2e%2e/api/v1/keys", "/agents/agent/..%2fother/message:send", "/api/v1/../../agents/agent/message:send", "/metrics", "/debug/pprof/", "/.well-known/../agents/agent/message:send",
	} {
		for _, credential := range []string{key, ""} {
			resp, body := throw(t, m, raw(m, http.MethodPost, path, credential, nil, restBody))
			refused := resp.StatusCode >= 400 && resp.StatusCode < 500 || resp.StatusCode == http.StatusOK && strings.Contains(body, `"error":`)
			if !refused || resp.Header.Get("Location") != "" {
				t.Errorf("%s: %s %s %.200s", path, resp.Status, resp.Header.Get("Location"), body)
			}
		}
	}
	if len(agent.Seen())+len(other.Seen()) != before {
		t.Error("a call by an unclean path reached an agent")
	}
}

// TestTaskIDsInPaths: an id may hold what separates paths, and still means that
// one task at that one agent.
func TestTaskIDsInPaths(t *testing.T) {
	m := parleytest.Start(t, parleytest.Options{})
	agent := m.Agent("agent", a2a.HTTPJSON)
	c := m.Caller("agent", a2a.HTTPJSON, m.Key("alice", ""))
	for _, id := range []string{"a/b", "../../agents/other", "a:cancel", "a%2Fb", "?x=1", "#frag", "sp ace", "ünïcode", "a//b"} {
		agent.Answer(func(_ context.Context, q *a2a.Request) *a2a.Reply {
			one := a2a.Task{ID: id, ContextID: "c-" + id, Status: a2a.TaskStatus{State: a2a.StateCompleted}}
			if q.Method == a2a.SendMessage {
				return a2a.Answer(q.Method, a2a.SendMessageResponse{Task: &one})
			}
			if q.Facts.TaskID != id {
				return a2a.Fail(a2a.TaskNotFound(q.Facts.TaskID))
			}
			return a2a.Answer(q.Method, &one)
		})
		if reply, _ := c.Do(t.Context(), a2a.SendMessage, parleytest.Message("", "x")); reply.Err != nil {
			t.Fatalf("%q: %v", id, reply.Err)
		}
		reply, _ := c.Do(t.Context(), a2a.GetTask, a2a.GetTaskRequest{ID: id})
		if reply.Err != nil || reply.Facts.TaskID != id {
			t.Errorf("task %q: got %s, %v", id, reply.Result, reply.Err)
		}
	}
}

// TestTwoReadingsOfOneBody: what two JSON parsers may read in two ways is
// refused before anybody acts on one of the readings.
func TestTwoReadingsOfOneBody(t *testing.T) {
	m := parleytest.Start(t, parleytest.Options{})
	agent := m.Agent("agent")
	agent.Answer(yes)
	key := m.Key("alice", "")
	before := len(agent.Seen())
	const message = `{"messageId":"m","role":"ROLE_USER","parts":[{"text":"x"}]}`
	for what, body := range map[string]string{
		"duplicate member":            `{"message":` + message + `,"message":` + message + `}`,
		"duplicate, escaped":          `{"message":` + message + `,"mess\u0061ge":` + message + `}`,
		"duplicate inside":            `{"message":{"messageId":"m","messageId":"n","role":"ROLE_USER","parts":[{"text":"x"}]}}`,
		"duplicate in metadata":       `{"message":` + message + `,"metadata":{"a":1,"a":2}}`,
		"other case":                  `{"Message":` + message + `}`,
		"other case beside":           `{"message":` + message + `,"MESSAGE":` + message + `}`,
		"other case inside":           `{"message":{"messageId":"m","taskID":"t-of-bob","role":"ROLE_USER","parts":[{"text":"x"}]}}`,
		"snake case":                  `{"message":{"messageId":"m","task_id":"t-of-bob","role":"ROLE_USER","parts":[{"text":"x"}]}}`,
		"two values":                  `{"message":` + message + `}{"message":` + message + `}`,
		"a comment":                   `{"message":` + message + `/* */}`,
		"NaN":                         `{"message":` + message + `,"metadata":{"a":NaN}}`,
		"a broken surrogate":          `{"message":{"messageId":"\ud800","role":"ROLE_USER","parts":[{"text":"x"}]}}`,
		"bytes that are no UTF-8":     "{\"message\":{\"messageId\":\"\xff\",\"role\":\"ROLE_USER\",\"parts\":[{\"text\":\"x\"}]}}",
		"a byte order mark":           "\xef\xbb\xbf" + `{"message":` + message + `}`,
		"two contents in one part":    `{"message":{"messageId":"m","role":"ROLE_USER","parts":[{"text":"x","url":"https://x.example.com"}]}}`,
		"deep":                        `{"message":` + message + `,"metadata":{"a":` + strings.Repeat("[", 100_000) + strings.Repeat("]", 100_000) + `}}`,
		"deep without an end":         `{"message":` + message + `,"metadata":{"a":` + strings.Repeat(`{"a":`, 100_000),
		"a batch":                     `[` + rpcBody(`{"message":`+message+`}`) + `]`,
		"a number beyond any float":   `{"message":` + message + `,"configuration":{"historyLength":1e999}}`,
		"a length that is not whole":  `{"message":` + message + `,"configuration":{"historyLength":1.5}}`,
		"an id that is far too long":  `{"message":{"messageId":"` + strings.Repeat("x", 5000) + `","role":"ROLE_USER","parts":[{"text":"x"}]}}`,
		"more references than looked": `{"message":{"messageId":"m","role":"ROLE_USER","parts":[{"text":"x"}],"referenceTaskIds":[` + strings.TrimSuffix(strings.Repeat(`"a",`, 1000), ",") + `]}}`,
	} {
		for _, target := range []string{"message:send", ""} {
			sent := body
			if target == "" && what != "a batch" {
				sent = rpcBody(body)
			}
			resp, text := throw(t, m, raw(m, http.MethodPost, "/agents/agent/"+target, key, nil, sent))
			refused := resp.StatusCode >= 400 && resp.StatusCode < 500 || target == "" && resp.StatusCode == http.StatusOK && strings.Contains(text, `"error":`)
			if !refused || strings.Contains(text, "goroutine") {
				t.Errorf("%s at %q: %s %.300s", what, target, resp.Status, text)
			}
		}
	}
	if seen := agent.Seen()[before:]; len(seen) != 0 {
		t.Errorf("%d of them reached the agent, as %s", len(seen), seen[0].Raw)
	}
}

// TestOversizeBodies: with and without a length, and with headers too large.
func TestOversizeBodies(t *testing.T) {
	m := parleytest.Start(t, parleytest.Options{Configure: func(c *config.Config) { c.Limits.RequestBody = 64 * config.KiB }})
	agent := m.Agent("agent")
	agent.Answer(yes)
	key := m.Key("alice", "")
	before := len(agent.Seen())
	big := `{"message":{"messageId":"m","role":"ROLE_USER","parts":[{"text":"` + strings.Repeat("x", 100_000) + `"}]}}`
	resp, text := throw(t, m, raw(m, http.MethodPost, "/agents/agent/message:send", key, nil, big))
	if resp.StatusCode != http.StatusRequestEntityTooLarge {
		t.Errorf("with a length: %s %.200s", resp.Status, text)
	}
	chunked := raw(m, http.MethodPost, "/agents/agent/message:send", key, []string{"Transfer-Encoding: chunked"}, "") + fmt.Sprintf("%x\r\n%s\r\n0\r\n\r\n", len(big), big)
	if resp, text = throw(t, m, chunked); resp.StatusCode != http.StatusRequestEntityTooLarge {
		t.Errorf("in chunks: %s %.200s", resp.Status, text)
	}
	huge := raw(m, http.MethodPost, "/agents/agent/message:send", key, []string{"Content-Length: 99999999999999"}, "")
	if resp, text = throw(t, m, huge); resp.StatusCode != http.StatusRequestEntityTooLarge {
		t.Errorf("a length beyond any memory: %s %.200s", resp.Status, text)
	}
	header := raw(m, http.MethodPost, "/agents/agent/message:send", key, []string{"X-Filler: " + strings.Repeat("x", 100_000)}, restBody)
	if resp, text = throw(t, m, header); resp.StatusCode != http.StatusRequestHeaderFieldsTooLarge {
		t.Errorf("headers: %s %.200s", resp.Status, text)
	}
	if len(agent.Seen()) != before {
		t.Error("one of them reached the agent")
	}
}

// TestSlowloris: a caller who dribbles its headers or its body is let go in
// time, whether the mesh would serve it or refuses it.
func TestSlowloris(t *testing.T) {
	m := parleytest.Start(t, parleytest.Options{Configure: func(c *config.Config) {
		c.Limits.HeaderTimeout, c.Limits.BodyTimeout, c.Limits.IdleTimeout = 300*time.Millisecond, 300*time.Millisecond, 300*time.Millisecond
	}})
	m.Agent("agent")
	key := m.Key("alice", "")
	whole := func(target, key string) string {
		return raw(m, http.MethodPost, target, key, []string{"Content-Length: 1000"}, "")
	}
	for what, start := range map[string]string{
		"nothing":                       "",
		"half the headers":              "POST /agents/agent/ HTTP/1.1\r\nHost: x\r\nX-A: ",
		"half a body":                   whole("/agents/agent/", key) + `{"jsonrpc":`,
		"half a body over REST":         whole("/agents/agent/message:send", key) + `{"message":`,
		"half a body without a key":     whole("/agents/agent/", "") + "{",
		"half a body at an unknown":     whole("/agents/nobody/", key) + "{",
		"half a body at a card":         whole("/agents/agent/.well-known/agent-card.json", "") + "{",
		"half a body at the control":    whole("/api/v1/keys", "") + "{",
		"half a body nowhere":           whole("/nowhere", "") + "{",
		"half a chunk":                  raw(m, http.MethodPost, "/agents/agent/", key, []string{"Transfer-Encoding: chunked"}, "") + "ff\r\n{",
		"an answer, and then nothing":   raw(m, http.MethodGet, "/agents/agent/.well-known/agent-card.json", "", nil, ""),
		"half a body that is refused":   whole("/agents/agent/message:send", "pk_nonsense") + "{",
		"half a body of another method": strings.Replace(whole("/agents/agent/tasks", key), "POST", "PUT", 1) + "{",
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			conn, err := net.Dial("tcp", m.Config.Listen)
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			if _, err := io.WriteString(conn, start); err != nil {
				t.Fatal(err)
			}
			began := time.Now()
			if err := conn.SetReadDeadline(began.Add(10 * time.Second)); err != nil {
				t.Fatal(err)
			}
			if _, err := io.Copy(io.Discard, bufio.NewReader(conn)); err != nil && strings.Contains(err.Error(), "timeout") {
				t.Errorf("the connection is held for more than %v", time.Since(began))
			}
		})
	}
}

// TestControlApart: where the control API has an address of its own, the edge
// does not serve it, whoever asks.
func TestControlApart(t *testing.T) {
	m := parleytest.Start(t, parleytest.Options{Configure: func(c *config.Config) { c.ControlListen = "127.0.0.1:0" }})
	agent := m.Agent("agent")
	agent.Answer(yes)
	admin := m.Key("root", "", parley.RoleAdmin)
	if resp, body := throw(t, m, raw(m, http.MethodGet, "/api/v1/status", admin, nil, "")); resp.StatusCode != http.StatusNotFound {
		t.Errorf("the edge serves the control API: %s %.200s", resp.Status, body)
	}
	get(t, m.Ready.Control+"/api/v1/status", admin)
	apart := *m
	apart.Config = new(config.Config)
	apart.Config.Listen = strings.TrimPrefix(m.Ready.Control, "http://")
	if resp, body := throw(t, &apart, raw(&apart, http.MethodPost, "/agents/agent/message:send", admin, nil, restBody)); resp.StatusCode != http.StatusNotFound {
		t.Errorf("the control API's address serves agents: %s %.200s", resp.Status, body)
	}
}
