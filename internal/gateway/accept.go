package gateway

import (
	"bytes"
	"context"
	"errors"
	"net/http"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/parley-mesh/parley/internal/a2a"
	"github.com/parley-mesh/parley/internal/call"
	"github.com/parley-mesh/parley/internal/jsonwire"
	"github.com/parley-mesh/parley/internal/parley"
)

// accept checks the agent's answer before the caller sees it: ids that belong
// to somebody else are a crash and never re-owned.
func (g *Gateway) accept(ctx context.Context, c *Call, reply *a2a.Reply) *a2a.Reply {
	switch {
	case reply.Stream != nil:
		return reply // each frame is accepted as it passes
	case reply.Err != nil && (reply.Err.HTTP == http.StatusUnauthorized || reply.Err.HTTP == http.StatusForbidden) && c.record.Outcome == parley.OutcomeOpen:
		return g.refusedByAgent(c, reply.Err)
	case reply.Err != nil:
		if c.record.Outcome == parley.OutcomeOpen { // the agent said so
			c.ends(judgeError(reply.Err).Outcome, string(reply.Err.Reason), "the agent answered with an error")
		}
		return reply
	}
	facts := &reply.Facts
	if err := g.notice(ctx, c, facts); err != nil {
		return g.unbound(ctx, c, err)
	}
	if facts.Kind != a2a.KindMessage && facts.TaskID != "" {
		c.sees.snapshot = g.taskObject(reply.Result)
	}
	c.news = g.asked(c, reply.Result)
	if err := g.mayAsk(c); err != nil {
		return a2a.Fail(err)
	}
	c.ends(outcomeOf(c.req.Method, facts), "", "")
	g.lap(c, "accept")
	return reply
}

// refusedByAgent is the answer where the agent does not take the mesh's own
// credential. Its 401 is not passed on: it would tell the caller that the
// caller's credential is wrong.
func (g *Gateway) refusedByAgent(c *Call, e *a2a.Error) *a2a.Reply {
	c.ends(parley.JudgeHTTP(e.HTTP).Outcome, string(e.Reason), "the agent does not take the mesh's credential; set it with: parley agent auth "+string(c.record.Agent))
	g.Log.Warn("agent refused the mesh's credential", "agent", c.record.Agent, "call", c.record.ID, "err", e)
	return a2a.Fail(a2a.NewError(a2a.ReasonUnavailable, "the agent does not take the mesh's credential; its operator has to set it"))
}

// outcomeOf is how a call ends whose answer was received. Only calls that send
// a message stay open with their task; the others have done what they were for.
func outcomeOf(m a2a.Method, f *a2a.Facts) parley.Outcome {
	if !m.Sends() || f.Kind == a2a.KindMessage {
		return parley.OutcomeOK
	}
	return parley.Judge(parley.Shape(f.State)).Outcome
}

// bind makes a task that a stream shows for the first time the caller's,
// durably, before the caller is told its id: else a crash of the mesh would
// leave the caller with a task that nobody may see. Where there are other
// replicas, so is a context.
func (g *Gateway) bind(ctx context.Context, c *Call) error {
	shown := c.newTask()
	if !shown && (g.Mates == nil || !c.sees.fresh || !c.begun) {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), storeTimeout)
	defer cancel()
	row := c.record
	row.End = call.End{}
	s := call.Settlement{Record: &row, Insert: !c.begun, Task: c.indexed(g.Now()), Context: c.sees.context}
	if !c.begun {
		s.Record = nil
	}
	if err := g.Journal.Settle(ctx, s, true); err != nil {
		return err
	}
	c.sees.fresh = false
	if !shown {
		return nil
	}
	c.sees.owned, c.sees.changed = true, false
	if c.begun {
		g.open.follow(c.record.ID, c.sees.key)
	}
	return nil
}

// unbound is the answer where what the agent answered is not the caller's or
// could not be made so.
func (g *Gateway) unbound(ctx context.Context, c *Call, err error) *a2a.Reply {
	if errors.Is(err, errForeign) || parley.KindOf(err) == parley.Denied {
		return g.foreign(ctx, c)
	}
	c.record.Outcome, c.record.Reason = parley.OutcomeOpen, ""
	c.ends(parley.OutcomeUnknown, string(parley.ShapeStore), "the agent's answer could not be recorded")
	g.Log.Error("answer not recorded", "call", c.record.ID, "agent", c.record.Agent, "err", err)
	return a2a.Fail(protocolError(parley.Unavailable, "the agent answered, and the answer could not be recorded; the agent may have done the work"))
}

// foreign is the answer where the agent answered with somebody else's id, or
// with another task than the one the call is about. Nothing of it is shown or
// kept.
func (g *Gateway) foreign(ctx context.Context, c *Call) *a2a.Reply {
	c.sees = seen{}
	c.record.TaskID, c.record.TaskState = c.req.Facts.TaskID, ""
	c.record.Outcome = parley.OutcomeOpen
	return g.unanswered(ctx, c, errForeign)
}

// errForeign says that an answer was about something of somebody else's.
var errForeign = errors.New("the answer names a task or context of another principal")

// taskObject is a copy of the Task inside a result: as it stands there, or the
// result itself where the method answers with a bare task. One over the size
// limit is not kept.
func (g *Gateway) taskObject(result jsontext.Value) []byte {
	task, ok := jsonwire.Get(result, "/task")
	if !ok {
		task = result
	}
	if len(task) > g.limits().Snapshot {
		return nil
	}
	return bytes.Clone(task)
}
