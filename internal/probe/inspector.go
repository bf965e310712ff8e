package probe

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/parley-mesh/parley/internal/a2a"
	"github.com/parley-mesh/parley/internal/a2a/a2agrpc"
	"github.com/parley-mesh/parley/internal/netguard"
	"github.com/parley-mesh/parley/internal/parley"
	"github.com/parley-mesh/parley/internal/registry"
)

// Limits on what an agent may cost, whoever it belongs to.
const (
	// maxAnswerBytes is the largest answer to the binding probe.
	maxAnswerBytes = 64 << 10
	// maxInterfaces is how many interfaces a card may list.
	maxInterfaces = 64
	// maxProbes is how many interfaces of one card are probed.
	maxProbes = 8
	// probesAtOnce is how many of them at a time.
	probesAtOnce = 4
	// maxCardProblems and maxSchemes bound what one look tells of a card and of
	// its security schemes.
	maxCardProblems = 32
	maxSchemes      = 16
	// maxETagBytes is the longest validator of a card that is kept.
	maxETagBytes = 256

	userAgent = "parley"
)

// Limits are the time limits of one look. The zero value means the defaults.
type Limits struct {
	Fetch time.Duration // for each address a card may be at; zero means 10 s
	Probe time.Duration // for each request of the binding probe; zero means 10 s
	// Total is for the whole look; zero means what the slowest agent may take
	// within the other limits: two silent origins, then two rounds of probes in
	// two bindings.
	Total time.Duration
}

func (l Limits) orDefaults() Limits {
	l.Fetch = cmp.Or(l.Fetch, 10*time.Second)
	l.Probe = cmp.Or(l.Probe, 10*time.Second)
	l.Total = cmp.Or(l.Total, 2*l.Fetch+2*2*l.Probe)
	return l
}

// Options tune an Inspector. The zero value works.
type Options struct {
	TLS    *tls.Config // nil: the system's roots
	Limits Limits
	// MaxCard is the largest card that is fetched, in bytes. Range (0,
	// a2a.MaxCardBytes]; zero means a2a.MaxCardBytes.
	MaxCard int64
}

// Inspector looks at agents for the registry.
type Inspector struct {
	guard  *netguard.Guard
	cards  *netguard.FetchClient
	tls    *tls.Config
	limits Limits
}

var _ registry.Inspector = (*Inspector)(nil)

// New makes an inspector that connects to nothing but what guard allows.
func New(guard *netguard.Guard, o Options) *Inspector {
	limits := o.Limits.orDefaults()
	return &Inspector{
		guard: guard, tls: o.TLS, limits: limits,
		cards: guard.FetchClient(netguard.FetchOptions{
			MaxBody: cmp.Or(o.MaxCard, a2a.MaxCardBytes), HeaderTimeout: limits.Fetch, Timeout: limits.Fetch, UserAgent: userAgent, TLS: o.TLS,
		}),
	}
}

// look is one inspection under way.
type look struct {
	*Inspector
	request   registry.InspectRequest
	transport *netguard.Transport // of this look alone, closed at its end
	grpc      *a2agrpc.Pool       // the same
	found     *registry.Inspection
	atHost    bool   // the card was found at the host's own place, while a path was asked for
	auth      string // the command that stores what the card asks for; empty if it names nothing possible
}

// Inspect finds the card, judges it and probes its interfaces; see
// registry.Inspector. Errors are parley.Invalid for an address or card that
// cannot be taken, parley.Unsupported for a card of A2A 0.3, parley.AgentFailed
// where no card was found, parley.Timeout and parley.Canceled.
func (i *Inspector) Inspect(ctx context.Context, request registry.InspectRequest) (*registry.Inspection, error) {
	l := &look{
		Inspector: i, request: request,
		transport: i.guard.AgentTransport(netguard.TransportOptions{TLS: i.tls, IdlePerAgent: probesAtOnce}),
		grpc: a2agrpc.NewPool(a2agrpc.PoolOptions{
			DialTLS: i.guard.AgentDialer("https"), DialPlain: i.guard.AgentDialer("http"), TLS: i.tls, DialTimeout: i.limits.Probe,
		}),
		found: &registry.Inspection{Use: -1},
	}
	defer l.transport.CloseIdleConnections()
	defer l.grpc.Close()
	outer := ctx
	ctx, cancel := context.WithTimeout(ctx, i.limits.Total)
	defer cancel()
	err := l.run(ctx)
	switch {
	case outer.Err() != nil && !errors.Is(outer.Err(), context.DeadlineExceeded):
		err = l.fail(parley.Canceled, "the look at the agent was canceled")
	case ctx.Err() != nil:
		err = l.fail(parley.Timeout, "the look at the agent took too long")
	}
	return l.found, err
}

func (l *look) run(ctx context.Context) error {
	places, err := places(l.request.URL, l.request.Exact)
	if err != nil {
		return l.fail(parley.Invalid, "this address cannot be used", parley.Field{Path: "url", Problem: err.Error()})
	}
	if err := l.checkAddress(places[0].url); err != nil {
		return err
	}
	raw, err := l.hunt(ctx, places)
	if err != nil {
		return err
	}
	if err := l.readCard(raw); err != nil {
		return err
	}
	if err := l.checkPlace(); err != nil {
		return err
	}
	return l.probe(ctx)
}

// checkPlace refuses the host's card where a path was asked for and the card
// names none above or below it: a mistyped path must not register another
// agent. A host with one agent, given by the address of its endpoint, passes.
func (l *look) checkPlace() error {
	if !l.atHost {
		return nil
	}
	asked := l.request.URL
	if !strings.Contains(asked, "://") { // a bare host with a path
		asked = l.found.CardURL[:strings.Index(l.found.CardURL, "://")+3] + asked
	}
	for _, i := range l.found.Interfaces {
		if covers(asked, i.URL, true) || covers(i.URL, asked, false) {
			l.problem(registry.Note, "", "the card was found at "+l.found.CardURL+", the place of the host's own", "")
			return nil
		}
	}
	const problem = "no card was found there; the one of the host itself belongs to an agent elsewhere"
	fix := "check the path, or give " + l.found.CardURL + " to mean that agent"
	l.problem(registry.Refusal, "url", problem, fix)
	return l.fail(parley.Invalid, "the card at "+l.found.CardURL+" is another agent's", parley.Field{Path: "url", Problem: problem, Fix: fix})
}

// checkAddress refuses an address that carries a secret: it is stored and shown.
func (l *look) checkAddress(u *url.URL) error {
	what := a2a.SecretLike(u.String())
	if what == "" {
		return nil
	}
	return l.fail(parley.Invalid, "this address cannot be used", parley.Field{
		Path: "url", Problem: "looks like " + what,
		Fix: "take it out and store it with " + registry.AuthCommand(l.request.Agent, registry.Credential{Kind: registry.APIKey, In: registry.InQuery, Name: "PARAMETER"}),
	})
}

// present adds the credential where this is the origin it was stored for.
func (l *look) present(u *url.URL, h http.Header) {
	if !l.request.Credential.For(u.String()) {
		return
	}
	switch p := l.request.Credential.Present(); {
	case p.Header != "":
		h.Set(p.Header, p.Value)
	case p.Query != "":
		pair := url.Values{p.Query: {p.Value}}.Encode()
		u.RawQuery = strings.TrimPrefix(u.RawQuery+"&"+pair, "&")
	}
}

// fail makes the error of a look that cannot lead to a registration.
func (l *look) fail(kind parley.Kind, message string, fields ...parley.Field) error {
	e := parley.E("probe.inspect", kind, parley.Subject(l.request.Agent), message, nil)
	e.Fields = fields
	return e
}

// problem adds to what the look reports.
func (l *look) problem(level registry.Level, path, problem, fix string) {
	l.found.Problems = append(l.found.Problems, registry.Problem{Level: level, Path: path, Problem: problem, Fix: fix})
}

// refusal is why the guard did not let a connection be made.
func refusal(err error) string {
	if refused, ok := errors.AsType[*netguard.RefusedError](err); ok {
		return "not connected: " + refused.Error()
	}
	return "not connected: the address is not permitted"
}
