package registry

import (
	"context"

	"github.com/parley-mesh/parley/internal/parley"
)

// Homes tells where agents are at home, for those who know no agents.
type Homes struct{ Store Store }

// AgentHome gives an agent's owner and environment, or a parley.NotFound error.
func (h Homes) AgentHome(ctx context.Context, name parley.AgentName) (parley.OwnerName, parley.Environment, error) {
	a, err := h.Store.Agent(ctx, name)
	if err != nil {
		return "", "", err
	}
	return a.Owner, a.Environment, nil
}

// AgentsOf gives at most limit names of the owner's agents.
func (h Homes) AgentsOf(ctx context.Context, owner parley.OwnerName, limit int) ([]parley.AgentName, error) {
	agents, err := h.Store.Agents(ctx, owner, "", limit)
	if err != nil {
		return nil, err
	}
	names := make([]parley.AgentName, len(agents))
	for i, a := range agents {
		names[i] = a.Name
	}
	return names, nil
}
