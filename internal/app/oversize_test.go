package app_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/parley-mesh/parley/internal/parleytest"
)

// TestRefusalsReachClientsThatWriteFirst: a client that sends its whole request
// before it reads gets the refusal, and no reset connection.
func TestRefusalsReachClientsThatWriteFirst(t *testing.T) {
	m := parleytest.Start(t, parleytest.Options{})
	m.Agent("echo")
	key, body := m.Key("alice", ""), strings.Repeat("x", 11<<20)
	for _, test := range []struct {
		name, path, key string
		chunked         bool
		want            int
	}{
		{"over the limit", "/agents/echo/message:send", key, false, http.StatusRequestEntityTooLarge},
		{"over the limit, of unknown length", "/agents/echo/message:send", key, true, http.StatusRequestEntityTooLarge},
		{"no key", "/agents/echo/message:send", "", false, http.StatusUnauthorized},
		{"no such path", "/elsewhere", "", false, http.StatusNotFound},
		{"control API", "/api/v1/owners", key, false, http.StatusForbidden},
	} {
		t.Run(test.name, func(t *testing.T) {
			conn := dialEdge(t, m)
			head := fmt.Sprintf("POST %s HTTP/1.1\r\nHost: mesh\r\nA2A-Version: 1.0\r\nContent-Type: application/json\r\n", test.path)
			if test.key != "" {
				head += "X-API-Key: " + test.key + "\r\n"
			}
			sent := fmt.Sprintf("%sContent-Length: %d\r\n\r\n%s", head, len(body), body)
			if test.chunked {
				sent = fmt.Sprintf("%sTransfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n0\r\n\r\n", head, len(body), body)
			}
			if _, err := io.WriteString(conn, sent); err != nil {
				t.Fatalf("the request could not be sent: %v", err)
			}
			if got := answerOf(t, conn); got != test.want {
				t.Errorf("answered %d, want %d", got, test.want)
			}
		})
	}
}

// TestRefusalsWaitForNoBody: the refusal is there although the body never
// comes, and the connection is closed soon after.
func TestRefusalsWaitForNoBody(t *testing.T) {
	m := parleytest.Start(t, parleytest.Options{})
	conn := dialEdge(t, m)
	if _, err := io.WriteString(conn, "POST /agents/echo/message:send HTTP/1.1\r\nHost: mesh\r\nA2A-Version: 1.0\r\nContent-Type: application/json\r\nContent-Length: 11000000\r\n\r\nx"); err != nil {
		t.Fatal(err)
	}
	if got := answerOf(t, conn); got != http.StatusUnauthorized {
		t.Errorf("answered %d, want 401", got)
	}
	if _, err := io.Copy(io.Discard, conn); err != nil {
		t.Errorf("the connection was not closed: %v", err)
	}
}

func dialEdge(t *testing.T, m *parleytest.Mesh) net.Conn {
	t.Helper()
	conn, err := net.Dial("tcp", strings.TrimPrefix(m.Ready.Listen, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() }) // the mesh may have closed it
	if err := conn.SetDeadline(time.Now().Add(parleytest.Patience)); err != nil {
		t.Fatal(err)
	}
	return conn
}

// answerOf is the status of the answer, which is read to its end.
func answerOf(t *testing.T, conn net.Conn) int {
	t.Helper()
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatalf("no answer: %v", err)
	}
	defer resp.Body.Close()
	if _, err := io.Copy(io.Discard, resp.Body); err != nil {
		t.Errorf("the answer broke off: %v", err)
	}
	return resp.StatusCode
}
