package a2agrpc

import (
	"context"
	"errors"
	"io"
	"strings"
	"time"

	"google.golang.org/grpc/metadata"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/parley-mesh/parley/internal/a2a"
)

// answered are the headers of a Reply that gRPC carries; the others are HTTP's.
var answered = []string{a2a.HeaderExtensions}

// HeaderEventID is the header of a stream that tells the id of its first event.
// Those of the following ones count on from it.
const HeaderEventID = "parley-event-id"

// respond writes a reply. The error is the call's status.
func (s *Server) respond(ctx context.Context, c *Call, rep *a2a.Reply) error {
	for _, name := range answered {
		values := rep.Header.Values(name)
		if len(values) == 0 {
			continue
		}
		if name == a2a.HeaderExtensions && c.Request.Old() {
			name = a2a.HeaderOldExtensions
		}
		c.SetHeader(name, strings.Join(values, ", "))
	}
	if rep.Stream != nil {
		return s.respondStream(ctx, c, rep.Stream)
	}
	if rep.Err != nil {
		return c.fail(rep.Err, rep.Raw)
	}
	out, err := messageOf(c.Request, rep.Raw, rep.Result)
	if err != nil {
		s.opt.Log.Warn("answer has no form in gRPC", "method", c.Request.Method, "err", err)
		return c.fail(c.untranslatable(err), nil)
	}
	return c.send(ctx, out)
}

// messageOf is the message of a result: as it came, or made from its JSON.
func messageOf(q *a2a.Request, raw []byte, result jsontext.Value) ([]byte, error) {
	if raw != nil {
		return raw, nil
	}
	if q.Old() {
		out, err := oldResult(q.Method, result, q.Limits())
		if out == nil {
			out = []byte{}
		}
		return out, err
	}
	if len(result) == 0 {
		return []byte{}, nil
	}
	out, err := resultMessage(q.Method, result, q.Limits())
	if out == nil {
		out = []byte{}
	}
	return out, err
}

// untranslatable is what a caller is told of an answer that protobuf, or the caller's
// version, cannot hold.
func (c *Call) untranslatable(err error) *a2a.Error {
	if _, ok := errors.AsType[*fieldError](err); !ok && c.Request.Old() {
		return a2a.Unsayable(err)
	}
	return a2a.NewError(a2a.ReasonInvalidAgentResponse, "the agent's answer cannot be told in gRPC: %s", err)
}

// fail ends a call with an error.
func (c *Call) fail(e *a2a.Error, raw []byte) error {
	if e.Challenge != "" {
		c.stream.SetTrailer(metadata.Pairs("www-authenticate", e.Challenge))
	}
	return statusFor(e, raw, c.Request.Old())
}

// send writes one message, within FrameTimeout: a caller who does not read holds
// nothing for ever.
func (c *Call) send(ctx context.Context, raw []byte) error {
	limit := c.opt.A2A.FrameTimeout
	if limit <= 0 {
		limit = a2a.DefaultFrameTimeout
	}
	const alwaysFits = 8 << 10 // of the 64 KiB that HTTP/2 grants unread
	if !c.Request.Method.Streaming() && len(raw) <= alwaysFits {
		return c.stream.SendMsg(&frame{raw})
	}
	return within(ctx, limit, func() error { return c.stream.SendMsg(&frame{raw}) })
}

// respondStream passes frames on until the stream or the caller ends.
func (s *Server) respondStream(ctx context.Context, c *Call, stream a2a.Stream) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer stream.Close()
	begun := false
	for {
		f, err := s.next(ctx, c, stream, &begun)
		switch {
		case err == io.EOF && begun:
			return nil
		case err != nil && errors.Is(ctx.Err(), context.Canceled):
			return ctx.Err() // the caller is gone
		case err != nil:
			return c.fail(a2a.StreamFailure(err), nil)
		case f.Err != nil:
			return c.fail(f.Err, f.Raw)
		}
		out, err := messageOf(c.Request, f.Raw, f.Result)
		if err != nil {
			s.opt.Log.Warn("event has no form in gRPC", "method", c.Request.Method, "err", err)
			return c.fail(c.untranslatable(err), nil)
		}
		if !begun && f.ID != "" {
			c.SetHeader(HeaderEventID, f.ID)
		}
		if err := c.send(ctx, out); err != nil {
			return err
		}
		if c.Request.Old() && f.Raw == nil && a2a.EndsOld(&f) {
			return nil
		}
		begun = true
	}
}

// next waits for a frame. Where the first one is long in coming, the headers go
// out before it, so that the caller sees that its call was taken.
func (s *Server) next(ctx context.Context, c *Call, stream a2a.Stream, begun *bool) (a2a.Frame, error) {
	if *begun {
		return stream.Next(ctx)
	}
	wait := s.opt.A2A.KeepAlive
	if wait == 0 {
		wait = a2a.DefaultKeepAlive
	}
	if wait > 0 {
		timer := time.AfterFunc(wait, func() {
			_ = c.stream.SendHeader(nil) // one who is gone is noticed by the next write
		})
		defer timer.Stop()
	}
	return stream.Next(ctx)
}
