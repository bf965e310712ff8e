package parleytest

import (
	"context"
	"encoding/json"
	"net"
	"net/http"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/parley-mesh/parley/internal/a2a"
	"github.com/parley-mesh/parley/internal/a2a/a2agrpc"
	"github.com/parley-mesh/parley/internal/a2a/a2atest"
	"github.com/parley-mesh/parley/internal/control"
	"github.com/parley-mesh/parley/internal/parley"
)

// Agent is a scripted agent: it serves a card, and does with everything else
// what the test says at the moment. Until it is told, it knows no task, which
// is what a binding probe wants to hear.
type Agent struct {
	URL  string // with a trailing slash
	GRPC string // host:port; empty unless that binding was asked for

	server a2a.Server
	mu     sync.Mutex
	card   *a2a.AgentCard
	answer func(context.Context, *a2a.Request) *a2a.Reply // nil: knows no task
	raw    http.Handler                                   // nil: answer
	seen   []Seen
}

// Seen is a request as it reached the agent.
type Seen struct {
	Method a2a.Method // empty where the agent serves raw HTTP
	Path   string
	Query  string
	Header http.Header
	Host   string
	Params []byte
	Raw    []byte
}

// NewAgent serves a scripted agent on loopback until the test ends. Without
// bindings its card names both.
func NewAgent(t testing.TB, bindings ...a2a.Binding) *Agent {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	a := &Agent{URL: "http://" + listener.Addr().String() + "/"}
	// Short, so that a stream begins although its first frame is not there yet.
	options := a2a.ServerOptions{KeepAlive: 100 * time.Millisecond}
	a.server = a2a.Server{Handler: a2a.HandlerFunc(a.handle), Card: a.serveCard, Options: options}
	if slices.Contains(bindings, a2a.GRPC) {
		a.GRPC = a2atest.ServeGRPC(t, a2agrpc.NewServer(a2agrpc.Serving(a2a.HandlerFunc(a.handle)), a2agrpc.Options{A2A: options}))
	}
	a.card = Card(a.URL, bindings...)
	for i := range a.card.SupportedInterfaces {
		if in := &a.card.SupportedInterfaces[i]; in.ProtocolBinding == a2a.GRPC {
			in.URL = a.GRPC
		}
	}
	server := &http.Server{Handler: a}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = server.Serve(listener) // ends by Close below, always with an error
	}()
	t.Cleanup(func() {
		if err := server.Close(); err != nil {
			t.Error(err)
		}
		<-done
	})
	return a
}

// Card is a card of v1.0 for an agent at one address.
func Card(url string, bindings ...a2a.Binding) *a2a.AgentCard {
	if len(bindings) == 0 {
		bindings = []a2a.Binding{a2a.JSONRPC, a2a.HTTPJSON}
	}
	streams := true
	card := &a2a.AgentCard{
		Name: "scripted", Description: "does what a test says", Version: "1",
		Capabilities:      a2a.AgentCapabilities{Streaming: &streams},
		DefaultInputModes: []string{"text/plain"}, DefaultOutputModes: []string{"text/plain"},
		Skills: []a2a.AgentSkill{{ID: "any", Name: "any", Description: "anything", Tags: []string{"test"}}},
	}
	for _, b := range bindings {
		card.SupportedInterfaces = append(card.SupportedInterfaces, a2a.AgentInterface{URL: url, ProtocolBinding: b, ProtocolVersion: a2a.V10})
	}
	return card
}

// Agent serves a scripted agent and registers it.
func (m *Mesh) Agent(name parley.AgentName, bindings ...a2a.Binding) *Agent {
	m.t.Helper()
	a := NewAgent(m.t, bindings...)
	m.Add(control.NewAgent{Name: name, URL: a.URL})
	return a
}

// Answer sets what the agent does with operations from now on.
func (a *Agent) Answer(f func(ctx context.Context, q *a2a.Request) *a2a.Reply) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.answer, a.raw = f, nil
}

// Serve lets the agent answer raw HTTP from now on, the card aside: for agents
// that break the protocol.
func (a *Agent) Serve(h http.HandlerFunc) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.raw = h
}

// SetCard changes the card from now on.
func (a *Agent) SetCard(card *a2a.AgentCard) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.card = card
}

// Seen are the requests that reached the agent, cards aside, oldest first.
func (a *Agent) Seen() []Seen {
	a.mu.Lock()
	defer a.mu.Unlock()
	return append([]Seen(nil), a.seen...)
}

// Last is the newest request that reached the agent; the zero value if none did.
func (a *Agent) Last() Seen {
	if all := a.Seen(); len(all) > 0 {
		return all[len(all)-1]
	}
	return Seen{}
}

// ServeHTTP implements http.Handler.
func (a *Agent) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	a.mu.Lock()
	raw := a.raw
	a.mu.Unlock()
	if raw == nil || r.URL.Path == a2a.CardPath {
		a.server.ServeHTTP(w, r)
		return
	}
	a.note(Seen{Path: r.URL.EscapedPath(), Query: r.URL.RawQuery, Header: r.Header.Clone(), Host: r.Host})
	raw.ServeHTTP(w, r)
}

func (a *Agent) handle(ctx context.Context, q *a2a.Request) *a2a.Reply {
	a.note(Seen{Method: q.Method, Header: q.Header.Clone(), Params: append([]byte(nil), q.Params...), Raw: append([]byte(nil), q.Raw...)})
	a.mu.Lock()
	answer := a.answer
	a.mu.Unlock()
	if answer == nil {
		return a2a.Fail(a2a.TaskNotFound(q.Facts.TaskID))
	}
	return answer(ctx, q)
}

func (a *Agent) serveCard(*http.Request) ([]byte, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return json.Marshal(a.card)
}

func (a *Agent) note(s Seen) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.seen = append(a.seen, s)
}
