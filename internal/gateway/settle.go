package gateway

import (
	"context"
	"time"

	"go.opentelemetry.io/otel/codes"

	"github.com/parley-mesh/parley/internal/a2a"
	"github.com/parley-mesh/parley/internal/call"
	"github.com/parley-mesh/parley/internal/parley"
	"github.com/parley-mesh/parley/internal/telemetry"
)

// end is the way out of every call. A stream's record ends with the stream;
// everything else is settled here.
func (g *Gateway) end(ctx context.Context, c *Call, reply *a2a.Reply) *a2a.Reply {
	if reply.Stream != nil {
		g.Calls.Stream(ctx, 1)
		return reply
	}
	c.record.BytesOut = int64(max(len(reply.Raw), len(reply.Result)))
	c.record.Status = reply.Status
	c.record.FirstByte = g.Now().Sub(c.arrived)
	g.settle(ctx, c)
	return reply
}

// settle writes what the call leaves behind, without waiting: what the caller
// must be able to rely on is durable already. A call whose task is not final
// stays open and is watched.
func (g *Gateway) settle(ctx context.Context, c *Call) {
	if c.caller == nil {
		return // nobody was identified: counted and summarised, not recorded one by one
	}
	now := g.Now()
	r := &c.record
	waits := c.begun && r.Outcome == parley.OutcomeOpen
	if !waits {
		r.Ended, r.Total = now, now.Sub(c.arrived)
	}
	row := *r
	s := call.Settlement{Record: &row, Insert: !c.begun}
	if c.sees.changed {
		s.Task, s.Context = c.indexed(now), c.sees.context
	}
	if err := g.Journal.Settle(ctx, s, false); err != nil {
		g.Log.Error("call not settled", "call", r.ID, "agent", r.Agent, "err", err)
	}
	if c.begun {
		g.open.stop(&row, c.sees.key)
		if waits {
			g.watch.add(c.sees.key)
		} else {
			g.Calls.Closed(ctx)
		}
	}
	if t := s.Task; t != nil && t.Final {
		g.finish(ctx, t)
	}
	if !waits {
		g.tell(ctx, c)
	}
}

// tell shows the ended call to metrics and trace.
func (g *Gateway) tell(ctx context.Context, c *Call) {
	r := &c.record
	g.Calls.Ended(ctx, r.Agent, r.Method, r.Outcome, r.Total, r.FirstByte)
	if c.span == nil {
		return
	}
	if c.span.IsRecording() {
		c.span.SetAttributes(
			telemetry.Outcome.String(string(r.Outcome)),
			telemetry.A2ATask.String(r.TaskID),
			telemetry.A2ATaskState.String(r.TaskState),
			telemetry.Conversation.String(r.ContextID),
			telemetry.AgentBinding.String(r.AgentBinding),
		)
		if r.Outcome != parley.OutcomeOK {
			c.span.SetAttributes(telemetry.ErrorType.String(string(r.Outcome)), telemetry.Reason.String(r.Reason))
			c.span.SetStatus(codes.Error, r.Reason)
		}
	}
	c.span.End()
}

// finish ends all calls that waited for a task which is final now.
func (g *Gateway) finish(ctx context.Context, t *call.Task) {
	for _, r := range g.open.take(t.Key()) {
		g.endWaiting(ctx, r, parley.Judge(parley.Shape(t.State)).Outcome, "", "", t.State)
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
	g.Calls.Closed(ctx)
	g.Calls.Ended(ctx, r.Agent, r.Method, o, r.Total, time.Duration(0))
}
