package a2agrpc

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/textproto"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/stats"
	"google.golang.org/grpc/status"

	"github.com/parley-mesh/parley/internal/a2a"
	"github.com/parley-mesh/parley/internal/jsonwire"
)

// Client sends requests to the gRPC interfaces of one agent. It is an
// a2a.Exchanger.
type Client struct {
	Pool     *Pool
	Limits   jsonwire.Limits // of a unary answer
	MaxFrame int             // bytes of one message of a stream; 0 means a2a.DefaultMaxFrame
}

var _ a2a.Exchanger = (*Client)(nil)

// Do implements a2a.Exchanger. A request is sent once: gRPC repeats only what a
// server has refused unread.
func (c *Client) Do(ctx context.Context, ep a2a.Endpoint, q *a2a.Request, header http.Header) (*a2a.Reply, error) {
	fail := func(err error) (*a2a.Reply, error) {
		return nil, &a2a.TransportError{Stage: a2a.StageDial, Err: err}
	}
	address, err := a2a.ParseGRPCAddress(ep.URL)
	if err != nil {
		return fail(err)
	}
	old := ep.Version == a2a.V03
	var out []byte
	if old {
		out, err = oldRequest(q)
	} else {
		out, err = outgoing(q, ep.Tenant)
	}
	if err != nil {
		return q.Untold(err)
	}
	if out == nil {
		out = []byte{}
	}
	conn, err := c.Pool.at(address)
	if err != nil {
		return fail(err)
	}
	if err := conn.ready(ctx); err != nil {
		return fail(err)
	}
	x := &exchange{client: c, q: q, old: old, same: q.Passes(a2a.GRPC, ep.Version), limit: int(c.Limits.Bytes())}
	if q.Method.Streaming() {
		if x.limit = c.MaxFrame; x.limit <= 0 {
			x.limit = a2a.DefaultMaxFrame
		}
	}
	ctx = context.WithValue(metadata.NewOutgoingContext(ctx, metadataOf(q, header, old)), exchangeKey{}, x)
	if q.Method.Streaming() {
		return x.stream(ctx, conn, out)
	}
	return x.unary(ctx, conn, out)
}

// outgoing is the request's message for an endpoint's tenant.
func outgoing(q *a2a.Request, tenant string) (out []byte, err error) {
	if out = q.RawFor(a2a.GRPC, a2a.V10); out == nil {
		if out, err = requestMessage(q.Method, q.Params, q.Limits()); err != nil {
			return nil, fmt.Errorf("write the message: %w", err)
		}
	}
	if now, _ := tenantOf(q.Method, out); now != tenant {
		value := jsonwire.Quote(tenant)
		if tenant == "" {
			value = nil
		}
		if out, err = editRequest(q.Method, out, "/tenant", value); err != nil {
			return nil, fmt.Errorf("set the tenant: %w", err)
		}
	}
	return out, nil
}

// metadataOf are the headers of a call as metadata, with the protocol's own over
// them. What frames a request belongs to gRPC.
func metadataOf(q *a2a.Request, header http.Header, old bool) metadata.MD {
	md := make(metadata.MD, len(header)+2)
	for name, values := range header {
		name = strings.ToLower(name)
		switch {
		case strings.HasPrefix(name, "grpc-"), strings.HasSuffix(name, "-bin"), strings.HasPrefix(name, ":"):
		case name == "content-type", name == "user-agent", name == "te", name == "accept", name == "accept-encoding",
			name == "idempotency-key", name == "x-idempotency-key":
		default:
			md[name] = values
		}
	}
	md["a2a-version"] = []string{string(a2a.V10)}
	if _, ok := md["a2a-extensions"]; !ok && len(q.Extensions) > 0 {
		md["a2a-extensions"] = []string{strings.Join(q.Extensions, ", ")}
	}
	if old {
		md["a2a-version"] = []string{string(a2a.V03)}
		if asked, ok := md["a2a-extensions"]; ok {
			md[strings.ToLower(a2a.HeaderOldExtensions)] = asked
			delete(md, "a2a-extensions")
		}
	}
	return md
}

// exchange is one call to a peer and the reading of its answer.
type exchange struct {
	client   *Client
	q        *a2a.Request
	old      bool // the peer speaks version 0.3
	same     bool // the caller speaks gRPC of the peer's version too
	limit    int  // bytes of one message
	wrote    atomic.Bool
	answered atomic.Bool // the peer itself has ended the call, with a status
}

type exchangeKey struct{}

// progress notes how far calls have come: only so can a status of the peer be told
// from one that gRPC makes up for a broken connection.
type progress struct{}

// TagRPC implements stats.Handler.
func (progress) TagRPC(ctx context.Context, _ *stats.RPCTagInfo) context.Context { return ctx }

// HandleRPC implements stats.Handler.
func (progress) HandleRPC(ctx context.Context, s stats.RPCStats) {
	x, ok := ctx.Value(exchangeKey{}).(*exchange)
	if !ok {
		return
	}
	switch s.(type) {
	case *stats.OutHeader:
		x.wrote.Store(true)
	case *stats.InTrailer:
		x.answered.Store(true)
	}
}

// TagConn implements stats.Handler.
func (progress) TagConn(ctx context.Context, _ *stats.ConnTagInfo) context.Context { return ctx }

// HandleConn implements stats.Handler.
func (progress) HandleConn(context.Context, stats.ConnStats) {}

func (x *exchange) unary(ctx context.Context, conn *conn, out []byte) (*a2a.Reply, error) {
	var in frame
	var header, trailer metadata.MD
	err := conn.Invoke(ctx, pathOf(x.q.Method, x.old), &frame{out}, &in, grpc.Header(&header), grpc.Trailer(&trailer), grpc.MaxCallRecvMsgSize(x.limit))
	rep := x.reply(header)
	if err != nil {
		rep.Err, rep.Raw, err = x.failure(ctx, err, trailer, a2a.StageHeaders)
		return ifAnswered(rep, err)
	}
	if rep.Result, err = x.result(in.raw); err == nil {
		rep.Facts, err = a2a.CheckResult(x.q.Method, rep.Result, x.client.Limits)
	} else {
		err = fmt.Errorf("%w: %w", a2a.ErrNotA2A, err)
	}
	if err != nil {
		return nil, &a2a.TransportError{Stage: a2a.StageBody, Wrote: true, Err: err}
	}
	if x.same {
		rep.Raw = in.raw
		if rep.Raw == nil {
			rep.Raw = []byte{}
		}
	}
	return rep, nil
}

// result reads a result's message, or that of a frame, as JSON of 1.0.
func (x *exchange) result(raw []byte) (jsontext.Value, error) {
	if x.old {
		return oldResultJSON(x.q.Method, raw, x.client.Limits)
	}
	return resultJSON(x.q.Method, raw, x.client.Limits)
}

func ifAnswered(rep *a2a.Reply, err error) (*a2a.Reply, error) {
	if err != nil {
		return nil, err
	}
	return rep, nil
}

// reply begins the answer with its headers.
func (x *exchange) reply(md metadata.MD) *a2a.Reply {
	rep := &a2a.Reply{HeadersAt: time.Now(), Received: make(http.Header, len(md))}
	for name, values := range md {
		rep.Received[textproto.CanonicalMIMEHeaderKey(name)] = values
	}
	if echo := a2a.ExtensionsOf(slices.Concat(rep.Received.Values(a2a.HeaderExtensions), rep.Received.Values(a2a.HeaderOldExtensions))); len(echo) > 0 {
		rep.Header = http.Header{}
		rep.Header.Set(a2a.HeaderExtensions, strings.Join(echo, ", "))
	}
	return rep
}

// failure sorts what ended a call: an *a2a.Error where the peer said so, else a
// *a2a.TransportError.
func (x *exchange) failure(ctx context.Context, err error, trailer metadata.MD, stage a2a.Stage) (*a2a.Error, []byte, error) {
	broken := func(err error) (*a2a.Error, []byte, error) {
		return nil, nil, &a2a.TransportError{Stage: stage, Wrote: x.wrote.Load(), Err: err}
	}
	st, ok := status.FromError(err)
	switch {
	case st.Code() == codes.ResourceExhausted && strings.HasSuffix(st.Message(), fmt.Sprintf("larger than max (%d)", x.limit)),
		st.Code() == codes.ResourceExhausted && strings.HasPrefix(st.Message(), "grpc: ") && strings.HasSuffix(st.Message(), fmt.Sprintf(" vs. %d)", x.limit)):
		// gRPC's own words: a status of the peer's may have come behind.
		return broken(a2a.ErrTooLarge)
	case x.answered.Load() && ok && st.Code() == codes.OK:
		return broken(fmt.Errorf("%w: %w", a2a.ErrNotA2A, err))
	case x.answered.Load() && ok:
		e := errorOf(st)
		if x.old {
			e = oldErrorOf(st)
		}
		e.Challenge = strings.Join(trailer.Get("www-authenticate"), ", ")
		if !x.same {
			return e, nil, nil
		}
		return e, rawStatus(st), nil
	case ctx.Err() != nil:
		return broken(ctx.Err())
	case st.Code() == codes.ResourceExhausted:
		return broken(a2a.ErrTooLarge)
	case !x.wrote.Load():
		stage = a2a.StageDial
		return broken(err)
	}
	return x.byHTTP(st, broken)
}

// byHTTP sorts an answer that came as HTTP without being gRPC's, such as a proxy's
// page. gRPC gives it the code that its status stands for.
func (x *exchange) byHTTP(st *status.Status, broken func(error) (*a2a.Error, []byte, error)) (*a2a.Error, []byte, error) {
	bare := func(code int) (*a2a.Error, []byte, error) {
		return a2a.DecodeREST(code, http.Header{}, nil), nil, nil
	}
	switch st.Code() {
	case codes.Unauthenticated:
		return bare(http.StatusUnauthorized)
	case codes.PermissionDenied:
		return bare(http.StatusForbidden)
	case codes.Unimplemented:
		return bare(http.StatusNotFound)
	case codes.Unknown:
		return broken(fmt.Errorf("%w: %s", a2a.ErrNotA2A, st.Message()))
	}
	return broken(st.Err())
}

func (x *exchange) stream(ctx context.Context, conn *conn, out []byte) (*a2a.Reply, error) {
	ctx, cancel := context.WithCancel(ctx)
	s, err := conn.NewStream(ctx, &grpc.StreamDesc{StreamName: string(x.q.Method), ServerStreams: true}, pathOf(x.q.Method, x.old), grpc.MaxCallRecvMsgSize(x.limit))
	if err == nil {
		if err = s.SendMsg(&frame{out}); err == io.EOF {
			err = s.RecvMsg(new(frame)) // tells why
		} else if err == nil {
			err = s.CloseSend()
		}
	}
	if err != nil {
		defer cancel()
		rep := x.reply(nil)
		rep.Err, rep.Raw, err = x.failure(ctx, err, trailerOf(s), a2a.StageHeaders)
		return ifAnswered(rep, err)
	}
	header, err := s.Header()
	rep := x.reply(header)
	if header != nil && err == nil {
		rep.Stream = &clientStream{x: x, ctx: ctx, cancel: cancel, stream: s}
		return rep, nil
	}
	// It ended before it began: an ordinary error.
	defer cancel()
	if err = s.RecvMsg(new(frame)); err == nil || err == io.EOF {
		return nil, &a2a.TransportError{Stage: a2a.StageStream, Wrote: true, Err: a2a.ErrEndEarly}
	}
	rep.Err, rep.Raw, err = x.failure(ctx, err, trailerOf(s), a2a.StageHeaders)
	return ifAnswered(rep, err)
}

// trailerOf are the trailers of a stream that has ended, if there was one.
func trailerOf(s grpc.ClientStream) metadata.MD {
	if s == nil {
		return nil
	}
	return s.Trailer()
}

// clientStream reads the messages of a peer's stream.
type clientStream struct {
	x      *exchange
	ctx    context.Context // of the call
	cancel context.CancelFunc
	stream grpc.ClientStream
	rested bool // a message, or a task final or interrupted, was seen
	done   error
}

// Close implements a2a.Stream.
func (s *clientStream) Close() error { s.cancel(); return nil }

// Next implements a2a.Stream. A stream that ends before a message came or the task
// was final or interrupted yields ErrEndEarly, not io.EOF.
func (s *clientStream) Next(ctx context.Context) (a2a.Frame, error) {
	if s.done != nil {
		return a2a.Frame{}, s.done
	}
	stop := context.AfterFunc(ctx, s.cancel)
	var in frame
	err := s.stream.RecvMsg(&in)
	stop()
	if err != nil {
		return s.ended(ctx, err)
	}
	f, err := s.read(in.raw)
	if err != nil {
		s.done = &a2a.TransportError{Stage: a2a.StageStream, Wrote: true, Err: err}
		return a2a.Frame{}, s.done
	}
	s.rested = f.Facts.Final() || f.Facts.Interrupted() || s.rested && f.Facts.State == ""
	return f, nil
}

func (s *clientStream) read(raw []byte) (f a2a.Frame, err error) {
	limits := s.x.client.Limits
	if f.Result, err = s.x.result(raw); err != nil {
		return f, fmt.Errorf("%w: %w", a2a.ErrNotA2A, err)
	}
	facts, err := a2a.CheckResult(s.x.q.Method, f.Result, limits)
	if err != nil {
		return f, err
	}
	f.Facts = &facts
	if s.x.same {
		f.Raw = raw
	}
	return f, nil
}

// ended says why no frame came: as a last frame where the peer sent an error.
func (s *clientStream) ended(ctx context.Context, err error) (a2a.Frame, error) {
	switch {
	case ctx.Err() != nil:
		s.done = ctx.Err()
	case err == io.EOF && s.rested:
		s.done = io.EOF
	case err == io.EOF:
		s.done = &a2a.TransportError{Stage: a2a.StageStream, Wrote: true, Err: a2a.ErrEndEarly}
	default:
		e, raw, broken := s.x.failure(s.ctx, err, trailerOf(s.stream), a2a.StageStream)
		if broken == nil {
			s.done = io.EOF
			return a2a.Frame{Err: e, Raw: raw}, nil
		}
		s.done = broken
	}
	return a2a.Frame{}, s.done
}
