package gateway

import (
	"context"
	"errors"
	"slices"

	"github.com/parley-mesh/parley/internal/a2a"
	"github.com/parley-mesh/parley/internal/call"
	"github.com/parley-mesh/parley/internal/parley"
	"github.com/parley-mesh/parley/internal/registry"
)

// placing is where among an agent's addresses a call goes. The zero value is
// the agent's own and only address.
type placing struct {
	home   *registry.Target // the agent; nil where it has no instances
	pinned bool             // what the call is about lives at one instance
	moves  bool             // another one will do, as long as nothing was sent
	tried  []place          // could not be reached
}

// place chooses the address. What a call is about decides where it lives: a
// task, a context and what a message refers to stay with the instance that
// first had them. It fails closed: a call about something at an instance that
// cannot be called is refused, and goes to no other.
func (g *Gateway) place(c *Call) error {
	home := c.placing.home
	if home == nil {
		return nil
	}
	if c.placing.pinned {
		t := home.At(c.record.Instance)
		if t == nil { // removed since own looked
			return parley.E("gateway.place", parley.Unavailable, parley.Subject(c.record.Agent), "the instance of the agent where this lives was removed", nil)
		}
		c.target = t
		return t.Ready()
	}
	if !c.req.Method.Sends() {
		return nil // the mesh answers by itself
	}
	t := g.standings.choose(home, nil, g.Now())
	if t == nil {
		return home.Ready()
	}
	c.moveTo(t)
	c.placing.moves = c.sees.context == ""
	return nil
}

// moveTo makes t the address that the call goes to.
func (c *Call) moveTo(t *registry.Target) {
	c.target, c.record.Instance, c.record.AgentBinding = t, t.Place(), t.Binding
}

// sendPlaced sends to the chosen address, and where that cannot be reached and
// another one will do, to the next. Once a byte was written there is no next.
func (g *Gateway) sendPlaced(ctx context.Context, c *Call) (*a2a.Reply, error) {
	if c.placing.home == nil {
		return g.send(ctx, c)
	}
	for {
		at := placeOf(c.target)
		reply, err := g.sendAt(ctx, c, at)
		if err == nil || !unreached(err) || !c.placing.moves || ctx.Err() != nil {
			return reply, err
		}
		c.placing.tried = append(c.placing.tried, at)
		next := g.standings.choose(c.placing.home, c.placing.tried, g.Now())
		if next == nil {
			return nil, err
		}
		g.Log.Warn("instance not reached, the next is tried", "agent", at.agent, "instance", at.instance, "call", c.record.ID, "err", err)
		g.standings.leave(at)
		c.moveTo(next)
		g.standings.enter(placeOf(next))
		c.record.Moved = c.begun
	}
}

// sendAt sends to one address and notes what that says of it.
func (g *Gateway) sendAt(ctx context.Context, c *Call, at place) (*a2a.Reply, error) {
	reply, err := g.send(ctx, c)
	switch {
	case err != nil && (ctx.Err() != nil || errors.Is(err, errNoToken)): // says nothing of the instance
	case err != nil:
		g.standings.failed(at, unreached(err), g.Now())
	case reply.Err != nil && reply.Err.HTTP >= 500:
		g.standings.failed(at, false, g.Now())
	default:
		g.standings.well(at, g.Now())
	}
	return reply, err
}

// unreached reports whether there was no connection, so that nothing was sent.
func unreached(err error) bool {
	failure, ok := errors.AsType[*a2a.TransportError](err)
	return ok && failure.Stage == a2a.StageDial && !failure.Wrote
}

// instances are the places at which something of the agent's may live.
func (c *Call) instances() []string {
	if c.placing.home == nil {
		return []string{""}
	}
	var all []string
	for _, t := range c.placing.home.All() {
		all = append(all, t.Place())
	}
	return all
}

// pin notes that what the call is about lives at an instance. It reports
// whether that agrees with what was pinned before.
func (c *Call) pin(instance string) bool {
	if c.placing.pinned {
		return c.record.Instance == instance
	}
	c.record.Instance, c.placing.pinned = instance, true
	return true
}

// pinContext pins the call to the instance where the caller has the context;
// errForeign where only others have it.
func (g *Gateway) pinContext(ctx context.Context, c *Call, id string) error {
	if id == "" || c.placing.home == nil || c.placing.pinned {
		return nil
	}
	foreign := false
	for _, instance := range c.instances() {
		owner, err := g.Journal.ContextOwner(ctx, c.record.Agent, instance, id)
		switch {
		case err == nil && owner == c.record.Caller:
			c.pin(instance)
			return nil
		case err == nil:
			foreign = true
		case parley.KindOf(err) != parley.NotFound:
			return err
		}
	}
	if foreign {
		return errForeign
	}
	return nil
}

// removedInstance reports whether the task's instance is gone, or another one
// than when the call began.
func removedInstance(home *registry.Target, key call.TaskKey, r *call.Record) bool {
	t := home.At(key.Instance)
	return t == nil || t.Instance != nil && t.Instance.CreatedAt.After(r.Begun)
}

// Standings tells how an agent's addresses stand, its own first.
func (g *Gateway) Standings(ctx context.Context, agent parley.AgentName) ([]registry.Standing, error) {
	home, err := g.Agents.Lookup(ctx, agent)
	if err != nil {
		return nil, err
	}
	now := g.Now()
	s := g.standings
	s.mu.Lock()
	defer s.mu.Unlock()
	var all []registry.Standing
	for _, t := range home.All() {
		one := s.of[placeOf(t)]
		if one == nil {
			one = &standing{}
		}
		all = append(all, registry.Standing{Instance: t.Place(), Open: one.open, Healthy: t.TakesNew() && one.healthy(t, now)})
	}
	return slices.Clip(all), nil
}

// ForgetInstance drops what is known of an instance that was removed.
func (g *Gateway) ForgetInstance(agent parley.AgentName, instance string) {
	g.standings.forget(agent, instance, false)
}

// ForgetAgent drops what is known of an agent that was removed.
func (g *Gateway) ForgetAgent(agent parley.AgentName) {
	g.standings.forget(agent, "", true)
	g.extended.forget(agent)
}
