package gateway

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/parley-mesh/parley/internal/call"
)

func TestWatcherLooksEverMoreRarely(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		var looks []time.Duration
		w := newWatcher(WatchOptions{First: time.Second, Max: 5 * time.Second}, time.Now, func(context.Context, call.TaskKey) bool {
			looks = append(looks, time.Since(start))
			return len(looks) == 5
		})
		ctx, cancel := context.WithCancel(t.Context())
		finished := make(chan struct{})
		go func() { w.run(ctx); close(finished) }()
		w.add(call.TaskKey{Agent: "a", ID: "t"}, time.Now().Add(24*time.Hour))
		w.add(call.TaskKey{Agent: "a", ID: "t"}, time.Now().Add(24*time.Hour))
		time.Sleep(time.Hour) // virtual
		cancel()
		<-finished
		want := []time.Duration{time.Second, 3 * time.Second, 7 * time.Second, 12 * time.Second, 17 * time.Second}
		if diff := cmp.Diff(want, looks); diff != "" {
			t.Errorf("looks (-want +got):\n%s", diff)
		}
		if w.size() != 0 {
			t.Errorf("%d tasks still watched", w.size())
		}
	})
}

func TestAWatchRenewedDuringItsLastLookGoesOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		key := call.TaskKey{Agent: "a", ID: "t"}
		looks := 0
		var w *watcher
		w = newWatcher(WatchOptions{}, time.Now, func(context.Context, call.TaskKey) bool {
			looks++
			if looks == 1 {
				w.add(key, time.Now().Add(24*time.Hour)) // a follow-up turn arrives while the look is under way
			}
			return true
		})
		ctx, cancel := context.WithCancel(t.Context())
		finished := make(chan struct{})
		go func() { w.run(ctx); close(finished) }()
		w.add(key, time.Now().Add(24*time.Hour))
		time.Sleep(time.Hour) // virtual
		cancel()
		<-finished
		if looks != 2 {
			t.Errorf("%d looks, want 2: the follow-up turn was forgotten", looks)
		}
	})
}

// A task to which something happens is looked at soon again, however rarely it
// was looked at before, and in any case when the last call gives up.
func TestAWatchIsBroughtForward(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var start time.Time
		key := call.TaskKey{Agent: "a", ID: "t"}
		var looks []time.Duration
		w := newWatcher(WatchOptions{First: time.Second, Max: time.Hour}, time.Now, func(_ context.Context, looked call.TaskKey) bool {
			if looked == key {
				looks = append(looks, time.Since(start))
			}
			return false
		})
		ctx, cancel := context.WithCancel(t.Context())
		finished := make(chan struct{})
		go func() { w.run(ctx); close(finished) }()
		// Another task is always due just before this one, until this one is
		// brought forward past it.
		w.add(call.TaskKey{Agent: "a", ID: "other"}, time.Now().Add(time.Hour))
		time.Sleep(time.Second / 2) // virtual
		start = time.Now()
		until := start.Add(40 * time.Second)
		w.add(key, until)
		time.Sleep(20 * time.Second) // virtual: looks at 1, 3, 7, 15 s, the next at 31 s
		w.add(key, until)
		time.Sleep(25 * time.Second) // virtual: at 21, 23, 27, 35 s, and at 40 s instead of 51 s
		cancel()
		<-finished
		s := time.Second
		want := []time.Duration{s, 3 * s, 7 * s, 15 * s, 21 * s, 23 * s, 27 * s, 35 * s, 40 * s}
		if diff := cmp.Diff(want, looks); diff != "" {
			t.Errorf("looks (-want +got):\n%s", diff)
		}
	})
}

func TestSlowLooksDoNotHoldUpOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var quick time.Duration
		start := time.Now()
		w := newWatcher(WatchOptions{Concurrency: 2, Timeout: time.Minute}, time.Now, func(ctx context.Context, key call.TaskKey) bool {
			if key.ID == "slow" {
				<-ctx.Done()
				return true
			}
			quick = time.Since(start)
			return true
		})
		ctx, cancel := context.WithCancel(t.Context())
		finished := make(chan struct{})
		go func() { w.run(ctx); close(finished) }()
		w.add(call.TaskKey{ID: "slow"}, time.Now().Add(24*time.Hour))
		w.add(call.TaskKey{ID: "quick"}, time.Now().Add(24*time.Hour))
		time.Sleep(time.Hour) // virtual
		cancel()
		<-finished
		if quick != time.Second {
			t.Errorf("the quick task was looked at after %v, want 1s", quick)
		}
	})
}
