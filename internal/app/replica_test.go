//go:build linux

package app_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/parley-mesh/parley/internal/a2a"
	"github.com/parley-mesh/parley/internal/app"
	"github.com/parley-mesh/parley/internal/config"
	"github.com/parley-mesh/parley/internal/control"
	"github.com/parley-mesh/parley/internal/gateway"
	"github.com/parley-mesh/parley/internal/parley"
	"github.com/parley-mesh/parley/internal/parleytest"
	"github.com/parley-mesh/parley/internal/storetest/pgtest"
)

// replicas starts two meshes on one database. Neither asks agents for tasks by
// itself while the test runs, unless configure says so.
func replicas(t *testing.T, configure func(*config.Config)) (one, two *parleytest.Mesh) {
	t.Helper()
	url := pgtest.Database(t)
	start := func(key []byte) *parleytest.Mesh {
		return parleytest.Start(t, parleytest.Options{Configure: func(c *config.Config) {
			c.Store, c.OpsListen = config.PostgresStore(url), ""
			c.Watch.First, c.Watch.Max = time.Hour, time.Hour
			if key != nil {
				if err := os.WriteFile(filepath.Join(c.Data, "master.key"), key, 0o600); err != nil {
					t.Fatal(err)
				}
			}
			if configure != nil {
				configure(c)
			}
		}})
	}
	one = start(nil)
	return one, start(masterKey(t, one))
}

func masterKey(t *testing.T, m *parleytest.Mesh) []byte {
	t.Helper()
	key, err := os.ReadFile(filepath.Join(m.Config.Data, "master.key"))
	if err != nil {
		t.Fatal(err)
	}
	return key
}

// tasks answers every send with a working task of its message's id, and every
// other question with the state that the task has.
func tasks(state func(id string) a2a.TaskState) func(context.Context, *a2a.Request) *a2a.Reply {
	return func(_ context.Context, q *a2a.Request) *a2a.Reply {
		id := q.Facts.TaskID
		if id == "" {
			id = "t-" + q.Facts.MessageID
		}
		one := a2a.Task{ID: id, ContextID: "c-" + id, Status: a2a.TaskStatus{State: state(id)}}
		if q.Method == a2a.SendMessage {
			return a2a.Answer(q.Method, a2a.SendMessageResponse{Task: &one})
		}
		return a2a.Answer(q.Method, &one)
	}
}

func working(string) a2a.TaskState { return a2a.StateWorking }

// TestReplicasShareOwnership: what a caller got at one replica is its own at the
// other, at once, and nobody else's.
func TestReplicasShareOwnership(t *testing.T) {
	one, two := replicas(t, nil)
	agent := one.Agent("agent")
	agent.Answer(tasks(working))
	alice, eve := one.Key("alice", ""), one.Key("eve", "")
	for i := range 20 {
		from, to := one, two
		if i%2 == 1 {
			from, to = two, one
		}
		sent, _ := from.Caller("agent", a2a.JSONRPC, alice).Do(t.Context(), a2a.SendMessage, parleytest.Message(fmt.Sprint("m", i), "x"))
		if sent.Err != nil {
			t.Fatal(sent.Err)
		}
		get := a2a.GetTaskRequest{ID: sent.Facts.TaskID}
		if got, _ := to.Caller("agent", a2a.JSONRPC, alice).Do(t.Context(), a2a.GetTask, get); got.Err != nil {
			t.Errorf("the caller's task at the other replica: %v", got.Err)
		}
		if got, _ := to.Caller("agent", a2a.JSONRPC, eve).Do(t.Context(), a2a.GetTask, get); got.Err == nil || got.Err.Reason != a2a.ReasonTaskNotFound {
			t.Errorf("somebody else's task: %s, %v", got.Result, got.Err)
		}
		turn := parleytest.Message(fmt.Sprint("e", i), "x")
		turn.Message.ContextID = sent.Facts.ContextID
		if got, _ := to.Caller("agent", a2a.JSONRPC, eve).Do(t.Context(), a2a.SendMessage, turn); got.Err == nil || got.Err.Reason != a2a.ReasonTaskNotFound {
			t.Errorf("somebody else's context: %s, %v", got.Result, got.Err)
		}
	}
}

// TestReplicasHaveFreshContexts: a context that only a message showed is the
// caller's at the other replica as soon as the caller has been told of it.
func TestReplicasHaveFreshContexts(t *testing.T) {
	one, two := replicas(t, nil)
	agent := one.Agent("agent")
	agent.Answer(func(_ context.Context, q *a2a.Request) *a2a.Reply {
		m := a2a.Message{MessageID: "a-" + q.Facts.MessageID, ContextID: "c-" + q.Facts.MessageID, Role: a2a.RoleAgent, Parts: []a2a.Part{a2a.TextPart("yes")}}
		return a2a.Answer(q.Method, a2a.SendMessageResponse{Message: &m})
	})
	alice, eve := one.Key("alice", ""), one.Key("eve", "")
	for i := range 20 {
		sent, _ := one.Caller("agent", a2a.JSONRPC, alice).Do(t.Context(), a2a.SendMessage, parleytest.Message(fmt.Sprint("m", i), "x"))
		if sent.Err != nil {
			t.Fatal(sent.Err)
		}
		next := parleytest.Message(fmt.Sprint("e", i), "x")
		next.Message.ContextID = fmt.Sprint("c-m", i)
		if got, _ := two.Caller("agent", a2a.JSONRPC, eve).Do(t.Context(), a2a.SendMessage, next); got.Err == nil || got.Err.Reason != a2a.ReasonTaskNotFound {
			t.Fatalf("somebody else's context: %s, %v", got.Result, got.Err)
		}
	}
}

// TestReplicasHeedEachOthersChanges: whatever is changed at one replica is in
// force at the other a moment later, for each kind of thing that replicas keep
// in memory.
func TestReplicasHeedEachOthersChanges(t *testing.T) {
	one, two := replicas(t, nil)
	agent := one.Agent("agent")
	agent.Answer(tasks(func(string) a2a.TaskState { return a2a.StateCompleted }))
	other := parleytest.NewAgent(t)
	other.SetCard(parleytest.Card(other.URL))
	one.Owner("finance")
	alice, carol := keyOf(one, "alice", ""), keyOf(one, "carol", "finance")
	ctx := t.Context()
	served := func(r *a2a.Reply) bool { return r.Err == nil }
	refusedFor := func(reason a2a.Reason) func(*a2a.Reply) bool {
		return func(r *a2a.Reply) bool { return r.Err != nil && r.Err.Reason == reason }
	}
	limits := func(values string) error {
		_, err := one.Admin.Apply(ctx, control.ApplyRequest{Set: "test", Documents: []json.RawMessage{
			json.RawMessage(`{"apiVersion":"parley/v1","kind":"Limits","metadata":{"name":"default"},"spec":` + values + `}`)}})
		return err
	}
	counter := 0
	for _, change := range []struct {
		what string
		key  string // of the caller at the other replica
		do   func() error
		then func(*a2a.Reply) bool
	}{
		{"an agent is suspended", alice.Text, func() error {
			_, err := one.Admin.SuspendAgent(ctx, "agent", control.Suspension{Reason: "maintenance"})
			return err
		}, refusedFor(a2a.ReasonUnavailable)},
		{"an agent is resumed", alice.Text, func() error { _, err := one.Admin.ResumeAgent(ctx, "agent"); return err }, served},
		{"a principal is frozen", alice.Text, func() error { _, err := one.Admin.FreezePrincipal(ctx, "alice", "leaked"); return err }, refusedFor(gateway.ReasonFrozen)},
		{"a principal is unfrozen", alice.Text, func() error { _, err := one.Admin.UnfreezePrincipal(ctx, "alice"); return err }, served},
		{"an owner is allowed", carol.Text, func() error { _, err := one.Admin.AllowOwner(ctx, "agent", "finance"); return err }, served},
		{"an owner is allowed no more", carol.Text, func() error { _, err := one.Admin.DisallowOwner(ctx, "agent", "finance"); return err }, refusedFor(a2a.ReasonForbidden)},
		{"a role is given", carol.Text, func() error {
			_, err := one.Admin.UpdatePrincipal(ctx, "carol", 1, control.PrincipalChange{Roles: &[]parley.Role{parley.RoleAdmin}})
			return err
		}, served},
		{"a role is taken", carol.Text, func() error {
			_, err := one.Admin.UpdatePrincipal(ctx, "carol", 2, control.PrincipalChange{Roles: &[]parley.Role{}})
			return err
		}, refusedFor(a2a.ReasonForbidden)},
		{"a credential is stored", alice.Text, func() error {
			_, err := one.Admin.SetAuth(ctx, "agent", control.NewAuth{Kind: "bearer", Secret: "hunter2"})
			return err
		}, func(*a2a.Reply) bool { return last(agent).Header.Get("Authorization") == "Bearer hunter2" }},
		{"a credential is removed", alice.Text, func() error { _, err := one.Admin.RemoveAuth(ctx, "agent"); return err },
			func(*a2a.Reply) bool { return last(agent).Header.Get("Authorization") == "" }},
		{"an instance is added", alice.Text, func() error {
			_, err := one.Admin.AddInstance(ctx, "agent", control.NewInstance{ID: "second", URL: other.URL})
			other.Answer(tasks(func(string) a2a.TaskState { return a2a.StateCompleted })) // it has been probed
			return err
		}, func(*a2a.Reply) bool { return last(other).Method == a2a.SendMessage }},
		{"an instance is removed", alice.Text, func() error { _, err := one.Admin.RemoveInstance(ctx, "agent", "second", true); return err },
			spared(other)},
		{"a limit is set", alice.Text, func() error { return limits(`{"call_deadline":"7h"}`) }, deadlineOf(two, 7*time.Hour)},
		{"a limit is lifted", alice.Text, func() error { return limits(`{}`) }, deadlineOf(two, two.Config.Limits.CallDeadline)},
		{"a key is revoked", alice.Text, func() error { _, err := one.Admin.RevokeKey(ctx, alice.Key.ID); return err }, refusedFor(a2a.ReasonUnauthenticated)},
		{"a principal is deleted", carol.Text, func() error { return one.Admin.DeletePrincipal(ctx, "carol", 3) }, refusedFor(a2a.ReasonUnauthenticated)},
	} {
		caller := two.Caller("agent", a2a.JSONRPC, change.key)
		ask := func() *a2a.Reply {
			counter++
			reply, _ := caller.Do(ctx, a2a.SendMessage, parleytest.Message(fmt.Sprint("m", counter), "x"))
			return reply
		}
		if reply := ask(); change.then(reply) { // also what fills the other one's memory
			t.Errorf("before %s: %s, %v", change.what, reply.Result, reply.Err)
		}
		if err := change.do(); err != nil {
			t.Fatalf("%s: %v", change.what, err)
		}
		began := time.Now()
		for reply := ask(); !change.then(reply); reply = ask() {
			if time.Since(began) > parleytest.Patience {
				t.Fatalf("%s: still %s, %v", change.what, reply.Result, reply.Err)
			}
		}
		t.Logf("%s: after %v", change.what, time.Since(began).Round(time.Millisecond))
	}
}

// keyOf makes a principal and a key of its.
func keyOf(m *parleytest.Mesh, name parley.PrincipalName, owner parley.OwnerName) control.CreatedKey {
	m.Key(name, owner)
	return m.NewKey(control.NewKey{Principal: name})
}

// last is what an agent was asked last.
func last(a *parleytest.Agent) parleytest.Seen {
	seen := a.Seen()
	if len(seen) == 0 {
		return parleytest.Seen{}
	}
	return seen[len(seen)-1]
}

// spared reports whether an agent heard of none of the last calls, in one row
// long enough that its turn must have come.
func spared(a *parleytest.Agent) func(*a2a.Reply) bool {
	heard, row := len(a.Seen()), 0
	return func(*a2a.Reply) bool {
		if n := len(a.Seen()); n > heard {
			heard, row = n, 0
		}
		row++
		return row > 4
	}
}

// deadlineOf reports whether the newest call at m may take so long.
func deadlineOf(m *parleytest.Mesh, want time.Duration) func(*a2a.Reply) bool {
	return func(*a2a.Reply) bool {
		newest := m.Calls(control.CallFilter{Caller: "alice"})[0]
		return newest.Deadline.Sub(newest.Begun).Round(time.Minute) == want
	}
}

// TestReplicasEndEachOthersCalls: a task seen final at one replica ends the call
// that waits for it at the other, and a call can be canceled from anywhere.
func TestReplicasEndEachOthersCalls(t *testing.T) {
	one, two := replicas(t, nil)
	agent := one.Agent("agent")
	agent.Answer(tasks(working))
	key := one.Key("alice", "")
	sent, waiting := one.Caller("agent", a2a.JSONRPC, key).Do(t.Context(), a2a.SendMessage, parleytest.Message("m", "x"))
	if sent.Err != nil || two.Call(waiting).Ended != nil {
		t.Fatalf("%v; the call reads %+v at the other replica", sent.Err, two.Call(waiting))
	}
	agent.Answer(tasks(func(string) a2a.TaskState { return a2a.StateCompleted }))
	if got, _ := two.Caller("agent", a2a.JSONRPC, key).Do(t.Context(), a2a.GetTask, a2a.GetTaskRequest{ID: sent.Facts.TaskID}); got.Err != nil {
		t.Fatal(got.Err)
	}
	if c := one.EndOf(waiting); c.Outcome != "ok" || c.TaskState != string(a2a.StateCompleted) {
		t.Errorf("the call ended as %+v", c)
	}

	arrived := make(chan struct{})
	agent.Answer(func(ctx context.Context, q *a2a.Request) *a2a.Reply {
		close(arrived)
		<-ctx.Done()
		return a2a.Fail(a2a.Internal("given up"))
	})
	ended := make(chan string, 1)
	go func() {
		reply, id := one.Caller("agent", a2a.JSONRPC, key).Do(context.Background(), a2a.SendMessage, parleytest.Message("m2", "x"))
		if reply.Err == nil {
			t.Errorf("a canceled call was answered with %s", reply.Result)
		}
		ended <- id
	}()
	<-arrived
	open := two.Calls(control.CallFilter{Outcome: "open"})
	if len(open) != 1 {
		t.Fatalf("open calls at the other replica: %+v", open)
	}
	if _, err := two.Admin.CancelCall(t.Context(), open[0].ID); err != nil {
		t.Errorf("a cancel from the other replica: %v", err)
	}
	if c := two.EndOf(<-ended); c.Outcome != "canceled" {
		t.Errorf("the call ended as %+v", c)
	}
}

// TestReplicasLinkCalls: an agent whose call came through one replica calls
// through the other, and its call is the child.
func TestReplicasLinkCalls(t *testing.T) {
	one, two := replicas(t, nil)
	helper, planner := one.Agent("helper"), one.Agent("planner")
	helper.Answer(tasks(func(string) a2a.TaskState { return a2a.StateCompleted }))
	agentKey, key := one.AgentKey("planner"), one.Key("alice", "")
	var child string
	planner.Answer(func(ctx context.Context, q *a2a.Request) *a2a.Reply {
		var reply *a2a.Reply
		reply, child = two.Caller("helper", a2a.JSONRPC, agentKey).Do(ctx, a2a.SendMessage, parleytest.Message("inner", "x"))
		if reply.Err != nil {
			t.Errorf("the inner call: %v", reply.Err)
		}
		return tasks(func(string) a2a.TaskState { return a2a.StateCompleted })(ctx, q)
	})
	_, parent := one.Caller("planner", a2a.JSONRPC, key).Do(t.Context(), a2a.SendMessage, parleytest.Message("outer", "x"))
	if c := two.EndOf(child); c.Parent != parent || c.Depth != 1 {
		t.Errorf("the inner call is %+v, want a child of %s", c, parent)
	}
}

// TestReplicaFollowsAnothersStream: a task that streams at one replica is
// followed at the other.
func TestReplicaFollowsAnothersStream(t *testing.T) {
	one, two := replicas(t, nil)
	agent := one.Agent("agent")
	first, second := make(chan a2a.Frame, 2), make(chan a2a.Frame, 2)
	agent.Answer(func(_ context.Context, q *a2a.Request) *a2a.Reply {
		if q.Method == a2a.SubscribeToTask {
			return &a2a.Reply{Stream: a2a.NewChanStream(second)}
		}
		return &a2a.Reply{Stream: a2a.NewChanStream(first)}
	})
	key := one.Key("alice", "")
	first <- frame("t", a2a.StateWorking)
	reply, _ := one.Caller("agent", a2a.JSONRPC, key).Do(t.Context(), a2a.SendStreamingMessage, parleytest.Message("m", "x"))
	if f, err := reply.Stream.Next(t.Context()); err != nil || f.Facts.TaskID != "t" {
		t.Fatalf("%+v, %v", f, err)
	}
	second <- frame("t", a2a.StateWorking)
	followed, _ := two.Caller("agent", a2a.JSONRPC, key).Do(t.Context(), a2a.SubscribeToTask, a2a.SubscribeToTaskRequest{ID: "t"})
	if followed.Err != nil {
		t.Fatal(followed.Err)
	}
	for _, c := range []chan a2a.Frame{first, second} {
		c <- frame("t", a2a.StateCompleted)
		close(c)
	}
	if last := lastOf(t, followed); last.Err != nil || !last.Facts.Final() {
		t.Errorf("the stream at the other replica ended with %s, %v", last.Result, last.Err)
	}
	if last := lastOf(t, reply); last.Err != nil || !last.Facts.Final() {
		t.Errorf("the first stream ended with %s, %v", last.Result, last.Err)
	}
}

// TestReplicasTellTheSameFeed: both tell every event, in one order.
func TestReplicasTellTheSameFeed(t *testing.T) {
	one, two := replicas(t, nil)
	one.Agent("agent").Answer(tasks(func(string) a2a.TaskState { return a2a.StateCompleted }))
	key := one.Key("alice", "")
	const each = 40
	sent := make(chan error, 2)
	for _, m := range []*parleytest.Mesh{one, two} {
		go func() {
			for i := range each {
				if reply, _ := m.Caller("agent", a2a.JSONRPC, key).Do(context.Background(), a2a.SendMessage, parleytest.Message(fmt.Sprintf("%s-%d", m.Ready.Listen, i), "x")); reply.Err != nil {
					sent <- reply.Err
					return
				}
			}
			sent <- nil
		}()
	}
	var feeds [2][]string
	for n, m := range []*parleytest.Mesh{one, two} {
		ctx, cancel := context.WithTimeout(t.Context(), parleytest.Patience)
		ended := 0
		err := m.Admin.FollowEvents(ctx, 0, func(e control.Event) error {
			feeds[n] = append(feeds[n], e.ID+" "+e.Type+" "+e.Subject)
			if e.Type == "call.ended" {
				if ended++; ended == 2*each {
					return errSeen
				}
			}
			return nil
		})
		cancel()
		if !errors.Is(err, errSeen) {
			t.Fatalf("the feed ended with %v after %d calls", err, ended)
		}
	}
	for range 2 {
		if err := <-sent; err != nil {
			t.Error(err)
		}
	}
	if fmt.Sprint(feeds[0]) != fmt.Sprint(feeds[1]) {
		t.Errorf("the feeds differ:\n%q\n%q", feeds[0], feeds[1])
	}
}

var errSeen = errors.New("seen")

// TestReplicaNeedsTheMasterKey: a replica with another key, or with none, does
// not start and says what to do.
func TestReplicaNeedsTheMasterKey(t *testing.T) {
	url := pgtest.Database(t)
	one := parleytest.Start(t, parleytest.Options{Configure: func(c *config.Config) { c.Store = config.PostgresStore(url) }})
	other := parleytest.Start(t, parleytest.Options{})
	for what, key := range map[string][]byte{"none": nil, "another": masterKey(t, other)} {
		cfg := config.Default()
		cfg.Data, cfg.Listen, cfg.OpsListen, cfg.Store = parleytest.Dir(t), "127.0.0.1:0", "", config.PostgresStore(url)
		if key != nil {
			if err := os.WriteFile(filepath.Join(cfg.Data, "master.key"), key, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		_, err := app.Open(t.Context(), cfg, app.Options{})
		if parley.KindOf(err) != parley.Invalid {
			t.Fatalf("%s: got %v, want a refusal", what, err)
		}
		mustSay(t, parley.PublicMessage(err), "master key", "sealed under", "replica")
		if _, err := os.Stat(filepath.Join(cfg.Data, "master.key")); key == nil && !errors.Is(err, os.ErrNotExist) {
			t.Errorf("a key was made beside data sealed under another (%v)", err)
		}
	}
	one.Agent("agent")
}

// TestReplicaKilledUnderLoad: of two processes one is killed in the middle of its
// work. Nothing that it acknowledged is lost, every call it had begun has an end
// or is unknown, the other one serves on, and watches the tasks that were left.
func TestReplicaKilledUnderLoad(t *testing.T) {
	store := storeVariable + "=" + pgtest.Database(t)
	one, two := parleytest.Dir(t), parleytest.Dir(t)
	doomed := startProcess(t, one, store)
	key, err := os.ReadFile(filepath.Join(one, "master.key"))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(two, "master.key"), key, 0o600); err != nil {
		t.Fatal(err)
	}
	other := startProcess(t, two, store)
	agent := parleytest.NewAgent(t, a2a.JSONRPC)
	ctx := t.Context()
	if _, err := doomed.admin.AddAgent(ctx, control.NewAgent{Name: "agent", URL: agent.URL}); err != nil {
		t.Fatal(err)
	}
	keys := map[string]string{}
	for _, name := range []parley.PrincipalName{"alice", "bob"} {
		if _, err := other.admin.CreatePrincipal(ctx, control.NewPrincipal{Name: name}); err != nil {
			t.Fatal(err)
		}
		key, err := doomed.admin.CreateKey(ctx, control.NewKey{Principal: name})
		if err != nil {
			t.Fatal(err)
		}
		keys[string(name)] = key.Text
	}
	// Every tenth task goes on, until the killed process is gone.
	var released atomic.Bool
	agent.Answer(tasks(func(id string) a2a.TaskState {
		if strings.HasSuffix(id, "7") && !released.Load() {
			return a2a.StateWorking
		}
		return a2a.StateCompleted
	}))
	aside, stop := context.WithCancel(ctx)
	toldByOther := make(chan map[string]answer, 1)
	go func() {
		toldByOther <- load(aside, connTo(other.ready.Listen, "agent", keys["bob"]), "bob", 1<<62, nil)
	}()
	killed := time.Time{}
	told := load(ctx, connTo(doomed.ready.Listen, "agent", keys["alice"]), "alice", 500, func() {
		if err := doomed.cmd.Process.Kill(); err != nil {
			t.Error(err)
		}
		killed = time.Now()
	})
	if killed.IsZero() {
		t.Fatalf("the load ended after %d answers", len(told))
	}
	_ = doomed.cmd.Wait() // killed, so always an error
	released.Store(true)
	open := control.CallFilter{Outcome: "open", Caller: "alice"}
	for deadline := time.Now().Add(parleytest.Patience); ; {
		page, err := other.admin.Calls(ctx, open, control.List{Limit: 1})
		if err != nil {
			t.Fatal(err)
		}
		if len(page.Items) == 0 {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("a call of the killed process is still open: %+v", page.Items[0])
		}
	}
	stop()
	others := <-toldByOther
	t.Logf("%d answered by the killed process, %d by the other", len(told), len(others))
	checkRecords(t, other.admin, agent, told, killed)
	conn := connTo(other.ready.Listen, "agent", keys["alice"])
	for id, a := range told {
		if _, err := conn.GetTask(ctx, a2a.GetTaskRequest{ID: a.task}); err != nil {
			t.Errorf("the task of %s at the other process: %v", id, err)
			break
		}
	}
}

// checkRecords: every call that the agent saw is on record and has an end.
func checkRecords(t *testing.T, admin *control.Client, agent *parleytest.Agent, told map[string]answer, killed time.Time) {
	t.Helper()
	records := map[string]control.Call{}
	for c, err := range control.All(t.Context(), control.List{Limit: 200}, func(ctx context.Context, l control.List) (control.Page[control.Call], error) {
		return admin.Calls(ctx, control.CallFilter{Method: "SendMessage", Caller: "alice"}, l)
	}) {
		if err != nil {
			t.Fatal(err)
		}
		records[c.MessageID] = c
	}
	unknown := 0
	for id, a := range told {
		c, ok := records[id]
		switch {
		case !ok:
			t.Errorf("call %s was answered, and there is no record of it", id)
		case c.Outcome == "unknown":
			if unknown++; killed.Sub(a.at) > time.Second {
				t.Errorf("call %s was answered %v before the kill and reads unknown", id, killed.Sub(a.at))
			}
		case c.Outcome != "ok" || c.TaskID != a.task:
			t.Errorf("call %s is recorded as %+v", id, c)
		}
	}
	for _, s := range agent.Seen() {
		var in a2a.SendMessageRequest
		if s.Method != a2a.SendMessage || json.Unmarshal(s.Params, &in) != nil || !strings.HasPrefix(in.Message.MessageID, "alice-") {
			continue
		}
		if _, ok := records[in.Message.MessageID]; !ok {
			t.Errorf("the agent saw %s, and there is no record of it", in.Message.MessageID)
		}
	}
	for id, c := range records {
		if c.Ended == nil {
			t.Errorf("call %s is still open: %+v", id, c)
		}
	}
	t.Logf("%d calls on record, %d of those that were answered unknown", len(records), unknown)
}
