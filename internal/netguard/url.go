package netguard

import (
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
)

// MaxURLLength bounds URLs from outside, in bytes. Browsers and servers agree
// on about this much.
const MaxURLLength = 2048

// ParseURL reads an address that a stranger named. It takes absolute http and
// https URLs whose host is ASCII (international names in their xn-- form), and
// refuses user names, which would end up in logs and cards, and fragments,
// which mean nothing to a server. The error says what to write instead and does
// not repeat a password.
func ParseURL(raw string) (*url.URL, error) {
	if len(raw) > MaxURLLength {
		return nil, fmt.Errorf("the URL is %d bytes long: at most %d are taken", len(raw), MaxURLLength)
	}
	if i := strings.IndexFunc(raw, func(r rune) bool { return r <= ' ' || r == 0x7f || r == '\\' }); i >= 0 {
		return nil, fmt.Errorf("the URL has %q at position %d: take it out or percent-encode it", raw[i], i+1)
	}
	u, err := url.Parse(raw)
	if err != nil {
		return nil, errors.New("not a URL: write it as https://host/path") // the cause would repeat the text, and with it a password
	}
	switch {
	case u.Scheme != "http" && u.Scheme != "https":
		return nil, fmt.Errorf("the scheme is %q: write https:// (or http:// inside network.allow)", u.Scheme)
	case u.Opaque != "" || u.Hostname() == "":
		return nil, errors.New("the URL has no host: write it as https://host/path")
	case u.User != nil:
		return nil, errors.New("the URL carries a user name: take it out and store the credential separately")
	case u.Fragment != "" || strings.Contains(raw, "#"):
		return nil, errors.New("the URL has a fragment (#…): take it out")
	}
	for _, r := range u.Hostname() {
		if r > 0x7e {
			return nil, fmt.Errorf("the host %q is not ASCII: write it in its xn-- form", u.Hostname())
		}
	}
	if strings.HasSuffix(u.Host, ":") {
		return nil, errors.New("the URL has a colon but no port: write the port or take the colon out")
	}
	if port := u.Port(); port != "" {
		if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
			return nil, fmt.Errorf("the port %s is out of range: write one from 1 to 65535", port)
		}
	}
	return u, nil
}

// CheckURL refuses, without resolving anything, a URL whose host is written as
// an address a Transport would not connect to. Names pass: they are judged
// when they are dialled. The error is a *RefusedError.
func (g *Guard) CheckURL(u *url.URL) error {
	// With a root dot it is still an address, to some resolvers.
	ip, err := netip.ParseAddr(strings.TrimSuffix(u.Hostname(), "."))
	if err != nil {
		return nil // a name
	}
	return g.check(netip.AddrPortFrom(ip, urlPort(u)), agentPurpose(u.Scheme))
}

func urlPort(u *url.URL) uint16 {
	if n, err := strconv.ParseUint(u.Port(), 10, 16); err == nil {
		return uint16(n)
	}
	if u.Scheme == "http" {
		return 80
	}
	return 443
}

// shown is a URL for messages: without its query, which may hold a secret.
func shown(u *url.URL) string {
	bare := *u
	bare.RawQuery, bare.ForceQuery, bare.User = "", false, nil
	return bare.String()
}
