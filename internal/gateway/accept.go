package gateway

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/parley-mesh/parley/internal/a2a"
	"github.com/parley-mesh/parley/internal/call"
	"github.com/parley-mesh/parley/internal/jsonwire"
	"github.com/parley-mesh/parley/internal/parley"
)

// accept checks the agent's answer before the caller sees it: ids that belong
// to somebody else are a crash and never re-owned.
func (g *Gateway) accept(ctx context.Context, c *Call, reply *a2a.Reply) *a2a.Reply {
	switch {
	case reply.Stream != nil:
		return reply // each frame is accepted as it passes
	case reply.Err != nil && (reply.Err.HTTP == http.StatusUnauthorized || reply.Err.HTTP == http.StatusForbidden) && c.record.Outcome == parley.OutcomeOpen:
		return g.refusedByAgent(c, reply.Err)
	case reply.Err != nil:
		if c.record.Outcome == parley.OutcomeOpen { // the agent said so
			c.ends(judgeError(reply.Err).Outcome, string(reply.Err.Reason), "the agent answered with an error")
		}
		return reply
	}
	facts := &reply.Facts
	if err := g.notice(ctx, c, facts); err != nil {
		return g.unbound(ctx, c, err)
	}
	if facts.Kind != a2a.KindMessage && facts.TaskID != "" {
		c.sees.snapshot = g.taskObject(reply.Result)
	}
	c.ends(outcomeOf(c.req.Method, facts), "", "")
	g.lap(c, "accept")
	return reply
}

// refusedByAgent is the answer where the agent does not take the mesh's own
// credential. Its 401 is not passed on: it would tell the caller that the
// caller's credential is wrong.
func (g *Gateway) refusedByAgent(c *Call, e *a2a.Error) *a2a.Reply {
	c.ends(parley.JudgeHTTP(e.HTTP).Outcome, string(e.Reason), "the agent does not take the mesh's credential; set it with: parley agent auth "+string(c.record.Agent))
	g.Log.Warn("agent refused the mesh's credential", "agent", c.record.Agent, "call", c.record.ID, "err", e)
	return a2a.Fail(a2a.NewError(a2a.ReasonUnavailable, "the agent does not take the mesh's credential; its operator has to set it"))
}

// outcomeOf is how a call ends whose answer was received. Only calls that send
// a message stay open with their task; the others have done what they were for.
func outcomeOf(m a2a.Method, f *a2a.Facts) parley.Outcome {
	if !m.Sends() || f.Kind == a2a.KindMessage {
		return parley.OutcomeOK
	}
	return parley.Judge(parley.Shape(f.State)).Outcome
}

// bind makes a task that a stream shows for the first time the caller's,
// durably, before the caller is told its id: else a crash of the mesh would
// leave the caller with a task that nobody may see.
func (g *Gateway) bind(ctx context.Context, c *Call) error {
	if !c.newTask() {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), storeTimeout)
	defer cancel()
	row := c.record
	row.End = call.End{}
	s := call.Settlement{Record: &row, Insert: !c.begun, Task: c.indexed(g.Now()), Context: c.sees.context}
	if !c.begun {
		s.Record = nil
	}
	if err := g.Journal.Settle(ctx, s, true); err != nil {
		return err
	}
	c.sees.owned, c.sees.changed = true, false
	if c.begun {
		g.open.follow(c.record.ID, c.sees.key)
	}
	return nil
}

// unbound is the answer where what the agent answered is not the caller's or
// could not be made so.
func (g *Gateway) unbound(ctx context.Context, c *Call, err error) *a2a.Reply {
	if errors.Is(err, errForeign) || parley.KindOf(err) == parley.Denied {
		return g.foreign(ctx, c)
	}
	c.record.Outcome, c.record.Reason = parley.OutcomeOpen, ""
	c.ends(parley.OutcomeUnknown, string(parley.ShapeStore), "the agent's answer could not be recorded")
	g.Log.Error("answer not recorded", "call", c.record.ID, "agent", c.record.Agent, "err", err)
	return a2a.Fail(protocolError(parley.Unavailable, "the agent answered, and the answer could not be recorded; the agent may have done the work"))
}

// foreign is the answer where the agent answered with somebody else's id, or
// with another task than the one the call is about. Nothing of it is shown or
// kept.
func (g *Gateway) foreign(ctx context.Context, c *Call) *a2a.Reply {
	c.sees = seen{}
	c.record.TaskID, c.record.TaskState = c.req.Facts.TaskID, ""
	c.record.Outcome = parley.OutcomeOpen
	return g.unanswered(ctx, c, errForeign)
}

// errForeign says that an answer was about something of somebody else's.
var errForeign = errors.New("the answer names a task or context of another principal")

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
	gone    bool // the caller left
	stopped bool // the mesh stops
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
	if err != nil && context.Cause(both) == errLingers {
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
	facts := &frame.Facts
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
	s.stopped = errors.Is(context.Cause(s.exchange), errShutdown)
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
	knows := c.sees.key != (call.TaskKey{})
	switch {
	case c.record.Outcome != parley.OutcomeOpen: // known
	case !c.req.Method.Sends(): // a subscription has no end of its own
		c.ends(parley.OutcomeOK, "", "")
	case knows && (s.gone || s.rests || s.stopped): // the task goes on
	case s.gone:
		c.ends(parley.Judge(parley.ShapeCallerGone).Outcome, string(parley.ShapeCallerGone), "the caller left before the agent named a task")
	default:
		c.ends(parley.Judge(parley.ShapeCut).Outcome, string(parley.ShapeCut), unansweredMessages[parley.ShapeCut])
	}
	g.lap(c, "stream")
	ctx := context.WithoutCancel(c.http.Context())
	if err := g.write(ctx, c, false); err != nil {
		g.Log.Error("call not settled", "call", c.record.ID, "agent", c.record.Agent, "err", err)
	}
	g.close(ctx, c)
	g.Calls.Stream(ctx, -1)
}

// taskObject is a copy of the Task inside a result: as it stands there, or the
// result itself where the method answers with a bare task. One over the size
// limit is not kept.
func (g *Gateway) taskObject(result jsontext.Value) []byte {
	task, ok := jsonwire.Get(result, "/task")
	if !ok {
		task = result
	}
	if len(task) > g.Limits.Snapshot {
		return nil
	}
	return bytes.Clone(task)
}
