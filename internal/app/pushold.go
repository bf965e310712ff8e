package app

import (
	"context"

	"github.com/parley-mesh/parley/internal/a2a"
	"github.com/parley-mesh/parley/internal/a2a/v03"
	"github.com/parley-mesh/parley/internal/call"
	"github.com/parley-mesh/parley/internal/jsonwire"
	"github.com/parley-mesh/parley/internal/parley"
	"github.com/parley-mesh/parley/internal/push"
	"github.com/parley-mesh/parley/internal/stream"
)

// oldPush writes an event as 0.3 posts it: the whole task as it stands then, bare.
// What is no news of the task's status is left out, since a task that is sent
// whole has it the next time.
func (a *App) oldPush(ctx context.Context, s *push.Subscription, e push.Event) ([]byte, error) {
	limits := a.pushLimits()
	var event a2a.StreamResponse
	if err := jsonwire.Unmarshal(e.Frame, &event, limits); err != nil {
		return nil, err
	}
	raw := e.Frame
	switch update := event.StatusUpdate; {
	case event.Task != nil:
	case update == nil:
		return nil, nil
	default:
		var err error
		if raw, err = a.taskAt(ctx, s.Task, e.Seq); err != nil {
			return nil, err
		}
		if raw == nil {
			if raw, err = a.taskOfIndex(ctx, s.Task, update); err != nil {
				return nil, err
			}
		}
	}
	return v03.EventFromV1(v03.RPC, raw, limits)
}

// foldBatch is how many events are read at once.
const foldBatch = 256

// taskAt gives a task as its journal tells it up to an event, as a StreamResponse;
// nil where the journal does not have it whole any more.
func (a *App) taskAt(ctx context.Context, key call.TaskKey, seq int64) ([]byte, error) {
	var whole stream.Snapshot
	for at := int64(0); at < seq; {
		events, err := a.store.After(ctx, key, at, foldBatch)
		if err != nil {
			return nil, err
		}
		if len(events) == 0 || events[0].Seq != at+1 && at > 0 {
			return nil, nil // removed meanwhile
		}
		for _, e := range events {
			if e.Seq > seq {
				break
			}
			if err := whole.Add(e); err != nil {
				return nil, err
			}
		}
		at = events[len(events)-1].Seq
	}
	if !whole.Known() {
		return nil, nil
	}
	return whole.Frame(nil)
}

// taskOfIndex gives a task as it was last looked at, with a newer status.
func (a *App) taskOfIndex(ctx context.Context, key call.TaskKey, update *a2a.TaskStatusUpdateEvent) ([]byte, error) {
	task := &a2a.Task{ID: update.TaskID, ContextID: update.ContextID}
	known, err := a.store.Task(ctx, key)
	switch {
	case parley.KindOf(err) == parley.NotFound: // it was removed, and its subscription with it
	case err != nil:
		return nil, err
	case known.Snapshot != nil:
		if err := jsonwire.Unmarshal(known.Snapshot, task, a.pushLimits()); err != nil {
			return nil, err
		}
	}
	task.Status = update.Status
	return jsonwire.Marshal(a2a.StreamResponse{Task: task})
}

func (a *App) pushLimits() jsonwire.Limits {
	return jsonwire.Limits{MaxBytes: int64(a.cfg.Limits.ResponseBody), MaxDepth: a.cfg.Limits.JSONDepth}
}
