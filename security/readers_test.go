package security_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/parley-mesh/parley/internal/a2a"
	"github.com/parley-mesh/parley/internal/certtest"
	"github.com/parley-mesh/parley/internal/config"
	"github.com/parley-mesh/parley/internal/parleytest"
)

// TestSlowReaders: whoever asks and does not read is let go, whatever kind of
// answer it asked for, and what it made the mesh hold is given back.
func TestSlowReaders(t *testing.T) {
	m := parleytest.Start(t, parleytest.Options{Configure: func(c *config.Config) {
		c.Limits.StreamWriteTimeout, c.Limits.StreamKeepalive = 300*time.Millisecond, 100*time.Millisecond
	}})
	agent := m.Agent("agent")
	big := strings.Repeat("x", 1<<20)
	agent.Answer(func(_ context.Context, q *a2a.Request) *a2a.Reply {
		if !q.Method.Streaming() {
			return a2a.Answer(q.Method, a2a.SendMessageResponse{Message: &a2a.Message{MessageID: "a", Role: a2a.RoleAgent, Parts: []a2a.Part{a2a.TextPart(strings.Repeat(big, 7))}}})
		}
		return &a2a.Reply{Stream: endless(q.Method, big)}
	})
	key := m.Key("alice", "")
	named := func(id string) string { return strings.Replace(restBody, `"m"`, `"`+id+`"`, 1) }
	for what, request := range map[string]string{
		"one large answer":   raw(m, http.MethodPost, "/agents/agent/message:send", key, nil, named("large")),
		"many small answers": strings.Repeat(raw(m, http.MethodGet, "/nowhere", "", nil, ""), 100_000),
		"many documents":     strings.Repeat(raw(m, http.MethodGet, "/api/v1/openapi.json", "", nil, ""), 500),
		"an endless stream":  raw(m, http.MethodPost, "/agents/agent/message:stream", key, []string{"Accept: text/event-stream"}, named("stream")),
	} {
		t.Run(what, func(t *testing.T) {
			conn, err := net.Dial("tcp", m.Config.Listen)
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			if err := conn.(*net.TCPConn).SetReadBuffer(4096); err != nil {
				t.Fatal(err)
			}
			written := make(chan struct{})
			go func() { // fails once the mesh has hung up
				defer close(written)
				_, _ = io.WriteString(conn, request)
			}()
			await(t, "the mesh has the connection", func() bool { return readMetric(t, m.Ready.Ops, edgeConnections) == 1 })
			await(t, "the mesh lets go", func() bool { return readMetric(t, m.Ready.Ops, edgeConnections) == 0 })
			_ = conn.Close()
			<-written
		})
	}
	await(t, "no stream is left", func() bool { return readMetric(t, m.Ready.Ops, "parley_streams_open") == 0 })
}

// endless is a stream of large events that never ends.
func endless(method a2a.Method, text string) a2a.Stream {
	frames := make(chan a2a.Frame)
	s := a2a.NewChanStream(frames)
	event := func(r a2a.StreamResponse) a2a.Frame {
		answer := a2a.Answer(method, r)
		return a2a.Frame{Result: answer.Result, Facts: &answer.Facts}
	}
	go func() { // ends when nobody reads any more
		next := event(a2a.StreamResponse{Task: &a2a.Task{ID: "t", ContextID: "c", Status: a2a.TaskStatus{State: a2a.StateWorking}}})
		for {
			select {
			case frames <- next:
			case <-s.Done():
				return
			}
			next = event(a2a.StreamResponse{ArtifactUpdate: &a2a.TaskArtifactUpdateEvent{TaskID: "t", ContextID: "c", Artifact: a2a.Artifact{ArtifactID: "a", Parts: []a2a.Part{a2a.TextPart(text)}}}})
		}
	}()
	return s
}

// TestHandshakeStall: a connection that does not get through its handshake, or
// gets through it and says nothing, is let go in time.
func TestHandshakeStall(t *testing.T) {
	cert, key, _ := certtest.Write(t, t.TempDir(), 1)
	m := parleytest.Start(t, parleytest.Options{Configure: func(c *config.Config) {
		c.TLS.Cert, c.TLS.Key = cert, key
		c.Limits.HeaderTimeout, c.Limits.IdleTimeout = 300*time.Millisecond, 300*time.Millisecond
	}})
	address := strings.TrimPrefix(m.Ready.Listen, "https://")
	for what, first := range map[string][]byte{
		"nothing":                       nil,
		"half a record":                 {0x16, 3, 1, 2, 0, 1, 0, 1, 0xfc},
		"the head of a large hello":     {0x16, 3, 1, 0x40, 0, 1, 0, 0x3f, 0xfc, 3, 3},
		"a request that is not in TLS":  []byte("GET / HTTP/1.1\r\nHost: x\r\n"),
		"what belongs to no protocol":   bytes.Repeat([]byte{0xff}, 64),
		"a record of no length, for ay": {0x16, 3, 1, 0, 0},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			conn, err := net.Dial("tcp", address)
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			if _, err := conn.Write(first); err != nil {
				t.Fatal(err)
			}
			if _, err := drained(conn, 10*time.Second); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestManyConnections: one address cannot take all connections, and gets new ones
// as it gives up old ones. Idle ones are let go in time.
func TestManyConnections(t *testing.T) {
	const each = 20
	m := parleytest.Start(t, parleytest.Options{Configure: func(c *config.Config) {
		c.Limits.ConnectionsPerAddress, c.Limits.IdleTimeout, c.Limits.HeaderTimeout = each, time.Second, time.Second
	}})
	card := raw(m, http.MethodGet, "/agents/nobody/.well-known/agent-card.json", "", nil, "")
	open := func(from string) (net.Conn, bool) {
		t.Helper()
		d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}}
		conn, err := d.Dial("tcp", m.Config.Listen)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { conn.Close() })
		if err := conn.SetDeadline(time.Now().Add(parleytest.Patience)); err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(conn, card); err != nil {
			return conn, false
		}
		n, err := conn.Read(make([]byte, 16))
		return conn, err == nil && n > 0
	}
	var held []net.Conn
	for i := range each {
		conn, served := open("127.0.0.1")
		if !served {
			t.Fatalf("connection %d is not served", i)
		}
		held = append(held, conn)
	}
	if _, served := open("127.0.0.1"); served {
		t.Errorf("connection %d of one address is served", each)
	}
	if _, served := open("127.0.0.2"); !served {
		t.Error("another address is not served")
	}
	if got := readMetric(t, m.Ready.Ops, `parley_connections_refused_total{parley_listener="listen"}`); got != 1 {
		t.Errorf("%v refused connections are counted, want 1", got)
	}
	if err := held[0].Close(); err != nil {
		t.Fatal(err)
	}
	await(t, "a place is free again", func() bool { _, served := open("127.0.0.1"); return served })
	for i, conn := range held[1:] {
		if _, err := drained(conn, 10*time.Second); err != nil {
			t.Fatalf("idle connection %d: %v", i, err)
		}
	}
}

// TestTooOften: a principal, or an address without a credential, that asks too
// often is refused with the time to wait; others are served meanwhile; the flood
// leaves one event and no records.
func TestTooOften(t *testing.T) {
	m := parleytest.Start(t, parleytest.Options{Configure: func(c *config.Config) {
		c.Limits.RatePerPrincipal, c.Limits.BurstPerPrincipal = 1, 5
		c.Limits.RatePerAddress, c.Limits.BurstPerAddress = 1, 5
		c.Auth.FailuresPerMinute, c.Auth.FailureBurst = 100_000, 100_000
	}})
	agent := m.Agent("agent")
	agent.Answer(yes)
	alice, bob := m.Key("alice", ""), m.Key("bob", "")
	second := m.NewKey(keyOf("alice")).Text
	limited := func(target, body string, keys ...string) (served int) {
		t.Helper()
		for i := range 20 {
			resp, text := throw(t, m, raw(m, http.MethodPost, target, keys[i%len(keys)], nil, body))
			switch {
			case resp.StatusCode != http.StatusTooManyRequests:
				served++
			case resp.Header.Get("Retry-After") == "" || !strings.Contains(text, "RATE_LIMITED") || !strings.Contains(text, "retryDelay"):
				t.Errorf("%s: %v %s, want the time to wait", target, resp.Header, text)
			}
		}
		return served
	}
	// Both keys of alice share her allowance; what one second brings is let pass.
	if served := limited("/agents/agent/", rpcBody(restBody), alice, second); served < 5 || served > 10 {
		t.Errorf("%d of 20 calls are served, want the 5 at once and hardly more", served)
	}
	if served := limited("/agents/agent/message:send", restBody, alice); served > 5 {
		t.Errorf("%d of 20 more calls are served in the other binding", served)
	}
	if resp, text := throw(t, m, raw(m, http.MethodPost, "/agents/agent/", bob, nil, rpcBody(restBody))); resp.StatusCode != http.StatusOK {
		t.Errorf("bob is not served: %s %s", resp.Status, text)
	}
	if served := limited("/agents/agent/message:send", restBody, ""); served < 5 || served > 10 {
		t.Errorf("%d of 20 calls without a credential are heard, want the 5 at once and hardly more", served)
	}
	card := raw(m, http.MethodGet, "/agents/agent/.well-known/agent-card.json", alice, nil, "")
	if resp, text := throw(t, m, card); resp.StatusCode != http.StatusTooManyRequests {
		t.Errorf("a card: %s %s, want it limited by address", resp.Status, text)
	}
	admin := m.Key("root", "", "admin")
	events := get(t, m.Ready.Listen+"/api/v1/events?limit=200", admin)
	if n := strings.Count(events, "principal.limited"); n != 1 {
		t.Errorf("%d events tell of the flood, want 1", n)
	}
	for _, by := range []string{"principal", "address"} {
		if got := readMetric(t, m.Ready.Ops, fmt.Sprintf(`parley_calls_limited_total{parley_limited_by="%s"}`, by)); got < 10 {
			t.Errorf("%v requests limited by %s are counted", got, by)
		}
	}
	if calls := m.Calls(callsOf("alice")); len(calls) > 20 {
		t.Errorf("%d records are left of the flood", len(calls))
	}
}

// TestCompressedBodies: nothing is unpacked, neither what callers send nor what
// agents answer.
func TestCompressedBodies(t *testing.T) {
	m := parleytest.Start(t, parleytest.Options{})
	agent := m.Agent("agent")
	agent.Answer(yes)
	key, admin := m.Key("alice", ""), m.Key("root", "", "admin")
	bomb := string(zipped(t, 64<<20))
	before := len(agent.Seen())
	for _, encoding := range []string{"gzip", "br", "identity, gzip", "GZIP"} {
		header := []string{"Content-Encoding: " + encoding}
		for _, request := range []string{
			raw(m, http.MethodPost, "/agents/agent/", key, header, bomb),
			raw(m, http.MethodPost, "/agents/agent/message:send", key, header, bomb),
			raw(m, http.MethodPost, "/api/v1/principals", admin, header, bomb[:1000]),
		} {
			resp, body := throw(t, m, request)
			if resp.StatusCode != http.StatusUnsupportedMediaType || resp.Header.Get("Accept-Encoding") != "identity" {
				t.Errorf("%s: %s %v %.200s", encoding, resp.Status, resp.Header, body)
			}
		}
	}
	if len(agent.Seen()) != before {
		t.Error("one of them reached the agent")
	}
	if resp, body := throw(t, m, raw(m, http.MethodPost, "/agents/agent/", key, []string{"Content-Encoding: identity"}, rpcBody(restBody))); resp.StatusCode != http.StatusOK {
		t.Errorf("identity: %s %s", resp.Status, body)
	}
	for _, media := range []string{"application/json", "text/event-stream"} {
		agent.Serve(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", media)
			w.Header().Set("Content-Encoding", "gzip")
			_, _ = io.WriteString(w, bomb)
		})
		for _, method := range []a2a.Method{a2a.SendMessage, a2a.SendStreamingMessage} {
			err, id := say(t, m.Caller("agent", a2a.JSONRPC, key), method)
			if err == nil {
				t.Fatalf("%s as %s: passed on", method, media)
			}
			if call := m.EndOf(id); call.Outcome != "crash" {
				t.Errorf("%s as %s: %s, want a crash", method, media, call.Outcome)
			}
		}
	}
}
