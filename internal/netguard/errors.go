package netguard

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/netip"
)

// Fix is what an operator can do about a refused address.
type Fix int

// The fixes.
const (
	FixNone         Fix = iota // nothing: the target is impossible
	FixAllow                   // add the address to network.allow
	FixAllowOrHTTPS            // use https, or add the address to network.allow
	FixDeny                    // take the address out of network.deny
)

// RefusedError tells that the Guard did not let a connection be made. No packet
// was sent. It can be shown to operators as it is; callers of the mesh should
// not learn addresses from it.
type RefusedError struct {
	Address netip.AddrPort // the resolved address; zero if there was none
	Reason  string         // continues "10.0.0.1:443 …"
	Fix     Fix
}

// Prefix returns the narrowest range that covers the address, as network.allow
// and --allow-network take it.
func (e *RefusedError) Prefix() netip.Prefix {
	addr := e.Address.Addr().WithZone("")
	return netip.PrefixFrom(addr, addr.BitLen())
}

// Error says what was refused, why, and the line or flag that would change it.
func (e *RefusedError) Error() string {
	text := e.Reason
	if e.Address.IsValid() {
		text = e.Address.String() + " " + text
	}
	allow := fmt.Sprintf("add %s to network.allow, or start with --allow-network %[1]s", e.Prefix())
	switch e.Fix {
	case FixAllow:
		return text + ": if it is yours, " + allow
	case FixAllowOrHTTPS:
		return text + ": use https; if it is yours, " + allow
	case FixDeny:
		return text + ": take the range out of network.deny if it should be reached"
	default:
		return text
	}
}

// Reason sorts why a request to the outside brought no usable answer.
type Reason string

// The reasons. Only ReasonStatus and ReasonTooLarge mean that the peer answered.
const (
	ReasonURL      Reason = "url"       // the address cannot be used at all
	ReasonRefused  Reason = "refused"   // the Guard said no; see RefusedError
	ReasonDNS      Reason = "dns"       // the host name has no address
	ReasonConnect  Reason = "connect"   // no TCP connection
	ReasonTLS      Reason = "tls"       // no TLS handshake: certificate, version, or no TLS there
	ReasonTimeout  Reason = "timeout"   // a time limit passed
	ReasonCanceled Reason = "canceled"  // the caller's context ended
	ReasonTooLarge Reason = "too_large" // the answer is larger than the limit
	ReasonStatus   Reason = "status"    // the status is not 2xx
	ReasonProtocol Reason = "protocol"  // the connection broke or carried no HTTP we take
)

// Error is a failed fetch. It can be shown to operators and to whoever named
// the URL: it holds nothing the peer sent but the status and, at a redirect,
// where it pointed.
type Error struct {
	Reason  Reason
	URL     string // as asked for, without its query
	Status  int    // for ReasonStatus
	Problem string // what happened and what to do, without the URL
	Err     error  // the cause, for logs; nil if there is none
}

// Error returns "URL: problem".
func (e *Error) Error() string { return e.URL + ": " + e.Problem }

// Unwrap returns the cause, so that errors.As finds a RefusedError.
func (e *Error) Unwrap() error { return e.Err }

// ReasonOf sorts an error from Fetch or from a Transport. It returns "" for nil.
func ReasonOf(err error) Reason {
	if err == nil {
		return ""
	}
	var fetch *Error
	var refused *RefusedError
	var dns *net.DNSError
	var op *net.OpError
	var timeout net.Error
	switch {
	case errors.As(err, &fetch):
		return fetch.Reason
	case errors.As(err, &refused):
		return ReasonRefused
	case errors.Is(err, context.Canceled):
		return ReasonCanceled
	case errors.As(err, &dns):
		return ReasonDNS
	case errors.Is(err, context.DeadlineExceeded), errors.As(err, &timeout) && timeout.Timeout():
		return ReasonTimeout
	case isTLS(err):
		return ReasonTLS
	case errors.As(err, &op) && op.Op == "dial":
		return ReasonConnect
	}
	return ReasonProtocol
}

func isTLS(err error) bool {
	var (
		certificate *tls.CertificateVerificationError
		record      tls.RecordHeaderError
		alert       tls.AlertError
		authority   x509.UnknownAuthorityError
		hostname    x509.HostnameError
		invalid     x509.CertificateInvalidError
	)
	return errors.As(err, &certificate) || errors.As(err, &record) || errors.As(err, &alert) ||
		errors.As(err, &authority) || errors.As(err, &hostname) || errors.As(err, &invalid)
}
