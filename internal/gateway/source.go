package gateway

import (
	"context"
	"errors"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"github.com/parley-mesh/parley/internal/a2a"
	"github.com/parley-mesh/parley/internal/call"
	"github.com/parley-mesh/parley/internal/parley"
)

// source is one stream of the agent's that shows a task, and the exchange in
// whose name it is read.
type source struct {
	id    parley.CallID
	inner a2a.Stream      // nil: there is none yet, or it broke
	sees  *Call           // what is seen goes in here
	first *a2a.Frame      // accepted, and not yet passed on
	fresh bool            // the task was nobody's before it
	turn  *turn           // of the call whose exchange it is; nil for the mesh's own
	subs  []*subscription // that read from its first event on

	exchange context.Context // ends the stream and all attempts to go on with it
	cancel   context.CancelCauseFunc
	done     func() // ends the exchange; never nil

	follows    atomic.Bool // another replica has the stream
	broke      error       // why the last stream broke; nil for none
	over       atomic.Bool // the task has ended, and the stream does not tell
	stuck      bool        // a new stream has shown no more than the task
	reconciled []byte      // the last Task that was passed on as reconciled

	rests bool // a final or interrupted state was seen last
	final bool // a final state was seen

	mu     sync.Mutex
	halted bool // guarded by mu
}

// stop breaks the stream off; the exchange goes on.
func (s *source) stop() {
	s.mu.Lock()
	inner := s.inner
	s.halted = true
	s.mu.Unlock()
	if inner != nil {
		go func() { _ = inner.Close() }() // it may wait for the connection
	}
}

// drop gives up a stream that is no use any more.
func (s *source) drop(broken bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.halted = false
	if broken && s.inner != nil {
		_ = s.inner.Close()
		s.inner = nil
	}
}

// use makes inner the stream of the source. It reports false where the source was
// stopped.
func (s *source) use(inner a2a.Stream) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.halted {
		_ = inner.Close()
		return false
	}
	s.inner = inner
	return true
}

// leave ends the exchange of a source; e is how the events have ended, nil where
// they go on without it.
func (s *source) leave(h *hub, e *ending) {
	if s.inner != nil {
		_ = s.inner.Close()
	}
	s.done()
	if err := h.g.Streams.Release(h.key, s.id); err != nil {
		h.g.Log.Debug("journal not released", "agent", h.key.Agent, "err", err)
	}
	if s.turn != nil {
		s.turn.c.sees = s.sees.sees
		from, to := &s.sees.record, &s.turn.c.record
		to.TaskID, to.TaskState, to.ContextID, to.Asked = from.TaskID, from.TaskState, from.ContextID, from.Asked
		s.turn.leave(h.g, e)
	}
}

// Why a hub does not read its source any further.
var (
	errCut = &a2a.TransportError{Stage: a2a.StageStream, Wrote: true, Err: a2a.ErrEndEarly}

	errTurned   = errors.New("another stream of the task takes over")
	errTaken    = errors.New("another replica has a stream of the task")
	errDetached = errors.New("nobody reads, and too many streams go on for nobody")
)

// run passes events on until the task has come to rest or nothing more can be
// learnt of it.
func (h *hub) run() {
	src := h.takeNext()
	for {
		h.work(src)
		err := h.advance(src)
		if next := h.takeNext(); next != nil {
			src.leave(h, nil)
			src = next
			continue
		}
		switch {
		case err == nil: // there is a way to go on
		case errors.Is(err, errTaken):
			src.follows.Store(true)
		case broken(src, err), src.over.Load() && !src.final && src.exchange.Err() == nil && !fromStore(err):
			src.broke = err
		default:
			h.close(src, err)
			return
		}
		src.drop(err != nil)
	}
}

// work makes src the source at work.
func (h *hub) work(src *source) {
	_ = h.settled() // what the one before has handed over
	h.watching = src.sees
	h.mu.Lock()
	defer h.mu.Unlock()
	h.at, h.failed = src, nil
}

// advance passes on what there is, by the way that the source has.
func (h *hub) advance(src *source) error {
	switch {
	case src.follows.Load():
		return h.follow(src)
	case src.inner != nil:
		return h.pump(src)
	}
	return h.regain(src)
}

// broken reports whether a stream broke in a way that leaves the task's events to
// be had elsewhere.
func broken(src *source, err error) bool {
	if src.inner == nil || src.exchange.Err() != nil || err == nil || err == io.EOF && src.rests {
		return false
	}
	if err == io.EOF || errors.Is(err, a2a.ErrEndEarly) {
		return true
	}
	failure, ok := errors.AsType[*a2a.TransportError](err)
	return ok && shapeOf(src.exchange, err) == parley.ShapeCut && failure.Stage == a2a.StageStream
}

// pump passes on what the source shows, until it ends.
func (h *hub) pump(src *source) error {
	if f := src.first; f != nil {
		src.first = nil
		h.pass(src, *f, true)
	}
	for {
		f, err := src.read()
		switch {
		case err != nil:
			if failed := h.settled(); failed != nil {
				return failed
			}
			return err
		case f.Err != nil:
			// Some agents fail the streams of a task that ends: what became of it is
			// told rather than that.
			if _, err := h.reconcile(src); err == nil && src.final {
				return io.EOF
			}
			h.watching.ends(judgeError(f.Err).Outcome, string(f.Err.Reason), "the agent ended its stream with an error")
			return f.Err
		}
		src.stuck = false
		if f.Facts.Reconciled {
			if _, err := h.reconciled(src, f); err != nil {
				return err
			}
			continue
		}
		if refusal := h.see(src, f); refusal != nil {
			return refusal
		}
		h.pass(src, f, false)
	}
}

// pass notes what a frame says of the task's state and hands it over to the
// journal.
func (h *hub) pass(src *source, f a2a.Frame, take bool) {
	src.note(f.Facts)
	h.keep(src, f, take)
}

func (s *source) note(f *a2a.Facts) {
	switch {
	case f.Final() || f.Interrupted():
		s.rests, s.final = true, f.Final()
	case f.State != "":
		s.rests = false // an interrupted task went on
	}
}

// read waits for the next frame. Behind a final state an agent may hold its
// stream open for finalGrace and no longer.
func (s *source) read() (a2a.Frame, error) {
	if !s.final {
		return s.inner.Next(s.exchange)
	}
	ctx, cancel := context.WithTimeout(s.exchange, finalGrace)
	defer cancel()
	f, err := s.inner.Next(ctx)
	if err != nil && s.exchange.Err() == nil && ctx.Err() != nil {
		err = io.EOF
	}
	return f, err
}

// finalGrace is how long an agent may hold its stream open behind the frame
// that ends the task. Nothing can follow (A2A 1.0, section 3.1.2), and an
// agent that forgets must not hold its caller and the record.
const finalGrace = time.Second

// see takes over what a frame shows: what is not the caller's ends the stream.
func (h *hub) see(src *source, f a2a.Frame) *a2a.Error {
	return h.g.accepted(src.exchange, src.sees, f)
}

// accepted checks one frame of a stream and makes a task that it shows first the
// caller's, before the caller sees it.
func (g *Gateway) accepted(ctx context.Context, c *Call, f a2a.Frame) *a2a.Error {
	if err := g.notice(ctx, c, f.Facts); err != nil {
		return g.unbound(ctx, c, err).Err
	}
	if f.Facts.Kind == a2a.KindTask {
		c.sees.snapshot = g.taskObject(f.Result)
	} else if f.Facts.Kind != a2a.KindMessage {
		c.sees.snapshot = nil // older than what was just seen
	}
	asks, denied := g.asked(c, f.Result), g.mayAsk(c)
	if err := g.bind(ctx, c); err != nil {
		return g.unbound(ctx, c, err).Err
	}
	if f.Facts.Kind == a2a.KindMessage {
		c.wants = nil // there is no task to tell of
	}
	if err := g.subscribeInline(ctx, c); err != nil {
		return g.unbound(ctx, c, err).Err
	}
	if asks {
		g.saveAsked(ctx, c.record, denied == nil)
	}
	return denied
}

// close ends the hub: its subscribers are told how, and the source's call with
// it.
func (h *hub) close(src *source, err error) {
	g := h.g
	if failed := h.settled(); failed != nil && !src.final {
		err = failed
	}
	e := h.ending(src, err)
	ctx := context.Background()
	if src.turn == nil && h.watching.sees.changed {
		h.write(ctx)
	}
	h.end(e)
	g.hubs.forget(h)
	src.leave(h, e)
}

// write brings the index up to what was seen, on the mesh's own account, and ends
// the calls that waited for the task.
func (h *hub) write(ctx context.Context) {
	g, c := h.g, h.watching
	ctx, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	task := c.indexed(g.Now())
	if task == nil {
		return
	}
	if err := g.Journal.Settle(ctx, call.Settlement{Task: task}, true); err != nil {
		g.Log.Error("task not recorded", "agent", h.key.Agent, "err", err)
		return
	}
	if task.Final {
		g.finish(ctx, h.key, task.State)
	}
}

// ending says how the events ended that broke off with err.
func (h *hub) ending(src *source, err error) *ending {
	c := h.watching
	e := &ending{sees: c.sees}
	own, isOwn := errors.AsType[*a2a.Error](err)
	switch {
	case src.final:
		e.outcome = parley.Judge(parley.Shape(c.sees.state)).Outcome
		return e
	case src.rests && err == io.EOF, errors.Is(err, errDetached), errors.Is(context.Cause(src.exchange), errDetached):
		return e
	case isOwn: // said by the agent, or by accepted
		e.err = own
	case fromStore(err):
		h.g.Log.Error("events not journaled", "agent", h.key.Agent, "err", err)
		e.err = protocolError(parley.Unavailable, "the mesh cannot keep the events of this stream just now; go on later with SubscribeToTask and Last-Event-ID")
		return e
	default:
		if err == io.EOF {
			err = errCut
		}
		if c.placing.home != nil && src.exchange.Err() == nil {
			h.g.standings.failed(placeOf(c.target), false, h.g.Now())
		}
		e.err = h.g.unanswered(src.exchange, c, err).Err
	}
	e.outcome, e.reason, e.detail = c.record.Outcome, c.record.Reason, c.record.Detail
	return e
}
