package registry

import (
	"context"
	"slices"
	"sync"

	"github.com/parley-mesh/parley/internal/parley"
)

// memory is a Store in memory with the duties the interface names: one
// transaction per save, compare-and-set, not found and conflict.
type memory struct {
	mu          sync.Mutex
	agents      map[parley.AgentName]*Agent
	credentials map[parley.AgentName]Credential
	events      []parley.Event
	reads       int
	// before runs at the start of every SaveAgent, outside the lock; nil for
	// nothing.
	before func(a *Agent) error
}

func newMemory() *memory {
	return &memory{agents: map[parley.AgentName]*Agent{}, credentials: map[parley.AgentName]Credential{}}
}

func (m *memory) Agent(_ context.Context, name parley.AgentName) (*Agent, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.reads++
	if a := m.agents[name]; a != nil {
		return a.clone(), nil
	}
	return nil, parley.E("memory.agent", parley.NotFound, parley.Subject(name), "no such agent", nil)
}

func (m *memory) Agents(_ context.Context, owner parley.OwnerName, after parley.AgentName, limit int) ([]*Agent, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	var all []*Agent
	for _, a := range m.agents {
		if (owner == "" || a.Owner == owner) && a.Name > after {
			all = append(all, a.clone())
		}
	}
	slices.SortFunc(all, func(a, b *Agent) int {
		if a.Name < b.Name {
			return -1
		}
		return 1
	})
	return all[:min(limit, len(all))], nil
}

func (m *memory) SaveAgent(_ context.Context, a *Agent, events ...parley.Event) error {
	if m.before != nil {
		if err := m.before(a); err != nil {
			return err
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	stored := m.agents[a.Name]
	if stored == nil && a.Version != 0 || stored != nil && stored.Version != a.Version {
		return parley.E("memory.save", parley.Conflict, parley.Subject(a.Name), "changed meanwhile", nil)
	}
	a.Version++
	m.agents[a.Name] = a.clone()
	m.events = append(m.events, events...)
	return nil
}

func (m *memory) DeleteAgent(_ context.Context, name parley.AgentName, version int64, events ...parley.Event) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	switch stored := m.agents[name]; {
	case stored == nil:
		return parley.E("memory.delete", parley.NotFound, parley.Subject(name), "no such agent", nil)
	case stored.Version != version:
		return parley.E("memory.delete", parley.Conflict, parley.Subject(name), "changed meanwhile", nil)
	}
	delete(m.agents, name)
	delete(m.credentials, name)
	m.events = append(m.events, events...)
	return nil
}

func (m *memory) Credential(_ context.Context, agent parley.AgentName) (*Credential, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if c, ok := m.credentials[agent]; ok {
		return &c, nil
	}
	return nil, parley.E("memory.credential", parley.NotFound, parley.Subject(agent), "no credential", nil)
}

func (m *memory) SaveCredential(_ context.Context, c *Credential, events ...parley.Event) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.credentials[c.Agent] = *c
	m.events = append(m.events, events...)
	return nil
}

func (m *memory) DeleteCredential(_ context.Context, agent parley.AgentName, events ...parley.Event) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if _, ok := m.credentials[agent]; !ok {
		return parley.E("memory.credential", parley.NotFound, parley.Subject(agent), "no credential", nil)
	}
	delete(m.credentials, agent)
	m.events = append(m.events, events...)
	return nil
}

// told gives the types of the events so far, and forgets them.
func (m *memory) told() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	s := kinds(m.events)
	m.events = nil
	return s
}
