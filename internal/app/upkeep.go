package app

import (
	"context"
	"errors"
	"iter"
	"time"

	"github.com/parley-mesh/parley/internal/event"
	"github.com/parley-mesh/parley/internal/parley"
	"github.com/parley-mesh/parley/internal/store"
)

// Tasks that are not final are kept longer than others: their owner may still
// go on with them. One that nobody has heard of for so long is given up.
const (
	unfinishedTimes = 4
	unfinishedMin   = 30 * 24 * time.Hour
)

// unfinished is how long a task that is not final is kept after its last
// update.
func unfinished(tasks time.Duration) time.Duration {
	return max(unfinishedTimes*tasks, unfinishedMin)
}

// prune removes what is past its time, every retention.sweep, until ctx ends.
func (a *App) prune(ctx context.Context) error {
	ticker := time.NewTicker(a.cfg.Retention.Sweep)
	defer ticker.Stop()
	for {
		if !a.store.Holds(store.LeaseUpkeep) {
			select {
			case <-ctx.Done():
				return nil
			case <-ticker.C:
				continue
			}
		}
		now, r := a.opts.Now(), a.cfg.Retention
		gone, err := a.store.Prune(ctx, store.Cutoffs{
			Calls: now.Add(-r.Calls), Events: now.Add(-r.Events), Tasks: now.Add(-r.Tasks), Unfinished: now.Add(-unfinished(r.Tasks)),
			Journal:  now.Add(-r.Journal),
			Messages: now.Add(-r.Messages), Letters: now.Add(-r.DeadLetters),
		})
		switch {
		case ctx.Err() != nil:
			return nil
		case err != nil:
			a.log.Warn("old records not removed; the next sweep tries again", "err", err)
		case gone != store.Pruned{}:
			a.log.Info("old records removed", "calls", gone.Calls, "events", gone.Events, "tasks", gone.Tasks, "contexts", gone.Contexts, "messages", gone.Messages, "task_events", gone.Frames)
		}
		if _, err := a.store.EndRelays(ctx, now.Add(-a.cfg.Push.Keep)); err != nil && ctx.Err() == nil {
			a.log.Warn("push notification configs of final tasks not removed; the next sweep tries again", "err", err)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
	}
}

// feed is the mesh's events as the control API reads them.
type feed struct {
	hub *event.Hub
	*store.DB
	stopping <-chan struct{} // closed when the mesh begins to stop
}

// Follow gives events as the hub does, and ends without an error when the mesh
// stops: who follows would else keep it from stopping until its deadline.
func (f feed) Follow(ctx context.Context, after int64) iter.Seq2[parley.Event, error] {
	return func(yield func(parley.Event, error) bool) {
		ctx, cancel := context.WithCancelCause(ctx)
		defer cancel(nil)
		go func() { // ends with ctx
			select {
			case <-f.stopping:
				cancel(errStopping)
			case <-ctx.Done():
			}
		}()
		for e, err := range f.hub.Follow(ctx, f.DB, after) {
			if err != nil && errors.Is(context.Cause(ctx), errStopping) {
				return
			}
			if !yield(e, err) {
				return
			}
		}
	}
}

// errStopping is why a reader of events is left when the mesh stops.
var errStopping = errors.New("the mesh is stopping")
