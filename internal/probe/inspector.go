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
	"github.com/parley-mesh/parley/internal/a2a/cardsign"
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
	// Tokens says how a credential stands in a request; nil where credentials
	// themselves say. See upstream.Tokens.
	Tokens Tokens
	// MaxCard is the largest card that is fetched, in bytes. Range (0,
	// a2a.MaxCardBytes]; zero means a2a.MaxCardBytes.
	MaxCard int64
	// KeyProviders are origins, as registry.OriginOf writes them, whose key sets
	// may verify the cards of any agent, beside that of the card itself.
	KeyProviders []string
	Now          func() time.Time // nil means time.Now
}

// Tokens says how a credential stands in a request.
type Tokens interface {
	Present(ctx context.Context, c *registry.Credential) (registry.Presented, error)
}

// Inspector looks at agents for the registry.
type Inspector struct {
	guard   *netguard.Guard
	cards   *netguard.FetchClient
	keySets *keySets
	tls     *tls.Config
	tokens  Tokens
	limits  Limits

	options Options
}

var _ registry.Inspector = (*Inspector)(nil)

// New makes an inspector that connects to nothing but what guard allows.
func New(guard *netguard.Guard, o Options) *Inspector {
	limits := o.Limits.orDefaults()
	if o.Now == nil {
		o.Now = time.Now
	}
	return &Inspector{
		keySets: &keySets{now: o.Now, by: map[string]*keySet{}, fetch: guard.FetchClient(netguard.FetchOptions{
			MaxBody: cardsign.MaxKeySetBytes, HeaderTimeout: keySetTimeout, Timeout: keySetTimeout, UserAgent: userAgent, TLS: o.TLS,
		})},
		guard: guard, tls: o.TLS, tokens: o.Tokens, limits: limits,
		cards: guard.FetchClient(fetchOptions(o, limits, o.TLS)), options: o,
	}
}

func fetchOptions(o Options, limits Limits, config *tls.Config) netguard.FetchOptions {
	return netguard.FetchOptions{
		MaxBody: cmp.Or(o.MaxCard, a2a.MaxCardBytes), HeaderTimeout: limits.Fetch, Timeout: limits.Fetch, UserAgent: userAgent, TLS: config,
	}
}

// grpcPool makes connections for one look.
func (i *Inspector) grpcPool(config *tls.Config) *a2agrpc.Pool {
	return a2agrpc.NewPool(a2agrpc.PoolOptions{
		DialTLS: i.guard.AgentDialer("https"), DialPlain: i.guard.AgentDialer("http"), TLS: config, DialTimeout: i.limits.Probe,
	})
}

// look is one inspection under way.
type look struct {
	*Inspector
	request   registry.InspectRequest
	transport *netguard.Transport // of this look alone, closed at its end
	grpc      *a2agrpc.Pool       // the same
	// certified, certifiedCards and certifiedGRPC show the client certificate;
	// nil without one.
	certified      *netguard.Transport
	certifiedCards *netguard.FetchClient
	certifiedGRPC  *a2agrpc.Pool
	shown          registry.Presented // the credential, as it stands in a request
	found          *registry.Inspection
	atHost         bool   // the card was found at the host's own place, while a path was asked for
	auth           string // the command that stores what the card asks for; empty if it names nothing possible
}

// Inspect finds the card, judges it and probes its interfaces; see
// registry.Inspector. Errors are parley.Invalid for an address or card that
// cannot be taken, parley.Unsupported for a card of A2A 0.3, parley.AgentFailed
// where no card was found, parley.Timeout and parley.Canceled.
func (i *Inspector) Inspect(ctx context.Context, request registry.InspectRequest) (*registry.Inspection, error) {
	l := &look{
		Inspector: i, request: request,
		transport: i.guard.AgentTransport(netguard.TransportOptions{TLS: i.tls, IdlePerAgent: probesAtOnce}),
		grpc:      i.grpcPool(i.tls),
		found:     &registry.Inspection{Use: -1},
	}
	defer l.transport.CloseIdleConnections()
	defer l.grpc.Close()
	if err := l.certify(); err != nil {
		return l.found, err
	}
	if l.certified != nil {
		defer l.certified.CloseIdleConnections()
		defer l.certifiedGRPC.Close()
	}
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
	if err := l.prepare(ctx); err != nil {
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
	l.verify(ctx)
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

// prepare gets what is shown to the agent.
func (l *look) prepare(ctx context.Context) (err error) {
	c := l.request.Credential
	if l.tokens == nil || c == nil {
		l.shown = c.Present()
		return nil
	}
	if l.shown, err = l.tokens.Present(ctx, c); err != nil {
		// The reason is for whoever manages the agent: its cause names the token
		// endpoint, and nothing of what it was sent.
		return l.fail(parley.AgentFailed, "no token for the agent: "+reason(err))
	}
	return nil
}

// reason is the innermost message that a failure to get a token has for an
// operator.
func reason(err error) string {
	if cause := errors.Unwrap(err); cause != nil {
		return cause.Error()
	}
	return parley.PublicMessage(err)
}

// certify makes the clients that show the credential's certificate, if it has
// one.
func (l *look) certify() error {
	c := l.request.Credential
	if c == nil || c.Certificate == nil {
		return nil
	}
	config, err := c.Certificate.TLS()
	if err != nil {
		return l.fail(parley.Invalid, "the client certificate cannot be used", parley.Field{Path: "certificate", Problem: "does not fit its key", Fix: registry.AuthCommand(l.request.Agent, registry.Credential{Kind: registry.Certificate})})
	}
	l.certified = l.guard.AgentTransport(netguard.TransportOptions{TLS: config, IdlePerAgent: probesAtOnce})
	l.certifiedGRPC = l.grpcPool(config)
	l.certifiedCards = l.guard.FetchClient(fetchOptions(l.options, l.limits, config))
	return nil
}

// cardsAt is the client for cards at an address, as transportTo is for calls.
func (l *look) cardsAt(u *url.URL) *netguard.FetchClient {
	if l.certifiedCards != nil && l.request.Credential.For(u.String()) {
		return l.certifiedCards
	}
	return l.cards
}

// grpcAt is the pool for a gRPC address, as transportTo is for the others.
func (l *look) grpcAt(u *url.URL) *a2agrpc.Pool {
	if l.certifiedGRPC != nil && l.request.Credential.For(u.String()) {
		return l.certifiedGRPC
	}
	return l.grpc
}

// transportTo is the pool for an address: the one with the client certificate
// at the origin that it is for.
func (l *look) transportTo(u *url.URL) *netguard.Transport {
	if l.certified != nil && l.request.Credential.For(u.String()) {
		return l.certified
	}
	return l.transport
}

// present adds the credential where this is the origin it was stored for.
func (l *look) present(u *url.URL, h http.Header) {
	if !l.request.Credential.For(u.String()) {
		return
	}
	switch p := l.shown; {
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
