package gateway

import (
	"context"
	"log/slog"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/trace"

	"github.com/parley-mesh/parley/internal/a2a"
	"github.com/parley-mesh/parley/internal/call"
	"github.com/parley-mesh/parley/internal/identity"
	"github.com/parley-mesh/parley/internal/keyring"
	"github.com/parley-mesh/parley/internal/limit"
	"github.com/parley-mesh/parley/internal/parley"
	"github.com/parley-mesh/parley/internal/registry"
	"github.com/parley-mesh/parley/internal/stream"
	"github.com/parley-mesh/parley/internal/telemetry"
)

// Identifier says who is asking.
type Identifier interface {
	Identify(ctx context.Context, c identity.Credential) (*identity.Caller, error)
}

// Directory finds agents and how to reach them.
type Directory interface {
	Lookup(ctx context.Context, name parley.AgentName) (*registry.Target, error)
}

// Journal keeps the record of calls and the index of tasks and contexts.
type Journal interface {
	// Begin writes a call that is about to leave; it is durable on return.
	Begin(ctx context.Context, r *call.Record) error
	// Settle writes what a call leaves behind in one transaction. Without wait
	// it joins the next batch. A task or context of somebody else is a
	// parley.Denied error, and nothing is written.
	Settle(ctx context.Context, s call.Settlement, wait bool) error
	// CanRecord is nil, or the parley.Unavailable error with which to refuse a
	// call that has no Begin, because its record might not be kept.
	CanRecord() error
	OpenCallsOf(ctx context.Context, agent parley.AgentName) ([]call.Candidate, error)
	OpenCalls(ctx context.Context) ([]*call.Record, error)
	Call(ctx context.Context, id parley.CallID) (*call.Record, error)
	Task(ctx context.Context, key call.TaskKey) (*call.Task, error)
	Tasks(ctx context.Context, f call.TaskFilter) ([]*call.Task, int, error)
	ContextOwner(ctx context.Context, agent parley.AgentName, instance, contextID string) (parley.PrincipalName, error)
}

// Mates are the other processes that serve the same journal.
type Mates interface {
	// CancelElsewhere cancels an open call that another process has, or gives a
	// parley.NotFound error where none has it.
	CancelElsewhere(ctx context.Context, id parley.CallID) error
	// LookElsewhere tells those whose calls wait for a task that the index has
	// its final state, once all is written that was settled before. It does not
	// wait for that.
	LookElsewhere(key call.TaskKey) error
}

// Tokens says how a credential stands in a request; see upstream.Tokens.
type Tokens interface {
	// Present may fetch a token. Its error is fit for callers, its cause is not.
	Present(ctx context.Context, c *registry.Credential) (registry.Presented, error)
	// Again is Present after the agent's 401: ok where there is another token
	// than the refused one.
	Again(ctx context.Context, c *registry.Credential, refused registry.Presented) (p registry.Presented, ok bool, err error)
}

// Options are a gateway's parts and limits.
type Options struct {
	Identity Identifier
	Agents   Directory
	Journal  Journal
	Streams  Streams
	Events   Events
	// Mates are the other replicas; nil where this process is alone. With them,
	// what a call shows first is durable before its caller is told: the next
	// request may come to another one.
	Mates  Mates
	Client a2a.Client // its limits; the transport is each agent's own
	// Transport gives the connection pool towards one agent, which shows the
	// target's client certificate.
	Transport func(t *registry.Target) http.RoundTripper
	// GRPC gives the way to an agent's gRPC interfaces; nil: they are not spoken.
	GRPC func(t *registry.Target) a2a.Exchanger
	// Tokens gets what is shown to agents; nil where credentials themselves say.
	Tokens Tokens
	Server a2a.ServerOptions
	Calls  *telemetry.Calls
	Tracer trace.Tracer
	Log    *slog.Logger
	Now    func() time.Time

	// Environment is the mesh's own; anonymous callers are in it.
	Environment parley.Environment
	// PublicURL is the address under which callers reach the mesh, without a
	// trailing slash; cards print it.
	PublicURL string
	// PublicGRPC is the host:port under which callers reach the gRPC listener, as
	// cards print it; empty where there is none. With a host of "*.HOST" each agent
	// is reached as NAME.HOST.
	PublicGRPC string
	// OpenIDs are the addresses of the metadata of issuers whose tokens are
	// taken; cards name them.
	OpenIDs []string
	// MetadataOf gives the address of the description of an agent as a
	// protected resource, which challenges name; empty for none. A nil func
	// gives none.
	MetadataOf func(parley.AgentName) string
	// Anonymous lists the agents that callers without a credential may call.
	Anonymous []parley.AgentName
	// CardKey gives the key that signs cards; nil: they are not signed.
	CardKey func(ctx context.Context) (*keyring.Key, error)
	// KeySet is the address of the mesh's public keys, as signatures name it.
	KeySet string
	// Mesh is the mesh's id, and ExtensionBase what the URIs of its extensions
	// begin with, without a trailing slash; cards tell both.
	Mesh, ExtensionBase string
	// ClientCerts says that client certificates are taken; cards tell of it.
	ClientCerts bool
	// CardsNeedCredential closes the well-known cards to callers without one.
	CardsNeedCredential bool

	Limits Limits
	// MessageWindow is how long a message that is sent again is known as such;
	// 0 or less for never.
	MessageWindow time.Duration
	Watch         WatchOptions
	// Push is the push relay; nil where it is switched off.
	Push *PushOptions
	// TokenKey authenticates page tokens; at least 32 bytes.
	TokenKey []byte
	// EventKey keys the ids of events; at least 32 bytes.
	EventKey []byte
}

// Limits bound what one call may hold and wait for. All are required.
type Limits struct {
	CallDeadline time.Duration // how long a call may stay open
	Unary        time.Duration // how long an agent may take for an answer that is no stream
	FirstByte    time.Duration // how long an agent may take to begin a stream

	Streams             int // open at once
	StreamsPerPrincipal int // open at once
	// StreamsDetached is how many streams of agents are read at once that no
	// caller follows.
	StreamsDetached int
	StreamBuffer    int // bytes of events that a subscriber may be behind
	// StreamRecovery is how long a task whose stream broke may say nothing before
	// its subscribers are told so.
	StreamRecovery time.Duration

	PerPrincipal limit.Rate // requests of one principal
	PerAddress   limit.Rate // requests without a credential of one remote host

	Snapshot           int           // bytes of the largest Task that is kept
	ListRefresh        int           // tasks that one ListTasks asks agents for
	ListRefreshTimeout time.Duration // how long it waits for them
}

// Gateway takes calls to agents.
type Gateway struct {
	Options
	open      *openCalls
	watch     *watcher
	anonymous map[parley.AgentName]bool
	cards     cards
	extended  extendedCards
	schemes   map[string]a2a.SecurityScheme // the mesh's own, on every card
	streams   streamSlots
	hubs      hubs
	ids       stream.IDs
	standings *standings
	bounds    atomic.Pointer[Limits] // in force; Options.Limits are those of the start
	rates     rates
	relays    *relays

	lostMu    sync.Mutex
	lostTasks map[call.TaskKey]int // looks in a row at which the agent did not know the task; guarded by lostMu
}

// New makes a gateway. Restore comes before it serves, and its Run must run for
// as long as it does.
func New(o Options) *Gateway {
	g := &Gateway{
		Options: o, open: newOpenCalls(),
		anonymous: map[parley.AgentName]bool{},
		cards:     cards{by: map[parley.AgentName]rewritten{}},
		extended:  extendedCards{by: map[parley.AgentName]extended{}},
		schemes:   schemesOf(o.OpenIDs, o.ClientCerts),
		streams:   streamSlots{of: map[parley.PrincipalName]int{}},
		rates:     newRates(o.Limits),
		lostTasks: map[call.TaskKey]int{},
		standings: newStandings(), relays: newRelays(),
		hubs: hubs{of: map[call.TaskKey]*hub{}, regains: make(chan struct{}, regainsMax), replays: make(chan struct{}, replaysMax)},
		ids:  stream.NewIDs(o.EventKey),
	}
	for _, name := range o.Anonymous {
		g.anonymous[name] = true
	}
	g.SetLimits(o.Limits)
	g.watch = newWatcher(o.Watch, o.Now, g.look)
	return g
}

// SetLimits puts other limits in force, for what begins from now on.
func (g *Gateway) SetLimits(l Limits) { g.bounds.Store(&l) }

// limits are those in force.
func (g *Gateway) limits() Limits { return *g.bounds.Load() }

// Restore takes up the calls that were open when the process started. It is
// called once, before anything is served: a call of this process must not be
// taken for one of the last.
func (g *Gateway) Restore(ctx context.Context) error {
	records, err := g.Journal.OpenCalls(ctx)
	if err != nil {
		return err
	}
	g.Adopt(records)
	if g.Push == nil {
		return nil
	}
	return g.restoreRelays(ctx)
}

// Adopt takes up open calls that another process had, each with a task. Where that
// was streamed, it is from now on again.
func (g *Gateway) Adopt(records []*call.Record) {
	streamed := map[call.TaskKey]bool{}
	for _, r := range records {
		key := call.TaskKey{Agent: r.Agent, Instance: r.Instance, ID: r.TaskID}
		g.open.restore(r, key)
		g.watch.add(key, r.Deadline)
		if a2a.Method(r.Method).Streaming() && len(streamed) < g.limits().StreamsDetached {
			streamed[key] = true
		}
	}
	if len(streamed) == 0 {
		return
	}
	g.hubs.running.Go(func() {
		for key := range streamed {
			g.resume(key)
		}
	})
}

// Run watches the tasks that nobody follows, and those of which somebody is to
// be told, until ctx ends. It returns once all streams of agents have ended.
func (g *Gateway) Run(ctx context.Context) error {
	var both sync.WaitGroup
	both.Go(func() { g.watch.run(ctx) })
	if g.Push != nil {
		both.Go(func() { g.runRelays(ctx) })
	}
	both.Wait()
	g.open.cancelAll(errShutdown)
	g.hubs.running.Wait()
	return nil
}

// client is the A2A client towards one agent.
func (g *Gateway) client(t *registry.Target) *a2a.Client {
	c := g.Client
	c.Transport = g.Transport(t)
	if g.GRPC != nil {
		c.GRPC = g.GRPC(t)
	}
	return &c
}

// Watched is how many tasks are watched now.
func (g *Gateway) Watched() int { return g.watch.size() }

// Freeze ends the exchanges of all frozen principals, which callers lists whole.
// An exchange that had begun before a principal was frozen and reaches its agent
// afterwards is ended as well. Tasks that the agent has named stay open and are
// watched: the freeze is the caller's, not the agent's.
func (g *Gateway) Freeze(callers []parley.PrincipalName) {
	if ended := g.open.freeze(callers); ended > 0 {
		g.Log.Info("exchanges of frozen principals ended", "count", ended)
	}
}

// Abort ends every exchange under way; their calls end as canceled. It is the
// last resort of a shutdown and gives the number of exchanges it ended.
func (g *Gateway) Abort() int { return g.open.cancelAll(errShutdown) }
