package storetest

import (
	"strings"
	"testing"
	"time"

	"github.com/parley-mesh/parley/internal/call"
	"github.com/parley-mesh/parley/internal/identity"
	"github.com/parley-mesh/parley/internal/parley"
	"github.com/parley-mesh/parley/internal/registry"
)

// Whoever gets a name that somebody had before inherits nothing: what the
// other's calls made belongs to nobody any more, even if it comes in late.
func testDeletedPrincipalLeavesNothing(t *testing.T, s Store) {
	ctx := t.Context()
	addOwner(t, s, "alpha")
	addOwner(t, s, "beta")
	old := &identity.Principal{Name: "alice", Owner: "alpha", Environment: parley.Dev, CreatedAt: at(0)}
	must(t, s.SavePrincipal(ctx, old))
	mine := func(i int, id string) call.Settlement {
		r := newRecord(i)
		r.Caller, r.ContextID = "alice", "c-"+id
		finish(r, parley.OutcomeOK)
		return call.Settlement{Record: r, Insert: true, Task: newTask(r, id, at(i)), Context: r.ContextID}
	}
	must(t, s.Settle(ctx, mine(1, "early"), true))
	must(t, s.Settle(ctx, mine(2, "unwaited"), false))
	under, late := mine(3, "under way"), mine(4, "late")
	opened := mine(5, "streamed")
	must(t, s.Settle(ctx, opened, true))

	wantKind(t, "a stale delete", s.DeletePrincipal(ctx, "alice", 7), parley.Conflict)
	if p, err := s.ContextOwner(ctx, "echo", "one", "c-early"); err != nil || p != "alice" {
		t.Errorf("after a refused delete the context belongs to %q, %v", p, err)
	}
	must(t, s.DeletePrincipal(ctx, "alice", old.Version))
	must(t, s.Settle(ctx, under, true)) // its call began before
	must(t, s.SavePrincipal(ctx, &identity.Principal{Name: "alice", Owner: "beta", Environment: parley.Dev, CreatedAt: at(100)}))
	must(t, s.Settle(ctx, late, true))
	opened.Record = newRecord(6)
	opened.Record.Caller = "alice"
	finish(opened.Record, parley.OutcomeOK)
	done := *opened.Task
	done.State, done.Final, done.StatusAt = "TASK_STATE_COMPLETED", true, at(6)
	opened.Task = &done
	must(t, s.Settle(ctx, opened, true)) // a stream goes on: its task is still its own

	for _, id := range []string{"early", "unwaited", "under way", "late", "streamed"} {
		task, err := s.Task(ctx, call.TaskKey{Agent: "echo", Instance: "one", ID: id})
		must(t, err)
		if task.Principal == "alice" || parley.CheckName("principal", string(task.Principal)) == nil || !strings.HasPrefix(string(task.Principal), "~alice@") {
			t.Errorf("the task %q of the deleted principal belongs to %q", id, task.Principal)
		}
		if p, err := s.ContextOwner(ctx, "echo", "one", "c-"+id); err != nil || p != task.Principal {
			t.Errorf("the context of task %q belongs to %q, %v, want %q", id, p, err, task.Principal)
		}
	}
	if tasks, total, err := s.Tasks(ctx, call.TaskFilter{Principal: "alice"}); err != nil || total != 0 {
		t.Errorf("the new principal sees %d tasks of the old one: %+v, %v", total, tasks, err)
	}
	claim := newRecord(200)
	claim.Caller = "alice"
	wantKind(t, "a claim of an old task", s.Settle(ctx, call.Settlement{Record: claim, Insert: true, Task: newTask(claim, "early", at(200))}, true), parley.Denied)
	wantKind(t, "a claim of an old context", s.Settle(ctx, call.Settlement{Record: claim, Insert: true, Context: "c-late"}, true), parley.Denied)
	must(t, s.Settle(ctx, call.Settlement{Record: claim, Insert: true, Task: newTask(claim, "fresh", at(200)), Context: "c-fresh"}, true))
	if _, total, err := s.Tasks(ctx, call.TaskFilter{Principal: "alice"}); err != nil || total != 1 {
		t.Errorf("the new principal sees %d tasks, %v, want its own", total, err)
	}
}

// An agent takes its calling side with it: keys, and what it owned.
func testDeletedAgentTakesItsCallingSide(t *testing.T, s Store) {
	ctx := t.Context()
	addOwner(t, s, "alpha")
	addOwner(t, s, "beta")
	register := func(owner parley.OwnerName) *registry.Agent {
		a := &registry.Agent{Name: "planner", Owner: owner, Environment: parley.Dev, CreatedAt: at(0)}
		must(t, s.SaveAgent(ctx, a))
		return a
	}
	calling := func(owner parley.OwnerName, created time.Time) *identity.Principal {
		return &identity.Principal{Name: "planner", Owner: owner, Environment: parley.Dev, Agent: "planner", CreatedAt: created}
	}
	wantKind(t, "the calling side of an agent that is not there", s.SavePrincipal(ctx, calling("alpha", at(0))), parley.Invalid)
	a := register("alpha")
	wantKind(t, "the calling side under another owner", s.SavePrincipal(ctx, calling("beta", at(0))), parley.Invalid)
	must(t, s.SavePrincipal(ctx, calling("alpha", at(1))))
	must(t, s.SavePrincipal(ctx, &identity.Principal{Name: "other", Owner: "alpha", Environment: parley.Dev, CreatedAt: at(1)}))
	for _, k := range []identity.Key{{ID: "k1", Principal: "planner", CreatedAt: at(1)}, {ID: "k2", Principal: "planner", CreatedAt: at(1), RevokedAt: at(2)}, {ID: "k3", Principal: "other", CreatedAt: at(1)}} {
		must(t, s.CreateKey(ctx, &k))
	}
	r := newRecord(3)
	r.Caller = "planner"
	must(t, s.Settle(ctx, call.Settlement{Record: r, Insert: true, Task: newTask(r, "t", at(3)), Context: "c"}, true))
	must(t, s.Flush(ctx))
	last, err := s.LastSeq(ctx)
	must(t, err)

	wantKind(t, "a stale delete", s.DeleteAgent(ctx, "planner", 7), parley.Conflict)
	if _, _, err := s.KeyByID(ctx, "k1"); err != nil {
		t.Errorf("a refused delete took the key with it: %v", err)
	}
	must(t, s.DeleteAgent(ctx, "planner", a.Version, happened("agents/planner", "agent.removed")))
	for _, id := range []string{"k1", "k2"} {
		_, _, err := s.KeyByID(ctx, id)
		wantKind(t, "key "+id+" of the removed agent", err, parley.NotFound)
	}
	if _, _, err := s.KeyByID(ctx, "k3"); err != nil {
		t.Errorf("the key of another principal: %v", err)
	}
	must(t, s.Flush(ctx))
	events, err := s.Events(ctx, last, 10)
	must(t, err)
	var told []string
	for _, e := range events {
		told = append(told, e.Type+" "+e.Subject)
	}
	if got, want := strings.Join(told, ", "), "key.revoked keys/k1, principal.removed principals/planner, agent.removed agents/planner"; got != want {
		t.Errorf("events %q, want %q", got, want)
	}

	register("beta")
	must(t, s.SavePrincipal(ctx, calling("beta", at(10))))
	if p, err := s.Principal(ctx, "planner"); err != nil || p.Owner != "beta" || p.Version != 1 {
		t.Errorf("the principal of the new agent is %+v, %v", p, err)
	}
	if p, err := s.ContextOwner(ctx, "echo", "one", "c"); err != nil || p == "planner" {
		t.Errorf("the old agent's context belongs to %q, %v", p, err)
	}
	if keys, err := s.Keys(ctx, "planner", "", 10); err != nil || len(keys) != 0 {
		t.Errorf("the new agent has the keys %+v, %v", keys, err)
	}
}
