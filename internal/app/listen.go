package app

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io/fs"
	"log"
	"net"
	"net/http"
	"os"
	"path/filepath"

	"github.com/parley-mesh/parley/internal/config"
	"github.com/parley-mesh/parley/internal/control"
	"github.com/parley-mesh/parley/internal/parley"
)

// maxSocketPath is the longest path a Unix socket can have on Linux, in bytes.
const maxSocketPath = 107

// listenTCP opens a TCP listener whose callers are held within bounds.
func listenTCP(ctx context.Context, key, addr string, b bounds) (net.Listener, error) {
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp", addr)
	if err != nil {
		return nil, parley.E("app.listen", parley.Unavailable, parley.Subject(addr),
			fmt.Sprintf("cannot listen on %s (%s): %v; free the address or choose another with --%s", addr, key, reason(err), flagName(key)), err)
	}
	return b.bound(l), nil
}

// reason is the innermost cause of a network error: what a person looks for.
func reason(err error) error {
	for {
		inner := errors.Unwrap(err)
		if inner == nil {
			return err
		}
		err = inner
	}
}

func flagName(key string) string {
	if key == "listen" {
		return "listen"
	}
	return map[string]string{"ops_listen": "ops-listen", "control_listen": "control-listen", "grpc_listen": "grpc-listen"}[key]
}

// listenSocket opens DATA/parley.sock for its owner alone. A socket left by a
// process that died is replaced: the data directory's lock has shown that no
// other process is alive.
func listenSocket(ctx context.Context, dir string) (net.Listener, error) {
	path := filepath.Join(dir, control.SocketFile)
	if len(path) > maxSocketPath {
		return nil, parley.E("app.listen", parley.Invalid, parley.Subject(path),
			fmt.Sprintf("the path of the control socket is %d bytes long and the system takes %d: choose a shorter data directory", len(path), maxSocketPath), nil)
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("remove the old socket: %w", err)
	}
	// The directory is 0700, so that nobody can connect between the creation
	// of the socket and the change of its mode.
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "unix", path)
	if err != nil {
		return nil, fmt.Errorf("listen on %s: %w", path, err)
	}
	if err := os.Chmod(path, 0o600); err != nil {
		return nil, errors.Join(fmt.Errorf("protect %s: %w", path, err), l.Close())
	}
	return l, nil
}

// newServer makes an HTTP server with the limits every listener shares. There
// is no write timeout: streams live long, and every frame has its own deadline.
func newServer(h http.Handler, l config.Limits, complaints *log.Logger) *http.Server {
	return &http.Server{
		Handler:           readInTime(inTime(h, l.BodyTimeout, leftoverTimes*int64(l.RequestBody)), l.StreamWriteTimeout),
		ReadHeaderTimeout: l.HeaderTimeout,
		IdleTimeout:       l.IdleTimeout,
		MaxHeaderBytes:    int(l.Header),
		ErrorLog:          complaints,
		HTTP2:             &http.HTTP2Config{MaxConcurrentStreams: l.StreamsPerConnection, WriteByteTimeout: l.StreamWriteTimeout},
	}
}

// leftoverTimes is how many times limits.request_body is read of a body that
// was refused: bodies somewhat over the limit are what honest clients send.
const leftoverTimes = 2

// serve runs one server on one listener until it is shut down.
func serve(s *http.Server, l net.Listener, t *tls.Config) error {
	if t != nil {
		l = tls.NewListener(l, t)
	}
	if err := s.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve %s: %w", l.Addr(), err)
	}
	return nil
}
