package a2a

import (
	"errors"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/parley-mesh/parley/internal/a2a/v03"
	"github.com/parley-mesh/parley/internal/jsonwire"
)

// This file writes answers in the forms of version 0.3.

// oldReply gives a unary answer its 0.3 form, or says what cannot be said in it.
func (q *Request) oldReply(rep *Reply) *Reply {
	if q.Method == GetExtendedCard {
		return rep // a card that is served reads in both versions
	}
	result := rep.Result
	if result == nil {
		result = jsontext.Value("{}")
	}
	out := *rep
	raw, err := v03.ResultFromV1(string(q.Method), dialectOf(q.Binding), result, roomier(q.opt.Limits))
	if err != nil {
		return &Reply{Err: Unsayable(err), Header: rep.Header}
	}
	out.Result = raw
	return &out
}

// oldFrame gives a frame of a stream its 0.3 form. One that cannot have it becomes
// an error, which ends the stream.
func (q *Request) oldFrame(f *Frame) {
	raw, err := v03.EventFromV1(dialectOf(q.Binding), f.Result, roomier(q.opt.Limits))
	if err != nil {
		*f = Frame{Err: Unsayable(err)}
		return
	}
	f.Result = raw
}

// Unsayable is the error for an answer of an agent that 0.3 has no words for.
func Unsayable(err error) *Error {
	return NewError(ReasonInvalidAgentResponse, "the agent's answer cannot be said in A2A %s: %s; use A2A %s", V03, err, V10)
}

// endsOld tells whether a frame, in its 1.0 form, is the final one of a 0.3 stream:
// callers stop reading at an event that says so.
func endsOld(f *Frame) bool {
	raw, ok := jsonwire.Get(f.Result, "/statusUpdate/status/state")
	state := enumValue(raw, taskStates)
	return ok && (state.Terminal() || state == StateInputRequired)
}

// rpcError is the error object in the version the call is answered in.
func (q *Request) rpcError(e *Error) jsontext.Value {
	object := e.RPC()
	if !q.old {
		return object
	}
	raw, err := v03.ErrorFromV1(object, jsonwire.Limits{})
	if err != nil {
		return jsontext.Value(`{"code":-32603,"message":"the error could not be written"}`)
	}
	return raw
}

// oldStatus is the body of an HTTP error in 0.3, which leaves it open. SDKs read
// either the error object of JSON-RPC, or the google.rpc.Status that 1.0 has.
type oldStatus struct {
	Code    jsontext.Value `json:"code"`
	Message jsontext.Value `json:"message"`
	Data    jsontext.Value `json:"data,omitzero"`
	Error   jsontext.Value `json:"error"`
}

// restError is the body of an HTTP error in the version the call is answered in.
func (q *Request) restError(e *Error) jsontext.Value {
	status := e.REST()
	if !q.old {
		return status
	}
	object := q.rpcError(e)
	var body oldStatus
	body.Code, _ = jsonwire.Get(object, "/code")
	body.Message, _ = jsonwire.Get(object, "/message")
	body.Data, _ = jsonwire.Get(object, "/data")
	body.Error, _ = jsonwire.Get(status, "/error")
	raw, err := jsonwire.Marshal(body)
	if err != nil {
		return status
	}
	return raw
}

// Untold is what comes of a request that cannot be put into the endpoint's terms:
// an error to the caller where the endpoint's version has no words for it.
func (q *Request) Untold(err error) (*Reply, error) {
	if e := unsaid(err); e != nil {
		return Fail(e), nil
	}
	return nil, &TransportError{Stage: StageDial, Err: err}
}

// unsaid is the error for a request that 0.3 has no words for; nil if that is not
// what is wrong.
func unsaid(err error) *Error {
	if _, ok := errors.AsType[v03.Problems](err); !ok && !errors.Is(err, v03.ErrNoMethod) {
		return nil
	}
	return UnsupportedOperation("the agent speaks A2A %s: %s", V03, err)
}
