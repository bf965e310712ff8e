package app

import (
	"errors"
	"net"
	"net/netip"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/net/netutil"

	"github.com/parley-mesh/parley/internal/limit"
	"github.com/parley-mesh/parley/internal/telemetry"
)

// bounds are what the callers of one listener may hold.
type bounds struct {
	connections int           // in all; further ones wait
	perAddress  int           // of one remote host; further ones are closed at once
	write       time.Duration // for a peer to take one write
	count       *telemetry.Connections
}

// bound puts bounds on a listener.
func (b bounds) bound(l net.Listener) net.Listener {
	// Inside the bound on all: who is refused for its own number of connections
	// must not wait for, or take, a place among all.
	return netutil.LimitListener(&fairListener{Listener: l, bounds: b, open: map[netip.Addr]int{}}, b.connections)
}

// fairListener keeps one remote host from holding all connections, and any peer
// from holding one by not reading.
type fairListener struct {
	net.Listener
	bounds

	mu   sync.Mutex
	open map[netip.Addr]int // guarded by mu
}

// Accept implements net.Listener. It passes over connections that are too many.
func (l *fairListener) Accept() (net.Conn, error) {
	for {
		conn, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		host := limit.HostOf(conn.RemoteAddr().String())
		if l.take(host) {
			l.count.Opened(1)
			return &boundConn{Conn: conn, write: l.write, release: sync.OnceFunc(func() { l.give(host) })}, nil
		}
		l.count.Refused()
		_ = conn.Close() // nothing was said on it
	}
}

func (l *fairListener) take(host netip.Addr) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.open[host] >= l.perAddress {
		return false
	}
	l.open[host]++
	return true
}

func (l *fairListener) give(host netip.Addr) {
	l.count.Opened(-1)
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.open[host]--; l.open[host] == 0 {
		delete(l.open, host)
	}
}

// boundConn gives every write a deadline of its own, unless whoever writes has
// set one: net/http sets none for small answers, and a peer that sends requests
// and reads nothing would hold its connection for ever.
type boundConn struct {
	net.Conn
	write   time.Duration
	set     atomic.Bool // a deadline was set by whoever writes
	release func()
}

// Write implements net.Conn.
func (c *boundConn) Write(p []byte) (int, error) {
	if c.set.Load() {
		return c.Conn.Write(p)
	}
	if err := c.Conn.SetWriteDeadline(time.Now().Add(c.write)); err != nil {
		return 0, err
	}
	n, err := c.Conn.Write(p)
	if errors.Is(err, os.ErrDeadlineExceeded) {
		// gRPC leaves it to its reader to notice, which waits as long as the peer
		// sends nothing.
		_ = c.Close() // the failure that counts is err
	}
	return n, err
}

// SetWriteDeadline implements net.Conn.
func (c *boundConn) SetWriteDeadline(t time.Time) error {
	c.set.Store(!t.IsZero())
	return c.Conn.SetWriteDeadline(t)
}

// SetDeadline implements net.Conn.
func (c *boundConn) SetDeadline(t time.Time) error {
	c.set.Store(!t.IsZero())
	return c.Conn.SetDeadline(t)
}

// Close implements net.Conn.
func (c *boundConn) Close() error {
	c.release()
	return c.Conn.Close()
}
