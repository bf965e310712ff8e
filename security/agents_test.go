package security_test

import (
	"bufio"
	"bytes"
	"compress/gzip"
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
	"github.com/parley-mesh/parley/internal/control"
	"github.com/parley-mesh/parley/internal/parley"
	"github.com/parley-mesh/parley/internal/parleytest"
)

func keyOf(name parley.PrincipalName) control.NewKey       { return control.NewKey{Principal: name} }
func callsOf(name parley.PrincipalName) control.CallFilter { return control.CallFilter{Caller: name} }

// zipped is so many zero bytes, compressed.
func zipped(t testing.TB, size int64) []byte {
	t.Helper()
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	if _, err := io.CopyN(z, zeros{}, size); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { clear(p); return len(p), nil }

// hostileAnswers are what an agent says byte for byte, until the mesh hangs up.
// Each is written whole, then repeated for as long as the mesh reads.
var hostileAnswers = map[string]struct {
	first, again string
}{
	"headers without end":       {"HTTP/1.1 200 OK\r\n", "X-Filler: " + strings.Repeat("x", 1000) + "\r\n"},
	"one header without end":    {"HTTP/1.1 200 OK\r\nX-Filler: ", strings.Repeat("x", 4096)},
	"early answers without end": {"", "HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n"},
	"a status line without end": {"HTTP/1.1 200 ", strings.Repeat("O", 4096)},
	"a body without end":        {"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n{\"a\":\"", strings.Repeat("x", 64<<10)},
	"a deep body without end":   {"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n", strings.Repeat("[", 64<<10)},
	"a stream of one line":      {sseHead + "data: ", strings.Repeat("x", 64<<10)},
	"a stream of one event":     {sseHead, "data: " + strings.Repeat("x", 1000) + "\n"},
	"a stream of comments":      {sseHead, ": " + strings.Repeat("x", 1000) + "\n\n"},
	"a stream of empty lines":   {sseHead, strings.Repeat("\n", 64<<10)},
	"a stream of bare types":    {sseHead, "event: " + strings.Repeat("x", 100) + "\n\n"},
	"a chunk line without end":  {chunkedHead, strings.Repeat("0", 4096)},
	"chunk extensions":          {chunkedHead, "1;" + strings.Repeat("x", 4000) + "\r\n{\r\n"},
	"tiny chunks":               {chunkedHead, strings.Repeat("1\r\n \r\n", 1000)},
	"trailers without end":      {chunkedHead + "0\r\n", "X-Filler: " + strings.Repeat("x", 1000) + "\r\n"},
}

const (
	sseHead     = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n"
	chunkedHead = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"
)

// answerWith is an agent that says the same for ever, at most limit bytes of it.
// It counts what the mesh took.
func answerWith(first, again string, limit int64) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		conn, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			return
		}
		defer conn.Close()
		if conn.SetWriteDeadline(time.Now().Add(parleytest.Patience)) != nil {
			return
		}
		out := bufio.NewWriterSize(conn, 64<<10)
		_, err = out.WriteString(first)
		for n := int64(len(first)); err == nil && n < limit; n += int64(len(again)) {
			_, err = out.WriteString(again)
		}
		_ = out.Flush() // of an agent that has said all it may
	}
}

// TestHostileAgents: an agent that never ends what it says is given up, in every
// binding and for streams as for other calls; its caller gets an error, and the
// agent is at fault.
func TestHostileAgents(t *testing.T) {
	m := parleytest.Start(t, parleytest.Options{Configure: func(c *config.Config) {
		c.Limits.ResponseBody, c.Limits.StreamEvent = 256*config.KiB, 64*config.KiB
	}})
	agent := parleytest.NewAgent(t)
	m.Add(control.NewAgent{Name: "agent", URL: agent.URL})
	key := m.Key("alice", "")
	for what, answer := range hostileAnswers {
		agent.Serve(answerWith(answer.first, answer.again, 64<<20))
		for _, method := range []a2a.Method{a2a.SendMessage, a2a.SendStreamingMessage} {
			began := time.Now()
			err, id := say(t, m.Caller("agent", a2a.JSONRPC, key), method)
			if err == nil {
				t.Errorf("%s, %s: no error", what, method)
				continue
			}
			if call := m.EndOf(id); call.Outcome != string(parley.OutcomeCrash) {
				t.Errorf("%s, %s: %s (%s), want a crash", what, method, call.Outcome, call.Detail)
			}
			if took := time.Since(began); took > parleytest.Patience/2 {
				t.Errorf("%s, %s: took %v", what, method, took)
			}
		}
	}
}

// say sends a message and gives the error that the answer or its stream ended
// with.
func say(t *testing.T, c *parleytest.Caller, method a2a.Method) (error, string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), parleytest.Patience)
	defer cancel()
	reply, id := c.Do(ctx, method, parleytest.Message("", "x"))
	if reply.Err != nil {
		return reply.Err, id
	}
	if reply.Stream == nil {
		return nil, id
	}
	defer reply.Stream.Close()
	for {
		frame, err := reply.Stream.Next(ctx)
		switch {
		case err == io.EOF:
			return nil, id
		case err != nil:
			return err, id
		case frame.Err != nil:
			return frame.Err, id
		}
	}
}

// TestStallingAgents: an agent that stops talking in the middle is given up at
// the end of the time it has.
func TestStallingAgents(t *testing.T) {
	m := parleytest.Start(t, parleytest.Options{Configure: func(c *config.Config) {
		c.Limits.UnaryTimeout, c.Limits.FirstByteTimeout, c.Limits.CallDeadline = 500*time.Millisecond, 500*time.Millisecond, 500*time.Millisecond
	}})
	agent := m.Agent("agent")
	key := m.Key("alice", "")
	for what, first := range map[string]string{
		"before it begins": "", "in the status line": "HTTP/1.1 20", "in the headers": "HTTP/1.1 200 OK\r\nContent-Ty",
		"before the body": "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n", "in the body": "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{",
		"after an early answer": "HTTP/1.1 103 Early Hints\r\n\r\n",
	} {
		ended := make(chan struct{})
		agent.Serve(func(w http.ResponseWriter, _ *http.Request) {
			conn, _, err := http.NewResponseController(w).Hijack()
			if err != nil {
				return
			}
			defer conn.Close()
			_, _ = io.WriteString(conn, first)
			_, _ = drained(conn, parleytest.Patience) // until the mesh hangs up
			close(ended)
		})
		err, id := say(t, m.Caller("agent", a2a.HTTPJSON, key), a2a.SendMessage)
		if call := m.EndOf(id); err == nil || call.Outcome != string(parley.OutcomeTimeout) {
			t.Errorf("%s: %v, %s (%s); want a timeout", what, err, call.Outcome, call.Detail)
		}
		<-ended
	}
}

// TestRequestSplitting: spellings of a request that one reader may understand in
// two ways, or as two requests, are refused, or read in the one right way.
func TestRequestSplitting(t *testing.T) {
	m := parleytest.Start(t, parleytest.Options{Configure: sendsAgain})
	agent := m.Agent("agent")
	agent.Answer(yes)
	key := m.Key("alice", "")
	body := restBody
	head := func(lines ...string) string {
		return strings.Join(append([]string{"POST /agents/agent/message:send HTTP/1.1", "Host: " + m.Config.Listen, "Content-Type: application/json", "A2A-Version: 1.0", "Authorization: Bearer " + key}, lines...), "\r\n") + "\r\n\r\n"
	}
	chunked := fmt.Sprintf("%x\r\n%s\r\n0\r\n\r\n", len(body), body)
	length := fmt.Sprintf("Content-Length: %d", len(body))
	for what, test := range map[string]struct {
		request string
		served  bool // by one call at most, of which the agent hears once
	}{
		"length and chunks":            {head(length, "Transfer-Encoding: chunked") + chunked, true}, // chunks win (RFC 9112, 6.3), and the connection is closed
		"chunks and length":            {head("Transfer-Encoding: chunked", "Content-Length: 4") + chunked, true},
		"two lengths":                  {head(length, "Content-Length: 5") + body, false},
		"two equal lengths":            {head(length, length) + body, true}, // RFC 9112, 6.3: may be taken for one
		"a list of lengths":            {head(length+", 5") + body, false},
		"a signed length":              {head(fmt.Sprintf("Content-Length: +%d", len(body))) + body, false},
		"a length in hex":              {head(fmt.Sprintf("Content-Length: 0x%x", len(body))) + body, false},
		"a negative length":            {head("Content-Length: -1") + body, false},
		"two encodings":                {head("Transfer-Encoding: chunked", "Transfer-Encoding: identity") + chunked, false},
		"a list of encodings":          {head("Transfer-Encoding: gzip, chunked") + chunked, false},
		"an encoding behind a tab":     {head("Transfer-Encoding:\tchunked") + chunked, true},
		"an encoding in odd writing":   {head("Transfer-Encoding: \x0bchunked") + chunked, false},
		"an encoding of another name":  {head("Transfer-Encoding: xchunked") + chunked, false},
		"an encoding with a blank":     {head("Transfer-Encoding : chunked") + chunked, false},
		"a folded header":              {head("X-A: 1\r\n Transfer-Encoding: chunked", length) + body, true}, // the second line belongs to the first
		"a header without a name":      {head(": x", length) + body, false},
		"a bare carriage return":       {head("X-A: 1\rX-B: 2", length) + body, false},
		"a zero byte":                  {head("X-A: 1\x00", length) + body, false},
		"two hosts":                    {head("Host: evil.example.com", length) + body, false},
		"a host with a path":           {strings.Replace(head(length), "Host: ", "Host: a/b", 1) + body, false},
		"no host":                      {strings.Replace(head(length), "Host: "+m.Config.Listen+"\r\n", "", 1) + body, false},
		"two credentials":              {head("Authorization: Bearer "+key, length) + body, false},
		"lines that end in LF alone":   {strings.ReplaceAll(head(length), "\r\n", "\n") + body, true}, // RFC 9112, 2.2: may be read so
		"an address in full":           {strings.Replace(head(length), "/agents/agent/m", "http://evil.example.com/agents/agent/m", 1) + body, true},
		"an address of another scheme": {strings.Replace(head(length), "POST /agents/agent/m", "POST gopher://x/agents/agent/m", 1) + body, true},
		"a request to connect":         {strings.Replace(head(length), "POST /agents/agent/message:send", "CONNECT evil.example.com:80", 1) + body, false},
		"a version of its own":         {strings.Replace(head(length), "HTTP/1.1", "HTTP/1.9", 1) + body, true},
		"a version too far":            {strings.Replace(head(length), "HTTP/1.1", "HTTP/3.0", 1) + body, false},
		"two blanks":                   {strings.Replace(head(length), "POST ", "POST  ", 1) + body, false},
		"a blank in the path":          {strings.Replace(head(length), "message:send", "message :send", 1) + body, false},
		"a chunk that is too long":     {head("Transfer-Encoding: chunked") + "fffffffffffffffff\r\n" + body, false},
		"a chunk of a signed size":     {head("Transfer-Encoding: chunked") + fmt.Sprintf("+%x\r\n%s\r\n0\r\n\r\n", len(body), body), false},
		"a chunk without its end":      {head("Transfer-Encoding: chunked") + fmt.Sprintf("%x\r\n%sXX0\r\n\r\n", len(body), body), false},
		"a version header twice":       {head("A2A-Version: 0.3", length) + body, false},
		"a version list":               {strings.Replace(head(length), "A2A-Version: 1.0", "A2A-Version: 1.0, 0.3", 1) + body, false},
	} {
		t.Run(what, func(t *testing.T) {
			before := len(agent.Seen())
			answers := talk(t, m, test.request)
			calls := agent.Seen()[before:]
			switch {
			case len(calls) > 1 || len(answers) == 0 || len(answers) > 2:
				t.Errorf("%d calls reached the agent; answers %v", len(calls), answers)
			case !test.served && (len(calls) > 0 || answers[0] < 400):
				t.Errorf("it is served: %v, %d calls", answers, len(calls))
			case test.served && (len(calls) != 1 || answers[0] != http.StatusOK || string(calls[0].Params) != body):
				t.Errorf("answers %v, %d calls; want it served once as it is", answers, len(calls))
			}
		})
	}
}

// talk sends bytes, ends its side once it has an answer, and gives the statuses of
// all answers. A server may take an earlier end for the caller's leaving.
func talk(t *testing.T, m *parleytest.Mesh, request string) (statuses []int) {
	t.Helper()
	conn, err := net.Dial("tcp", m.Config.Listen)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(parleytest.Patience)); err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(conn, request); err != nil {
		t.Fatal(err)
	}
	for in := bufio.NewReader(conn); ; {
		resp, err := http.ReadResponse(in, nil)
		if err != nil {
			return statuses
		}
		statuses = append(statuses, resp.StatusCode)
		if _, err := io.Copy(io.Discard, resp.Body); err != nil {
			return statuses
		}
		resp.Body.Close()
		if len(statuses) == 1 {
			_ = conn.(*net.TCPConn).CloseWrite() // fails where the server has hung up
		}
	}
}
