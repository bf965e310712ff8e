package a2a

import (
	"context"
	"fmt"
	"strconv"

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
	if x.q.Method.Streaming() {
		return x.client.frameLimits()
	}
	return x.client.Limits
}

// frameLimits are those of an event.
func (c *Client) frameLimits() jsonwire.Limits {
	l := c.Limits
	if c.MaxFrame > 0 {
		l.MaxBytes = max(l.Bytes(), int64(c.MaxFrame))
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

// leadingStream is the answer of a 0.3 agent to a message, which begins in the way of
// 1.0: with the task, or a message. Where the first frame is neither, as much of the
// task as that tells goes before.
type leadingStream struct {
	Stream
	limits jsonwire.Limits
	led    bool
	held   *Frame // what came before the task was shown
}

// Next implements Stream.
func (s *leadingStream) Next(ctx context.Context) (Frame, error) {
	if f := s.held; f != nil {
		s.held = nil
		return *f, nil
	}
	f, err := s.Stream.Next(ctx)
	if s.led || err != nil || f.Err != nil {
		return f, err
	}
	s.led = true
	if f.Facts.Kind != KindStatusUpdate && f.Facts.Kind != KindArtifactUpdate {
		return f, nil
	}
	status, _ := jsonwire.Get(f.Result, "/statusUpdate/status")
	if status == nil {
		status = jsontext.Value(`{"state":"` + StateWorking + `"}`) // it makes artifacts
	}
	task := append(jsontext.Value(`{"task":{"id":`), jsonwire.Quote(f.Facts.TaskID)...)
	task = append(append(task, `,"contextId":`...), jsonwire.Quote(f.Facts.ContextID)...)
	task = append(append(append(task, `,"status":`...), status...), "}}"...)
	sink := new(factSink)
	sink.reset()
	if operations[SendStreamingMessage].result.Check(task, jsonwire.CheckOptions{Sink: sink, Lax: true, Limits: s.limits}) != nil {
		return f, nil
	}
	s.held = &f
	return Frame{Result: task, Facts: &sink.facts}, nil
}
