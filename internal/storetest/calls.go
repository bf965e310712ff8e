package storetest

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/parley-mesh/parley/internal/call"
	"github.com/parley-mesh/parley/internal/parley"
)

func testCallRoundTrip(t *testing.T, s Store) {
	ctx := t.Context()
	parent := newRecord(0)
	must(t, s.Begin(ctx, parent))
	r := newRecord(1)
	r.Root, r.Link = parent.ID, call.Link{Kind: call.LinkParent, Parent: parent.ID, Depth: 1, Candidates: []parley.CallID{parent.ID}, Count: 1}
	must(t, s.Begin(ctx, r))
	placed(t, s, parent)
	placed(t, s, r)
	if r.Seq <= parent.Seq || parent.Seq == 0 {
		t.Errorf("places %d and %d, want them set and growing", parent.Seq, r.Seq)
	}
	got, err := s.Call(ctx, r.ID)
	must(t, err)
	if diff := cmp.Diff(r, got); diff != "" {
		t.Errorf("begun call (-written +read):\n%s", diff)
	}
	wantKind(t, "the same id again", s.Begin(ctx, r), parley.Conflict)

	r.TaskID, r.TaskState = "t1", "TASK_STATE_FAILED"
	finish(r, parley.OutcomeCrash)
	must(t, s.Settle(ctx, call.Settlement{Record: r}, true))
	placed(t, s, r)
	got, err = s.Call(ctx, r.ID)
	must(t, err)
	if diff := cmp.Diff(r, got); diff != "" {
		t.Errorf("ended call (-written +read):\n%s", diff)
	}

	read := newRecord(2)
	read.Link = call.Link{Kind: call.LinkAmbiguous, Depth: 3, Candidates: []parley.CallID{parent.ID, r.ID}, Count: 20}
	finish(read, parley.OutcomeOK)
	must(t, s.Settle(ctx, call.Settlement{Record: read, Insert: true}, true))
	placed(t, s, read)
	got, err = s.Call(ctx, read.ID)
	must(t, err)
	if diff := cmp.Diff(read, got); diff != "" {
		t.Errorf("call written at its end (-written +read):\n%s", diff)
	}
	// A further turn stands beside the first, under its parent if it has one.
	for _, first := range []*call.Record{parent, r} {
		turn := newRecord(3)
		turn.Link, turn.Root = call.Turn(first)
		must(t, s.Begin(ctx, turn))
		placed(t, s, turn)
		got, err = s.Call(ctx, turn.ID)
		must(t, err)
		if diff := cmp.Diff(turn, got); diff != "" {
			t.Errorf("a further turn (-written +read):\n%s", diff)
		}
	}
	_, err = s.Call(ctx, parley.NewCallID())
	wantKind(t, "a missing call", err, parley.NotFound)
}

func testCallEndsOnce(t *testing.T, s Store) {
	ctx := t.Context()
	r := newRecord(1)
	must(t, s.Begin(ctx, r))
	finish(r, parley.OutcomeOK)
	must(t, s.Settle(ctx, call.Settlement{Record: r}, true))
	again := *r
	again.Outcome = parley.OutcomeCrash
	wantKind(t, "a second end", s.Settle(ctx, call.Settlement{Record: &again, Events: []parley.Event{happened("x/1", "x.happened")}}, true), parley.Conflict)
	got, err := s.Call(ctx, r.ID)
	must(t, err)
	if got.Outcome != parley.OutcomeOK {
		t.Errorf("outcome %q after a second end, want the first one's, ok", got.Outcome)
	}
	// A call whose Begin failed has no row; its end makes one.
	lost := newRecord(2)
	finish(lost, parley.OutcomeDenied)
	must(t, s.Settle(ctx, call.Settlement{Record: lost}, true))
	got, err = s.Call(ctx, lost.ID)
	must(t, err)
	if got.Outcome != parley.OutcomeDenied {
		t.Errorf("outcome %q of a call that never began, want denied", got.Outcome)
	}
}

func testCallFilters(t *testing.T, s Store) {
	ctx := t.Context()
	var ids []parley.CallID
	for i := range 10 {
		r := newRecord(i)
		if i%2 == 1 {
			r.Caller, r.CallerOwner, r.Agent, r.Method = "other", "gamma", "fox", "GetTask"
		}
		must(t, s.Begin(ctx, r))
		ids = append(ids, r.ID)
		if i < 6 {
			r.TaskID = fmt.Sprintf("t%d", i)
			finish(r, parley.OutcomeOK)
			if i == 3 {
				r.Outcome = parley.OutcomeTimeout
			}
			must(t, s.Settle(ctx, call.Settlement{Record: r}, false))
		}
	}
	for _, test := range []struct {
		name string
		f    call.Filter
		want []int
	}{
		{"all", call.Filter{}, []int{9, 8, 7, 6, 5, 4, 3, 2, 1, 0}},
		{"limit", call.Filter{Limit: 2}, []int{9, 8}},
		{"page", call.Filter{Limit: 2, Before: ids[8]}, []int{7, 6}},
		{"caller", call.Filter{Caller: "other"}, []int{9, 7, 5, 3, 1}},
		{"caller's owner", call.Filter{Owner: "gamma", Limit: 1}, []int{9}},
		{"agent's owner", call.Filter{Owner: "beta", Limit: 2}, []int{9, 8}},
		{"agent", call.Filter{Agent: "echo", Limit: 2}, []int{8, 6}},
		{"method", call.Filter{Method: "GetTask", Limit: 2}, []int{9, 7}},
		{"task", call.Filter{Task: "t4"}, []int{4}},
		{"reference", call.Filter{Reference: "order 7"}, []int{7}},
		{"root", call.Filter{Root: ids[2]}, []int{2}},
		{"open", call.Filter{Outcome: "open"}, []int{9, 8, 7, 6}},
		{"outcome", call.Filter{Outcome: "timeout"}, []int{3}},
		{"time", call.Filter{Since: at(2), Until: at(4)}, []int{3, 2}},
		{"nothing", call.Filter{Caller: "nobody"}, nil},
	} {
		records, err := s.Calls(ctx, test.f)
		must(t, err)
		var got []int
		for _, r := range records {
			for i, id := range ids {
				if id == r.ID {
					got = append(got, i)
				}
			}
		}
		if diff := cmp.Diff(test.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", test.name, diff)
		}
	}
	_, err := s.Calls(ctx, call.Filter{Outcome: "splendid"})
	wantKind(t, "an outcome that does not exist", err, parley.Invalid)
}

func testCallTree(t *testing.T, s Store) {
	ctx := t.Context()
	root := newRecord(0)
	must(t, s.Begin(ctx, root))
	want := []parley.CallID{root.ID}
	for i := 1; i < 4; i++ {
		r := newRecord(i)
		r.Root = root.ID
		r.Link = call.Link{Kind: call.LinkParent, Parent: want[i-1], Depth: i, Candidates: want[i-1 : i], Count: 1}
		must(t, s.Begin(ctx, r))
		want = append(want, r.ID)
	}
	must(t, s.Begin(ctx, newRecord(9)))
	tree, err := s.Tree(ctx, root.ID)
	must(t, err)
	var got []parley.CallID
	for _, r := range tree {
		got = append(got, r.ID)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("tree (-want +got):\n%s", diff)
	}
}

func testOpenCalls(t *testing.T, s Store) {
	ctx := t.Context()
	var open []*call.Record
	for i := range 4 {
		r := newRecord(i)
		must(t, s.Begin(ctx, r))
		open = append(open, r)
	}
	ids := func() (got []parley.CallID) {
		found, err := s.OpenCallsOf(ctx, "echo")
		must(t, err)
		for _, c := range found {
			got = append(got, c.ID)
		}
		return got
	}
	finish(open[1], parley.OutcomeOK)
	must(t, s.Settle(ctx, call.Settlement{Record: open[1]}, false))
	want := []parley.CallID{open[0].ID, open[2].ID, open[3].ID}
	if diff := cmp.Diff(want, ids()); diff != "" {
		t.Errorf("candidates right after an end (-want +got):\n%s", diff)
	}
	// A reply with a task that goes on leaves the call open, and known by its task.
	open[2].TaskID, open[2].TaskState, open[2].ContextID = "t2", "TASK_STATE_WORKING", "ctx"
	must(t, s.Settle(ctx, call.Settlement{Record: open[2], Task: newTask(open[2], "t2", at(1))}, true))
	found, err := s.OpenCallsOf(ctx, "echo")
	must(t, err)
	wantCandidate := call.Candidate{ID: open[2].ID, Root: open[2].Root, TaskID: "t2", ContextID: "ctx", SpanID: open[2].SpanID}
	if len(found) != 3 || found[1] != wantCandidate {
		t.Errorf("candidates %+v, want the second to be %+v", found, wantCandidate)
	}
	records, err := s.OpenCalls(ctx)
	must(t, err)
	if len(records) != 3 || records[1].TaskID != "t2" {
		t.Errorf("%d open calls, want 3, the second with its task", len(records))
	}
	if found, err := s.OpenCallsOf(ctx, "nobody"); err != nil || len(found) != 0 {
		t.Errorf("candidates of an agent nobody calls: %v, %v", found, err)
	}
}

func testRecover(t *testing.T, s Store) {
	ctx := t.Context()
	bare, bound := newRecord(0), newRecord(1)
	must(t, s.Begin(ctx, bare))
	must(t, s.Begin(ctx, bound))
	bound.TaskID, bound.TaskState = "t", "TASK_STATE_WORKING"
	must(t, s.Settle(ctx, call.Settlement{Record: bound}, true))
	n, err := s.Recover(ctx, at(60))
	must(t, err)
	if s.Shared() { // and they are those of a process that lives
		if n != 0 {
			t.Errorf("%d calls were lost, want none", n)
		}
		return
	}
	if n != 1 {
		t.Errorf("%d calls were lost, want 1", n)
	}
	got, err := s.Call(ctx, bare.ID)
	must(t, err)
	if got.Outcome != parley.OutcomeUnknown || got.Reason != string(parley.ShapeMeshDied) || !got.Ended.Equal(at(60)) {
		t.Errorf("the lost call ended %v as %q, reason %q", got.Ended, got.Outcome, got.Reason)
	}
	if got, err = s.Call(ctx, bound.ID); err != nil || !got.Open() {
		t.Errorf("the call with a task: %v, %v, want it open", got, err)
	}
}

func testEventOrder(t *testing.T, s Store) {
	ctx := t.Context()
	first, second := newRecord(1), newRecord(2)
	must(t, s.Begin(ctx, first))
	must(t, s.Begin(ctx, second))
	finish(second, parley.OutcomeOK)
	must(t, s.Settle(ctx, call.Settlement{Record: second, Events: []parley.Event{happened("tasks/t", "task.seen"), happened("tasks/t", "task.ended")}}, true))
	finish(first, parley.OutcomeTimeout)
	must(t, s.Settle(ctx, call.Settlement{Record: first}, true))
	must(t, s.Flush(ctx))
	events, err := s.Events(ctx, 0, 100)
	must(t, err)
	var got []string
	for i, e := range events {
		got = append(got, fmt.Sprintf("%s %s %d", e.Type, e.Subject, e.SubjectSeq))
		if i > 0 && e.Seq <= events[i-1].Seq {
			t.Errorf("event %d has place %d behind %d", i, e.Seq, events[i-1].Seq)
		}
	}
	want := []string{
		"call.begun calls/" + first.ID.String() + " 1",
		"call.begun calls/" + second.ID.String() + " 1",
		"call.ended calls/" + second.ID.String() + " 2",
		"task.seen tasks/t 1",
		"task.ended tasks/t 2",
		"call.ended calls/" + first.ID.String() + " 2",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("feed (-want +got):\n%s", diff)
	}
	last, err := s.LastSeq(ctx)
	must(t, err)
	if last != events[len(events)-1].Seq {
		t.Errorf("last place %d, want %d", last, events[len(events)-1].Seq)
	}
	if e := events[3]; !e.Time.Equal(at(0)) || e.Owner != "alpha" || e.Environment != parley.Dev || string(e.Data) != `{"a":1}` {
		t.Errorf("event %+v does not say what was given", e)
	}
	// Any page size gives the same feed.
	for limit := 1; limit < 6; limit++ {
		var paged []int64
		for after := int64(0); ; {
			page, err := s.Events(ctx, after, limit)
			must(t, err)
			if len(page) == 0 {
				break
			}
			for _, e := range page {
				paged, after = append(paged, e.Seq), e.Seq
			}
		}
		if len(paged) != len(events) {
			t.Errorf("pages of %d give %d events, want %d", limit, len(paged), len(events))
		}
	}
	wantKind(t, "a call's event by hand", s.Settle(ctx, call.Settlement{Record: newRecord(5), Events: []parley.Event{
		happened("calls/"+first.ID.String(), "call.praised")}}, true), parley.Internal)
}

// waitLong bounds what the suite waits for; reaching it is a failure.
const waitLong = 30 * time.Second
