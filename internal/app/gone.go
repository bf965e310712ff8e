package app

import (
	"context"
	"maps"
	"sync"
	"time"

	"github.com/parley-mesh/parley/internal/parley"
)

// goneRetry is the pause before agents are looked for again that other replicas
// may have removed, where the store could not be read.
const goneRetry = 5 * time.Second

// goneAgents are agents that this process has connections to, credentials of and
// views about, and that another replica may have removed.
type goneAgents struct {
	changed chan struct{} // holds one
	mu      sync.Mutex
	known   map[parley.AgentName]time.Time // guarded by mu; when each was made
	forget  func(parley.AgentName)         // drops all that this process has of one
}

// agentsMayBeGone has the directory read anew, and has what is kept of agents
// dropped that are gone. It returns at once.
func (a *App) agentsMayBeGone() {
	a.gone.mu.Lock()
	maps.Copy(a.gone.known, a.agents.Known())
	a.gone.mu.Unlock()
	a.agents.Invalidate()
	select {
	case a.gone.changed <- struct{}{}:
	default: // a look is due already, and will see this change too
	}
}

// followAgents drops what is kept of agents that other replicas removed, until
// ctx ends. One of the same name that was made later is another one.
func (a *App) followAgents(ctx context.Context) error {
	retry := time.NewTimer(goneRetry)
	defer retry.Stop()
	for {
		retry.Stop()
		if !a.forgetGone(ctx) {
			retry.Reset(goneRetry)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-a.gone.changed:
		case <-retry.C:
		}
	}
}

// forgetGone reports whether all agents could be looked for.
func (a *App) forgetGone(ctx context.Context) (all bool) {
	a.gone.mu.Lock()
	known := maps.Clone(a.gone.known)
	a.gone.mu.Unlock()
	all = true
	for name, made := range known {
		target, err := a.agents.Lookup(ctx, name)
		switch {
		case err != nil && parley.KindOf(err) != parley.NotFound:
			all = false
			continue
		case err != nil || !target.Agent.CreatedAt.Equal(made):
			a.gone.forget(name)
		}
		a.gone.mu.Lock()
		if a.gone.known[name].Equal(made) {
			delete(a.gone.known, name)
		}
		a.gone.mu.Unlock()
	}
	return all
}
