package config

import (
	"net"
	"net/netip"
	"net/url"
	"slices"
	"strings"

	"github.com/parley-mesh/parley/internal/parley"
)

// cloudHost is the publicly numbered address at which a large cloud platform's
// host answers its guests. No registry of special addresses lists it.
var cloudHost = netip.MustParsePrefix("168.63.129.16/32")

var loopback = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("::1/128")}

// LoopbackIncluded reports whether agents on this machine may be reached
// without being listed in network.allow: the process is reachable from this
// machine only and serves development.
func (c *Config) LoopbackIncluded() bool {
	return c.Environment == parley.Dev && isLoopback(c.Listen) && (c.GRPCListen == "" || isLoopback(c.GRPCListen))
}

// AllowedNetworks returns the private ranges in which agents may live:
// network.allow, and loopback where LoopbackIncluded says so. The caller owns
// the slice.
func (c *Config) AllowedNetworks() []netip.Prefix {
	allowed := slices.Clone(c.Network.Allow)
	if c.LoopbackIncluded() {
		allowed = append(allowed, loopback...)
	}
	return allowed
}

// Notices returns sentences the operator should see at start: conveniences in
// force and likely slips that are no errors.
func (c *Config) Notices() []string {
	notices := slices.Clone(c.notices)
	if c.LoopbackIncluded() {
		notices = append(notices, "agents on this machine may be registered (network.allow includes loopback while listen is loopback and environment is dev)")
	}
	if !isLoopback(c.Listen) && c.TLS.Cert == "" && !strings.HasPrefix(c.PublicURL, "https://") {
		notices = append(notices, "callers from other machines send their keys unencrypted: set tls.cert and tls.key, or put a TLS proxy in front and set public_url to its https address")
	}
	return notices
}

// PublicAddress returns the URL under which callers reach the edge, without a
// trailing slash: public_url, or one made of the address the listener was
// really bound to.
func (c *Config) PublicAddress(bound net.Addr) string {
	if c.PublicURL != "" {
		return c.PublicURL
	}
	scheme := "http://"
	if c.TLS.Cert != "" {
		scheme = "https://"
	}
	host, _, err := net.SplitHostPort(c.Listen)
	_, port, boundErr := net.SplitHostPort(bound.String())
	if err != nil || boundErr != nil || host == "" {
		return scheme + bound.String()
	}
	// The configured name is kept rather than the address it resolved to: a
	// certificate is made out to the name.
	return scheme + net.JoinHostPort(host, port)
}

// PublicGRPCAddress returns the host:port under which callers reach the gRPC
// listener: grpc_public_url, or the host of public, the edge's own address, with
// the port the listener was really bound to.
func (c *Config) PublicGRPCAddress(public string, bound net.Addr) string {
	if c.GRPCPublicURL != "" {
		return c.GRPCPublicURL
	}
	u, err := url.Parse(public)
	_, port, boundErr := net.SplitHostPort(bound.String())
	if err != nil || boundErr != nil {
		return bound.String()
	}
	return net.JoinHostPort(u.Hostname(), port)
}
