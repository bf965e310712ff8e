package gateway

import (
	"context"
	"net/http"
	"sync"
	"time"

	"github.com/parley-mesh/parley/internal/a2a"
	"github.com/parley-mesh/parley/internal/jsonwire"
	"github.com/parley-mesh/parley/internal/parley"
	"github.com/parley-mesh/parley/internal/registry"
)

// How an agent's extended card is kept.
const (
	// extendedAge is how long it is shown before the agent is asked again.
	extendedAge = 5 * time.Minute
	// maxExtendedBytes bounds all that are kept, in bytes.
	maxExtendedBytes = 32 << 20
)

// extendedCards keeps the extended cards of agents as callers are shown them.
// An agent sees one client, the mesh, so that it has one extended card for all
// who may call it.
type extendedCards struct {
	mu    sync.Mutex
	by    map[parley.AgentName]extended // guarded by mu
	bytes int                           // guarded by mu; of all in by
}

type extended struct {
	rewritten
	until time.Time // shown without asking again
}

// find gives what is kept of this version of the agent, however old.
func (e *extendedCards) find(agent *registry.Agent) (extended, bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	kept, ok := e.by[agent.Name]
	return kept, ok && kept.of(agent)
}

func (e *extendedCards) keep(name parley.AgentName, card extended) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.bytes += len(card.raw) - len(e.by[name].raw)
	if e.bytes > maxExtendedBytes {
		clear(e.by)
		e.bytes = len(card.raw)
	}
	e.by[name] = card
}

func (e *extendedCards) forget(name parley.AgentName) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.bytes -= len(e.by[name].raw)
	delete(e.by, name)
}

// extendedCard answers GetExtendedAgentCard: the agent's own, which the mesh
// asks for with its credential and shows as it shows the public one. Only who
// may call the agent comes here, and only with a credential (A2A 1.0, sections
// 3.1.11 and 13.3).
func (g *Gateway) extendedCard(ctx context.Context, c *Call) *a2a.Reply {
	if c.anonymous() {
		if _, err := g.Identity.Identify(ctx, c.from.credential()); err != nil {
			return g.refuse(c, err)
		}
	}
	if !c.declared.extended {
		return g.refuse(c, a2a.UnsupportedOperation("the card of this agent has no extended form: it does not declare extendedAgentCard"))
	}
	card, ok := g.extended.find(c.target.Agent)
	if !ok || !g.Now().Before(card.until) {
		fresh, failure := g.fetchExtended(ctx, c)
		if failure != nil {
			return failure
		}
		card = fresh
	}
	return &a2a.Reply{Result: card.raw}
}

// fetchExtended asks the agent. What it knows of itself there counts from then
// on, until its public card changes.
func (g *Gateway) fetchExtended(ctx context.Context, c *Call) (card extended, failure *a2a.Reply) {
	target, agent := c.target, c.target.Agent
	if target.Ready() != nil && c.placing.home != nil {
		if other := g.standings.choose(c.placing.home, nil, g.Now()); other != nil {
			target = other
		}
	}
	if err := target.Ready(); err != nil {
		return card, g.refuse(c, err)
	}
	ctx, cancel := context.WithTimeoutCause(ctx, g.limits().Unary, errDeadline)
	defer cancel()
	reply, err := g.askAt(ctx, target, a2a.GetExtendedCard, a2a.GetExtendedCardRequest{})
	switch {
	case err != nil:
		return card, g.unanswered(ctx, c, err)
	case reply.Err != nil:
		reply.Raw = nil // of another request than the caller's
		return card, g.accept(ctx, c, reply)
	}
	raw, err := g.served(agent, reply.Result)
	if err != nil {
		g.Log.Warn("an agent's extended card cannot be shown", "agent", agent.Name, "call", c.record.ID, "err", err)
		c.ends(parley.Judge(parley.ShapeNonsense).Outcome, string(parley.ShapeNonsense), "the agent's extended card cannot be shown; the log says why")
		return card, a2a.Fail(protocolError(parley.AgentFailed, "the agent's extended card cannot be shown; its operator can see why"))
	}
	card = extended{
		rewritten: rewritten{version: agent.Version, created: agent.CreatedAt, raw: raw, declared: declaredIn(raw)},
		until:     g.Now().Add(extendedAge),
	}
	card.declared.extended = true // whatever it says of itself
	g.extended.keep(agent.Name, card)
	return card, nil
}

// askAt sends a request of the mesh's own to one address of an agent. Its error
// says why there was no answer.
func (g *Gateway) askAt(ctx context.Context, t *registry.Target, m a2a.Method, params any) (*a2a.Reply, error) {
	raw, err := jsonwire.Marshal(params)
	if err != nil {
		return nil, err
	}
	shown, err := g.shown(ctx, t)
	if err != nil {
		return nil, err
	}
	says, _ := g.declaredBy(t.Agent) // what it demands of callers it demands of the mesh
	q := &a2a.Request{Method: m, Params: raw, Version: a2a.V10, Extensions: says.required}
	return g.exchange(ctx, t, shown, q, http.Header{})
}
