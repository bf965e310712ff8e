package event

import (
	"context"
	"iter"
	"sync"
	"time"

	"github.com/parley-mesh/parley/internal/parley"
)

const (
	// MaxFollowers is how many readers may follow at once. Each reads the
	// table by itself, so their number is what following costs.
	MaxFollowers = 256
	// batch is how many events are read at once.
	batch = 256
	// gather is how long a reader that has caught up waits after news, so that
	// the commits of a busy moment are one read.
	gather = 10 * time.Millisecond
)

// Reader is the table of events.
type Reader interface {
	// Events gives the events behind the place after, in order.
	Events(ctx context.Context, after int64, limit int) ([]parley.Event, error)
}

// Hub tells followers that the feed has grown. The zero value works.
type Hub struct {
	mu        sync.Mutex
	followers map[*follower]struct{}
	seq       int64 // the newest place that was told
}

type follower struct {
	wake chan struct{} // holds one token: there may be more
}

// Notify tells that the feed has grown up to seq. It returns at once.
func (h *Hub) Notify(seq int64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.seq = max(h.seq, seq)
	for f := range h.followers {
		select {
		case f.wake <- struct{}{}:
		default: // it has not read the last news yet, and will read both
		}
	}
}

// Followers is how many readers follow.
func (h *Hub) Followers() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.followers)
}

// Follow gives all events behind the place after: what the table has, then
// what is committed, in order, none left out, none twice. It goes on until the
// loop ends, or yields one error and ends: ctx's own when it is done, the
// reader's, or parley.Exhausted where too many follow already. Going on later
// behind the last event is safe.
func (h *Hub) Follow(ctx context.Context, r Reader, after int64) iter.Seq2[parley.Event, error] {
	return func(yield func(parley.Event, error) bool) {
		f, err := h.join()
		if err != nil {
			yield(parley.Event{}, err)
			return
		}
		defer h.leave(f)
		for {
			events, err := r.Events(ctx, after, batch)
			if err != nil {
				yield(parley.Event{}, err)
				return
			}
			for _, e := range events {
				if !yield(e, nil) {
					return
				}
				after = e.Seq
			}
			if len(events) == batch {
				continue
			}
			if err := h.wait(ctx, f, after); err != nil {
				yield(parley.Event{}, err)
				return
			}
		}
	}
}

// wait returns when there may be events behind after.
func (h *Hub) wait(ctx context.Context, f *follower, after int64) error {
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-f.wake:
		}
		h.mu.Lock()
		news := h.seq > after
		h.mu.Unlock()
		if news {
			break
		}
	}
	timer := time.NewTimer(gather)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}

func (h *Hub) join() (*follower, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.followers) >= MaxFollowers {
		return nil, parley.E("event.follow", parley.Exhausted, "", "too many readers follow the events: try again later", nil)
	}
	if h.followers == nil {
		h.followers = map[*follower]struct{}{}
	}
	f := &follower{wake: make(chan struct{}, 1)}
	h.followers[f] = struct{}{}
	return f, nil
}

func (h *Hub) leave(f *follower) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.followers, f)
}
