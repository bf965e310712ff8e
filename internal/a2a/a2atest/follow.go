package a2atest

import (
	"context"
	"io"
	"sync"

	"github.com/parley-mesh/parley/internal/a2a"
)

// follower is one stream of a task: its state when the stream began, then every
// event after that, without a gap. It holds a place in the task's log and nothing
// else, so one who does not read costs nothing and is cut when the log has moved
// on.
type follower struct {
	agent    *Agent
	task     *task
	snapshot a2a.Frame
	place    int  // number of the next event
	begun    bool // the snapshot was given
	pausing  bool // the stream ends when input is required, too
	over     bool
	once     sync.Once
	closed   chan struct{}
}

// follow opens a stream of a task. a.mu is held, so nothing happens between
// snapshot and place.
func (a *Agent) follow(t *task, history int, pausing bool) *follower {
	return &follower{agent: a, task: t, place: t.next(), pausing: pausing, closed: make(chan struct{}),
		snapshot: a2a.StreamFrame(a2a.StreamResponse{Task: t.snapshot(history, true)})}
}

// Next implements a2a.Stream.
func (f *follower) Next(ctx context.Context) (a2a.Frame, error) {
	if !f.begun {
		f.begun = true
		return f.snapshot, nil
	}
	if f.over {
		return a2a.Frame{}, io.EOF
	}
	for {
		f.agent.mu.Lock()
		frame, ok, err := f.task.event(f.place)
		changed := f.task.changed
		f.agent.mu.Unlock()
		switch {
		case err != nil:
			f.over = true
			return a2a.Frame{Err: a2a.NewError(a2a.ReasonUnavailable, "this stream was read too slowly; subscribe again")}, nil
		case ok:
			f.place++
			f.over = frame.Err != nil || frame.Facts.State.Terminal() || f.pausing && frame.Facts.State == a2a.StateInputRequired
			return frame, nil
		}
		select {
		case <-changed:
		case <-f.closed:
			return a2a.Frame{}, io.ErrClosedPipe
		case <-ctx.Done():
			return a2a.Frame{}, ctx.Err()
		}
	}
}

// Close implements a2a.Stream.
func (f *follower) Close() error {
	f.once.Do(func() { close(f.closed) })
	return nil
}

// subscribe follows a task that has not ended, through interrupted states too.
func (a *Agent) subscribe(owner string, q *a2a.Request) *a2a.Reply {
	a.mu.Lock()
	defer a.mu.Unlock()
	t, err := a.find(owner, q.Facts.TaskID)
	switch {
	case err != nil:
		return a2a.Fail(err)
	case t.status.State.Terminal():
		return a2a.Fail(ended(t))
	}
	return &a2a.Reply{Stream: a.follow(t, -1, false)}
}

func ended(t *task) *a2a.Error {
	return a2a.UnsupportedOperation("the task has ended as %s; begin a new one in the same context", t.status.State).With("taskId", t.id)
}
