package gateway

import (
	"context"
	"crypto/sha256"
	"errors"
	"io"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/parley-mesh/parley/internal/a2a"
	"github.com/parley-mesh/parley/internal/call"
	"github.com/parley-mesh/parley/internal/jsonwire"
	"github.com/parley-mesh/parley/internal/parley"
)

// reasonRepeated is the reason in the record of a call whose message was sent
// before.
const reasonRepeated = "repeated"

// How often a repeated send looks whether the first one has come further.
const (
	firstPoll = 20 * time.Millisecond
	lastPoll  = time.Second
)

// identifyMessage notes what tells the message of a send from others, so that
// one that is sent again is known as such. Anonymous callers are one principal
// and many people, who may well choose the same id.
func (g *Gateway) identifyMessage(c *Call) {
	if !c.req.Method.Sends() || c.record.MessageID == "" || c.anonymous() || g.MessageWindow <= 0 {
		return
	}
	message, ok := jsonwire.Get(c.req.Params, "/message")
	if !ok {
		return
	}
	// The same message may come by another binding, or with its members in
	// another order.
	plain := message.Clone()
	if plain.Canonicalize() != nil {
		return // it was checked, so that this does not happen
	}
	sum := sha256.Sum256(plain)
	sent := &call.Sent{Window: g.MessageWindow}
	copy(sent.Digest[:], sum[:])
	c.record.Sent = sent
}

// unsent reports whether nothing of the call's message was taken by the agent,
// so that its caller may send it again: it was not reached, or refused the
// message for the moment.
func (c *Call) unsent(reply *a2a.Reply) bool {
	if c.record.Sent == nil || c.sees.key != (call.TaskKey{}) && !c.sees.owned {
		return false
	}
	switch parley.Shape(c.record.Reason) {
	case parley.ShapeDial, parley.ShapeToken:
		return true
	}
	switch {
	case c.record.Outcome == parley.OutcomeDenied:
		return true
	case reply.Err == nil || c.record.Outcome == parley.OutcomeUnknown:
		return false
	}
	switch reply.Err.HTTP { // the agent's own word that it has not begun
	case 401, 403, 429, 503:
		return c.record.Outcome == parley.OutcomeAgentError || c.record.Outcome == parley.OutcomeCrash && reply.Err.Bare
	}
	return false
}

// repeat answers a message that was sent before with what became of the first
// one. The agent is not sent it again: the caller learns of the task as it is by
// now, or why there is none (A2A 1.0, section 3.3.1).
func (g *Gateway) repeat(ctx context.Context, c *Call, r *call.RepeatedError) *a2a.Reply {
	c.read = true
	if !r.Same {
		err := a2a.InvalidParams(a2a.FieldViolation{Field: "message.messageId", Description: "is that of another message, sent in call " + r.First.String() + "; give each message an id of its own"})
		return g.refuse(c, err)
	}
	first, err := g.outcomeOfFirst(ctx, r.First)
	if err != nil {
		return g.refuse(c, err)
	}
	if first.TaskState != "" {
		key := call.TaskKey{Agent: first.Agent, Instance: first.Instance, ID: first.TaskID}
		return g.repeatTask(ctx, c, key, sentBefore(first))
	}
	g.lap(c, "repeat")
	c.ends(parley.OutcomeDenied, reasonRepeated, sentBefore(first))
	return &a2a.Reply{Err: repeatedFailure(first)}
}

// outcomeOfFirst waits until the first call has ended or has shown its task, as
// long as an agent may take for an answer.
func (g *Gateway) outcomeOfFirst(ctx context.Context, id parley.CallID) (*call.Record, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, g.limits().Unary, errDeadline)
	defer cancel()
	for wait := firstPoll; ; wait = min(2*wait, lastPoll) {
		first, err := g.Journal.Call(ctx, id)
		switch {
		case err == nil && (first.TaskState != "" || !first.Open()): // a turn names its task from the beginning
			return first, nil
		case err != nil && parley.KindOf(err) != parley.NotFound:
			return nil, err
		}
		timer := time.NewTimer(wait)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			kind := parley.Timeout
			if !errors.Is(context.Cause(ctx), errDeadline) {
				kind = parley.Canceled
			}
			return nil, parley.E("gateway.repeat", kind, parley.Subject(id.String()), "the message was sent before, in call "+id.String()+", which the agent has not answered yet; it is not sent again", nil)
		}
	}
}

func sentBefore(first *call.Record) string {
	return "the message was sent before, in call " + first.ID.String()
}

// repeatedFailure says why the first call led to no task.
func repeatedFailure(first *call.Record) *a2a.Error {
	before := sentBefore(first)
	const again = "; it is not sent again: give it a new messageId to have the agent work on it once more"
	switch {
	case first.Outcome == parley.OutcomeOK:
		return a2a.InvalidParams(a2a.FieldViolation{Field: "message.messageId", Description: "was sent before, in call " + first.ID.String() + ", and answered with a message, which the mesh does not keep" + again})
	case a2a.Reason(first.Reason).InA2A() && first.Outcome != parley.OutcomeCrash:
		return a2a.NewError(a2a.Reason(first.Reason), "%s, and the agent answered with this error%s", before, again)
	case first.Outcome == parley.OutcomeTimeout:
		return a2a.NewError(a2a.ReasonTimeout, "%s, and the agent did not answer in time: it may have done the work%s", before, again)
	}
	return a2a.NewError(a2a.ReasonInternal, "%s, and what came of it is in doubt: the agent may have done the work%s", before, again)
}

// repeatTask answers with the task of the first call, as it is now: where the
// agent cannot be asked, as it was seen last.
func (g *Gateway) repeatTask(ctx context.Context, c *Call, key call.TaskKey, detail string) *a2a.Reply {
	known, err := g.Journal.Task(ctx, key)
	switch {
	case err != nil && parley.KindOf(err) != parley.NotFound:
		return g.refuse(c, err)
	case err != nil || known.Principal != c.record.Caller:
		return g.refuse(c, a2a.TaskNotFound(key.ID))
	}
	c.sees = seen{key: key, state: known.State, statusAt: known.StatusAt, owned: true, context: known.ContextID}
	c.record.TaskID, c.record.TaskState, c.record.ContextID, c.record.Instance = key.ID, known.State, known.ContextID, key.Instance
	if !known.Final || known.Snapshot == nil {
		askCtx, cancel := context.WithTimeout(ctx, g.watch.opts.Timeout)
		fresh, err := g.peek(askCtx, key)
		cancel()
		if err == nil {
			known = fresh
			c.sees.state, c.sees.statusAt, c.record.TaskState = fresh.State, fresh.StatusAt, fresh.State
		} else {
			g.Log.Debug("task of a repeated message not seen", "agent", key.Agent, "call", c.record.ID, "err", err)
		}
	}
	if err := g.mayAsk(c); err != nil {
		return &a2a.Reply{Err: err}
	}
	c.ends(parley.OutcomeOK, reasonRepeated, detail)
	if c.req.Method.Streaming() && !known.Final && !a2a.TaskState(known.State).Interrupted() {
		return g.repeatStream(ctx, c, key)
	}
	g.lap(c, "repeat")
	raw, err := taskAnswer(known, c.req.Facts.HistoryLength)
	if err != nil {
		return g.refuse(c, err)
	}
	facts := a2a.Facts{Kind: a2a.KindTask, TaskID: known.ID, ContextID: known.ContextID, State: a2a.TaskState(known.State), HistoryLength: -1}
	if c.req.Method.Streaming() {
		return &a2a.Reply{Stream: &oneFrame{g: g, call: c, frame: a2a.Frame{Result: raw, Facts: &facts}}}
	}
	return &a2a.Reply{Result: raw, Facts: facts}
}

// repeatStream follows the task that the first call has begun.
func (g *Gateway) repeatStream(ctx context.Context, c *Call, key call.TaskKey) *a2a.Reply {
	if reply, ok := g.subscribe(ctx, c); ok {
		return reply
	}
	params, err := jsonwire.Marshal(a2a.SubscribeToTaskRequest{ID: key.ID})
	if err != nil {
		return g.refuse(c, err)
	}
	if home := c.placing.home; home != nil {
		t := home.At(key.Instance)
		if t == nil {
			return g.refuse(c, parley.E("gateway.repeat", parley.Unavailable, parley.Subject(key.Agent), "the instance of the agent where this lives was removed", nil))
		}
		c.moveTo(t)
		c.placing.moves = false
	}
	c.instead = &a2a.Request{Method: a2a.SubscribeToTask, Params: params, Version: a2a.V10, Extensions: c.req.Extensions}
	return g.accept(ctx, c, g.forward(ctx, c))
}

// taskAnswer is the answer to a send, or a frame, that holds a task of the index.
func taskAnswer(t *call.Task, history int) (jsontext.Value, error) {
	yes := true
	params := a2a.ListTasksRequest{IncludeArtifacts: &yes}
	if history >= 0 {
		n := int32(history)
		params.HistoryLength = &n
	}
	raw, err := listed(t, params)
	if err != nil {
		return nil, err
	}
	return jsonwire.Marshal(map[string]jsontext.Value{"task": raw})
}

// oneFrame is a stream of one frame, which the mesh tells by itself. Its call ends
// with it.
type oneFrame struct {
	g     *Gateway
	call  *Call
	frame a2a.Frame

	given, closed bool
}

// Next implements a2a.Stream.
func (s *oneFrame) Next(context.Context) (a2a.Frame, error) {
	if s.given {
		return a2a.Frame{}, io.EOF
	}
	s.given = true
	c := s.call
	c.record.BytesOut, c.record.FirstByte = int64(len(s.frame.Result)), s.g.Now().Sub(c.arrived)
	return s.frame, nil
}

// Close implements a2a.Stream.
func (s *oneFrame) Close() error {
	if !s.closed {
		s.closed = true
		s.g.Calls.Stream(context.Background(), -1)
		s.g.over(s.call)
	}
	return nil
}
