package storetest

import (
	"context"
	"fmt"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/parley-mesh/parley/internal/call"
	"github.com/parley-mesh/parley/internal/identity"
	"github.com/parley-mesh/parley/internal/parley"
	"github.com/parley-mesh/parley/internal/store"
)

// Whoever got a reply may ask at once for what it told of.
func testReadsSeeUnwaited(t *testing.T, s Store) {
	ctx := t.Context()
	for i := range 50 {
		r := newRecord(i)
		must(t, s.Begin(ctx, r))
		r.TaskID = fmt.Sprintf("t%d", i)
		task := newTask(r, r.TaskID, at(i))
		finish(r, parley.OutcomeOK)
		must(t, s.Settle(ctx, call.Settlement{Record: r, Task: task, Context: r.ContextID}, false))
		got, err := s.Task(ctx, task.Key())
		must(t, err)
		if diff := cmp.Diff(task, got); diff != "" {
			t.Fatalf("task (-settled +read):\n%s", diff)
		}
		if p, err := s.ContextOwner(ctx, r.Agent, r.Instance, r.ContextID); err != nil || p != r.Caller {
			t.Fatalf("context belongs to %q, %v, want %q", p, err, r.Caller)
		}
		if _, total, err := s.Tasks(ctx, call.TaskFilter{Principal: r.Caller}); err != nil || total != i+1 {
			t.Fatalf("%d tasks, %v, want %d", total, err, i+1)
		}
		if c, err := s.Call(ctx, r.ID); err != nil || c.Outcome != parley.OutcomeOK {
			t.Fatalf("call %+v, %v, want it ended", c, err)
		}
	}
}

func testTaskOwnership(t *testing.T, s Store) {
	ctx := t.Context()
	mine := newRecord(1)
	must(t, s.Begin(ctx, mine))
	task := newTask(mine, "t", at(1))
	must(t, s.Settle(ctx, call.Settlement{Record: mine, Task: task, Context: "shared"}, true))

	theirs := newRecord(2)
	theirs.Caller = "thief"
	must(t, s.Begin(ctx, theirs))
	finish(theirs, parley.OutcomeOK)
	stolen := newTask(theirs, "t", at(2))
	for _, test := range []struct {
		name string
		s    call.Settlement
	}{
		{"task", call.Settlement{Record: theirs, Task: stolen}},
		{"context", call.Settlement{Record: theirs, Context: "shared"}},
		{"own task, foreign context", call.Settlement{Record: theirs, Task: newTask(theirs, "fresh", at(2)), Context: "shared"}},
	} {
		wantKind(t, test.name, s.Settle(ctx, test.s, true), parley.Denied)
		if got, err := s.Call(ctx, theirs.ID); err != nil || !got.Open() {
			t.Errorf("%s: a refused settlement ended the call: %+v, %v", test.name, got, err)
		}
	}
	_, err := s.Task(ctx, call.TaskKey{Agent: "echo", Instance: "one", ID: "fresh"})
	wantKind(t, "the task of a refused settlement", err, parley.NotFound)
	got, err := s.Task(ctx, task.Key())
	must(t, err)
	if diff := cmp.Diff(task, got); diff != "" {
		t.Errorf("task after the attempts (-want +got):\n%s", diff)
	}
	// The same id at another agent or instance is another task.
	elsewhere := newTask(theirs, "t", at(2))
	elsewhere.Instance = "two"
	must(t, s.Settle(ctx, call.Settlement{Record: theirs, Task: elsewhere}, true))

	// Where nobody waits, the call still ends, as what it is.
	unwaited := newRecord(3)
	unwaited.Caller = "thief"
	must(t, s.Begin(ctx, unwaited))
	finish(unwaited, parley.OutcomeOK)
	unwaited.TaskID = "t"
	must(t, s.Settle(ctx, call.Settlement{Record: unwaited, Task: newTask(unwaited, "t", at(3))}, false))
	ended, err := s.Call(ctx, unwaited.ID)
	must(t, err)
	if ended.Open() { // refused in one commit, ended in the next
		ended, err = s.Call(ctx, unwaited.ID)
		must(t, err)
	}
	if ended.Outcome != parley.OutcomeCrash || ended.Reason != string(parley.ShapeForeignID) || ended.TaskID != "" {
		t.Errorf("the call ended as %q, reason %q, task %q; want a crash by foreign_id without a task", ended.Outcome, ended.Reason, ended.TaskID)
	}
}

// Of many principals that claim one task at once, one owns it for good.
func testOwnershipRace(t *testing.T, s Store) {
	ctx := t.Context()
	const rivals, rounds = 8, 20
	for round := range rounds {
		id := fmt.Sprintf("t%d", round)
		var mu sync.Mutex
		var owners []parley.PrincipalName
		var wg sync.WaitGroup
		for i := range rivals {
			wg.Go(func() {
				r := newRecord(i)
				r.Caller = parley.PrincipalName(fmt.Sprintf("p%d", i))
				finish(r, parley.OutcomeOK)
				err := s.Settle(ctx, call.Settlement{Record: r, Insert: true, Task: newTask(r, id, at(i)), Context: id}, i%2 == 0)
				switch {
				case err != nil && parley.KindOf(err) != parley.Denied:
					t.Errorf("a lost claim: %v, want denied", err)
				case err == nil && i%2 == 0:
					mu.Lock()
					owners = append(owners, r.Caller)
					mu.Unlock()
				}
			})
		}
		wg.Wait()
		task, err := s.Task(ctx, call.TaskKey{Agent: "echo", Instance: "one", ID: id})
		must(t, err)
		owner, err := s.ContextOwner(ctx, "echo", "one", id)
		must(t, err)
		if task.Principal != owner {
			t.Errorf("round %d: the task belongs to %s and its context to %s", round, task.Principal, owner)
		}
		for _, p := range owners {
			if p != task.Principal {
				t.Errorf("round %d: %s was told that the task is its own, but it belongs to %s", round, p, task.Principal)
			}
		}
	}
}

// Of many principals that begin a call in one new context, one has it from then
// on. The others are refused before anything of theirs is written.
func testBegunContextRace(t *testing.T, s Store) {
	ctx := t.Context()
	const rivals, rounds = 8, 20
	for round := range rounds {
		records := make([]*call.Record, rivals)
		errs := make([]error, rivals)
		var wg sync.WaitGroup
		for i := range rivals {
			r := newRecord(i)
			r.Caller, r.ContextID = parley.PrincipalName(fmt.Sprintf("p%d", i)), fmt.Sprintf("race%d", round)
			records[i] = r
			wg.Go(func() { errs[i] = s.Begin(ctx, r) })
		}
		wg.Wait()
		owner, err := s.ContextOwner(ctx, "echo", "one", records[0].ContextID)
		must(t, err)
		for i, r := range records {
			if r.Caller == owner {
				if errs[i] != nil {
					t.Errorf("round %d: %s has the context and was refused: %v", round, owner, errs[i])
				}
				continue
			}
			wantKind(t, "a rival's call", errs[i], parley.Denied)
			_, err := s.Call(ctx, r.ID)
			wantKind(t, "the record of a rival's call", err, parley.NotFound)
		}
		// Who has it goes on in it; a rival can still record that it was refused.
		next, refused := newRecord(20), newRecord(21)
		next.Caller, next.ContextID = owner, records[0].ContextID
		must(t, s.Begin(ctx, next))
		refused.Caller, refused.ContextID = "p-late", next.ContextID
		wantKind(t, "a late rival's call", s.Begin(ctx, refused), parley.Denied)
		finish(refused, parley.OutcomeCallerError)
		must(t, s.Settle(ctx, call.Settlement{Record: refused, Insert: true, Refusal: true}, true))
	}
	found, err := s.OpenCallsOf(ctx, "echo")
	must(t, err)
	if len(found) != 2*rounds {
		t.Errorf("%d open calls, want the %d that were begun", len(found), 2*rounds)
	}
}

func testFinalTaskStays(t *testing.T, s Store) {
	ctx := t.Context()
	r := newRecord(1)
	task := newTask(r, "t", at(1))
	task.State, task.Final = "TASK_STATE_COMPLETED", true
	must(t, s.Settle(ctx, call.Settlement{Record: r, Insert: true, Task: task}, true))
	late := newTask(r, "t", at(2))
	late.Snapshot = nil
	must(t, s.Settle(ctx, call.Settlement{Record: r, Task: late}, true))
	got, err := s.Task(ctx, task.Key())
	must(t, err)
	if diff := cmp.Diff(task, got); diff != "" {
		t.Errorf("a final task after a late frame (-want +got):\n%s", diff)
	}
	open := newTask(r, "u", at(1))
	must(t, s.Settle(ctx, call.Settlement{Record: r, Task: open}, true))
	state := *open
	state.Snapshot, state.ContextID, state.State, state.StatusAt, state.UpdatedAt = nil, "", "TASK_STATE_CANCELED", at(3), at(3)
	state.Final = true
	must(t, s.Settle(ctx, call.Settlement{Record: r, Task: &state}, true))
	want := state // the old snapshot tells of an older state and goes
	want.ContextID = open.ContextID
	got, err = s.Task(ctx, open.Key())
	must(t, err)
	if diff := cmp.Diff(&want, got); diff != "" {
		t.Errorf("a state without a snapshot (-want +got):\n%s", diff)
	}
}

// The first final state stays, whatever an agent says later; the task may still
// be seen whole in it.
func testFirstFinalStateStays(t *testing.T, s Store) {
	ctx := t.Context()
	r := newRecord(1)
	first := newTask(r, "t", at(5))
	first.State, first.Final, first.Snapshot = "TASK_STATE_COMPLETED", true, nil
	must(t, s.Settle(ctx, call.Settlement{Record: r, Insert: true, Task: first}, true))
	is := func(what string, want *call.Task) {
		t.Helper()
		got, err := s.Task(ctx, first.Key())
		must(t, err)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", what, diff)
		}
	}
	other := *first
	other.State, other.StatusAt, other.UpdatedAt, other.Snapshot = "TASK_STATE_FAILED", at(9), at(9), []byte("{}")
	must(t, s.Settle(ctx, call.Settlement{Task: &other}, true))
	is("after another final state", first)
	whole := *first
	whole.StatusAt, whole.UpdatedAt, whole.Snapshot = at(7), at(10), []byte(`{"id":"t"}`)
	must(t, s.Settle(ctx, call.Settlement{Task: &whole}, true))
	want := whole
	want.StatusAt = first.StatusAt
	is("seen whole in its final state", &want)
	must(t, s.Settle(ctx, call.Settlement{Task: first}, true))
	is("seen again without its content", &want)
}

// What is older than what is known changes nothing, unless it is final.
func testOlderStateIsLate(t *testing.T, s Store) {
	ctx := t.Context()
	r := newRecord(1)
	asks := newTask(r, "t", at(5))
	asks.State = "TASK_STATE_INPUT_REQUIRED"
	must(t, s.Settle(ctx, call.Settlement{Record: r, Insert: true, Task: asks}, true))
	must(t, s.Settle(ctx, call.Settlement{Task: newTask(r, "t", at(4))}, true))
	got, err := s.Task(ctx, asks.Key())
	must(t, err)
	if diff := cmp.Diff(asks, got); diff != "" {
		t.Errorf("after a late frame (-want +got):\n%s", diff)
	}
	same := newTask(r, "t", at(5)) // of one time: what comes later counts
	must(t, s.Settle(ctx, call.Settlement{Task: same}, true))
	over := newTask(r, "t", at(3))
	over.State, over.Final = "TASK_STATE_CANCELED", true
	for _, want := range []*call.Task{same, over} {
		must(t, s.Settle(ctx, call.Settlement{Task: want}, true))
		got, err := s.Task(ctx, want.Key())
		must(t, err)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	}
}

// What the mesh learns of a task by its own asking needs no call.
func testTaskSeenByTheMesh(t *testing.T, s Store) {
	ctx := t.Context()
	r := newRecord(1)
	task := newTask(r, "t", at(1))
	must(t, s.Settle(ctx, call.Settlement{Record: r, Insert: true, Task: task}, true))
	seen := *task
	seen.State, seen.Final, seen.StatusAt, seen.UpdatedAt = "TASK_STATE_COMPLETED", true, at(9), at(9)
	must(t, s.Settle(ctx, call.Settlement{Task: &seen}, true))
	got, err := s.Task(ctx, task.Key())
	must(t, err)
	if diff := cmp.Diff(&seen, got); diff != "" {
		t.Errorf("task (-seen +read):\n%s", diff)
	}
	stolen := seen
	stolen.Principal = "thief"
	wantKind(t, "for another principal", s.Settle(ctx, call.Settlement{Task: &stolen}, true), parley.Denied)
	placed(t, s, r)
	must(t, s.AppendEvents(ctx, happened("tasks/t", "task.seen")))
	must(t, s.Flush(ctx))
	events, err := s.Events(ctx, r.Seq, 10)
	must(t, err)
	if len(events) != 1 || events[0].Type != "task.seen" || events[0].SubjectSeq != 1 {
		t.Errorf("events %+v, want the one that stands alone", events)
	}
}

func testTaskPages(t *testing.T, s Store) {
	ctx := t.Context()
	for i := range 9 {
		r := newRecord(i)
		task := newTask(r, fmt.Sprintf("t%d", i), at(i/3)) // three of a time
		if i == 4 {
			task.State, task.ContextID = "TASK_STATE_COMPLETED", "special"
		}
		must(t, s.Settle(ctx, call.Settlement{Record: r, Insert: true, Task: task}, true))
	}
	foreign := newRecord(50)
	foreign.Caller = "other"
	must(t, s.Settle(ctx, call.Settlement{Record: foreign, Insert: true, Task: newTask(foreign, "theirs", at(50))}, true))

	want := []string{"t6", "t7", "t8", "t3", "t4", "t5", "t0", "t1", "t2"}
	for limit := 1; limit <= 10; limit++ {
		var got []string
		f := call.TaskFilter{Principal: "client", Agent: "echo", Limit: limit}
		for {
			page, total, err := s.Tasks(ctx, f)
			must(t, err)
			if total != 9 {
				t.Fatalf("total %d, want 9 on every page", total)
			}
			for _, k := range page {
				got = append(got, k.ID)
				f.AfterStatusAt, f.AfterID = k.StatusAt, k.ID
			}
			if len(page) < limit {
				break
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("pages of %d (-want +got):\n%s", limit, diff)
		}
	}
	if _, total, err := s.Tasks(ctx, call.TaskFilter{}); err != nil || total != 0 {
		t.Errorf("%d tasks without a principal, %v, want none", total, err)
	}
	all, err := s.AllTasks(ctx, call.TaskFilter{Limit: 2})
	must(t, err)
	if len(all) != 2 || all[0].ID != "theirs" || all[1].ID != "t6" {
		t.Errorf("everybody's tasks begin with %+v, want theirs and t6", all)
	}
	for _, test := range []struct {
		f    call.TaskFilter
		want int
	}{
		{call.TaskFilter{Principal: "client", State: "TASK_STATE_COMPLETED"}, 1},
		{call.TaskFilter{Principal: "client", ContextID: "special"}, 1},
		{call.TaskFilter{Principal: "client", StatusAfter: at(1)}, 6},
		{call.TaskFilter{Principal: "client", Agent: "fox"}, 0},
		{call.TaskFilter{Principal: "nobody"}, 0},
	} {
		page, total, err := s.Tasks(ctx, test.f)
		must(t, err)
		if len(page) != test.want || total != test.want {
			t.Errorf("%+v: %d tasks of %d, want %d", test.f, len(page), total, test.want)
		}
	}
}

// A reader that goes on behind the last event it saw, while many write, sees
// every event once and in order.
func testEventsMissNothing(t *testing.T, s Store) {
	ctx, cancel := context.WithTimeout(t.Context(), waitLong)
	defer cancel()
	const writers, each = 8, 40
	var wg sync.WaitGroup
	for w := range writers {
		wg.Go(func() {
			for i := range each {
				r := newRecord(i)
				if err := s.Begin(ctx, r); err != nil {
					t.Error(err)
					return
				}
				finish(r, parley.OutcomeOK)
				if err := s.Settle(ctx, call.Settlement{Record: r, Events: []parley.Event{happened(fmt.Sprintf("w/%d", w), "w.wrote")}}, i%2 == 0); err != nil {
					t.Error(err)
				}
			}
		})
	}
	counts := map[string]int64{}
	var last int64
	for n := 0; n < 3*writers*each; {
		if ctx.Err() != nil {
			t.Fatalf("only %d events came", n)
		}
		events, err := s.Events(ctx, last, 7)
		must(t, err)
		for _, e := range events {
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
	wg.Wait()
}

// What is refused leaves neither state nor events, and takes nobody along who
// was committed with it.
func testRefusedChangesNothing(t *testing.T, s Store) {
	ctx := t.Context()
	owner := newRecord(0)
	must(t, s.Settle(ctx, call.Settlement{Record: owner, Insert: true, Context: "taken"}, true))
	var wg sync.WaitGroup
	const pairs = 30
	for i := range pairs {
		wg.Go(func() {
			bad := newRecord(i)
			bad.Caller = "thief"
			finish(bad, parley.OutcomeOK)
			err := s.Settle(ctx, call.Settlement{Record: bad, Insert: true, Task: newTask(bad, fmt.Sprintf("bad%d", i), at(i)), Context: "taken",
				Events: []parley.Event{happened("bad/1", "bad.happened")}}, true)
			wantKind(t, "a foreign context", err, parley.Denied)
		})
		wg.Go(func() {
			good := newRecord(i)
			if err := s.Begin(ctx, good); err != nil {
				t.Errorf("beside a refused one: %v", err)
			}
			o := &identity.Owner{Name: parley.OwnerName(fmt.Sprintf("o%d", i)), CreatedAt: at(0)}
			if err := s.SaveOwner(ctx, o, happened("good/1", "good.happened")); err != nil {
				t.Errorf("beside a refused one: %v", err)
			}
		})
	}
	wg.Wait()
	must(t, s.Flush(ctx))
	events, err := s.Events(ctx, 0, 500)
	must(t, err)
	var good, begun int64
	for _, e := range events {
		switch e.Subject {
		case "bad/1":
			t.Errorf("a refused settlement left the event %+v", e)
		case "good/1":
			if good++; e.SubjectSeq != good {
				t.Errorf("sequence %d, want %d", e.SubjectSeq, good)
			}
		default:
			begun++
		}
	}
	if good != pairs || begun != pairs+1 {
		t.Errorf("%d and %d events, want %d and %d", good, begun, pairs, pairs+1)
	}
	if _, total, err := s.Tasks(ctx, call.TaskFilter{Principal: "thief"}); err != nil || total != 0 {
		t.Errorf("%d tasks of refused settlements, %v, want none", total, err)
	}
}

func testPrune(t *testing.T, s Store) {
	ctx := t.Context()
	const calls = 1200 // several batches
	for i := range calls {
		r := newRecord(i)
		if i != 3 { // one stays open
			finish(r, parley.OutcomeOK)
		}
		k := call.Settlement{Record: r, Insert: true, Events: []parley.Event{{Subject: "s/1", Type: "s.happened", Time: at(i), Owner: "alpha", Environment: parley.Dev}}}
		if i%100 == 0 {
			k.Task, k.Context = newTask(r, fmt.Sprintf("t%d", i), at(i)), r.ContextID
			k.Task.State, k.Task.Final = "TASK_STATE_COMPLETED", i != 300 // one is not over
		}
		must(t, s.Settle(ctx, k, i == calls-1))
	}
	must(t, s.Flush(ctx))
	last, err := s.LastSeq(ctx)
	must(t, err)
	p, err := s.Prune(ctx, store.Cutoffs{Calls: at(1100), Events: at(5000), Tasks: at(1100)})
	must(t, err)
	if p.Calls != 1099 || p.Events != calls-1 || p.Tasks != 10 {
		t.Errorf("pruned %+v, want 1099 calls, %d events, 10 tasks", p, calls-1)
	}
	left, err := s.Calls(ctx, call.Filter{})
	must(t, err)
	if len(left) != 101 {
		t.Errorf("%d calls are left, want 100 young ones and the open one", len(left))
	}
	// The one event that is left keeps the count of its subject.
	must(t, s.SaveOwner(ctx, &identity.Owner{Name: "alpha", CreatedAt: at(0)}, happened("s/1", "s.happened")))
	must(t, s.Flush(ctx))
	events, err := s.Events(ctx, last, 10)
	must(t, err)
	if len(events) != 1 || events[0].SubjectSeq != calls+1 {
		t.Errorf("events behind %d: %+v, want one with sequence %d", last, events, calls+1)
	}
}
