package control

import (
	"context"
	"net/http"
	"net/url"

	"github.com/parley-mesh/parley/internal/parley"
)

// Calls lists calls, newest first.
func (c *Client) Calls(ctx context.Context, f CallFilter, l List) (out Page[Call], err error) {
	q := l.values()
	setText(q, "caller", f.Caller)
	setText(q, "owner", f.Owner)
	setText(q, "agent", f.Agent)
	setText(q, "method", f.Method)
	setText(q, "task", f.Task)
	setText(q, "reference", f.Reference)
	setText(q, "root", f.Root)
	setText(q, "outcome", f.Outcome)
	setTime(q, "since", f.Since)
	setTime(q, "until", f.Until)
	err = c.do(ctx, request{op: "control.calls", method: http.MethodGet, path: "/calls", query: q}, &out)
	return out, err
}

// Call gives one call.
func (c *Client) Call(ctx context.Context, id string) (out Call, err error) {
	err = c.do(ctx, request{op: "control.call", method: http.MethodGet, path: "/calls/" + segment(id)}, &out)
	return out, err
}

// CallTree gives the whole chain a call stands in.
func (c *Client) CallTree(ctx context.Context, id string) (out CallTree, err error) {
	err = c.do(ctx, request{op: "control.callTree", method: http.MethodGet, path: "/calls/" + segment(id) + "/tree"}, &out)
	return out, err
}

// CancelCall cancels an open call and gives its record.
func (c *Client) CancelCall(ctx context.Context, id string) (out Call, err error) {
	err = c.do(ctx, request{op: "control.cancelCall", method: http.MethodPost, path: "/calls/" + segment(id) + "/cancel"}, &out)
	return out, err
}

// Tasks lists tasks, newest status first.
func (c *Client) Tasks(ctx context.Context, f TaskFilter, l List) (out Page[Task], err error) {
	q := l.values()
	setText(q, "principal", f.Principal)
	setText(q, "agent", f.Agent)
	setText(q, "contextId", f.ContextID)
	setText(q, "state", f.State)
	setTime(q, "since", f.Since)
	err = c.do(ctx, request{op: "control.tasks", method: http.MethodGet, path: "/tasks", query: q}, &out)
	return out, err
}

// TaskRef names a task.
type TaskRef struct {
	Agent    parley.AgentName
	Instance string // empty for the agent's only one
	ID       string
}

// Task gives one task's index entry; with snapshot also its content.
func (c *Client) Task(ctx context.Context, t TaskRef, snapshot bool) (out Task, err error) {
	q := url.Values{}
	setText(q, "instance", t.Instance)
	if snapshot {
		q.Set("snapshot", "true")
	}
	err = c.do(ctx, request{op: "control.task", method: http.MethodGet, path: "/tasks/" + segment(t.Agent) + "/" + segment(t.ID), query: q}, &out)
	return out, err
}

// Status tells how the mesh is.
func (c *Client) Status(ctx context.Context) (out Status, err error) {
	err = c.do(ctx, request{op: "control.status", method: http.MethodGet, path: "/status"}, &out)
	return out, err
}
