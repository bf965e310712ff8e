package store

import (
	"context"
	"database/sql/driver"
	"testing"

	"github.com/parley-mesh/parley/internal/call"
	"github.com/parley-mesh/parley/internal/parley"
)

// doubtful is a COMMIT that is one and ends with an error.
type doubtful struct {
	driver.StmtExecContext
	err error
}

func (d doubtful) ExecContext(ctx context.Context, args []driver.NamedValue) (driver.Result, error) {
	if res, err := d.StmtExecContext.ExecContext(ctx, args); err != nil {
		return res, err
	}
	return nil, d.err
}

// doubt is work that makes the commit of its batch one whose result is in
// doubt.
func doubt(tx *tx) error {
	if _, err := tx.run(`PRAGMA query_only(1)`); err != nil {
		return err
	}
	_, failure := tx.run(`DELETE FROM meta WHERE name = 'nothing'`) // an error of the disk
	if _, err := tx.run(`PRAGMA query_only(0)`); err != nil {
		return err
	}
	s, err := tx.conn.(*sqliteConn).prepared("COMMIT", nil)
	if err != nil {
		return err
	}
	s.exec = doubtful{s.exec, failure}
	return nil
}

// A commit that was reported as failed may be on the disk: the places in the
// feed that it took are not given again, what it ended is not open, and what is
// tried again is neither written twice nor called refused.
func TestCommitInDoubt(t *testing.T) {
	for _, durability := range []Durability{Strict, Relaxed} {
		t.Run(string(durability), func(t *testing.T) {
			db, log, _, _ := failable(t, Options{Durability: durability})
			ctx := t.Context()
			ended, begun, read := newCall(), newCall(), newCall()
			if err := db.Begin(ctx, ended); err != nil {
				t.Fatal(err)
			}
			free := stick(t, db)
			gone, leave := context.WithCancel(ctx)
			leave()
			if err := db.w.do(gone, statements(doubt)); err == nil {
				t.Fatal("the writer is not stuck")
			}
			if durability == Strict {
				abandon(t, db, begun)
			} else if err := db.Begin(ctx, begun); err != nil {
				t.Fatal(err)
			}
			happened := parley.Event{Subject: "s/1", Type: "s.happened", Time: ended.Begun, Owner: "default", Environment: parley.Dev}
			for _, s := range []call.Settlement{
				{Record: endedCall(ended, parley.OutcomeOK), Events: []parley.Event{happened}},
				{Record: endedCall(read, parley.OutcomeOK), Insert: true},
			} {
				if err := db.Settle(ctx, s, false); err != nil {
					t.Fatal(err)
				}
			}
			free()
			if err := db.catchUp(ctx); err != nil && parley.KindOf(err) != parley.Unavailable { // or tried again already
				t.Errorf("behind the commit in doubt: %v, want unavailable", err)
			}
			healthy(t, db)
			if err := db.Settle(ctx, call.Settlement{Record: endedCall(begun, parley.OutcomeDenied), Insert: durability == Strict}, true); err != nil {
				t.Errorf("the end of a call whose begin was in doubt: %v", err)
			}
			if found, err := db.OpenCallsOf(ctx, "echo"); err != nil || len(found) != 0 {
				t.Errorf("%d calls are taken for open, %v", len(found), err)
			}
			events, err := db.Events(ctx, 0, 100)
			if err != nil || len(events) != 7 { // three calls, and what happened
				t.Errorf("%d events, %v, want 7", len(events), err)
			}
			for i, e := range events {
				if i > 0 && e.Seq <= events[i-1].Seq {
					t.Errorf("place %d came behind %d", e.Seq, events[i-1].Seq)
				}
			}
			if l := log.lines("level=ERROR"); len(l) != 1 { // the commit that failed
				t.Errorf("the log holds %q", l)
			}
			if err := db.Close(ctx); err != nil {
				t.Fatal(err)
			}
		})
	}
}
