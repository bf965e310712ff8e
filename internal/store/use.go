package store

import (
	"context"
	"sync"
	"time"

	"github.com/parley-mesh/parley/internal/parley"
	"github.com/parley-mesh/parley/internal/registry"
)

// useEvery is how far apart the marks are that an agent was called: one small
// write a minute and agent, instead of one a call.
const useEvery = time.Minute

// uses remembers which marks were written, so that most calls write none.
type uses struct {
	mu sync.Mutex
	at map[parley.AgentName]time.Time // guarded by mu; only registered agents
}

// due reports whether a call of that time needs a mark, and takes it as written.
func (u *uses) due(agent parley.AgentName, at time.Time) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	if last, known := u.at[agent]; known && at.Sub(last) < useEvery {
		return false
	}
	if u.at == nil {
		u.at = map[parley.AgentName]time.Time{}
	}
	u.at[agent] = at
	return true
}

// wants is due without taking the mark as written.
func (u *uses) wants(agent parley.AgentName, at time.Time) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	last, known := u.at[agent]
	return !known || at.Sub(last) >= useEvery
}

// lost forgets a mark that was not committed.
func (u *uses) lost(agent parley.AgentName) {
	u.mu.Lock()
	defer u.mu.Unlock()
	delete(u.at, agent)
}

// useMark is the mark that one call leaves, if any.
type useMark struct {
	agent parley.AgentName
	wrote bool
}

// write marks the agent as called at that time, where the last mark is old. A
// name that is nobody's gets none.
func (m *useMark) write(tx *tx, u *uses, agent parley.AgentName, at time.Time) error {
	if !m.wrote && !u.due(agent, at) {
		return nil
	}
	m.agent, m.wrote = agent, true
	_, err := tx.run(`INSERT INTO agent_use (agent, called_at) SELECT name, ? FROM agents WHERE name = ?
		ON CONFLICT (agent) DO UPDATE SET called_at = excluded.called_at
		WHERE agent_use.called_at IS NULL OR agent_use.called_at < excluded.called_at`, micros(at), string(agent))
	return err
}

// ended forgets the mark of a write that failed.
func (m *useMark) ended(u *uses, err error) {
	if m.wrote && err != nil {
		u.lost(m.agent)
	}
}

// seen notes when a look at the agent last went well.
func (t *tx) seen(agent parley.AgentName, at time.Time) error {
	_, err := t.run(`INSERT INTO agent_use (agent, seen_at) VALUES (?, ?)
		ON CONFLICT (agent) DO UPDATE SET seen_at = excluded.seen_at`, string(agent), micros(at))
	return err
}

// QuietAgents implements registry.Store.
func (db *DB) QuietAgents(ctx context.Context, f registry.QuietFilter) ([]*registry.Agent, error) {
	var w where
	w.and("name > ?", string(f.After))
	if f.Owner != "" {
		w.and("owner = ?", string(f.Owner))
	}
	if !f.SeenBefore.IsZero() {
		w.and("COALESCE(seen_at, created_at) < ?", f.SeenBefore.UnixMicro())
	}
	switch {
	case f.Unused && f.UnusedSince.IsZero():
		w.and("COALESCE(called_at, 0) = ?", 0)
	case f.Unused:
		w.and("COALESCE(called_at, created_at) < ?", f.UnusedSince.UnixMicro())
	}
	agents, err := query(ctx, db, scanAgent, selectAgents+w.String()+` ORDER BY name LIMIT ?`, append(w.args, page(f.Limit))...)
	return agents, db.fault("store.quiet_agents", "", err)
}
