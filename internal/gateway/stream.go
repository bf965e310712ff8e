package gateway

import (
	"context"
	"io"

	"github.com/parley-mesh/parley/internal/a2a"
	"github.com/parley-mesh/parley/internal/call"
	"github.com/parley-mesh/parley/internal/parley"
)

// openedStream is a stream of the agent's for the caller that opened it. Until
// its first frame it hangs on that caller; a task that it shows then lives on
// without the caller, as a source of the task's hub, and this stream is one of its
// subscriptions.
type openedStream struct {
	g        *Gateway
	call     *Call
	inner    a2a.Stream
	exchange context.Context
	cancel   context.CancelCauseFunc
	done     func() // ends the exchange

	state openState
	sub   *subscription // once there is a task
	bytes int64
}

// openState is how far a stream has come that shows no task.
type openState int

const (
	openWaits    openState = iota // nothing has come
	openAnswered                  // a message was passed on
	openEnded                     // the agent's end was passed on
	openFailed                    // an error frame was passed on
	openLeft                      // the caller is gone
	openClosed
)

// Next gives the next accepted frame. A stream that the agent ends before there
// was a message or the task came to rest is an error, never a success.
func (s *openedStream) Next(ctx context.Context) (a2a.Frame, error) {
	if s.sub != nil {
		return s.sub.Next(ctx)
	}
	f, err := s.next(ctx)
	s.bytes += int64(max(len(f.Raw), len(f.Result)))
	if s.call.record.FirstByte == 0 {
		s.call.record.FirstByte = s.g.Now().Sub(s.call.arrived)
	}
	return f, err
}

func (s *openedStream) next(ctx context.Context) (a2a.Frame, error) {
	switch s.state {
	case openFailed, openEnded:
		return a2a.Frame{}, io.EOF
	case openAnswered: // a message is all (A2A 1.0, section 3.1.2)
		s.state = openEnded
		return a2a.Frame{}, io.EOF
	}
	f, err := s.read(ctx)
	switch {
	case err == nil && f.Err == nil:
	case err == nil:
		s.call.ends(judgeError(f.Err).Outcome, string(f.Err.Reason), "the agent ended its stream with an error")
		s.state = openFailed
		return f, nil
	case ctx.Err() != nil:
		s.state = openLeft
		return a2a.Frame{}, err
	default:
		return s.fail(s.broke(err)), nil
	}
	known := s.call.sees.owned
	if refusal := s.g.accepted(ctx, s.call, f); refusal != nil {
		return s.fail(refusal), nil
	}
	if f.Facts.Kind == a2a.KindMessage {
		s.state = openAnswered
		s.call.ends(outcomeOf(s.call.req.Method, f.Facts), "", "")
		return f, nil
	}
	if err := s.relay(ctx, f, !known); err != nil {
		return s.fail(s.g.unbound(ctx, s.call, err).Err), nil
	}
	return s.sub.Next(ctx)
}

func (s *openedStream) fail(e *a2a.Error) a2a.Frame {
	s.state = openFailed
	return a2a.Frame{Err: e}
}

// read waits for the agent's first frame, the caller's leaving, or the mesh's own
// ending of the exchange, whichever is first.
func (s *openedStream) read(ctx context.Context) (a2a.Frame, error) {
	both, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	stop := context.AfterFunc(s.exchange, func() { cancel(context.Cause(s.exchange)) })
	defer stop()
	return s.inner.Next(both)
}

// broke is what the caller is told of a stream that ended before it showed
// anything.
func (s *openedStream) broke(err error) *a2a.Error {
	if err == io.EOF {
		err = a2a.ErrEndEarly
	}
	if s.call.placing.home != nil && s.exchange.Err() == nil {
		s.g.standings.failed(placeOf(s.call.target), false, s.g.Now())
	}
	return s.g.unanswered(s.exchange, s.call, err).Err
}

// relay hands the stream over to the hub of the task that it has shown, for the
// first time where fresh says so.
func (s *openedStream) relay(ctx context.Context, first a2a.Frame, fresh bool) error {
	c := s.call
	sees := *c
	sees.record.Steps = nil
	src := &source{
		inner: s.inner, sees: &sees, first: &first, fresh: fresh, id: c.record.ID,
		exchange: s.exchange, cancel: s.cancel, done: s.done,
	}
	sub := s.g.subscriber(c, c.sees.key)
	if c.resumes { // from the journal on
		sub.seq = c.after
	} else {
		sub.started = make(chan struct{})
	}
	src.subs = []*subscription{sub}
	if c.asks().Method.Sends() {
		sub.turn = &turn{c: c}
		sub.turn.left.Store(2)
		src.turn = sub.turn
	} else {
		src.id = parley.NewCallID()
		s.g.account(src)
	}
	if err := s.g.feed(context.WithoutCancel(ctx), c.sees.key, src); err != nil {
		if src.turn == nil {
			src.done()
			s.done = func() {} // the source's has ended the exchange
		}
		return err
	}
	s.sub = sub
	return nil
}

// Close ends the caller's side. It is called once the caller has been told the
// last frame, or is gone.
func (s *openedStream) Close() error {
	if s.sub != nil {
		return s.sub.Close()
	}
	err := s.inner.Close()
	if s.state != openClosed {
		s.ended()
		s.state = openClosed
	}
	return err
}

// ended settles the call of a stream that has shown no task.
func (s *openedStream) ended() {
	g, c := s.g, s.call
	s.done()
	g.streams.give(c.record.Caller)
	g.Calls.Stream(context.Background(), -1)
	c.record.BytesOut = s.bytes
	switch {
	case c.record.Outcome != parley.OutcomeOpen: // known
	case !c.asks().Method.Sends(): // a subscription has no end of its own
		c.ends(parley.OutcomeOK, "", "")
	case c.sees.key != (call.TaskKey{}): // a further turn: the task goes on
	case s.state == openFailed || s.state == openEnded:
		c.ends(parley.Judge(parley.ShapeCut).Outcome, string(parley.ShapeCut), unansweredMessages[parley.ShapeCut])
	default:
		c.ends(parley.Judge(parley.ShapeCallerGone).Outcome, string(parley.ShapeCallerGone), "the caller left before the agent named a task")
	}
	g.over(c)
}
