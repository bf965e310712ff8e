package gateway

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/parley-mesh/parley/internal/a2a"
	"github.com/parley-mesh/parley/internal/call"
	"github.com/parley-mesh/parley/internal/parley"
	"github.com/parley-mesh/parley/internal/stream"
)

// Streams keeps the events of tasks, so that streams survive. Their sequence is
// as package stream says.
type Streams interface {
	// AppendLater hands events over and returns at once; see stream.Entry.
	AppendLater(ctx context.Context, e stream.Entry)
	After(ctx context.Context, key call.TaskKey, seq int64, max int) ([]stream.Event, error)
	Bounds(ctx context.Context, key call.TaskKey) (first, last int64, err error)
	Watch(key call.TaskKey) (wake <-chan struct{}, stop func())
	Release(key call.TaskKey, source parley.CallID) error
	// FedElsewhere tells whether a stream at another replica shows the task.
	FedElsewhere(ctx context.Context, key call.TaskKey) (bool, error)
}

// hubs are the tasks whose events this process passes on.
type hubs struct {
	mu       sync.Mutex
	of       map[call.TaskKey]*hub // guarded by mu
	running  sync.WaitGroup        // one for each hub
	detached atomic.Int64          // hubs that run without a subscriber
	regains  chan struct{}         // a place for each stream that is being taken up again
	replays  chan struct{}         // a place for each subscriber that reads the journal
}

// regainsMax is how many streams are taken up again at once.
const regainsMax = 16

// replaysMax is how many subscribers read the journal at once: calls need the
// store as well.
const replaysMax = 8

// hub passes the events of one task on to any number of subscribers. They come
// from one stream of the agent's, through the journal, or, where another replica
// has that stream, from the journal alone.
type hub struct {
	g   *Gateway
	key call.TaskKey
	// watching is what was seen of the task. Only the loop uses it.
	watching *Call

	past bool // the task is over, and the hub was made to tell of it

	mu       sync.Mutex
	at       *source                    // at work
	unread   bool                       // counted as detached
	tail     *node                      // the last event; a first one without frame before there is any
	subs     map[*subscription]struct{} // guarded by mu
	ended    *ending                    // nil while events may come
	next     *source                    // takes the place of the one at work
	turned   chan struct{}              // holds one token: there is a next one
	flying   int                        // bytes handed over to the journal, and not yet there
	landed   *sync.Cond                 // flying has become less
	failed   error                      // of the journal
	snapshot stream.Snapshot            // of the journal up to its number, unless larger than a snapshot may be
	asked    bool                       // an event of the journal asked for a credential; with folding held
	folding  sync.Mutex                 // held while snapshot grows
}

// node is an event in the list that all subscribers read. Who has read it holds
// it no more: what the slowest one holds is what the list takes.
type node struct {
	frame a2a.Frame
	by    *turn // whose stream showed it; Raw is for its caller
	asks  bool  // for a credential
	seq   int64
	total int64 // bytes of the list up to this event

	next  *node         // set before ready is closed
	ready chan struct{} // closed when there is a next one, or never will be
}

// ending is how the events of a task ended.
type ending struct {
	err     *a2a.Error // what subscribers are told; nil: the task has come to rest
	outcome parley.Outcome
	reason  string
	detail  string
	sees    seen // of the task, at the end
}

// hubMemory is how many bytes of events a hub holds for a subscriber that is
// behind. It reads the rest from the journal.
const hubMemory = 256 << 10

// flyingMax is how many bytes of one stream may be on their way to the journal.
const flyingMax = 1 << 20

// hubOf gives the task's hub, or makes one that has not begun yet, behind the
// journal's event last.
func (g *Gateway) hubOf(key call.TaskKey, last int64) (h *hub, fresh bool) {
	h = &hub{
		g: g, key: key, subs: map[*subscription]struct{}{}, turned: make(chan struct{}, 1),
		tail: &node{seq: last, ready: make(chan struct{})},
	}
	h.landed = sync.NewCond(&h.mu)
	g.hubs.mu.Lock()
	defer g.hubs.mu.Unlock()
	if known := g.hubs.of[key]; known != nil {
		return known, false
	}
	g.hubs.of[key] = h
	return h, true
}

func (s *hubs) get(key call.TaskKey) *hub {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.of[key]
}

// forget takes a hub that has ended out.
func (s *hubs) forget(h *hub) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.of[h.key] == h {
		delete(s.of, h.key)
	}
}

// feed hands a source over to the task's hub, which runs from then on. Its
// subscriber, if there is one, reads from its first event on. A task that nobody
// knew before has no journal: it is not asked for one.
func (g *Gateway) feed(ctx context.Context, key call.TaskKey, src *source) error {
	for {
		last := int64(0)
		if !src.fresh && g.hubs.get(key) == nil {
			var err error
			if _, last, err = g.Streams.Bounds(ctx, key); err != nil {
				return err
			}
		}
		h, fresh := g.hubOf(key, last)
		if !h.offer(src) {
			continue // it has just ended
		}
		if fresh {
			g.hubs.running.Go(h.run)
		}
		return nil
	}
}

// offer makes src the hub's next source. It reports false where the hub has
// ended.
func (h *hub) offer(src *source) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.ended != nil {
		return false
	}
	if before := h.next; before != nil { // two came at once: the later one counts
		src.subs = append(src.subs, before.subs...)
		h.g.hubs.running.Go(func() { before.leave(h, nil) })
	}
	h.next = src
	for _, s := range src.subs {
		s.h = h
		h.add(s)
	}
	h.count(len(h.subs) == 0)
	if h.at != nil {
		h.at.stop()
	}
	select {
	case h.turned <- struct{}{}:
	default:
	}
	return true
}

// takeNext gives the source that takes over, or nil.
func (h *hub) takeNext() *source {
	h.mu.Lock()
	defer h.mu.Unlock()
	src := h.next
	h.next = nil
	select {
	case <-h.turned:
	default:
	}
	return src
}

// keep hands a frame of src to the journal; what comes of it is published, in
// order.
func (h *hub) keep(src *source, f a2a.Frame, take bool) {
	size := len(f.Result)
	h.mu.Lock()
	for h.flying > 0 && h.flying+size > flyingMax {
		h.landed.Wait()
	}
	h.flying += size
	h.mu.Unlock()
	h.g.Streams.AppendLater(context.Background(), stream.Entry{
		Task: h.key, Owner: h.watching.record.CallerOwner, Source: src.id, Take: take, Frames: [][]byte{f.Result},
		Done: func(last int64, err error) {
			h.mu.Lock()
			defer h.mu.Unlock()
			if err == nil && h.failed == nil {
				h.publish(&node{frame: f, by: src.turn, seq: last}, src, take)
			} else if h.failed == nil {
				h.failed = err
				src.stop()
			}
			h.flying -= size
			h.landed.Broadcast()
		},
	})
}

// publish adds an event to the list. The caller holds mu.
func (h *hub) publish(n *node, src *source, first bool) {
	n.ready = make(chan struct{})
	n.asks = n.frame.Facts != nil && n.frame.Facts.State == a2a.StateAuthRequired
	n.frame.Facts = nil
	before := h.tail
	n.total = before.total + int64(len(n.frame.Result))
	limit := h.g.limits().StreamBuffer
	for s := range h.subs {
		s.behind(before, limit)
	}
	if first {
		for _, s := range src.subs {
			s.begin(before)
		}
	}
	before.next = n
	h.tail = n
	close(before.ready)
}

// settled waits until all that was handed over is in the journal.
func (h *hub) settled() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	for h.flying > 0 {
		h.landed.Wait()
	}
	if parley.KindOf(h.failed) == parley.Conflict {
		return errTaken
	}
	return h.failed
}

// over tells the hub that the task has ended, as another call has seen. A stream
// that does not show that soon never will: some agents leave it open in silence.
// The task is then asked for.
func (h *hub) over() {
	time.AfterFunc(finalGrace, func() {
		h.mu.Lock()
		src := h.at
		if h.ended != nil {
			src = nil
		}
		h.mu.Unlock()
		if src != nil {
			src.over.Store(true)
			src.stop()
		}
	})
}

// add makes s a subscriber. The caller holds mu.
func (h *hub) add(s *subscription) {
	h.subs[s] = struct{}{}
	h.count(false)
}

// count notes whether the hub runs for nobody. The caller holds mu.
func (h *hub) count(unread bool) {
	if h.unread == unread || h.past {
		return
	}
	h.unread = unread
	if unread {
		h.g.hubs.detached.Add(1)
	} else {
		h.g.hubs.detached.Add(-1)
	}
}

// end tells all subscribers that nothing follows.
func (h *hub) end(e *ending) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.ended = e
	for s := range h.subs {
		s.begin(h.tail)
	}
	h.count(false)
	close(h.tail.ready)
}

// leave takes a subscriber out, and tells how the events have ended, nil where
// they go on. Where nobody is left, the task goes on and with it the stream, as
// long as not too many do so; what another replica reads is not read here for
// nobody.
func (h *hub) leave(s *subscription) *ending {
	h.mu.Lock()
	defer h.mu.Unlock()
	if delete(h.subs, s); h.ended != nil || len(h.subs) > 0 {
		return h.ended
	}
	h.count(true)
	if h.at != nil && (h.at.follows.Load() || h.g.hubs.detached.Load() > int64(h.g.limits().StreamsDetached)) {
		h.at.cancel(errDetached)
	}
	return nil
}

// whole takes the journal's events into the hub's snapshot, up to the newest,
// and gives that as a frame. ok is false where the journal does not hold enough
// for a whole task. Of an agent that may not ask for credentials, and has, the
// task comes without its history. Errors: errAsks where it still does.
func (h *hub) whole(ctx context.Context, marks func(seq int64) map[string]any) (frame []byte, seq int64, ok bool, err error) {
	h.folding.Lock()
	defer h.folding.Unlock()
	for {
		events, err := h.g.Streams.After(ctx, h.key, h.snapshot.Seq, replayed)
		if err != nil {
			return nil, 0, false, err
		}
		if len(events) == 0 {
			break
		}
		if h.snapshot.Seq+1 != events[0].Seq { // what is between is gone
			h.snapshot = stream.Snapshot{}
		}
		for _, e := range events {
			if err := h.snapshot.Add(e); err != nil {
				return nil, 0, false, err
			}
			h.asked = h.asked || asksIn(e.Frame)
		}
	}
	if !h.snapshot.Known() {
		return nil, 0, false, nil
	}
	seq = h.snapshot.Seq
	var hidden []string
	if h.asked {
		forbids, err := h.g.forbidsAsking(ctx, h.key.Agent)
		if err != nil {
			return nil, 0, false, err
		}
		if forbids {
			hidden = []string{"history"}
		}
	}
	frame, err = h.snapshot.Frame(marks(seq), hidden...)
	if len(frame) > h.g.limits().Snapshot { // made anew for the next one, if the journal still has it all
		h.snapshot = stream.Snapshot{}
	}
	if err == nil && hidden != nil && asksIn(frame) {
		err = errAsks
	}
	return frame, seq, err == nil, err
}
