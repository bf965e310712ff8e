package gateway_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/parley-mesh/parley/internal/a2a"
	"github.com/parley-mesh/parley/internal/a2a/a2atest"
	"github.com/parley-mesh/parley/internal/control"
	"github.com/parley-mesh/parley/internal/parley"
	"github.com/parley-mesh/parley/internal/parleytest"
)

// TestTasksBelongToWhoBeganThem: for anybody else a task does not exist, by any
// operation, and the agent is not even asked.
func TestTasksBelongToWhoBeganThem(t *testing.T) {
	m := parleytest.Start(t, parleytest.Options{})
	ref, url := a2atest.Start(t, a2atest.Options{})
	m.Add(control.NewAgent{Name: "agent", URL: url})
	alice, bob := m.Key("alice", ""), m.Key("bob", "")
	for _, b := range bindings {
		t.Run(string(b), func(t *testing.T) {
			theirs := mustSend(t, m.Caller("agent", b, alice), parleytest.Message(fresh("tck-input-required"), "secret of alice"))
			before := len(ref.Seen())
			c := m.Caller("agent", b, bob)
			turn := parleytest.Message(fresh("tck-complete"), "let me in")
			turn.Message.TaskID = theirs.ID
			inContext := parleytest.Message(fresh("tck-complete"), "let me in")
			inContext.Message.ContextID = theirs.ContextID
			for what, try := range map[string]struct {
				m      a2a.Method
				params any
			}{
				"get":               {a2a.GetTask, a2a.GetTaskRequest{ID: theirs.ID}},
				"cancel":            {a2a.CancelTask, a2a.CancelTaskRequest{ID: theirs.ID}},
				"subscribe":         {a2a.SubscribeToTask, a2a.SubscribeToTaskRequest{ID: theirs.ID}},
				"send a turn":       {a2a.SendMessage, turn},
				"stream a turn":     {a2a.SendStreamingMessage, turn},
				"send in context":   {a2a.SendMessage, inContext},
				"stream in context": {a2a.SendStreamingMessage, inContext},
			} {
				reply, id := c.Do(t.Context(), try.m, try.params)
				wantErr(t, what, reply, a2a.ReasonTaskNotFound)
				wantCall(t, m, id, "caller_error", "TASK_NOT_FOUND")
			}
			if list, err := c.ListTasks(t.Context(), a2a.ListTasksRequest{}); err != nil || len(list.Tasks) != 0 || list.TotalSize != 0 {
				t.Errorf("bob's list holds %+v, %v", list, err)
			}
			if asked := ref.Seen()[before:]; len(asked) != 0 {
				t.Errorf("the agent was asked about a stranger's task: %+v", asked)
			}
			absent, _ := c.Do(t.Context(), a2a.GetTask, a2a.GetTaskRequest{ID: "never-was"})
			foreign, _ := c.Do(t.Context(), a2a.GetTask, a2a.GetTaskRequest{ID: theirs.ID})
			if a, f := string(absent.Err.RPC()), string(foreign.Err.RPC()); a != strings.ReplaceAll(f, theirs.ID, "never-was") {
				t.Errorf("a stranger can tell a foreign task from none:\n%s\n%s", f, a)
			}
			if _, err := m.Caller("agent", b, alice).GetTask(t.Context(), a2a.GetTaskRequest{ID: theirs.ID}); err != nil {
				t.Errorf("alice lost her own task: %v", err)
			}
		})
	}
}

// TestOwnershipIsByPrincipal: a second key of the same principal sees its tasks.
func TestOwnershipIsByPrincipal(t *testing.T) {
	m := parleytest.Start(t, parleytest.Options{})
	_, url := a2atest.Start(t, a2atest.Options{})
	m.Add(control.NewAgent{Name: "agent", URL: url})
	first := m.Key("alice", "")
	second := m.NewKey(control.NewKey{Principal: "alice"}).Text
	mine := mustSend(t, m.Caller("agent", a2a.JSONRPC, first), parleytest.Message(fresh("tck-complete"), "x"))
	if _, err := m.Caller("agent", a2a.HTTPJSON, second).GetTask(t.Context(), a2a.GetTaskRequest{ID: mine.ID}); err != nil {
		t.Errorf("by the second key: %v", err)
	}
}

// TestForeignReferencesAreTakenOut: what the agent is told to refer to is the
// caller's own.
func TestForeignReferencesAreTakenOut(t *testing.T) {
	m, agent := start(t, nil)
	alice, bob := m.Key("alice", ""), m.Key("bob", "")
	agent.Answer(answersTask(task("t-alice", "c-alice", a2a.StateCompleted)))
	mustSend(t, m.Caller("agent", a2a.JSONRPC, alice), parleytest.Message(fresh("m"), "x"))
	agent.Answer(answersTask(task("t-bob", "c-bob", a2a.StateCompleted)))
	mustSend(t, m.Caller("agent", a2a.JSONRPC, bob), parleytest.Message(fresh("m"), "x"))
	for _, tc := range []struct{ named, want []string }{
		{[]string{"t-bob"}, []string{"t-bob"}},
		{[]string{"t-alice", "t-bob", "t-nobody"}, []string{"t-bob"}},
		{[]string{"t-alice"}, nil},
	} {
		for _, b := range bindings {
			in := parleytest.Message(fresh("m"), "x")
			in.Message.ReferenceTaskIDs = tc.named
			agent.Answer(answersTask(task(fresh("t"), fresh("c"), a2a.StateCompleted)))
			mustSend(t, m.Caller("agent", b, bob), in)
			var got a2a.SendMessageRequest
			if err := json.Unmarshal(agent.Last().Params, &got); err != nil {
				t.Fatal(err)
			}
			if !slices.Equal(got.Message.ReferenceTaskIDs, tc.want) {
				t.Errorf("%s %v: the agent was told %v, want %v", b, tc.named, got.Message.ReferenceTaskIDs, tc.want)
			}
		}
	}
}

// TestAgentThatMixesUpItsClients: an answer with somebody else's task or
// context is a crash, shows nothing, and changes nobody's rights.
func TestAgentThatMixesUpItsClients(t *testing.T) {
	m, agent := start(t, nil)
	alice, bob := m.Key("alice", ""), m.Key("bob", "")
	theirs := task("t-alice", "c-alice", a2a.StateWorking)
	theirs.History = []a2a.Message{{MessageID: "h", Role: a2a.RoleUser, Parts: []a2a.Part{a2a.TextPart("ALICES-SECRET")}}}
	agent.Answer(answersTask(theirs))
	mustSend(t, m.Caller("agent", a2a.JSONRPC, alice), parleytest.Message(fresh("m"), "x"))

	foreignContext := task("t-new", "c-alice", a2a.StateCompleted)
	foreignContext.History = theirs.History
	said := a2a.Message{MessageID: "a", ContextID: "c-alice", Role: a2a.RoleAgent, Parts: []a2a.Part{a2a.TextPart("ALICES-SECRET")}}
	own := parleytest.Message(fresh("m"), "x")
	own.Message.ContextID = "c-bob"
	for what, tc := range map[string]struct {
		in     a2a.SendMessageRequest
		answer a2a.SendMessageResponse
	}{
		"a task":                            {parleytest.Message(fresh("m"), "x"), a2a.SendMessageResponse{Task: &theirs}},
		"a new task in a context":           {parleytest.Message(fresh("m"), "x"), a2a.SendMessageResponse{Task: &foreignContext}},
		"a message in a context":            {parleytest.Message(fresh("m"), "x"), a2a.SendMessageResponse{Message: &said}},
		"a message in a context, own named": {own, a2a.SendMessageResponse{Message: &said}},
		"a task in a context, own named":    {own, a2a.SendMessageResponse{Task: &foreignContext}},
	} {
		for _, b := range bindings {
			t.Run(what+" by "+string(b), func(t *testing.T) {
				agent.Answer(func(_ context.Context, q *a2a.Request) *a2a.Reply { return a2a.Answer(q.Method, tc.answer) })
				tc.in.Message.MessageID = fresh("m")
				reply, id := m.Caller("agent", b, bob).Do(t.Context(), a2a.SendMessage, tc.in)
				tc.in.Message.MessageID = fresh("m")
				wantErr(t, "send", reply, a2a.ReasonInvalidAgentResponse)
				mustNotLeak(t, reply)
				wantCall(t, m, id, "crash", "foreign_id")

				agent.Answer(streamsOnce(tc.answer))
				reply, id = m.Caller("agent", b, bob).Do(t.Context(), a2a.SendStreamingMessage, tc.in)
				mustNotLeak(t, reply)
				if reply.Stream != nil {
					frame, err := reply.Stream.Next(t.Context())
					if frame.Err == nil && err == nil {
						t.Errorf("the stream showed %s", frame.Result)
					}
					reply.Stream.Close()
				}
				wantCall(t, m, id, "crash", "foreign_id")
			})
		}
	}
	agent.Answer(answersTask(theirs))
	if _, err := m.Caller("agent", a2a.JSONRPC, alice).GetTask(t.Context(), a2a.GetTaskRequest{ID: "t-alice"}); err != nil {
		t.Errorf("alice lost her task: %v", err)
	}
	if reply, _ := m.Caller("agent", a2a.JSONRPC, bob).Do(t.Context(), a2a.GetTask, a2a.GetTaskRequest{ID: "t-alice"}); reply.Err == nil {
		t.Error("bob was given alice's task")
	}
}

func streamsOnce(answer a2a.SendMessageResponse) func(context.Context, *a2a.Request) *a2a.Reply {
	frames := make(chan a2a.Frame, 1)
	frames <- a2a.StreamFrame(a2a.StreamResponse{Task: answer.Task, Message: answer.Message})
	close(frames)
	return streams(frames)
}

func mustNotLeak(t *testing.T, reply *a2a.Reply) {
	t.Helper()
	text := string(reply.Result)
	if reply.Err != nil {
		text += string(reply.Err.REST())
	}
	if strings.Contains(text, "SECRET") || strings.Contains(text, "t-alice") || strings.Contains(text, "c-alice") {
		t.Errorf("the answer leaks: %s", text)
	}
}

// TestAgentThatAnswersAboutAnotherTask: also between two tasks of the same
// caller an answer must be about the one that was asked for.
func TestAgentThatAnswersAboutAnotherTask(t *testing.T) {
	m, agent := start(t, nil)
	c := m.Caller("agent", a2a.JSONRPC, m.Key("alice", ""))
	for _, id := range []string{"t-1", "t-2"} {
		agent.Answer(answersTask(task(id, "c", a2a.StateInputRequired)))
		mustSend(t, c, parleytest.Message(fresh("m"), "x"))
	}
	two := task("t-2", "c", a2a.StateCompleted)
	agent.Answer(func(_ context.Context, q *a2a.Request) *a2a.Reply {
		if q.Method == a2a.SendMessage {
			return a2a.Answer(q.Method, a2a.SendMessageResponse{Task: &two})
		}
		return a2a.Answer(q.Method, &two)
	})
	reply, id := c.Do(t.Context(), a2a.GetTask, a2a.GetTaskRequest{ID: "t-1"})
	wantErr(t, "get", reply, a2a.ReasonInvalidAgentResponse)
	wantCall(t, m, id, "crash", "foreign_id")
	turn := parleytest.Message(fresh("m"), "x")
	turn.Message.TaskID = "t-1"
	reply, id = c.Do(t.Context(), a2a.SendMessage, turn)
	wantErr(t, "send", reply, a2a.ReasonInvalidAgentResponse)
	wantCall(t, m, id, "crash", "foreign_id")
}

// TestContextBelongsToWhoseCallIsOut: a new context is its first caller's from
// when the call goes out. Who names it while the agent works is refused, and
// the agent is not even asked.
func TestContextBelongsToWhoseCallIsOut(t *testing.T) {
	m, agent := start(t, nil)
	alice, bob := m.Key("alice", ""), m.Key("bob", "")
	for _, b := range bindings {
		t.Run(string(b), func(t *testing.T) {
			in := parleytest.Message(fresh("m"), "x")
			in.Message.ContextID = fresh("c-shared")
			works, finish := make(chan struct{}), make(chan struct{})
			agent.Answer(func(_ context.Context, q *a2a.Request) *a2a.Reply {
				close(works)
				<-finish
				done := task(fresh("t"), in.Message.ContextID, a2a.StateCompleted)
				return a2a.Answer(q.Method, a2a.SendMessageResponse{Task: &done})
			})
			first := make(chan *a2a.Reply, 1)
			go func() {
				reply, _ := m.Caller("agent", b, alice).Do(t.Context(), a2a.SendMessage, in)
				first <- reply
			}()
			<-works
			before := len(agent.Seen())
			for _, method := range []a2a.Method{a2a.SendMessage, a2a.SendStreamingMessage} {
				reply, id := m.Caller("agent", b, bob).Do(t.Context(), method, in)
				wantErr(t, string(method)+" by a rival", reply, a2a.ReasonTaskNotFound)
				wantCall(t, m, id, "caller_error", "TASK_NOT_FOUND")
			}
			if asked := agent.Seen()[before:]; len(asked) != 0 {
				t.Errorf("the agent was asked for a rival: %+v", asked)
			}
			close(finish)
			if reply := <-first; reply.Err != nil {
				t.Errorf("whose context it is got %v", reply.Err)
			}
		})
	}
}

// TestContextTakenAtTheSameMoment: callers who all found a new context free
// meet in the store, which lets one of them through. The others read what they
// would have read a moment later.
func TestContextTakenAtTheSameMoment(t *testing.T) {
	const rivals = 8
	m, agent := start(t, nil)
	var callers []*parleytest.Caller
	for i := range rivals {
		callers = append(callers, m.Caller("agent", bindings[i%len(bindings)], m.Key(parley.PrincipalName(fmt.Sprintf("rival-%d", i)), "")))
	}
	for range 10 {
		in := parleytest.Message(fresh("m"), "x")
		in.Message.ContextID = fresh("c-new")
		agent.Answer(answersTask(task(fresh("t"), in.Message.ContextID, a2a.StateCompleted)))
		before := len(agent.Seen())
		replies, ids := make([]*a2a.Reply, rivals), make([]string, rivals)
		var wg sync.WaitGroup
		for i, c := range callers {
			wg.Go(func() { replies[i], ids[i] = c.Do(t.Context(), a2a.SendMessage, in) })
		}
		wg.Wait()
		served := 0
		for i, reply := range replies {
			if reply.Err == nil {
				served++
				continue
			}
			wantErr(t, "a rival", reply, a2a.ReasonTaskNotFound)
			wantCall(t, m, ids[i], "caller_error", "TASK_NOT_FOUND")
		}
		if asked := len(agent.Seen()) - before; served != 1 || asked != 1 {
			t.Errorf("%d of %d rivals were served and the agent was asked %d times, want once", served, rivals, asked)
		}
	}
}
