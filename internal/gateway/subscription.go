package gateway

import (
	"context"
	"errors"
	"io"
	"strconv"
	"sync/atomic"

	"github.com/parley-mesh/parley/internal/a2a"
	"github.com/parley-mesh/parley/internal/jsonwire"
	"github.com/parley-mesh/parley/internal/parley"
	"github.com/parley-mesh/parley/internal/stream"
)

// replayed is how many events are read from the journal at once.
const replayed = 64

// subscription is one caller's stream of a task's events. It reads the hub's list
// while it keeps up, and the journal where it is behind.
type subscription struct {
	g    *Gateway
	h    *hub
	call *Call
	turn *turn // where the call has opened a stream of the agent's

	started chan struct{} // closed once the first event is known; nil where it is
	prefix  string        // of the ids of events

	head   *a2a.Frame     // a Task that goes before the events
	replay []stream.Event // read from the journal, and not passed yet
	seq    int64          // of the last event that was passed
	bytes  int64
	closed bool

	// Guarded by the hub's mu.
	at    *node // the last event passed; nil while it reads the journal
	taken int64 // bytes of the list up to it
	cut   bool  // too far behind
	begun bool  // started is closed

	told *a2a.Error // the error that was passed as its last frame
}

// turn is a call that has opened a stream of the agent's: its record ends when
// both its caller and the exchange have.
type turn struct {
	c    *Call
	left atomic.Int32
}

// begin lets a subscriber go on, behind n, that waits for its first event.
// The caller holds the hub's mu.
func (s *subscription) begin(n *node) {
	if s.started == nil || s.begun {
		return
	}
	s.at, s.taken, s.seq, s.begun = n, n.total, n.seq, true
	close(s.started)
}

// behind is told that an event follows n. A subscriber that is more than what the
// hub holds behind reads the journal from there on; one that is over the limit is
// cut. The caller holds the hub's mu.
func (s *subscription) behind(n *node, limit int) {
	lag := n.total - s.taken
	if lag > hubMemory {
		s.at = nil
	}
	if lag > int64(limit) {
		s.cut = true
	}
}

// Next implements a2a.Stream.
func (s *subscription) Next(ctx context.Context) (a2a.Frame, error) {
	f, err := s.frame(ctx)
	if f.Err != nil {
		s.told = f.Err
	}
	s.bytes += int64(max(len(f.Raw), len(f.Result)))
	return f, err
}

func (s *subscription) frame(ctx context.Context) (a2a.Frame, error) {
	if s.started != nil {
		select {
		case <-s.started:
		case <-ctx.Done():
			return a2a.Frame{}, ctx.Err()
		}
	}
	if s.told != nil {
		return a2a.Frame{}, io.EOF
	}
	if f := s.head; f != nil {
		s.head = nil
		return *f, nil
	}
	for {
		if len(s.replay) > 0 {
			e := s.replay[0]
			if asksIn(e.Frame) {
				if f, err := s.withheld(ctx, e.Seq); f != nil || err != nil {
					return given(f, err)
				}
			}
			s.replay = s.replay[1:]
			s.seq = e.Seq
			return a2a.Frame{Result: e.Frame, ID: s.id(e.Seq)}, nil
		}
		n, wait, done, err := s.step()
		switch {
		case err != nil:
			return a2a.Frame{Err: err}, nil
		case done:
			return a2a.Frame{}, io.EOF
		case n != nil:
			if n.asks {
				if f, err := s.withheld(ctx, n.seq); f != nil || err != nil {
					return given(f, err)
				}
			}
			return s.show(n), nil
		case wait != nil:
			select {
			case <-wait:
			case <-ctx.Done():
				return a2a.Frame{}, ctx.Err()
			}
		default:
			if f, err := s.read(ctx); f != nil || err != nil {
				return given(f, err)
			}
		}
	}
}

// given is a frame, or why there is none.
func given(f *a2a.Frame, err error) (a2a.Frame, error) {
	if err != nil {
		return a2a.Frame{}, err
	}
	return *f, nil
}

// step takes the next event from the hub's list. Without one it gives what to
// wait for, or tells that nothing follows; where all is empty, the journal is to
// be read.
func (s *subscription) step() (n *node, wait <-chan struct{}, done bool, err *a2a.Error) {
	h := s.h
	h.mu.Lock()
	defer h.mu.Unlock()
	if s.at == nil && s.seq >= h.tail.seq {
		s.at = h.tail
	}
	for s.at != nil && s.at.next != nil && s.at.next.seq <= s.seq { // read from the journal before
		s.at = s.at.next
	}
	switch {
	case s.cut:
		return nil, nil, false, a2a.NewError(a2a.ReasonUnavailable, "the stream was ended because its events were not read in time; go on with SubscribeToTask and Last-Event-ID")
	case s.at == nil:
		return nil, nil, false, nil
	}
	s.taken = s.at.total
	next := s.at.next
	switch {
	case next == nil && h.ended != nil:
		return nil, nil, h.ended.err == nil, h.ended.err
	case next == nil:
		return nil, s.at.ready, false, nil
	case next.seq != s.seq+1: // somebody else has added an event between
		s.at = nil
		return nil, nil, false, nil
	}
	s.at, s.taken, s.seq = next, next.total, next.seq
	return next, nil, false, nil
}

// show is an event as this subscriber gets it: as it came, where that is a form
// its caller reads.
func (s *subscription) show(n *node) a2a.Frame {
	f := n.frame
	f.ID = s.id(n.seq)
	if s.call.missed { // of a caller whose events are gone: the first one stands for them
		s.call.missed = false
		if task, ok := jsonwire.Get(f.Result, "/task"); ok {
			if marked, err := stream.TaskFrame(task, gapAfter(s.call.after, n.seq+1)); err == nil {
				return a2a.Frame{Result: marked, ID: f.ID}
			}
		}
	}
	mine := s.turn != nil && n.by == s.turn
	if !mine && (n.by == nil || s.call.req.Binding != a2a.GRPC || n.by.c.target.Binding != string(a2a.GRPC)) {
		f.Raw, f.Event = nil, ""
	}
	return f
}

// id is the id of an event.
func (s *subscription) id(seq int64) string { return s.prefix + strconv.FormatInt(seq, 10) }

// read takes the next events from the journal. Where some of them are gone, a
// Task stands for them.
func (s *subscription) read(ctx context.Context) (*a2a.Frame, error) {
	select {
	case s.g.hubs.replays <- struct{}{}:
	case <-ctx.Done():
		return s.lost(ctx, ctx.Err())
	}
	events, err := s.g.Streams.After(ctx, s.h.key, s.seq, replayed)
	<-s.g.hubs.replays
	if err != nil {
		return s.lost(ctx, err)
	}
	if len(events) > 0 && events[0].Seq == s.seq+1 {
		s.replay = events
		return nil, nil
	}
	return s.gap(ctx)
}

// gap is a Task that stands for events which are gone.
func (s *subscription) gap(ctx context.Context) (*a2a.Frame, error) {
	after := s.seq
	frame, seq, ok, err := s.h.whole(ctx, func(seq int64) map[string]any { return gapAfter(after, seq+1) })
	switch {
	case errors.Is(err, errAsks):
		return &a2a.Frame{Err: s.call.deniesAsking(s.h.key.ID)}, nil
	case err != nil:
		return s.lost(ctx, err)
	case !ok:
		return &a2a.Frame{Err: a2a.NewError(a2a.ReasonUnavailable, "the events that follow are not kept any more; subscribe without Last-Event-ID")}, nil
	}
	s.seq = seq
	return &a2a.Frame{Result: frame, ID: s.id(seq)}, nil
}

// withheld is what stands for the event seq, by which the agent asks for a
// credential, where it may not any more: the task as it is by now. It gives nil
// where the event may be shown.
func (s *subscription) withheld(ctx context.Context, seq int64) (*a2a.Frame, error) {
	switch forbids, err := s.g.forbidsAsking(ctx, s.h.key.Agent); {
	case err != nil:
		return s.lost(ctx, err)
	case !forbids:
		return nil, nil
	}
	s.h.mu.Lock()
	s.at = nil
	s.h.mu.Unlock()
	s.replay, s.seq = nil, seq-1
	return s.gap(ctx)
}

// gapAfter marks a Task that stands for events which are gone.
func gapAfter(after, next int64) map[string]any {
	return map[string]any{stream.GapKey: map[string]int64{"after": after, "next": next}}
}

// lost ends a stream whose journal cannot be read.
func (s *subscription) lost(ctx context.Context, err error) (*a2a.Frame, error) {
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	s.g.Log.Error("journal not read", "call", s.call.record.ID, "agent", s.h.key.Agent, "err", err)
	return &a2a.Frame{Err: protocolError(parley.Unavailable, "the mesh cannot reach its records; go on later with SubscribeToTask and Last-Event-ID")}, nil
}

// Close implements a2a.Stream: the caller has left, or was told the last frame.
func (s *subscription) Close() error {
	if s.closed {
		return nil
	}
	s.closed = true
	g, c := s.g, s.call
	e := s.h.leave(s)
	g.streams.give(c.record.Caller)
	g.Calls.Stream(context.Background(), -1)
	c.record.BytesOut = s.bytes
	if s.turn != nil {
		s.turn.leave(g, e)
		return nil
	}
	if e != nil && s.told != nil {
		c.ends(e.outcome, e.reason, e.detail)
	}
	c.ends(parley.OutcomeOK, "", "") // a subscription has no end of its own
	c.sees.changed = false           // the hub has written what it saw
	g.over(c)
	return nil
}

// leave notes that the turn's caller or its exchange is gone; the last one settles
// its call. e is how the events have ended, nil where they go on: then the call
// waits for its task like any other.
func (t *turn) leave(g *Gateway, e *ending) {
	if t.left.Add(-1) > 0 {
		return
	}
	if e != nil {
		t.c.sees = e.sees
		t.c.record.TaskState = e.sees.state
		if e.outcome != parley.OutcomeOpen {
			t.c.ends(e.outcome, e.reason, e.detail)
		}
	}
	g.over(t.c)
}

// over settles the call of a stream.
func (g *Gateway) over(c *Call) {
	g.lap(c, "stream")
	ctx := context.Background()
	if err := g.write(ctx, c, false); err != nil {
		g.Log.Error("call not settled", "call", c.record.ID, "agent", c.record.Agent, "err", err)
	}
	g.close(ctx, c)
}
