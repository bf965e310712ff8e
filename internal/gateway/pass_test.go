package gateway_test

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/parley-mesh/parley/internal/a2a"
	"github.com/parley-mesh/parley/internal/a2a/a2atest"
	"github.com/parley-mesh/parley/internal/control"
	"github.com/parley-mesh/parley/internal/parley"
	"github.com/parley-mesh/parley/internal/parleytest"
)

// TestEveryOperation goes through the operations in all pairings of the
// caller's and the agent's binding.
func TestEveryOperation(t *testing.T) {
	m := parleytest.Start(t, parleytest.Options{})
	key := m.Key("alice", "")
	for i, behind := range bindings {
		ref, url := a2atest.Start(t, a2atest.Options{Bindings: []a2a.Binding{behind}})
		name := []parley.AgentName{"rpc", "rest", "grpc"}[i]
		m.Add(control.NewAgent{Name: name, URL: url})
		for _, binding := range bindings {
			t.Run(string(binding)+" to "+string(behind), func(t *testing.T) {
				everyOperation(t, m, ref, m.Caller(name, binding, key))
			})
		}
	}
}

func everyOperation(t *testing.T, m *parleytest.Mesh, ref *a2atest.Agent, c *parleytest.Caller) {
	ctx := t.Context()
	reply, id := c.Do(ctx, a2a.SendMessage, parleytest.Message(fresh("tck-message-response"), "hi"))
	if reply.Facts.Kind != a2a.KindMessage {
		t.Errorf("send: got %s %v, want a message", reply.Result, reply.Err)
	}
	wantCall(t, m, id, "ok", "")

	reply, id = c.Do(ctx, a2a.SendMessage, parleytest.Message(fresh("tck-complete"), "hi"))
	if reply.Facts.State != a2a.StateCompleted {
		t.Errorf("send: got %s %v, want a completed task", reply.Result, reply.Err)
	}
	if got := wantCall(t, m, id, "ok", ""); got.TaskID != reply.Facts.TaskID || got.TaskState != string(a2a.StateCompleted) || got.AgentBinding == "" {
		t.Errorf("the record %+v does not tell of task %s", got, reply.Facts.TaskID)
	}
	done := reply.Facts.TaskID

	asked := mustSend(t, c, parleytest.Message(fresh("tck-input-required"), "hi"))
	if asked.Status.State != a2a.StateInputRequired {
		t.Errorf("got state %s, want a question", asked.Status.State)
	}
	turn := parleytest.Message(fresh("tck-complete"), "42")
	turn.Message.TaskID = asked.ID
	if got := mustSend(t, c, turn); got.ID != asked.ID || got.Status.State != a2a.StateCompleted {
		t.Errorf("the answer to the question gave task %s in state %s", got.ID, got.Status.State)
	}

	held := parleytest.Message(fresh("ref-hold"), "hi")
	held.Configuration = &a2a.SendMessageConfiguration{ReturnImmediately: true}
	open := mustSend(t, c, held)
	stream, err := c.SubscribeToTask(ctx, a2a.SubscribeToTaskRequest{ID: open.ID})
	if err != nil {
		t.Fatal(err)
	}
	defer stream.Close()
	if first, err := stream.Next(ctx); err != nil || first.Task == nil || first.Task.ID != open.ID {
		t.Errorf("subscribe: the first event is %+v, %v; want the task", first, err)
	}
	if got, err := c.GetTask(ctx, a2a.GetTaskRequest{ID: open.ID}); err != nil || got.Status.State != a2a.StateWorking {
		t.Errorf("get: %+v, %v", got, err)
	}
	if got, err := c.CancelTask(ctx, a2a.CancelTaskRequest{ID: open.ID}); err != nil || got.Status.State != a2a.StateCanceled {
		t.Errorf("cancel: %+v, %v", got, err)
	}
	if last, err := drain(ctx, stream); err != io.EOF || last == nil || last.StatusUpdate == nil || last.StatusUpdate.Status.State != a2a.StateCanceled {
		t.Errorf("subscribe: ended with %+v, %v; want the cancellation", last, err)
	}

	list, err := c.ListTasks(ctx, a2a.ListTasksRequest{ContextID: open.ContextID})
	if err != nil || len(list.Tasks) != 1 || list.Tasks[0].ID != open.ID || list.Tasks[0].Status.State != a2a.StateCanceled {
		t.Errorf("list: %+v, %v; want the canceled task", list, err)
	}

	reply, id = c.Do(ctx, a2a.CancelTask, a2a.CancelTaskRequest{ID: done})
	wantErr(t, "cancel a final task", reply, a2a.ReasonTaskNotCancelable)
	wantCall(t, m, id, "agent_error", "TASK_NOT_CANCELABLE")
	reply, id = c.Do(ctx, a2a.GetTask, a2a.GetTaskRequest{ID: "no-such-task"})
	wantErr(t, "get a task that is not there", reply, a2a.ReasonTaskNotFound)
	wantCall(t, m, id, "caller_error", "TASK_NOT_FOUND")
	reply, _ = c.Do(ctx, a2a.GetExtendedCard, a2a.GetExtendedCardRequest{})
	wantErr(t, "extended card", reply, a2a.ReasonUnsupportedOperation)
}

func mustSend(t *testing.T, c *parleytest.Caller, in a2a.SendMessageRequest) *a2a.Task {
	t.Helper()
	out, err := c.SendMessage(t.Context(), in)
	if err != nil || out.Task == nil {
		t.Fatalf("send %s: %+v, %v; want a task", in.Message.MessageID, out, err)
	}
	return out.Task
}

// drain reads a stream to its end and gives the last event.
func drain(ctx context.Context, s *a2a.EventStream) (last *a2a.StreamResponse, err error) {
	for {
		next, err := s.Next(ctx)
		if err != nil {
			return last, err
		}
		last = next
	}
}

// post sends bytes as they are and gives the answer's headers and bytes.
func post(t *testing.T, url, key, body string, header map[string]string) (http.Header, []byte) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set(a2a.HeaderVersion, "1.0")
	if key != "" {
		req.Header.Set("Authorization", "Bearer "+key)
	}
	for name, value := range header {
		req.Header.Set(name, value)
	}
	resp, err := http.DefaultTransport.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.Header, raw
}

// oddMessage has unknown members, spacing, numbers and escapes that a decoder
// would not keep.
const oddMessage = `{ "message" : {"messageId":"odd-%d", "role":"ROLE_USER","parts":[ {"text":"a\u0062c \/ \ud83d\ude00", "x-part": 1.0e+2} ],` +
	"\n\t" + `"metadata":{"https://ext.example.com/a":{"n":12345678901234567890.1234500,"z":-0.0}},"x-message":null}, "metadata":{ "k" : [1 , 2,3 ] },"x-params":{"a":{}} }`

// TestSameBindingPassesBytes: where caller and agent speak the same binding,
// neither request nor answer changes by a byte.
func TestSameBindingPassesBytes(t *testing.T) {
	const answer = `{"jsonrpc" : "2.0","id" : "id-1" , "result":{"message":{"messageId":"a1","role":"ROLE_AGENT", "parts":[{"text":"\u00e9", "n":1.50}],"x":{"y":1e3}}} }` + "\n"
	const restAnswer = `{ "message" :{"messageId":"a1","role":"ROLE_AGENT", "parts":[{"text":"\u00e9", "n":1.50}],"x":{"y":1e3}}}` + "\n"
	params := strings.Replace(oddMessage, "%d", "1", 1)
	for _, tc := range []struct {
		binding      a2a.Binding
		path         string
		body, answer string
		media        string
	}{
		{a2a.JSONRPC, "", `{"method":"SendMessage" ,"id":"id-1","jsonrpc":"2.0", "params" : ` + params + `}`, answer, "application/json"},
		{a2a.HTTPJSON, "message:send", params, restAnswer, "application/a2a+json"},
	} {
		t.Run(string(tc.binding), func(t *testing.T) {
			m := parleytest.Start(t, parleytest.Options{})
			agent := parleytest.NewAgent(t, tc.binding)
			card := parleytest.Card(agent.URL, tc.binding)
			card.Capabilities.Extensions = []a2a.AgentExtension{{URI: "https://ext.example.com/a"}, {URI: "https://ext.example.com/b"}}
			agent.SetCard(card)
			m.Add(control.NewAgent{Name: "agent", URL: agent.URL})
			key := m.Key("alice", "")
			var got bytes.Buffer
			agent.Serve(func(w http.ResponseWriter, r *http.Request) {
				_, _ = got.ReadFrom(r.Body)
				w.Header().Set("Content-Type", tc.media)
				w.Header().Set(a2a.HeaderExtensions, "https://ext.example.com/a")
				_, _ = io.WriteString(w, tc.answer)
			})
			headers, raw := post(t, m.URL("agent")+tc.path, key, tc.body, map[string]string{
				a2a.HeaderExtensions: "https://ext.example.com/a, https://ext.example.com/b", "Content-Type": tc.media,
			})
			if got.String() != tc.body {
				t.Errorf("the agent got\n%s\nwant\n%s", &got, tc.body)
			}
			if string(raw) != tc.answer {
				t.Errorf("the caller got\n%s\nwant\n%s", raw, tc.answer)
			}
			if e := headers.Get(a2a.HeaderExtensions); e != "https://ext.example.com/a" {
				t.Errorf("the answer activates %q", e)
			}
			seen := agent.Last().Header
			if e := seen.Get(a2a.HeaderExtensions); e != "https://ext.example.com/a, https://ext.example.com/b" {
				t.Errorf("the agent was asked for the extensions %q", e)
			}
			if seen.Get("Authorization") != "" || seen.Get("X-Api-Key") != "" {
				t.Error("the caller's credential reached the agent")
			}
		})
	}
}

// TestOtherBindingKeepsContent: translation changes the envelope alone.
func TestOtherBindingKeepsContent(t *testing.T) {
	params := strings.Replace(oddMessage, "%d", "2", 1)
	const result = `{"message":{"messageId":"a1","role":"ROLE_AGENT", "parts":[{"text":"\u00e9", "n":1.50}],"x":{"y":1e3}}}`
	t.Run("REST to JSONRPC", func(t *testing.T) {
		m, agent := start(t, nil, a2a.JSONRPC)
		var got bytes.Buffer
		agent.Serve(func(w http.ResponseWriter, r *http.Request) {
			_, _ = got.ReadFrom(r.Body)
			w.Header().Set("Content-Type", "application/json")
			_, _ = io.WriteString(w, `{"jsonrpc":"2.0","id":1,"result":`+result+`}`)
		})
		_, raw := post(t, m.URL("agent")+"message:send", m.Key("alice", ""), params, nil)
		if !strings.Contains(got.String(), params) {
			t.Errorf("the agent got\n%s\nwhich does not hold\n%s", &got, params)
		}
		if string(raw) != result {
			t.Errorf("the caller got\n%s\nwant\n%s", raw, result)
		}
	})
	t.Run("JSONRPC to REST", func(t *testing.T) {
		m, agent := start(t, nil, a2a.HTTPJSON)
		var got bytes.Buffer
		agent.Serve(func(w http.ResponseWriter, r *http.Request) {
			_, _ = got.ReadFrom(r.Body)
			w.Header().Set("Content-Type", "application/a2a+json")
			_, _ = io.WriteString(w, result)
		})
		_, raw := post(t, m.URL("agent"), m.Key("alice", ""), `{"jsonrpc":"2.0","id":7.0,"method":"SendMessage","params":`+params+`}`, nil)
		if got.String() != params {
			t.Errorf("the agent got\n%s\nwant\n%s", &got, params)
		}
		if want := `{"jsonrpc":"2.0","id":7.0,"result":` + result + `}`; string(raw) != want {
			t.Errorf("the caller got\n%s\nwant\n%s", raw, want)
		}
	})
}

// TestStreamFramesPassAsTheyCome: each frame reaches the caller before the
// agent makes the next, and by the same binding byte for byte.
func TestStreamFramesPassAsTheyCome(t *testing.T) {
	m, agent := start(t, nil, a2a.HTTPJSON)
	frames := []string{
		`{"task":{"id":"t-bytes","contextId":"c-bytes","status":{"state":"TASK_STATE_WORKING"}, "x": 1.0}}`,
		`{"artifactUpdate" : {"taskId":"t-bytes","contextId":"c-bytes","artifact":{"artifactId":"a","parts":[{"text":"\u0061"}]}}}`,
		`{"statusUpdate":{"taskId":"t-bytes","contextId":"c-bytes","status":{"state":"TASK_STATE_COMPLETED"},"final":true}}`,
	}
	next := make(chan string)
	agent.Serve(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		w.WriteHeader(http.StatusOK)
		for f := range next {
			_, _ = io.WriteString(w, "data: "+f+"\n\n")
			w.(http.Flusher).Flush()
		}
	})
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, m.URL("agent")+"message:stream",
		strings.NewReader(`{"message":{"messageId":"m","role":"ROLE_USER","parts":[{"text":"x"}]}}`))
	if err != nil {
		t.Fatal(err)
	}
	req.Header = http.Header{"Authorization": {"Bearer " + m.Key("alice", "")}, "Content-Type": {"application/a2a+json"}, "A2a-Version": {"1.0"}}
	go func() { next <- frames[0] }()
	resp, err := http.DefaultTransport.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	lines := bufio.NewReader(resp.Body)
	for i, f := range frames {
		if got := readEvent(t, lines); got != f {
			t.Errorf("frame %d reads\n%s\nwant\n%s", i, got, f)
		}
		if i+1 < len(frames) {
			next <- frames[i+1]
		}
	}
	close(next)
	if rest, err := io.ReadAll(lines); err != nil || strings.Contains(string(rest), "data:") {
		t.Errorf("after the last frame came %q, %v", rest, err)
	}
	wantCall(t, m, resp.Header.Get("Parley-Call-Id"), "ok", "")
}

// readEvent reads the data of the next event, comments left out.
func readEvent(t *testing.T, r *bufio.Reader) string {
	t.Helper()
	for {
		line, err := r.ReadString('\n')
		if err != nil {
			t.Fatalf("the stream ended: %v", err)
		}
		if data, ok := strings.CutPrefix(line, "data: "); ok {
			return strings.TrimSuffix(data, "\n")
		}
	}
}
