package parleytest

import (
	"bytes"
	"context"
	"io"
	"net"
	"net/http"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/parley-mesh/parley/internal/a2a/a2agrpc"
	"github.com/parley-mesh/parley/internal/app"
	"github.com/parley-mesh/parley/internal/config"
	"github.com/parley-mesh/parley/internal/control"
	"github.com/parley-mesh/parley/internal/storetest/pgtest"
)

// Patience bounds every wait of this package: far above what anything takes on
// a busy machine, and below what a person waits for a test.
const Patience = 30 * time.Second

// storeVariable set to "postgres" gives every mesh that a test does not give a
// store itself a PostgreSQL database of its own, so that any test of a mesh can
// be run on both stores.
const storeVariable = "PARLEY_TEST_STORE"

// Options of a mesh. The zero value is one with everything at its default.
type Options struct {
	// Configure changes the configuration before the start. Values that a
	// configuration file could not hold, as very short deadlines, are fine.
	Configure func(*config.Config)
	// App are the process's own options; LogTo is added to what Log gives.
	App app.Options
}

// Mesh is a running mesh.
type Mesh struct {
	// Admin speaks to the control API as the local admin.
	Admin  *control.Client
	Config *config.Config
	Ready  app.Ready

	t    testing.TB
	opts Options
	log  *logBuffer
	http *http.Transport
	grpc *a2agrpc.Pool
	stop func() error // of the run; a second call does nothing
}

// Start runs a mesh until the test ends. The test fails if it does not stop
// cleanly.
func Start(t testing.TB, o Options) *Mesh {
	t.Helper()
	cfg := config.Default()
	cfg.Data, cfg.Listen, cfg.GRPCListen, cfg.OpsListen = Dir(t), "127.0.0.1:0", "127.0.0.1:0", "127.0.0.1:0"
	cfg.Log.Level = config.LogDebug
	if os.Getenv(storeVariable) == "postgres" {
		cfg.Store = config.PostgresStore(pgtest.Database(t))
	}
	if o.Configure != nil {
		o.Configure(cfg)
	}
	m := &Mesh{Config: cfg, t: t, opts: o, log: &logBuffer{}, http: &http.Transport{DisableCompression: true}}
	dial := new(net.Dialer).DialContext
	m.grpc = a2agrpc.NewPool(a2agrpc.PoolOptions{DialTLS: dial, DialPlain: dial})
	t.Cleanup(m.http.CloseIdleConnections)
	t.Cleanup(m.Stop)
	t.Cleanup(m.grpc.Close)
	m.run()
	return m
}

// Dir makes a data directory that is gone when the test ends. Its path is
// short enough for a socket, as that of testing.TB.TempDir is not always.
func Dir(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "parley")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	return dir
}

// run opens the mesh and serves it.
func (m *Mesh) run() {
	m.t.Helper()
	opts := m.opts.App
	opts.LogTo = m.log
	if m.opts.App.LogTo != nil {
		opts.LogTo = io.MultiWriter(m.log, m.opts.App.LogTo)
	}
	ctx, cancel := context.WithCancel(context.Background())
	a, err := app.Open(ctx, m.Config, opts)
	if err != nil {
		cancel()
		m.t.Fatalf("open the mesh: %v", err)
	}
	m.Ready = a.Ready()
	m.Config.Listen = hostOf(m.Ready.Listen) // a restart answers where callers know it
	if m.Ready.GRPC != "" {
		m.Config.GRPCListen = m.Ready.GRPC
	}
	m.Admin = control.NewSocketClient(m.Ready.Socket)
	ended := make(chan error, 1)
	go func() { ended <- a.Run(ctx) }()
	m.stop = sync.OnceValue(func() error {
		cancel()
		m.Admin.Close()
		select {
		case err := <-ended:
			return err
		case <-time.After(m.Config.Limits.ShutdownTimeout + Patience):
			return context.DeadlineExceeded
		}
	})
}

// Stop ends the mesh as a signal would, and waits for it. Stopping again does
// nothing.
func (m *Mesh) Stop() {
	m.t.Helper()
	if m.stop == nil {
		return
	}
	if err := m.stop(); err != nil {
		m.t.Errorf("the mesh did not stop cleanly: %v\n%s", err, m.log)
	}
	m.stop = nil
}

// Restart stops the mesh and starts it again on the same data and address.
func (m *Mesh) Restart() {
	m.t.Helper()
	m.Stop()
	m.http.CloseIdleConnections()
	m.run()
}

// Log is what the mesh has logged so far, over all its runs.
func (m *Mesh) Log() string { return m.log.String() }

// logBuffer collects a log that many goroutines write.
type logBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer // guarded by mu
}

// Write implements io.Writer.
func (b *logBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

// String is everything written so far.
func (b *logBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}
