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

// add begins to watch a task; a task that is watched already keeps its pace.
func (w *watcher) add(key call.TaskKey) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if one, ok := w.watched[key]; ok {
		one.renewed = true
		return
	}
	one := &watch{key: key, at: w.now().Add(w.opts.First), delay: w.opts.First}
	w.watched[key] = one
	heap.Push(&w.due, one)
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
	if done && !one.renewed {
		delete(w.watched, one.key)
		return
	}
	one.delay = min(2*one.delay, w.opts.Max)
	one.at = w.now().Add(one.delay)
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
func (h watchHeap) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *watchHeap) Push(x any)        { *h = append(*h, x.(*watch)) }

func (h *watchHeap) Pop() any {
	old := *h
	one := old[len(old)-1]
	*h = old[:len(old)-1]
	return one
}
