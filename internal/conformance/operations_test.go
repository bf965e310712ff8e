package conformance

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/parley-mesh/parley/internal/a2a"
)

var operationChecks = map[int]check{
	1: func(t *testing.T, w *world) {
		c := w.as(t, w.Alice)
		for prefix, want := range map[string]string{"tck-complete-task": "task", "tck-message-response": "message"} {
			r := c.must("SendMessage", say(prefix, nil))
			if len(r) != 1 || object(r, want) == nil {
				t.Errorf("%s: got %s, want a %s alone", prefix, encode(r), want)
			}
		}
	},
	2: func(t *testing.T, w *world) {
		c := w.as(t, w.Alice)
		for _, s := range ended {
			c.wantFault(c.call("SendMessage", say("tck-complete-task", obj{"taskId": w.endedTask(c, s)})), "UNSUPPORTED_OPERATION")
		}
	},
	3: func(t *testing.T, w *world) {
		c := w.as(t, w.Alice)
		part := obj{"raw": "AAEC", "mediaType": "application/x-unheard-of"}
		c.wantFault(c.call("SendMessage", say("tck-complete-task", obj{"parts": []any{part}})), "CONTENT_TYPE_NOT_SUPPORTED")
		c.wantFault(c.faults("SendStreamingMessage", say("tck-complete-task", obj{"parts": []any{part}})), "CONTENT_TYPE_NOT_SUPPORTED")
		c.task("tck-complete-task", obj{"parts": []any{obj{"text": "{}", "mediaType": "application/json"}}})
	},
	4: func(t *testing.T, w *world) {
		c, other := w.as(t, w.Alice), w.as(t, w.Bob)
		id, _ := c.held("ref-hold", nil)
		c.wantFault(c.call("SendMessage", say("tck-complete-task", obj{"taskId": uuid.NewString()})), "TASK_NOT_FOUND")
		other.wantFault(other.call("SendMessage", say("tck-complete-task", obj{"taskId": id})), "TASK_NOT_FOUND")
		if n := len(w.Agent.Task(id).History); n != 1 {
			t.Errorf("the task has %d messages, want 1: another's message came through", n)
		}
	},
	5: func(t *testing.T, w *world) {
		s := w.as(t, w.Alice).open("SendStreamingMessage", say("ref-hold", nil))
		id := text(s.must("task"), "id")
		for state(s.must("statusUpdate")) != string(a2a.StateWorking) {
		}
		w.produce(t, id, "a1", "early", false)
		if got := texts(object(s.must("artifactUpdate"), "artifact")); got != "early" {
			t.Errorf("artifact %q, want early", got)
		}
		// Only now the task goes on: what was read before was read live.
		w.drive(t, id, a2a.StateCompleted, "")
		s.rest()
	},
	6: func(t *testing.T, w *world) {
		s := w.as(t, w.Alice).open("SendStreamingMessage", say("tck-message-response", nil))
		s.must("message")
		if more := s.rest(); len(more) > 0 {
			t.Errorf("after the message came %s", encode(more))
		}
	},
	7: func(t *testing.T, w *world) {
		c := w.as(t, w.Alice)
		s := c.open("SendStreamingMessage", say("tck-input-required", nil))
		id := text(s.must("task"), "id")
		s.rest()
		again := c.open("SendStreamingMessage", say("tck-complete-task", obj{"taskId": id}))
		if got := text(again.must("task"), "id"); got != id {
			t.Errorf("the second turn began with task %s, want %s", got, id)
		}
	},
	8: func(t *testing.T, w *world) {
		c := w.as(t, w.Alice)
		for _, end := range ended {
			s := c.open("SendStreamingMessage", say("ref-hold", nil))
			w.end(c, text(s.must("task"), "id"), end)
			events := s.rest()
			if got := text(events[len(events)-1], "statusUpdate", "status", "state"); got != string(end) {
				t.Errorf("the stream ended on %q, want %s", got, end)
			}
		}
	},
	9: func(t *testing.T, w *world) {
		c := w.as(t, w.Alice)
		for _, s := range ended {
			c.wantFault(c.faults("SendStreamingMessage", say("tck-complete-task", obj{"taskId": w.endedTask(c, s)})), "UNSUPPORTED_OPERATION")
		}
	},
	10: func(t *testing.T, w *world) {
		c, other := w.as(t, w.Alice), w.as(t, w.Bob)
		id, unknown := text(c.task("tck-complete-task", nil), "id"), uuid.NewString()
		foreign, missing := other.call("GetTask", obj{"id": id}), other.call("GetTask", obj{"id": unknown})
		other.wantFault(foreign, "TASK_NOT_FOUND")
		if a, b := strings.ReplaceAll(string(foreign.body), id, "ID"), strings.ReplaceAll(string(missing.body), unknown, "ID"); a != b {
			t.Errorf("another's task answers\n%s\nan unknown one\n%s", a, b)
		}
		if got := text(c.must("GetTask", obj{"id": id}), "id"); got != id {
			t.Errorf("the owner got task %q, want %s", got, id)
		}
	},
	11: func(t *testing.T, w *world) {
		c, other := w.as(t, w.Alice), w.as(t, w.Bob)
		mine := c.task("tck-complete-task", nil)
		theirs := other.task("tck-complete-task", nil)
		for _, params := range []obj{{}, {"contextId": text(theirs, "contextId")}, {"status": "TASK_STATE_COMPLETED"}, {"contextId": text(mine, "contextId")}} {
			ids := taskIDs(c.must("ListTasks", params))
			if slices.Contains(ids, text(theirs, "id")) {
				t.Errorf("ListTasks %s shows another's task", encode(params))
			}
			if slices.Contains(ids, text(mine, "id")) == (params["contextId"] == text(theirs, "contextId")) {
				t.Errorf("ListTasks %s: %v, own task %s", encode(params), ids, text(mine, "id"))
			}
		}
	},
	12: func(t *testing.T, w *world) {
		c := w.as(t, w.Alice)
		want, contextID := w.conversation(c, 5)
		var got []string
		for params, pages := (obj{"contextId": contextID, "pageSize": 2}), 0; ; pages++ {
			r := c.must("ListTasks", params)
			got = append(got, taskIDs(r)...)
			if number(r, "totalSize") != 5 || len(taskIDs(r)) > 2 {
				t.Errorf("page %s, want at most 2 of 5 tasks", encode(r))
			}
			token := text(r, "nextPageToken")
			if token == "" {
				break
			}
			if pages > 10 {
				t.Fatal("the walk does not end")
			}
			params["pageToken"] = token
		}
		slices.Sort(got)
		slices.Sort(want)
		if !slices.Equal(got, want) {
			t.Errorf("pages hold %v, want each once of %v", got, want)
		}
		c.wantFault(c.call("ListTasks", obj{"pageToken": "bm90LWEtdG9rZW4"}), "INVALID_PARAMS")
	},
	13: func(t *testing.T, w *world) {
		c := w.as(t, w.Alice)
		first, contextID := c.held("ref-hold", nil)
		second, _ := c.held("ref-hold", obj{"contextId": contextID})
		w.drive(t, first, a2a.StateWorking, "again") // now the older task has the newer status
		if got := taskIDs(c.must("ListTasks", obj{"contextId": contextID})); !slices.Equal(got, []string{first, second}) {
			t.Errorf("order %v, want the task that changed last first: %v", got, []string{first, second})
		}
	},
	14: func(t *testing.T, w *world) {
		c := w.as(t, w.Alice)
		_, contextID := w.conversation(c, 2)
		for size, last := range map[int]bool{1: false, 2: true, 50: true} {
			r := c.must("ListTasks", obj{"contextId": contextID, "pageSize": size})
			token, ok := r["nextPageToken"].(string)
			// A page may be the last without knowing it; the next one is then empty.
			if ok && token != "" && last {
				r = c.must("ListTasks", obj{"contextId": contextID, "pageSize": size, "pageToken": token})
				token, ok = r["nextPageToken"].(string)
			}
			if !ok || last != (token == "") {
				t.Errorf("page of %d: nextPageToken %v, want empty: %v", size, r["nextPageToken"], last)
			}
		}
	},
	15: func(t *testing.T, w *world) {
		c := w.as(t, w.Alice)
		_, contextID := w.conversation(c, 2)
		for _, params := range []obj{{"contextId": contextID}, {"contextId": contextID, "includeArtifacts": false}} {
			for _, task := range list(c.must("ListTasks", params), "tasks") {
				if v, ok := task["artifacts"]; ok {
					t.Errorf("ListTasks %s: artifacts is %v, want no such member", encode(params), v)
				}
			}
		}
	},
	16: func(t *testing.T, w *world) {
		c := w.as(t, w.Alice)
		_, contextID := w.conversation(c, 1)
		tasks := list(c.must("ListTasks", obj{"contextId": contextID, "includeArtifacts": true}), "tasks")
		if len(tasks) != 1 || len(list(tasks[0], "artifacts")) != 1 || texts(list(tasks[0], "artifacts")[0]) != "hello" {
			t.Errorf("got %s, want one task with its artifact", encode(tasks))
		}
	},
	17: func(t *testing.T, w *world) {
		c := w.as(t, w.Alice)
		_, contextID := w.conversation(c, 1)
		for _, id := range []string{contextID, uuid.NewString()} {
			r := c.must("ListTasks", obj{"contextId": id})
			_, isList := r["tasks"].([]any)
			for _, name := range []string{"nextPageToken", "pageSize", "totalSize"} {
				isList = isList && r[name] != nil
			}
			if !isList {
				t.Errorf("got %s, want all four members", encode(r))
			}
		}
	},
	18: func(t *testing.T, w *world) {
		c := w.as(t, w.Alice)
		for _, size := range []int{0, -1, 101} {
			if size == 0 && w.grpc() {
				continue // the official Go client writes it into every request
			}
			a := c.call("ListTasks", obj{"pageSize": size})
			c.wantFault(a, "INVALID_PARAMS")
			if a.fault != nil && a.fault.fields()["pageSize"] == "" {
				t.Errorf("pageSize %d: the error does not name the field: %s", size, a.body)
			}
		}
		for _, params := range []obj{{}, {"pageSize": 1}, {"pageSize": 100}} {
			want := 50.0
			if n, ok := params["pageSize"].(int); ok {
				want = float64(n)
			}
			if r := c.must("ListTasks", params); number(r, "pageSize") != want || len(list(r, "tasks")) > int(want) {
				t.Errorf("ListTasks %s: pageSize %v with %d tasks, want %v", encode(params), r["pageSize"], len(list(r, "tasks")), want)
			}
		}
	},
	19: func(t *testing.T, w *world) {
		c := w.as(t, w.Alice)
		task := c.task("tck-complete-task", nil)
		at, err := time.Parse(time.RFC3339Nano, text(task, "status", "timestamp"))
		if err != nil {
			t.Fatal(err)
		}
		for shift, want := range map[time.Duration]int{-time.Millisecond: 1, 0: 1, time.Millisecond: 0} {
			when := at.Add(shift).UTC().Format("2006-01-02T15:04:05.000Z")
			if got := taskIDs(c.must("ListTasks", obj{"contextId": text(task, "contextId"), "statusTimestampAfter": when})); len(got) != want {
				t.Errorf("after %s: %d tasks, want %d for a status of %s", when, len(got), want, text(task, "status", "timestamp"))
			}
		}
	},
	20: func(t *testing.T, w *world) {
		c := w.as(t, w.Alice)
		id, _ := c.held("ref-hold", nil)
		task := c.must("CancelTask", obj{"id": id})
		wantState(t, task, a2a.StateCanceled)
		if text(task, "id") != id {
			t.Errorf("got task %s, want %s", text(task, "id"), id)
		}
		for _, s := range []a2a.TaskState{a2a.StateCompleted, a2a.StateFailed, a2a.StateRejected} {
			c.wantFault(c.call("CancelTask", obj{"id": w.endedTask(c, s)}), "TASK_NOT_CANCELABLE")
		}
	},
	21: func(t *testing.T, w *world) {
		c := w.as(t, w.Alice)
		c.wantFault(c.call("CancelTask", obj{"id": uuid.NewString()}), "TASK_NOT_FOUND")
	},
	22: func(t *testing.T, w *world) {
		c := w.as(t, w.Alice)
		id, _ := c.held("ref-hold", nil)
		w.produce(t, id, "a1", "one", false)
		s := c.open("SubscribeToTask", obj{"id": id})
		task := s.must("task")
		wantState(t, task, a2a.StateWorking)
		if got := list(task, "artifacts"); len(got) != 1 || texts(got[0]) != "one" {
			t.Errorf("the first frame has artifacts %s, want what there is", encode(got))
		}
		w.produce(t, id, "a1", "two", true)
		w.produce(t, id, "a1", "three", true)
		w.drive(t, id, a2a.StateCompleted, "")
		var after []string
		for _, event := range s.rest() {
			after = append(after, texts(object(event, "artifactUpdate", "artifact")))
		}
		if got := strings.Join(after, " "); got != "two three " {
			t.Errorf("after the task came %q, want both parts and the end", got)
		}
	},
	23: func(t *testing.T, w *world) {
		c := w.as(t, w.Alice)
		for _, end := range ended {
			id, _ := c.held("ref-hold", nil)
			s := c.open("SubscribeToTask", obj{"id": id})
			s.must("task")
			w.end(c, id, end)
			events := s.rest()
			if got := text(events[len(events)-1], "statusUpdate", "status", "state"); got != string(end) {
				t.Errorf("the subscription ended on %q, want %s", got, end)
			}
		}
	},
	24: func(t *testing.T, w *world) {
		c := w.as(t, w.Alice)
		for _, s := range ended {
			c.wantFault(c.faults("SubscribeToTask", obj{"id": w.endedTask(c, s)}), "UNSUPPORTED_OPERATION")
		}
		c.wantFault(c.faults("SubscribeToTask", obj{"id": uuid.NewString()}), "TASK_NOT_FOUND")
	},
	25: func(t *testing.T, w *world) {
		c := w.as(t, w.Alice)
		for prefix, want := range map[string]a2a.TaskState{"ref-submit": a2a.StateSubmitted, "ref-hold": a2a.StateWorking,
			"tck-input-required": a2a.StateInputRequired, "ref-auth-required": a2a.StateAuthRequired} {
			id, _ := c.held(prefix, nil)
			s := c.open("SubscribeToTask", obj{"id": id})
			wantState(t, s.must("task"), want)
			// The stream is still there when the task goes on.
			w.drive(t, id, a2a.StateCompleted, "")
			if got := state(s.must("statusUpdate")); got != string(a2a.StateCompleted) {
				t.Errorf("%s: the stream showed %s, want the end", prefix, got)
			}
		}
	},
	30: func(t *testing.T, w *world) {
		v := w.another(t, Variant{Agent: servedExtended()})
		conn := v.conn(t, v.Alice)
		card, err := conn.GetExtendedCard(t.Context())
		if err != nil || len(card.Skills) != 2 {
			t.Fatalf("got %+v, %v, want the card with its second skill", card, err)
		}
		if scheme := v.Agent.Card().SecuritySchemes["bearer"]; scheme.HTTPAuth == nil {
			t.Errorf("the card declares %+v, want the scheme the client used", scheme)
		}
		seen := v.Agent.Seen()
		want := v.Alice
		if w.through() {
			want = "Bearer " + agentToken
		}
		if got := seen[len(seen)-1].Header.Get("Authorization"); got != want {
			t.Errorf("the request carried the credential %q, want %q", got, want)
		}
	},
	31: func(t *testing.T, w *world) {
		opt := servedExtended()
		opt.Reserved = []a2a.AgentExtension{{URI: extension}}
		v := w.another(t, Variant{Agent: opt})
		c := v.as(t, v.Alice).with("A2A-Extensions", extension)
		send := func() string {
			return c.call("SendMessage", say("tck-complete-task", nil)).header.Get("A2A-Extensions")
		}
		if got := send(); got != "" {
			t.Errorf("by the public card the extension %q is active", got)
		}
		c.must("GetExtendedAgentCard", obj{})
		if got := send(); got != extension {
			t.Errorf("by the extended card %q is active, want %s", got, extension)
		}
	},
}

// taskIDs are the ids of a list of tasks, in its order.
func taskIDs(r obj) []string {
	ids := []string{}
	for _, task := range list(r, "tasks") {
		ids = append(ids, text(task, "id"))
	}
	return ids
}

// conversation makes n completed tasks in a context of their own.
func (w *world) conversation(c *caller, n int) (ids []string, contextID string) {
	c.t.Helper()
	first := c.task("tck-artifact-text", nil)
	ids, contextID = []string{text(first, "id")}, text(first, "contextId")
	for range n - 1 {
		ids = append(ids, text(c.task("tck-artifact-text", obj{"contextId": contextID}), "id"))
	}
	return ids, contextID
}

// end brings a task into an end state: by its caller where that is canceled.
func (w *world) end(c *caller, id string, s a2a.TaskState) {
	c.t.Helper()
	if s == a2a.StateCanceled {
		c.must("CancelTask", obj{"id": id})
		return
	}
	w.drive(c.t, id, s, fmt.Sprintf("ends as %s", s))
}

// sameBut compares two answers in which one id differs.
func sameBut(a, b []byte, idA, idB string) bool {
	return bytes.Equal(bytes.ReplaceAll(a, []byte(idA), nil), bytes.ReplaceAll(b, []byte(idB), nil))
}
