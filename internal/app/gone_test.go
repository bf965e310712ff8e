package app

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/parley-mesh/parley/internal/parley"
	"github.com/parley-mesh/parley/internal/registry"
)

// someAgents is a registry's store that knows when each agent was made.
type someAgents struct {
	registry.Store
	made map[parley.AgentName]time.Time
	away bool
}

// Agent implements registry.Store.
func (s *someAgents) Agent(_ context.Context, name parley.AgentName) (*registry.Agent, error) {
	made, ok := s.made[name]
	switch {
	case s.away:
		return nil, errors.New("the store is away")
	case !ok:
		return nil, parley.E("store.agent", parley.NotFound, parley.Subject(name), "no such agent", nil)
	}
	return &registry.Agent{Name: name, CreatedAt: made, Use: -1}, nil
}

// Credential implements registry.Store.
func (s *someAgents) Credential(_ context.Context, name parley.AgentName) (*registry.Credential, error) {
	return nil, parley.E("store.credential", parley.NotFound, parley.Subject(name), "none", nil)
}

// Instances implements registry.Store.
func (s *someAgents) Instances(context.Context, parley.AgentName) ([]*registry.Instance, error) {
	return nil, nil
}

// TestAgentsThatAnotherReplicaRemoved: what this process has of them is dropped,
// also once the store can be read again; an agent of the same name that was made
// later is another one.
func TestAgentsThatAnotherReplicaRemoved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &someAgents{made: map[parley.AgentName]time.Time{"stays": time.Unix(1, 0), "goes": time.Unix(1, 0), "replaced": time.Unix(1, 0)}}
		a := &App{agents: registry.NewDirectory(store)}
		var forgotten []parley.AgentName
		a.gone = goneAgents{changed: make(chan struct{}, 1), known: map[parley.AgentName]time.Time{}, forget: func(name parley.AgentName) { forgotten = append(forgotten, name) }}
		for name := range store.made {
			if _, err := a.agents.Lookup(t.Context(), name); err != nil {
				t.Fatal(err)
			}
		}
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- a.followAgents(ctx) }()
		synctest.Wait()
		delete(store.made, "goes")
		store.made["replaced"], store.away = time.Unix(2, 0), true
		a.agentsMayBeGone()
		synctest.Wait()
		if len(forgotten) != 0 {
			t.Errorf("forgotten while the store is away: %v", forgotten)
		}
		store.away = false
		time.Sleep(2 * goneRetry) // of the bubble's clock
		synctest.Wait()
		slices.Sort(forgotten)
		if !slices.Equal(forgotten, []parley.AgentName{"goes", "replaced"}) {
			t.Errorf("forgotten: %v, want goes and replaced", forgotten)
		}
		stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}
