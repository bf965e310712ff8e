package gateway

import (
	"context"

	"github.com/parley-mesh/parley/internal/a2a"
	"github.com/parley-mesh/parley/internal/call"
)

// answer gives the mesh's own answers: to what depends on who asks, and to
// what the mesh does not pass on. ok is false where the agent has to answer.
func (g *Gateway) answer(ctx context.Context, c *Call) (reply *a2a.Reply, ok bool) {
	switch m := c.req.Method; {
	case m == a2a.ListTasks:
		reply = g.listTasks(ctx, c)
	case m.Streaming() && c.declares && !c.declared.streams:
		reply = g.refuse(c, a2a.UnsupportedOperation("this agent does not stream: its card does not declare it; use SendMessage and GetTask"))
	case m == a2a.SubscribeToTask && c.req.Version == a2a.V03 && call.Final(c.sees.state) && !c.resumes:
		reply = g.lastWord(ctx, c)
	case m == a2a.SubscribeToTask:
		if reply, ok = g.subscribe(ctx, c); !ok || reply.Stream != nil {
			return reply, ok
		}
	case m.Push():
		reply = g.answerPush(ctx, c)
	case m == a2a.GetExtendedCard:
		reply = g.extendedCard(ctx, c)
	case m.Sends() && c.req.Facts.InlinePush:
		err := g.takeInlinePush(ctx, c)
		if err == nil {
			return nil, false // the rest of the message is the agent's
		}
		reply = g.refuse(c, err)
	default:
		return nil, false
	}
	if reply.Err == nil {
		c.ends(outcomeOf(c.req.Method, &reply.Facts), "", "")
	}
	g.lap(c, "answer")
	return reply, true
}

// lastWord answers a caller of 0.3 who resubscribes to a task that has ended: with
// the task, once, and the end of the stream, where 1.0 has an error.
func (g *Gateway) lastWord(ctx context.Context, c *Call) *a2a.Reply {
	task, err := g.Journal.Task(ctx, c.sees.key)
	if err == nil && task.Snapshot == nil {
		task, err = g.peek(ctx, c.sees.key)
	}
	if err != nil {
		return g.refuse(c, err)
	}
	raw, err := listed(task, a2a.ListTasksRequest{IncludeArtifacts: new(true)})
	if err != nil {
		return g.refuse(c, err)
	}
	frame := append(append([]byte(`{"task":`), raw...), '}')
	facts, err := a2a.CheckResult(a2a.SubscribeToTask, frame, g.Server.Limits)
	if err != nil {
		return g.refuse(c, err)
	}
	return &a2a.Reply{Stream: &oneFrame{g: g, call: c, frame: a2a.Frame{Result: frame, Facts: &facts}}}
}
