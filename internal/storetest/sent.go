package storetest

import (
	"errors"
	"testing"
	"time"

	"github.com/parley-mesh/parley/internal/call"
	"github.com/parley-mesh/parley/internal/parley"
	"github.com/parley-mesh/parley/internal/store"
)

// A message is sent once within its window, and as long as the call that sent it
// is open; until that says that nothing was taken.
func testSentMessages(t *testing.T, s Store) {
	ctx := t.Context()
	send := func(i int, begun time.Time, digest byte) (*call.Record, error) {
		r := newRecord(i)
		r.MessageID, r.ContextID, r.Begun = "m", "", begun
		r.Sent = &call.Sent{Digest: [16]byte{digest}, Window: time.Hour}
		return r, s.Begin(ctx, r)
	}
	wantRepeated := func(what string, err error, first *call.Record, same bool) {
		t.Helper()
		repeated, ok := errors.AsType[*call.RepeatedError](err)
		if !ok || repeated.First != first.ID || repeated.Same != same || parley.KindOf(err) != parley.Conflict {
			t.Errorf("%s: got %v (%+v), want that call %s sent it, the same: %v", what, err, repeated, first.ID, same)
		}
	}
	first, err := send(1, at(1), 1)
	must(t, err)
	second, err := send(2, at(2), 1)
	wantRepeated("the same message", err, first, true)
	if _, err := s.Call(ctx, second.ID); parley.KindOf(err) != parley.NotFound {
		t.Errorf("the repeat has a record: %v", err)
	}
	_, err = send(3, at(3), 2)
	wantRepeated("another message", err, first, false)
	_, err = send(4, at(4).Add(2*time.Hour), 1)
	wantRepeated("after the window, while the first is open", err, first, true)

	// Nothing was taken of it.
	first.Reason = "dial"
	finish(first, parley.OutcomeCrash)
	must(t, s.Settle(ctx, call.Settlement{Record: first, Unsent: true}, true))
	next, err := send(5, at(5), 1)
	must(t, err)
	finish(next, parley.OutcomeOK)
	must(t, s.Settle(ctx, call.Settlement{Record: next}, true))
	_, err = send(6, at(6), 1)
	wantRepeated("after the end", err, next, true)
	// The end of another call frees it for nobody.
	other := newRecord(7)
	must(t, s.Begin(ctx, other))
	other.MessageID = "m"
	finish(other, parley.OutcomeCrash)
	must(t, s.Settle(ctx, call.Settlement{Record: other, Unsent: true}, true))
	_, err = send(8, at(8), 1)
	wantRepeated("after another call's end", err, next, true)

	last, err := send(9, at(9).Add(2*time.Hour), 1)
	must(t, err) // the window is over
	gone, err := s.Prune(ctx, store.Cutoffs{Messages: last.Begun.Add(time.Second)})
	must(t, err)
	if gone.Messages != 0 {
		t.Errorf("the message of an open call was forgotten")
	}
	finish(last, parley.OutcomeOK)
	must(t, s.Settle(ctx, call.Settlement{Record: last}, true))
	gone, err = s.Prune(ctx, store.Cutoffs{Messages: last.Begun.Add(time.Second)})
	must(t, err)
	if gone.Messages != 1 {
		t.Errorf("%d messages were forgotten, want the one", gone.Messages)
	}
}
