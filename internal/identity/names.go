package identity

import (
	"context"
	"time"

	"github.com/parley-mesh/parley/internal/parley"
)

// NameKind is which part of a client certificate a name stands in.
type NameKind string

// The kinds of names.
const (
	NameSPIFFE NameKind = "spiffe" // the one URI SAN, spiffe://TRUST-DOMAIN/PATH
	NameDNS    NameKind = "dns"    // a DNS SAN, lower case, no wildcard
)

// CertName links a name in client certificates to the principal that it proves.
type CertName struct {
	Kind      NameKind
	Name      string
	Principal parley.PrincipalName
	CreatedAt time.Time
}

// NameStore keeps which names in client certificates prove which principal. A
// name belongs to one principal at most, and goes with it.
type NameStore interface {
	// PrincipalByName gives the principal of a name, or a parley.NotFound error.
	PrincipalByName(ctx context.Context, kind NameKind, name string) (*Principal, error)
	// Names gives all names of a principal, by kind and name.
	Names(ctx context.Context, principal parley.PrincipalName) ([]*CertName, error)
	// LinkName adds a name: parley.Conflict where it is taken, parley.NotFound
	// where the principal does not exist.
	LinkName(ctx context.Context, n *CertName, events ...parley.Event) error
	// UnlinkName takes the name from that principal: parley.NotFound where it
	// has no such name.
	UnlinkName(ctx context.Context, n *CertName, events ...parley.Event) error
}
