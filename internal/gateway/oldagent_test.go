package gateway_test

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	old "github.com/a2aproject/a2a-go/a2a"
	sdk "github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/a2aproject/a2a-go/v2/a2acompat/a2av0"

	"github.com/parley-mesh/parley/internal/a2a"
	"github.com/parley-mesh/parley/internal/a2a/a2atest"
	"github.com/parley-mesh/parley/internal/control"
	"github.com/parley-mesh/parley/internal/parleytest"
)

// TestOldAgent: callers of 1.0 work through the mesh with an agent built on the
// official Go SDK of 0.3.
func TestOldAgent(t *testing.T) {
	m := parleytest.Start(t, parleytest.Options{})
	key := m.Key("alice", "")
	agent := a2atest.NewOldAgent(t)
	m.Add(control.NewAgent{Name: "old", URL: agent.URL})
	for _, binding := range bindings {
		t.Run(string(binding), func(t *testing.T) {
			c := m.Caller("old", binding, key)
			ctx := t.Context()
			reply, id := c.Do(ctx, a2a.SendMessage, parleytest.Message(fresh("m"), "message"))
			if reply.Facts.Kind != a2a.KindMessage {
				t.Errorf("send: got %s %v, want a message", reply.Result, reply.Err)
			}
			wantCall(t, m, id, "ok", "")
			if got := mustSend(t, c, parleytest.Message(fresh("m"), "hello")); got.Status.State != a2a.StateCompleted || len(got.Artifacts) != 1 {
				t.Errorf("send: got %+v, want a completed task", got)
			}
			asked := mustSend(t, c, parleytest.Message(fresh("m"), "ask"))
			if asked.Status.State != a2a.StateInputRequired {
				t.Errorf("got state %s, want a question", asked.Status.State)
			}
			turn := parleytest.Message(fresh("m"), "42")
			turn.Message.TaskID = asked.ID
			if got := mustSend(t, c, turn); got.ID != asked.ID || got.Status.State != a2a.StateCompleted {
				t.Errorf("the answer to the question gave task %s in state %s", got.ID, got.Status.State)
			}
			stream, err := c.SendStreamingMessage(ctx, parleytest.Message(fresh("m"), "flow"))
			if err != nil {
				t.Fatal(err)
			}
			if first, err := stream.Next(ctx); err != nil || first.Task == nil {
				t.Errorf("stream: the first event is %+v, %v; want the task", first, err)
			}
			if last, err := drain(ctx, stream); err != io.EOF || last == nil || last.StatusUpdate == nil || last.StatusUpdate.Status.State != a2a.StateCompleted {
				t.Errorf("stream: ended with %+v, %v", last, err)
			}
			wait := parleytest.Message(fresh("m"), "wait")
			wait.Configuration = &a2a.SendMessageConfiguration{ReturnImmediately: true}
			open := mustSend(t, c, wait)
			if got, err := c.CancelTask(ctx, a2a.CancelTaskRequest{ID: open.ID}); err != nil || got.Status.State != a2a.StateCanceled {
				t.Errorf("cancel: %+v, %v", got, err)
			}
			reply, _ = c.Do(ctx, a2a.SubscribeToTask, a2a.SubscribeToTaskRequest{ID: open.ID})
			wantErr(t, "subscribe to a task that has ended", reply, a2a.ReasonUnsupportedOperation)
			reply, id = c.Do(ctx, a2a.GetTask, a2a.GetTaskRequest{ID: "no-such-task"})
			wantErr(t, "get a task that is not there", reply, a2a.ReasonTaskNotFound)
			wantCall(t, m, id, "caller_error", "TASK_NOT_FOUND")
		})
	}
}

// TestOldCallerOldAgent: between two sides of 0.3 bodies pass as they are, with
// members that nobody knows.
func TestOldCallerOldAgent(t *testing.T) {
	m := parleytest.Start(t, parleytest.Options{})
	key := m.Key("alice", "")
	m.Add(control.NewAgent{Name: "old", URL: a2atest.NewOldAgent(t).URL})
	c := oldCaller(t, m.URL("old"), key)
	if got := oldTask(t, c, oldMessage(fresh("m"))); got.Status.State != old.TaskStateCompleted {
		t.Errorf("got %+v, want a completed task", got)
	}
	var events []old.Event
	for event, err := range c.SendStreamingMessage(t.Context(), oldMessage(fresh("m"))) {
		if err != nil {
			t.Fatal(err)
		}
		events = append(events, event)
	}
	wantFinal(t, "stream", events, old.TaskStateCompleted)

	const answer = `{ "jsonrpc":"2.0","id":"x/1", "result":{"kind":"task","x-new":[1.50],"id":"t-raw","contextId":"c-raw","status":{"state":"completed"}}}`
	seen := make(chan string, 1)
	agent := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		var call struct {
			ID     any
			Method string
		}
		switch {
		case r.URL.Path == a2a.CardPath:
			err = json.NewEncoder(w).Encode(old.AgentCard{Name: "raw", Description: "raw", Version: "1", ProtocolVersion: "0.3.0",
				URL: "http://" + r.Host + "/", PreferredTransport: old.TransportProtocolJSONRPC,
				DefaultInputModes: []string{"text/plain"}, DefaultOutputModes: []string{"text/plain"},
				Skills: []old.AgentSkill{{ID: "a", Name: "a", Description: "a", Tags: []string{"a"}}}})
		case json.Unmarshal(body, &call) == nil && call.Method == "message/send":
			seen <- string(body)
			_, err = io.WriteString(w, answer)
		default:
			err = json.NewEncoder(w).Encode(map[string]any{"jsonrpc": "2.0", "id": call.ID, "error": map[string]any{"code": -32001, "message": "task not found"}})
		}
		if err != nil {
			t.Error(err)
		}
	}))
	t.Cleanup(agent.Close)
	m.Add(control.NewAgent{Name: "raw", URL: agent.URL})
	body := `{"jsonrpc":"2.0", "id":"x/1","method":"message/send","params":{"later":{"a":1e2},"message":{"kind":"message","messageId":"` + fresh("m") + `","role":"user","parts":[{"kind":"text","text":"a"}]}}}`
	_, got := post(t, m.URL("raw"), key, body, map[string]string{a2a.HeaderVersion: "0.3"})
	if sent := <-seen; sent != body {
		t.Errorf("the agent was sent\n%s\nwant\n%s", sent, body)
	}
	if string(got) != answer {
		t.Errorf("the caller got\n%s\nwant\n%s", got, answer)
	}
	if last := m.Calls(control.CallFilter{})[0]; last.TaskID != "t-raw" || last.TaskState != string(a2a.StateCompleted) || last.ContextID != "c-raw" {
		t.Errorf("the record %+v does not tell of the task", last)
	}
}

// TestOldRESTCaller: a client of 0.3 over HTTP+JSON works through the mesh with
// agents of either version.
func TestOldRESTCaller(t *testing.T) {
	m := parleytest.Start(t, parleytest.Options{})
	key := m.Key("alice", "")
	_, url := a2atest.Start(t, a2atest.Options{})
	m.Add(control.NewAgent{Name: "new", URL: url})
	m.Add(control.NewAgent{Name: "old", URL: a2atest.NewOldAgent(t).URL})
	for _, name := range []string{"new", "old"} {
		t.Run(name, func(t *testing.T) {
			transport := &http.Transport{}
			t.Cleanup(transport.CloseIdleConnections)
			// The SDK joins its paths to an address without a slash at its end.
			c, err := a2av0.NewRESTTransport(a2av0.RESTTransportConfig{URL: strings.TrimSuffix(m.Ready.Listen+"/agents/"+name, "/"), Client: &http.Client{Transport: credentialed{key, transport}}})
			if err != nil {
				t.Fatal(err)
			}
			ctx := t.Context()
			in := sdk.NewMessage(sdk.MessageRoleUser, sdk.NewTextPart("hi"), sdk.NewDataPart([]any{1, "two"}), sdk.NewRawPart([]byte("bytes")))
			got, err := c.SendMessage(ctx, nil, &sdk.SendMessageRequest{Message: in})
			task, ok := got.(*sdk.Task)
			if err != nil || !ok || task.Status.State != sdk.TaskStateCompleted {
				t.Fatalf("send: %+v, %v", got, err)
			}
			if got, err := c.GetTask(ctx, nil, &sdk.GetTaskRequest{ID: task.ID}); err != nil || got.ID != task.ID || len(got.History) == 0 {
				t.Errorf("get: %+v, %v", got, err)
			}
			if list, err := c.ListTasks(ctx, nil, &sdk.ListTasksRequest{ContextID: task.ContextID}); err != nil || len(list.Tasks) != 1 {
				t.Errorf("list: %+v, %v", list, err)
			}
			var last sdk.Event
			for event, err := range c.SendStreamingMessage(ctx, nil, &sdk.SendMessageRequest{Message: sdk.NewMessage(sdk.MessageRoleUser, sdk.NewTextPart("hi"))}) {
				if err != nil {
					t.Fatalf("stream: %v", err)
				}
				last = event
			}
			if s, ok := last.(*sdk.TaskStatusUpdateEvent); !ok || s.Status.State != sdk.TaskStateCompleted {
				t.Errorf("stream: ended with %+v", last)
			}
			if _, err := c.GetTask(ctx, nil, &sdk.GetTaskRequest{ID: "nobody"}); err == nil || !strings.Contains(err.Error(), "no such task") {
				t.Errorf("get a task that is not there: %v", err)
			}
		})
	}
}
