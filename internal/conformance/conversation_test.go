package conformance

import (
	"errors"
	"io"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/parley-mesh/parley/internal/a2a"
	"github.com/parley-mesh/parley/internal/a2a/a2atest"
)

var conversationChecks = map[int]check{
	55: func(t *testing.T, w *world) {
		c := w.as(t, w.Alice)
		if id := text(c.task("tck-complete-task", nil), "contextId"); id == "" {
			t.Error("the task names no context")
		}
		if id := text(c.must("SendMessage", say("tck-message-response", nil)), "message", "contextId"); id == "" {
			t.Error("the message names no context")
		}
	},
	56: func(t *testing.T, w *world) {
		c, other := w.as(t, w.Alice), w.as(t, w.Bob)
		theirs := text(other.task("tck-complete-task", nil), "contextId")
		for _, id := range []string{strings.Repeat("x", 200), theirs} {
			a := c.call("SendMessage", say("tck-complete-task", obj{"contextId": id}))
			if a.fault == nil {
				t.Errorf("context %.20s…: got %s, want an error", id, a.body)
			}
		}
		mine := uuid.NewString()
		if got := text(c.task("tck-complete-task", obj{"contextId": mine}), "contextId"); got != mine {
			t.Errorf("the context %s became %s", mine, got)
		}
	},
	57: func(t *testing.T, w *world) {
		request := a2a.SendMessageRequest{Message: a2a.Message{MessageID: newMessageID("tck-complete-task"), Role: a2a.RoleUser, Parts: []a2a.Part{a2a.TextPart("hello")}}}
		if _, err := w.conn(t, w.Alice).SendMessage(t.Context(), request); err != nil {
			t.Fatal(err)
		}
		seen := w.Agent.Seen()
		i := slices.IndexFunc(seen, func(s a2atest.Seen) bool { return s.MessageID == request.Message.MessageID })
		if i < 0 || seen[i].ContextID != "" {
			t.Errorf("the agent saw %+v, want the message without a context", seen[max(i, 0)])
		}
	},
	58: func(t *testing.T, w *world) {
		c := w.as(t, w.Alice)
		ids, contextID := w.conversation(c, 3)
		got := taskIDs(c.must("ListTasks", obj{"contextId": contextID}))
		slices.Reverse(got)
		if !slices.Equal(got, ids) {
			t.Errorf("the context has tasks %v, want %v", got, ids)
		}
	},
	59: func(t *testing.T, w *world) {
		c := w.as(t, w.Alice)
		seen := map[string]bool{}
		for range 20 {
			id := text(c.task("tck-complete-task", nil), "id")
			if id == "" || seen[id] {
				t.Fatalf("task id %q is empty or was given before", id)
			}
			seen[id] = true
		}
	},
	60: func(t *testing.T, w *world) {
		c := w.as(t, w.Alice)
		first := c.task("tck-input-required", nil)
		again := c.task("tck-complete-task", obj{"taskId": text(first, "id")})
		if text(again, "contextId") != text(first, "contextId") || text(again, "id") != text(first, "id") {
			t.Errorf("the second turn is %s, want the task and context of the first: %s", encode(again), encode(first))
		}
	},
	61: func(t *testing.T, w *world) {
		c := w.as(t, w.Alice)
		id := text(c.task("tck-input-required", nil), "id")
		elsewhere := text(c.task("tck-complete-task", nil), "contextId")
		c.wantFault(c.call("SendMessage", say("tck-complete-task", obj{"taskId": id, "contextId": elsewhere})), "INVALID_PARAMS")
		wantState(t, c.must("GetTask", obj{"id": id}), a2a.StateInputRequired)
	},
	62: func(t *testing.T, w *world) {
		c, other := w.as(t, w.Alice), w.as(t, w.Bob)
		mine, theirs := text(c.task("tck-complete-task", nil), "id"), text(other.task("tck-complete-task", nil), "id")
		r := c.must("SendMessage", say("ref-recall", obj{"referenceTaskIds": []any{theirs, mine, uuid.NewString()}}))
		if got := texts(object(r, "message")); got != mine {
			t.Errorf("the agent knew of %q, want the caller's task %s alone", got, mine)
		}
	},
	63: func(t *testing.T, w *world) {
		s := w.as(t, w.Alice).open("SendStreamingMessage", say("ref-stream-100", nil))
		s.must("task")
		next := 0
		for _, event := range s.rest() {
			if a := object(event, "artifactUpdate", "artifact"); a != nil {
				if texts(a) != strconv.Itoa(next) {
					t.Fatalf("chunk %s came as number %d", texts(a), next)
				}
				if more := at(event, "artifactUpdate", "append") == true; more != (next > 0) {
					t.Errorf("chunk %d: append is %v", next, more)
				}
				next++
			}
		}
		if next != 100 {
			t.Errorf("%d chunks came, want 100", next)
		}
	},
	64: func(t *testing.T, w *world) {
		c := w.as(t, w.Alice)
		id, _ := c.held("ref-hold", nil)
		one, two := c.open("SubscribeToTask", obj{"id": id}), c.open("SubscribeToTask", obj{"id": id})
		one.must("task")
		two.must("task")
		for i := range 20 {
			w.produce(t, id, "a1", strconv.Itoa(i), i > 0)
		}
		w.drive(t, id, a2a.StateCompleted, "done")
		a, b := encode(one.rest()), encode(two.rest())
		if a != b || strings.Count(a, "artifactUpdate") != 20 {
			t.Errorf("one stream showed\n%s\nthe other\n%s", a, b)
		}
	},
	65: func(t *testing.T, w *world) {
		c := w.as(t, w.Alice)
		first := c.open("SendStreamingMessage", say("ref-hold", nil))
		id := text(first.must("task"), "id")
		first.must("statusUpdate") // to working: nothing is under way any more
		other := c.open("SubscribeToTask", obj{"id": id})
		other.must("task")
		first.close()
		w.produce(t, id, "a1", "later", false)
		if got := texts(object(other.must("artifactUpdate"), "artifact")); got != "later" {
			t.Errorf("the other stream showed %q", got)
		}
		wantState(t, c.must("GetTask", obj{"id": id}), a2a.StateWorking)
		w.drive(t, id, a2a.StateCompleted, "")
		other.rest()
	},
	66: func(t *testing.T, w *world) {
		before := len(w.Agent.Seen())
		w.everyCall(t)
		seen := w.Agent.Seen()
		if before == len(seen) && before < 256 {
			t.Fatal("the agent saw nothing")
		}
		for _, s := range seen[min(before, len(seen)-1):] {
			if got := s.Header.Values("A2A-Version"); !slices.Equal(got, []string{"1.0"}) {
				t.Errorf("%s came with versions %q, want 1.0", s.Method, got)
			}
		}
	},
	67: func(t *testing.T, w *world) {
		v := w.another(t, Variant{Strict: true})
		c := v.as(t, v.Alice).with("A2A-Version")
		c.wantFault(c.call("ListTasks", obj{}), "VERSION_NOT_SUPPORTED")
		c = c.with("A2A-Version", "")
		c.wantFault(c.call("ListTasks", obj{}), "VERSION_NOT_SUPPORTED")
		// In either mode what is plainly 0.3 is answered in its form.
		if w.grpc() {
			return // 0.3 has another service
		}
		for _, x := range []*world{v, w} {
			wantOld(t, x.as(t, x.Alice).with("A2A-Version"))
		}
	},
	68: func(t *testing.T, w *world) {
		c := w.as(t, w.Alice)
		c.must("ListTasks", obj{})
		if w.grpc() {
			return // there is no query
		}
		c = c.with("A2A-Version")
		verb, target, body := "POST", c.base+"/?A2A-Version=1.0", encode(obj{"jsonrpc": "2.0", "id": rpcID, "method": "ListTasks"})
		if !w.rpc() {
			verb, target, body = "GET", c.base+"/tasks?A2A-Version=1.0", ""
		}
		resp := c.raw(t.Context(), verb, target, "application/json", strings.NewReader(body))
		defer resp.Body.Close()
		if a := c.read("by query", resp); a.fault != nil {
			t.Errorf("version by query: %s", a.body)
		}
		wantOld(t, w.as(t, w.Alice).with("A2A-Version", "0.3"))
	},
	69: func(t *testing.T, w *world) {
		for _, version := range []string{"0.2", "0.2.6", "1.1", "2.0", "99.0", "1", "one"} {
			c := w.as(t, w.Alice).with("A2A-Version", version)
			c.wantFault(c.call("SendMessage", say("tck-complete-task", nil)), "VERSION_NOT_SUPPORTED")
		}
	},
	70: func(t *testing.T, w *world) {
		w.as(t, w.Alice).with("A2A-Version", "1.0.7").must("ListTasks", obj{})
		card := a2a.AgentCard{SupportedInterfaces: []a2a.AgentInterface{{URL: w.URL, ProtocolBinding: w.side.Caller, ProtocolVersion: "1.0.7"}}}
		if _, ok := card.SelectInterface(a2a.V10, w.side.Caller); !ok {
			t.Error("an interface of version 1.0.7 is not taken for 1.0")
		}
		id := newMessageID("tck-complete-task")
		m := message("", obj{"messageId": id})
		w.as(t, w.Alice).with("A2A-Version", "1.0.7").must("SendMessage", obj{"message": m})
		if !w.through() {
			return // what the harness sends is not the client's
		}
		for _, s := range w.Agent.Seen() {
			if s.MessageID == id && s.Header.Get("A2A-Version") != "1.0" {
				t.Errorf("the agent was sent version %q, want no patch number", s.Header.Get("A2A-Version"))
			}
		}
	},
	71: func(t *testing.T, w *world) {
		card := w.Agent.Card()
		for _, b := range []a2a.Binding{a2a.JSONRPC, a2a.HTTPJSON} {
			if got, ok := card.SelectInterface(a2a.V10, b); !ok || got.Binding != b || got.Version != a2a.V10 {
				t.Errorf("asked for %s at 1.0, got %+v, %v", b, got, ok)
			}
		}
		if got, ok := card.SelectInterface(a2a.V03); ok {
			t.Errorf("asked for 0.3, got %+v: there must be no silent choice of another version", got)
		}
	},
	72: func(t *testing.T, w *world) {
		c := w.as(t, w.Alice)
		for prefix, member := range map[string]string{"tck-artifact-text": "text", "tck-artifact-file": "raw", "tck-artifact-file-url": "url", "tck-artifact-data": "data"} {
			task := c.task(prefix, nil)
			artifacts := list(task, "artifacts")
			if len(artifacts) != 1 || list(artifacts[0], "parts")[0][member] == nil {
				t.Errorf("%s: artifacts %s, want one with %s", prefix, encode(artifacts), member)
			}
			if encode(list(c.must("GetTask", obj{"id": text(task, "id")}), "artifacts")) != encode(artifacts) {
				t.Errorf("%s: GetTask shows other artifacts", prefix)
			}
		}
	},
}

// everyCall uses the client under test for all operations: our own where it is
// reached directly, Parley's where that stands between.
func (w *world) everyCall(t *testing.T) {
	t.Helper()
	if w.through() {
		c := w.as(t, w.Alice)
		id, _ := c.held("ref-hold", nil)
		c.must("GetTask", obj{"id": id})
		c.must("ListTasks", obj{})
		c.open("SubscribeToTask", obj{"id": id}).must("task")
		c.must("CancelTask", obj{"id": id})
		c.open("SendStreamingMessage", say("tck-complete-task", nil)).rest()
		return
	}
	endpoint, ok := w.Agent.Card().SelectInterface(a2a.V10, w.side.Caller)
	if !ok {
		t.Fatal("the card has no interface for the client")
	}
	conn := w.conn(t, w.Alice)
	if w.grpc() {
		endpoint.URL = "http://" + endpoint.URL // the client must know that there is no TLS
	}
	conn.Endpoint = endpoint
	request := a2a.SendMessageRequest{Message: a2a.Message{MessageID: newMessageID("tck-input-required"), Role: a2a.RoleUser, Parts: []a2a.Part{a2a.TextPart("hello")}}}
	sent, err := conn.SendMessage(t.Context(), request)
	if err != nil {
		t.Fatal(err)
	}
	id := sent.Task.ID
	_, getErr := conn.GetTask(t.Context(), a2a.GetTaskRequest{ID: id})
	_, listErr := conn.ListTasks(t.Context(), a2a.ListTasksRequest{})
	events, subscribeErr := conn.SubscribeToTask(t.Context(), a2a.SubscribeToTaskRequest{ID: id})
	if err := errors.Join(getErr, listErr, subscribeErr); err != nil {
		t.Fatal(err)
	}
	events.Close()
	if _, err := conn.CancelTask(t.Context(), a2a.CancelTaskRequest{ID: id}); err != nil {
		t.Fatal(err)
	}
	request.Message.MessageID = newMessageID("tck-complete-task")
	if events, err = conn.SendStreamingMessage(t.Context(), request); err != nil {
		t.Fatal(err)
	}
	events.Close()
	var refused *a2a.Error
	if _, err := conn.ListPushConfigs(t.Context(), a2a.ListPushConfigsRequest{TaskID: id}); !errors.As(err, &refused) {
		t.Fatal(err)
	}
}

// wantOld sends a call of version 0.3, and wants its answer in that version's form.
func wantOld(t *testing.T, c *caller) {
	t.Helper()
	verb, target, body := "POST", c.base+"/", encode(obj{"jsonrpc": "2.0", "id": rpcID, "method": "message/send", "params": obj{
		"message": obj{"kind": "message", "messageId": newMessageID("tck-complete-task"), "role": "user", "parts": []obj{{"kind": "text", "text": "hi"}}}}})
	want := []string{`"kind":"task"`, `"state":"completed"`}
	if c.binding != a2a.JSONRPC {
		target, want = c.base+"/v1/message:send", []string{`"task":{`, `"content":[`}
		body = encode(obj{"message": obj{"messageId": newMessageID("tck-complete-task"), "role": "ROLE_USER", "content": []obj{{"text": "hi"}}}, "configuration": obj{"blocking": true}})
	}
	resp := c.raw(t.Context(), verb, target, "application/json", strings.NewReader(body))
	defer resp.Body.Close()
	got, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range want {
		if !strings.Contains(string(got), text) {
			t.Errorf("a call of version 0.3 was answered %s, want %s", got, text)
		}
	}
}
