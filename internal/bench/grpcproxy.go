package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
)

// ServeGRPCProxy serves the yardstick for gRPC until ctx ends: a proxy that
// passes every call on to upstream, host:port, over one connection, and looks
// into no message.
func ServeGRPCProxy(ctx context.Context, out io.Writer, upstream string) (err error) {
	conn, err := dialGRPC(upstream)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, conn.Close()) }()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return fmt.Errorf("listen: %w", err)
	}
	proxy := &grpcProxy{upstream: conn}
	return serveGRPC(ctx, out, listener, proxy.pass)
}

// dialGRPC returns a connection, not yet made, that carries raw frames.
func dialGRPC(address string) (*grpc.ClientConn, error) {
	conn, err := grpc.NewClient("passthrough:///"+address,
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.ForceCodecV2(rawCodec{})),
		grpc.WithDisableRetry(), grpc.WithDisableServiceConfig(), grpc.WithNoProxy())
	if err != nil {
		return nil, fmt.Errorf("dial %s: %w", address, err)
	}
	return conn, nil
}

// grpcProxy passes calls on.
type grpcProxy struct{ upstream *grpc.ClientConn }

// bothWays lets any method pass: on the wire all are streams.
var bothWays = &grpc.StreamDesc{ServerStreams: true, ClientStreams: true}

// pass implements grpc.StreamHandler.
func (p *grpcProxy) pass(_ any, in grpc.ServerStream) error {
	method, ok := grpc.MethodFromServerStream(in)
	if !ok {
		return status.Error(codes.Internal, "a call without a method")
	}
	md, _ := metadata.FromIncomingContext(in.Context())
	ctx, cancel := context.WithCancel(metadata.NewOutgoingContext(in.Context(), md))
	defer cancel()
	out, err := p.upstream.NewStream(ctx, bothWays, method)
	if err != nil {
		return err
	}
	go func() { // ends with the call
		if err := passFrames(in, out); errors.Is(err, io.EOF) {
			err = out.CloseSend()
			if err == nil {
				return
			}
		}
		cancel()
	}()
	header, err := out.Header()
	if err == nil {
		err = in.SetHeader(header)
	}
	if err == nil {
		err = passFrames(out, in)
	}
	in.SetTrailer(out.Trailer())
	if errors.Is(err, io.EOF) {
		return nil
	}
	return err
}

// frames is either side of a call.
type frames interface {
	SendMsg(m any) error
	RecvMsg(m any) error
}

// passFrames passes on what comes until there is no more, which is io.EOF.
func passFrames(from, to frames) error {
	for {
		var f rawFrame
		if err := from.RecvMsg(&f); err != nil {
			return err
		}
		err := to.SendMsg(&f)
		f.data.Free()
		if err != nil {
			return err
		}
	}
}
