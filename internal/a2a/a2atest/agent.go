package a2atest

import (
	"context"
	"crypto/rand"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/parley-mesh/parley/internal/a2a"
	"github.com/parley-mesh/parley/internal/a2a/a2agrpc"
	"github.com/parley-mesh/parley/internal/a2a/cardsign"
)

// Extended says what the agent does about an extended card.
type Extended int

const (
	ExtendedNone    Extended = iota // not declared
	ExtendedMissing                 // declared, but there is none
	ExtendedServed                  // declared and served to callers with a credential
)

// Options of an Agent. The zero value is an agent that serves both bindings of HTTP
// and everybody, each Authorization value being a principal of its own.
type Options struct {
	// Bindings are those served, in the card's order. Empty means both of HTTP.
	Bindings []a2a.Binding
	// Credentials are the Authorization values that are let in, with the principal
	// each stands for. Empty lets everybody in.
	Credentials map[string]string
	// Readers are principals who may read but not send or cancel.
	Readers []string
	// Tenant is what the card asks callers to send, and what they must send.
	Tenant string

	// Default is the behaviour of messages whose ids name none; empty means
	// tck-complete-task.
	Default string

	NoStreaming bool
	// Push sends the push notifications of tasks to whoever asks for them; nil:
	// the agent sends none, and says so.
	Push        *http.Client
	PushTimeout time.Duration // of one; 0 means PushTimeout

	Extended   Extended
	Extensions []a2a.AgentExtension // declared in the card
	Reserved   []a2a.AgentExtension // declared in the extended card only

	Signer     *cardsign.Signer // of the card; nil: it is not signed
	Keys       []byte           // served at KeySetPath; nil: nothing is
	InputModes []string         // media types taken; empty means DefaultInputModes

	MaxTasks int           // tasks kept; 0 means DefaultMaxTasks
	MaxBytes int64         // of all messages kept; 0 means DefaultMaxBytes
	MaxLag   int           // events a subscriber may lie behind; 0 means DefaultMaxLag
	Delay    time.Duration // of tck-delayed-complete; 0 means DefaultDelay

	Server a2a.ServerOptions
	Log    *slog.Logger // nil for none
}

// Defaults of Options.
const (
	DefaultMaxTasks = 1000
	DefaultMaxBytes = 64 << 20
	DefaultMaxLag   = 256
	DefaultDelay    = time.Second
)

// DefaultInputModes are the media types an agent takes unless told otherwise.
var DefaultInputModes = []string{"text/plain", "application/json", "application/octet-stream"}

// Agent is the reference agent. It is an http.Handler that expects paths relative
// to its address.
type Agent struct {
	opt    Options
	server a2a.Server
	key    []byte // authenticates page tokens

	mu        sync.Mutex // guards what follows, and every task
	url       string
	grpc      string // host:port of the gRPC listener
	tasks     map[string]*task
	contexts  map[string]*conversation
	bytes     int64         // of all tasks
	last      time.Time     // status timestamp given last
	taken     chan struct{} // closed and replaced when a task takes a message
	seen      []Seen
	cardReads []http.Header
}

// conversation is a context: whose it is and how many tasks it has.
type conversation struct {
	owner string
	tasks int
}

// New makes an agent. SetURL tells it where it is served.
func New(opt Options) *Agent {
	if len(opt.Bindings) == 0 {
		opt.Bindings = []a2a.Binding{a2a.JSONRPC, a2a.HTTPJSON}
	}
	if len(opt.InputModes) == 0 {
		opt.InputModes = DefaultInputModes
	}
	if opt.MaxTasks <= 0 {
		opt.MaxTasks = DefaultMaxTasks
	}
	if opt.MaxBytes <= 0 {
		opt.MaxBytes = DefaultMaxBytes
	}
	if opt.MaxLag <= 0 {
		opt.MaxLag = DefaultMaxLag
	}
	if opt.Delay <= 0 {
		opt.Delay = DefaultDelay
	}
	a := &Agent{opt: opt, key: []byte(rand.Text()), tasks: map[string]*task{},
		contexts: map[string]*conversation{}, taken: make(chan struct{})}
	a.server = a2a.Server{Handler: a2a.HandlerFunc(a.handle), Card: a.publicCard, Options: opt.Server, Log: opt.Log}
	return a
}

// SetURL says at which address callers reach the agent; the card names it.
func (a *Agent) SetURL(url string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.url = url
}

// GRPC makes a server of the agent in that binding.
func (a *Agent) GRPC() *a2agrpc.Server {
	return a2agrpc.NewServer(a2agrpc.Serving(a2a.HandlerFunc(a.handle)), a2agrpc.Options{A2A: a.opt.Server, Log: a.opt.Log})
}

// SetGRPC says at which host:port callers reach the agent over gRPC; the card
// names it.
func (a *Agent) SetGRPC(address string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.grpc = address
}

// KeySetPath is where the agent's key set is.
const KeySetPath = "/.well-known/jwks.json"

// ServeHTTP implements http.Handler.
func (a *Agent) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path == KeySetPath && a.opt.Keys != nil {
		_ = a2a.ServeDocument(w, r, a.opt.Keys, "public, max-age=60") // the reader has left: nobody to tell
		return
	}
	a.server.ServeHTTP(w, r)
}

// handle answers one checked request: first who asks and whether they may, then
// what the card promises, then the operation.
func (a *Agent) handle(ctx context.Context, q *a2a.Request) *a2a.Reply {
	a.note(q)
	owner, err := a.authorize(q)
	if err == nil {
		err = a.offered(q)
	}
	if err != nil {
		return a2a.Fail(err)
	}
	reply := a.operate(ctx, owner, q)
	if active := a.active(q); len(active) > 0 {
		reply.Header = http.Header{"A2a-Extensions": {strings.Join(active, ", ")}}
	}
	return reply
}

func (a *Agent) operate(ctx context.Context, owner string, q *a2a.Request) *a2a.Reply {
	switch q.Method {
	case a2a.SendMessage, a2a.SendStreamingMessage:
		return a.send(ctx, owner, q)
	case a2a.GetTask:
		return a.get(owner, q)
	case a2a.ListTasks:
		return a.list(owner, q)
	case a2a.CancelTask:
		return a.cancel(owner, q)
	case a2a.SubscribeToTask:
		return a.subscribe(owner, q)
	case a2a.CreatePushConfig, a2a.GetPushConfig, a2a.ListPushConfigs, a2a.DeletePushConfig:
		return a.operatePush(owner, q)
	case a2a.GetExtendedCard:
		return a.extendedCard(owner)
	}
	return a2a.Fail(a2a.Internal("the agent does not know the operation"))
}

// authorize tells whose request it is. Principals without a name are one.
func (a *Agent) authorize(q *a2a.Request) (owner string, err *a2a.Error) {
	owner = q.Header.Get("Authorization")
	if len(a.opt.Credentials) > 0 {
		name, ok := a.opt.Credentials[owner]
		if !ok {
			e := a2a.NewError(a2a.ReasonUnauthenticated, "a credential is needed: send Authorization: Bearer TOKEN")
			e.Challenge = `Bearer realm="reference agent"`
			return "", e
		}
		owner = name
	}
	if (q.Method.Sends() || q.Method == a2a.CancelTask) && slices.Contains(a.opt.Readers, owner) {
		e := a2a.NewError(a2a.ReasonForbidden, "this credential may read only; the scope tasks:write is missing")
		e.Challenge = `Bearer realm="reference agent", error="insufficient_scope", scope="tasks:write"`
		return "", e
	}
	return owner, nil
}

// offered checks the request against what the card says.
func (a *Agent) offered(q *a2a.Request) *a2a.Error {
	switch {
	case !slices.Contains(a.opt.Bindings, q.Binding):
		return a2a.NewError(a2a.ReasonMethodNotFound, "the binding %s is not served here", q.Binding)
	case q.Tenant != a.opt.Tenant:
		return a2a.InvalidParams(a2a.FieldViolation{Field: "tenant", Description: "must be what the agent card says"})
	}
	for _, x := range a.opt.Extensions {
		if x.Required && !slices.Contains(q.Extensions, x.URI) {
			return a2a.NewError(a2a.ReasonExtensionRequired, "the extension %s must be requested in the header %s", x.URI, a2a.HeaderExtensions).With("uri", x.URI)
		}
	}
	switch {
	case a.opt.Push == nil && (q.Method.Push() || q.Facts.InlinePush):
		return a2a.NewError(a2a.ReasonPushNotSupported, "this agent sends no push notifications")
	case q.Method.Streaming() && a.opt.NoStreaming:
		return a2a.UnsupportedOperation("this agent does not stream")
	}
	return nil
}

// active are the extensions asked for that the agent knows.
func (a *Agent) active(q *a2a.Request) []string {
	var active []string
	for _, x := range slices.Concat(a.opt.Extensions, a.opt.Reserved) {
		if slices.Contains(q.Extensions, x.URI) {
			active = append(active, x.URI)
		}
	}
	return active
}

// find returns a task of the owner's. What is somebody else's does not exist.
// a.mu is held.
func (a *Agent) find(owner, id string) (*task, *a2a.Error) {
	if t := a.tasks[id]; t != nil && t.owner == owner {
		return t, nil
	}
	return nil, a2a.TaskNotFound(id)
}

func (a *Agent) get(owner string, q *a2a.Request) *a2a.Reply {
	a.mu.Lock()
	defer a.mu.Unlock()
	t, err := a.find(owner, q.Facts.TaskID)
	if err != nil {
		return a2a.Fail(err)
	}
	return a2a.Answer(q.Method, t.snapshot(q.Facts.HistoryLength, true))
}

// cancel ends a task. One that was canceled before stays so: canceling is
// idempotent.
func (a *Agent) cancel(owner string, q *a2a.Request) *a2a.Reply {
	a.mu.Lock()
	defer a.mu.Unlock()
	t, err := a.find(owner, q.Facts.TaskID)
	switch {
	case err != nil:
		return a2a.Fail(err)
	case t.status.State == a2a.StateCanceled:
	case t.status.State.Terminal():
		return a2a.Fail(a2a.NewError(a2a.ReasonTaskNotCancelable, "the task has ended as %s", t.status.State).With("taskId", t.id))
	default:
		a.setStatus(t, a2a.StateCanceled, "canceled as asked")
	}
	return a2a.Answer(q.Method, t.snapshot(-1, true))
}
