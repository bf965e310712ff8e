package netguard

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/http"
	"sync"
	"time"
)

// Defaults of TransportOptions.
const (
	DefaultIdlePerAgent = 256
	DefaultIdleTimeout  = 90 * time.Second
	DefaultHeaderBytes  = 64 << 10
	handshakeTimeout    = 10 * time.Second

	// A connection over HTTP/2 that has carried nothing for pingAfter is asked
	// for a sign of life, and dropped without one in pingTimeout. Streams of
	// slow agents are silent for long, and a vanished peer must not hold them
	// forever.
	pingAfter   = 30 * time.Second
	pingTimeout = 15 * time.Second

	// Every open stream holds a connection over HTTP/1.1 with both buffers, and
	// most streams are idle. What is larger than a buffer passes it by.
	readBuffer  = 2 << 10 // bytes
	writeBuffer = 2 << 10 // bytes
)

// TransportOptions tunes the connections to agents. The zero value works.
type TransportOptions struct {
	IdlePerAgent int           // idle connections kept to one agent; zero: DefaultIdlePerAgent
	IdleTimeout  time.Duration // how long they are kept; zero: DefaultIdleTimeout
	HeaderBytes  int64         // largest response header block; zero: DefaultHeaderBytes
	TLS          *tls.Config   // roots and client certificates; nil: the system's roots
}

// Transport is the connection pool towards one agent, over HTTP/1.1 and, for
// https, HTTP/2. It adds no header, no proxy and no time limit of its own but
// for connecting: a request runs until its context ends. Requests to public
// addresses must be https; any other target than Guard allows fails with a
// *RefusedError in the error's chain.
type Transport struct {
	plain, secure *http.Transport
}

func agentPurpose(scheme string) purpose {
	return purpose{scheme: scheme, clientName: "calls"}
}

// AgentTransport returns a new pool. Callers keep one per agent (see
// Transports): sharing one would let an agent that answers for several hosts
// receive requests meant for another.
func (g *Guard) AgentTransport(opts TransportOptions) *Transport {
	return &Transport{
		plain:  g.agentTransport("http", opts),
		secure: g.agentTransport("https", opts),
	}
}

// AgentDialer returns a dialer for connections to agents that other protocols
// than HTTP run over. The scheme is https where TLS will be spoken on them, else
// http, which leads to addresses inside network.allow only. The dialer resolves
// names itself; a refusal is a *RefusedError in the error's chain.
func (g *Guard) AgentDialer(scheme string) func(ctx context.Context, network, address string) (net.Conn, error) {
	return g.dial(agentPurpose(scheme))
}

func (g *Guard) agentTransport(scheme string, opts TransportOptions) *http.Transport {
	idle := orDefault(opts.IdlePerAgent, DefaultIdlePerAgent)
	return &http.Transport{
		Proxy:                  nil, // see the package comment
		DialContext:            g.dial(agentPurpose(scheme)),
		TLSClientConfig:        tlsConfig(opts.TLS),
		TLSHandshakeTimeout:    handshakeTimeout,
		MaxIdleConns:           idle,
		MaxIdleConnsPerHost:    idle,
		IdleConnTimeout:        orDefault(opts.IdleTimeout, DefaultIdleTimeout),
		MaxResponseHeaderBytes: orDefault(opts.HeaderBytes, DefaultHeaderBytes),
		DisableCompression:     true,
		ReadBufferSize:         readBuffer,
		WriteBufferSize:        writeBuffer,
		ForceAttemptHTTP2:      true,
		HTTP2:                  &http.HTTP2Config{SendPingTimeout: pingAfter, PingTimeout: pingTimeout},
	}
}

// orDefault is value, or def if value is zero.
func orDefault[T int | int64 | time.Duration](value, def T) T {
	if value == 0 {
		return def
	}
	return value
}

// tlsConfig returns base, or the default, with old protocol versions off.
func tlsConfig(base *tls.Config) *tls.Config {
	if base == nil {
		base = &tls.Config{}
	}
	config := base.Clone()
	config.MinVersion = max(config.MinVersion, tls.VersionTLS12)
	return config
}

// RoundTrip sends one request; see http.RoundTripper. ReasonOf sorts its errors.
func (t *Transport) RoundTrip(req *http.Request) (*http.Response, error) {
	switch req.URL.Scheme {
	case "https":
		return t.secure.RoundTrip(req)
	case "http":
		return t.plain.RoundTrip(req)
	}
	if req.Body != nil {
		_ = req.Body.Close() // RoundTrip owes this; nothing was read from it
	}
	return nil, errors.New("netguard: the scheme of an agent's URL is " + req.URL.Scheme + ": use https")
}

// CloseIdleConnections drops connections that carry no request.
func (t *Transport) CloseIdleConnections() {
	t.plain.CloseIdleConnections()
	t.secure.CloseIdleConnections()
}

// Transports holds one Transport per agent, made when first asked for.
type Transports struct {
	guard *Guard
	opts  TransportOptions

	mu sync.RWMutex
	by map[string]pool
}

// pool is an agent's Transport and the Client it shows.
type pool struct {
	*Transport
	client string
}

// Client is what a pool shows in TLS handshakes. The zero value is nothing, and
// trusts the set's own roots.
type Client struct {
	ID  string      // tells two of them apart; never empty where TLS is set
	TLS *tls.Config // its certificate and roots, instead of the set's
}

// Transports returns an empty set whose pools are made with opts.
func (g *Guard) Transports(opts TransportOptions) *Transports {
	return &Transports{guard: g, opts: opts, by: map[string]pool{}}
}

// For returns the pool of an agent, always the same until Forget or until it is
// to show something else: then requests under way finish with what they had.
func (t *Transports) For(agent string, show Client) *Transport {
	t.mu.RLock()
	one, ok := t.by[agent]
	t.mu.RUnlock()
	if ok && one.client == show.ID {
		return one.Transport
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if one, ok = t.by[agent]; ok && one.client == show.ID {
		return one.Transport
	}
	opts := t.opts
	if show.TLS != nil {
		opts.TLS = show.TLS
	}
	t.by[agent] = pool{t.guard.AgentTransport(opts), show.ID}
	if ok {
		one.CloseIdleConnections()
	}
	return t.by[agent].Transport
}

// Forget drops the pools of those of which gone is true. Requests under way
// finish.
func (t *Transports) Forget(gone func(agent string) bool) {
	t.mu.Lock()
	var dropped []pool
	for agent, one := range t.by {
		if gone(agent) {
			dropped = append(dropped, one)
			delete(t.by, agent)
		}
	}
	t.mu.Unlock()
	for _, one := range dropped {
		one.CloseIdleConnections()
	}
}

// Close drops all pools. Requests under way finish.
func (t *Transports) Close() {
	t.mu.Lock()
	pools := t.by
	t.by = map[string]pool{}
	t.mu.Unlock()
	for _, pool := range pools {
		pool.CloseIdleConnections()
	}
}
