package security_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/parley-mesh/parley/internal/a2a"
	"github.com/parley-mesh/parley/internal/config"
	"github.com/parley-mesh/parley/internal/parleytest"
)

func yes(_ context.Context, q *a2a.Request) *a2a.Reply {
	return a2a.Answer(q.Method, a2a.SendMessageResponse{Message: &a2a.Message{MessageID: "a", Role: a2a.RoleAgent, Parts: []a2a.Part{a2a.TextPart("yes")}}})
}

const restBody = `{"message":{"messageId":"m","role":"ROLE_USER","parts":[{"text":"x"}]}}`

func rpcBody(params string) string {
	return `{"jsonrpc":"2.0","id":1,"method":"SendMessage","params":` + params + `}`
}

// raw is a request as an attacker writes it, byte for byte.
func raw(m *parleytest.Mesh, method, target, key string, header []string, body string) string {
	lines := []string{method + " " + target + " HTTP/1.1", "Host: " + m.Config.Listen, "A2A-Version: 1.0", "Content-Type: application/json"}
	if key != "" {
		lines = append(lines, "Authorization: Bearer "+key)
	}
	lines = append(lines, header...)
	if body != "" {
		lines = append(lines, fmt.Sprintf("Content-Length: %d", len(body)))
	}
	return strings.Join(lines, "\r\n") + "\r\n\r\n" + body
}

// answer is what came back.
type answer struct {
	Status     string
	StatusCode int
	Header     http.Header
}

// throw sends bytes over a connection of its own and gives the answer with its
// body.
func throw(t *testing.T, m *parleytest.Mesh, request string) (answer, string) {
	t.Helper()
	conn, err := net.Dial("tcp", m.Config.Listen)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(parleytest.Patience)); err != nil {
		t.Fatal(err)
	}
	// A mesh that has read enough answers and hangs up while more is written:
	// that is what some tests are about, and shows in the answer.
	go func() { _, _ = io.WriteString(conn, request) }()
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatalf("no answer to %.200q: %v", request, err)
	}
	defer resp.Body.Close()
	// A mesh that has not read all of a request it refuses hangs up, which may
	// overtake the end of what it said.
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Logf("half an answer to %.60q: %v", request, err)
	}
	return answer{resp.Status, resp.StatusCode, resp.Header}, string(body)
}

// sendsAgain lets a test send the same message over and over.
func sendsAgain(c *config.Config) { c.Retention.Messages = 0 }
