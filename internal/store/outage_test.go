//go:build unix

package store

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/parley-mesh/parley/internal/call"
	"github.com/parley-mesh/parley/internal/parley"
	"github.com/parley-mesh/parley/internal/storetest/pgtest"
)

// breakable opens a store on a server that the test may break. Its log must
// never hold the password.
func breakable(t *testing.T, address func(s *pgtest.Server, database string) string) (*pgtest.Server, *DB) {
	t.Helper()
	s := pgtest.New(t)
	s.Exec(t, "postgres", "CREATE DATABASE mesh")
	log := &logged{}
	where := s.URL("mesh")
	if address != nil {
		where = address(s, "mesh")
	}
	db := replicaOf(t, where, func(o *Options) {
		o.Log = slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelDebug}))
		o.Postgres.StatementTimeout, o.Postgres.ConnectTimeout = 2*time.Second, 2*time.Second
	})
	t.Cleanup(func() {
		if lines := log.lines(s.Password); len(lines) > 0 {
			t.Errorf("the password is in the log: %q", lines)
		}
	})
	return s, db
}

// refusedNow waits until writes are refused, and gives the refusal.
func refusedNow(t *testing.T, db *DB) error {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); {
		if err := db.Begin(t.Context(), newCall()); err != nil {
			return err
		}
	}
	t.Fatal("writes are not refused")
	return nil
}

// survives breaks a server in one way and mends it. Meanwhile writes are refused
// with words that help and hold no password, what was let in is kept, and
// afterwards all is well without a restart.
func survives(t *testing.T, s *pgtest.Server, db *DB, fail, mend func(), words ...string) {
	t.Helper()
	ctx := t.Context()
	before, during := newCall(), newCall()
	must(t, db.Begin(ctx, before))
	fail()
	err := refusedNow(t, db)
	text := parley.PublicMessage(err)
	if parley.KindOf(err) != parley.Unavailable {
		t.Errorf("refused with %v, want unavailable", err)
	}
	for _, w := range words {
		if !strings.Contains(text, w) {
			t.Errorf("the refusal %q does not say %q", text, w)
		}
	}
	if strings.Contains(err.Error(), s.Password) {
		t.Errorf("the refusal holds the password: %v", err)
	}
	must(t, db.Settle(ctx, call.Settlement{Record: endedCall(before, parley.OutcomeOK)}, false))
	must(t, db.Settle(ctx, call.Settlement{Record: endedCall(during, parley.OutcomeOK), Insert: true}, false))
	mend()
	healthy(t, db)
	must(t, db.Flush(ctx))
	for _, r := range []*call.Record{before, during} {
		if got, err := db.Call(ctx, r.ID); err != nil || got.Outcome != parley.OutcomeOK || got.EndSeq == 0 {
			t.Errorf("a record of the outage: %+v, %v", got, err)
		}
	}
	must(t, db.Begin(ctx, newCall()))
}

func TestServerKilledAndStarted(t *testing.T) {
	s, db := breakable(t, nil)
	survives(t, s, db, func() { s.Kill(t) }, func() { must(t, s.Start()) }, "mesh at 127.0.0.1", "cannot be reached", "goes on by itself")
}

func TestServerHangs(t *testing.T) {
	s, db := breakable(t, nil)
	survives(t, s, db, func() { s.Halt(t) }, func() { s.Resume(t) }, "mesh at 127.0.0.1", "goes on by itself")
	// A read has a deadline of its own.
	s.Halt(t)
	_, err := db.Owner(context.Background(), parley.DefaultOwner)
	wantKindOf(t, "a read from a server that hangs", err, parley.Unavailable)
	s.Resume(t)
	healthy(t, db)
}

func TestServerReadOnly(t *testing.T) {
	s, db := breakable(t, nil)
	set := func(value string) func() {
		return func() {
			s.Exec(t, "postgres", "SET default_transaction_read_only = off", "ALTER SYSTEM SET default_transaction_read_only = "+value, "SELECT pg_reload_conf()")
		}
	}
	survives(t, s, db, set("on"), set("off"), "read-only", "target_session_attrs=read-write")
}

// The address lists two servers; the one that answers has moved to the other.
func TestServerFailsOver(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	second := l.Addr().(*net.TCPAddr).Port
	must(t, l.Close())
	s, db := breakable(t, func(s *pgtest.Server, database string) string {
		u, err := url.Parse(s.URL(database))
		must(t, err)
		u.Host = fmt.Sprintf("%s,127.0.0.1:%d", u.Host, second)
		u.RawQuery += "&target_session_attrs=read-write"
		return u.String()
	})
	survives(t, s, db, func() { s.Kill(t) }, func() { s.Port = second; must(t, s.Start()) }, fmt.Sprint(second), "cannot be reached")
}

// A lock that somebody holds for long runs into the statement's time-out.
func TestStatementTimeout(t *testing.T) {
	s, db := breakable(t, nil)
	conn := connect(t, s.URL("mesh"))
	survives(t, s, db, func() {
		for _, statement := range []string{"BEGIN", "LOCK TABLE calls"} {
			if _, err := conn.Exec(t.Context(), statement); err != nil {
				t.Fatal(err)
			}
		}
	}, func() {
		if _, err := conn.Exec(t.Context(), "ROLLBACK"); err != nil {
			t.Fatal(err)
		}
	}, "postgres.statement_timeout")
}

// Starts that cannot be say what is wrong, and never the password.
func TestRefusedAddresses(t *testing.T) {
	s := pgtest.New(t)
	s.Exec(t, "postgres", "CREATE ROLE few LOGIN PASSWORD 'hunter2' CONNECTION LIMIT 1", "CREATE DATABASE few OWNER few")
	with := func(change func(u *url.URL)) string {
		u, err := url.Parse(s.URL("postgres"))
		must(t, err)
		change(u)
		return u.String()
	}
	for _, test := range []struct {
		name, url string
		kind      parley.Kind
		words     []string
	}{
		{"no address", "postgres://mesh:hunter2@h:port/x", parley.Invalid, []string{"postgres://user:password@host:5432/database"}},
		{"wrong password", with(func(u *url.URL) { u.User = url.UserPassword("parley", "hunter2") }), parley.Unavailable, []string{"user or the password"}},
		{"no database", with(func(u *url.URL) { u.Path = "/nothing" }), parley.Unavailable, []string{"no database nothing", "create it"}},
		{"nobody there", "postgres://mesh:hunter2@127.0.0.1:1/mesh", parley.Unavailable, []string{"mesh at 127.0.0.1:1", "cannot be reached"}},
		{"too few connections", with(func(u *url.URL) { u.User, u.Path = url.UserPassword("few", "hunter2"), "/few" }), parley.Unavailable, []string{"no more connections", "postgres.connections"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			var log logged
			db, err := Open(t.Context(), Options{Dir: t.TempDir(), Log: slog.New(slog.NewTextHandler(&log, nil)), Postgres: Postgres{URL: test.url, ConnectTimeout: 2 * time.Second}})
			if err == nil {
				t.Fatal(db.Close(context.Background()))
			}
			wantKindOf(t, "the start", err, test.kind)
			for _, w := range test.words {
				if !strings.Contains(parley.PublicMessage(err), w) {
					t.Errorf("%q does not say %q", parley.PublicMessage(err), w)
				}
			}
			if all := err.Error() + strings.Join(log.lines(""), ""); strings.Contains(all, "hunter2") || strings.Contains(all, s.Password) {
				t.Errorf("the password shows: %s", all)
			}
		})
	}
}

// Readers that ask for more connections than there are wait, and are refused
// where they wait too long; writes are not touched.
func TestReadsWaitForConnections(t *testing.T) {
	url := pgtest.Database(t)
	db := replicaOf(t, url, func(o *Options) {
		o.Postgres.Conns, o.Postgres.StatementTimeout = 1, 500*time.Millisecond
	})
	look, err := db.read.begin(t.Context())
	must(t, err)
	_, err = db.Owner(t.Context(), parley.DefaultOwner)
	wantKindOf(t, "a read without a connection", err, parley.Unavailable)
	must(t, db.Begin(t.Context(), newCall()))
	_ = look.end() // its own time is over as well
	if _, err := db.Owner(t.Context(), parley.DefaultOwner); err != nil {
		t.Errorf("a read once there is a connection: %v", err)
	}
}
