package a2agrpc_test

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2apb/v1"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/parley-mesh/parley/internal/a2a"
	"github.com/parley-mesh/parley/internal/a2a/a2agrpc"
	"github.com/parley-mesh/parley/internal/a2a/a2atest"
	"github.com/parley-mesh/parley/internal/jsonwire"
)

// listen opens a listener on loopback that ends with the test.
func listen(t *testing.T) net.Listener {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l
}

// serve runs a server on loopback until the test ends and gives its address.
func serve(t *testing.T, h func(ctx context.Context, q *a2a.Request) *a2a.Reply, opt a2agrpc.Options) (*a2agrpc.Server, string) {
	t.Helper()
	s := a2agrpc.NewServer(a2agrpc.Serving(a2a.HandlerFunc(h)), opt)
	return s, a2atest.ServeGRPC(t, s)
}

// client is one of our own.
func client(t *testing.T) *a2agrpc.Client {
	t.Helper()
	dial := new(net.Dialer).DialContext
	pool := a2agrpc.NewPool(a2agrpc.PoolOptions{DialTLS: dial, DialPlain: dial, DialTimeout: 5 * time.Second})
	t.Cleanup(pool.Close)
	return &a2agrpc.Client{Pool: pool}
}

// stock is a client made of the generated code.
func stock(t *testing.T, address string) a2apb.A2AServiceClient {
	t.Helper()
	return a2apb.NewA2AServiceClient(connection(t, address))
}

func connection(t *testing.T, address string) *grpc.ClientConn {
	t.Helper()
	conn, err := grpc.NewClient("passthrough:///"+address, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return conn
}

func request(t *testing.T, m a2a.Method) *a2a.Request {
	t.Helper()
	var params any = a2a.GetTaskRequest{ID: "t"}
	switch {
	case m.Sends():
		params = a2a.SendMessageRequest{Message: a2a.Message{MessageID: "m", Role: a2a.RoleUser, Parts: []a2a.Part{a2a.TextPart("hello")}}}
	case m == a2a.SubscribeToTask:
		params = a2a.SubscribeToTaskRequest{ID: "t"}
	}
	q, err := a2a.NewRequest(m, params)
	if err != nil {
		t.Fatal(err)
	}
	return q
}

func endpoint(address string) a2a.Endpoint {
	return a2a.Endpoint{URL: "http://" + address, Binding: a2a.GRPC, Version: a2a.V10}
}

func working(state a2a.TaskState) a2a.Frame {
	return a2a.StreamFrame(a2a.StreamResponse{Task: &a2a.Task{ID: "t", Status: a2a.TaskStatus{State: state}}})
}

// TestErrorsKeepTheirMeaning sends errors through our server and client.
func TestErrorsKeepTheirMeaning(t *testing.T) {
	var answer *a2a.Error
	_, address := serve(t, func(context.Context, *a2a.Request) *a2a.Reply { return a2a.Fail(answer) }, a2agrpc.Options{})
	many := make([]a2a.FieldViolation, 500)
	for i := range many {
		many[i] = a2a.FieldViolation{Field: strings.Repeat("f", 40), Description: "is wrong"}
	}
	c := client(t)
	for _, sent := range []*a2a.Error{
		a2a.TaskNotFound("t"), a2a.VersionNotSupported("0.3"), a2a.InvalidParams(a2a.FieldViolation{Field: "message.role", Description: "is required"}),
		a2a.InvalidParams(many...), {Reason: "OVER_BUDGET", Domain: "parley", Status: "RESOURCE_EXHAUSTED", Message: "é\xff", RetryAfter: 3 * time.Second},
		a2a.NewError(a2a.ReasonInternal, "%s", strings.Repeat("x", 100_000)),
	} {
		answer = sent
		rep, err := c.Do(t.Context(), endpoint(address), request(t, a2a.GetTask), http.Header{})
		if err != nil {
			t.Fatalf("%.80v: %v", sent, err)
		}
		got := rep.Err
		if got.Reason != sent.Reason || got.Status != sent.Status || got.RetryAfter != sent.RetryAfter || len(got.Metadata) != len(sent.Metadata) {
			t.Errorf("sent %+v\ngot  %+v", sent, got)
		}
		if len(sent.Violations) == 1 && len(got.Violations) != 1 {
			t.Errorf("the violations were lost: %+v", got)
		}
	}
}

// foreign is a server made of the generated code, which answers with a status.
type foreign struct {
	a2apb.UnimplementedA2AServiceServer
	err    error
	stream func(grpc.ServerStreamingServer[a2apb.StreamResponse]) error
}

// GetTask implements the service.
func (f *foreign) GetTask(context.Context, *a2apb.GetTaskRequest) (*a2apb.Task, error) {
	return &a2apb.Task{}, f.err
}

// SendStreamingMessage implements the service.
func (f *foreign) SendStreamingMessage(_ *a2apb.SendMessageRequest, s grpc.ServerStreamingServer[a2apb.StreamResponse]) error {
	return f.stream(s)
}

func (f *foreign) serve(t *testing.T) (address string, stop func()) {
	t.Helper()
	s := grpc.NewServer()
	a2apb.RegisterA2AServiceServer(s, f)
	l := listen(t)
	done := make(chan error, 1)
	go func() { done <- s.Serve(l) }()
	t.Cleanup(func() {
		s.Stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return l.Addr().String(), s.Stop
}

// TestForeignStatuses reads what other servers answer, those of v1.0.0 included.
func TestForeignStatuses(t *testing.T) {
	f := &foreign{}
	address, _ := f.serve(t)
	with := func(code codes.Code, details ...*errdetails.ErrorInfo) error {
		st := status.New(code, "words")
		for _, d := range details {
			var err error
			if st, err = st.WithDetails(d); err != nil {
				t.Fatal(err)
			}
		}
		return st.Err()
	}
	info := func(reason, domain string) *errdetails.ErrorInfo {
		return &errdetails.ErrorInfo{Reason: reason, Domain: domain}
	}
	c := client(t)
	for _, test := range []struct {
		err  error
		want a2a.Reason
	}{
		{with(codes.Unimplemented, info("UNSUPPORTED_OPERATION", "a2a-protocol.org")), a2a.ReasonUnsupportedOperation},
		{with(codes.Unimplemented, info("VERSION_NOT_SUPPORTED", "a2a-protocol.org")), a2a.ReasonVersionNotSupported},
		{with(codes.NotFound, info("TASK_NOT_CANCELABLE", "example.org")), a2a.ReasonTaskNotFound},
		{with(codes.NotFound, info("OTHER", "example.org"), info("TASK_NOT_CANCELABLE", "a2a-protocol.org")), a2a.ReasonTaskNotCancelable},
		{with(codes.Unimplemented), a2a.ReasonMethodNotFound}, {with(codes.NotFound), a2a.ReasonTaskNotFound},
		{with(codes.FailedPrecondition), a2a.ReasonUnsupportedOperation}, {with(codes.Unauthenticated), a2a.ReasonUnauthenticated},
		{with(codes.Unavailable), a2a.ReasonUnavailable}, {with(codes.DeadlineExceeded), a2a.ReasonTimeout},
		{with(codes.ResourceExhausted), a2a.ReasonRateLimited}, {with(codes.Unknown), a2a.ReasonInternal},
	} {
		f.err = test.err
		rep, err := c.Do(t.Context(), endpoint(address), request(t, a2a.GetTask), http.Header{})
		if err != nil || rep.Err == nil || rep.Err.Reason != test.want {
			t.Errorf("%v: got %+v, %v, want %s", test.err, rep, err, test.want)
		}
	}
	f.err = nil // a task without what the protocol requires
	if _, err := c.Do(t.Context(), endpoint(address), request(t, a2a.GetTask), http.Header{}); !errors.Is(err, a2a.ErrNotA2A) {
		t.Errorf("an empty task gave %v, want ErrNotA2A", err)
	}
	if rep, err := c.Do(t.Context(), endpoint(address), request(t, a2a.SubscribeToTask), http.Header{}); err != nil || rep.Err == nil || rep.Err.Reason != a2a.ReasonMethodNotFound {
		t.Errorf("a method that is not there: %+v, %v", rep, err)
	}
}

// TestStreamsEnd: a stream may end when its task rests, and else broke.
func TestStreamsEnd(t *testing.T) {
	f := &foreign{}
	address, stop := f.serve(t)
	frame := func(state a2apb.TaskState) *a2apb.StreamResponse {
		return &a2apb.StreamResponse{Payload: &a2apb.StreamResponse_Task{Task: &a2apb.Task{Id: "t", Status: &a2apb.TaskStatus{State: state}}}}
	}
	c := client(t)
	c.MaxFrame = 10_000
	for _, test := range []struct {
		name  string
		end   func(s grpc.ServerStreamingServer[a2apb.StreamResponse]) error
		check func(f a2a.Frame, err error) bool
	}{
		{"at rest", func(s grpc.ServerStreamingServer[a2apb.StreamResponse]) error { return s.Send(frame(3)) }, func(_ a2a.Frame, err error) bool { return err == io.EOF }},
		{"early", func(grpc.ServerStreamingServer[a2apb.StreamResponse]) error { return nil }, func(_ a2a.Frame, err error) bool { return errors.Is(err, a2a.ErrEndEarly) }},
		{"with an error", func(grpc.ServerStreamingServer[a2apb.StreamResponse]) error {
			return status.Error(codes.Unavailable, "no")
		}, func(f a2a.Frame, err error) bool { return f.Err != nil && f.Err.Reason == a2a.ReasonUnavailable }},
		{"with no protocol", func(s grpc.ServerStreamingServer[a2apb.StreamResponse]) error { return s.Send(&a2apb.StreamResponse{}) }, func(_ a2a.Frame, err error) bool { return errors.Is(err, a2a.ErrNotA2A) }},
		{"with too much", func(s grpc.ServerStreamingServer[a2apb.StreamResponse]) error {
			big := frame(2)
			big.GetTask().ContextId = strings.Repeat("x", 20_000)
			return s.Send(big)
		}, func(_ a2a.Frame, err error) bool { return errors.Is(err, a2a.ErrTooLarge) }},
		{"cut off", func(s grpc.ServerStreamingServer[a2apb.StreamResponse]) error {
			go stop() // waits for this call, but cuts its connection first
			<-s.Context().Done()
			return s.Context().Err()
		}, func(_ a2a.Frame, err error) bool {
			failure, ok := errors.AsType[*a2a.TransportError](err)
			return ok && failure.Stage == a2a.StageStream && failure.Wrote
		}},
	} {
		seen := make(chan struct{}) // the first frame
		f.stream = func(s grpc.ServerStreamingServer[a2apb.StreamResponse]) error {
			if err := s.Send(frame(2)); err != nil {
				return err
			}
			<-seen
			return test.end(s)
		}
		if got, err := streamEnd(t, c, address, seen); !test.check(got, err) {
			t.Errorf("%s: ended with %+v, %v", test.name, got, err)
		}
	}
}

// streamEnd opens a stream, reads its first frame, and gives what it ends with.
func streamEnd(t *testing.T, c *a2agrpc.Client, address string, seen chan<- struct{}) (a2a.Frame, error) {
	t.Helper()
	rep, err := c.Do(t.Context(), endpoint(address), request(t, a2a.SendStreamingMessage), http.Header{})
	if err != nil || rep.Stream == nil {
		t.Fatalf("%+v, %v", rep, err)
	}
	defer rep.Stream.Close()
	got, err := rep.Stream.Next(t.Context())
	close(seen)
	for err == nil && got.Err == nil {
		got, err = rep.Stream.Next(t.Context())
	}
	return got, err
}

// TestNoConnection: a call that found no connection is told from one that broke,
// with the dialer's own error.
func TestNoConnection(t *testing.T) {
	refused := errors.New("this address is refused")
	dial := func(context.Context, string, string) (net.Conn, error) { return nil, refused }
	pool := a2agrpc.NewPool(a2agrpc.PoolOptions{DialTLS: dial, DialPlain: dial})
	defer pool.Close()
	c := &a2agrpc.Client{Pool: pool}
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second) // half of what a dial may take
	defer cancel()
	for range 3 { // those after the first are not spared the look, nor made to wait
		_, err := c.Do(ctx, endpoint("127.0.0.1:1"), request(t, a2a.SendMessage), http.Header{})
		failure, ok := errors.AsType[*a2a.TransportError](err)
		if !ok || failure.Stage != a2a.StageDial || failure.Wrote || !errors.Is(err, refused) {
			t.Errorf("got %v, want the dialer's error at the dial", err)
		}
	}
	_, plain := serve(t, func(context.Context, *a2a.Request) *a2a.Reply { return a2a.Fail(a2a.TaskNotFound("t")) }, a2agrpc.Options{})
	_, err := client(t).Do(t.Context(), a2a.Endpoint{URL: plain}, request(t, a2a.GetTask), http.Header{})
	if _, ok := errors.AsType[*a2agrpc.TLSError](err); !ok {
		t.Errorf("TLS to a server without it gave %v, want a TLSError", err)
	}
}

// TestAnAgentThatIsBackIsFound: a connection is made again as soon as it can be.
func TestAnAgentThatIsBackIsFound(t *testing.T) {
	var back bool
	_, address := serve(t, func(context.Context, *a2a.Request) *a2a.Reply { return a2a.Fail(a2a.TaskNotFound("t")) }, a2agrpc.Options{})
	dial := func(ctx context.Context, network, to string) (net.Conn, error) {
		if !back {
			return nil, errors.New("away")
		}
		return new(net.Dialer).DialContext(ctx, network, to)
	}
	pool := a2agrpc.NewPool(a2agrpc.PoolOptions{DialTLS: dial, DialPlain: dial})
	defer pool.Close()
	c := &a2agrpc.Client{Pool: pool}
	if _, err := c.Do(t.Context(), endpoint(address), request(t, a2a.GetTask), http.Header{}); err == nil {
		t.Fatal("reached an agent that is away")
	}
	back = true
	if rep, err := c.Do(t.Context(), endpoint(address), request(t, a2a.GetTask), http.Header{}); err != nil || rep.Err == nil {
		t.Errorf("the agent is back, and the call gave %v", err)
	}
}

// TestLimitsOfRequests: too large, no protobuf, wrong version, and never sent.
func TestLimitsOfRequests(t *testing.T) {
	_, address := serve(t, func(context.Context, *a2a.Request) *a2a.Reply { return a2a.Fail(a2a.TaskNotFound("t")) },
		a2agrpc.Options{A2A: a2a.ServerOptions{Limits: jsonwire.Limits{MaxBytes: 1000}, BodyTimeout: 50 * time.Millisecond}})
	s := stock(t, address)
	reason := func(err error) string {
		for _, d := range status.Convert(err).Details() {
			if info, ok := d.(*errdetails.ErrorInfo); ok {
				return info.GetReason()
			}
		}
		return ""
	}
	_, err := s.GetTask(t.Context(), &a2apb.GetTaskRequest{Id: strings.Repeat("x", 1500)})
	if reason(err) != "REQUEST_TOO_LARGE" {
		t.Errorf("a large message gave %v", err)
	}
	_, err = s.GetTask(metadata.AppendToOutgoingContext(t.Context(), "a2a-version", "0.3"), &a2apb.GetTaskRequest{Id: "t"})
	if reason(err) != "VERSION_NOT_SUPPORTED" || status.Code(err) != codes.FailedPrecondition {
		t.Errorf("another version gave %v", err)
	}
	stream, err := connection(t, address).NewStream(t.Context(), &grpc.StreamDesc{ServerStreams: true}, "/lf.a2a.v1.A2AService/GetTask")
	if err != nil {
		t.Fatal(err)
	}
	if err := stream.RecvMsg(new(a2apb.Task)); reason(err) != "INVALID_REQUEST" {
		t.Errorf("a message that never came gave %v", err)
	}
}

// TestCallerLeaves: the handler's context ends with the caller's deadline.
func TestCallerLeaves(t *testing.T) {
	left := make(chan error, 1)
	_, address := serve(t, func(ctx context.Context, _ *a2a.Request) *a2a.Reply {
		<-ctx.Done()
		left <- ctx.Err()
		return a2a.Fail(a2a.Internal("late"))
	}, a2agrpc.Options{})
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := stock(t, address).GetTask(ctx, &a2apb.GetTaskRequest{Id: "t"}); status.Code(err) != codes.DeadlineExceeded {
		t.Errorf("the call ended with %v", err)
	}
	if err := <-left; err == nil {
		t.Error("the handler did not learn that the caller left")
	}
}

// TestSlowReader: a caller who does not read its stream is let go.
func TestSlowReader(t *testing.T) {
	closed := make(chan struct{})
	_, address := serve(t, func(_ context.Context, _ *a2a.Request) *a2a.Reply {
		return &a2a.Reply{Stream: &endless{closed: closed}}
	}, a2agrpc.Options{A2A: a2a.ServerOptions{FrameTimeout: 100 * time.Millisecond}})
	if _, err := stock(t, address).SubscribeToTask(t.Context(), &a2apb.SubscribeToTaskRequest{Id: "t"}); err != nil {
		t.Fatal(err)
	}
	<-closed
}

// endless is a stream that never runs dry.
type endless struct{ closed chan struct{} }

// Next implements a2a.Stream.
func (e *endless) Next(context.Context) (a2a.Frame, error) {
	f := working(a2a.StateWorking)
	f.Raw, _ = proto.Marshal(&a2apb.StreamResponse{Payload: &a2apb.StreamResponse_Task{Task: &a2apb.Task{Id: strings.Repeat("x", 10_000)}}})
	return f, nil
}

// Close implements a2a.Stream.
func (e *endless) Close() error { close(e.closed); return nil }

// TestShutdown: health says so, calls under way finish, others are not taken.
func TestShutdown(t *testing.T) {
	frames, begun := make(chan a2a.Frame), make(chan struct{})
	s, address := serve(t, func(_ context.Context, _ *a2a.Request) *a2a.Reply {
		close(begun)
		return &a2a.Reply{Stream: a2a.NewChanStream(frames)}
	}, a2agrpc.Options{})
	watch, err := healthpb.NewHealthClient(connection(t, address)).Watch(t.Context(), &healthpb.HealthCheckRequest{})
	if err != nil {
		t.Fatal(err)
	}
	if said, err := watch.Recv(); err != nil || said.GetStatus() != healthpb.HealthCheckResponse_SERVING {
		t.Fatalf("health says %v, %v", said, err)
	}
	stream, err := stock(t, address).SubscribeToTask(t.Context(), &a2apb.SubscribeToTaskRequest{Id: "t"})
	if err != nil {
		t.Fatal(err)
	}
	<-begun
	short, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if err := s.Shutdown(short); err == nil {
		t.Error("the server stopped under a call")
	}
	frames <- working(a2a.StateCompleted)
	close(frames)
	if m, err := stream.Recv(); err != nil || m.GetTask().GetId() != "t" {
		t.Errorf("the call under way got %v, %v", m, err)
	}
	if _, err := stream.Recv(); err != io.EOF {
		t.Errorf("the call under way ended with %v", err)
	}
	if err := s.Shutdown(t.Context()); err != nil {
		t.Error(err)
	}
	for said, err := watch.Recv(); err == nil; said, err = watch.Recv() {
		if said.GetStatus() == healthpb.HealthCheckResponse_SERVING {
			t.Error("health says SERVING of a server that stops")
		}
	}
}

// TestPanic: a handler's panic is one call's, not the process's.
func TestPanic(t *testing.T) {
	_, address := serve(t, func(context.Context, *a2a.Request) *a2a.Reply { panic("a mistake") }, a2agrpc.Options{})
	_, err := stock(t, address).GetTask(t.Context(), &a2apb.GetTaskRequest{Id: "t"})
	if status.Code(err) != codes.Internal || strings.Contains(err.Error(), "mistake") {
		t.Errorf("got %v, want INTERNAL without the cause", err)
	}
}
