package gateway_test

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/parley-mesh/parley/internal/a2a"
	"github.com/parley-mesh/parley/internal/a2a/a2atest"
	"github.com/parley-mesh/parley/internal/control"
	"github.com/parley-mesh/parley/internal/parleytest"
	"github.com/parley-mesh/parley/internal/registry"
)

// asking is a task that asks for a credential and names schemes.
func asking(id string) a2a.Task {
	tk := task(id, "c-"+id, a2a.StateAuthRequired)
	data := a2a.DataPart(jsontext.Value(`{"scheme":"google-oauth","securitySchemes":{"mtls":{}},"other":"ASKED-FOR"}`))
	tk.Status.Message = &a2a.Message{MessageID: "ask", Role: a2a.RoleAgent, Parts: []a2a.Part{a2a.TextPart("ASKED-FOR at https://auth.example.com"), data}}
	return tk
}

// answersAsking lets the agent ask for a credential, whatever it is asked.
func answersAsking(tk a2a.Task) func(context.Context, *a2a.Request) *a2a.Reply {
	return func(ctx context.Context, q *a2a.Request) *a2a.Reply {
		if !q.Method.Streaming() {
			return answersTask(tk)(ctx, q)
		}
		frames := make(chan a2a.Frame, 1)
		frames <- taskFrame(tk)
		close(frames)
		return &a2a.Reply{Stream: a2a.NewChanStream(frames)}
	}
}

// askedEvents are the events that tell of the agent's asking.
func askedEvents(t *testing.T, m *parleytest.Mesh, agent string) (all []map[string]any) {
	t.Helper()
	page, err := m.Admin.Events(t.Context(), 0, control.List{Limit: 200})
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range page.Items {
		if e.Type == registry.EventAsked && e.Subject == "agents/"+agent {
			var data map[string]any
			if err := json.Unmarshal(e.Data, &data); err != nil {
				t.Fatal(err)
			}
			all = append(all, data)
		}
	}
	return all
}

// TestWhoAskedForWhichCredential stands in the record and in an event, whoever
// saw it: the caller of a unary call or of a stream, or the mesh by itself. What
// the caller is told passes as it came.
func TestWhoAskedForWhichCredential(t *testing.T) {
	onBothStores(t, func(t *testing.T, m *parleytest.Mesh) {
		agent := m.Agent("agent", a2a.JSONRPC)
		key := m.Key("alice", "")
		calls := map[string]string{}
		for _, b := range bindings {
			for _, method := range []a2a.Method{a2a.SendMessage, a2a.SendStreamingMessage} {
				agent.Answer(answersAsking(asking(fresh("t"))))
				reply, id := m.Caller("agent", b, key).Do(t.Context(), method, parleytest.Message("", "x"))
				if reply.Stream != nil {
					if f, err := reply.Stream.Next(t.Context()); err != nil || !strings.Contains(string(f.Result), "ASKED-FOR") {
						t.Errorf("%s by %s: the first frame is %s, %v", method, b, f.Result, err)
					}
					reply.Stream.Close()
				} else if reply.Err != nil || !strings.Contains(string(reply.Result), "ASKED-FOR") {
					t.Errorf("%s by %s: got %s, %v", method, b, reply.Result, reply.Err)
				}
				calls[id] = string(method) + " by " + string(b)
			}
		}
		tk := task(fresh("t"), "c", a2a.StateWorking)
		agent.Answer(answersTask(tk))
		_, later := m.Caller("agent", a2a.JSONRPC, key).Do(t.Context(), a2a.SendMessage, parleytest.Message("", "x"))
		agent.Answer(answersAsking(asking(tk.ID)))
		calls[later] = "seen by the mesh"
		for id, what := range calls {
			got := m.WaitCall(control.CallFilter{}, func(c control.Call) bool { return c.ID == id && c.Asked != nil })
			if got.Outcome != "open" || !slices.Equal(got.Asked.Schemes, []string{"google-oauth", "mtls"}) {
				t.Errorf("%s: outcome %s, asked %+v", what, got.Outcome, got.Asked)
			}
		}
		told := askedEvents(t, m, "agent")
		for _, e := range told {
			if e["agent"] != "agent" || e["caller"] != "alice" || e["depth"] != 0.0 || e["allowed"] != true || calls[e["call"].(string)] == "" {
				t.Errorf("event %v", e)
			}
		}
		if len(told) != len(calls) {
			t.Errorf("%d events, want %d", len(told), len(calls))
		}
	})
}

// TestAgentThatMayNotAskForCredentials: its asking is not shown, by no operation,
// and the call ends as denied. Its task can be canceled.
func TestAgentThatMayNotAskForCredentials(t *testing.T) {
	m := parleytest.Start(t, parleytest.Options{})
	agent := m.Agent("agent", a2a.HTTPJSON)
	if set, err := m.Admin.SetAgent(t.Context(), "agent", control.AgentSettings{AuthRequired: registry.AuthForbid}); err != nil || set.AuthRequired != registry.AuthForbid {
		t.Fatalf("%+v, %v", set, err)
	}
	key := m.Key("alice", "")
	for _, b := range bindings {
		c := m.Caller("agent", b, key)
		tk := asking(fresh("t"))
		agent.Answer(answersAsking(tk))
		in := parleytest.Message("", "x")
		reply, id := c.Do(t.Context(), a2a.SendMessage, in)
		wantErr(t, "send by "+string(b), reply, a2a.ReasonForbidden)
		if got := wantCall(t, m, id, "denied", "auth_required_forbidden"); got.Asked == nil || got.TaskID != tk.ID {
			t.Errorf("%s: record %+v", b, got)
		}
		for method, params := range map[a2a.Method]any{
			a2a.GetTask: a2a.GetTaskRequest{ID: tk.ID}, a2a.SubscribeToTask: a2a.SubscribeToTaskRequest{ID: tk.ID}, a2a.SendMessage: in, a2a.SendStreamingMessage: in,
		} {
			reply, _ := c.Do(t.Context(), method, params)
			wantErr(t, string(method)+" by "+string(b), reply, a2a.ReasonForbidden)
		}
		list, _ := c.Do(t.Context(), a2a.ListTasks, a2a.ListTasksRequest{ContextID: tk.ContextID})
		if text := string(list.Result); !strings.Contains(text, tk.ID) || strings.Contains(text, "ASKED-FOR") {
			t.Errorf("%s: the list shows %s, want the task without what it asks", b, text)
		}
		agent.Answer(answersAsking(asking(fresh("t"))))
		reply, id = c.Do(t.Context(), a2a.SendStreamingMessage, parleytest.Message("", "x"))
		wantErr(t, "stream by "+string(b), reply, a2a.ReasonForbidden)
		wantCall(t, m, id, "denied", "auth_required_forbidden")
		agent.Answer(answersTask(task(tk.ID, tk.ContextID, a2a.StateCanceled)))
		if reply, _ := c.Do(t.Context(), a2a.CancelTask, a2a.CancelTaskRequest{ID: tk.ID}); reply.Err != nil {
			t.Errorf("cancel by %s: %v", b, reply.Err)
		}
	}
	for _, e := range askedEvents(t, m, "agent") {
		if e["allowed"] != false {
			t.Errorf("event %v", e)
		}
	}
	// A task that comes to ask while nobody looks.
	tk := task(fresh("t"), "c", a2a.StateWorking)
	agent.Answer(answersTask(tk))
	_, id := m.Caller("agent", a2a.JSONRPC, key).Do(t.Context(), a2a.SendMessage, parleytest.Message("", "x"))
	agent.Answer(answersAsking(asking(tk.ID)))
	wantCall(t, m, id, "denied", "auth_required_forbidden")
}

// TestCredentialAskedDeepInAChain: the record and the event say how deep.
func TestCredentialAskedDeepInAChain(t *testing.T) {
	m := parleytest.Start(t, parleytest.Options{})
	middle, inner := m.Agent("middle"), m.Agent("inner")
	inner.Answer(answersAsking(asking("t-inner")))
	middleKey := m.AgentKey("middle")
	innerCall := make(chan string, 1)
	middle.Answer(func(ctx context.Context, q *a2a.Request) *a2a.Reply {
		if q.Method == a2a.SendMessage {
			_, id := m.Caller("inner", a2a.JSONRPC, middleKey).Do(ctx, a2a.SendMessage, parleytest.Message("", "x"))
			innerCall <- id
		}
		return answersAsking(asking("t-middle"))(ctx, q) // it passes the question on, as its own
	})
	_, outer := m.Caller("middle", a2a.JSONRPC, m.Key("alice", "")).Do(t.Context(), a2a.SendMessage, parleytest.Message("", "x"))
	if got := m.Call(<-innerCall); got.Depth != 1 || got.Root != outer || got.Asked == nil {
		t.Errorf("the inner call is %+v", got)
	}
	if told := askedEvents(t, m, "inner"); len(told) != 1 || told[0]["depth"] != 1.0 || told[0]["root"] != outer || told[0]["caller"] != "middle" {
		t.Errorf("events %v", told)
	}
}

// TestAnswerGoesToTheAgentThatAsked, and to nobody else: not the caller's own
// credential, nor another header, nor a task or context of another agent.
func TestAnswerGoesToTheAgentThatAsked(t *testing.T) {
	m := parleytest.Start(t, parleytest.Options{})
	ref, url := a2atest.Start(t, a2atest.Options{})
	other, otherURL := a2atest.Start(t, a2atest.Options{})
	m.Add(control.NewAgent{Name: "agent", URL: url})
	m.Add(control.NewAgent{Name: "other", URL: otherURL})
	key := m.Key("alice", "")
	for _, b := range bindings {
		for _, prefix := range []string{"ref-auth-required", "tck-input-required"} {
			c := m.Caller("agent", b, key).With("Cookie", "s=1").With("X-Secret", "s")
			asked := mustSend(t, c, parleytest.Message(fresh(prefix), "x"))
			turn := parleytest.Message(fresh("tck-complete-task"), "the answer")
			turn.Message.TaskID = asked.ID
			before := len(other.Seen())
			reply, _ := m.Caller("other", b, key).Do(t.Context(), a2a.SendMessage, turn)
			wantErr(t, "the answer to another agent", reply, a2a.ReasonTaskNotFound)
			if len(other.Seen()) != before {
				t.Errorf("%s: the answer reached another agent", b)
			}
			if got := mustSend(t, c, turn); got.ID != asked.ID || got.Status.State != a2a.StateCompleted {
				t.Errorf("%s: the answer led to %+v", b, got)
			}
			last := ref.Seen()[len(ref.Seen())-1]
			for _, name := range []string{"Authorization", "Cookie", "X-Secret", "X-Api-Key"} {
				if v := last.Header.Get(name); v != "" {
					t.Errorf("%s: the agent was sent %s: %s", b, name, v)
				}
			}
		}
	}
}
