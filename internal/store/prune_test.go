package store_test

import (
	"context"
	"testing"
	"time"

	"github.com/parley-mesh/parley/internal/call"
	"github.com/parley-mesh/parley/internal/parley"
	"github.com/parley-mesh/parley/internal/store"
)

// aging is a store whose clock a test sets.
type aging struct {
	*store.DB
	t   *testing.T
	now time.Time
}

func newAging(t *testing.T) *aging {
	a := &aging{t: t, now: time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)}
	a.DB = open(t, store.Options{Now: func() time.Time { return a.now }})
	return a
}

// use settles a call in a context, with a task if it has a state.
func (a *aging) use(contextID, taskID, state string) {
	a.t.Helper()
	r := record()
	r.Begun = a.now
	s := call.Settlement{Record: ended(r), Insert: true, Context: contextID}
	if state != "" {
		s.Task = a.task(contextID, taskID, state)
	}
	if err := a.Settle(a.t.Context(), s, true); err != nil {
		a.t.Fatal(err)
	}
}

func (a *aging) task(contextID, id, state string) *call.Task {
	return &call.Task{
		Agent: "echo", ID: id, Principal: "client", Owner: "default", ContextID: contextID,
		State: state, Final: call.Final(state), StatusAt: a.now, UpdatedAt: a.now,
	}
}

// prune lets time pass and removes what is older than keep.
func (a *aging) prune(pass, keep, unfinished time.Duration) store.Pruned {
	a.t.Helper()
	a.now = a.now.Add(pass)
	p, err := a.Prune(context.Background(), store.Cutoffs{Tasks: a.now.Add(-keep), Unfinished: a.now.Add(-unfinished)})
	if err != nil {
		a.t.Fatal(err)
	}
	return p
}

func (a *aging) wantContext(id string, owned bool) {
	a.t.Helper()
	p, err := a.ContextOwner(a.t.Context(), "echo", "", id)
	if owned && (err != nil || p != "client") || !owned && parley.KindOf(err) != parley.NotFound {
		a.t.Errorf("%v: context %s belongs to %q, %v; want it owned: %t", a.now, id, p, err, owned)
	}
}

const day = 24 * time.Hour

// A context that was used within the retention stays, however short that is.
func TestPruneKeepsUsedContexts(t *testing.T) {
	a := newAging(t)
	a.use("c", "", "")
	for range 10 { // in use every hour
		a.prune(time.Hour, 2*time.Hour, day)
		a.wantContext("c", true)
		a.use("c", "", "")
	}
	a.prune(90*time.Minute, 2*time.Hour, day)
	a.wantContext("c", true)
	if p := a.prune(2*day, 2*time.Hour, day); p.Contexts != 1 {
		t.Errorf("pruned %+v long after the last use, want the context", p)
	}
	a.wantContext("c", false)
}

// A task that is not final is kept longer, and its context with it.
func TestPruneKeepsUnfinishedTasksLonger(t *testing.T) {
	a := newAging(t)
	a.use("done", "t-done", "TASK_STATE_COMPLETED")
	a.use("asks", "t-asks", "TASK_STATE_INPUT_REQUIRED")
	if p := a.prune(3*day, 2*day, 20*day); p.Tasks != 1 {
		t.Errorf("pruned %+v, want the task that is over", p)
	}
	for range 4 {
		a.prune(3*day, 2*day, 20*day)
		a.wantContext("done", false)
		a.wantContext("asks", true)
	}
	if _, err := a.Task(t.Context(), call.TaskKey{Agent: "echo", ID: "t-asks"}); err != nil {
		t.Errorf("the task that is not final: %v", err)
	}
	if p := a.prune(30*day, 2*day, 20*day); p.Tasks != 1 {
		t.Errorf("pruned %+v after the longer time, want the task", p)
	}
	a.prune(3*day, 2*day, 20*day)
	a.wantContext("asks", false)
}

// What the mesh itself sees of a task is a use of its context.
func TestPruneKeepsContextsOfWatchedTasks(t *testing.T) {
	a := newAging(t)
	a.use("c", "t", "TASK_STATE_WORKING")
	for range 5 {
		a.now = a.now.Add(day)
		if err := a.Settle(t.Context(), call.Settlement{Task: a.task("c", "t", "TASK_STATE_WORKING")}, true); err != nil {
			t.Fatal(err)
		}
	}
	if err := a.Settle(t.Context(), call.Settlement{Task: a.task("c", "t", "TASK_STATE_COMPLETED")}, true); err != nil {
		t.Fatal(err)
	}
	a.prune(time.Hour, day, day)
	a.wantContext("c", true)
}
