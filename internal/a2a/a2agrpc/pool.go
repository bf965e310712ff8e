package a2agrpc

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/keepalive"

	"github.com/parley-mesh/parley/internal/a2a"
)

// Dial makes connections; it decides which addresses may be reached, with or
// without TLS.
type Dial func(ctx context.Context, network, address string) (net.Conn, error)

// PoolOptions tune the connections to agents. DialTLS and DialPlain are required.
type PoolOptions struct {
	DialTLS   Dial // for connections on which TLS is spoken
	DialPlain Dial // for the others

	TLS         *tls.Config   // roots and client certificates; nil: the system's roots
	DialTimeout time.Duration // for a connection to come about, TLS included; zero: 10 s
	HeaderBytes int           // largest header block of an answer; zero: 64 KiB
}

// Pool holds the connections to one agent, one for each address. Names are
// resolved by the dialers alone, and no proxy is used.
type Pool struct {
	opt PoolOptions

	mu     sync.Mutex
	conns  map[a2a.GRPCAddress]*conn // guarded by mu
	closed bool                      // guarded by mu
}

// NewPool makes an empty pool.
func NewPool(opt PoolOptions) *Pool {
	if opt.DialTimeout == 0 {
		opt.DialTimeout = 10 * time.Second
	}
	if opt.HeaderBytes == 0 {
		opt.HeaderBytes = 64 << 10
	}
	return &Pool{opt: opt, conns: map[a2a.GRPCAddress]*conn{}}
}

// Close closes all connections. Calls under way end.
func (p *Pool) Close() {
	p.mu.Lock()
	conns := p.conns
	p.conns, p.closed = map[a2a.GRPCAddress]*conn{}, true
	p.mu.Unlock()
	for _, c := range conns {
		c.close()
	}
}

// maxConns bounds the connections to one agent: the addresses that its card names.
const maxConns = 64

var errPoolClosed = errors.New("the agent's connections were closed")

// at gives the connection to an address, which may not be made yet.
func (p *Pool) at(a a2a.GRPCAddress) (*conn, error) {
	a.Said = false // of no matter here
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return nil, errPoolClosed
	}
	if c := p.conns[a]; c != nil {
		return c, nil
	}
	if len(p.conns) >= maxConns {
		for at, c := range p.conns { // any: cards change rarely
			c.close()
			delete(p.conns, at)
			break
		}
	}
	c, err := p.open(a)
	if err != nil {
		return nil, err
	}
	p.conns[a] = c
	return c, nil
}

// conn is one connection, made when first used and again after it broke.
type conn struct {
	*grpc.ClientConn
	timeout time.Duration

	mu     sync.Mutex
	why    error         // of the last failure to connect; guarded by mu
	failed chan struct{} // closed and replaced at each failure; guarded by mu
}

func (p *Pool) open(a a2a.GRPCAddress) (*conn, error) {
	c := &conn{timeout: p.opt.DialTimeout, failed: make(chan struct{})}
	dial, security := p.opt.DialTLS, credentials.TransportCredentials(nil)
	if a.Plain {
		dial, security = p.opt.DialPlain, insecure.NewCredentials()
	} else {
		config := &tls.Config{}
		if p.opt.TLS != nil {
			config = p.opt.TLS.Clone()
		}
		config.MinVersion = max(config.MinVersion, tls.VersionTLS12)
		security = notingTLS{credentials.NewTLS(config), c}
	}
	// passthrough: the name goes to the dialer, which resolves and judges it.
	cc, err := grpc.NewClient("passthrough:///"+a.String(),
		grpc.WithContextDialer(func(ctx context.Context, address string) (net.Conn, error) {
			made, err := dial(ctx, "tcp", address)
			c.note(err)
			return made, err
		}),
		grpc.WithTransportCredentials(security),
		grpc.WithAuthority(a.String()),
		grpc.WithNoProxy(),
		grpc.WithDisableServiceConfig(), // an agent must not set how it is called
		grpc.WithDisableRetry(),
		grpc.WithStatsHandler(progress{}),
		grpc.WithMaxHeaderListSize(uint32(p.opt.HeaderBytes)),
		grpc.WithUserAgent("parley"),
		grpc.WithConnectParams(grpc.ConnectParams{Backoff: backoff.Config{BaseDelay: 100 * time.Millisecond, Multiplier: 1.6, Jitter: 0.2, MaxDelay: 5 * time.Second}, MinConnectTimeout: p.opt.DialTimeout}),
		grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: 5 * time.Minute, Timeout: pingTimeout}), // servers send clients away that ping more
		grpc.WithDefaultCallOptions(grpc.ForceCodecV2(newCodec())),
	)
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", a, err)
	}
	c.ClientConn = cc
	return c, nil
}

// close closes the connection. It fails only where it is closed already.
func (c *conn) close() { _ = c.ClientConn.Close() }

func (c *conn) note(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.why = err
	if err != nil {
		close(c.failed)
		c.failed = make(chan struct{})
	}
}

// failure is closed when the next attempt to connect fails.
func (c *conn) failure() <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.failed
}

func (c *conn) cause() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.why == nil {
		return ErrNotHTTP2
	}
	return c.why
}

// ErrNotHTTP2 says that a connection came about and nothing useful came of it.
var ErrNotHTTP2 = errors.New("what answers there does not speak HTTP/2 as gRPC does")

// ready waits for the connection, at most the time for dialling. Nothing of a call
// has left before. A failure of before is not believed: the agent may be back.
func (c *conn) ready(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	tried := false
	for {
		state := c.GetState()
		switch state {
		case connectivity.Ready:
			return nil
		case connectivity.Shutdown:
			return errPoolClosed
		case connectivity.Idle:
			tried = true
			c.Connect()
		case connectivity.Connecting:
			tried = true
		case connectivity.TransientFailure:
			if tried {
				return c.cause()
			}
			if c.again(ctx) {
				return nil
			}
			if ctx.Err() == nil {
				return c.cause()
			}
		}
		if !c.WaitForStateChange(ctx, state) {
			if why := c.cause(); ctx.Err() == context.DeadlineExceeded && !errors.Is(why, ErrNotHTTP2) {
				return why
			}
			return ctx.Err()
		}
	}
}

// again tries a connection anew that has failed before. gRPC stays in that state
// until one succeeds, so that only the dialer shows that the attempt failed too.
func (c *conn) again(ctx context.Context) bool {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	failure := c.failure()
	go func() {
		select {
		case <-failure:
			cancel()
		case <-ctx.Done():
		}
	}()
	c.ResetConnectBackoff()
	for state := c.GetState(); state != connectivity.Ready; state = c.GetState() {
		if !c.WaitForStateChange(ctx, state) {
			return c.GetState() == connectivity.Ready
		}
	}
	return true
}

// notingTLS remembers why a handshake failed, which gRPC tells as text only.
type notingTLS struct {
	credentials.TransportCredentials
	conn *conn
}

// ClientHandshake implements credentials.TransportCredentials.
func (n notingTLS) ClientHandshake(ctx context.Context, authority string, raw net.Conn) (net.Conn, credentials.AuthInfo, error) {
	made, info, err := n.TransportCredentials.ClientHandshake(ctx, authority, raw)
	if err != nil {
		n.conn.note(&TLSError{err})
	}
	return made, info, err
}

// Clone implements credentials.TransportCredentials.
func (n notingTLS) Clone() credentials.TransportCredentials {
	return notingTLS{n.TransportCredentials.Clone(), n.conn}
}

// TLSError says that TLS could not be agreed on with a peer.
type TLSError struct{ Err error }

// Error implements error.
func (e *TLSError) Error() string { return "TLS: " + e.Err.Error() }

// Unwrap gives the cause.
func (e *TLSError) Unwrap() error { return e.Err }

// Pools holds one Pool for each agent, made when first asked for.
type Pools struct {
	opt PoolOptions

	mu sync.Mutex
	by map[string]shownPool // guarded by mu
}

// shownPool is an agent's pool and what it shows.
type shownPool struct {
	*Pool
	id string
}

// Shown is what a pool shows in TLS handshakes. The zero value is what the set's
// options say.
type Shown struct {
	ID  string      // tells two of them apart; never empty where TLS is set
	TLS *tls.Config // certificate and roots, instead of the options'
}

// NewPools returns an empty set whose pools are made with opt.
func NewPools(opt PoolOptions) *Pools { return &Pools{opt: opt, by: map[string]shownPool{}} }

// For returns the pool of an agent, always the same until Forget or until it is
// to show something else; then calls on the one before end.
func (p *Pools) For(agent string, show Shown) *Pool {
	p.mu.Lock()
	defer p.mu.Unlock()
	one, ok := p.by[agent]
	if ok && one.id == show.ID {
		return one.Pool
	}
	if ok {
		one.Close()
	}
	opt := p.opt
	if show.TLS != nil {
		opt.TLS = show.TLS
	}
	p.by[agent] = shownPool{NewPool(opt), show.ID}
	return p.by[agent].Pool
}

// Forget closes the connections of those of which gone is true. Calls under way
// on them end.
func (p *Pools) Forget(gone func(agent string) bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for agent, one := range p.by {
		if gone(agent) {
			one.Close()
			delete(p.by, agent)
		}
	}
}

// Close closes all connections.
func (p *Pools) Close() {
	p.mu.Lock()
	pools := p.by
	p.by = map[string]shownPool{}
	p.mu.Unlock()
	for _, pool := range pools {
		pool.Close()
	}
}
