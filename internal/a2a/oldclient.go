package a2a

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"sync"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/parley-mesh/parley/internal/a2a/v03"
	"github.com/parley-mesh/parley/internal/jsonwire"
)

// This file sends requests to agents of version 0.3 and reads their answers.

// passes tells whether the body of q and the answer to it can pass an endpoint as
// they are.
func (q *Request) passes(ep Endpoint) bool {
	return q.Binding == ep.Binding && q.old == ep.old()
}

// rawOld is the body as it came, where it is one of 0.3 in that binding and says
// what the request says.
func (q *Request) rawOld(b Binding) bool {
	return q.old && q.Binding == b && !q.edited && len(q.Raw) > 0
}

// oldRPCBody writes the JSON-RPC body for an agent of 0.3.
func (q *Request) oldRPCBody() (body []byte, id jsontext.Value, err error) {
	if q.rawOld(JSONRPC) {
		return q.Raw, q.ID, nil
	}
	id = ownID
	if q.old && q.Binding == JSONRPC {
		id = q.ID // the answer goes back as it comes
	}
	params, err := q.oldParams(v03.RPC)
	if err != nil {
		return nil, nil, err
	}
	return jsonwire.AppendCall(make([]byte, 0, len(params)+80), id, v03.RPCMethod(string(q.Method)), params), id, nil
}

// oldBody writes the REST body for an agent of 0.3; nil for none.
func (q *Request) oldBody() ([]byte, error) {
	switch {
	case !q.Method.Sends() && q.Method != CreatePushConfig:
		return nil, nil
	case q.rawOld(HTTPJSON):
		return q.Raw, nil
	}
	return q.oldParams(v03.Proto)
}

// oldParams translates the request object.
func (q *Request) oldParams(d v03.Dialect) ([]byte, error) {
	params, err := q.WithoutTenant()
	if err != nil {
		return nil, err
	}
	return v03.RequestFromV1(string(q.Method), d, params, roomier(q.opt.Limits))
}

// translate brings a JSON-RPC answer of 0.3 into the terms of 1.0 and takes its
// facts.
func (x *exchange) translate(answer *jsonwire.Answer, sink *factSink) (err error) {
	if answer.Error == nil {
		answer.Result, err = x.translateResult(answer.Result, sink)
		return err
	}
	if answer.Error, err = v03.ErrorToV1(answer.Error, x.client.Limits); err != nil {
		return fmt.Errorf("%w: %w", ErrNotA2A, err)
	}
	return nil
}

// translateResult brings a result, or an element of a stream, into the terms of
// 1.0, and checks it by its rules.
func (x *exchange) translateResult(raw []byte, sink *factSink) (jsontext.Value, error) {
	d := dialectOf(x.binding)
	var out []byte
	var err error
	switch {
	case x.q.Method == GetExtendedCard:
		out = raw
	case x.q.Method.Streaming():
		out, err = v03.EventToV1(d, raw, x.limits())
	default:
		out, err = v03.ResultToV1(string(x.q.Method), d, raw, x.limits())
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrNotA2A, err)
	}
	if shape := x.resultShape(); shape != nil {
		opt := x.checkOptions(sink)
		opt.Limits = roomier(x.limits())
		if problems := shape.Check(out, opt); problems != nil {
			return nil, fmt.Errorf("%w: %w", ErrNotA2A, problems[0])
		}
	}
	return out, nil
}

// limits are those of one answer or event.
func (x *exchange) limits() jsonwire.Limits {
	l := x.client.Limits
	if x.q.Method.Streaming() && x.client.MaxFrame > 0 {
		l.MaxBytes = max(l.Bytes(), int64(x.client.MaxFrame))
	}
	return l
}

// readOldREST reads an event of an agent of 0.3. Its errors have no form of their
// own there either.
func (s *clientStream) readOldREST(event string, data []byte) (Frame, error) {
	sink := new(factSink)
	sink.reset()
	result, err := s.x.translateResult(data, sink)
	if err == nil && event != "error" {
		return Frame{Result: result, Facts: &sink.facts}, nil
	}
	e := eventError(data)
	if e == nil {
		e = bareError(data)
	}
	switch {
	case e != nil:
		return Frame{Err: e}, nil
	case err == nil:
		return Frame{}, fmt.Errorf("%w: an error event that carries none", ErrNotA2A)
	}
	return Frame{}, err
}

// bareError reads {"code":…,"message":…}, the error object of JSON-RPC without a
// response around it, as 0.3 servers answer in REST; nil if it is none.
func bareError(body []byte) *Error {
	code, _ := jsonwire.Get(body, "/code")
	if n, err := strconv.Atoi(string(code)); err != nil || n > -31000 {
		return nil
	}
	object, err := v03.ErrorToV1(body, jsonwire.Limits{})
	if err != nil {
		return nil
	}
	return DecodeRPC(object)
}

// followOld subscribes to a task at an agent of 0.3, as 1.0 has it: the first frame
// shows the task, and one that has ended is refused. 0.3 promises only what happens
// next, and its servers may hold even the headers back until something does. So the
// task is asked for, and the subscription sent once its frame was taken.
func (c *Client) followOld(ctx context.Context, ep Endpoint, q *Request, header http.Header) (*Reply, error) {
	get := &Request{Version: V10, Method: GetTask, Params: append(append(jsontext.Value(`{"id":`), jsonwire.Quote(q.Facts.TaskID)...), '}')}
	task, err := c.do(ctx, ep, get, header)
	switch {
	case err != nil || task.Err != nil:
		return task, err
	case task.Facts.State.Terminal():
		return Fail(UnsupportedOperation("the task has ended as %s; get it instead", task.Facts.State)), nil
	}
	frame := Frame{Result: append(append(jsontext.Value(`{"task":`), task.Result...), '}'), Facts: &task.Facts}
	s := &oldSubscription{first: &frame}
	ctx, s.cancel = context.WithCancel(ctx)
	s.open = func() (*Reply, error) { return c.do(ctx, ep, q, header) }
	return &Reply{Status: task.Status, Received: task.Received, HeadersAt: task.HeadersAt, Stream: s}, nil
}

// oldSubscription is a stream of a 0.3 agent that is opened when it is read.
type oldSubscription struct {
	open   func() (*Reply, error) // ends when cancel is called
	cancel context.CancelFunc
	first  *Frame // nil once it was given

	mu     sync.Mutex
	inner  Stream // guarded by mu; nil until opened
	closed bool   // guarded by mu
}

// Next implements Stream.
func (s *oldSubscription) Next(ctx context.Context) (Frame, error) {
	if f := s.first; f != nil {
		s.first = nil
		return *f, nil
	}
	s.mu.Lock()
	inner := s.inner
	s.mu.Unlock()
	if inner == nil {
		stop := context.AfterFunc(ctx, s.cancel)
		reply, err := s.open()
		stop()
		switch {
		case ctx.Err() != nil:
			return Frame{}, errors.Join(ctx.Err(), s.take(reply))
		case err != nil:
			return Frame{}, err
		case reply.Err != nil:
			return Frame{Err: reply.Err}, nil
		}
		if err := s.take(reply); err != nil {
			return Frame{}, err
		}
		inner = reply.Stream
	}
	return inner.Next(ctx)
}

// take keeps the opened stream, or closes it where this one was closed meanwhile.
func (s *oldSubscription) take(reply *Reply) error {
	if reply == nil || reply.Stream == nil {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return errors.Join(errClosed, reply.Stream.Close())
	}
	s.inner = reply.Stream
	return nil
}

// Close implements Stream.
func (s *oldSubscription) Close() error {
	s.cancel()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	if s.inner == nil {
		return nil
	}
	return s.inner.Close()
}

// leading is the first frame of a stream of a 0.3 agent, given the first that
// came. In 1.0 it shows the task, or is a message: where it is neither, as much of
// the task as the event tells goes before.
func (s *clientStream) leading(f Frame) Frame {
	if f.Facts.Kind != KindStatusUpdate && f.Facts.Kind != KindArtifactUpdate {
		return f
	}
	status, _ := jsonwire.Get(f.Result, "/statusUpdate/status")
	if status == nil {
		status = jsontext.Value(`{"state":"` + StateWorking + `"}`) // it makes artifacts
	}
	task := append(jsontext.Value(`{"id":`), jsonwire.Quote(f.Facts.TaskID)...)
	task = append(append(task, `,"contextId":`...), jsonwire.Quote(f.Facts.ContextID)...)
	task = append(append(append(task, `,"status":`...), status...), '}')
	frame := append(append(jsontext.Value(`{"task":`), task...), '}')
	sink := new(factSink)
	sink.reset()
	if operations[SendStreamingMessage].result.Check(frame, jsonwire.CheckOptions{Sink: sink, Lax: true, Limits: roomier(s.x.limits())}) != nil {
		return f
	}
	s.held = &f
	return Frame{Result: frame, Facts: &sink.facts}
}
