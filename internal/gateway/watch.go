package gateway

import (
	"container/heap"
	"context"
	"sync"
	"time"

	"github.com/parley-mesh/parley/internal/call"
)

// WatchOptions says how tasks are watched that no caller follows.
type WatchOptions struct {
	First       time.Duration // wait before the first look; zero means 1 s
	Max         time.Duration // longest wait between looks, reached by doubling; zero means 1 min
	Concurrency int           // looks under way at once; zero means 16
	Timeout     time.Duration // of one look; zero means 10 s
}

func (o WatchOptions) withDefaults() WatchOptions {
	if o.First <= 0 {
		o.First = time.Second
	}
	if o.Max <= 0 {
		o.Max = time.Minute
	}
	if o.Concurrency <= 0 {
		o.Concurrency = 16
	}
	if o.Timeout <= 0 {
		o.Timeout = 10 * time.Second
	}
	return o
}

// watcher looks at tasks that calls wait for, ever more rarely, until they are
// final or the calls' deadline has passed. One watch serves all calls of a
// task.
type watcher struct {
	opts WatchOptions
	now  func() time.Time
	// look asks the agent once; done ends the watch.
	look func(ctx context.Context, key call.TaskKey) (done bool)

	mu      sync.Mutex
	due     watchHeap               // guarded by mu
	watched map[call.TaskKey]*watch // guarded by mu
	wake    chan struct{}           // told when an earlier watch arrives
}

// watch is one watched task.
type watch struct {
	key   call.TaskKey
	at    time.Time
	delay time.Duration
	until time.Time // when the last call that waits gives up: there is a look then
	index int       // in the heap; -1 while a look is under way
	// renewed tells that a call came to wait while a look was under way: that
	// look cannot end the watch.
	renewed bool
}

func newWatcher(opts WatchOptions, now func() time.Time, look func(context.Context, call.TaskKey) bool) *watcher {
	return &watcher{
		opts: opts.withDefaults(), now: now, look: look,
		watched: map[call.TaskKey]*watch{}, wake: make(chan struct{}, 1),
	}
}

// add watches a task for a call that gives up at until. A task that is watched
// already is looked at soon again: something has just happened to it.
func (w *watcher) add(key call.TaskKey, until time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	one := w.watched[key]
	if one == nil {
		one = &watch{key: key, index: -1}
		w.watched[key] = one
	} else {
		one.renewed = true
	}
	if until.After(one.until) {
		one.until = until
	}
	one.delay = w.opts.First
	if one.renewed && one.index < 0 {
		return // the look under way plans the next one
	}
	one.at = w.now().Add(one.delay)
	if one.index >= 0 {
		heap.Fix(&w.due, one.index)
	} else {
		heap.Push(&w.due, one)
	}
	select {
	case w.wake <- struct{}{}:
	default: // told already
	}
}

// size is how many tasks are watched.
func (w *watcher) size() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.watched)
}

// run watches until ctx ends, and returns when the last look has returned.
func (w *watcher) run(ctx context.Context) {
	var looks sync.WaitGroup
	defer looks.Wait()
	slots := make(chan struct{}, w.opts.Concurrency)
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		one, wait := w.next()
		if one == nil {
			timer.Reset(wait)
			select {
			case <-ctx.Done():
				return
			case <-w.wake:
			case <-timer.C:
			}
			continue
		}
		select {
		case <-ctx.Done():
			return
		case slots <- struct{}{}:
		}
		looks.Go(func() {
			defer func() { <-slots }()
			lookCtx, cancel := context.WithTimeout(ctx, w.opts.Timeout)
			defer cancel()
			w.again(one, w.look(lookCtx, one.key))
		})
	}
}

// next takes the watch that is due; without one it tells how long to wait.
func (w *watcher) next() (*watch, time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.due) == 0 {
		return nil, time.Hour
	}
	if wait := w.due[0].at.Sub(w.now()); wait > 0 {
		return nil, wait
	}
	one := heap.Pop(&w.due).(*watch)
	one.renewed = false
	return one, 0
}

// again plans the next look, or forgets the task.
func (w *watcher) again(one *watch, done bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case one.renewed: // since the look began: its pace is set anew
	case done:
		delete(w.watched, one.key)
		return
	default:
		one.delay = min(2*one.delay, w.opts.Max)
	}
	now := w.now()
	one.at = now.Add(one.delay)
	if one.until.After(now) && one.at.After(one.until) {
		one.at = one.until
	}
	heap.Push(&w.due, one)
	select {
	case w.wake <- struct{}{}:
	default: // told already
	}
}

// watchHeap orders watches by when they are due.
type watchHeap []*watch

func (h watchHeap) Len() int           { return len(h) }
func (h watchHeap) Less(i, j int) bool { return h[i].at.Before(h[j].at) }

func (h watchHeap) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].index, h[j].index = i, j
}

func (h *watchHeap) Push(x any) {
	one := x.(*watch)
	one.index = len(*h)
	*h = append(*h, one)
}

func (h *watchHeap) Pop() any {
	old := *h
	one := old[len(old)-1]
	one.index = -1
	*h = old[:len(old)-1]
	return one
}
