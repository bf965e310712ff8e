package app

import (
	"cmp"
	"context"
	"errors"
	"net"
	"net/http"
	"net/http/pprof"
	"os"
	"path/filepath"
	"time"

	"github.com/rs/cors"
	"golang.org/x/sync/errgroup"

	"github.com/parley-mesh/parley/internal/a2a"
	"github.com/parley-mesh/parley/internal/a2a/a2agrpc"
	"github.com/parley-mesh/parley/internal/control"
	"github.com/parley-mesh/parley/internal/gateway"
	"github.com/parley-mesh/parley/internal/jsonwire"
	"github.com/parley-mesh/parley/internal/parley"
	"github.com/parley-mesh/parley/internal/push"
	"github.com/parley-mesh/parley/internal/signon"
	"github.com/parley-mesh/parley/internal/store"
	"github.com/parley-mesh/parley/internal/telemetry"
)

// openListeners binds every address, so that a port in use is found before
// anything is served.
func (a *App) openListeners(ctx context.Context) (err error) {
	l := &a.listeners
	if err := a.openCerts(); err != nil {
		return err
	}
	all := bounds{perAddress: a.cfg.Limits.ConnectionsPerAddress, write: a.cfg.Limits.StreamWriteTimeout}
	bind := func(into *net.Listener, key, addr string, connections int) error {
		callers := all
		callers.connections = connections
		if callers.count, err = telemetry.NewConnections(a.measures.Meter(), key); err != nil {
			return err
		}
		opened, err := listenTCP(ctx, key, addr, callers)
		if err != nil {
			return err
		}
		*into = opened
		a.down.push("close "+key, func(context.Context) error { return ignoreClosed(opened.Close()) })
		return nil
	}
	if err := bind(&l.edge, "listen", a.cfg.Listen, a.cfg.Limits.Connections); err != nil {
		return err
	}
	if a.cfg.ControlListen != "" {
		if err := bind(&l.control, "control_listen", a.cfg.ControlListen, a.cfg.Limits.Connections); err != nil {
			return err
		}
	}
	if a.cfg.GRPCListen != "" {
		if err := bind(&l.grpc, "grpc_listen", a.cfg.GRPCListen, a.cfg.Limits.Connections); err != nil {
			return err
		}
	}
	if a.cfg.OpsListen != "" {
		if err := bind(&l.ops, "ops_listen", a.cfg.OpsListen, maxOpsConnections); err != nil {
			return err
		}
	}
	if l.socket, err = listenSocket(ctx, a.cfg.Data); err != nil {
		return err
	}
	a.down.push("close the socket", func(context.Context) error { return ignoreClosed(l.socket.Close()) })
	a.ready = Ready{
		PID: os.Getpid(), Mesh: a.store.MeshID(), Data: a.cfg.Data,
		Listen: a.address(l.edge), Public: a.cfg.PublicAddress(l.edge.Addr()),
		Socket: filepath.Join(a.cfg.Data, control.SocketFile), AdminKey: filepath.Join(a.cfg.Data, control.AdminKeyFile),
	}
	a.ready.Control = a.ready.Listen
	if l.control != nil {
		a.ready.Control = a.address(l.control)
	}
	if l.grpc != nil {
		a.ready.GRPCListen = l.grpc.Addr().String()
		a.ready.GRPC = a.cfg.PublicGRPCAddress(a.ready.Public, l.grpc.Addr())
	}
	if l.ops != nil {
		a.ready.Ops = "http://" + l.ops.Addr().String()
	}
	return nil
}

// maxOpsConnections bounds the operations listener, which serves scrapes and
// probes.
const maxOpsConnections = 256

func ignoreClosed(err error) error {
	if errors.Is(err, net.ErrClosed) {
		return nil
	}
	return err
}

func (a *App) address(l net.Listener) string {
	if a.listeners.tls != nil {
		return "https://" + l.Addr().String()
	}
	return "http://" + l.Addr().String()
}

func (a *App) openGateway(ctx context.Context) error {
	calls, err := telemetry.NewCalls(a.measures.Meter())
	if err != nil {
		return err
	}
	c := a.cfg
	limits := jsonwire.Limits{MaxBytes: int64(c.Limits.RequestBody), MaxDepth: c.Limits.JSONDepth}
	answers := jsonwire.Limits{MaxBytes: int64(c.Limits.ResponseBody), MaxDepth: c.Limits.JSONDepth}
	var mates gateway.Mates
	if a.store.Shared() {
		mates = a.store
	}
	a.gateway = gateway.New(gateway.Options{
		Identity: a.identity, Agents: a.agents, Journal: a.store, Streams: a.store, Events: a.store, Mates: mates,
		Client: a2a.Client{Limits: answers, MaxFrame: int(c.Limits.StreamEvent)}, Transport: a.listeners.transport, GRPC: a.listeners.exchanger, Tokens: a.tokens,
		Server: a2a.ServerOptions{
			StrictVersion: c.A2A.StrictVersion, Limits: limits, KeepAlive: c.Limits.StreamKeepalive,
			FrameTimeout: c.Limits.StreamWriteTimeout, BodyTimeout: c.Limits.BodyTimeout,
		},
		Calls: calls, Tracer: a.measures.Tracer(), Log: a.log, Now: a.opts.Now,
		Environment: c.Environment, PublicURL: a.ready.Public, PublicGRPC: a.ready.GRPC, Anonymous: c.Auth.Anonymous, CardsNeedCredential: c.Cards == "authenticated",
		CardKey: a.cardKey, KeySet: a.ready.Public + jwksPath, Mesh: a.store.MeshID(), ExtensionBase: c.ExtensionBase,
		ClientCerts: a.clientCerts() != nil, OpenIDs: a.openIDs(), MetadataOf: a.metadata.URL,
		Limits: gatewayLimits(c.Limits),

		MessageWindow: c.Retention.Messages,
		Watch:         gateway.WatchOptions{First: c.Watch.First, Max: c.Watch.Max, Concurrency: c.Watch.Concurrent},
		Push:          a.pushOptions(),
		TokenKey:      a.store.Vault().Derive("list-tasks page tokens"),
		EventKey:      a.store.Vault().Derive("ids of events"),
	})
	gauges := telemetry.Gauges{Open: func() int { return a.store.Stats().Open }, Watched: a.gateway.Watched}
	if err := gauges.Watch(a.measures.Meter()); err != nil {
		return err
	}
	if err := a.ReloadLimits(ctx); err != nil {
		return err
	}
	if err := a.gateway.Restore(ctx); err != nil {
		return err
	}
	a.store.Heed(store.Heed{
		Changed: func() { a.identity.Invalidate(); a.agentsMayBeGone(); a.keyring.Invalidate(); a.limitsMayDiffer() },
		Adopted: a.gateway.Adopt, Cancel: a.gateway.CancelHere, Look: a.gateway.Look,
	})
	return nil
}

// pushOptions are the parts of the push relay; nil where it is switched off.
func (a *App) pushOptions() *gateway.PushOptions {
	section := a.cfg.Push
	if !section.Relay {
		return nil
	}
	guard := a.guard()
	o := &gateway.PushOptions{
		Store: a.store, Events: a.store, Most: push.Limits{PerTask: section.PerTask, PerPrincipal: section.PerPrincipal},
		CheckURL: func(raw string) error { _, err := guard.CheckWebhook(raw); return err },
	}
	if section.Callbacks {
		o.Callback = cmp.Or(section.CallbackURL, a.ready.Public)
	}
	return o
}

func (a *App) openControl(context.Context) (err error) {
	a.control, err = control.NewServer(control.Options{
		Identity: a.identity, Registry: a.registry, Agents: a.store, Calls: a.store, Tasks: a.store,
		Events: feed{a.hub, a.store, a.stopping}, Cancel: a.gateway, Standings: a.gateway.Standings, Status: a, Answers: a.store,
		Metadata: a.metadata.URL(""), MeshID: a.store.MeshID(), Log: a.log, Now: a.opts.Now,
		Apply: a.applyEngine(), Backup: a, Keyring: a.keyring, Pushes: a.store, Deliver: a.pushes,
	})
	return err
}

// startServers serves every listener in group.
func (a *App) startServers(group *errgroup.Group) {
	l := &a.listeners
	pushed := door{gateway.CallbackPrefix, http.HandlerFunc(a.gateway.ServeCallback)}
	// Pages of other origins may call agents, and manage nothing.
	edge, managed := door{gateway.Prefix, a.crossOrigin(a.gateway)}, door{control.Prefix + "/", a.control}
	described, keys := door{signon.MetadataPath, a.crossOrigin(a.metadata)}, door{jwksPath, a.crossOrigin(http.HandlerFunc(a.serveJWKS))}
	both := doors{edge, pushed, managed, described, keys}
	main := both
	if l.control != nil {
		main = doors{edge, pushed, described, keys}
		a.start(group, l.control, doors{managed, described}, false)
	}
	a.start(group, l.edge, main, false)
	a.start(group, l.socket, both, true)
	a.startGRPC(group)
	if l.ops != nil {
		a.start(group, l.ops, a.opsHandler(), true)
	}
}

// start serves one listener. Local listeners carry no TLS; through the socket
// the caller is the local admin.
func (a *App) start(group *errgroup.Group, l net.Listener, h http.Handler, local bool) {
	t := a.listeners.tls
	if local {
		t = nil
	}
	if t != nil {
		h = overTLS(h, a.cfg.TLS.HSTS)
	}
	s := newServer(h, a.cfg.Limits, a.complaints.logger())
	a.listeners.servers = append(a.listeners.servers, s)
	group.Go(func() error { return serve(s, l, t) })
}

// startGRPC serves the edge over gRPC, with the TLS of the other edge.
func (a *App) startGRPC(group *errgroup.Group) {
	l := a.listeners.grpc
	if l == nil {
		return
	}
	limits := a.cfg.Limits
	s := a2agrpc.NewServer(a.gateway.ServeGRPC, a2agrpc.Options{
		A2A: a.gateway.Server, TLS: a.listeners.tls, Log: a.log, Idle: limits.IdleTimeout,
		HeaderBytes: int(limits.Header), HandshakeTime: limits.HeaderTimeout,
	})
	a.listeners.servers = append(a.listeners.servers, s)
	group.Go(func() error { return s.Serve(l) })
}

// stopServers stops accepting, waits for calls under way until shortly before
// the deadline, and then ends what is left.
func (a *App) stopServers(ctx context.Context) error {
	close(a.stopping)
	drain, cancel := a.drainContext(ctx)
	defer cancel()
	var group errgroup.Group
	for _, s := range a.listeners.servers {
		group.Go(func() error { return s.Shutdown(drain) })
	}
	if err := group.Wait(); err == nil {
		return nil
	}
	ended := a.gateway.Abort()
	a.log.Warn("calls were ended before they were done", "count", ended)
	last, cancelLast := context.WithTimeout(ctx, abortGrace)
	defer cancelLast()
	group = errgroup.Group{}
	for _, s := range a.listeners.servers {
		group.Go(func() error {
			if err := s.Shutdown(last); err != nil {
				return s.Close()
			}
			return nil
		})
	}
	return group.Wait()
}

// abortGrace is what calls that were ended get for writing their last frame
// and settling.
const abortGrace = 2 * time.Second

// drainContext leaves the last part of the deadline for what comes after the
// calls.
func (a *App) drainContext(ctx context.Context) (context.Context, context.CancelFunc) {
	deadline, ok := ctx.Deadline()
	if !ok {
		return context.WithCancel(ctx)
	}
	left := time.Until(deadline)
	return context.WithTimeout(ctx, left*7/10)
}

// crossOrigin lets pages of the configured origins call the edge.
func (a *App) crossOrigin(h http.Handler) http.Handler {
	if len(a.cfg.CORS.Origins) == 0 {
		return h
	}
	return cors.New(cors.Options{
		AllowedOrigins: a.cfg.CORS.Origins,
		AllowedMethods: []string{http.MethodGet, http.MethodHead, http.MethodPost, http.MethodDelete},
		AllowedHeaders: []string{"Authorization", "X-API-Key", "Content-Type", "Accept", "Last-Event-ID", "Traceparent", "Tracestate", a2a.HeaderVersion, a2a.HeaderExtensions, gateway.HeaderReference},
		ExposedHeaders: []string{gateway.HeaderCallID, a2a.HeaderExtensions, "ETag", "WWW-Authenticate", "Retry-After"},
		MaxAge:         600, // seconds a browser may keep a preflight's answer
	}).Handler(h)
}

// opsHandler serves what operators' machines ask: health, metrics, profiles.
func (a *App) opsHandler() http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", a.measures.Handler())
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) })
	mux.HandleFunc("GET /readyz", a.readyz)
	mux.HandleFunc("/debug/pprof/", pprof.Index)
	mux.HandleFunc("/debug/pprof/cmdline", pprof.Cmdline)
	mux.HandleFunc("/debug/pprof/profile", pprof.Profile)
	mux.HandleFunc("/debug/pprof/symbol", pprof.Symbol)
	mux.HandleFunc("/debug/pprof/trace", pprof.Trace)
	return mux
}

// readyz answers 204 where calls can be recorded, else 503 with the reason.
func (a *App) readyz(w http.ResponseWriter, r *http.Request) {
	if err := a.store.Health(r.Context()); err != nil {
		http.Error(w, "the store: "+parley.PublicMessage(err), http.StatusServiceUnavailable)
		return
	}
	w.WriteHeader(http.StatusNoContent)
}
