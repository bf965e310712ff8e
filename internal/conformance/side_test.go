package conformance

import (
	"bytes"
	"log/slog"
	"sync"
	"testing"

	"github.com/parley-mesh/parley/internal/a2a"
	"github.com/parley-mesh/parley/internal/a2a/a2atest"
	"github.com/parley-mesh/parley/internal/parley"
)

// Target is one way to a reference agent.
type Target struct {
	Agent *a2atest.Agent
	URL   string // where callers reach it
	// GRPC and Tenant are where they do in that binding.
	GRPC, Tenant string
	// Authorization values: two principals who may use the agent, and one who is
	// known but may not send.
	Alice, Bob, Outsider string
	Log                  func() string    // what was logged so far, at every level
	Mesh                 *mesh            // that stands between; nil directly
	Name                 parley.AgentName // of the agent in it
	Home                 string           // where the agent behind it is
}

// Variant is what a row needs to be different from the ordinary.
type Variant struct {
	Agent  a2atest.Options
	Strict bool // calls without a version are taken for 0.3
	TLS    bool // the mesh serves TLS
	Mute   bool // the mesh relays no push notifications
	Hasty  bool // the mesh gives receivers hastyTimeout, and tries again after hastyRetry
}

// Side is a column of the page in one pairing of bindings.
type Side struct {
	Name   string
	Caller a2a.Binding // what the harness speaks
	Open   func(t *testing.T, v Variant) *Target
}

// direct reaches the agent itself.
func direct(b a2a.Binding) Side {
	return Side{Name: "direct/" + string(b), Caller: b, Open: openDirect}
}

func openDirect(t *testing.T, v Variant) *Target {
	var log logBuffer
	opt := v.Agent
	opt.Credentials = map[string]string{"Bearer alice-7f3a": "alice", "Bearer bob-91cc": "bob", "Bearer outsider-02de": "outsider"}
	opt.Readers = []string{"outsider"}
	opt.Log = slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	opt.Server.StrictVersion = v.Strict
	if len(opt.Bindings) == 0 {
		opt.Bindings = []a2a.Binding{a2a.JSONRPC, a2a.HTTPJSON, a2a.GRPC}
	}
	agent, url := a2atest.Start(t, opt)
	return &Target{Agent: agent, URL: url, GRPC: agent.Address(), Alice: "Bearer alice-7f3a", Bob: "Bearer bob-91cc", Outsider: "Bearer outsider-02de", Log: log.String}
}

// logBuffer takes a log from many goroutines.
type logBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *logBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *logBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// world is what a row's test works in.
type world struct {
	*Target
	side Side
}

// another opens a target that differs from the ordinary one.
func (w *world) another(t *testing.T, v Variant) *world {
	t.Helper()
	return &world{w.side.Open(t, v), w.side}
}

// rpc tells whether the harness speaks JSON-RPC here.
func (w *world) rpc() bool { return w.side.Caller == a2a.JSONRPC }

// grpc tells whether the harness speaks gRPC here.
func (w *world) grpc() bool { return w.side.Caller == a2a.GRPC }

// other is a binding that the harness does not speak here.
func (w *world) other() a2a.Binding {
	if w.rpc() {
		return a2a.HTTPJSON
	}
	return a2a.JSONRPC
}
