package gateway

import (
	"context"

	"go.opentelemetry.io/otel/codes"

	"github.com/parley-mesh/parley/internal/a2a"
	"github.com/parley-mesh/parley/internal/call"
	"github.com/parley-mesh/parley/internal/parley"
	"github.com/parley-mesh/parley/internal/telemetry"
)

// end is the way out of every call. A stream's record ends with the stream;
// everything else is settled here, before the caller is answered.
func (g *Gateway) end(ctx context.Context, c *Call, reply *a2a.Reply) *a2a.Reply {
	if reply == nil { // a panic is on its way through
		c.ends(parley.OutcomeUnknown, parley.Internal.String(), "the mesh failed while it handled the call")
		reply = a2a.Fail(protocolError(parley.Internal, "internal error; the operator's log says more"))
	}
	if reply.Stream != nil {
		g.Calls.Stream(ctx, 1)
		return reply
	}
	if c.caller == nil || c.limited {
		return reply // nobody was identified, or they ask too often: counted and summarised, not recorded one by one
	}
	g.measure(c, reply)
	// A task that the caller learns of must be the caller's, durably, before.
	if c.begun {
		c.free = c.unsent(reply)
	}
	err := g.write(ctx, c, c.newTask() || g.Mates != nil && c.sees.fresh)
	if err == nil && reply.Err == nil && reply.Facts.Kind != a2a.KindMessage {
		err = g.subscribeInline(ctx, c)
	}
	switch {
	case err != nil && reply.Err != nil && !c.newTask(): // nothing that could be hidden
		g.Log.Error("call not settled", "call", c.record.ID, "agent", c.record.Agent, "err", err)
	case err != nil:
		reply = g.unbound(ctx, c, err)
		g.measure(c, reply)
		if err := g.write(ctx, c, false); err != nil {
			g.Log.Error("call not settled", "call", c.record.ID, "agent", c.record.Agent, "err", err)
		}
	}
	g.close(ctx, c)
	return reply
}

// measure notes what is sent to the caller and when.
func (g *Gateway) measure(c *Call, reply *a2a.Reply) {
	c.record.BytesOut = int64(max(len(reply.Raw), len(reply.Result)))
	c.record.Status = reply.Status
	c.record.FirstByte = g.Now().Sub(c.arrived)
}

// newTask reports whether the call showed a task that the store does not know.
func (c *Call) newTask() bool {
	return !c.sees.owned && c.sees.key != (call.TaskKey{}) && c.sees.state != ""
}

// waits reports whether the call's task goes on after its exchange.
func (c *Call) waits() bool { return c.begun && c.record.Outcome == parley.OutcomeOpen }

// write settles the call in the store. Without wait it joins the next batch,
// and an error is the store's to log.
func (g *Gateway) write(ctx context.Context, c *Call, wait bool) error {
	ctx = context.WithoutCancel(ctx)
	if wait {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, storeTimeout)
		defer cancel()
	}
	now := g.Now()
	if !c.waits() {
		c.record.Ended, c.record.Total = now, now.Sub(c.arrived)
	}
	row := c.record
	s := call.Settlement{Record: &row, Insert: !c.begun, Refusal: !c.begun && !c.read, Unsent: c.free}
	if c.sees.changed {
		s.Task, s.Context = c.indexed(now), c.sees.context
	}
	if c.news {
		event, err := tellAsked(&row, !forbidden(c.target.Agent, c.sees.state))
		if err != nil {
			return err
		}
		s.Events = append(s.Events, event)
	}
	if c.begun { // a message in a context is a use of it, although nothing about it is new
		s.Context = c.sees.context
	}
	return g.Journal.Settle(ctx, s, wait)
}

// close ends the process's own view of a settled call. A call whose task is
// not final stays open and is watched; a task that is final ends all calls
// that wait for it.
func (g *Gateway) close(ctx context.Context, c *Call) {
	waits := c.waits()
	g.open.stop(&c.record, c.sees.key)
	if waits {
		g.watch.add(c.sees.key, c.record.Deadline)
	}
	if c.sees.key != (call.TaskKey{}) && call.Final(c.sees.state) {
		if c.sees.owned {
			g.finish(ctx, c.sees.key, c.sees.state)
		} else { // this call has shown it first: nobody else waits for it
			g.finishHere(ctx, c.sees.key, c.sees.state)
		}
	}
	if c.sees.changed && c.sees.key != (call.TaskKey{}) {
		g.nudge(ctx, c.sees.key)
	}
	if !waits {
		g.count(ctx, c)
	}
	if c.span != nil {
		c.endSpan()
	}
}

// count shows the ended call to metrics.
func (g *Gateway) count(ctx context.Context, c *Call) {
	r := &c.record
	agent := r.Agent
	if c.target == nil {
		agent = "" // a name that nobody has is no label: there is no end to them
	}
	g.Calls.Ended(ctx, agent, r.Instance, r.Method, r.Outcome, r.Total, r.FirstByte)
}

// endSpan ends the span of the exchange with the agent. That of a call whose
// task goes on ends now too, without an outcome: a span is no place to wait a
// day in.
func (c *Call) endSpan() {
	r := &c.record
	if c.span.IsRecording() {
		c.span.SetAttributes(
			telemetry.Outcome.String(string(r.Outcome)),
			telemetry.A2ATask.String(r.TaskID),
			telemetry.A2ATaskState.String(r.TaskState),
			telemetry.Conversation.String(r.ContextID),
			telemetry.AgentBinding.String(r.AgentBinding),
		)
		if r.Outcome != parley.OutcomeOK && r.Outcome != parley.OutcomeOpen {
			c.span.SetAttributes(telemetry.ErrorType.String(string(r.Outcome)), telemetry.Reason.String(r.Reason))
			c.span.SetStatus(codes.Error, r.Reason)
		}
	}
	c.span.End()
}

// finish ends all calls that waited for a task which is final now, here and at
// other replicas.
func (g *Gateway) finish(ctx context.Context, key call.TaskKey, state string) {
	g.finishHere(ctx, key, state)
	if g.Mates == nil {
		return
	}
	if err := g.Mates.LookElsewhere(key); err != nil {
		g.Log.Warn("other replicas are not told of a final task; they see it at their next look", "agent", key.Agent, "err", err)
	}
}

func (g *Gateway) finishHere(ctx context.Context, key call.TaskKey, state string) {
	for _, r := range g.open.take(key) {
		g.endWaiting(ctx, r, parley.Judge(parley.Shape(state)).Outcome, "", "", state)
	}
	if h := g.hubs.get(key); h != nil {
		h.over()
	}
}

// endWaiting settles a call whose exchange was over before.
func (g *Gateway) endWaiting(ctx context.Context, r *call.Record, o parley.Outcome, reason, detail, state string) {
	now := g.Now()
	r.Outcome, r.Reason, r.Detail = o, reason, detail
	r.Ended, r.Total = now, now.Sub(r.Begun)
	if state != "" {
		r.TaskState = state
	}
	if err := g.Journal.Settle(ctx, call.Settlement{Record: r}, false); err != nil {
		g.Log.Error("call not settled", "call", r.ID, "agent", r.Agent, "err", err)
	}
	g.Calls.Ended(ctx, r.Agent, r.Instance, r.Method, o, r.Total, r.FirstByte)
}
