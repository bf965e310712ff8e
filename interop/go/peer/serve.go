// Package peer is what the sample agents and clients in Go share whatever the
// SDK and the version of the protocol: how an agent serves and says so, and how
// a client writes down what came back. It knows no SDK and nothing of Parley.
package peer

import (
	"context"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
)

// stopGrace is how long open streams may still finish after SIGTERM.
const stopGrace = 2 * time.Second

// Options are an agent's flags.
type Options struct {
	Name      string // on the card
	Port      int    // on 127.0.0.1, 0 takes a free one
	Bindings  string // of the card, in this order
	ReadyFile string // gets {"url": …} once the agent serves
	Token     string // asked of callers as a bearer token, none if empty
}

// ParseOptions reads the command line of an agent.
func ParseOptions(name, bindings string) Options {
	var o Options
	flag.StringVar(&o.Name, "name", name, "name on the card")
	flag.IntVar(&o.Port, "port", 0, "port on 127.0.0.1, 0 for a free one")
	flag.StringVar(&o.Bindings, "bindings", bindings, "bindings the card declares, in this order")
	flag.StringVar(&o.ReadyFile, "ready-file", "", "file that gets {\"url\": …} once the agent serves")
	flag.StringVar(&o.Token, "token", "", "bearer token asked of callers, none if empty")
	flag.Parse()
	return o
}

// Build makes the agent: base is the address of HTTP without a trailing slash,
// grpcAddress that of gRPC. The card is open, bindings stand behind the token.
type Build func(base, grpcAddress string, o Options, register *grpc.Server) (card, bindings http.Handler, err error)

// Main serves the agent until SIGTERM and ends the program.
func Main(o Options, cardPath string, build Build) {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	defer stop()
	if err := run(ctx, o, cardPath, build); err != nil {
		fmt.Fprintln(os.Stderr, "agent:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, o Options, cardPath string, build Build) error {
	listener, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", o.Port))
	if err != nil {
		return err
	}
	grpcListener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	base := "http://" + listener.Addr().String()
	grpcServer := grpc.NewServer(grpc.UnaryInterceptor(unaryToken(o.Token)), grpc.StreamInterceptor(streamToken(o.Token)))
	card, bindings, err := build(base, grpcListener.Addr().String(), o, grpcServer)
	if err != nil {
		return err
	}
	// The card stays open, as it must be for a stranger to learn which
	// credential is wanted.
	mux := http.NewServeMux()
	mux.Handle(cardPath, card)
	mux.Handle("/", requireToken(o.Token, bindings))
	server := &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second}
	served := make(chan error, 2)
	go func() { served <- server.Serve(listener) }()
	go func() { served <- grpcServer.Serve(grpcListener) }()
	defer grpcServer.Stop()
	if err := announce(o.ReadyFile, base+"/"); err != nil {
		return err
	}

	select {
	case err := <-served:
		return err
	case <-ctx.Done():
	}
	grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopGrace)
	defer cancel()
	if err := server.Shutdown(grace); errors.Is(err, context.DeadlineExceeded) {
		return server.Close()
	} else if err != nil {
		return err
	}
	return nil
}

// announce tells whoever started the agent that it serves: a line on standard
// output, and the ready file, which appears whole or not at all.
func announce(file, url string) error {
	fmt.Println("ready", url)
	if file == "" {
		return nil
	}
	body, err := json.Marshal(map[string]string{"url": url})
	if err != nil {
		return err
	}
	partial := filepath.Join(filepath.Dir(file), "."+filepath.Base(file))
	if err := os.WriteFile(partial, body, 0o600); err != nil {
		return err
	}
	return os.Rename(partial, file)
}

func requireToken(token string, next http.Handler) http.Handler {
	want := []byte("Bearer " + token)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if token != "" && subtle.ConstantTimeCompare([]byte(r.Header.Get("Authorization")), want) != 1 {
			w.Header().Set("WWW-Authenticate", `Bearer realm="agent"`)
			http.Error(w, "a bearer token is needed", http.StatusUnauthorized)
			return
		}
		next.ServeHTTP(w, r)
	})
}

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
