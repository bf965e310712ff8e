package registry

import (
	"context"
	"time"

	"github.com/parley-mesh/parley/internal/parley"
)

// Status is whether an agent may be called.
type Status string

// The statuses.
const (
	Active    Status = "active"
	Suspended Status = "suspended" // by an operator
	Unproven  Status = "unproven"  // registered; nothing answered the binding probe, or it wants credentials
)

// Interface is one way to reach an agent, from its card, with what the binding
// probe found there.
type Interface struct {
	URL     string `json:"url"`
	Binding string `json:"binding"` // as the card labels it
	Version string `json:"version"`
	Tenant  string `json:"tenant,omitempty"`
	// Probe is what answered: "ok", "unauthorized", or what went wrong.
	Probe string `json:"probe,omitempty"`
	// Behaves is the binding that really answered, where it is not the label.
	Behaves string `json:"behaves,omitempty"`
}

// Agent is something registered that does work.
type Agent struct {
	Name        parley.AgentName
	Owner       parley.OwnerName
	Environment parley.Environment
	Kind        string // "a2a"
	URL         string // as given at registration
	CardURL     string // where the card was found
	Status      Status
	Reason      string // why it is suspended or unproven

	Card     []byte // raw bytes as fetched
	CardHash string // SHA-256 of Card, hex
	CardETag string
	// Title, Description and AgentVersion are the card's own words.
	Title        string
	Description  string
	AgentVersion string
	Interfaces   []Interface
	// Use is the index in Interfaces that calls go to; -1 where none is proven.
	Use int
	// Warnings are what the card or the probe showed that does not refuse it.
	Warnings []string
	// Pending is a newer card that waits for approval, with why.
	Pending *Pending

	// Allow lists the owners beside the agent's own who may call it.
	Allow     []parley.OwnerName
	CheckedAt time.Time // last refresh, successful or not
	CheckErr  string    // what the last refresh ran into
	CreatedAt time.Time
	UpdatedAt time.Time
	Version   int64 // grows with every change; compare-and-set
}

// Pending is a card that waits for approval.
type Pending struct {
	Card       []byte      `json:"card"`
	CardHash   string      `json:"cardHash"`
	Why        string      `json:"why"`
	Interfaces []Interface `json:"interfaces"`
	Since      time.Time   `json:"since"`
}

// MayCall reports whether a caller of that owner and environment may call the
// agent, and why not. Rule until policies exist: inside one owner and
// environment yes, else only where the owner is on the allow list.
func (a *Agent) MayCall(owner parley.OwnerName, env parley.Environment) bool {
	if a.Owner == owner && a.Environment == env {
		return true
	}
	for _, o := range a.Allow {
		if o == owner {
			return true
		}
	}
	return false
}

// CredentialKind is how a credential is presented.
type CredentialKind string

// The kinds of credential.
const (
	Bearer CredentialKind = "bearer"
	APIKey CredentialKind = "api_key" // in a header or query parameter of a given name
	Basic  CredentialKind = "basic"
)

// Credential is what the mesh shows an agent. Secret is sealed at rest.
type Credential struct {
	Agent     parley.AgentName
	Kind      CredentialKind
	In        string // api_key: "header" or "query"
	Name      string // api_key: the header's or parameter's name; basic: the user
	Origin    string // scheme://host:port it may go to
	Secret    string
	Owner     parley.OwnerName // whose key seals it
	CreatedAt time.Time
}

// Store keeps agents and credentials. Every save commits state and events
// together. A missing row is a parley.NotFound error, a lost compare-and-set or
// an existing name parley.Conflict.
type Store interface {
	Agent(ctx context.Context, name parley.AgentName) (*Agent, error)
	// Agents gives agents by name; owner empty means all.
	Agents(ctx context.Context, owner parley.OwnerName, after parley.AgentName, limit int) ([]*Agent, error)
	SaveAgent(ctx context.Context, a *Agent, events ...parley.Event) error // Version 0 creates; sets a.Version
	DeleteAgent(ctx context.Context, name parley.AgentName, version int64, events ...parley.Event) error

	// Credential gives the agent's credential, or a parley.NotFound error.
	Credential(ctx context.Context, agent parley.AgentName) (*Credential, error)
	SaveCredential(ctx context.Context, c *Credential, events ...parley.Event) error
	DeleteCredential(ctx context.Context, agent parley.AgentName, events ...parley.Event) error
}
