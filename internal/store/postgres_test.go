//go:build unix

package store

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/parley-mesh/parley/internal/call"
	"github.com/parley-mesh/parley/internal/identity"
	"github.com/parley-mesh/parley/internal/parley"
	"github.com/parley-mesh/parley/internal/storetest/pgtest"
)

// testKey is a master key that seals nothing worth it.
const testKey = "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA="

// replicaOf opens one more replica of the store at url.
func replicaOf(t *testing.T, url string, change func(*Options)) *DB {
	t.Helper()
	t.Setenv("PARLEY_TEST_MASTER", testKey)
	opt := Options{
		Dir: t.TempDir(), MasterKey: "env:PARLEY_TEST_MASTER", Postgres: Postgres{URL: url},
		Log: slog.New(slog.NewTextHandler(t.Output(), nil)),
	}
	if change != nil {
		change(&opt)
	}
	db, err := Open(t.Context(), opt)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
		defer cancel()
		if err := db.Close(ctx); err != nil && !db.closed {
			t.Error(err)
		}
	})
	return db
}

func connect(t *testing.T, url string) *pgx.Conn {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close(context.Background()) })
	return conn
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

const appendEvent = `INSERT INTO events (subject, subject_seq, type, time, owner, environment, data) VALUES ($1, $2, 'x.happened', 1, 'default', 'dev', '{}')`

// What came after the beginning of a call that somebody is changing waits for it,
// so that the feed is in order, and not for longer than heldFor.
func TestFeedWaitsForABeginning(t *testing.T) {
	url := pgtest.Database(t)
	db := replicaOf(t, url, nil)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for _, stays := range []bool{false, true} {
		sequencer, slow := connect(t, url), connect(t, url)
		before, err := db.LastSeq(ctx)
		must(t, err)
		held, err := sequencer.Begin(ctx) // nobody gives places meanwhile
		must(t, err)
		_, err = held.Exec(ctx, `SELECT last FROM feed FOR UPDATE`)
		must(t, err)
		first, second := newCall(), newCall()
		must(t, db.Begin(ctx, first))
		changing, err := slow.Begin(ctx)
		must(t, err)
		_, err = changing.Exec(ctx, `SELECT 1 FROM calls WHERE id = $1 FOR UPDATE`, first.ID[:])
		must(t, err)
		must(t, db.Begin(ctx, second))
		must(t, held.Rollback(ctx))
		want := []string{"calls/" + first.ID.String(), "calls/" + second.ID.String()}
		if stays {
			want = want[1:]
		} else {
			db.pg.kick()
			must(t, changing.Commit(ctx))
		}
		var got []string
		for len(got) < len(want) && ctx.Err() == nil {
			db.pg.kick()
			events, err := db.Events(ctx, before, 10)
			must(t, err)
			got = nil
			for _, e := range events {
				got = append(got, e.Subject)
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("the other stays: %t; the feed has %q, want %q", stays, got, want)
		}
		if stays {
			must(t, changing.Rollback(ctx))
		}
		must(t, db.Flush(ctx))
	}
}

// A transaction that takes long commits behind others that began later. Whoever
// reads on behind the last event it saw gets it all the same, once, and in the
// order in which each subject's events came about.
func TestFeedSkipsNothingThatCommitsLate(t *testing.T) {
	url := pgtest.Database(t)
	db := replicaOf(t, url, nil)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	slow := connect(t, url)
	tx, err := slow.Begin(ctx)
	must(t, err)
	_, err = tx.Exec(ctx, appendEvent, "slow/1", 1)
	must(t, err)
	must(t, db.AppendEvents(ctx, parley.Event{Subject: "quick/1", Type: "x.happened", Time: time.Now(), Owner: "default", Environment: parley.Dev}))
	must(t, db.Flush(ctx))
	events, err := db.Events(ctx, 0, 10)
	if err != nil || len(events) != 1 || events[0].Subject != "quick/1" {
		t.Fatalf("events while the slow one is under way: %+v, %v", events, err)
	}
	must(t, tx.Commit(ctx))
	db.pg.kick()
	must(t, db.Flush(ctx))
	behind, err := db.Events(ctx, events[0].Seq, 10)
	if err != nil || len(behind) != 1 || behind[0].Subject != "slow/1" {
		t.Fatalf("events behind the quick one: %+v, %v", behind, err)
	}

	const writers, each = 6, 40
	var group sync.WaitGroup
	for w := range writers {
		conn := connect(t, url)
		group.Go(func() {
			for i := range each {
				tx, err := conn.Begin(ctx)
				if err == nil {
					_, err = tx.Exec(ctx, appendEvent, fmt.Sprintf("w/%d", w), i+1)
				}
				if err == nil { // held open for as long as others take to come and go
					_, err = tx.Exec(ctx, `SELECT pg_sleep($1)`, rand.Float64()/100)
				}
				if err == nil {
					err = tx.Commit(ctx)
				}
				if err != nil {
					t.Error(err)
					return
				}
				db.pg.kick()
			}
		})
	}
	counts := map[string]int64{}
	for last, n := behind[0].Seq, 0; n < writers*each; {
		if ctx.Err() != nil {
			t.Fatalf("only %d events came", n)
		}
		page, err := db.Events(ctx, last, 7)
		must(t, err)
		for _, e := range page {
			if e.Seq <= last {
				t.Fatalf("place %d came behind %d", e.Seq, last)
			}
			last = e.Seq
			if counts[e.Subject]++; e.SubjectSeq != counts[e.Subject] {
				t.Fatalf("%s has sequence %d, want %d", e.Subject, e.SubjectSeq, counts[e.Subject])
			}
			n++
		}
	}
	group.Wait()
}

// Whoever believes to hold the lease gives no place twice, and one whose lease
// was taken over gives none.
func TestTwoSequencers(t *testing.T) {
	url := pgtest.Database(t)
	db := replicaOf(t, url, nil)
	must(t, db.AppendEvents(t.Context(), parley.Event{Subject: "x/1", Type: "x.happened", Time: time.Now(), Owner: "default", Environment: parley.Dev}))
	must(t, db.Flush(t.Context())) // so that it holds the lease
	conn, other := connect(t, url), connect(t, url)
	var holder, epoch int64
	must(t, conn.QueryRow(t.Context(), `UPDATE leases SET holder = -1, epoch = epoch + 1, expires_at = 9e15::bigint WHERE name = 'feed' RETURNING holder, epoch`).Scan(&holder, &epoch))
	const n = 3000
	_, err := conn.Exec(t.Context(), `INSERT INTO events (subject, subject_seq, type, time, owner, environment, data)
		SELECT 'many/1', i, 'x.happened', 1, 'default', 'dev', '{}' FROM generate_series(1, $1) i`, n)
	must(t, err)
	if gave, _, err := givePlaces(t.Context(), conn, db.pg.id.Load(), epoch-1, true); err != nil || gave != 0 {
		t.Errorf("a paused leader gave %d places after its lease was taken over, %v", gave, err)
	}
	var group sync.WaitGroup
	var given [2]int64
	for i, c := range []*pgx.Conn{conn, other} {
		group.Go(func() {
			for {
				gave, _, err := givePlaces(t.Context(), c, holder, epoch, true)
				if err != nil {
					t.Error(err)
					return
				}
				if given[i] += gave; gave == 0 {
					return
				}
			}
		})
	}
	group.Wait()
	var rows, places, last int64
	must(t, conn.QueryRow(t.Context(), `SELECT count(*), count(DISTINCT seq), (SELECT last FROM feed) FROM events WHERE subject = 'many/1'`).Scan(&rows, &places, &last))
	if rows != n || places != n || given[0]+given[1] != n || last < n {
		t.Errorf("%d rows have %d places, %v were given, the last is %d", rows, places, given, last)
	}
	// The lease is given back: this replica takes it again and goes on.
	_, err = conn.Exec(t.Context(), `UPDATE leases SET expires_at = 0`)
	must(t, err)
	must(t, db.AppendEvents(t.Context(), parley.Event{Subject: "x/1", Type: "x.happened", Time: time.Now(), Owner: "default", Environment: parley.Dev}))
	must(t, db.Flush(t.Context()))
}

// What a dead replica had open is another's: without a task its end is unknown,
// with one it is watched. The one that was only paused goes on as another
// replica, and what it ends afterwards is not ended twice.
func TestDeadReplicaIsAdopted(t *testing.T) {
	url := pgtest.Database(t)
	paused, other := replicaOf(t, url, nil), replicaOf(t, url, nil)
	ctx := t.Context()
	bare, bound := newCall(), newCall()
	must(t, paused.Begin(ctx, bare))
	must(t, paused.Begin(ctx, bound))
	bound.TaskID, bound.TaskState = "t", "TASK_STATE_WORKING"
	must(t, paused.Settle(ctx, call.Settlement{Record: bound}, true))
	if records, err := other.adopt(ctx); err != nil || len(records) != 0 {
		t.Fatalf("%d calls of a living replica were adopted, %v", len(records), err)
	}
	was := paused.pg.id.Load()
	_, err := connect(t, url).Exec(ctx, `UPDATE replicas SET expires_at = 0 WHERE id = $1`, was)
	must(t, err)
	n, err := other.Recover(ctx, time.Now())
	if err != nil || n != 1 {
		t.Errorf("%d calls are unknown, %v, want 1", n, err)
	}
	if got, err := other.Call(ctx, bare.ID); err != nil || got.Outcome != parley.OutcomeUnknown || got.Reason != string(parley.ShapeMeshDied) {
		t.Errorf("the call without a task reads %+v, %v", got, err)
	}
	if open, err := other.OpenCalls(ctx); err != nil || len(open) != 1 || open[0].ID != bound.ID {
		t.Errorf("open calls of the other replica: %+v, %v", open, err)
	}
	next := newCall()
	must(t, paused.Begin(ctx, next))
	if id := paused.pg.id.Load(); id == was {
		t.Error("a replica that was taken for dead goes on under its number")
	}
	if records, err := other.adopt(ctx); err != nil || len(records) != 0 {
		t.Errorf("%d calls of the replica that came back were adopted, %v", len(records), err)
	}
	wantKindOf(t, "the end of a call that was taken over", paused.Settle(ctx, call.Settlement{Record: endedCall(bare, parley.OutcomeOK)}, true), parley.Conflict)
	must(t, paused.Settle(ctx, call.Settlement{Record: endedCall(next, parley.OutcomeOK)}, true))
}

// What a replica that was taken for dead saw of a task is kept, although the call
// is ended by the one that took it over.
func TestLateSettlementKeepsTheTask(t *testing.T) {
	url := pgtest.Database(t)
	paused, other := replicaOf(t, url, nil), replicaOf(t, url, nil)
	ctx := t.Context()
	r := newCall()
	must(t, paused.Begin(ctx, r))
	r.TaskID, r.TaskState = "t", "TASK_STATE_WORKING"
	seen := &call.Task{Agent: r.Agent, ID: "t", Principal: r.Caller, Owner: r.CallerOwner, State: r.TaskState, StatusAt: r.Begun, Call: r.ID, UpdatedAt: r.Begun}
	must(t, paused.Settle(ctx, call.Settlement{Record: r, Task: seen}, true))
	taken := *r
	must(t, other.Settle(ctx, call.Settlement{Record: endedCall(&taken, parley.OutcomeTimeout)}, true))
	done := *seen
	done.State, done.Final, done.Snapshot = "TASK_STATE_COMPLETED", true, []byte(`{"id":"t"}`)
	must(t, paused.Settle(ctx, call.Settlement{Record: endedCall(r, parley.OutcomeOK), Task: &done}, false))
	must(t, paused.Flush(ctx))
	must(t, paused.Flush(ctx)) // the task follows the call that is refused
	if got, err := other.Task(ctx, seen.Key()); err != nil || !got.Final || string(got.Snapshot) != `{"id":"t"}` {
		t.Errorf("the task reads %+v, %v, want its end", got, err)
	}
	if got, err := other.Call(ctx, r.ID); err != nil || got.Outcome != parley.OutcomeTimeout {
		t.Errorf("the call reads %+v, %v, want what ended it first", got, err)
	}
}

// An adoption whose commit was one and seemed to fail is taken up at the next
// look.
func TestAdoptionInDoubt(t *testing.T) {
	url := pgtest.Database(t)
	gone, other := replicaOf(t, url, nil), replicaOf(t, url, nil)
	ctx := t.Context()
	r := newCall()
	must(t, gone.Begin(ctx, r))
	r.TaskID = "t"
	must(t, gone.Settle(ctx, call.Settlement{Record: r}, true))
	_, err := connect(t, url).Exec(ctx, `UPDATE calls SET replica = $1 WHERE id = $2`, other.pg.id.Load(), r.ID[:])
	must(t, err)
	other.pg.doubtful = []parley.CallID{r.ID}
	records, err := other.adopt(ctx)
	if err != nil || len(records) != 1 || records[0].ID != r.ID || other.live.seq(r.ID) == 0 {
		t.Errorf("adopted %+v, %v, want the call", records, err)
	}
	if records, err := other.adopt(ctx); err != nil || len(records) != 0 {
		t.Errorf("adopted again: %+v, %v", records, err)
	}
}

func wantKindOf(t *testing.T, what string, err error, kind parley.Kind) {
	t.Helper()
	if err == nil || parley.KindOf(err) != kind {
		t.Errorf("%s: %v, want %s", what, err, kind)
	}
}

// A clean stop leaves nothing to wait for: leases are free, and what waits for
// tasks is adopted at once, also by the next start on the same directory.
func TestReplicaLeaves(t *testing.T) {
	url := pgtest.Database(t)
	one, two := replicaOf(t, url, nil), replicaOf(t, url, nil)
	ctx := t.Context()
	r := newCall()
	must(t, one.Begin(ctx, r))
	r.TaskID = "t"
	must(t, one.Settle(ctx, call.Settlement{Record: r}, true))
	must(t, one.Flush(ctx))
	if !one.Holds(LeaseFeed) || two.Holds(LeaseFeed) {
		t.Errorf("the lease is held by the first: %t, and by the second: %t", one.Holds(LeaseFeed), two.Holds(LeaseFeed))
	}
	must(t, one.Close(ctx))
	if records, err := two.adopt(ctx); err != nil || len(records) != 1 {
		t.Errorf("%d calls are adopted, %v, want 1", len(records), err)
	}
	two.pg.mu.Lock()
	beat := two.pg.beats
	two.pg.mu.Unlock()
	<-beat
	var free int
	must(t, connect(t, url).QueryRow(ctx, `SELECT count(*) FROM leases WHERE holder = $1`, one.pg.id.Load()).Scan(&free))
	if free != 0 {
		t.Errorf("%d leases are kept by a replica that has left", free)
	}
}

// The name of a principal that was deleted at one replica can be given again:
// what its calls at another one leave later belongs to nobody.
func TestDepartureReachesOtherReplicas(t *testing.T) {
	url := pgtest.Database(t)
	one, two := replicaOf(t, url, nil), replicaOf(t, url, nil)
	ctx := t.Context()
	made := time.Now().Add(-time.Hour)
	alice := &identity.Principal{Name: "alice", Owner: parley.DefaultOwner, Environment: parley.Dev, CreatedAt: made}
	must(t, one.SavePrincipal(ctx, alice))
	r := newCall()
	r.Caller = "alice"
	must(t, two.Begin(ctx, r))
	must(t, one.DeletePrincipal(ctx, "alice", alice.Version))
	must(t, one.SavePrincipal(ctx, &identity.Principal{Name: "alice", Owner: parley.DefaultOwner, Environment: parley.Dev, CreatedAt: time.Now().Add(time.Second)}))
	task := &call.Task{Agent: "echo", ID: "t", Principal: "alice", Owner: parley.DefaultOwner, State: "TASK_STATE_COMPLETED", Final: true, StatusAt: time.Now(), UpdatedAt: time.Now()}
	must(t, two.Settle(ctx, call.Settlement{Record: endedCall(r, parley.OutcomeOK), Task: task, Context: "c"}, true))
	got, err := one.Task(ctx, task.Key())
	must(t, err)
	if !strings.HasPrefix(string(got.Principal), "~alice@") {
		t.Errorf("the late task belongs to %q", got.Principal)
	}
	if p, err := one.ContextOwner(ctx, "echo", "", "c"); err != nil || p != got.Principal {
		t.Errorf("the late context belongs to %q, %v", p, err)
	}
}

// Two replicas that write events of one subject, claim one task and change one
// row at once: each does what one alone would do.
func TestReplicasCollide(t *testing.T) {
	url := pgtest.Database(t)
	dbs := []*DB{replicaOf(t, url, nil), replicaOf(t, url, nil)}
	ctx := t.Context()
	const rounds = 30
	var group sync.WaitGroup
	wins := make([][rounds]bool, len(dbs))
	for n, db := range dbs {
		group.Go(func() {
			for i := range rounds {
				if err := db.AppendEvents(ctx, parley.Event{Subject: "s/1", Type: "s.happened", Time: time.Now(), Owner: "default", Environment: parley.Dev}); err != nil {
					t.Error(err)
				}
				r := newCall()
				r.Caller = parley.PrincipalName(fmt.Sprintf("p%d", n))
				task := &call.Task{Agent: "echo", ID: fmt.Sprint("t", i), Principal: r.Caller, Owner: "default", State: "TASK_STATE_WORKING", StatusAt: time.Now(), UpdatedAt: time.Now()}
				err := db.Settle(ctx, call.Settlement{Record: endedCall(r, parley.OutcomeOK), Insert: true, Task: task, Context: fmt.Sprint("c", i)}, true)
				if wins[n][i] = err == nil; err != nil && parley.KindOf(err) != parley.Denied {
					t.Errorf("a lost claim: %v", err)
				}
			}
		})
	}
	group.Wait()
	for i := range rounds {
		if wins[0][i] == wins[1][i] {
			t.Errorf("task %d: both replicas were told %t", i, wins[0][i])
		}
	}
	must(t, dbs[0].Flush(ctx))
	must(t, dbs[1].Flush(ctx))
	events, err := dbs[0].Events(ctx, 0, 500)
	must(t, err)
	var n int64
	for _, e := range events {
		if e.Subject == "s/1" {
			if n++; e.SubjectSeq != n {
				t.Errorf("sequence %d, want %d", e.SubjectSeq, n)
			}
		}
	}
	if n != 2*rounds {
		t.Errorf("%d events of the subject, want %d", n, 2*rounds)
	}
}

// Text that PostgreSQL cannot keep is refused where it is a key, and written as
// it can be where it only says what a caller sent.
func TestTextThatCannotBeKept(t *testing.T) {
	db := replicaOf(t, pgtest.Database(t), nil)
	ctx := t.Context()
	for _, bad := range []string{"a\x00b", "a\xffb"} {
		r := newCall()
		r.MessageID, r.ContextID, r.TaskID, r.Reference = bad, bad, bad, bad
		must(t, db.Begin(ctx, r))
		got, err := db.Call(ctx, r.ID)
		if err != nil || got.MessageID != "a\uFFFDb" || got.Reference != "a\uFFFDb" {
			t.Errorf("the record reads %+v, %v", got, err)
		}
		task := &call.Task{Agent: "echo", ID: bad, Principal: r.Caller, Owner: "default", State: "TASK_STATE_WORKING", StatusAt: time.Now(), UpdatedAt: time.Now()}
		wantKindOf(t, "a task of such an id", db.Settle(ctx, call.Settlement{Record: r, Task: task}, true), parley.Invalid)
		_, err = db.Task(ctx, task.Key())
		wantKindOf(t, "looking for it", err, parley.NotFound)
		if _, err := db.Calls(ctx, call.Filter{Reference: bad}); parley.KindOf(err) != parley.Invalid {
			t.Errorf("a search for it: %v", err)
		}
	}
	long := newCall()
	task := &call.Task{Agent: "echo", ID: strings.Repeat("x1y2", 1<<20), Principal: long.Caller, Owner: "default", State: "TASK_STATE_WORKING", StatusAt: time.Now(), UpdatedAt: time.Now()}
	if err := db.Settle(ctx, call.Settlement{Record: long, Insert: true, Task: task}, true); err != nil {
		wantKindOf(t, "a task of an id of 4 MiB", err, parley.Invalid)
	}
	must(t, db.Begin(ctx, newCall()))
}

// Several processes that start at once on an empty database make one mesh.
func TestFirstStartsAtOnce(t *testing.T) {
	url := pgtest.Database(t)
	t.Setenv("PARLEY_TEST_MASTER", testKey)
	const n = 4
	meshes := make([]string, n)
	var group sync.WaitGroup
	for i := range n {
		dir := t.TempDir()
		group.Go(func() {
			db, err := Open(t.Context(), Options{Dir: dir, MasterKey: "env:PARLEY_TEST_MASTER", Postgres: Postgres{URL: url}})
			if err != nil {
				t.Error(err)
				return
			}
			meshes[i] = db.MeshID()
			if err := db.Close(context.Background()); err != nil {
				t.Error(err)
			}
		})
	}
	group.Wait()
	for _, m := range meshes {
		if m != meshes[0] || len(m) != 32 {
			t.Errorf("meshes %q, want one", meshes)
		}
	}
	// With key files of their own, one wins and the others are told.
	url = pgtest.Database(t)
	errs := make([]error, n)
	for i := range n {
		dir := t.TempDir()
		group.Go(func() {
			db, err := Open(t.Context(), Options{Dir: dir, Postgres: Postgres{URL: url}})
			if errs[i] = err; err == nil {
				errs[i] = db.Close(context.Background())
			}
			if _, statErr := os.Stat(filepath.Join(dir, "master.key")); err != nil && !errors.Is(statErr, os.ErrNotExist) {
				t.Errorf("a key is left beside data sealed under another (%v)", statErr)
			}
		})
	}
	group.Wait()
	started := 0
	for _, err := range errs {
		if err == nil {
			started++
		} else {
			wantKindOf(t, "a start with another key", err, parley.Invalid)
		}
	}
	if started != 1 {
		t.Errorf("%d processes with keys of their own have started, want 1: %v", started, errs)
	}
}

func TestNumbered(t *testing.T) {
	for in, want := range map[string]string{
		`SELECT 1`:                            `SELECT 1`,
		`a = ? AND b = ?`:                     `a = $1 AND b = $2`,
		`a = ?2 OR b = ?1 OR c = ?12`:         `a = $2 OR b = $1 OR c = $12`,
		`x = '?' AND y = ? AND z = 'it''s ?'`: `x = '?' AND y = $1 AND z = 'it''s ?'`,
	} {
		if got := numbered(in); got != want {
			t.Errorf("%s becomes %s, want %s", in, got, want)
		}
	}
}
