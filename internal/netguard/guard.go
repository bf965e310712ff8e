package netguard

import (
	"context"
	"net"
	"net/netip"
	"syscall"
	"time"

	"code.dny.dev/ssrf"
)

// DefaultDialTimeout bounds one connection attempt: name resolution and TCP.
const DefaultDialTimeout = 5 * time.Second

// Control is asked before a socket connects, with the resolved address. An
// error ends the attempt before a packet is sent. It is the type of
// net.Dialer.ControlContext.
type Control = func(ctx context.Context, network, address string, conn syscall.RawConn) error

// Dialer makes connections. Every implementation must ask the Control it was
// made with about each address before it connects, as net.Dialer does.
type Dialer interface {
	DialContext(ctx context.Context, network, address string) (net.Conn, error)
}

// Options says what a Guard allows beyond the public internet. The zero value
// allows only that.
type Options struct {
	Allow []netip.Prefix // network.allow: reachable on any port, also over http
	Deny  []netip.Prefix // network.deny: never reachable; wins over Allow

	// DialTimeout bounds one connection attempt. Zero: DefaultDialTimeout.
	DialTimeout time.Duration

	// NewDialer makes the dialer for a Control. Nil: a net.Dialer with the
	// system's resolver. Tests of hostile addresses use netguardtest.Recorder.
	NewDialer func(Control) Dialer
}

// Guard decides which addresses may be connected to.
type Guard struct {
	allow, deny []netip.Prefix
	special     *ssrf.Guardian // the registries' lists, without ports and networks
	newDialer   func(Control) Dialer
}

// New returns a Guard with the given exceptions.
func New(opts Options) *Guard {
	timeout := opts.DialTimeout
	if timeout == 0 {
		timeout = DefaultDialTimeout
	}
	newDialer := opts.NewDialer
	if newDialer == nil {
		newDialer = func(control Control) Dialer {
			return &net.Dialer{Timeout: timeout, ControlContext: control}
		}
	}
	return &Guard{
		allow:     opts.Allow,
		deny:      opts.Deny,
		special:   ssrf.New(ssrf.WithAnyPort(), ssrf.WithAnyNetwork()),
		newDialer: newDialer,
	}
}

// Allowed reports whether an address is one of the operator's own: inside
// network.allow and not inside network.deny.
func (g *Guard) Allowed(addr netip.Addr) bool {
	addr = addr.Unmap()
	return contains(g.allow, addr) && !contains(g.deny, addr)
}

// purpose is what a connection is for; it decides what public addresses allow.
type purpose struct {
	scheme     string // "http" or "https"
	onlyPort   uint16 // the one port allowed on public addresses; 0: any
	ownPorts   bool   // public addresses not at the ports of well-known services, but for 443
	clientName string // as a refusal names it
}

// check returns a *RefusedError if addr must not be connected to for p.
func (g *Guard) check(addr netip.AddrPort, p purpose) error {
	ip := addr.Addr().Unmap()
	refuse := func(reason string, fix Fix) error {
		return &RefusedError{Address: netip.AddrPortFrom(ip, addr.Port()), Reason: reason, Fix: fix}
	}
	switch {
	case contains(g.deny, ip):
		return refuse("is inside network.deny", FixDeny)
	case contains(g.allow, ip):
		return nil
	case g.special.SafeAddr(ip) != nil:
		return refuse("is not a public address", FixAllow)
	case p.scheme != "https":
		return refuse("would be reached over plain http, which is only for addresses inside network.allow", FixAllowOrHTTPS)
	case p.onlyPort != 0 && addr.Port() != p.onlyPort:
		return refuse("is a public address, where "+p.clientName+" use port 443 only", FixAllow)
	case p.ownPorts && !webhookPort(addr.Port()):
		return refuse("is a public address, where "+p.clientName+" use port 443, or one from 1024 on", FixAllow)
	}
	return nil
}

// control is the dial hook for p.
func (g *Guard) control(p purpose) Control {
	return func(_ context.Context, network, address string, _ syscall.RawConn) error {
		addr, err := netip.ParseAddrPort(address)
		if err != nil || (network != "tcp4" && network != "tcp6") {
			return &RefusedError{Reason: "is not TCP over IPv4 or IPv6 (" + network + " " + address + ")", Fix: FixNone}
		}
		return g.check(addr, p)
	}
}

// dial returns the dial function of an http.Transport that serves p.
func (g *Guard) dial(p purpose) func(ctx context.Context, network, address string) (net.Conn, error) {
	return g.newDialer(g.control(p)).DialContext
}

func contains(prefixes []netip.Prefix, addr netip.Addr) bool {
	for _, prefix := range prefixes {
		if prefix.Contains(addr) {
			return true
		}
	}
	return false
}
