package gateway

import (
	"context"
	"errors"
	"io"
	"time"

	"github.com/parley-mesh/parley/internal/a2a"
	"github.com/parley-mesh/parley/internal/call"
	"github.com/parley-mesh/parley/internal/parley"
)

// acceptedStream passes an agent's frames on, accepts each, and ends the record
// when the stream ends.
type acceptedStream struct {
	gateway  *Gateway
	call     *Call
	inner    a2a.Stream
	exchange context.Context
	done     func() // ends the exchange

	rests   bool // a final or interrupted state, or a message, was passed on
	final   bool // a final state or a message was passed on
	ended   bool // an error frame was passed on
	over    bool // the agent's own end was passed on
	gone    bool // the caller left
	stopped bool // the mesh stops, or the caller was frozen
	bytes   int64
}

// Next gives the next accepted frame. A stream that the agent ends before the
// task came to rest is an error, never a success.
func (s *acceptedStream) Next(ctx context.Context) (a2a.Frame, error) {
	if s.ended {
		return a2a.Frame{}, io.EOF
	}
	frame, err := s.next(ctx)
	switch {
	case err == nil && frame.Err == nil:
		frame, err = s.accept(ctx, frame)
	case err == nil:
		s.call.ends(judgeError(frame.Err).Outcome, string(frame.Err.Reason), "the agent ended its stream with an error")
	case s.rests && (err == io.EOF || errors.Is(err, errLingers)):
		s.over = true
		return a2a.Frame{}, io.EOF
	case ctx.Err() != nil:
		s.gone = true
		return a2a.Frame{}, err
	default:
		frame, err = s.broke(err), nil
	}
	if frame.Err != nil {
		s.ended = true
	}
	s.bytes += int64(max(len(frame.Raw), len(frame.Result)))
	if s.call.record.FirstByte == 0 {
		s.call.record.FirstByte = s.gateway.Now().Sub(s.call.arrived)
	}
	return frame, err
}

// next waits for the agent's next frame, the caller's leaving, or the mesh's
// own ending of the exchange, whichever is first.
func (s *acceptedStream) next(ctx context.Context) (a2a.Frame, error) {
	both, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	stop := context.AfterFunc(s.exchange, func() { cancel(context.Cause(s.exchange)) })
	defer stop()
	if !s.final {
		return s.inner.Next(both)
	}
	timer := time.AfterFunc(finalGrace, func() { cancel(errLingers) })
	defer timer.Stop()
	frame, err := s.inner.Next(both)
	if err != nil && errors.Is(context.Cause(both), errLingers) {
		err = errLingers
	}
	return frame, err
}

// finalGrace is how long an agent may hold its stream open behind the frame
// that ends the task. Nothing can follow (A2A 1.0, section 3.1.2), and an
// agent that forgets must not hold its caller and the record.
const finalGrace = time.Second

// errLingers says that an agent holds a stream open which has had its end.
var errLingers = errors.New("the agent holds its stream open after its end")

// accept checks one frame and makes a task that it shows first the caller's
// before the caller sees it.
func (s *acceptedStream) accept(ctx context.Context, frame a2a.Frame) (a2a.Frame, error) {
	c, g := s.call, s.gateway
	facts := frame.Facts
	if err := g.notice(ctx, c, facts); err != nil {
		return a2a.Frame{Err: g.unbound(ctx, c, err).Err}, nil
	}
	if facts.Kind == a2a.KindTask {
		c.sees.snapshot = g.taskObject(frame.Result)
	} else if facts.Kind != a2a.KindMessage {
		c.sees.snapshot = nil // older than what was just seen
	}
	if err := g.bind(ctx, c); err != nil {
		return a2a.Frame{Err: g.unbound(ctx, c, err).Err}, nil
	}
	if facts.Kind == a2a.KindMessage {
		c.wants = nil // there is no task to tell of
	}
	if err := g.subscribeInline(ctx, c); err != nil {
		return a2a.Frame{Err: g.unbound(ctx, c, err).Err}, nil
	}
	if facts.Final() || facts.Interrupted() {
		s.rests = true
	} else if facts.State != "" {
		s.rests = false // an interrupted task went on
	}
	if facts.Final() {
		s.final = true
		c.ends(outcomeOf(c.req.Method, facts), "", "")
	}
	return frame, nil
}

// broke is the last frame of a stream that ended before the task came to rest.
func (s *acceptedStream) broke(err error) a2a.Frame {
	if err == io.EOF {
		err = a2a.ErrEndEarly
	}
	cause := context.Cause(s.exchange)
	s.stopped = errors.Is(cause, errShutdown) || errors.Is(cause, errFrozen)
	if s.call.placing.home != nil && s.exchange.Err() == nil {
		s.gateway.standings.failed(placeOf(s.call.target), false, s.gateway.Now())
	}
	return a2a.Frame{Err: s.gateway.unanswered(s.exchange, s.call, err).Err}
}

// Close ends the exchange and the record. It is called once the caller has
// been told the last frame, or is gone.
func (s *acceptedStream) Close() error {
	err := s.inner.Close()
	if s.done != nil {
		s.done()
		s.done = nil
		s.gateway.streamEnded(s)
	}
	return err
}

// streamEnded settles the call of a stream. A caller who leaves while the task
// works has not ended the call: it waits for the task like any other.
func (g *Gateway) streamEnded(s *acceptedStream) {
	c := s.call
	c.record.BytesOut = s.bytes
	// Closed before its end and with no error: the caller did not take it all.
	gone := s.gone || !s.over && !s.ended
	knows := c.sees.key != (call.TaskKey{})
	switch {
	case c.record.Outcome != parley.OutcomeOpen: // known
	case !c.req.Method.Sends(): // a subscription has no end of its own
		c.ends(parley.OutcomeOK, "", "")
	case knows && (gone || s.rests || s.stopped): // the task goes on
	case gone:
		c.ends(parley.Judge(parley.ShapeCallerGone).Outcome, string(parley.ShapeCallerGone), "the caller left before the agent named a task")
	default:
		c.ends(parley.Judge(parley.ShapeCut).Outcome, string(parley.ShapeCut), unansweredMessages[parley.ShapeCut])
	}
	g.lap(c, "stream")
	ctx := context.WithoutCancel(s.exchange)
	if err := g.write(ctx, c, false); err != nil {
		g.Log.Error("call not settled", "call", c.record.ID, "agent", c.record.Agent, "err", err)
	}
	g.close(ctx, c)
	g.Calls.Stream(ctx, -1)
}
