package store

import (
	"context"
	"fmt"
	"testing"

	"github.com/parley-mesh/parley/internal/call"
	"github.com/parley-mesh/parley/internal/parley"
)

// stick keeps the writer inside a transaction until free is called. What is
// handed over meanwhile waits for the next one.
func stick(t *testing.T, db *DB) (free func()) {
	t.Helper()
	stuck, release := make(chan struct{}), make(chan struct{})
	done := make(chan error, 1)
	go func() {
		first := true
		done <- db.w.do(context.Background(), statements(func(*tx) error {
			if first {
				first = false
				close(stuck)
			}
			<-release
			return nil
		}))
	}()
	<-stuck
	return func() {
		close(release)
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
}

// abandon begins a call for somebody who leaves while it is being written. The
// writer must be stuck.
func abandon(t *testing.T, db *DB, r *call.Record) {
	t.Helper()
	ctx, leave := context.WithCancel(t.Context())
	leave()
	if err := db.w.do(ctx, &begin{db: db, record: *r, waited: true}); err == nil {
		t.Fatal("the writer is not stuck")
	}
}

// A Begin whose caller has left when its turn comes is not written: nothing
// will be sent, and its record may be left out.
func TestAbandonedBeginIsNotWritten(t *testing.T) {
	db, _, _, _ := failable(t, Options{})
	free := stick(t, db)
	ctx, leave := context.WithCancel(t.Context())
	leave()
	r, next := newCall(), newCall()
	r.ContextID, next.ContextID, next.Caller = "c", "c", "rival"
	if err := db.Begin(ctx, r); parley.KindOf(err) != parley.Canceled {
		t.Fatalf("a Begin that was left: %v, want canceled", err)
	}
	free()
	if err := db.Begin(t.Context(), next); err != nil {
		t.Errorf("in the context of a call that was not made: %v", err)
	}
	if got, err := db.Call(t.Context(), r.ID); parley.KindOf(err) != parley.NotFound {
		t.Errorf("the call that was not made: %+v, %v, want none", got, err)
	}
	if err := db.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// A Begin that was given up on while it was written has a row all the same. The
// settlement of its call ends that row, in the same batch or a later one, and
// nothing takes the call for an open one.
func TestAbandonedBeginIsEnded(t *testing.T) {
	for _, batch := range []int{1, 256} {
		t.Run(fmt.Sprintf("batches of %d", batch), func(t *testing.T) {
			db, log, _, _ := failable(t, Options{BatchMax: batch})
			free := stick(t, db)
			waited, unwaited := newCall(), newCall()
			abandon(t, db, waited)
			abandon(t, db, unwaited)
			if err := db.Settle(t.Context(), call.Settlement{Record: endedCall(unwaited, parley.OutcomeDenied), Insert: true, Refusal: true}, false); err != nil {
				t.Fatal(err)
			}
			settled := make(chan error, 1)
			go func() {
				settled <- db.Settle(t.Context(), call.Settlement{Record: endedCall(waited, parley.OutcomeDenied), Insert: true}, true)
			}()
			free()
			if err := <-settled; err != nil {
				t.Errorf("the settlement: %v", err)
			}
			for _, r := range []*call.Record{waited, unwaited} {
				if got, err := db.Call(t.Context(), r.ID); err != nil || got.Outcome != parley.OutcomeDenied || got.Seq == 0 || got.EndSeq <= got.Seq {
					t.Errorf("the call is recorded as %+v, %v; want it denied", got, err)
				}
			}
			if found, err := db.OpenCallsOf(t.Context(), "echo"); err != nil || len(found) != 0 {
				t.Errorf("%d calls are taken for open, %v", len(found), err)
			}
			again := *unwaited
			if err := db.Settle(t.Context(), call.Settlement{Record: &again, Insert: true}, true); parley.KindOf(err) != parley.Conflict {
				t.Errorf("a second end: %v, want conflict", err)
			}
			if l := log.lines("level=ERROR"); len(l) != 0 {
				t.Errorf("the log holds %q", l)
			}
			if err := db.Close(t.Context()); err != nil {
				t.Fatal(err)
			}
		})
	}
}
