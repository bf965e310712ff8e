package gateway

import (
	"context"

	"github.com/parley-mesh/parley/internal/a2a"
)

// answer gives the mesh's own answers: to what depends on who asks, and to
// what the mesh does not pass on. ok is false where the agent has to answer.
func (g *Gateway) answer(ctx context.Context, c *Call) (reply *a2a.Reply, ok bool) {
	switch m := c.req.Method; {
	case m == a2a.ListTasks:
		reply = g.listTasks(ctx, c)
	case m.Streaming() && !g.streamsFrom(c.target.Agent):
		reply = g.refuse(c, a2a.UnsupportedOperation("this agent does not stream: its card does not declare it; use SendMessage and GetTask"))
	case m == a2a.SubscribeToTask:
		if reply, ok = g.subscribe(ctx, c); !ok || reply.Stream != nil {
			return reply, ok
		}
	case m.Push(), m.Sends() && c.req.Facts.InlinePush:
		reply = g.refuse(c, a2a.NewError(a2a.ReasonPushNotSupported, "push notifications are not relayed by this mesh: subscribe to the task instead"))
	case m == a2a.GetExtendedCard:
		reply = g.refuse(c, a2a.UnsupportedOperation("the card of this agent has no extended form here"))
	default:
		return nil, false
	}
	if reply.Err == nil {
		c.ends(outcomeOf(c.req.Method, &reply.Facts), "", "")
	}
	g.lap(c, "answer")
	return reply, true
}
