package app

import (
	"context"

	"github.com/parley-mesh/parley/internal/a2a"
	"github.com/parley-mesh/parley/internal/a2a/v03"
	"github.com/parley-mesh/parley/internal/jsonwire"
	"github.com/parley-mesh/parley/internal/parley"
	"github.com/parley-mesh/parley/internal/push"
)

// oldPush writes an event as 0.3 posts it: the whole task as it stands then, bare.
// What is no news of the task's status is left out, since a task that is sent
// whole has it the next time.
func (a *App) oldPush(ctx context.Context, s *push.Subscription, e push.Event) ([]byte, error) {
	limits := jsonwire.Limits{MaxBytes: int64(a.cfg.Limits.ResponseBody), MaxDepth: a.cfg.Limits.JSONDepth}
	var event a2a.StreamResponse
	if err := jsonwire.Unmarshal(e.Frame, &event, limits); err != nil {
		return nil, err
	}
	task := event.Task
	if update := event.StatusUpdate; update != nil {
		task = &a2a.Task{ID: update.TaskID, ContextID: update.ContextID}
		known, err := a.store.Task(ctx, s.Task)
		switch {
		case parley.KindOf(err) == parley.NotFound: // it was removed, and its subscription with it
		case err != nil:
			return nil, err
		case known.Snapshot != nil:
			if err := jsonwire.Unmarshal(known.Snapshot, task, limits); err != nil {
				return nil, err
			}
		}
		task.Status = update.Status
	}
	if task == nil {
		return nil, nil
	}
	raw, err := jsonwire.Marshal(a2a.StreamResponse{Task: task})
	if err != nil {
		return nil, err
	}
	return v03.EventFromV1(v03.RPC, raw, limits)
}
