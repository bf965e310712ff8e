package a2a

import (
	"fmt"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/parley-mesh/parley/internal/jsonwire"
)

// NewRequest makes a request from a typed request message, for Client.Do. It
// checks what a server would check. Version is 1.0, Binding is none.
func NewRequest(m Method, params any) (*Request, error) {
	raw, err := jsonwire.Marshal(params)
	if err != nil {
		return nil, fmt.Errorf("encode %s request: %w", m, err)
	}
	op, ok := operations[m]
	if !ok {
		return nil, fmt.Errorf("there is no method %q", m)
	}
	q := &Request{Version: V10, Method: m, Params: raw}
	var sink factSink
	sink.reset()
	if problems := op.request.Check(raw, jsonwire.CheckOptions{Sink: &sink}); problems != nil {
		return nil, fromProblems(problems)
	}
	if err := q.take(&sink); err != nil {
		return nil, err
	}
	return q, nil
}

// Decode reads the request message of q into its typed form. ReadBody has
// checked it, so it fails only for a type that is not the method's.
func (q *Request) Decode(into any) error {
	if problems := jsonwire.UnmarshalAll(q.Params, into, jsonwire.CheckOptions{Limits: q.opt.Limits}); problems != nil {
		return fmt.Errorf("decode %s request: %w", q.Method, problems[0])
	}
	return nil
}

// Answer is a Reply with a typed result. It checks that the result is what the
// method may answer, so that an agent's mistake does not reach the wire: it
// becomes an internal error.
func Answer(m Method, result any) *Reply {
	raw, facts, err := encodeResult(m, result)
	if err != nil {
		return Fail(Internal("the agent made an invalid answer"))
	}
	return &Reply{Result: raw, Facts: facts}
}

// StreamFrame is a Frame with a typed element.
func StreamFrame(element StreamResponse) Frame {
	raw, facts, err := encodeResult(SendStreamingMessage, element)
	if err != nil {
		return Frame{Err: Internal("the agent made an invalid event")}
	}
	return Frame{Result: raw, Facts: &facts}
}

func encodeResult(m Method, result any) (jsontext.Value, Facts, error) {
	raw, err := jsonwire.Marshal(result)
	if err != nil {
		return nil, Facts{}, err
	}
	var sink factSink
	sink.reset()
	if shape := operations[m].result; shape != nil {
		if problems := shape.Check(raw, jsonwire.CheckOptions{Sink: &sink}); problems != nil {
			return nil, Facts{}, problems[0]
		}
	}
	return raw, sink.of(m), nil
}
