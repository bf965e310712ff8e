package main

import (
	"context"
	"crypto/subtle"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
)

// checkToken asks callers over gRPC for the token, as requireToken does others.
func checkToken(ctx context.Context, token string) error {
	md, _ := metadata.FromIncomingContext(ctx)
	shown := append(md.Get("authorization"), "")[0]
	if token != "" && subtle.ConstantTimeCompare([]byte(shown), []byte("Bearer "+token)) != 1 {
		return status.Error(codes.Unauthenticated, "a bearer token is needed")
	}
	return nil
}

func unaryToken(token string) grpc.UnaryServerInterceptor {
	return func(ctx context.Context, req any, _ *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any, error) {
		if err := checkToken(ctx, token); err != nil {
			return nil, err
		}
		return next(ctx, req)
	}
}

func streamToken(token string) grpc.StreamServerInterceptor {
	return func(srv any, stream grpc.ServerStream, _ *grpc.StreamServerInfo, next grpc.StreamHandler) error {
		if err := checkToken(stream.Context(), token); err != nil {
			return err
		}
		return next(srv, stream)
	}
}
