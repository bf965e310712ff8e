package gateway_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/parley-mesh/parley/internal/a2a"
	"github.com/parley-mesh/parley/internal/control"
	"github.com/parley-mesh/parley/internal/parleytest"
	"github.com/parley-mesh/parley/internal/registry"
)

// twin is one of several instances of an agent, which can be killed. Every
// message without a task begins one, named after the instance.
type twin struct {
	*parleytest.Agent
	name   string
	server *httptest.Server
	begun  atomic.Int64
	hold   chan struct{} // sends wait for it; nil for not
	states sync.Map      // task id to a2a.TaskState
}

func newTwin(t *testing.T, name string) *twin {
	t.Helper()
	w := &twin{Agent: parleytest.NewAgent(t), name: name}
	w.server = httptest.NewServer(w.Agent)
	t.Cleanup(w.server.Close)
	w.URL = w.server.URL + "/"
	w.SetCard(parleytest.Card(w.URL))
	w.Answer(w.answer)
	return w
}

func (w *twin) answer(ctx context.Context, q *a2a.Request) *a2a.Reply {
	id := q.Facts.TaskID
	if q.Method == a2a.SendMessage && id == "" {
		id = fmt.Sprintf("%s-task-%d", w.name, w.begun.Add(1))
		w.states.Store(id, a2a.StateWorking)
		if w.hold != nil {
			select {
			case <-w.hold:
			case <-ctx.Done():
			}
		}
	}
	state, known := w.states.Load(id)
	switch {
	case !known:
		return a2a.Fail(a2a.TaskNotFound(id))
	case q.Method == a2a.CancelTask:
		state = a2a.StateCanceled
		w.states.Store(id, state)
	}
	tk := task(id, "context-of-"+id, state.(a2a.TaskState))
	if q.Method == a2a.SendMessage {
		return a2a.Answer(q.Method, a2a.SendMessageResponse{Task: &tk})
	}
	return a2a.Answer(q.Method, &tk)
}

// kill ends the instance as a crash would.
func (w *twin) kill() {
	w.server.Listener.Close()
	w.server.CloseClientConnections()
}

// twins runs a mesh with an agent of two instances, "first" and "second".
func twins(t *testing.T) (m *parleytest.Mesh, first, second *twin) {
	t.Helper()
	m = parleytest.Start(t, parleytest.Options{})
	first, second = newTwin(t, "one"), newTwin(t, "two")
	m.Add(control.NewAgent{Name: "agent", URL: first.URL})
	if _, err := m.Admin.AddInstance(t.Context(), "agent", control.NewInstance{ID: "second", URL: second.URL}); err != nil {
		t.Fatal(err)
	}
	return m, first, second
}

func taskOf(t *testing.T, reply *a2a.Reply) string {
	t.Helper()
	if reply.Err != nil {
		t.Fatalf("the send failed: %v", reply.Err)
	}
	return reply.Facts.TaskID
}

// TestTaskStaysWithItsInstance: new work is shared out; what is asked of a task,
// said in its context or refers to it goes to where it began, in every binding.
func TestTaskStaysWithItsInstance(t *testing.T) {
	m, first, second := twins(t)
	key := m.Key("alice", "")
	stranger := m.Key("mallory", "")
	for _, b := range bindings {
		caller, ctx := m.Caller("agent", b, key), t.Context()
		of := map[string]*twin{}
		for range 6 {
			reply, call := caller.Do(ctx, a2a.SendMessage, parleytest.Message(fresh("m"), "x"))
			id := taskOf(t, reply)
			of[id] = first
			want := ""
			if strings.HasPrefix(id, "two-") {
				of[id], want = second, "second"
			}
			if got := m.Call(call).Instance; got != want {
				t.Errorf("%s: the call that made %s is recorded at %q, want %q", b, id, got, want)
			}
		}
		if first.begun.Load() == 0 || second.begun.Load() == 0 {
			t.Fatalf("%s: new work was not shared out: %d and %d", b, first.begun.Load(), second.begun.Load())
		}
		for id, at := range of {
			before := len(at.Seen())
			if reply, _ := caller.Do(ctx, a2a.GetTask, a2a.GetTaskRequest{ID: id}); reply.Err != nil {
				t.Errorf("%s: get %s: %v", b, id, reply.Err)
			}
			follow := parleytest.Message(fresh("m"), "more")
			follow.Message.TaskID = id
			if reply, _ := caller.Do(ctx, a2a.SendMessage, follow); taskOf(t, reply) != id {
				t.Errorf("%s: a further turn of %s reached another task", b, id)
			}
			if n := len(at.Seen()) - before; n != 2 {
				t.Errorf("%s: the instance of %s saw %d of 2 requests about it", b, id, n)
			}
			inContext := parleytest.Message(fresh("m"), "same context")
			inContext.Message.ContextID = "context-of-" + id
			inContext.Message.ReferenceTaskIDs = []string{id}
			before = len(at.Seen())
			caller.Do(ctx, a2a.SendMessage, inContext)
			if len(at.Seen()) != before+1 || !strings.Contains(string(at.Last().Params), id) {
				t.Errorf("%s: a message in the context of %s went elsewhere, or lost its reference", b, id)
			}
			reply, _ := m.Caller("agent", b, stranger).Do(ctx, a2a.GetTask, a2a.GetTaskRequest{ID: id})
			wantErr(t, "another principal's task", reply, a2a.ReasonTaskNotFound)
			foreign := parleytest.Message(fresh("m"), "foreign context")
			foreign.Message.ContextID = "context-of-" + id
			reply, _ = m.Caller("agent", b, stranger).Do(ctx, a2a.SendMessage, foreign)
			wantErr(t, "another principal's context", reply, a2a.ReasonTaskNotFound)
		}
		reply, _ := caller.Do(ctx, a2a.ListTasks, a2a.ListTasksRequest{})
		for id := range of {
			if !strings.Contains(string(reply.Result), `"`+id+`"`) {
				t.Errorf("%s: %s is not listed", b, id)
			}
		}
	}
}

// TestInstanceDies: an instance that is killed under load costs the calls that
// were in flight there and no others; what lives there is refused with the
// reason, and goes to nobody else.
func TestInstanceDies(t *testing.T) {
	m, first, second := twins(t)
	key := m.Key("alice", "")
	ctx := t.Context()
	var living string // a task at the instance that will die
	for living == "" {
		reply, _ := m.Caller("agent", a2a.JSONRPC, key).Do(ctx, a2a.SendMessage, parleytest.Message(fresh("m"), "x"))
		if id := taskOf(t, reply); strings.HasPrefix(id, "two-") {
			living = id
		}
	}
	const workers, each, killAfter = 8, 40, 80
	var sent, cut atomic.Int64
	var work sync.WaitGroup
	for range workers {
		work.Go(func() {
			for range each {
				if sent.Add(1) == killAfter {
					second.kill()
				}
				reply, id := m.Caller("agent", a2a.JSONRPC, key).Do(ctx, a2a.SendMessage, parleytest.Message(fresh("m"), "x"))
				if reply.Err == nil {
					continue
				}
				cut.Add(1)
				// Only what had been written when the instance died may fail.
				if got := m.Call(id); got.Reason != "cut" || got.Instance != "second" {
					t.Errorf("a call failed that was not in flight there: %s %q at %q: %v", got.Outcome, got.Reason, got.Instance, reply.Err)
				}
			}
		})
	}
	work.Wait()
	if n := cut.Load(); n > workers {
		t.Errorf("%d calls failed, more than can have been in flight", n)
	}
	if n := first.begun.Load(); n < workers*each-killAfter {
		t.Errorf("the instance that is left took %d calls", n)
	}
	reply, id := m.Caller("agent", a2a.JSONRPC, key).Do(ctx, a2a.GetTask, a2a.GetTaskRequest{ID: living})
	wantErr(t, "a task at the dead instance", reply, a2a.ReasonUnavailable)
	if !strings.Contains(reply.Err.Message, "the instance of the agent that has this task") {
		t.Errorf("the refusal does not say why: %s", reply.Err.Message)
	}
	mustHideInternals(t, m, second.Agent, reply.Err.Message)
	wantCall(t, m, id, "crash", "dial")
	for _, q := range first.Seen() { // among the mesh's own looks at the tasks that are there
		if strings.Contains(q.Path+" "+string(q.Params), living) {
			t.Errorf("a task of one instance was asked of the other: %s %s %s", q.Method, q.Path, q.Params)
		}
	}
	page, err := m.Admin.Instances(ctx, "agent")
	if err != nil {
		t.Fatal(err)
	}
	for _, i := range page.Items {
		if i.Healthy != (i.ID == registry.First) {
			t.Errorf("instance %s is shown as healthy: %v", i.ID, i.Healthy)
		}
	}
}

// TestFailoverIsRecorded: a call that went on to the next instance is recorded,
// and its task found, where it was done.
func TestFailoverIsRecorded(t *testing.T) {
	m, _, second := twins(t)
	key := m.Key("alice", "")
	second.kill()
	moved := false
	for range 4 { // the first tries share out what is equal
		reply, id := m.Caller("agent", a2a.HTTPJSON, key).Do(t.Context(), a2a.SendMessage, parleytest.Message(fresh("m"), "x"))
		task := taskOf(t, reply)
		if got := m.Call(id); got.Instance != "" || got.TaskID != task {
			t.Errorf("the call is recorded at %q with task %q, want the agent's own address and %q", got.Instance, got.TaskID, task)
		}
		moved = moved || strings.Contains(m.Log(), "instance not reached, the next is tried")
		if reply, _ := m.Caller("agent", a2a.HTTPJSON, key).Do(t.Context(), a2a.GetTask, a2a.GetTaskRequest{ID: task}); reply.Err != nil {
			t.Errorf("the task is not found: %v", reply.Err)
		}
	}
	if !moved {
		t.Error("the dead instance was never tried: this test shows nothing")
	}
	restarted := m.Calls(control.CallFilter{Agent: "agent"})
	m.Restart()
	for _, c := range restarted {
		if got := m.Call(c.ID).Instance; got != "" {
			t.Errorf("after a restart the call is at %q", got)
		}
	}
}

// TestDrain: an instance that is taken out gets no new work, and keeps what it
// has until it is forced.
func TestDrain(t *testing.T) {
	m, _, second := twins(t)
	caller := m.Caller("agent", a2a.JSONRPC, m.Key("alice", ""))
	ctx := t.Context()
	var living string
	for living == "" {
		reply, _ := caller.Do(ctx, a2a.SendMessage, parleytest.Message(fresh("m"), "x"))
		if id := taskOf(t, reply); strings.HasPrefix(id, "two-") {
			living = id
		}
	}
	out, err := m.Admin.RemoveInstance(ctx, "agent", "second", false)
	if err != nil || out.Gone || out.Open != 1 {
		t.Fatalf("draining gives %+v, %v; want 1 open", out, err)
	}
	begun := second.begun.Load()
	for range 6 {
		caller.Do(ctx, a2a.SendMessage, parleytest.Message(fresh("m"), "x"))
	}
	if second.begun.Load() != begun {
		t.Error("a draining instance got new work")
	}
	if reply, _ := caller.Do(ctx, a2a.GetTask, a2a.GetTaskRequest{ID: living}); reply.Err != nil {
		t.Errorf("a task at a draining instance is not reachable: %v", reply.Err)
	}
	if out, err = m.Admin.RemoveInstance(ctx, "agent", "second", true); err != nil || !out.Gone {
		t.Fatalf("forced: %+v, %v", out, err)
	}
	reply, _ := caller.Do(ctx, a2a.GetTask, a2a.GetTaskRequest{ID: living})
	wantErr(t, "a task at a removed instance", reply, a2a.ReasonTaskNotFound)
	page, err := m.Admin.Instances(ctx, "agent")
	if err != nil || len(page.Items) != 1 {
		t.Errorf("instances left: %+v, %v", page.Items, err)
	}
}

// TestInstanceMustBeTheAgent: another agent, an address that is taken and one
// that wants the agent's credential unasked are refused with what to do.
func TestInstanceMustBeTheAgent(t *testing.T) {
	m := parleytest.Start(t, parleytest.Options{})
	first := parleytest.NewAgent(t)
	m.Add(control.NewAgent{Name: "agent", URL: first.URL, Auth: &control.NewAuth{Kind: registry.Bearer, Secret: "s3cret-token"}})
	ctx := t.Context()
	refused := func(what, url string, want ...string) {
		t.Helper()
		_, err := m.Admin.AddInstance(ctx, "agent", control.NewInstance{ID: "second", URL: url})
		for _, w := range want {
			if err == nil || !strings.Contains(err.Error(), w) {
				t.Errorf("%s: got %v, want %q", what, err, w)
			}
		}
	}
	other := parleytest.NewAgent(t)
	card := parleytest.Card(other.URL)
	card.Name, card.Version, card.Skills[0].ID = "somebody", "2", "juggle"
	other.SetCard(card)
	refused("another agent", other.URL, `card.name: is "somebody"`, `card.version: is "2"`, "card.skills: lacks any", "also has juggle")
	other.SetCard(parleytest.Card(first.URL))
	refused("an address that is taken", other.URL, "the agent itself is called already")

	other.SetCard(parleytest.Card(other.URL))
	var shown atomic.Int64
	other.Answer(func(_ context.Context, q *a2a.Request) *a2a.Reply {
		if q.Header.Get("Authorization") == "" {
			return a2a.Fail(a2a.NewError(a2a.ReasonUnauthenticated, "no"))
		}
		shown.Add(1)
		return a2a.Fail(a2a.TaskNotFound(q.Facts.TaskID))
	})
	refused("a credential for another origin", other.URL, "--credential")
	if shown.Load() != 0 {
		t.Fatal("the agent's credential went to another origin unasked")
	}
	if _, err := m.Admin.AddInstance(ctx, "agent", control.NewInstance{ID: "second", URL: other.URL, Credential: true}); err != nil {
		t.Fatalf("confirmed: %v", err)
	}
	if shown.Load() == 0 {
		t.Error("the confirmed credential was not shown")
	}
	refused("an id that is taken", other.URL, "an instance second already")
}

// TestInstanceWithoutCredential guards the other direction: an instance at
// another origin that wants none is called without.
func TestInstanceWithoutCredential(t *testing.T) {
	m := parleytest.Start(t, parleytest.Options{})
	first, second := newTwin(t, "one"), newTwin(t, "two")
	m.Add(control.NewAgent{Name: "agent", URL: first.URL, Auth: &control.NewAuth{Kind: registry.Bearer, Secret: "s3cret-token"}})
	if _, err := m.Admin.AddInstance(t.Context(), "agent", control.NewInstance{URL: second.URL}); err != nil {
		t.Fatal(err)
	}
	caller := m.Caller("agent", a2a.JSONRPC, m.Key("alice", ""))
	for second.begun.Load() == 0 {
		caller.Do(t.Context(), a2a.SendMessage, parleytest.Message(fresh("m"), "x"))
	}
	for _, s := range second.Seen() {
		if got := s.Header.Get("Authorization"); got != "" {
			t.Fatalf("an instance of another origin was shown %q", got)
		}
	}
	if first.Last().Header.Get("Authorization") == "" {
		t.Error("the agent's own address was not shown its credential")
	}
}

// TestNoFailoverAfterTheFirstByte: a send that an instance may have taken is
// never given to another one.
func TestNoFailoverAfterTheFirstByte(t *testing.T) {
	m, first, second := twins(t)
	caller := m.Caller("agent", a2a.JSONRPC, m.Key("alice", ""))
	var cut atomic.Int64
	second.Serve(func(http.ResponseWriter, *http.Request) {
		cut.Add(1)
		panic(http.ErrAbortHandler) // the request was read; the connection breaks
	})
	sends := int64(0)
	for ; cut.Load() == 0; sends++ {
		reply, id := caller.Do(t.Context(), a2a.SendMessage, parleytest.Message(fresh("m"), "x"))
		if cut.Load() > 0 {
			wantErr(t, "a send that was cut", reply, a2a.ReasonUnavailable)
			wantCall(t, m, id, "crash", "cut")
		}
	}
	if got := first.begun.Load(); got != sends-1 || cut.Load() != 1 {
		t.Errorf("of %d sends one was cut, %d times, and the other instance took %d", sends, cut.Load(), got)
	}
}
