// Package netguardtest lets tests aim at hostile addresses without a packet
// leaving the process, even if the guard under test were broken or missing.
//
// A Recorder takes the place of the dialer. It runs a real net.Dialer, so names
// are resolved and the guard's Control is asked exactly as in production, but
// names are answered from a table inside the process, and every connection ends
// before connect(2), whether the guard refused it or not. What the guard let
// through is recorded, and may be answered by a test server standing in for
// that address.
//
// A Recorder is safe for concurrent use.
package netguardtest

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"sync"
	"syscall"

	"github.com/parley-mesh/parley/internal/netguard"
)

// errStop ends every connection attempt that the guard let through.
var errStop = errors.New("netguardtest: recorded instead of connected")

// ErrNoServer is what a permitted dial fails with if no server stands in for
// the address.
var ErrNoServer = errors.New("netguardtest: permitted, but no server stands in for it")

// Recorder is a dialer that connects to stand-ins only. The zero value resolves
// no names and has no stand-ins.
type Recorder struct {
	mu        sync.Mutex
	answers   map[string][][]netip.Addr // by host name; one entry a lookup, the last one stays
	spelled   map[string]netip.Addr
	servers   map[netip.AddrPort]net.Addr
	permitted []netip.AddrPort
	refused   []netip.AddrPort
	asked     map[question]int
}

// Resolve makes a host name answer with addrs. Called again for the same name
// it adds the answer to the next lookup, as a rebinding attacker would; the last
// answer repeats. The name is written without a trailing dot.
func (r *Recorder) Resolve(host string, addrs ...string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.answers == nil {
		r.answers = map[string][][]netip.Addr{}
	}
	parsed := make([]netip.Addr, len(addrs))
	for i, addr := range addrs {
		parsed[i] = netip.MustParseAddr(addr)
	}
	r.answers[host] = append(r.answers[host], parsed)
}

// Spell makes the resolver read host, a spelling such as 2130706433 or 127.1, as
// addr. The C library's resolver does that; Go's own, which this recorder uses
// otherwise, finds nothing.
func (r *Recorder) Spell(host, addr string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.spelled == nil {
		r.spelled = map[string]netip.Addr{}
	}
	r.spelled[host] = netip.MustParseAddr(addr)
}

// StandIn lets the server listening at real, which must be loopback, answer for
// address.
func (r *Recorder) StandIn(address string, real net.Addr) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.servers == nil {
		r.servers = map[netip.AddrPort]net.Addr{}
	}
	if !netip.MustParseAddrPort(real.String()).Addr().IsLoopback() {
		panic("netguardtest: the stand-in at " + real.String() + " is not on loopback")
	}
	r.servers[netip.MustParseAddrPort(address)] = real
}

// Permitted returns the addresses the guard let through, in order.
func (r *Recorder) Permitted() []netip.AddrPort {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.permitted)
}

// Refused returns the addresses the guard refused, in order.
func (r *Recorder) Refused() []netip.AddrPort {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.refused)
}

// Lookups returns how often a name's addresses were asked for.
func (r *Recorder) Lookups(host string) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.asked[question{host, typeA}]
}

// NewDialer returns a dialer that asks control; it is netguard.Options.NewDialer.
func (r *Recorder) NewDialer(control netguard.Control) netguard.Dialer {
	return &dialer{recorder: r, control: control}
}

type dialer struct {
	recorder *Recorder
	control  netguard.Control
}

// permit carries the address of the one attempt that got past the guard out of
// net.Dialer, whose Control can only return an error.
type permit struct{ addr netip.AddrPort }

func (p *permit) Error() string { return errStop.Error() + ": " + p.addr.String() }
func (p *permit) Unwrap() error { return errStop }

// DialContext resolves, asks the guard and connects to a stand-in or not at all.
func (d *dialer) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	stopping := &net.Dialer{
		Resolver:       &net.Resolver{PreferGo: true, Dial: d.recorder.dialDNS},
		FallbackDelay:  -1, // one address after the other, so that records have an order
		ControlContext: d.intercept,
	}
	conn, err := stopping.DialContext(ctx, network, d.recorder.spell(address))
	if err == nil {
		_ = conn.Close() // cannot happen: intercept always fails
		return nil, fmt.Errorf("netguardtest: a connection to %s was made", address)
	}
	var let *permit
	if !errors.As(err, &let) {
		return nil, err
	}
	d.recorder.mu.Lock()
	real := d.recorder.servers[let.addr]
	d.recorder.mu.Unlock()
	if real == nil {
		return nil, &net.OpError{Op: "dial", Net: network, Err: fmt.Errorf("%w: %s", ErrNoServer, let.addr)}
	}
	return (&net.Dialer{}).DialContext(ctx, real.Network(), real.String())
}

// spell replaces a host that Spell names.
func (r *Recorder) spell(address string) string {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return address
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if addr, ok := r.spelled[host]; ok {
		return net.JoinHostPort(addr.String(), port)
	}
	return address
}

// intercept asks the guard and then fails in any case.
func (d *dialer) intercept(ctx context.Context, network, address string, conn syscall.RawConn) error {
	addr, err := netip.ParseAddrPort(address)
	if err != nil {
		return err
	}
	err = d.control(ctx, network, address, conn)
	d.recorder.mu.Lock()
	defer d.recorder.mu.Unlock()
	if err != nil {
		d.recorder.refused = append(d.recorder.refused, addr)
		return err
	}
	d.recorder.permitted = append(d.recorder.permitted, addr)
	return &permit{addr}
}
