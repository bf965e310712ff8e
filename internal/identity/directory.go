package identity

import (
	"context"
	"crypto/x509"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/parley-mesh/parley/internal/parley"
)

// Agents tells what identity needs to know of agents: where one is at home,
// and which ones an owner answers for. The registry has the agents.
type Agents interface {
	// AgentHome gives an agent's owner and environment, or a parley.NotFound
	// error.
	AgentHome(ctx context.Context, name parley.AgentName) (parley.OwnerName, parley.Environment, error)
	// AgentsOf gives at most limit names of the owner's agents.
	AgentsOf(ctx context.Context, owner parley.OwnerName, limit int) ([]parley.AgentName, error)
}

// Options are what a Directory can do without. The zero value works.
type Options struct {
	// Now is the clock; nil means time.Now.
	Now func() time.Time
	// Log gets one line per summary of failures; nil means none.
	Log *slog.Logger
	// Sink keeps the summaries; nil means that only the log has them.
	Sink Sink
	// Environment is the mesh's own, and that of the local socket's principal;
	// empty means parley.Dev.
	Environment parley.Environment
	// Certificates judges client certificates; nil where none are taken.
	Certificates Certificates
	// TrustDomains are those whose SPIFFE ids are taken; none means that no
	// SPIFFE id is.
	TrustDomains []string
	// Tokens verifies tokens of foreign issuers; nil where none are taken.
	Tokens Tokens
	// CachedKeys bounds the cache of verified keys and tokens; 0 means 4,096.
	CachedKeys int
	// FailuresPerMinute and FailureBurst limit failed attempts per remote
	// address, over time and at once; 0 means 60 and 20.
	FailuresPerMinute int
	FailureBurst      int
	// Addresses bounds the table of remote addresses; 0 means 8,192. Addresses
	// over it share one bucket.
	Addresses int
	// SummaryEvery is how often Run tells of failures; 0 means a minute.
	SummaryEvery time.Duration
	// Frozen is told the names of all frozen principals whenever they may have
	// changed, one call at a time; nil means that nobody needs to know. See
	// RunFreezes.
	Frozen func(all []parley.PrincipalName)
}

func (o Options) withDefaults() Options {
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Environment == "" {
		o.Environment = parley.Dev
	}
	if o.CachedKeys <= 0 {
		o.CachedKeys = 4096
	}
	if o.FailuresPerMinute <= 0 {
		o.FailuresPerMinute = 60
	}
	if o.FailureBurst <= 0 {
		o.FailureBurst = 20
	}
	if o.Addresses <= 0 {
		o.Addresses = 8192
	}
	if o.SummaryEvery <= 0 {
		o.SummaryEvery = time.Minute
	}
	return o
}

// Directory knows owners, principals and keys: it identifies callers and
// manages who there is. Its methods are safe for concurrent use.
type Directory struct {
	store    Store
	agents   Agents
	opts     Options
	local    *Caller
	cache    keyCache
	failures failures

	frozenMu sync.Mutex    // one telling of Options.Frozen at a time
	changed  chan struct{} // holds a token where an Invalidate has not been looked at
}

// NewDirectory makes a directory over a store. Nothing is read or written yet:
// see Bootstrap and Run.
func NewDirectory(store Store, agents Agents, opts Options) *Directory {
	opts = opts.withDefaults()
	return &Directory{
		store: store, agents: agents, opts: opts,
		local: &Caller{Principal: Principal{
			Name: parley.LocalAdmin, Owner: parley.DefaultOwner, Environment: opts.Environment,
			Roles: []parley.Role{parley.RoleAdmin}, Description: "whoever may open the mesh's own socket",
		}},
		cache:    keyCache{limit: opts.CachedKeys},
		failures: newFailures(opts),
		changed:  make(chan struct{}, 1),
	}
}

// Credential is what came with a request, before anything of it is believed.
type Credential struct {
	Authorization string // the header of that name; several lines of it joined by ", "
	XAPIKey       string // the header X-API-Key
	RemoteAddr    string // "ip:port" as the connection has it
	// LocalSocket is set where the connection came through the mesh's own
	// Unix socket, which only the mesh's user can open.
	LocalSocket bool
	// Certificates are those that the client presented in the TLS handshake, the
	// leaf first; see PeerCertificates.
	Certificates []*x509.Certificate
}

// Empty reports whether nothing was presented.
func (c Credential) Empty() bool { return !c.spoken() && len(c.Certificates) == 0 }

// spoken reports whether a header presents a credential.
func (c Credential) spoken() bool { return c.Authorization != "" || c.XAPIKey != "" }

// Identify says who presents c. A key wins over the socket it came through, so
// that whoever owns the machine can act as somebody else. A client certificate
// and a key must prove the same principal; a certificate that proves nobody here
// leaves it to the key.
//
// Errors: parley.Unauthorized (see Challenge), parley.Exhausted (see
// RetryAfter), parley.Frozen (see FrozenCaller), or what the store ran into. The Caller is shared and must not be
// changed.
func (d *Directory) Identify(ctx context.Context, c Credential) (*Caller, error) {
	if len(c.Certificates) > 0 {
		return d.identifyConnection(ctx, c)
	}
	return d.identifyRequest(ctx, c)
}

// identifyRequest says who presents what a request itself carries.
func (d *Directory) identifyRequest(ctx context.Context, c Credential) (*Caller, error) {
	if !c.spoken() {
		if c.LocalSocket {
			return d.local, nil
		}
		return nil, d.refuse(c, ReasonNone)
	}
	text, reason := presented(c)
	if reason != "" {
		return nil, d.refuse(c, reason)
	}
	now := d.opts.Now()
	if d.opts.Tokens != nil && c.Authorization != "" && isToken(text) {
		return d.verifyToken(ctx, c, text, now)
	}
	id, ok := keyID(text)
	if !ok {
		return nil, d.refuse(c, ReasonMalformed)
	}
	hash := hashKey(text)
	if caller := d.cache.get(hash, now); caller != nil {
		return admitted(caller)
	}
	return d.verify(ctx, c, id, hash, now)
}

// presented is the key text inside c.
func presented(c Credential) (text string, _ Reason) {
	if c.Authorization == "" {
		return strings.TrimSpace(c.XAPIKey), ""
	}
	scheme, text, ok := strings.Cut(c.Authorization, " ")
	if !ok || !strings.EqualFold(scheme, "Bearer") {
		return "", ReasonScheme
	}
	text = strings.TrimSpace(text)
	if other := strings.TrimSpace(c.XAPIKey); other != "" && other != text {
		return "", ReasonMalformed // whoever stands before the mesh may have read the other one
	}
	return text, ""
}

// verify asks the store. An address with too many failures behind it is
// refused before that, so that guessing costs the mesh next to nothing; callers
// in the cache are not touched by what others at their address do.
func (d *Directory) verify(ctx context.Context, c Credential, id string, hash [32]byte, now time.Time) (*Caller, error) {
	if wait := d.failures.wait(c.RemoteAddr, now); wait > 0 {
		d.failures.count(ReasonLimited)
		return nil, refused(&Refusal{Reason: ReasonLimited, RetryAfter: wait})
	}
	// The generation is read before the store: a change that commits after
	// this line makes what is put into the cache below worthless.
	gen := d.cache.generation()
	key, principal, err := d.store.KeyByID(ctx, id)
	if parley.KindOf(err) == parley.NotFound && err != nil {
		return nil, d.refuse(c, ReasonUnknownKey)
	}
	if err != nil {
		return nil, err
	}
	if reason := key.refuse(hash, now); reason != "" {
		return nil, d.refuse(c, reason)
	}
	caller := &Caller{Principal: *principal, KeyID: key.ID}
	d.cache.put(hash, cachedKey{caller: caller, expires: key.ExpiresAt, generation: gen})
	return admitted(caller)
}

// refuse counts a failure and makes its error. A missing credential takes
// nothing from the address's allowance: stock clients ask first and
// authenticate after the challenge, and it costs no look-up.
func (d *Directory) refuse(c Credential, reason Reason) error {
	return d.refuseWith(c, &Refusal{Reason: reason})
}

func (d *Directory) refuseWith(c Credential, r *Refusal) error {
	d.failures.count(r.Reason)
	if r.Reason != ReasonNone {
		if wait := d.failures.charge(c.RemoteAddr, d.opts.Now()); wait > 0 {
			return refused(&Refusal{Reason: ReasonLimited, RetryAfter: wait})
		}
	}
	return refused(r)
}

// Invalidate forgets every verified key and token. Writes through this directory do it
// themselves; whoever follows the events of other processes calls it for
// theirs.
func (d *Directory) Invalidate() {
	d.cache.invalidate()
	select {
	case d.changed <- struct{}{}:
	default: // a look is due already, and will see this change too
	}
}

// AnonymousCaller is the caller without a credential, for agents that the
// configuration opens to such.
func AnonymousCaller(env parley.Environment) *Caller {
	return &Caller{Principal: Principal{Name: parley.Anonymous, Environment: env}}
}
