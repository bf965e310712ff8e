package gateway

import (
	"context"
	"errors"

	"github.com/parley-mesh/parley/internal/a2a"
	"github.com/parley-mesh/parley/internal/call"
	"github.com/parley-mesh/parley/internal/parley"
)

// HeaderLastEventID carries the id of the last event that a subscriber has seen;
// in gRPC it is metadata.
const HeaderLastEventID = "Last-Event-Id"

// subscriber makes the caller's stream of a task's events.
func (g *Gateway) subscriber(c *Call, key call.TaskKey) *subscription {
	return &subscription{g: g, call: c, prefix: g.ids.Prefix(key)}
}

// subscribe answers SubscribeToTask where the mesh has the task's events: it
// follows the agent by one stream, however many callers do. ok is false where the
// agent has to be asked.
func (g *Gateway) subscribe(ctx context.Context, c *Call) (reply *a2a.Reply, ok bool) {
	if id := c.from.Header.Get(HeaderLastEventID); id != "" {
		seq, err := g.ids.Parse(c.sees.key, id)
		if err != nil {
			return g.refuse(c, a2a.InvalidParams(a2a.FieldViolation{Field: "Last-Event-ID", Description: parley.PublicMessage(err)})), true
		}
		c.after, c.resumes = seq, true
	}
	h, err := g.followed(ctx, c)
	if err != nil {
		return g.refuse(c, err), true
	}
	if h == nil {
		return nil, false
	}
	if !g.streams.take(c.record.Caller, g.limits()) {
		return g.refuse(c, tooManyStreams(c)), true
	}
	sub, err := g.attach(ctx, c, h)
	switch {
	case err != nil:
		g.streams.give(c.record.Caller)
		return g.refuse(c, err), true
	case sub == nil:
		g.streams.give(c.record.Caller)
		return nil, false
	}
	return &a2a.Reply{Stream: sub}, true
}

// followed gives the hub that has the task's events; nil where there is none and
// the agent has to be asked.
func (g *Gateway) followed(ctx context.Context, c *Call) (*hub, error) {
	key := c.sees.key
	h := g.hubs.get(key)
	if h != nil && !c.resumes {
		return h, nil
	}
	first, last, err := g.Streams.Bounds(ctx, key)
	if err != nil {
		return nil, err
	}
	if c.resumes && c.after > last {
		c.resumes, c.missed = false, true
	}
	if h != nil {
		return h, nil
	}
	if call.Final(c.sees.state) {
		if c.resumes && c.after < last && first <= last {
			return g.finished(c, last), nil
		}
		return nil, nil // the agent says that it is over
	}
	fed, err := g.Streams.FedElsewhere(ctx, key)
	if err != nil || !fed {
		return nil, err
	}
	task, err := g.Journal.Task(ctx, key)
	if err != nil {
		return nil, err
	}
	src, err := g.ownSource(ctx, task)
	if err != nil {
		return nil, err
	}
	src.follows.Store(true)
	if err := g.feed(ctx, key, src); err != nil {
		src.done()
		return nil, err
	}
	return g.hubs.get(key), nil
}

// finished is a hub of a task that is over: all there will be is in the journal.
func (g *Gateway) finished(c *Call, last int64) *hub {
	ready := make(chan struct{})
	close(ready)
	return &hub{
		g: g, key: c.sees.key, subs: map[*subscription]struct{}{},
		tail: &node{seq: last, ready: ready}, ended: &ending{sees: c.sees}, past: true,
	}
}

// attach makes the caller a subscriber of the hub: behind the event that it has
// seen last, or with the task as the journal tells it. It gives nil where the
// journal does not hold enough for that, or the hub has ended meanwhile.
func (g *Gateway) attach(ctx context.Context, c *Call, h *hub) (*subscription, error) {
	s := g.subscriber(c, h.key)
	s.h, s.seq = h, c.after
	if !c.resumes {
		frame, seq, ok, err := h.whole(ctx, func(seq int64) map[string]any {
			if c.missed {
				return gapAfter(c.after, seq+1)
			}
			return nil
		})
		if errors.Is(err, errAsks) {
			return nil, c.deniesAsking(h.key.ID)
		}
		if err != nil || !ok {
			return nil, err
		}
		s.head, s.seq = &a2a.Frame{Result: frame, ID: s.id(seq)}, seq
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.ended != nil && !h.past {
		return nil, nil
	}
	s.taken = h.tail.total
	h.add(s)
	return s, nil
}

// ownSource makes a source that has no stream yet, on the mesh's own account.
func (g *Gateway) ownSource(ctx context.Context, task *call.Task) (*source, error) {
	target, err := g.Agents.Lookup(ctx, task.Agent)
	if err != nil {
		return nil, err
	}
	c := &Call{target: target, req: &a2a.Request{Method: a2a.SubscribeToTask}, arrived: g.Now()}
	c.record.ID = parley.NewCallID()
	c.record.Agent, c.record.Instance, c.record.TaskID, c.record.ContextID = task.Agent, task.Instance, task.ID, task.ContextID
	c.record.Caller, c.record.CallerOwner, c.record.TaskState = task.Principal, task.Owner, task.State
	c.sees = seen{key: task.Key(), state: task.State, statusAt: task.StatusAt, owned: true, context: task.ContextID}
	c.turnOf = task.Call
	src := &source{id: c.record.ID, sees: c}
	g.account(src)
	return src, nil
}

// resume takes the stream of a task up again that was open when the process that
// had it died.
func (g *Gateway) resume(key call.TaskKey) {
	ctx, cancel := context.WithTimeout(context.Background(), storeTimeout)
	defer cancel()
	task, err := g.Journal.Task(ctx, key)
	if err != nil || task.Final {
		return // the watcher ends the calls
	}
	src, err := g.ownSource(ctx, task)
	if err == nil {
		if err = g.feed(ctx, key, src); err != nil {
			src.done()
		}
	}
	if err != nil {
		g.Log.Warn("a stream is not taken up again; its task is watched", "agent", key.Agent, "err", err)
	}
}
