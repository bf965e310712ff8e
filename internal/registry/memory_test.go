package registry

import (
	"context"
	"slices"
	"strings"
	"sync"

	"github.com/parley-mesh/parley/internal/parley"
)

// memory is a Store in memory with the duties the interface names: one
// transaction per save, compare-and-set, not found and conflict.
type memory struct {
	mu          sync.Mutex
	agents      map[parley.AgentName]*Agent
	credentials map[parley.AgentName]Credential
	instances   map[string]*Instance // by "agent id"
	open        map[string]int       // by "agent id"
	events      []parley.Event
	reads       int
	// before runs at the start of every SaveAgent, outside the lock; nil for
	// nothing.
	before func(a *Agent) error
}

func newMemory() *memory {
	return &memory{agents: map[parley.AgentName]*Agent{}, credentials: map[parley.AgentName]Credential{}, instances: map[string]*Instance{}, open: map[string]int{}}
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

func (m *memory) Instances(_ context.Context, agent parley.AgentName) ([]*Instance, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	var all []*Instance
	for _, i := range m.instances {
		if agent == "" || i.Agent == agent {
			all = append(all, i.clone())
		}
	}
	slices.SortFunc(all, func(a, b *Instance) int { return strings.Compare(string(a.Agent)+" "+a.ID, string(b.Agent)+" "+b.ID) })
	return all, nil
}

func (m *memory) SaveInstance(_ context.Context, i *Instance, events ...parley.Event) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	key := string(i.Agent) + " " + i.ID
	if stored := m.instances[key]; stored == nil && i.Version != 0 || stored != nil && stored.Version != i.Version {
		return parley.E("memory.save_instance", parley.Conflict, parley.Subject(i.Agent), "changed meanwhile", nil)
	}
	i.Version++
	m.instances[key] = i.clone()
	m.events = append(m.events, events...)
	return nil
}

func (m *memory) DeleteInstance(_ context.Context, agent parley.AgentName, id string, version int64, events ...parley.Event) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	key := string(agent) + " " + id
	switch stored := m.instances[key]; {
	case stored == nil:
		return parley.E("memory.delete_instance", parley.NotFound, parley.Subject(agent), "no such instance", nil)
	case stored.Version != version:
		return parley.E("memory.delete_instance", parley.Conflict, parley.Subject(agent), "changed meanwhile", nil)
	}
	delete(m.instances, key)
	m.events = append(m.events, events...)
	return nil
}

func (m *memory) OpenAt(_ context.Context, agent parley.AgentName, instance string) (int, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.open[string(agent)+" "+instance], nil
}

func (m *memory) QuietAgents(ctx context.Context, f QuietFilter) ([]*Agent, error) {
	return m.Agents(ctx, f.Owner, f.After, f.Limit)
}
