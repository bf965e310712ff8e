package registry

import (
	"context"
	"time"

	"github.com/parley-mesh/parley/internal/parley"
)

// Store keeps agents and credentials. Every save commits state and events
// together. A missing row is a parley.NotFound error, a lost compare-and-set or
// an existing name parley.Conflict.
type Store interface {
	Agent(ctx context.Context, name parley.AgentName) (*Agent, error)
	// Agents gives agents by name; owner empty means all.
	Agents(ctx context.Context, owner parley.OwnerName, after parley.AgentName, limit int) ([]*Agent, error)
	SaveAgent(ctx context.Context, a *Agent, events ...parley.Event) error // Version 0 creates; sets a.Version
	// DeleteAgent deletes the agent's credential with it, and its calling side:
	// a principal of its name, with that one's keys.
	DeleteAgent(ctx context.Context, name parley.AgentName, version int64, events ...parley.Event) error

	// Credential gives the agent's credential, or a parley.NotFound error.
	Credential(ctx context.Context, agent parley.AgentName) (*Credential, error)
	SaveCredential(ctx context.Context, c *Credential, events ...parley.Event) error
	DeleteCredential(ctx context.Context, agent parley.AgentName, events ...parley.Event) error

	// Instances gives the agent's instances by id, all agents' where agent is
	// empty.
	Instances(ctx context.Context, agent parley.AgentName) ([]*Instance, error)
	// SaveInstance creates (Version 0) or replaces; it sets i.Version.
	SaveInstance(ctx context.Context, i *Instance, events ...parley.Event) error
	DeleteInstance(ctx context.Context, agent parley.AgentName, id string, version int64, events ...parley.Event) error
	// OpenAt counts the open calls and unfinished tasks at an instance.
	OpenAt(ctx context.Context, agent parley.AgentName, instance string) (int, error)

	// QuietAgents gives the agents that match, by name.
	QuietAgents(ctx context.Context, f QuietFilter) ([]*Agent, error)
}

// QuietFilter selects agents by how long nothing was heard of them. The zero
// value of a member selects all.
type QuietFilter struct {
	Owner parley.OwnerName
	// SeenBefore selects those that were last found well before: by a look that
	// went well, else registered before.
	SeenBefore time.Time
	// Unused selects those that nobody has called since UnusedSince, or ever
	// where that is zero. A new one is not unused: it was registered before
	// UnusedSince.
	Unused      bool
	UnusedSince time.Time
	After       parley.AgentName // page cursor
	Limit       int
}
