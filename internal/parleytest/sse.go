package parleytest

import (
	"bufio"
	"context"
	"net/http"
	"strings"
	"testing"
)

// Event is one server-sent event as it stands on the wire.
type Event struct{ ID, Data string }

// SSE is a stream as a plain HTTP client reads it.
type SSE struct {
	Status int
	Lines  *bufio.Scanner
	Close  func()

	t testing.TB
}

// OpenSSE sends a request and reads its answer as a stream, which ends with the
// test.
func OpenSSE(t testing.TB, req *http.Request) *SSE {
	t.Helper()
	resp, err := http.DefaultTransport.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = resp.Body.Close() }) // a second time, as a rule
	s := &SSE{Status: resp.StatusCode, Lines: bufio.NewScanner(resp.Body), t: t}
	s.Lines.Buffer(nil, 16<<20)
	s.Close = func() { _ = resp.Body.Close() }
	return s
}

// Subscribe opens the stream of a task at the agent's address, which ends with a
// slash; behind the event after, unless that is empty.
func Subscribe(t testing.TB, address, key, taskID, after string) *SSE {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, address+"tasks/"+taskID+":subscribe", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	req.Header = http.Header{"Authorization": {"Bearer " + key}, "A2a-Version": {"1.0"}, "Accept": {"text/event-stream, application/json"}}
	if after != "" {
		req.Header.Set("Last-Event-ID", after)
	}
	return OpenSSE(t, req)
}

// SendStream sends a message to the agent's address and opens the answer's stream.
func SendStream(ctx context.Context, t testing.TB, address, key string) *SSE {
	t.Helper()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, address+"message:stream",
		strings.NewReader(`{"message":{"messageId":"m","role":"ROLE_USER","parts":[{"text":"x"}]}}`))
	if err != nil {
		t.Fatal(err)
	}
	req.Header = http.Header{"Authorization": {"Bearer " + key}, "Content-Type": {"application/a2a+json"}, "A2a-Version": {"1.0"}}
	return OpenSSE(t, req)
}

// Next reads the next event; ok is false at the end.
func (s *SSE) Next() (e Event, ok bool) {
	for s.Lines.Scan() {
		line := s.Lines.Text()
		name, value, _ := strings.Cut(line, ": ")
		switch {
		case name == "id":
			e.ID = value
		case name == "data":
			e.Data += value
		case line == "" && e != (Event{}):
			return e, true
		}
	}
	return e, false
}

// Must is Next where there has to be one.
func (s *SSE) Must() Event {
	s.t.Helper()
	e, ok := s.Next()
	if !ok {
		s.t.Fatalf("the stream (status %d) has ended: %q %v", s.Status, e.Data, s.Lines.Err())
	}
	return e
}

// Rest reads to the end.
func (s *SSE) Rest() (all []Event) {
	for {
		e, ok := s.Next()
		if !ok {
			return all
		}
		all = append(all, e)
	}
}
