package probe

import (
	"net/url"
	"strings"

	"github.com/parley-mesh/parley/internal/netguard"
)

// Where cards live below a base address: by A2A 0.3 and 1.0 (section 8.2), and where
// versions before put them, which is asked last.
const (
	wellKnown    = "/.well-known/agent-card.json"
	oldWellKnown = "/.well-known/agent.json"
)

// place is one address at which a card may be.
type place struct {
	url *url.URL
	// lastResort marks plain http for a bare host: asked only where https did
	// not answer at all.
	lastResort bool
	// host marks the host's own place where a path below it was asked for: the
	// card there may be another agent's.
	host bool
}

// places lists where the card of the agent at address may be, most likely
// first. The address is a URL or a bare host; exact asks for the card at
// address only.
func places(address string, exact bool) ([]place, error) {
	if strings.Contains(address, "://") {
		u, err := netguard.ParseURL(address)
		if err != nil {
			return nil, err
		}
		if exact {
			return []place{{url: u}}, nil
		}
		return below(u, true, false), nil
	}
	secure, err := netguard.ParseURL("https://" + address)
	if err != nil {
		return nil, err
	}
	plain := *secure
	plain.Scheme = "http"
	return append(below(secure, false, false), below(&plain, false, true)...), nil
}

// below lists the places for one base address: as given, its own well-known
// place, the host's well-known place, and the old ones of both.
func below(u *url.URL, asGiven, lastResort bool) []place {
	base := strings.TrimRight(u.EscapedPath(), "/")
	named := false
	for _, place := range []string{wellKnown, oldWellKnown} {
		if trimmed, ok := strings.CutSuffix(base, place); ok {
			base, named = trimmed, true
		}
	}
	var list []place
	add := func(u *url.URL, host bool) {
		for _, p := range list {
			if p.url.String() == u.String() {
				return
			}
		}
		list = append(list, place{url: u, lastResort: lastResort, host: host})
	}
	if asGiven || named {
		add(u, false)
	}
	for _, name := range []string{wellKnown, oldWellKnown} {
		for _, prefix := range []string{base, ""} {
			if at, err := atPath(url.URL{Scheme: u.Scheme, Host: u.Host}, prefix+name); err == nil { // prefix is a path that was parsed before
				add(at, prefix != base)
			}
		}
	}
	return list
}

// covers tells whether address lies at or below base. Queries do not matter.
// root says whether a base that is a whole host covers what it holds.
func covers(base, address string, root bool) bool {
	b, err := netguard.ParseURL(base)
	if err != nil {
		return false
	}
	u, err := netguard.ParseURL(address)
	if err != nil || u.Scheme != b.Scheme || u.Host != b.Host {
		return false
	}
	path := strings.TrimRight(b.EscapedPath(), "/")
	rest, below := strings.CutPrefix(u.EscapedPath(), path)
	return below && (rest == "" || rest[0] == '/') && (root || path != "")
}

// atPath is u with an escaped path. The path is set, not resolved as a reference
// is: an escaped slash stays one, and "//host" leads to no other host.
func atPath(u url.URL, escaped string) (*url.URL, error) {
	path, err := url.PathUnescape(escaped)
	if err != nil {
		return nil, err
	}
	u.Path, u.RawPath = path, escaped
	return &u, nil
}
