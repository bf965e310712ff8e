//go:build unix

// Package pgtest gives tests a real PostgreSQL: a private cluster in a temporary
// directory, which ends with the test program, however that ends, and a database
// of its own for every test. Nothing of it touches a server of the machine.
//
// Where PostgreSQL is not installed tests are skipped with that reason, and fail
// where CI is set: there it belongs to the machine.
package pgtest

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

// patience bounds what a server may take to start or end.
const patience = 60 * time.Second

// errMissing says that PostgreSQL is not installed.
var errMissing = errors.New("PostgreSQL is not installed: no initdb in PATH or in /usr/lib/postgresql/*/bin (Debian: apt-get install postgresql)")

// binaries is the newest folder that holds PostgreSQL's programs.
func binaries() (string, error) {
	if path, err := exec.LookPath("initdb"); err == nil {
		return filepath.Dir(path), nil
	}
	found, err := filepath.Glob("/usr/lib/postgresql/*/bin/initdb")
	if err != nil || len(found) == 0 {
		return "", errMissing
	}
	version := func(path string) int {
		n, _ := strconv.Atoi(strings.Split(path, "/")[4]) // a name that is no number comes last
		return n
	}
	newest := slices.MaxFunc(found, func(a, b string) int { return version(a) - version(b) })
	return filepath.Dir(newest), nil
}

// Server is a cluster of a test's own.
type Server struct {
	// Port is where it answers on 127.0.0.1.
	Port int
	// Password is that of the user parley, who owns every database.
	Password string

	dir, bin string
	creds    *syscall.Credential // whom it runs as; nil: as the test
	leash    io.WriteCloser      // closing it ends the server
	ended    chan struct{}       // closed when it has ended
}

// shared is the server of this test program.
var shared = sync.OnceValues(func() (*Server, error) { return start() })

// Database makes a database for the test on the server that all tests of this
// program share, and gives its address. It is gone when the test ends.
func Database(t testing.TB) string {
	t.Helper()
	s, err := shared()
	need(t, err)
	return s.Database(t)
}

// Shared makes a database as Database does, for tests that have no testing.TB. It
// lasts until the program ends. missing is why there is no PostgreSQL, where that
// is no failure: the test is to be skipped.
func Shared() (url string, missing, err error) {
	s, err := shared()
	switch {
	case errors.Is(err, errMissing) && os.Getenv("CI") == "":
		return "", err, nil
	case err != nil:
		return "", nil, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	conn, err := pgx.Connect(ctx, s.URL("postgres"))
	if err != nil {
		return "", nil, err
	}
	defer conn.Close(ctx)
	name := fmt.Sprintf("test%d", databases.Add(1))
	if _, err := conn.Exec(ctx, "CREATE DATABASE "+name); err != nil {
		return "", nil, err
	}
	return s.URL(name), nil, nil
}

// New starts a server for this test alone, which the test may stop and break.
func New(t testing.TB) *Server {
	t.Helper()
	s, err := start()
	need(t, err)
	t.Cleanup(func() { s.End(t) })
	return s
}

func need(t testing.TB, err error) {
	t.Helper()
	switch {
	case errors.Is(err, errMissing) && os.Getenv("CI") == "":
		t.Skip(err)
	case err != nil:
		t.Fatal(err)
	}
}

// start makes a cluster and starts it.
func start() (_ *Server, err error) {
	s := &Server{}
	if s.bin, err = binaries(); err != nil {
		return nil, err
	}
	if os.Geteuid() == 0 { // the server refuses to run as root
		if s.creds, err = unprivileged(); err != nil {
			return nil, err
		}
	}
	secret := make([]byte, 8)
	if _, err := rand.Read(secret); err != nil {
		return nil, err
	}
	s.Password = hex.EncodeToString(secret)
	if s.dir, err = os.MkdirTemp("", "pgtest"); err != nil {
		return nil, err
	}
	password := filepath.Join(s.dir, "password")
	if err := os.WriteFile(password, []byte(s.Password), 0o600); err != nil {
		return nil, err
	}
	if s.creds != nil {
		for _, path := range []string{s.dir, password} {
			if err := os.Chown(path, int(s.creds.Uid), int(s.creds.Gid)); err != nil {
				return nil, err
			}
		}
	}
	// A language's own order, so that nothing relies on that of the bytes by
	// accident.
	initdb := exec.Command(filepath.Join(s.bin, "initdb"), "-D", s.data(), "-U", "parley", "--pwfile="+password,
		"--auth-host=scram-sha-256", "--auth-local=trust", "--no-sync", "-E", "UTF8", "--locale=C.UTF-8", "--locale-provider=icu", "--icu-locale=en")
	s.own(initdb)
	if out, err := initdb.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("initdb: %w\n%s", err, out)
	}
	return s, s.Start()
}

func (s *Server) data() string { return filepath.Join(s.dir, "data") }

// own makes a command run as the server's user, in the server's directory.
func (s *Server) own(c *exec.Cmd) {
	c.Dir = s.dir
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if s.creds != nil {
		c.SysProcAttr.Credential = s.creds
	}
}

// unprivileged is the user postgres, or nobody where there is none.
func unprivileged() (*syscall.Credential, error) {
	u, err := user.Lookup("postgres")
	if err != nil {
		if u, err = user.Lookup("nobody"); err != nil {
			return nil, err
		}
	}
	uid, err := strconv.ParseUint(u.Uid, 10, 32)
	if err != nil {
		return nil, err
	}
	gid, err := strconv.ParseUint(u.Gid, 10, 32)
	if err != nil {
		return nil, err
	}
	return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}, nil
}

// keep runs the server until its standard input ends, as it does when the test
// program ends, however that comes about; then it removes the directory where
// that is asked.
const keep = `"$1"/postgres -D "$2" "${@:4}" >"$2"/log 2>&1 </dev/null &
server=$!
read -r what
kill -QUIT $server 2>/dev/null; kill -CONT $server 2>/dev/null
wait $server
[ "$what" = keep ] || rm -rf "$3"`

// Start starts the server, or starts it again after Kill or Halt.
func (s *Server) Start() error {
	if s.Port == 0 {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return err
		}
		s.Port = l.Addr().(*net.TCPAddr).Port
		if err := l.Close(); err != nil {
			return err
		}
	}
	// No test cuts the power: what a killed server had written is in the kernel's
	// hands, so that it need not wait for the disk.
	c := exec.Command("bash", "-c", keep, "keep", s.bin, s.data(), s.dir,
		"-p", strconv.Itoa(s.Port), "-c", "listen_addresses=127.0.0.1", "-k", s.dir, "-c", "max_connections=200",
		"-c", "shared_buffers=64MB", "-c", "log_min_messages=warning", "-c", "deadlock_timeout=100ms", "-c", "fsync=off")
	s.own(c)
	leash, err := c.StdinPipe()
	if err != nil {
		return err
	}
	if err := c.Start(); err != nil {
		return err
	}
	s.leash, s.ended = leash, make(chan struct{})
	go func() { // ends with the server
		defer close(s.ended)
		_ = c.Wait() // it is ended by a signal
	}()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	for {
		conn, err := pgx.Connect(ctx, s.URL("postgres"))
		if err == nil {
			return conn.Close(ctx)
		}
		select {
		case <-ctx.Done():
			log, _ := os.ReadFile(filepath.Join(s.data(), "log")) // what there is of it
			return fmt.Errorf("the server does not answer: %w\n%s", err, log)
		case <-s.ended:
			log, _ := os.ReadFile(filepath.Join(s.data(), "log")) // what there is of it
			return fmt.Errorf("the server has ended:\n%s", log)
		case <-time.After(20 * time.Millisecond): // another process's start: there is nothing to wait on
		}
	}
}

// URL is the address of a database.
func (s *Server) URL(database string) string {
	u := url.URL{Scheme: "postgres", User: url.UserPassword("parley", s.Password),
		Host: net.JoinHostPort("127.0.0.1", strconv.Itoa(s.Port)), Path: "/" + database, RawQuery: "sslmode=disable"}
	return u.String()
}

var databases atomic.Int64

// Database makes a database that is gone when the test ends, and gives its
// address.
func (s *Server) Database(t testing.TB) string {
	t.Helper()
	name := fmt.Sprintf("test%d", databases.Add(1))
	s.Exec(t, "postgres", "CREATE DATABASE "+name)
	t.Cleanup(func() {
		select {
		case <-s.ended:
			return
		default:
		}
		s.Exec(t, "postgres", "DROP DATABASE IF EXISTS "+name+" WITH (FORCE)")
	})
	return s.URL(name)
}

// Exec runs statements in a database, each by itself.
func (s *Server) Exec(t testing.TB, database string, statements ...string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	conn, err := pgx.Connect(ctx, s.URL(database))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(ctx)
	for _, statement := range statements {
		if _, err := conn.Exec(ctx, statement); err != nil {
			t.Fatalf("%s: %v", statement, err)
		}
	}
}

// Folder makes a folder of the server's own inside dir, for a tablespace.
func (s *Server) Folder(t testing.TB, dir string) string {
	t.Helper()
	folder, err := os.MkdirTemp(dir, "tablespace")
	if err != nil {
		t.Fatal(err)
	}
	if s.creds != nil {
		if err := os.Chown(folder, int(s.creds.Uid), int(s.creds.Gid)); err != nil {
			t.Fatal(err)
		}
	}
	return folder
}

// pids are the server's processes, its first one first.
func (s *Server) pids(t testing.TB) []int {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join(s.data(), "postmaster.pid"))
	if err != nil {
		t.Fatal(err)
	}
	first, err := strconv.Atoi(strings.SplitN(string(raw), "\n", 2)[0])
	if err != nil {
		t.Fatal(err)
	}
	all := []int{first}
	stats, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range stats {
		raw, err := os.ReadFile(path)
		if err != nil {
			continue // it has ended
		}
		_, rest, _ := strings.Cut(string(raw), ") ")
		if fields := strings.Fields(rest); len(fields) > 1 && fields[1] == strconv.Itoa(first) {
			if pid, err := strconv.Atoi(strings.Split(path, "/")[2]); err == nil {
				all = append(all, pid)
			}
		}
	}
	return all
}

func (s *Server) signal(t testing.TB, sig syscall.Signal) {
	t.Helper()
	for _, pid := range s.pids(t) {
		if err := syscall.Kill(pid, sig); err != nil && !errors.Is(err, syscall.ESRCH) {
			t.Fatal(err)
		}
	}
}

// Halt stops every process of the server where it is; Resume lets them go on.
func (s *Server) Halt(t testing.TB) { t.Helper(); s.signal(t, syscall.SIGSTOP) }

// Resume ends a Halt.
func (s *Server) Resume(t testing.TB) { t.Helper(); s.signal(t, syscall.SIGCONT) }

// Kill ends every process of the server with SIGKILL, as a power cut would. The
// data stays for Start.
func (s *Server) Kill(t testing.TB) {
	t.Helper()
	s.signal(t, syscall.SIGSTOP) // so that none is born meanwhile, who would outlive it
	s.signal(t, syscall.SIGKILL)
	if _, err := io.WriteString(s.leash, "keep\n"); err != nil {
		t.Fatal(err)
	}
	s.wait(t)
}

// End ends the server and removes its data.
func (s *Server) End(t testing.TB) {
	t.Helper()
	select {
	case <-s.ended: // killed: nobody else removes what is left
		if err := os.RemoveAll(s.dir); err != nil {
			t.Error(err)
		}
		return
	default:
	}
	if err := s.leash.Close(); err != nil {
		t.Error(err)
	}
	s.wait(t)
}

func (s *Server) wait(t testing.TB) {
	t.Helper()
	select {
	case <-s.ended:
	case <-time.After(patience):
		t.Error("the database server does not end")
	}
}
