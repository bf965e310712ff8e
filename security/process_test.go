package security_test

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/parley-mesh/parley/internal/app"
	"github.com/parley-mesh/parley/internal/certtest"
	"github.com/parley-mesh/parley/internal/cli"
	"github.com/parley-mesh/parley/internal/control"
	"github.com/parley-mesh/parley/internal/parley"
	"github.com/parley-mesh/parley/internal/parleytest"
)

// roleVariable makes a copy of the test program be parley itself.
const roleVariable = "PARLEY_SECURITY_TEST_ROLE"

func TestMain(m *testing.M) {
	if os.Getenv(roleVariable) == "parley" {
		ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
		code := cli.Main(ctx, os.Args[1:], cli.Process())
		stop()
		os.Exit(code)
	}
	os.Exit(m.Run())
}

// process is a mesh in a process of its own, serving TLS.
type process struct {
	t     testing.TB
	ready app.Ready
	admin *control.Client
	pool  *x509.CertPool
}

// startProcess runs parley serve with a configuration, given as YAML, until the
// test ends. The test fails if it does not stop cleanly.
func startProcess(t testing.TB, yaml string) *process {
	t.Helper()
	return startProgram(t, os.Args[0], yaml)
}

// product builds parley as its users get it. What is measured must not be the
// race detector's: it takes ten times the memory.
func product(t testing.TB) string {
	t.Helper()
	binary := filepath.Join(t.TempDir(), "parley")
	build := exec.CommandContext(t.Context(), "go", "build", "-o", binary, "./cmd/parley")
	build.Dir = ".."
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return binary
}

func startProgram(t testing.TB, program, yaml string) *process {
	t.Helper()
	p := &process{t: t}
	dir := parleytest.Dir(t)
	cert, key, pool := certtest.Write(t, dir, 1)
	p.pool = pool
	file, ready := filepath.Join(dir, "parley.yaml"), filepath.Join(dir, "ready.json")
	if err := os.WriteFile(file, []byte(yaml), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(program, "serve", "--config", file, "--data", filepath.Join(dir, "d"), "--listen", "127.0.0.1:0", "--grpc-listen", "127.0.0.1:0",
		"--ops-listen", "127.0.0.1:0", "--ready-file", ready, "--tls-cert", cert, "--tls-key", key)
	cmd.Env = append(os.Environ(), roleVariable+"=parley", "GOMEMLIMIT=off", "GOGC=100", "no_proxy=127.0.0.1")
	log, err := os.Create(filepath.Join(dir, "log"))
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stderr = log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
			t.Error(err)
		}
		if err := cmd.Wait(); err != nil {
			t.Errorf("the mesh did not stop cleanly: %v", err)
		}
		if text, err := os.ReadFile(log.Name()); err != nil || t.Failed() {
			t.Logf("the mesh's log (%v):\n%.20000s", err, text)
		} else if strings.Contains(string(text), "panic") {
			t.Errorf("the mesh panicked:\n%.20000s", text)
		}
		if err := log.Close(); err != nil {
			t.Error(err)
		}
	})
	await(t, "the mesh serves", func() bool {
		raw, err := os.ReadFile(ready)
		return err == nil && json.Unmarshal(raw, &p.ready) == nil
	})
	p.admin = control.NewSocketClient(p.ready.Socket)
	t.Cleanup(p.admin.Close)
	return p
}

// key makes a principal and a key for it.
func (p *process) key(name parley.PrincipalName) string {
	p.t.Helper()
	if _, err := p.admin.CreatePrincipal(p.t.Context(), control.NewPrincipal{Name: name}); err != nil {
		p.t.Fatal(err)
	}
	key, err := p.admin.CreateKey(p.t.Context(), control.NewKey{Principal: name})
	if err != nil {
		p.t.Fatal(err)
	}
	return key.Text
}

// address is where the edge listens.
func (p *process) address() string { return strings.TrimPrefix(p.ready.Listen, "https://") }

// dial opens a connection to the edge that speaks protocol: "h2" or "http/1.1".
func (p *process) dial(protocol string) (net.Conn, error) { return p.dialTo(p.address(), protocol) }

func (p *process) dialTo(address, protocol string) (net.Conn, error) {
	d := tls.Dialer{NetDialer: &net.Dialer{Timeout: parleytest.Patience}, Config: &tls.Config{RootCAs: p.pool, NextProtos: []string{protocol}}}
	return d.Dial("tcp", address)
}

// metric adds up the values of one of the mesh's metrics; with labels in its
// name it is one value.
func (p *process) metric(name string) float64 {
	p.t.Helper()
	return readMetric(p.t, p.ready.Ops, name)
}

func readMetric(t testing.TB, ops, name string) float64 {
	t.Helper()
	resp, err := http.Get(ops + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	sum := 0.0
	for lines := bufio.NewScanner(resp.Body); lines.Scan(); {
		rest, ok := strings.CutPrefix(lines.Text(), name)
		if !ok || rest == "" || rest[0] != ' ' && rest[0] != '{' {
			continue
		}
		value, err := strconv.ParseFloat(rest[strings.LastIndexByte(rest, ' ')+1:], 64)
		if err != nil {
			t.Fatal(err)
		}
		sum += value
	}
	return sum
}

// await looks until something holds: what goes on inside another process, or in
// the kernel, tells nobody that it is over.
func await(t testing.TB, what string, holds func() bool) {
	t.Helper()
	for deadline := time.Now().Add(parleytest.Patience); !holds(); {
		if time.Now().After(deadline) {
			t.Fatalf("it did not come to be that %s", what)
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// drained reads until the peer ends the connection, and how long that took. An
// error is that it did not in time.
func drained(conn net.Conn, limit time.Duration) (time.Duration, error) {
	began := time.Now()
	if err := conn.SetReadDeadline(began.Add(limit)); err != nil {
		return 0, err
	}
	_, err := io.Copy(io.Discard, conn)
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return 0, fmt.Errorf("the connection is held for more than %v", limit)
	}
	return time.Since(began), nil
}
