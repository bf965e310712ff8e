package a2a

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime/debug"
	"sync/atomic"
)

// clientStream reads the frames of a peer's stream.
type clientStream struct {
	x      *exchange
	body   io.ReadCloser
	sse    *sseReader
	closed atomic.Bool
	rested bool // a message, or a task final or interrupted, was seen
	done   error
}

func newClientStream(x *exchange, body io.ReadCloser) *clientStream {
	limit := x.client.MaxFrame
	if limit <= 0 {
		limit = DefaultMaxFrame
	}
	return &clientStream{x: x, body: body, sse: newSSEReader(body, limit)}
}

// Close implements Stream.
func (s *clientStream) Close() error {
	if s.closed.Swap(true) {
		return nil
	}
	return s.body.Close()
}

// Next implements Stream. A stream that ends before a message came or the task
// was final or interrupted yields ErrEndEarly, not io.EOF.
func (s *clientStream) Next(ctx context.Context) (Frame, error) {
	if s.done != nil {
		return Frame{}, s.done
	}
	stop := context.AfterFunc(ctx, func() { _ = s.Close() })
	event, data, err := s.sse.next()
	stop()
	if err != nil {
		s.done = s.ending(ctx, err)
		return Frame{}, s.done
	}
	var f Frame
	Apart(func() { f, err = s.read(event, data) })
	if err != nil {
		s.done = &TransportError{Stage: StageStream, Wrote: true, Status: 200, Err: err}
		return Frame{}, s.done
	}
	if f.Err != nil {
		s.done = io.EOF
		return f, nil
	}
	s.rested = f.Facts.Final() || f.Facts.Interrupted() || s.rested && f.Facts.State == ""
	return f, nil
}

// ending says why no frame came.
func (s *clientStream) ending(ctx context.Context, err error) error {
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case err == io.EOF && s.rested:
		return io.EOF
	case err == io.EOF || errors.Is(err, io.ErrUnexpectedEOF):
		err = ErrEndEarly
	case errors.Is(err, errFrameTooLarge):
		err = ErrTooLarge
	}
	return &TransportError{Stage: StageStream, Wrote: true, Status: 200, Err: err}
}

// read turns an event into a frame.
func (s *clientStream) read(event string, data []byte) (f Frame, err error) {
	if s.x.binding == JSONRPC {
		f, err = s.readRPC(data)
	} else {
		f, err = s.readREST(event, data)
	}
	if err == nil && s.x.same {
		f.Raw, f.Event = data, event
	}
	return f, err
}

func (s *clientStream) readRPC(data []byte) (Frame, error) {
	answer, sink, err := s.x.parseAnswer(data)
	switch {
	case err != nil:
		return Frame{}, err
	case answer.Error != nil:
		return Frame{Err: DecodeRPC(answer.Error)}, nil
	}
	return Frame{Result: answer.Result, Facts: &sink.facts}, nil
}

// readREST reads a bare StreamResponse, or an error object: the protocol gives it
// no form inside a stream, SDKs send that of a failed call.
func (s *clientStream) readREST(event string, data []byte) (Frame, error) {
	if s.x.old {
		return s.readOldREST(event, data)
	}
	sink := new(factSink)
	sink.reset()
	problems := s.x.resultShape().Check(data, s.x.checkOptions(sink))
	if problems == nil && event != "error" {
		return Frame{Result: data, Facts: &sink.facts}, nil
	}
	if e := eventError(data); e != nil {
		return Frame{Err: e}, nil
	}
	if problems == nil {
		return Frame{}, fmt.Errorf("%w: an error event that carries none", ErrNotA2A)
	}
	return Frame{}, fmt.Errorf("%w: %w", ErrNotA2A, problems[0])
}

// eventError reads an error that came as an event; nil if it is none.
func eventError(data []byte) *Error {
	e := &Error{}
	if !e.readStatus(data) && !e.readRPC(data) && !e.readProblem(data) {
		return nil
	}
	c, ok := categoryOf(e.Reason)
	if !ok {
		c, ok = categoryByHTTP(e.HTTP, e.Status)
	}
	e.fill(c, ok)
	return e
}

// Apart runs f on a goroutine of its own and returns when f has, with f's panic.
// Checking nested JSON, or the work before a call leaves, needs twice the stack
// that waiting does, and a goroutine keeps the stack it once had: the caller's
// would be kept by every idle stream.
func Apart(f func()) {
	failed := make(chan any, 1)
	go func() { // ends with f
		defer func() {
			failure := recover()
			if failure != nil {
				failure = fmt.Sprintf("%v\n%s", failure, debug.Stack())
			}
			failed <- failure
		}()
		f()
	}()
	if failure := <-failed; failure != nil {
		panic(failure)
	}
}
