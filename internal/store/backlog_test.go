package store

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/parley-mesh/parley/internal/call"
	"github.com/parley-mesh/parley/internal/parley"
)

// logged is a log that a test reads.
type logged struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (l *logged) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(p)
}

// lines gives the lines that hold word.
func (l *logged) lines(word string) (found []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for line := range strings.Lines(l.buf.String()) {
		if strings.Contains(line, word) {
			found = append(found, line)
		}
	}
	return found
}

// failable opens a store whose disk can be made to fail and work again.
func failable(t *testing.T, opt Options) (db *DB, log *logged, fail, mend func()) {
	t.Helper()
	log = &logged{}
	opt.Dir, opt.Log = t.TempDir(), slog.New(slog.NewTextHandler(log, nil))
	db, err := Open(t.Context(), opt)
	if err != nil {
		t.Fatal(err)
	}
	way := filepath.Join(t.TempDir(), "way") // leads to the directory once the disk is mended
	fail = func() {
		err := db.w.do(context.Background(), statements(func(tx *tx) error {
			db.w.dsn = strings.Replace(db.w.dsn, opt.Dir, way, 1)
			if _, err := tx.run(`PRAGMA query_only(1)`); err != nil {
				return err
			}
			_, err := tx.run(`DELETE FROM meta WHERE name = 'nothing'`)
			return err
		}))
		if parley.KindOf(err) != parley.Unavailable {
			t.Fatalf("the disk fails with %v", err)
		}
	}
	mend = func() {
		if err := os.Symlink(opt.Dir, way); err != nil {
			t.Fatal(err)
		}
	}
	return db, log, fail, mend
}

func newCall() *call.Record {
	id := parley.NewCallID()
	return &call.Record{
		ID: id, Root: id, Link: call.Link{Kind: call.LinkRoot}, Caller: "client", CallerOwner: "default", Environment: parley.Dev,
		Agent: "echo", AgentOwner: "default", Method: "SendMessage", Begun: time.Now(),
	}
}

func endedCall(r *call.Record, o parley.Outcome) *call.Record {
	r.Ended, r.Outcome = r.Begun.Add(time.Millisecond), o
	return r
}

// healthy waits until the store writes again.
func healthy(t *testing.T, db *DB) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); db.Health(t.Context()) != nil; {
		if time.Now().After(deadline) {
			t.Fatal("the store does not write again")
		}
	}
}

// While the disk fails, what waits in memory is bounded: records of refused
// calls are left out and counted, reads are told beforehand, and what calls
// left that were let in is kept.
func TestFailingDiskKeepsWhatWasLetIn(t *testing.T) {
	const limit, begun, refused = 10, 40, 500
	db, log, fail, mend := failable(t, Options{BacklogMax: limit})
	ctx := t.Context()
	var calls []*call.Record
	for range begun {
		r := newCall()
		if err := db.Begin(ctx, r); err != nil {
			t.Fatal(err)
		}
		calls = append(calls, r)
	}
	fail()
	if err := db.CanRecord(); err != nil {
		t.Errorf("a read with room for its record: %v", err)
	}
	for range refused {
		r := endedCall(newCall(), parley.OutcomeDenied)
		if err := db.Settle(ctx, call.Settlement{Record: r, Insert: true, Refusal: true, Context: "c"}, false); err != nil {
			t.Fatal(err)
		}
	}
	// The writer may have had some in its hands when the disk failed: they came
	// back to a queue that had filled meanwhile.
	stats := db.Stats()
	kept := refused - int(stats.Dropped)
	if kept < limit || kept > 2*limit || stats.Queue > kept {
		t.Errorf("%d wait and %d were left out, want about %d and %d", stats.Queue, stats.Dropped, limit, refused-limit)
	}
	if err := db.CanRecord(); parley.KindOf(err) != parley.Unavailable {
		t.Errorf("a read without room for its record: %v, want unavailable", err)
	}
	for _, r := range calls {
		if err := db.Settle(ctx, call.Settlement{Record: endedCall(r, parley.OutcomeOK)}, false); err != nil {
			t.Fatal(err)
		}
	}
	mend()
	healthy(t, db)
	for _, r := range calls {
		if got, err := db.Call(ctx, r.ID); err != nil || got.Outcome != parley.OutcomeOK {
			t.Fatalf("a call that was let in: %+v, %v", got, err)
		}
	}
	if err := db.CanRecord(); err != nil {
		t.Errorf("a read after the recovery: %v", err)
	}
	if got, err := db.Calls(ctx, call.Filter{Outcome: string(parley.OutcomeDenied)}); err != nil || len(got) != kept {
		t.Errorf("%d records of refusals, %v, want %d", len(got), err, kept)
	}
	if l := log.lines("left out"); len(l) != 1 || !strings.Contains(l[0], fmt.Sprintf("count=%d", stats.Dropped)) {
		t.Errorf("the log tells of what was left out: %q", l)
	}
	if err := db.Close(ctx); err != nil {
		t.Fatal(err)
	}
}

// What a failing disk takes at the stop is told in one line.
func TestLostAtTheStop(t *testing.T) {
	db, log, fail, _ := failable(t, Options{})
	var calls []*call.Record
	for range 700 {
		r := newCall()
		if err := db.Begin(t.Context(), r); err != nil {
			t.Fatal(err)
		}
		calls = append(calls, r)
	}
	fail()
	for _, r := range calls {
		if err := db.Settle(t.Context(), call.Settlement{Record: endedCall(r, parley.OutcomeOK)}, false); err != nil {
			t.Fatal(err)
		}
	}
	if err := db.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	lost := log.lines("lost")
	if len(lost) != 1 {
		t.Fatalf("%d lines tell of what was lost, want 1", len(lost))
	}
	for _, word := range []string{"count=700", "first=" + calls[0].ID.String(), "last=" + calls[699].ID.String()} {
		if !strings.Contains(lost[0], word) {
			t.Errorf("%q does not say %q", lost[0], word)
		}
	}
	if all := log.lines("level=ERROR"); len(all) != 2 { // the disk fails; what was lost
		t.Errorf("%d lines are errors, want 2: %q", len(all), all[:min(5, len(all))])
	}
	if n := len(db.live.tasks) + len(db.live.contexts); n != 0 {
		t.Errorf("%d claims are left", n)
	}
}

// A settlement that was not taken claims nothing, however it was refused.
func TestRefusedSettlementClaimsNothing(t *testing.T) {
	for _, test := range []struct {
		name   string
		refuse func(t *testing.T, db *DB, fail func())
		kind   parley.Kind
		over   bool // the store takes nothing any more
	}{
		{"failing disk", func(_ *testing.T, _ *DB, fail func()) { fail() }, parley.Unavailable, false},
		{"full queue", func(_ *testing.T, db *DB, _ func()) { db.opt.QueueMax = -1 }, parley.Exhausted, false},
		{"stopping", func(t *testing.T, db *DB, _ func()) {
			if err := db.w.close(t.Context()); err != nil {
				t.Fatal(err)
			}
		}, parley.Unavailable, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			db, _, fail, mend := failable(t, Options{})
			r := newCall()
			if err := db.Begin(t.Context(), r); err != nil {
				t.Fatal(err)
			}
			claim := func(r *call.Record, wait bool) error {
				task := &call.Task{Agent: "echo", ID: "t", Principal: r.Caller, Owner: "default", State: "TASK_STATE_WORKING", StatusAt: r.Begun, UpdatedAt: r.Begun}
				return db.Settle(t.Context(), call.Settlement{Record: endedCall(r, parley.OutcomeOK), Task: task, Context: "c"}, wait)
			}
			test.refuse(t, db, fail)
			if err := claim(r, true); parley.KindOf(err) != test.kind {
				t.Fatalf("the settlement: %v, want %s", err, test.kind)
			}
			if test.over {
				if err := claim(r, false); parley.KindOf(err) != test.kind {
					t.Fatalf("the settlement that nobody waits for: %v, want %s", err, test.kind)
				}
			}
			db.live.mu.Lock()
			tasks, contexts, ending := len(db.live.tasks), len(db.live.contexts), db.live.calls[r.ID].ending
			db.live.mu.Unlock()
			if tasks != 0 || contexts != 0 || ending != 0 {
				t.Errorf("%d tasks and %d contexts are claimed, and %d ends counted, by what was refused", tasks, contexts, ending)
			}
			if !test.over {
				mend()
				db.opt.QueueMax = defaultQueueMax
				healthy(t, db)
				rival := newCall()
				rival.Caller = "rival"
				if err := db.Begin(t.Context(), rival); err != nil {
					t.Fatal(err)
				}
				if err := claim(rival, true); err != nil {
					t.Errorf("the claim of another principal: %v", err)
				}
			}
			if err := db.Close(t.Context()); err != nil {
				t.Fatal(err)
			}
		})
	}
}
