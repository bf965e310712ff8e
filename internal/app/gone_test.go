package app

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/parley-mesh/parley/internal/parley"
	"github.com/parley-mesh/parley/internal/registry"
)

// someAgents is a registry's store that knows when each agent was made.
type someAgents struct {
	registry.Store
	mu   sync.Mutex
	made map[parley.AgentName]time.Time // guarded by mu
	away bool                           // guarded by mu
}

// set changes what the store knows.
func (s *someAgents) set(change func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change()
}

// Agent implements registry.Store.
func (s *someAgents) Agent(_ context.Context, name parley.AgentName) (*registry.Agent, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
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

// names are agents that were named to it.
type names struct {
	mu  sync.Mutex
	all []parley.AgentName // guarded by mu
}

func (n *names) add(name parley.AgentName) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.all = append(n.all, name)
}

func (n *names) sorted() []parley.AgentName {
	n.mu.Lock()
	defer n.mu.Unlock()
	return slices.Sorted(slices.Values(n.all))
}

// TestAgentsThatAnotherReplicaRemoved: what this process has of them is dropped,
// also once the store can be read again; an agent of the same name that was made
// later is another one.
func TestAgentsThatAnotherReplicaRemoved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &someAgents{made: map[parley.AgentName]time.Time{"stays": time.Unix(1, 0), "goes": time.Unix(1, 0), "replaced": time.Unix(1, 0)}}
		a := &App{agents: registry.NewDirectory(store)}
		var forgotten names
		a.gone = goneAgents{changed: make(chan struct{}, 1), known: map[parley.AgentName]time.Time{}, forget: forgotten.add}
		for _, name := range []parley.AgentName{"stays", "goes", "replaced"} {
			if _, err := a.agents.Lookup(t.Context(), name); err != nil {
				t.Fatal(err)
			}
		}
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- a.followAgents(ctx) }()
		synctest.Wait()
		store.set(func() {
			delete(store.made, "goes")
			store.made["replaced"], store.away = time.Unix(2, 0), true
		})
		a.agentsMayBeGone()
		synctest.Wait()
		if got := forgotten.sorted(); len(got) != 0 {
			t.Errorf("forgotten while the store is away: %v", got)
		}
		store.set(func() { store.away = false })
		time.Sleep(2 * goneRetry) // of the bubble's clock
		synctest.Wait()
		if got := forgotten.sorted(); !slices.Equal(got, []parley.AgentName{"goes", "replaced"}) {
			t.Errorf("forgotten: %v, want goes and replaced", got)
		}
		stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}
