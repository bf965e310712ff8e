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

// TestReplicasHeedEachOthersChanges: a revoked key and a suspended agent are
// refused at the other replica a moment later.
func TestReplicasHeedEachOthersChanges(t *testing.T) {
	one, two := replicas(t, nil)
	one.Agent("agent").Answer(tasks(working))
	one.Key("alice", "")
	key := one.NewKey(control.NewKey{Principal: "alice"})
	caller := two.Caller("agent", a2a.JSONRPC, key.Text)
	until := func(what string, ok func(*a2a.Reply) bool) {
		t.Helper()
		began := time.Now()
		for i := 0; ; i++ {
			reply, _ := caller.Do(t.Context(), a2a.SendMessage, parleytest.Message(fmt.Sprintf("%s-%d", what, i), "x"))
			if ok(reply) {
				t.Logf("%s after %v", what, time.Since(began).Round(time.Millisecond))
				return
			}
			if time.Since(began) > parleytest.Patience {
				t.Fatalf("%s: still %s, %v", what, reply.Result, reply.Err)
			}
		}
	}
	served := func(r *a2a.Reply) bool { return r.Err == nil }
	until("served", served)
	if _, err := one.Admin.SuspendAgent(t.Context(), "agent", control.Suspension{Reason: "maintenance"}); err != nil {
		t.Fatal(err)
	}
	until("suspended", func(r *a2a.Reply) bool { return r.Err != nil && r.Err.Reason == a2a.ReasonUnavailable })
	if _, err := one.Admin.ResumeAgent(t.Context(), "agent"); err != nil {
		t.Fatal(err)
	}
	until("resumed", served)
	if _, err := one.Admin.RevokeKey(t.Context(), key.Key.ID); err != nil {
		t.Fatal(err)
	}
	until("revoked", func(r *a2a.Reply) bool { return r.Err != nil && r.Err.HTTP == 401 })
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
