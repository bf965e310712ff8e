package bench

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// Bounds of the database server's life.
const (
	postgresStartTime = 60 * time.Second
	postgresPoll      = 50 * time.Millisecond
	postgresUser      = "bench"
	postgresDatabase  = "parley"
)

// postgres is a PostgreSQL server of the run's own.
type postgres struct {
	cmd   *exec.Cmd
	ended chan error
	bin   string
	dir   string
	port  int
	pass  string
}

// errNoPostgres says that there is no server to be started.
var errNoPostgres = errors.New("PostgreSQL was left out: no initdb in PATH or below /usr/lib/postgresql; install the server's programs")

// postgresPrograms is the newest folder with the server's programs.
func postgresPrograms() (string, error) {
	if path, err := exec.LookPath("initdb"); err == nil {
		real, err := filepath.EvalSymlinks(path) // the link may stand alone
		return filepath.Dir(real), err
	}
	found, err := filepath.Glob("/usr/lib/postgresql/*/bin/initdb")
	if err != nil || len(found) == 0 {
		return "", errNoPostgres
	}
	version := func(path string) int {
		n, _ := strconv.Atoi(filepath.Base(filepath.Dir(filepath.Dir(path)))) // a name that is no number comes last
		return n
	}
	return filepath.Dir(slices.MaxFunc(found, func(a, b string) int { return version(a) - version(b) })), nil
}

// startPostgres starts a server with an empty database until the bed is
// closed. Everything that makes commits durable is on, as by default.
func (b *bed) startPostgres(ctx context.Context) (*postgres, error) {
	bin, err := postgresPrograms()
	if err != nil {
		return nil, err
	}
	who, err := databaseUser()
	if err != nil {
		return nil, fmt.Errorf("start PostgreSQL: %w", err)
	}
	p := &postgres{bin: bin, pass: rand.Text(), ended: make(chan error, 1)}
	if p.dir, err = os.MkdirTemp(b.dir, "pg"); err != nil {
		return nil, fmt.Errorf("start PostgreSQL: %w", err)
	}
	if p.dir, err = filepath.Abs(p.dir); err != nil { // its programs run there
		return nil, fmt.Errorf("start PostgreSQL: %w", err)
	}
	password := filepath.Join(p.dir, "password")
	// The server's user passes through the directory and sees nothing else in it.
	err = errors.Join(os.Chmod(b.dir, 0o711), os.WriteFile(password, []byte(p.pass), 0o600), giveTo(who, p.dir), giveTo(who, password))
	if err != nil {
		return nil, fmt.Errorf("start PostgreSQL: %w", err)
	}
	initdb := p.program(ctx, "initdb", "-D", p.data(), "-U", postgresUser, "--pwfile="+password, "--auth=scram-sha-256",
		"--no-sync", "-E", "UTF8", "--locale=C.UTF-8")
	asUser(initdb, who)
	if out, err := initdb.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("initdb: %w: %s", err, out)
	}
	if p.port, err = freePort(); err != nil {
		return nil, fmt.Errorf("start PostgreSQL: %w", err)
	}
	log, err := os.Create(p.log())
	if err != nil {
		return nil, fmt.Errorf("start PostgreSQL: %w", err)
	}
	defer log.Close() // the process has its own handle
	p.cmd = p.program(ctx, "postgres", "-D", p.data(), "-k", p.dir, "-p", strconv.Itoa(p.port), "-c", "listen_addresses=127.0.0.1",
		"-c", "fsync=on", "-c", "synchronous_commit=on", "-c", "full_page_writes=on")
	asUser(p.cmd, who)
	diesWithUs(p.cmd, syscall.SIGQUIT)
	p.cmd.Stdout, p.cmd.Stderr = log, log
	p.cmd.Cancel = func() error { return p.cmd.Process.Signal(syscall.SIGINT) } // sends clients away
	if err := p.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start PostgreSQL: %w", err)
	}
	go func() { p.ended <- p.cmd.Wait() }() // ends with the process; stop waits for it
	b.stops, b.servers = append(b.stops, p.stop), append(b.servers, p.pid())
	if err := p.open(ctx); err != nil {
		return nil, err
	}
	return p, nil
}

// open waits until the server answers and makes the database.
func (p *postgres) open(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, postgresStartTime)
	defer cancel()
	for {
		out, err := p.program(ctx, "createdb", "-h", "127.0.0.1", "-p", strconv.Itoa(p.port), "-U", postgresUser, postgresDatabase).CombinedOutput()
		if err == nil || errors.Is(err, fs.ErrNotExist) {
			return err
		}
		select {
		case err := <-p.ended:
			p.ended <- err
			return fmt.Errorf("start PostgreSQL: it ended (%v); its log ends: %s", err, logEnd(p.log()))
		case <-ctx.Done():
			return fmt.Errorf("start PostgreSQL: %w: %s", ctx.Err(), out)
		case <-time.After(postgresPoll):
		}
	}
}

// program is one of the server's programs, run where its user may be.
func (p *postgres) program(ctx context.Context, name string, args ...string) *exec.Cmd {
	cmd := command(ctx, filepath.Join(p.bin, name), args...)
	cmd.Dir = p.dir
	// No settings of the operator's own server.
	cmd.Env = slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, "PG") })
	cmd.Env = append(cmd.Env, "PGPASSWORD="+p.pass)
	return cmd
}

func (p *postgres) data() string { return filepath.Join(p.dir, "data") }

// log is the file that has the server's messages. It lies beside the server's
// directory, which is not ours.
func (p *postgres) log() string { return p.dir + ".log" }

func (p *postgres) pid() int { return p.cmd.Process.Pid }

// url is the database's address with its password.
func (p *postgres) url() string {
	u := url.URL{Scheme: "postgres", User: url.UserPassword(postgresUser, p.pass),
		Host: net.JoinHostPort("127.0.0.1", strconv.Itoa(p.port)), Path: "/" + postgresDatabase, RawQuery: "sslmode=disable"}
	return u.String()
}

// stop asks the server to end and waits for it.
func (p *postgres) stop() error {
	if err := p.cmd.Cancel(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("stop PostgreSQL: %w", err)
	}
	select {
	case err := <-p.ended:
		if err != nil {
			return fmt.Errorf("stop PostgreSQL: %w; its log ends: %s", err, logEnd(p.log()))
		}
		return nil
	case <-time.After(stopTime):
		return errors.Join(fmt.Errorf("stop PostgreSQL: not within %s", stopTime), p.cmd.Process.Signal(syscall.SIGQUIT))
	}
}

// freePort returns a port that nobody uses at the moment.
func freePort() (int, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	return l.Addr().(*net.TCPAddr).Port, l.Close()
}
