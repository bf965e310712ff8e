package event_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/parley-mesh/parley/internal/event"
	"github.com/parley-mesh/parley/internal/parley"
)

// table is a feed in memory.
type table struct {
	mu     sync.Mutex
	events []parley.Event
}

func (t *table) add(h *event.Hub, seqs ...int64) {
	t.mu.Lock()
	for _, s := range seqs {
		t.events = append(t.events, parley.Event{Seq: s})
	}
	t.mu.Unlock()
	h.Notify(seqs[len(seqs)-1])
}

func (t *table) Events(_ context.Context, after int64, limit int) (found []parley.Event, _ error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, e := range t.events {
		if e.Seq > after && len(found) < limit {
			found = append(found, e)
		}
	}
	return found, nil
}

func TestFollowReplaysThenFollows(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		var hub event.Hub
		var feed table
		for s := int64(1); s <= 1000; s++ {
			feed.add(&hub, 2*s) // places need not be contiguous
		}
		var got []int64
		var last error
		done := make(chan struct{})
		go func() {
			defer close(done)
			for e, err := range hub.Follow(ctx, &feed, 10) {
				if err != nil {
					last = err
					return
				}
				got = append(got, e.Seq)
			}
		}()
		synctest.Wait()
		if len(got) != 995 || got[0] != 12 || got[994] != 2000 {
			t.Fatalf("replayed %d events, want 995 from 12 to 2000", len(got))
		}
		feed.add(&hub, 2001, 2005)
		feed.add(&hub, 2006)
		time.Sleep(time.Second) // of the bubble: both commits are read by then
		cancel()
		<-done
		if n := len(got); n != 998 || got[997] != 2006 {
			t.Fatalf("got %d events, want 998 up to 2006", n)
		}
		if !errors.Is(last, context.Canceled) {
			t.Errorf("last error = %v, want context.Canceled", last)
		}
		if n := hub.Followers(); n != 0 {
			t.Errorf("%d followers are left after the loop ended, want 0", n)
		}
	})
}

// A reader that never comes back for the next event must not hold up Notify
// or another reader, and must find everything when it does.
func TestSlowFollowerHoldsNobodyUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var hub event.Hub
		var feed table
		resume := make(chan struct{})
		counts := make(chan int, 2)
		follow := func(slow bool) {
			n := 0
			for e, err := range hub.Follow(t.Context(), &feed, 0) {
				if err != nil {
					t.Errorf("follow: %v", err)
					break
				}
				if slow && n == 0 {
					<-resume
				}
				if n++; e.Seq == 5000 {
					break
				}
			}
			counts <- n
		}
		go follow(true)
		go follow(false)
		for s := int64(1); s <= 5000; s++ {
			feed.add(&hub, s)
		}
		if n := <-counts; n != 5000 {
			t.Errorf("the quick reader got %d events, want 5000", n)
		}
		close(resume)
		if n := <-counts; n != 5000 {
			t.Errorf("the slow reader got %d events, want 5000", n)
		}
	})
}

func TestFollowersAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		var hub event.Hub
		var feed table
		var wg sync.WaitGroup
		for range event.MaxFollowers {
			wg.Go(func() {
				for range hub.Follow(ctx, &feed, 0) {
				}
			})
		}
		synctest.Wait()
		for _, err := range hub.Follow(ctx, &feed, 0) {
			if parley.KindOf(err) != parley.Exhausted {
				t.Errorf("one follower too many: %v, want exhausted", err)
			}
		}
		cancel()
		wg.Wait()
	})
}
