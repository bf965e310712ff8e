package oidc

import (
	"context"
	"log/slog"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/parley-mesh/parley/internal/identity"
	"github.com/parley-mesh/parley/internal/netguard"
	"github.com/parley-mesh/parley/internal/parley"
)

// Issuer is one issuer of tokens as the configuration has it. All of it but
// MetadataURL, Scopes, ClockSkew, Create and what follows that is required.
type Issuer struct {
	ID          string // as iss has it, byte by byte
	MetadataURL string // empty: below ID
	Audience    []string
	Algorithms  []string
	Types       []string // lower case, without "application/"
	Scopes      []string // all needed
	ClockSkew   time.Duration
	Refresh     time.Duration // between two fetches of its keys

	// Create admits subjects that no principal is linked to. Owner, Environment
	// and Roles are those of whom no claim says more.
	Create      bool
	Owner       parley.OwnerName
	Environment parley.Environment
	Roles       []parley.Role
	Claims      Claims
}

// Claims says which claims tell what: names of claims, or JSON pointers. With a
// map only its values count.
type Claims struct {
	Name           string // empty: sub
	Owner          string
	OwnerMap       map[string]string
	Environment    string
	EnvironmentMap map[string]string
	Roles          string
	RoleMap        map[string]string
}

// Fetcher gets documents from addresses that are not to be trusted; it is
// *netguard.FetchClient.
type Fetcher interface {
	Fetch(ctx context.Context, rawURL string, r netguard.Request) (*netguard.Response, error)
}

// Options are what a Verifier works with. Issuers and Fetch are required.
type Options struct {
	Issuers []Issuer
	Fetch   Fetcher
	// Environment is the mesh's own: that of principals of which neither claims
	// nor issuer say one.
	Environment parley.Environment
	Log         *slog.Logger     // nil: nothing is logged
	Now         func() time.Time // nil: time.Now
}

// Verifier verifies tokens of its issuers. It is an identity.Tokens.
type Verifier struct {
	issuers map[string]*issuer
	now     func() time.Time
	own     parley.Environment
}

var _ identity.Tokens = (*Verifier)(nil)

// issuer is an Issuer with its keys.
type issuer struct {
	Issuer
	keys *keyring
}

// New makes a verifier. Nothing is fetched before Run or the first token.
func New(o Options) *Verifier {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	v := &Verifier{issuers: make(map[string]*issuer, len(o.Issuers)), now: o.Now, own: o.Environment}
	for _, one := range o.Issuers {
		v.issuers[one.ID] = &issuer{Issuer: one, keys: newKeyring(one, o)}
	}
	return v
}

// Run keeps the issuers' keys fresh until ctx is done; then it gives nil.
func (v *Verifier) Run(ctx context.Context) error {
	var group errgroup.Group
	for _, one := range v.issuers {
		group.Go(func() error { one.keys.run(ctx); return nil })
	}
	return group.Wait()
}

// Verify implements identity.Tokens. Where the issuer's keys cannot be had the
// error is parley.Unavailable.
func (v *Verifier) Verify(ctx context.Context, token string) (*identity.Assertion, error) {
	t, err := parse(token)
	if err != nil {
		return nil, err
	}
	from := v.issuers[t.issuer]
	if from == nil {
		return nil, &identity.Refusal{Reason: identity.ReasonIssuer}
	}
	if err := from.checkHeader(t); err != nil {
		return nil, err
	}
	if err := from.keys.verify(ctx, t); err != nil {
		return nil, err
	}
	return from.assertion(t, v.now(), v.own)
}
