//go:build unix

package store

import (
	"context"
	"fmt"
	"reflect"
	"testing"
	"time"

	"github.com/parley-mesh/parley/internal/call"
	"github.com/parley-mesh/parley/internal/identity"
	"github.com/parley-mesh/parley/internal/parley"
	"github.com/parley-mesh/parley/internal/registry"
	"github.com/parley-mesh/parley/internal/storetest/pgtest"
)

// What is copied reads on PostgreSQL as it did on SQLite: records, their places,
// what is sealed; what was open is taken up, and the feed goes on behind.
func TestCopy(t *testing.T) {
	ctx := t.Context()
	t.Setenv("PARLEY_TEST_MASTER", testKey)
	opt := Options{Dir: t.TempDir(), MasterKey: "env:PARLEY_TEST_MASTER"}
	db, err := Open(ctx, opt)
	must(t, err)
	must(t, db.SaveOwner(ctx, &identity.Owner{Name: "alpha", CreatedAt: time.Now()}))
	must(t, db.SavePrincipal(ctx, &identity.Principal{Name: "alice", Owner: "alpha", Environment: parley.Dev, CreatedAt: time.Now()},
		parley.Event{Subject: "principals/alice", Type: "principal.added", Time: time.Now(), Owner: "alpha", Environment: parley.Dev}))
	must(t, db.CreateKey(ctx, &identity.Key{ID: "k1", Principal: "alice", Hash: [32]byte{7}, CreatedAt: time.Now()}))
	must(t, db.SaveAgent(ctx, &registry.Agent{Name: "echo", Owner: "alpha", CreatedAt: time.Now()}))
	must(t, db.SaveCredential(ctx, &registry.Credential{Agent: "echo", Owner: "alpha", Secret: "hunter2", CreatedAt: time.Now()}))
	var open *call.Record
	for i := range 300 {
		r := newCall()
		r.Caller, r.MessageID, r.TaskID = "alice", "m\x00"+fmt.Sprint(i), fmt.Sprint("t", i)
		must(t, db.Begin(ctx, r))
		task := &call.Task{Agent: "echo", ID: r.TaskID, Principal: "alice", Owner: "alpha", State: "TASK_STATE_WORKING", StatusAt: time.Now(), UpdatedAt: time.Now(), Call: r.ID, Snapshot: []byte(`{"n":1}`)}
		if i == 7 {
			must(t, db.Settle(ctx, call.Settlement{Record: r, Task: task, Context: "c"}, true))
			open = r
			continue
		}
		must(t, db.Settle(ctx, call.Settlement{Record: endedCall(r, parley.OutcomeOK), Task: task}, false))
	}
	must(t, db.Flush(ctx))
	events, err := db.Events(ctx, 0, 500)
	must(t, err)
	last, err := db.LastSeq(ctx)
	must(t, err)
	mesh := db.MeshID()
	url := pgtest.Database(t)
	if _, err := Copy(ctx, opt, Postgres{URL: url}, nil); parley.KindOf(err) != parley.Conflict {
		t.Fatalf("a copy of a store that is served: %v, want a conflict", err)
	}
	must(t, db.Close(ctx))

	told := map[string]int64{}
	copied, err := Copy(ctx, opt, Postgres{URL: url}, func(table string, done, of int64) { told[table] = done })
	must(t, err)
	for _, c := range copied {
		if told[c.Table] != c.Rows || len(c.Hash) != 64 {
			t.Errorf("%+v, and told were %d rows", c, told[c.Table])
		}
	}
	if told["calls"] != 300 || told["tasks"] != 300 || told["credentials"] != 1 || told["api_keys"] != 1 {
		t.Errorf("copied rows: %v", told)
	}
	_, err = Copy(ctx, opt, Postgres{URL: url}, nil)
	wantKindOf(t, "a second copy", err, parley.Conflict)

	moved := replicaOf(t, url, nil)
	if moved.MeshID() != mesh {
		t.Errorf("mesh %s has become %s", mesh, moved.MeshID())
	}
	var again []parley.Event
	for after := int64(0); len(again) < len(events); after = again[len(again)-1].Seq {
		page, err := moved.Events(ctx, after, 500)
		must(t, err)
		if len(page) == 0 {
			break
		}
		again = append(again, page...)
	}
	if !reflect.DeepEqual(events, again[:len(events)]) {
		t.Errorf("%d events read differently after the copy, of %d", len(events), len(again))
	}
	if c, err := moved.Credential(ctx, "echo"); err != nil || c.Secret != "hunter2" {
		t.Errorf("the credential: %+v, %v", c, err)
	}
	if task, err := moved.Task(ctx, call.TaskKey{Agent: "echo", ID: "t9"}); err != nil || string(task.Snapshot) != `{"n":1}` {
		t.Errorf("a task: %+v, %v", task, err)
	}
	if p, err := moved.ContextOwner(ctx, "echo", "", "c"); err != nil || p != "alice" {
		t.Errorf("the context belongs to %q, %v", p, err)
	}
	if n, err := moved.Recover(ctx, time.Now()); err != nil || n != 0 {
		t.Errorf("%d calls are unknown, %v", n, err)
	}
	if left, err := moved.OpenCalls(context.Background()); err != nil || len(left) != 1 || left[0].ID != open.ID {
		t.Errorf("open calls: %+v, %v", left, err)
	}
	r := newCall()
	must(t, moved.Begin(ctx, r))
	must(t, moved.Flush(ctx))
	if got, err := moved.Call(ctx, r.ID); err != nil || got.Seq <= last {
		t.Errorf("the next call has the place %d, %v, want one behind %d", got.Seq, err, last)
	}
}
