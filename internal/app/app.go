package app

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"
	"time"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"golang.org/x/sync/errgroup"

	"github.com/parley-mesh/parley/internal/a2a"
	"github.com/parley-mesh/parley/internal/a2a/a2agrpc"
	"github.com/parley-mesh/parley/internal/certs"
	"github.com/parley-mesh/parley/internal/config"
	"github.com/parley-mesh/parley/internal/control"
	"github.com/parley-mesh/parley/internal/event"
	"github.com/parley-mesh/parley/internal/gateway"
	"github.com/parley-mesh/parley/internal/identity"
	"github.com/parley-mesh/parley/internal/jsonwire"
	"github.com/parley-mesh/parley/internal/keyring"
	"github.com/parley-mesh/parley/internal/netguard"
	"github.com/parley-mesh/parley/internal/oidc"
	"github.com/parley-mesh/parley/internal/parley"
	"github.com/parley-mesh/parley/internal/probe"
	"github.com/parley-mesh/parley/internal/push"
	"github.com/parley-mesh/parley/internal/registry"
	"github.com/parley-mesh/parley/internal/store"
	"github.com/parley-mesh/parley/internal/stream"
	"github.com/parley-mesh/parley/internal/telemetry"
	"github.com/parley-mesh/parley/internal/upstream"
	"github.com/parley-mesh/parley/internal/vault"
)

// Options are what a process adds to its configuration.
type Options struct {
	// ReadyFile is written once everything answers; empty for none.
	ReadyFile string
	// LogTo takes the log; nil for none.
	LogTo io.Writer
	// Version is the binary's version.
	Version string
	// Spans takes ended spans, beside the configured collector; nil for none.
	Spans sdktrace.SpanProcessor
	// NewDialer makes the dialer towards agents, see netguard.Options; nil for the
	// system's. Tests of hostile addresses use netguardtest.Recorder.
	NewDialer func(netguard.Control) netguard.Dialer
	// Now is the clock; nil means time.Now.
	Now func() time.Time
}

// App is a mesh that is built and can be run.
type App struct {
	cfg  *config.Config
	opts Options
	log  *slog.Logger
	down unwinder

	store    *store.DB
	hub      *event.Hub
	issuers  *oidc.Verifier // nil where no issuer is configured
	metadata *oidc.Metadata
	identity *identity.Directory
	agents   *registry.Directory
	registry *registry.Registrar
	tokens   *upstream.Tokens
	keyring  *keyring.Ring
	pushes   *push.Dispatcher
	gateway  *gateway.Gateway
	control  *control.Server
	measures *telemetry.Provider
	certs    *certs.Keeper // nil without TLS

	complaints complaints

	limits    limitsInForce
	gone      goneAgents
	listeners listeners
	stopping  chan struct{} // closed when nothing new is accepted any more
	ready     Ready
	started   time.Time
}

// Serve opens a mesh and runs it until ctx ends, then stops it within
// limits.shutdown_timeout. It returns nil after a clean stop.
func Serve(ctx context.Context, cfg *config.Config, o Options) error {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(gcPercent)
	}
	a, err := Open(ctx, cfg, o)
	if err != nil {
		return err
	}
	return a.Run(ctx)
}

// gcPercent lets the heap grow to five times what is live before it is
// collected. Little is live (tens of megabytes), and at Go's default a busy mesh
// spends a tenth of its time collecting. GOGC in the environment wins.
const gcPercent = 400

// Open builds a mesh: after it, every listener is bound and nothing is served
// yet. On an error everything it had built is taken down again.
func Open(ctx context.Context, cfg *config.Config, o Options) (_ *App, err error) {
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.LogTo == nil {
		o.LogTo = io.Discard
	}
	a := &App{cfg: cfg, opts: o, started: o.Now(), log: newLogger(cfg.Log, o.LogTo), stopping: make(chan struct{}), limits: limitsInForce{changed: make(chan struct{}, 1)}}
	a.gone.changed, a.gone.known = make(chan struct{}, 1), map[parley.AgentName]time.Time{}
	a.down.log, a.complaints.log = a.log, a.log
	defer func() {
		if err != nil {
			stopCtx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cfg.Limits.ShutdownTimeout)
			defer cancel()
			err = errors.Join(err, a.down.unwind(stopCtx, slog.LevelDebug))
		}
	}()
	for _, build := range []func(context.Context) error{
		a.openTelemetry, a.openStore, a.openListeners, a.openSignOn, a.openIdentity, a.openKeyring, a.openPushes, a.openRegistry, a.openGateway, a.openControl,
	} {
		if err := build(ctx); err != nil {
			return nil, err
		}
	}
	return a, nil
}

func newLogger(c config.Log, to io.Writer) *slog.Logger {
	levels := map[config.LogLevel]slog.Level{
		config.LogDebug: slog.LevelDebug, config.LogInfo: slog.LevelInfo,
		config.LogWarn: slog.LevelWarn, config.LogError: slog.LevelError,
	}
	options := &slog.HandlerOptions{Level: levels[c.Level]}
	if c.Format == config.LogJSON {
		return slog.New(slog.NewJSONHandler(to, options))
	}
	return slog.New(slog.NewTextHandler(to, options))
}

func (a *App) openTelemetry(context.Context) error {
	to := a.cfg.Telemetry
	traces, err := collectorHeaders("telemetry.traces_headers", to.TracesHeaders)
	if err != nil {
		return err
	}
	metrics, err := collectorHeaders("telemetry.metrics_headers", to.MetricsHeaders)
	if err != nil {
		return err
	}
	p, err := telemetry.New(telemetry.Options{
		Traces: telemetry.Collector{Endpoint: to.TracesEndpoint, Headers: traces}, Sample: to.TracesSample, Spans: a.opts.Spans,
		Metrics: telemetry.Collector{Endpoint: to.MetricsEndpoint, Headers: metrics}, Every: to.MetricsInterval,
		Version: a.opts.Version,
	})
	if err != nil {
		return err
	}
	a.measures = p
	a.down.push("flush traces and metrics", p.Shutdown)
	return nil
}

// collectorHeaders reads a collector's headers, one "Name: value" a line.
func collectorHeaders(key parley.Subject, s config.Secret) (map[string]string, error) {
	if !s.IsSet() {
		return nil, nil
	}
	headers := map[string]string{}
	for line := range strings.Lines(s.Reveal()) {
		if strings.TrimSpace(line) == "" {
			continue
		}
		name, value, ok := strings.Cut(line, ":")
		if !ok {
			return nil, parley.E("app.telemetry", parley.Invalid, key, string(key)+" has a line without a colon: write one \"Name: value\" a line", nil)
		}
		headers[strings.TrimSpace(name)] = strings.TrimSpace(value)
	}
	return headers, nil
}

func (a *App) openStore(ctx context.Context) error {
	a.hub = &event.Hub{}
	db, err := store.Open(ctx, store.Options{
		Dir: a.cfg.Data, Durability: store.Durability(a.cfg.Durability), MasterKey: vault.Source(a.cfg.MasterKey.Reference()),
		Log: a.log, Now: a.opts.Now, Notify: a.hub.Notify, Journaled: a.journaled, Postgres: postgresOptions(a.cfg),
		Journal: stream.Limits{Events: a.cfg.Retention.JournalEvents, Bytes: int(a.cfg.Retention.JournalSize)},
	})
	if err != nil {
		return a.fromWhere(err)
	}
	a.store = db
	a.down.push("flush and close the store", db.Close)
	unknown, err := db.Recover(ctx, a.opts.Now())
	if err != nil {
		return err
	}
	if unknown > 0 {
		a.log.Warn("calls of an unfinished run have no known end", "count", unknown)
	}
	meter, err := telemetry.NewStore(a.measures.Meter(), func() telemetry.StoreState {
		stats := db.Stats()
		return telemetry.StoreState{Queue: stats.Queue, Refused: stats.Refused, Dropped: stats.Dropped}
	})
	if err != nil {
		return err
	}
	db.Measure(meter)
	return nil
}

// fromWhere adds to a refusal of a data directory that is taken who named it:
// it often is not the one that was meant.
func (a *App) fromWhere(err error) error {
	e, ok := errors.AsType[*parley.Error](err)
	if !ok || e.Kind != parley.Conflict {
		return err
	}
	told := *e
	told.Message += fmt.Sprintf(" (this directory comes from: %s)", a.cfg.Origin("data"))
	return &told
}

func (a *App) openIdentity(ctx context.Context) error {
	a.identity = identity.NewDirectory(a.store, registry.Homes{Store: a.store}, identity.Options{
		Environment: a.cfg.Environment, FailuresPerMinute: a.cfg.Auth.FailuresPerMinute, FailureBurst: a.cfg.Auth.FailureBurst,
		Log: a.log, Now: a.opts.Now, Sink: a.store, Tokens: a.verifier(),
		Certificates: a.clientCerts(), TrustDomains: a.cfg.Auth.SPIFFE.TrustDomains,
		Frozen: func(all []parley.PrincipalName) {
			if a.gateway != nil { // it is made after the directory
				a.gateway.Freeze(all)
			}
		},
	})
	if err := a.identity.Bootstrap(ctx); err != nil {
		return err
	}
	return a.writeAdminKey(ctx)
}

// writeAdminKey makes sure that DATA/admin.key holds a valid key and the
// address it may be sent to. A file that was lost or whose key is no longer
// valid is replaced.
func (a *App) writeAdminKey(ctx context.Context) error {
	path := filepath.Join(a.cfg.Data, control.AdminKeyFile)
	kept, err := control.ReadAdminKey(path)
	if err == nil {
		if _, err = a.identity.Identify(ctx, identity.Credential{XAPIKey: kept.Key}); (err == nil || parley.KindOf(err) == parley.Frozen) && kept.Origin == a.ready.Control && kept.Mesh == a.store.MeshID() {
			return nil
		}
	}
	text := ""
	if err == nil {
		text = kept.Key
	} else if text, _, err = a.identity.AdminKey(ctx, "made by parley serve for "+control.AdminKeyFile); err != nil {
		return fmt.Errorf("make the admin key: %w", err)
	}
	if err := writeJSONFile(path, control.AdminKey{Origin: a.ready.Control, Mesh: a.store.MeshID(), Key: text}); err != nil {
		return parley.E("app.open", parley.Unavailable, parley.Subject(path), "the admin key cannot be written to "+path+": check that the directory is writable and its disk has room", err)
	}
	return nil
}

// guard is what looks at every address that is connected to.
func (a *App) guard() *netguard.Guard {
	return netguard.New(netguard.Options{Allow: a.cfg.AllowedNetworks(), Deny: a.cfg.Network.Deny, DialTimeout: a.cfg.Limits.DialTimeout, NewDialer: a.opts.NewDialer})
}

func (a *App) openRegistry(context.Context) error {
	guard := a.guard()
	transports := guard.Transports(netguard.TransportOptions{IdlePerAgent: a.cfg.Limits.IdlePerAgent, HeaderBytes: int64(a.cfg.Limits.Header)})
	a.down.push("close the connections to agents", func(context.Context) error { transports.Close(); return nil })
	a.tokens = upstream.New(upstream.Options{Guard: guard, Log: a.log, Now: a.opts.Now})
	a.down.push("end token requests", func(context.Context) error { a.tokens.Close(); return nil })
	pools := a2agrpc.NewPools(a2agrpc.PoolOptions{
		DialTLS: guard.AgentDialer("https"), DialPlain: guard.AgentDialer("http"),
		DialTimeout: 2 * a.cfg.Limits.DialTimeout, HeaderBytes: int(a.cfg.Limits.Header), // TCP and TLS
	})
	a.down.push("close the gRPC connections to agents", func(context.Context) error { pools.Close(); return nil })
	var providers []string
	for _, address := range a.cfg.Agents.KeyProviders {
		origin, err := registry.OriginOf(address)
		if err != nil {
			return err
		}
		providers = append(providers, origin)
	}
	a.agents = registry.NewDirectory(a.store)
	a.gone.forget = func(name parley.AgentName) {
		of := func(pool string) bool { agent, _, _ := strings.Cut(pool, "/"); return agent == string(name) }
		transports.Forget(of)
		pools.Forget(of)
		a.tokens.Forget(name)
		a.gateway.ForgetAgent(name)
	}
	a.registry = registry.New(registry.Options{
		Store: a.store, Directory: a.agents, Log: a.log, Now: a.opts.Now, RefreshEvery: a.cfg.Agents.Refresh,
		Turn: func() bool { return a.store.Holds(store.LeaseUpkeep) },
		Removed: func(name parley.AgentName) {
			a.identity.Invalidate()
			a.gone.forget(name)
		},
		InstanceRemoved: func(name parley.AgentName, instance string) {
			of := func(pool string) bool { return pool == poolOf(name, instance) }
			transports.Forget(of)
			pools.Forget(of)
			a.gateway.ForgetInstance(name, instance)
		},
		Inspector: probe.New(guard, probe.Options{
			Tokens: a.tokens,
			Limits: probe.Limits{Probe: a.cfg.Agents.ProbeTimeout}, MaxCard: int64(a.cfg.Limits.Card),
			KeyProviders: providers, Now: a.opts.Now,
		}),
	})
	a.listeners.transport = func(t *registry.Target) http.RoundTripper {
		return transports.For(poolOf(t.Agent.Name, t.Place()), netguard.Client{ID: t.TLSID, TLS: t.TLS})
	}
	answers := jsonwire.Limits{MaxBytes: int64(a.cfg.Limits.ResponseBody), MaxDepth: a.cfg.Limits.JSONDepth}
	a.listeners.exchanger = func(t *registry.Target) a2a.Exchanger {
		pool := pools.For(poolOf(t.Agent.Name, t.Place()), a2agrpc.Shown{ID: t.TLSID, TLS: t.TLS})
		return &a2agrpc.Client{Pool: pool, Limits: answers, MaxFrame: int(a.cfg.Limits.StreamEvent)}
	}
	return nil
}

// poolOf names the connections to one address of an agent. Each has its own:
// what is meant for one instance must not go to another over a connection that
// is there already.
func poolOf(agent parley.AgentName, instance string) string {
	return string(agent) + "/" + instance
}

// Run serves until ctx ends or a part fails, then takes the mesh down.
func (a *App) Run(ctx context.Context) (err error) {
	for _, notice := range a.cfg.Notices() {
		a.log.Info("note", "note", notice)
	}
	background, stopBackground := context.WithCancel(context.WithoutCancel(ctx))
	group, failed := errgroup.WithContext(background)
	a.startBackground(group, failed)
	a.down.push("stop background work", func(context.Context) error { stopBackground(); return group.Wait() })
	a.startServers(group)
	a.down.push("finish calls", a.stopServers)

	if err := a.announce(); err != nil {
		a.log.Error("ready file not written", "err", err)
	}
	a.tellManager(ctx, "READY=1\nSTATUS=serving "+a.ready.Listen)
	select {
	case <-ctx.Done():
		a.log.Info("stop: asked to, nothing new is accepted")
	case <-failed.Done():
		a.log.Error("stop: a part failed", "err", context.Cause(failed))
	}
	a.tellManager(ctx, "STOPPING=1")
	stopCtx, cancel := context.WithTimeout(context.WithoutCancel(ctx), a.cfg.Limits.ShutdownTimeout)
	defer cancel()
	return a.down.unwind(stopCtx, slog.LevelInfo)
}

// startBackground starts what runs beside the calls; each part ends with ctx.
func (a *App) startBackground(group *errgroup.Group, ctx context.Context) {
	for what, run := range map[string]func(context.Context) error{
		"watch tasks":             a.gateway.Run,
		"refresh agents":          a.registry.Run,
		"summarise auth failures": a.identity.Run,
		"fetch issuers' keys":     a.watchIssuers,
		"stop frozen principals":  a.identity.RunFreezes,
		"apply retention":         a.prune,
		"replace signing keys":    a.keyring.Run,
		"deliver pushes":          a.pushes.Run,
		"follow TLS files":        a.followCerts,
		"summarise complaints":    a.complaints.run,
		"follow limits":           a.followLimits,
		"follow agents":           a.followAgents,
	} {
		group.Go(func() error {
			if err := run(ctx); err != nil && !errors.Is(err, context.Canceled) {
				return fmt.Errorf("%s: %w", what, err)
			}
			return nil
		})
	}
}

// announce tells that everything answers: in the log, and in the ready file.
func (a *App) announce() error {
	r := a.ready
	a.log.Info("serving", "listen", r.Listen, "control", r.Control, "grpc", r.GRPC, "ops", r.Ops, "socket", r.Socket, "admin_key", r.AdminKey, "environment", a.cfg.Environment, "mesh", r.Mesh)
	if a.opts.ReadyFile == "" {
		return nil
	}
	if err := writeJSONFile(a.opts.ReadyFile, r); err != nil {
		return err
	}
	a.down.push("remove the ready file", func(context.Context) error { return ignoreMissing(os.Remove(a.opts.ReadyFile)) })
	return nil
}

// Ready tells where the mesh answers.
func (a *App) Ready() Ready { return a.ready }

// listeners are the mesh's doors.
type listeners struct {
	edge, control, grpc, ops, socket net.Listener // control, grpc and ops may be nil

	tls       *tls.Config
	servers   []server
	transport func(*registry.Target) http.RoundTripper
	exchanger func(*registry.Target) a2a.Exchanger
}

// server is what serves a listener.
type server interface {
	// Shutdown takes nothing new and waits for what is under way, until ctx ends.
	Shutdown(ctx context.Context) error
	// Close ends what is under way.
	Close() error
}
