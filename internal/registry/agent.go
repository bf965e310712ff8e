package registry

import (
	"slices"
	"strings"
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

// KindA2A is the kind of an agent that speaks A2A.
const KindA2A = "a2a"

// Interface is one way to reach an agent, from its card, with what the binding
// probe found there.
type Interface struct {
	URL     string `json:"url"`
	Binding string `json:"binding"` // as the card labels it
	Version string `json:"version"`
	Tenant  string `json:"tenant,omitempty"`
	// Probe is what answered: "ok", "unauthorized", or what went wrong.
	Probe string `json:"probe,omitempty"`
	// Behaves is the binding that really answered, where it is not the label, and
	// BehavesVersion the version.
	Behaves        string `json:"behaves,omitempty"`
	BehavesVersion string `json:"behavesVersion,omitempty"`
}

// SpeaksVersion is the version to use at the interface, major and minor: what
// answered where the probe knows it, else the label.
func (i Interface) SpeaksVersion() string {
	if i.BehavesVersion != "" {
		return i.BehavesVersion
	}
	major, rest, _ := strings.Cut(i.Version, ".")
	minor, _, _ := strings.Cut(rest, ".")
	return strings.TrimSuffix(major+"."+minor, ".")
}

// Agent is something registered that does work.
type Agent struct {
	Name        parley.AgentName
	Owner       parley.OwnerName
	Environment parley.Environment
	Kind        string // KindA2A
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

	// CalledAt is when it was last called, to about a minute, and SeenAt when a
	// look last went well; zero for never. They are the store's own: saving an
	// agent does not change CalledAt, and sets SeenAt where CheckErr is empty.
	CalledAt time.Time
	SeenAt   time.Time
}

// Pending is a card that waits for approval. It holds all that Approve needs,
// so that what is approved is what was looked at.
type Pending struct {
	Card         []byte      `json:"card"`
	CardHash     string      `json:"cardHash"`
	CardETag     string      `json:"cardETag,omitempty"`
	Title        string      `json:"title,omitempty"`
	Description  string      `json:"description,omitempty"`
	AgentVersion string      `json:"agentVersion,omitempty"`
	Why          string      `json:"why"`
	Interfaces   []Interface `json:"interfaces"`
	Use          int         `json:"use"` // as Agent.Use
	Warnings     []string    `json:"warnings,omitempty"`
	Since        time.Time   `json:"since"`
}

// The plain results of a binding probe; any other Probe text says what went
// wrong.
const (
	ProbeOK           = "ok"
	ProbeUnauthorized = "unauthorized"
	ProbeNotSpoken    = "not spoken by the mesh" // nor asked
)

// Speaks is the binding to use at the interface: what answered where the probe
// knows it, else the label.
func (i Interface) Speaks() string {
	if i.Behaves != "" {
		return i.Behaves
	}
	return i.Binding
}

// MayCall reports whether a caller of that owner and environment may call the
// agent, and why not. Rule until policies exist: inside one owner and
// environment yes, else only where the owner is on the allow list.
func (a *Agent) MayCall(owner parley.OwnerName, env parley.Environment) bool {
	if a.Owner == owner && a.Environment == env {
		return true
	}
	return slices.Contains(a.Allow, owner)
}

// clone gives a copy that may be changed without changing a. Card bytes are
// never written to and stay shared.
func (a *Agent) clone() *Agent {
	c := *a
	c.Interfaces = slices.Clone(a.Interfaces)
	c.Warnings = slices.Clone(a.Warnings)
	c.Allow = slices.Clone(a.Allow)
	if a.Pending != nil {
		p := *a.Pending
		c.Pending = &p
	}
	return &c
}
