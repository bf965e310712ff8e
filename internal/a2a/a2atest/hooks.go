package a2atest

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"

	"github.com/parley-mesh/parley/internal/a2a"
	"github.com/parley-mesh/parley/internal/a2a/a2agrpc"
)

// Start serves an agent on a loopback address until the test ends.
func Start(t testing.TB, opt Options) (*Agent, string) {
	t.Helper()
	a := New(opt)
	s := httptest.NewServer(a)
	a.SetURL(s.URL)
	if slices.Contains(a.opt.Bindings, a2a.GRPC) {
		a.SetGRPC(ServeGRPC(t, a.GRPC()))
	}
	t.Cleanup(func() {
		// Streams that go on for nobody would keep Close waiting, and whoever had
		// them comes back at once.
		_ = s.Listener.Close() // Close does so again
		s.CloseClientConnections()
		s.Close()
	})
	return a, s.URL
}

// ServeGRPC serves on loopback until the test ends and returns the host:port.
func ServeGRPC(t testing.TB, s *a2agrpc.Server) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- s.Serve(listener) }()
	t.Cleanup(func() {
		if err := errors.Join(s.Close(), <-done); err != nil {
			t.Error(err)
		}
	})
	return listener.Addr().String()
}

// Address is the host:port of the agent's gRPC listener; empty if that binding is
// not served.
func (a *Agent) Address() string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.grpc
}

// Seen is a request as it reached the agent.
type Seen struct {
	Method    a2a.Method
	Binding   a2a.Binding
	Tenant    string
	MessageID string
	TaskID    string
	ContextID string
	Header    http.Header
}

// maxSeen is how many requests are remembered, and how many reads of the card.
const maxSeen = 256

func (a *Agent) note(q *a2a.Request) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.seen) == maxSeen {
		a.seen = slices.Delete(a.seen, 0, 1)
	}
	a.seen = append(a.seen, Seen{q.Method, q.Binding, q.Tenant, q.Facts.MessageID, q.Facts.TaskID, q.Facts.ContextID, q.Header.Clone()})
}

// Seen returns the latest requests that were well-formed, the oldest first.
func (a *Agent) Seen() []Seen {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Clone(a.seen)
}

func (a *Agent) noteCard(r *http.Request) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.cardReads) == maxSeen {
		a.cardReads = slices.Delete(a.cardReads, 0, 1)
	}
	a.cardReads = append(a.cardReads, r.Header.Clone())
}

// CardReads returns the headers of the latest requests for the public card, the
// oldest first.
func (a *Agent) CardReads() []http.Header {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Clone(a.cardReads)
}

// Arrived waits until a task took the message and returns the task's id.
func (a *Agent) Arrived(ctx context.Context, messageID string) (taskID string, err error) {
	for {
		a.mu.Lock()
		taken := a.taken
		for _, t := range a.tasks {
			if slices.ContainsFunc(t.history, func(m a2a.Message) bool { return m.MessageID == messageID }) {
				taskID = t.id
			}
		}
		a.mu.Unlock()
		if taskID != "" {
			return taskID, nil
		}
		select {
		case <-taken:
		case <-ctx.Done():
			return "", fmt.Errorf("message %s did not arrive: %w", messageID, ctx.Err())
		}
	}
}

// SetStatus moves a task to a state, with a message if text is not empty. It
// fails if there is no such task or it has ended.
func (a *Agent) SetStatus(taskID string, state a2a.TaskState, text string) error {
	return a.drive(taskID, func(t *task) bool { return a.setStatus(t, state, text) })
}

// AddArtifact adds an artifact to a task or, with more, parts to the one of that
// id. It fails if there is no such task or it has ended.
func (a *Agent) AddArtifact(taskID string, artifact a2a.Artifact, more, last bool) error {
	return a.drive(taskID, func(t *task) bool { return a.addArtifact(t, artifact, more, last) })
}

func (a *Agent) drive(taskID string, step func(*task) bool) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	t := a.tasks[taskID]
	if t == nil {
		return fmt.Errorf("there is no task %q", taskID)
	}
	if !step(t) {
		return fmt.Errorf("task %s has ended as %s", taskID, t.status.State)
	}
	return nil
}

// Task returns a task as it stands, whoever owns it; nil if there is none.
func (a *Agent) Task(taskID string) *a2a.Task {
	a.mu.Lock()
	defer a.mu.Unlock()
	if t := a.tasks[taskID]; t != nil {
		return t.snapshot(-1, true)
	}
	return nil
}
