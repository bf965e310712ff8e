package store_test

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/parley-mesh/parley/internal/call"
	"github.com/parley-mesh/parley/internal/identity"
	"github.com/parley-mesh/parley/internal/parley"
	"github.com/parley-mesh/parley/internal/registry"
	"github.com/parley-mesh/parley/internal/store"
)

const databaseFile = "parley.db"

// zeroKey is a master key that seals nothing worth it.
const zeroKey = "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA="

// record is a call as short as it may be.
func record() *call.Record {
	id := parley.NewCallID()
	return &call.Record{
		ID: id, Root: id, Link: call.Link{Kind: call.LinkRoot}, Caller: "client", CallerOwner: "default", Environment: parley.Dev,
		Agent: "echo", AgentOwner: "default", Method: "SendMessage", Begun: time.Now(),
	}
}

func ended(r *call.Record) *call.Record {
	r.Ended, r.Outcome = r.Begun.Add(time.Millisecond), parley.OutcomeOK
	return r
}

// wantError checks kind and words of an error that a person reads.
func wantError(t *testing.T, err error, kind parley.Kind, words ...string) {
	t.Helper()
	if err == nil || parley.KindOf(err) != kind {
		t.Fatalf("error %v, want one of kind %s", err, kind)
	}
	for _, w := range words {
		if !strings.Contains(parley.PublicMessage(err), w) {
			t.Errorf("error %q does not say %q", parley.PublicMessage(err), w)
		}
	}
}

// A closed store holds everything that was handed over, waited for or not.
func TestReopen(t *testing.T) {
	ctx := t.Context()
	dir := t.TempDir()
	db, err := store.Open(ctx, store.Options{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	mesh := db.MeshID()
	open1, over := record(), record()
	open1.TaskID = "t"
	for _, r := range []*call.Record{open1, over} {
		if err := db.Begin(ctx, r); err != nil {
			t.Fatal(err)
		}
	}
	if err := db.Settle(ctx, call.Settlement{Record: ended(over)}, false); err != nil {
		t.Fatal(err)
	}
	last, err := db.LastSeq(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if err := db.Close(ctx); err != nil {
		t.Fatal(err)
	}
	if err := db.Begin(ctx, record()); parley.KindOf(err) != parley.Unavailable {
		t.Errorf("a write after Close: %v, want unavailable", err)
	}

	db = open(t, store.Options{Dir: dir})
	if db.MeshID() != mesh || len(mesh) != 32 {
		t.Errorf("mesh id %q after a restart, want %q", db.MeshID(), mesh)
	}
	got, err := db.Call(ctx, over.ID)
	if err != nil || got.Outcome != parley.OutcomeOK {
		t.Errorf("the call that ended unwaited: %+v, %v", got, err)
	}
	if found, err := db.OpenCallsOf(ctx, "echo"); err != nil || len(found) != 1 || found[0].ID != open1.ID {
		t.Errorf("open calls after a restart: %v, %v, want the one that is open", found, err)
	}
	r := record()
	if err := db.Begin(ctx, r); err != nil || r.Seq <= last {
		t.Errorf("the next place is %d, %v, want one behind %d", r.Seq, err, last)
	}
	if _, err := db.Owner(ctx, parley.DefaultOwner); err != nil {
		t.Errorf("the default owner: %v", err)
	}
}

// Places are not given twice, not even when the rows that had them are gone.
func TestPlacesSurvivePruneAndRestart(t *testing.T) {
	ctx := t.Context()
	dir := t.TempDir()
	db, err := store.Open(ctx, store.Options{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		if err := db.Settle(ctx, call.Settlement{Record: ended(record()), Insert: true}, true); err != nil {
			t.Fatal(err)
		}
	}
	last, err := db.LastSeq(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if p, err := db.Prune(ctx, store.Cutoffs{Calls: time.Now().Add(time.Hour)}); err != nil || p.Calls != 3 {
		t.Fatalf("pruned %+v, %v, want 3 calls", p, err)
	}
	if err := db.Close(ctx); err != nil {
		t.Fatal(err)
	}
	db = open(t, store.Options{Dir: dir})
	r := record()
	if err := db.Begin(ctx, r); err != nil || r.Seq <= last {
		t.Errorf("the next place is %d, %v, want one behind %d", r.Seq, err, last)
	}
}

func TestSecondInstanceIsRefused(t *testing.T) {
	dir := t.TempDir()
	db := open(t, store.Options{Dir: dir})
	_, err := store.Open(t.Context(), store.Options{Dir: dir})
	wantError(t, err, parley.Conflict, dir, "process "+strconv.Itoa(os.Getpid()), "--data")
	if err := db.Begin(t.Context(), record()); err != nil {
		t.Errorf("the first instance after the attempt: %v", err)
	}
}

func TestFilesAreClosedToOthers(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "new", "data")
	open(t, store.Options{Dir: dir})
	st, err := os.Stat(dir)
	if err != nil || st.Mode().Perm()&0o077 != 0 {
		t.Errorf("mode of the data directory: %v, %v", st.Mode(), err)
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if info, err := e.Info(); err != nil || info.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s: mode %v, %v, want it closed to others", e.Name(), info.Mode(), err)
		}
	}
}

// Secrets and snapshots are nowhere in the files, not even in the log.
func TestSealedAtRest(t *testing.T) {
	ctx := t.Context()
	dir := t.TempDir()
	db := open(t, store.Options{Dir: dir})
	const secret, snapshot = "correct-horse-battery-staple", "the-customer-said-this"
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(db.SaveOwner(ctx, &identity.Owner{Name: "alpha", CreatedAt: time.Now()}))
	must(db.SaveAgent(ctx, &registry.Agent{Name: "echo", Owner: "alpha", Title: "visible-title"}))
	must(db.SaveCredential(ctx, &registry.Credential{Agent: "echo", Owner: "alpha", Secret: secret}))
	r := record()
	must(db.Settle(ctx, call.Settlement{Record: r, Insert: true, Task: &call.Task{
		Agent: "echo", ID: "t", Principal: "client", Owner: "alpha", Snapshot: []byte(snapshot), StatusAt: time.Now(), UpdatedAt: time.Now(),
	}}, true))
	var all []byte
	for _, name := range []string{databaseFile, databaseFile + "-wal"} {
		b, err := os.ReadFile(filepath.Join(dir, name))
		must(err)
		all = append(all, b...)
	}
	if !bytes.Contains(all, []byte("visible-title")) {
		t.Fatal("the files do not hold what was written: the test looks in the wrong place")
	}
	for _, s := range []string{secret, snapshot} {
		if bytes.Contains(all, []byte(s)) {
			t.Errorf("the files hold %q in clear", s)
		}
	}
	// A secret copied into another agent's row opens for nobody.
	must(db.SaveAgent(ctx, &registry.Agent{Name: "other", Owner: "alpha"}))
	must(db.SaveCredential(ctx, &registry.Credential{Agent: "other", Owner: "alpha", Secret: "mine"}))
	raw := rawDB(t, dir)
	if _, err := raw.Exec(`UPDATE credentials SET secret = (SELECT secret FROM credentials WHERE agent = 'echo') WHERE agent = 'other'`); err != nil {
		t.Fatal(err)
	}
	if c, err := db.Credential(ctx, "other"); err == nil {
		t.Errorf("a moved secret opened as %q", c.Secret)
	}
}

// rawDB opens the database beside the store, as somebody with a shell could.
func rawDB(t *testing.T, dir string) *sql.DB {
	t.Helper()
	raw, err := sql.Open("sqlite", filepath.Join(dir, databaseFile)+"?_pragma=busy_timeout(5000)")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { raw.Close() })
	return raw
}

// closed makes a store, closes it and gives its directory.
func closed(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	db, err := store.Open(t.Context(), store.Options{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	for range 50 {
		if err := db.Settle(t.Context(), call.Settlement{Record: ended(record()), Insert: true}, true); err != nil {
			t.Fatal(err)
		}
	}
	if err := db.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	return dir
}

func TestLostMasterKeyIsRefused(t *testing.T) {
	dir := closed(t)
	path := filepath.Join(dir, "master.key")
	key, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	_, err = store.Open(t.Context(), store.Options{Dir: dir})
	wantError(t, err, parley.Invalid, path, "backup", "cannot be read")
	if _, err := os.Stat(path); !errors.Is(err, os.ErrNotExist) {
		t.Error("a new master key was made beside data that is sealed under the lost one")
	}
	t.Setenv("PARLEY_TEST_MASTER", zeroKey)
	_, err = store.Open(t.Context(), store.Options{Dir: dir, MasterKey: "env:PARLEY_TEST_MASTER"})
	wantError(t, err, parley.Invalid, "sealed under", "backup")
	if err := os.WriteFile(path, key, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(path, 0o644); err != nil {
		t.Fatal(err)
	}
	_, err = store.Open(t.Context(), store.Options{Dir: dir})
	wantError(t, err, parley.Invalid, "chmod 600")
	if err := os.Chmod(path, 0o600); err != nil {
		t.Fatal(err)
	}
	open(t, store.Options{Dir: dir})
}

func TestDamagedFileIsRefused(t *testing.T) {
	for _, test := range []struct {
		name   string
		damage func(b []byte) []byte
	}{
		{"header", func(b []byte) []byte { copy(b, "not a database at all"); return b }},
		{"pages", func(b []byte) []byte {
			for i := 4096; i < len(b); i += 512 {
				copy(b[i:], bytes.Repeat([]byte{0xa5}, 256))
			}
			return b
		}},
		{"cut", func(b []byte) []byte { return b[:len(b)/2] }},
	} {
		t.Run(test.name, func(t *testing.T) {
			dir := closed(t)
			path := filepath.Join(dir, databaseFile)
			b, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, test.damage(b), 0o600); err != nil {
				t.Fatal(err)
			}
			_, err = store.Open(t.Context(), store.Options{Dir: dir})
			wantError(t, err, parley.Unavailable, path, "parley doctor", "move it")
			// The way back works: moved away, a new one starts.
			for _, suffix := range []string{"", "-wal", "-shm"} {
				if err := os.Rename(path+suffix, path+suffix+".damaged"); err != nil && !errors.Is(err, os.ErrNotExist) {
					t.Fatal(err)
				}
			}
			open(t, store.Options{Dir: dir})
		})
	}
}

func TestNewerSchemaIsRefused(t *testing.T) {
	dir := closed(t)
	raw := rawDB(t, dir)
	if _, err := raw.Exec(`INSERT INTO goose_db_version (version_id, is_applied) VALUES (9999, 1)`); err != nil {
		t.Fatal(err)
	}
	if err := raw.Close(); err != nil {
		t.Fatal(err)
	}
	_, err := store.Open(t.Context(), store.Options{Dir: dir})
	wantError(t, err, parley.Invalid, "9999", "newer")
}

// Every schema that was ever released opens, and its rows are read. The files
// in testdata/released are dumps of databases as those releases left them,
// sealed under zeroKey: two calls, of which one has ended with a task, and one
// more event; later ones also have an agent.
func TestOpensReleasedSchemas(t *testing.T) {
	scripts, err := filepath.Glob("testdata/released/*.sql")
	if err != nil || len(scripts) == 0 {
		t.Fatalf("no released schemas: %v", err)
	}
	for _, path := range scripts {
		t.Run(filepath.Base(path), func(t *testing.T) {
			script, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			dir := t.TempDir()
			raw := rawDB(t, dir)
			if _, err := raw.Exec(string(script)); err != nil {
				t.Fatal(err)
			}
			if err := raw.Close(); err != nil {
				t.Fatal(err)
			}
			t.Setenv("PARLEY_TEST_MASTER", zeroKey)
			db := open(t, store.Options{Dir: dir, MasterKey: "env:PARLEY_TEST_MASTER"})
			calls, err := db.Calls(context.Background(), call.Filter{})
			if err != nil || len(calls) != 2 || calls[0].Outcome != parley.OutcomeOK || !calls[1].Open() {
				t.Errorf("calls of an old database: %+v, %v, want an ended and an open one", calls, err)
			}
			events, err := db.Events(context.Background(), 0, 100)
			if err != nil || len(events) != 4 {
				t.Errorf("events of an old database: %+v, %v, want 4", events, err)
			}
			task, err := db.Task(context.Background(), call.TaskKey{Agent: "echo", ID: "t"})
			if err != nil || string(task.Snapshot) != `{"id":"t"}` {
				t.Errorf("task of an old database: %+v, %v, want its snapshot", task, err)
			}
			if owner, err := db.ContextOwner(context.Background(), "echo", "", "c"); err != nil || owner != "client" {
				t.Errorf("context of an old database belongs to %q, %v, want client", owner, err)
			}
			agents, err := db.Agents(context.Background(), "", "", 10)
			if err != nil || len(agents) > 0 && agents[0].Name != "echo" {
				t.Errorf("agents of an old database: %+v, %v", agents, err)
			}
			if err := db.Begin(context.Background(), record()); err != nil {
				t.Errorf("a call in an old database: %v", err)
			}
		})
	}
}

func TestOptionsAreChecked(t *testing.T) {
	_, err := store.Open(t.Context(), store.Options{})
	wantError(t, err, parley.Invalid, "data directory")
	_, err = store.Open(t.Context(), store.Options{Dir: t.TempDir(), Durability: "none"})
	wantError(t, err, parley.Invalid, "strict or relaxed")
}

func TestRelaxedWaitsForNothingAndLosesNothing(t *testing.T) {
	ctx := t.Context()
	db := open(t, store.Options{Durability: store.Relaxed})
	r := record()
	if err := db.Begin(ctx, r); err != nil {
		t.Fatal(err)
	}
	if found, err := db.OpenCallsOf(ctx, "echo"); err != nil || len(found) != 1 {
		t.Errorf("open calls %v, %v right after Begin, want the one", found, err)
	}
	if err := db.Settle(ctx, call.Settlement{Record: ended(r)}, false); err != nil {
		t.Fatal(err)
	}
	got, err := db.Call(ctx, r.ID)
	if err != nil || got.Outcome != parley.OutcomeOK || got.Seq == 0 || got.EndSeq != got.Seq+1 {
		t.Errorf("call %+v, %v, want it begun and ended in one row", got, err)
	}
	if found, err := db.OpenCallsOf(ctx, "echo"); err != nil || len(found) != 0 {
		t.Errorf("open calls %v, %v, want none", found, err)
	}
}

// Health and every write say the same while another program holds the file,
// and all is well again without a restart.
func TestForeignLock(t *testing.T) {
	if testing.Short() {
		t.Skip("waits for the lock time-out of five seconds")
	}
	ctx := t.Context()
	dir := t.TempDir()
	db := open(t, store.Options{Dir: dir})
	raw := rawDB(t, dir)
	raw.SetMaxOpenConns(1)
	if _, err := raw.Exec(`BEGIN IMMEDIATE`); err != nil {
		t.Fatal(err)
	}
	wantError(t, db.Begin(ctx, record()), parley.Unavailable, databaseFile, "another program")
	wantError(t, db.Health(ctx), parley.Unavailable, "another program")
	if _, err := db.Calls(ctx, call.Filter{}); err != nil {
		t.Errorf("reads while the writer fails: %v", err)
	}
	meter := newSignal()
	db.Measure(meter)
	if err := db.Settle(ctx, call.Settlement{Record: ended(record()), Insert: true}, false); err != nil {
		t.Fatal(err)
	}
	if _, err := raw.Exec(`ROLLBACK`); err != nil {
		t.Fatal(err)
	}
	wait(t, "commit", meter.committed)
	if err := db.Health(ctx); err != nil {
		t.Errorf("health after the lock is gone: %v", err)
	}
}

// signal is a meter that tells of commits and failures.
type signal struct {
	committed, failed chan struct{}
}

func newSignal() *signal {
	return &signal{committed: make(chan struct{}, 1), failed: make(chan struct{}, 1)}
}

func tell(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

func (s *signal) Committed(int, time.Duration) { tell(s.committed) }
func (s *signal) Failed()                      { tell(s.failed) }
func (s *signal) Refused()                     {}

// wait waits until the store has told of what.
func wait(t *testing.T, what string, c chan struct{}) {
	t.Helper()
	select {
	case <-c:
	case <-time.After(30 * time.Second):
		t.Fatalf("no %s for 30 s", what)
	}
}

// Under durability relaxed a Begin waits for nothing, but for the answer whose
// its context is.
func TestRelaxedBeginTellsWhoseTheContextIs(t *testing.T) {
	db := open(t, store.Options{Durability: store.Relaxed})
	mine, theirs, bare := record(), record(), record()
	mine.ContextID, theirs.ContextID, theirs.Caller = "c", "c", "rival"
	if err := db.Begin(t.Context(), mine); err != nil || mine.Seq == 0 {
		t.Errorf("begun at %d, %v", mine.Seq, err)
	}
	wantError(t, db.Begin(t.Context(), theirs), parley.Denied)
	if err := db.Begin(t.Context(), bare); err != nil || bare.Seq != 0 {
		t.Errorf("without a context: begun at %d, %v; want it only taken", bare.Seq, err)
	}
	if found, err := db.OpenCallsOf(t.Context(), "echo"); err != nil || len(found) != 2 {
		t.Errorf("%d open calls, %v, want 2", len(found), err)
	}
}
