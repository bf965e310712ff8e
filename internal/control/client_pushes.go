package control

import (
	"context"
	"net/http"
)

// Pushes lists who is told of tasks' events, in the order of their ids.
func (c *Client) Pushes(ctx context.Context, f PushFilter, l List) (out Page[Push], err error) {
	q := l.values()
	setText(q, "owner", f.Owner)
	setText(q, "agent", f.Agent)
	setText(q, "task", f.Task)
	err = c.do(ctx, request{op: "control.pushes", method: http.MethodGet, path: "/pushes", query: q}, &out)
	return out, err
}

// RetryPush has the next attempt of a subscription made at once.
func (c *Client) RetryPush(ctx context.Context, id string) (out Push, err error) {
	err = c.do(ctx, request{op: "control.retryPush", method: http.MethodPost, path: "/pushes/" + segment(id) + "/retry"}, &out)
	return out, err
}

// DeadLetters lists events that could not be delivered, newest first.
func (c *Client) DeadLetters(ctx context.Context, f LetterFilter, l List) (out Page[DeadLetter], err error) {
	q := l.values()
	setText(q, "owner", f.Owner)
	setText(q, "agent", f.Agent)
	setText(q, "push", f.Push)
	err = c.do(ctx, request{op: "control.deadLetters", method: http.MethodGet, path: "/dead-letters", query: q}, &out)
	return out, err
}

// RetryDeadLetter tries once more to deliver an event; the answer is what it was.
// An error of kind parley.AgentFailed says why the receiver did not take it.
func (c *Client) RetryDeadLetter(ctx context.Context, id string) (out DeadLetter, err error) {
	err = c.do(ctx, request{op: "control.retryDeadLetter", method: http.MethodPost, path: "/dead-letters/" + segment(id) + "/retry"}, &out)
	return out, err
}
