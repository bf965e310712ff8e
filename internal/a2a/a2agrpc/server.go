package a2agrpc

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/textproto"
	"runtime/debug"
	"strings"
	"sync"
	"time"

	oldpb "github.com/a2aproject/a2a-go/a2apb"
	"github.com/a2aproject/a2a-go/v2/a2apb/v1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/reflection"
	"google.golang.org/grpc/status"

	"github.com/parley-mesh/parley/internal/a2a"
)

// Handler answers calls. ctx ends when the caller goes away or its deadline
// passes. The Reply is never nil; the server closes its stream.
type Handler func(ctx context.Context, c *Call) *a2a.Reply

// Options of a server. The zero value works.
type Options struct {
	A2A  a2a.ServerOptions // KeepAlive is not used: HTTP/2 has pings of its own
	TLS  *tls.Config       // nil: without TLS
	Log  *slog.Logger      // nil for none
	Idle time.Duration     // after which a connection without calls is closed; zero: 5 min

	HeaderBytes    int           // largest header block of a call; zero: 64 KiB
	HandshakeTime  time.Duration // for TLS and HTTP/2 to come about; zero: 10 s
	CallsPerClient int           // at once on one connection; zero: 250
}

// How connections are looked after.
const (
	// maxAge ends a connection gently, so that clients spread over what serves
	// now. Calls under way go on.
	maxAge = time.Hour
	// pingAfter and pingTimeout find out that a silent client is gone.
	pingAfter   = 30 * time.Second
	pingTimeout = 15 * time.Second
	// minPing is how often a client may ping before it is sent away.
	minPing = 5 * time.Second
	// overTimes is how many times the limit a message may have to be received, so
	// that it can be refused in A2A's words: gRPC itself ends the call of a larger
	// one, with words of its own.
	overTimes = 2
	// foreignCall bounds calls of services other than A2A's, which hold their
	// streams open for as long as a client likes.
	foreignCall = 10 * time.Minute
)

// Server serves A2A over gRPC, with health (SERVING until Shutdown) and
// reflection.
type Server struct {
	opt     Options
	handler Handler
	grpc    *grpc.Server
	health  *health.Server
	stop    func() // closes stopping
	// stopping ends calls of services other than A2A's.
	stopping chan struct{}
}

// NewServer makes a server.
func NewServer(h Handler, opt Options) *Server {
	opt = opt.withDefaults()
	s := &Server{opt: opt, handler: h, health: health.NewServer(), stopping: make(chan struct{})}
	s.stop = sync.OnceFunc(func() { close(s.stopping) })
	options := []grpc.ServerOption{
		grpc.ForceServerCodecV2(newCodec()),
		grpc.MaxRecvMsgSize(int(overTimes * opt.A2A.Limits.Bytes())),
		grpc.MaxConcurrentStreams(uint32(opt.CallsPerClient)),
		grpc.MaxHeaderListSize(uint32(opt.HeaderBytes)),
		grpc.ConnectionTimeout(opt.HandshakeTime),
		grpc.KeepaliveParams(keepalive.ServerParameters{MaxConnectionIdle: opt.Idle, MaxConnectionAge: maxAge, Time: pingAfter, Timeout: pingTimeout}),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: minPing, PermitWithoutStream: true}),
		grpc.StreamInterceptor(s.bounded),
		grpc.WaitForHandlers(true),
	}
	if opt.TLS != nil {
		options = append(options, grpc.Creds(credentials.NewTLS(opt.TLS)))
	}
	s.grpc = grpc.NewServer(options...)
	s.grpc.RegisterService(s.description(), s)
	s.grpc.RegisterService(s.oldDescription(), s)
	healthpb.RegisterHealthServer(s.grpc, s.health)
	for _, name := range []string{"", ServiceName, OldServiceName} {
		s.health.SetServingStatus(name, healthpb.HealthCheckResponse_SERVING)
	}
	reflection.Register(s.grpc)
	return s
}

func (o Options) withDefaults() Options {
	if o.Idle == 0 {
		o.Idle = 5 * time.Minute
	}
	if o.HeaderBytes == 0 {
		o.HeaderBytes = 64 << 10
	}
	if o.HandshakeTime == 0 {
		o.HandshakeTime = 10 * time.Second
	}
	if o.CallsPerClient == 0 {
		o.CallsPerClient = 250
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return o
}

// description registers every method as a stream: on the wire a unary call is a
// stream of one message, and one handler does for all.
func (s *Server) description() *grpc.ServiceDesc {
	d := &grpc.ServiceDesc{ServiceName: ServiceName, HandlerType: (*any)(nil), Metadata: a2apb.File_a2av1_proto.Path()}
	for _, m := range a2a.Methods() {
		d.Streams = append(d.Streams, grpc.StreamDesc{
			StreamName: string(m), ServerStreams: m.Streaming(),
			Handler: func(_ any, stream grpc.ServerStream) error { return s.serve(m, stream, a2a.OpenMessage) },
		})
	}
	return d
}

// oldDescription is that of the service of version 0.3.
func (s *Server) oldDescription() *grpc.ServiceDesc {
	d := &grpc.ServiceDesc{ServiceName: OldServiceName, HandlerType: (*any)(nil), Metadata: oldpb.File_a2a_proto.Path()}
	for m, old := range oldMethods {
		d.Streams = append(d.Streams, grpc.StreamDesc{
			StreamName: old.name, ServerStreams: m.Streaming(),
			Handler: func(_ any, stream grpc.ServerStream) error { return s.serve(m, stream, a2a.OpenOldMessage) },
		})
	}
	return d
}

// Serve serves until Shutdown or Close.
func (s *Server) Serve(l net.Listener) error {
	if err := s.grpc.Serve(l); err != nil && !errors.Is(err, grpc.ErrServerStopped) {
		return fmt.Errorf("serve %s: %w", l.Addr(), err)
	}
	return nil
}

// Shutdown takes no new calls and waits for those under way, until ctx ends.
// Health says NOT_SERVING from now on. It may be called again, to wait longer.
func (s *Server) Shutdown(ctx context.Context) error {
	s.health.Shutdown()
	s.stop()
	done := make(chan struct{})
	go func() {
		defer close(done)
		s.grpc.GracefulStop() // returns at the latest after Close
	}()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Close ends all calls.
func (s *Server) Close() error {
	s.stop()
	s.grpc.Stop()
	return nil
}

// Call is one call as it arrived. Its message is read when the handler asks.
type Call struct {
	Request *a2a.Request // as far as the metadata tells; complete after Read
	// Early is what the metadata has wrong; the caller is told by the Reply.
	Early      *a2a.Error
	RemoteAddr string
	Authority  string               // the host, with a port or without, that the caller addressed
	TLS        *tls.ConnectionState // nil without TLS

	stream   grpc.ServerStream
	opt      Options
	received bool
	raw      []byte
	failed   *a2a.Error // what was wrong with the message
}

// SetHeader sends a header with the answer.
func (c *Call) SetHeader(name, value string) {
	// It fails only once headers are out, which is after the handler.
	_ = c.stream.SetHeader(metadata.Pairs(strings.ToLower(name), value))
}

// Tenant receives the message, if it was not yet, and reads who it is for. The
// message is not checked. Those of version 0.3 have no tenant.
func (c *Call) Tenant(ctx context.Context) (string, *a2a.Error) {
	if err := c.receive(ctx); err != nil {
		return "", err
	}
	tenant, ok := tenantOf(c.Request.Method, c.raw)
	if !ok {
		return "", a2a.NewError(a2a.ReasonParse, "the message is no protobuf")
	}
	return tenant, nil
}

// Read completes Request, and tells the message's size.
func (c *Call) Read(ctx context.Context) (int64, *a2a.Error) {
	if err := c.receive(ctx); err != nil {
		return 0, err
	}
	size := int64(len(c.raw))
	if c.Request.Old() {
		params, err := oldRequestJSON(c.Request.Method, c.raw, c.Request.Limits())
		if err != nil {
			return size, invalidOld(err)
		}
		return size, c.Request.TakeMessage(c.raw, params, nil)
	}
	params, err := requestJSON(c.Request.Method, c.raw, c.Request.Limits())
	if err != nil {
		return size, invalid(err)
	}
	return size, c.Request.TakeMessage(c.raw, params, editRequest)
}

func invalid(err error) *a2a.Error {
	if e, ok := errors.AsType[*fieldError](err); ok && len(e.path) > 0 {
		return a2a.InvalidParams(a2a.FieldViolation{Field: e.field(), Description: e.problem})
	}
	return a2a.NewError(a2a.ReasonParse, "the message %s", err)
}

// receive takes the message in, within BodyTimeout.
func (c *Call) receive(ctx context.Context) *a2a.Error {
	if c.received {
		return c.failed
	}
	c.received = true
	limit := c.opt.A2A.BodyTimeout
	if limit <= 0 {
		limit = a2a.DefaultBodyTimeout
	}
	var in frame
	err := within(ctx, limit, func() error { return c.stream.RecvMsg(&in) })
	switch {
	case err == nil && int64(len(in.raw)) > c.opt.A2A.Limits.Bytes(), status.Code(err) == codes.ResourceExhausted:
		c.failed = a2a.NewError(a2a.ReasonTooLarge, "the message has more than %d bytes; refer to files by URL", c.opt.A2A.Limits.Bytes())
	case err == nil:
		c.raw = in.raw
		if c.raw == nil {
			c.raw = []byte{}
		}
	case errors.Is(err, errSlow):
		c.failed = a2a.NewError(a2a.ReasonInvalidRequest, "the message did not arrive within %v", limit)
	default:
		c.failed = a2a.NewError(a2a.ReasonInvalidRequest, "the message could not be read")
	}
	return c.failed
}

// errSlow says that a caller takes too long.
var errSlow = errors.New("a2agrpc: the caller takes too long")

// within runs work on a stream that ends with ctx. Where that takes too long, the
// work is left behind: it ends when the handler returns, which ends the stream.
func within(ctx context.Context, limit time.Duration, work func() error) error {
	done := make(chan error, 1)
	go func() { done <- work() }()
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return errSlow
	}
}

// opener makes the request of a call; see a2a.OpenMessage.
type opener func(a2a.Binding, a2a.Method, http.Header, a2a.ServerOptions) (*a2a.Request, *a2a.Error)

// serve takes one call from its headers to its status.
func (s *Server) serve(m a2a.Method, stream grpc.ServerStream, open opener) (err error) {
	defer func() {
		if p := recover(); p != nil {
			s.opt.Log.Error("panic while a call was served", "method", m, "err", p, "stack", string(debug.Stack()))
			err = statusOf(a2a.Internal("internal error; the operator's log says more")).Err()
		}
	}()
	ctx := stream.Context()
	c := &Call{stream: stream, opt: s.opt}
	c.Request, c.Early = open(a2a.GRPC, m, headerOf(ctx), s.opt.A2A)
	if md, ok := metadata.FromIncomingContext(ctx); ok {
		c.Authority = strings.Join(md.Get(":authority"), "")
	}
	if p, ok := peer.FromContext(ctx); ok {
		c.RemoteAddr = p.Addr.String()
		if info, ok := p.AuthInfo.(credentials.TLSInfo); ok {
			c.TLS = &info.State
		}
	}
	return s.respond(ctx, c, s.handler(ctx, c))
}

// headerOf gives the metadata of a call as HTTP headers. Binary metadata is no
// concern of A2A's.
func headerOf(ctx context.Context) http.Header {
	md, _ := metadata.FromIncomingContext(ctx)
	h := make(http.Header, len(md))
	for name, values := range md {
		if strings.HasPrefix(name, ":") || strings.HasSuffix(name, "-bin") {
			continue
		}
		h[textproto.CanonicalMIMEHeaderKey(name)] = values
	}
	return h
}

// bounded keeps the calls of other services from holding the server open: they
// end with it, and after foreignCall.
func (s *Server) bounded(srv any, stream grpc.ServerStream, info *grpc.StreamServerInfo, handler grpc.StreamHandler) error {
	if strings.HasPrefix(info.FullMethod, "/"+ServiceName+"/") || strings.HasPrefix(info.FullMethod, "/"+OldServiceName+"/") {
		return handler(srv, stream)
	}
	ctx, cancel := context.WithTimeout(stream.Context(), foreignCall)
	defer cancel()
	done := make(chan error, 1)
	go func() { done <- handler(srv, boundedStream{stream, ctx}) }()
	select {
	case err := <-done:
		return err
	case <-s.stopping:
		return status.Error(codes.Unavailable, "the server is stopping")
	case <-ctx.Done():
		return status.FromContextError(ctx.Err()).Err()
	}
}

// boundedStream is a stream whose context ends before its caller wishes.
type boundedStream struct {
	grpc.ServerStream
	ctx context.Context
}

// Context implements grpc.ServerStream.
func (b boundedStream) Context() context.Context { return b.ctx }

// Serving answers every call of one agent.
func Serving(h a2a.Handler) Handler {
	return func(ctx context.Context, c *Call) *a2a.Reply {
		if c.Early != nil {
			return a2a.Fail(c.Early)
		}
		if _, err := c.Read(ctx); err != nil {
			return a2a.Fail(err)
		}
		return h.Handle(ctx, c.Request)
	}
}
