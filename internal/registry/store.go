package registry

import (
	"context"

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
}
