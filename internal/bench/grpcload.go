package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
)

// grpcConn is one HTTP/2 connection with its prepared request. It has one call
// at a time, as a connection of HTTP/1.1 has.
type grpcConn struct {
	conn    *grpc.ClientConn
	ctx     context.Context // of all calls: metadata and one deadline
	request []byte
	counter []byte // a part of request
	sent    uint64
	stream  bool
}

// newGRPCConn prepares a connection to address on which no call lasts longer
// than ctx.
func newGRPCConn(ctx context.Context, spec Spec, address string) (*grpcConn, error) {
	pairs := []string{"a2a-version", "1.0"}
	for _, line := range spec.Header {
		name, value, ok := strings.Cut(line, ":")
		if !ok {
			return nil, errors.New("load: header line without a colon")
		}
		pairs = append(pairs, strings.ToLower(name), strings.TrimSpace(value))
	}
	conn, err := dialGRPC(address)
	if err != nil {
		return nil, fmt.Errorf("load: %w", err)
	}
	c := &grpcConn{conn: conn, ctx: metadata.AppendToOutgoingContext(ctx, pairs...), stream: spec.Stream}
	c.request, c.counter = newGRPCRequest(spec.Tenant)
	return c, nil
}

// exchange makes the next call, verifies the answer, and returns when the
// answer, or its first event, was there. The request's bytes are written anew
// only here, when the call before has been answered, so none of them is still
// under way.
func (c *grpcConn) exchange() (time.Time, error) {
	c.sent++
	putHex(c.counter, c.sent)
	if c.stream {
		return c.readStream()
	}
	var reply rawFrame
	if err := c.conn.Invoke(c.ctx, grpcSend, frameOf(c.request), &reply); err != nil {
		return time.Time{}, fmt.Errorf("call: %w", err)
	}
	at := time.Now()
	defer reply.data.Free()
	return at, checkGRPCReply(reply.data.Materialize(), replyMessage)
}

// serverStream lets the server send several messages.
var serverStream = &grpc.StreamDesc{ServerStreams: true}

// readStream reads a whole stream and returns when its first event was there.
func (c *grpcConn) readStream() (first time.Time, err error) {
	stream, err := c.conn.NewStream(c.ctx, serverStream, grpcStream)
	if err != nil {
		return first, fmt.Errorf("call: %w", err)
	}
	if err := stream.SendMsg(frameOf(c.request)); err != nil {
		return first, fmt.Errorf("send request: %w", err)
	}
	if err := stream.CloseSend(); err != nil {
		return first, fmt.Errorf("send request: %w", err)
	}
	for count := 0; ; count++ {
		var event rawFrame
		err := stream.RecvMsg(&event)
		if errors.Is(err, io.EOF) && count == StreamEvents {
			return first, nil
		}
		if err != nil {
			return first, fmt.Errorf("after %d events: %w", count, err)
		}
		if count == 0 {
			first = time.Now()
		}
		err = checkGRPCReply(event.data.Materialize(), replyTask, replyStatus, replyArtifact)
		event.data.Free()
		if err != nil {
			return first, err
		}
	}
}

// grpcExchanges opens the connections of spec. close ends them, also after an
// error.
func grpcExchanges(ctx context.Context, spec Spec) (exchanges []exchange, closeAll func() error, err error) {
	var conns []*grpcConn
	closeAll = func() error {
		var errs []error
		for _, c := range conns {
			errs = append(errs, c.conn.Close())
		}
		return errors.Join(errs...)
	}
	for i := range spec.Conns {
		c, err := newGRPCConn(ctx, spec, spec.URLs[i%len(spec.URLs)])
		if err != nil {
			return nil, closeAll, err
		}
		conns = append(conns, c)
		exchanges = append(exchanges, c.exchange)
	}
	return exchanges, closeAll, nil
}
