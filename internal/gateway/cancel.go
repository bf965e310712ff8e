package gateway

import (
	"context"
	"errors"
	"fmt"

	"github.com/parley-mesh/parley/internal/a2a"
	"github.com/parley-mesh/parley/internal/call"
	"github.com/parley-mesh/parley/internal/parley"
)

// Cancel ends an open call: the agent is asked to cancel the call's task, and
// an exchange that has no task yet is broken off. What the agent makes of it
// shows in the record. A call that another replica has is canceled there.
// Errors: parley.NotFound where no such call is open, parley.AgentFailed where
// the agent does not cancel.
func (g *Gateway) Cancel(ctx context.Context, id parley.CallID) error {
	err := g.CancelHere(ctx, id)
	if g.Mates == nil || parley.KindOf(err) != parley.NotFound {
		return err
	}
	ctx, stop := context.WithTimeout(ctx, g.watch.opts.Timeout+storeTimeout)
	defer stop()
	return g.Mates.CancelElsewhere(ctx, id)
}

// CancelHere is Cancel for the calls that this process has.
func (g *Gateway) CancelHere(ctx context.Context, id parley.CallID) error {
	key, cancel := g.open.find(id)
	switch {
	case key != (call.TaskKey{}):
		return g.cancelTask(ctx, key)
	case cancel != nil:
		cancel(errCanceled)
		return nil
	}
	return parley.E("gateway.cancel", parley.NotFound, parley.Subject(id.String()), fmt.Sprintf("call %s is not open", id), nil)
}

// Look takes up what the index says of a task, which another replica has seen:
// where it is final, the calls of this process that waited for it end.
func (g *Gateway) Look(ctx context.Context, key call.TaskKey) {
	task, err := g.Journal.Task(ctx, key)
	if err != nil {
		g.Log.Warn("a task that another replica has seen is not found", "agent", key.Agent, "err", err)
		return
	}
	if task.Final {
		g.finishHere(ctx, key, task.State)
	}
}

// cancelTask asks the agent to cancel, and takes its answer as news of the
// task.
func (g *Gateway) cancelTask(ctx context.Context, key call.TaskKey) error {
	ctx, stop := context.WithTimeout(ctx, g.watch.opts.Timeout)
	defer stop()
	_, err := g.ask(ctx, key, a2a.CancelTask, a2a.CancelTaskRequest{ID: key.ID})
	if e, ok := errors.AsType[*a2a.Error](err); ok && e.Reason == a2a.ReasonTaskNotCancelable {
		err = nil // it is final already: the look below ends the call
	}
	if err != nil {
		return parley.E("gateway.cancel", parley.AgentFailed, parley.Subject(key.Agent), fmt.Sprintf("agent %s did not cancel the task", key.Agent), err)
	}
	if _, err := g.peek(ctx, key); err != nil {
		g.Log.Warn("canceled task not seen", "agent", key.Agent, "err", err)
	}
	return nil
}
