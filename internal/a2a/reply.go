package a2a

import (
	"context"
	"net/http"
	"time"

	"github.com/go-json-experiment/json/jsontext"
)

// Reply is the answer to one Request: a result, an error, or a stream.
type Reply struct {
	// Status is the HTTP status. 0 means what fits the answer.
	Status int
	// Header is sent to the caller as it is. Client.Do puts nothing there but the
	// activated extensions, and the media type that goes with Raw.
	Header http.Header
	// Result is the result object of a unary success.
	Result jsontext.Value
	// Raw is the peer's whole body. It is set where the peer speaks the caller's
	// binding, and written as it came; whoever changes Result or Err clears it.
	Raw []byte
	// Err is a failure. It may stand beside Raw, which then carries it.
	Err *Error
	// Stream is the answer to a streaming method. Respond closes it.
	Stream Stream
	// Facts tell about Result.
	Facts Facts
	// Received are all headers the peer sent, for the eyes of a gateway only.
	Received http.Header
	// HeadersAt is when the peer's answer began.
	HeadersAt time.Time
}

// Fail is a Reply that carries an error.
func Fail(err *Error) *Reply { return &Reply{Err: err} }

func (r *Reply) addHeader(name, value string) {
	if r.Header == nil {
		r.Header = http.Header{}
	}
	r.Header[name] = []string{value}
}

// Stream yields the frames of a streaming answer in order.
type Stream interface {
	// Next waits for the next frame. It returns io.EOF after the last one, the
	// context's error when ctx is done, an *Error or a *TransportError else. A
	// Frame that carries an Err is the last.
	Next(ctx context.Context) (Frame, error)
	// Close ends the stream, also while Next waits, which then returns. It may be
	// called more than once.
	Close() error
}

// Frame is one element of a stream: a StreamResponse or an error.
type Frame struct {
	Raw    []byte         // the data as it came, where the peer speaks the caller's binding; see Reply.Raw
	Event  string         // the type of the event as it came; "" for none
	Result jsontext.Value // a StreamResponse
	Err    *Error
	ID     string // under which the caller can go on behind this frame; "" for none
	Facts  *Facts // about Result; nil beside Err. Frames pass by value through every waiting stream's stack, which it keeps small
}
