package control_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"iter"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/parley-mesh/parley/internal/apply"
	"github.com/parley-mesh/parley/internal/call"
	"github.com/parley-mesh/parley/internal/control"
	"github.com/parley-mesh/parley/internal/identity"
	"github.com/parley-mesh/parley/internal/parley"
	"github.com/parley-mesh/parley/internal/push"
	"github.com/parley-mesh/parley/internal/registry"
	"github.com/parley-mesh/parley/internal/store"
)

const home = "https://agent.example/"

// mesh is a control API over a real store and registrar; only the agents, the
// gateway and the mesh's own state are made up.
type mesh struct {
	db     *store.DB
	dir    *identity.Directory
	server *httptest.Server
	log    *lockedBuffer

	admin, operator, nobody string // keys

	mu        sync.Mutex
	inspect   func(registry.InspectRequest) (*registry.Inspection, error)
	canceled  []parley.CallID
	cancel    error
	status    error
	news      chan struct{} // closed at the next commit
	applied   apply.Request
	discarded int
	broken    atomic.Bool // backups break off
}

type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

func (m *mesh) Inspect(_ context.Context, r registry.InspectRequest) (*registry.Inspection, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.inspect(r)
}

func (m *mesh) Cancel(_ context.Context, id parley.CallID) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.canceled = append(m.canceled, id)
	return m.cancel
}

func (m *mesh) Status(context.Context) (control.Status, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return control.Status{MeshID: m.db.MeshID(), Version: "test", Environment: parley.Dev, Store: control.StoreStatus{Kind: "sqlite", Healthy: true}}, m.status
}

// feed follows the store's events.
type feed struct {
	*store.DB
	m *mesh
}

func (m *mesh) notify(int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	close(m.news)
	m.news = make(chan struct{})
}

func (f feed) Follow(ctx context.Context, after int64) iter.Seq2[parley.Event, error] {
	return func(yield func(parley.Event, error) bool) {
		for {
			f.m.mu.Lock()
			news := f.m.news
			f.m.mu.Unlock()
			events, err := f.Events(ctx, after, 100)
			if err != nil {
				yield(parley.Event{}, err)
				return
			}
			for _, e := range events {
				if !yield(e, nil) {
					return
				}
				after = e.Seq
			}
			select {
			case <-news:
			case <-ctx.Done():
				return
			}
		}
	}
}

// answers is an agent that answers at home.
func answers(registry.InspectRequest) (*registry.Inspection, error) {
	return &registry.Inspection{
		CardURL: home + "card", Card: []byte(`{"name":"Echo"}`), Hash: strings.Repeat("ab", 32), Title: "Echo",
		Interfaces: []registry.Interface{{URL: home, Binding: "JSONRPC", Version: "1.0", Probe: "ok"}},
		Tried:      []registry.Attempt{{URL: home + "card", Result: "found"}},
	}, nil
}

func newMesh(t *testing.T) *mesh {
	t.Helper()
	ctx := t.Context()
	m := &mesh{inspect: answers, log: &lockedBuffer{}, news: make(chan struct{})}
	var err error
	m.db, err = store.Open(ctx, store.Options{Dir: t.TempDir(), Durability: store.Relaxed, Notify: m.notify})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := m.db.Close(context.WithoutCancel(ctx)); err != nil {
			t.Error(err)
		}
	})
	m.dir = identity.NewDirectory(m.db, registry.Homes{Store: m.db}, identity.Options{Sink: m.db, FailureBurst: 200, FailuresPerMinute: 1})
	if err := m.dir.Bootstrap(ctx); err != nil {
		t.Fatal(err)
	}
	m.admin = m.principal(t, "root", parley.RoleAdmin)
	m.operator = m.principal(t, "ops", parley.RoleOperator)
	m.nobody = m.principal(t, "ann")
	s, err := control.NewServer(control.Options{
		Answers:  m.db,
		Pushes:   m.db,
		Deliver:  push.NewDispatcher(push.Options{Outbox: m.db}),
		Identity: m.dir, Registry: registry.New(registry.Options{Store: m.db, Inspector: m}), Agents: m.db,
		Calls: m.db, Tasks: m.db, Events: feed{m.db, m}, Cancel: m, Status: m, MeshID: m.db.MeshID(),
		Apply: m, Backup: m,
		Log: slog.New(slog.NewTextHandler(m.log, nil)),
	})
	if err != nil {
		t.Fatal(err)
	}
	m.server = httptest.NewUnstartedServer(s)
	m.server.Config.ErrorLog = slog.NewLogLogger(slog.NewTextHandler(m.log, nil), slog.LevelError)
	m.server.Start()
	t.Cleanup(m.server.Close)
	return m
}

// principal makes a principal and gives a key of it.
func (m *mesh) principal(t *testing.T, name parley.PrincipalName, roles ...parley.Role) string {
	t.Helper()
	if _, err := m.dir.CreatePrincipal(t.Context(), identity.NewPrincipal{Name: name, Roles: roles}); err != nil {
		t.Fatal(err)
	}
	text, _, err := m.dir.CreateKey(t.Context(), identity.KeyRequest{Principal: name})
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func (m *mesh) client(t *testing.T, key string) *control.Client {
	t.Helper()
	c, err := control.NewClient(m.server.Client(), m.server.URL, key)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// socket serves the same API on a Unix socket and gives its path.
func (m *mesh) socket(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "s")
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	s := &http.Server{Handler: m.server.Config.Handler, ReadHeaderTimeout: time.Second}
	go s.Serve(l) // ends with Close below
	t.Cleanup(func() { s.Close() })
	return path
}

// answer is what came back, raw.
type answer struct {
	status int
	header http.Header
	body   string
}

// problem decodes a failure.
func (a answer) problem(t *testing.T) control.Problem {
	t.Helper()
	var p control.Problem
	if ct := a.header.Get("Content-Type"); ct != control.ProblemType {
		t.Errorf("Content-Type %q, want %q; body %s", ct, control.ProblemType, a.body)
	}
	if err := json.Unmarshal([]byte(a.body), &p); err != nil {
		t.Fatalf("%v in %s", err, a.body)
	}
	if p.Status != a.status {
		t.Errorf("the problem says %d, the answer %d", p.Status, a.status)
	}
	return p
}

// ask sends a request as it is. Headers are given as "Name: value".
func (m *mesh) ask(t *testing.T, key, method, path, body string, headers ...string) answer {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, m.server.URL+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	if key != "" {
		req.Header.Set("X-API-Key", key)
	}
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	for _, h := range headers {
		name, value, _ := strings.Cut(h, ": ")
		req.Header.Set(name, value)
	}
	resp, err := m.server.Client().Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer{resp.StatusCode, resp.Header, string(b)}
}

// call keeps a call of ann's to an agent, ended with an outcome unless that is
// open.
func (m *mesh) call(t *testing.T, agent parley.AgentName, outcome parley.Outcome, parent *call.Record) *call.Record {
	t.Helper()
	r := &call.Record{
		ID: parley.NewCallID(), Caller: "ann", CallerOwner: "default", Environment: parley.Dev,
		Agent: agent, AgentOwner: "default", Method: "SendMessage", CallerBinding: "JSONRPC", AgentBinding: "HTTP+JSON",
		Begun: time.Now(), Deadline: time.Now().Add(time.Hour), Reference: "order-7",
	}
	r.Root, r.Link = r.ID, call.Link{Kind: call.LinkRoot}
	if parent != nil {
		r.Root = parent.Root
		r.Link = call.Link{Kind: call.LinkParent, Parent: parent.ID, Depth: parent.Link.Depth + 1, Candidates: []parley.CallID{parent.ID}, Count: 1}
	}
	if err := m.db.Begin(t.Context(), r); err != nil {
		t.Fatal(err)
	}
	r.TaskID, r.TaskState = "task-of-"+r.ID.String(), "TASK_STATE_WORKING"
	task := &call.Task{
		Agent: agent, ID: r.TaskID, Principal: "ann", Owner: "default", ContextID: "c", State: r.TaskState,
		StatusAt: time.Now(), Call: r.ID, UpdatedAt: time.Now(), Snapshot: []byte(`{"id":"` + r.TaskID + `","secret":"payload"}`),
	}
	if outcome != parley.OutcomeOpen {
		r.End = call.End{
			Ended: time.Now(), Outcome: outcome, Status: 200, BytesIn: 10, BytesOut: 20,
			FirstByte: 1500 * time.Microsecond, Total: 2 * time.Millisecond, Steps: []call.Step{{Name: "identify", Took: 250 * time.Microsecond}},
		}
	}
	if err := m.db.Settle(t.Context(), call.Settlement{Record: r, Task: task}, true); err != nil {
		t.Fatal(err)
	}
	return r
}

// fields are the paths a *parley.Error complains of.
func fields(err error) (paths []string) {
	if e, ok := errors.AsType[*parley.Error](err); ok {
		for _, f := range e.Fields {
			paths = append(paths, f.Path)
		}
	}
	return paths
}
