package identity

import (
	"context"
	"time"

	"github.com/parley-mesh/parley/internal/parley"
)

// Owner is a team that answers for things.
type Owner struct {
	Name        parley.OwnerName
	Description string
	CreatedAt   time.Time
	Version     int64 // grows with every change; compare-and-set
}

// Principal is somebody who calls.
type Principal struct {
	Name        parley.PrincipalName
	Owner       parley.OwnerName
	Environment parley.Environment
	// Agent is set where the principal is the calling side of an agent.
	Agent       parley.AgentName
	Roles       []parley.Role
	Description string
	CreatedAt   time.Time
	Version     int64
	// FrozenAt is since when everything of the principal is refused; zero: it
	// is not frozen. FrozenReason is what whoever froze it wrote.
	FrozenAt     time.Time
	FrozenReason string
}

// Frozen reports whether everything of the principal is refused.
func (p *Principal) Frozen() bool { return !p.FrozenAt.IsZero() }

// Key is an API key without its secret.
type Key struct {
	ID        string // public half: what stands between "pk_" and the second "_"
	Principal parley.PrincipalName
	Hash      [32]byte // SHA-256 of the whole key
	Note      string
	CreatedAt time.Time
	ExpiresAt time.Time // zero: never
	RevokedAt time.Time // zero: valid
}

// Caller is an identified principal.
type Caller struct {
	Principal
	KeyID string // which key proved it; empty for the local socket, anonymous callers and tokens
	// Issuer is whose token proved it; empty where none did. Roles then has
	// those that the token gives as well, which are nowhere else.
	Issuer string
}

// Has reports whether the caller has the role; admins have every role.
func (c *Caller) Has(role parley.Role) bool {
	for _, r := range c.Roles {
		if r == role || r == parley.RoleAdmin {
			return true
		}
	}
	return false
}

// Store keeps owners, principals and keys. Every save commits state and events
// together. A missing row is a parley.NotFound error, a lost compare-and-set or
// an existing name parley.Conflict.
type Store interface {
	NameStore

	Owner(ctx context.Context, name parley.OwnerName) (*Owner, error)
	Owners(ctx context.Context, after parley.OwnerName, limit int) ([]*Owner, error)
	SaveOwner(ctx context.Context, o *Owner, events ...parley.Event) error // Version 0 creates
	DeleteOwner(ctx context.Context, name parley.OwnerName, version int64, events ...parley.Event) error

	Principal(ctx context.Context, name parley.PrincipalName) (*Principal, error)
	Principals(ctx context.Context, owner parley.OwnerName, after parley.PrincipalName, limit int) ([]*Principal, error)
	SavePrincipal(ctx context.Context, p *Principal, events ...parley.Event) error
	// FrozenPrincipals gives the names of all that are frozen.
	FrozenPrincipals(ctx context.Context) ([]parley.PrincipalName, error)
	// DeletePrincipal deletes the principal's keys, names and links with it. What its calls have
	// left belongs to nobody from then on, whoever has the name next.
	DeletePrincipal(ctx context.Context, name parley.PrincipalName, version int64, events ...parley.Event) error

	// Linked gives the link of a subject and its principal together.
	Linked(ctx context.Context, issuer, subject string) (*Link, *Principal, error)
	Links(ctx context.Context, principal parley.PrincipalName, limit int) ([]*Link, error)
	AddLink(ctx context.Context, l *Link, events ...parley.Event) error
	// AdmitPrincipal creates a principal and its link, both or none. An owner
	// that does not exist is parley.Invalid.
	AdmitPrincipal(ctx context.Context, p *Principal, l *Link, events ...parley.Event) error
	TouchLink(ctx context.Context, issuer, subject string, at time.Time) error
	RemoveLink(ctx context.Context, l *Link, events ...parley.Event) error

	// KeyByID gives a key and its principal together.
	KeyByID(ctx context.Context, id string) (*Key, *Principal, error)
	Keys(ctx context.Context, principal parley.PrincipalName, after string, limit int) ([]*Key, error)
	CreateKey(ctx context.Context, k *Key, events ...parley.Event) error
	RevokeKey(ctx context.Context, id string, at time.Time, events ...parley.Event) error
}
