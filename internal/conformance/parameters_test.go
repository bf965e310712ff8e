package conformance

import (
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/parley-mesh/parley/internal/a2a"
	"github.com/parley-mesh/parley/internal/a2a/a2atest"
)

// The extension of the variants that declare one.
const (
	extension   = "https://ext.example.com/shout/v1"
	extensionV2 = "https://ext.example.com/shout/v2"
)

func withExtension(required bool) a2atest.Options {
	return a2atest.Options{Extensions: []a2a.AgentExtension{{URI: extension, Required: required}}}
}

func servedExtended() a2atest.Options { return a2atest.Options{Extended: a2atest.ExtendedServed} }

// everyOperation is one well-formed request for each operation. The task and the
// context are ids to put in.
func everyOperation(taskID string) map[string]obj {
	return map[string]obj{
		"SendMessage":                      say("tck-complete-task", obj{"taskId": taskID}),
		"SendStreamingMessage":             say("tck-complete-task", obj{"taskId": taskID}),
		"GetTask":                          {"id": taskID},
		"ListTasks":                        {},
		"CancelTask":                       {"id": taskID},
		"SubscribeToTask":                  {"id": taskID},
		"CreateTaskPushNotificationConfig": {"taskId": taskID, "url": "https://hooks.example.com/x"},
		"GetTaskPushNotificationConfig":    {"taskId": taskID, "id": "p1"},
		"ListTaskPushNotificationConfigs":  {"taskId": taskID},
		"DeleteTaskPushNotificationConfig": {"taskId": taskID, "id": "p1"},
		"GetExtendedAgentCard":             {},
	}
}

// invalid are requests that must be refused, by the field that is wrong.
func invalid() map[string]obj {
	return map[string]obj{
		"message.parts":                                say("tck-complete-task", obj{"parts": []any{}}),
		"message.parts[0]":                             say("tck-complete-task", obj{"parts": []any{obj{"text": "a", "url": "https://files.example.com/b"}}}),
		"message.role":                                 say("tck-complete-task", obj{"role": "ROLE_NOBODY"}),
		"message.messageId":                            say("tck-complete-task", obj{"messageId": ""}),
		"message.metadata":                             say("tck-complete-task", obj{"metadata": "text"}),
		"message.parts[0].raw":                         say("tck-complete-task", obj{"parts": []any{obj{"raw": "§"}}}),
		"configuration.historyLength":                  configured(say("tck-complete-task", nil), obj{"historyLength": -1}),
		"configuration.returnImmediately":              configured(say("tck-complete-task", nil), obj{"returnImmediately": "yes"}),
		"message.referenceTaskIds[0]":                  say("tck-complete-task", obj{"referenceTaskIds": []any{7}}),
		"configuration.acceptedOutputModes[0]":         configured(say("tck-complete-task", nil), obj{"acceptedOutputModes": []any{obj{}}}),
		"message.extensions":                           say("tck-complete-task", obj{"extensions": "x"}),
		"configuration.acceptedOutputModes":            configured(say("tck-complete-task", nil), obj{"acceptedOutputModes": "text/plain"}),
		"message":                                      {},
		"message.parts[0].metadata":                    say("tck-complete-task", obj{"parts": []any{obj{"text": "a", "metadata": []any{}}}}),
		"message.parts[0].mediaType":                   say("tck-complete-task", obj{"parts": []any{obj{"text": "a", "mediaType": 1}}}),
		"configuration.taskPushNotificationConfig.url": configured(say("tck-complete-task", nil), obj{"taskPushNotificationConfig": obj{}}),
	}
}

var parameterChecks = map[int]check{
	32: func(t *testing.T, w *world) {
		c := w.as(t, w.Alice)
		request := say("ref-hold", nil)
		got := make(chan answer, 1)
		go func() { got <- c.call("SendMessage", request) }()
		id := w.arrived(t, text(request, "message", "messageId"))
		w.produce(t, id, "a1", "result", false)
		select {
		case a := <-got:
			t.Errorf("the answer came while the task was at work: %s", a.body)
		default:
		}
		w.drive(t, id, a2a.StateCompleted, "")
		task := object((<-got).result, "task")
		wantState(t, task, a2a.StateCompleted)
		if a := list(task, "artifacts"); len(a) != 1 || texts(a[0]) != "result" {
			t.Errorf("artifacts %s, want the result", encode(a))
		}
		wantState(t, c.task("tck-input-required", nil), a2a.StateInputRequired)
		wantState(t, c.task("ref-auth-required", nil), a2a.StateAuthRequired)
	},
	33: func(t *testing.T, w *world) {
		c := w.as(t, w.Alice)
		r := c.must("SendMessage", configured(say("ref-hold", nil), obj{"returnImmediately": true}))
		wantState(t, object(r, "task"), a2a.StateWorking)
		w.drive(t, text(r, "task", "id"), a2a.StateCompleted, "")
		wantState(t, c.must("GetTask", obj{"id": text(r, "task", "id")}), a2a.StateCompleted)
	},
	35: func(t *testing.T, w *world) {
		c := w.as(t, w.Alice)
		r := c.must("SendMessage", configured(say("tck-artifact-text", nil), obj{"acceptedOutputModes": []any{"application/json"}}))
		part := list(list(r, "task", "artifacts")[0], "parts")[0]
		if text(part, "data", "text") != "hello" || text(part, "mediaType") != "application/json" {
			t.Errorf("got part %s, want JSON", encode(part))
		}
		c.wantFault(c.call("SendMessage", configured(say("tck-artifact-text", nil), obj{"acceptedOutputModes": []any{"image/png"}})), "CONTENT_TYPE_NOT_SUPPORTED")
	},
	36: func(t *testing.T, w *world) {
		c := w.as(t, w.Alice)
		id, contextID, sent := w.turns(c, 3)
		for n := 1; n <= 4; n++ {
			want := sent[max(0, 3-n):]
			r := c.must("GetTask", obj{"id": id, "historyLength": n})
			wantMessages(t, "GetTask", r, want)
			r = c.must("ListTasks", obj{"contextId": contextID, "historyLength": n})
			wantMessages(t, "ListTasks", list(r, "tasks")[0], want)
		}
		last := configured(say("tck-complete-task", obj{"taskId": id}), obj{"historyLength": 2})
		r := c.must("SendMessage", last)
		wantMessages(t, "SendMessage", object(r, "task"), []string{sent[2], text(last, "message", "messageId")})
		c.wantFault(c.call("GetTask", obj{"id": id, "historyLength": -1}), "INVALID_PARAMS")
		c.wantFault(c.call("ListTasks", obj{"historyLength": -1}), "INVALID_PARAMS")
	},
	37: func(t *testing.T, w *world) {
		c := w.as(t, w.Alice)
		r := c.must("SendMessage", configured(say("tck-complete-task", nil), obj{"historyLength": 0}))
		task := object(r, "task")
		listed := list(c.must("ListTasks", obj{"contextId": text(task, "contextId"), "historyLength": 0}), "tasks")[0]
		for name, got := range map[string]obj{"SendMessage": task, "GetTask": c.must("GetTask", obj{"id": text(task, "id"), "historyLength": 0}), "ListTasks": listed} {
			if h, ok := got["history"]; ok {
				t.Errorf("%s: history is %v, want no such member", name, h)
			}
		}
	},
	38: func(t *testing.T, w *world) {
		for _, credential := range []string{"", "Bearer nobody", "Basic YTpi", "Bearer"} {
			c := w.as(t, credential)
			a := c.call("SendMessage", say("tck-complete-task", nil))
			c.wantStatus(a, http.StatusUnauthorized)
			s, a := c.try("SendStreamingMessage", say("tck-complete-task", nil))
			if s != nil {
				t.Fatalf("credential %q opened a stream", credential)
			}
			c.wantStatus(a, http.StatusUnauthorized)
		}
	},
	39: func(t *testing.T, w *world) {
		a := w.as(t, "").call("ListTasks", obj{})
		if challenge := a.header.Get("WWW-Authenticate"); !strings.HasPrefix(challenge, "Bearer") {
			t.Errorf("challenge %q, want one for Bearer, which the card declares", challenge)
		}
		if a.fault == nil || !strings.Contains(a.fault.message, "Bearer") {
			t.Errorf("got %s, want a message that says how to authenticate", a.body)
		}
	},
	40: func(t *testing.T, w *world) {
		c := w.as(t, w.Outsider)
		c.wantStatus(c.call("SendMessage", say("tck-complete-task", nil)), http.StatusForbidden)
		c.wantStatus(c.faults("SendStreamingMessage", say("tck-complete-task", nil)), http.StatusForbidden)
		c.wantStatus(c.call("CancelTask", obj{"id": uuid.NewString()}), http.StatusForbidden)
	},
	41: func(t *testing.T, w *world) {
		if w.through() {
			w = w.apart(t, kind{scoped: true})
			w.as(t, w.Mesh.issuer.token(t, "bob", "tasks:read "+neededScope)).must("ListTasks", obj{})
			w.Outsider = w.Mesh.issuer.token(t, "carol", "tasks:read")
		}
		a := w.as(t, w.Outsider).call("SendMessage", say("tck-complete-task", nil))
		if challenge := a.header.Get("WWW-Authenticate"); !strings.Contains(challenge, `scope="`+neededScope+`"`) || a.status != http.StatusForbidden {
			t.Errorf("challenge %q, want the scope that is missing", challenge)
		}
	},
	42: func(t *testing.T, w *world) {
		c, other := w.as(t, w.Alice), w.as(t, w.Bob)
		id, _ := c.held("ref-hold", nil)
		unknown := uuid.NewString()
		foreign, missing := everyOperation(id), everyOperation(unknown)
		for _, m := range []string{"SendMessage", "SendStreamingMessage", "GetTask", "CancelTask", "SubscribeToTask", "GetTaskPushNotificationConfig"} {
			a, b := other.faults(m, foreign[m]), other.faults(m, missing[m])
			if a.status != b.status || !sameBut(a.body, b.body, id, unknown) {
				t.Errorf("%s: another's task answers\n%s\nan unknown one\n%s", m, a.body, b.body)
			}
		}
		if got := w.Agent.Task(id); got.Status.State != a2a.StateWorking || len(got.History) != 1 {
			t.Errorf("another's calls changed the task: %+v", got)
		}
	},
	43: func(t *testing.T, w *world) {
		c := w.as(t, w.Alice)
		id, _ := c.held("ref-hold", nil)
		for field, request := range invalid() {
			if m := object(request, "message"); m != nil {
				m["taskId"] = id
			}
			if !c.can("SendMessage", request) {
				continue
			}
			c.wantFault(c.call("SendMessage", request), "INVALID_PARAMS")
			if n := len(w.Agent.Task(id).History); n != 1 {
				t.Fatalf("%s: the task took the message", field)
			}
		}
		for _, params := range []obj{{"status": "TASK_STATE_DONE"}, {"status": "working"}, {"statusTimestampAfter": "yesterday"}, {"includeArtifacts": "maybe"}, {"pageToken": "?"}} {
			if !c.can("ListTasks", params) {
				continue
			}
			c.wantFault(c.call("ListTasks", params), "INVALID_PARAMS")
		}
	},
	44: func(t *testing.T, w *world) {
		c := w.as(t, w.Alice)
		for field, request := range invalid() {
			if !c.can("SendMessage", request) {
				continue
			}
			a := c.call("SendMessage", request)
			if a.fault == nil || a.fault.fields()[field] == "" {
				t.Errorf("%s: got %s, want a field violation that names it", field, a.body)
			}
		}
		if w.grpc() {
			return // there a role is one of the known ones
		}
		a := c.call("SendMessage", invalid()["message.role"])
		if a.fault != nil && !strings.Contains(a.fault.fields()["message.role"], "ROLE_USER") {
			t.Errorf("got %s, want the values a role may have", a.body)
		}
	},
	45: func(t *testing.T, w *world) {
		c, other := w.as(t, w.Alice), w.as(t, w.Bob)
		id := text(c.task("tck-input-required", nil), "id")
		c.wantFault(c.call("GetTask", obj{"id": uuid.NewString()}), "TASK_NOT_FOUND")
		for _, m := range []string{"SendMessage", "GetTask", "CancelTask", "SubscribeToTask"} {
			other.wantFault(other.faults(m, everyOperation(id)[m]), "TASK_NOT_FOUND")
		}
	},
	46: func(t *testing.T, w *world) {
		v := w.another(t, Variant{Agent: a2atest.Options{MaxTasks: 1}})
		c := v.as(t, v.Alice)
		id, _ := c.held("ref-hold", nil)
		full := c.call("SendMessage", say("tck-complete-task", nil))
		if full.fault == nil || full.fault.reason() != "UNAVAILABLE" || !w.rpc() && full.status != http.StatusServiceUnavailable {
			t.Fatalf("got HTTP %d %s, want UNAVAILABLE", full.status, full.body)
		}
		if w.grpc() {
			if !strings.Contains(string(full.body), "google.rpc.RetryInfo") {
				t.Errorf("got %s, want RetryInfo", full.body)
			}
		} else if seconds, err := strconv.Atoi(full.header.Get("Retry-After")); err != nil || seconds < 1 {
			t.Errorf("Retry-After %q, want when to come again", full.header.Get("Retry-After"))
		}
		v.drive(t, id, a2a.StateCompleted, "")
		c.task("tck-complete-task", nil) // it did pass
		c.wantFault(c.call("SendMessage", say("tck-complete-task", obj{"taskId": uuid.NewString()})), "TASK_NOT_FOUND")
	},
	47: func(t *testing.T, w *world) {
		for name, a := range w.failures(t) {
			if a.fault == nil || a.fault.code == 0 || a.fault.message == "" {
				t.Errorf("%s: got %s, want code and message", name, a.body)
			}
		}
	},
	48: func(t *testing.T, w *world) {
		typed := regexp.MustCompile(`^type\.googleapis\.com/google\.rpc\.\w+$`)
		for name, a := range w.failures(t) {
			for _, d := range a.fault.details {
				if !typed.MatchString(text(d, "@type")) {
					t.Errorf("%s: detail %s, want a type of google.rpc", name, encode(d))
				}
			}
			if len(a.fault.details) == 0 {
				t.Errorf("%s: no details: %s", name, a.body)
			}
		}
	},
	49: func(t *testing.T, w *world) {
		w = w.another(t, Variant{Mute: true})
		c := w.as(t, w.Alice)
		id, _ := c.held("ref-hold", nil)
		for m, params := range everyOperation(id) {
			if a2a.Method(m).Push() {
				c.wantFault(c.call(m, params), "PUSH_NOTIFICATION_NOT_SUPPORTED")
			}
		}
		inline := obj{"taskPushNotificationConfig": obj{"url": "https://hooks.example.com/x"}}
		c.wantFault(c.call("SendMessage", configured(say("tck-complete-task", nil), inline)), "PUSH_NOTIFICATION_NOT_SUPPORTED")
		c.wantFault(c.faults("SendStreamingMessage", configured(say("tck-complete-task", nil), inline)), "PUSH_NOTIFICATION_NOT_SUPPORTED")
		if at(w.card(t), "capabilities", "pushNotifications") == true {
			t.Error("the card declares push notifications")
		}
	},
	50: func(t *testing.T, w *world) {
		v := w.another(t, Variant{Agent: a2atest.Options{NoStreaming: true}})
		c := v.as(t, v.Alice)
		id, _ := c.held("ref-hold", nil)
		c.wantFault(c.faults("SendStreamingMessage", say("tck-complete-task", nil)), "UNSUPPORTED_OPERATION")
		c.wantFault(c.faults("SubscribeToTask", obj{"id": id}), "UNSUPPORTED_OPERATION")
		if at(v.card(t), "capabilities", "streaming") != false {
			t.Error("the card does not say that there is no streaming")
		}
	},
	51: func(t *testing.T, w *world) {
		c := w.as(t, w.Alice)
		c.wantFault(c.call("GetExtendedAgentCard", obj{}), "UNSUPPORTED_OPERATION")
		v := w.another(t, Variant{Agent: a2atest.Options{Extended: a2atest.ExtendedMissing}})
		reason := "UNSUPPORTED_OPERATION"
		if at(v.card(t), "capabilities", "extendedAgentCard") == true {
			reason = "EXTENDED_AGENT_CARD_NOT_CONFIGURED"
		}
		c = v.as(t, v.Alice)
		c.wantFault(c.call("GetExtendedAgentCard", obj{}), reason)
	},
	52: func(t *testing.T, w *world) {
		v := w.another(t, Variant{Agent: withExtension(true)})
		c := v.as(t, v.Alice)
		id, _ := c.with("A2A-Extensions", extension).held("ref-hold", nil)
		for _, m := range []string{"SendMessage", "SendStreamingMessage", "GetTask", "CancelTask", "SubscribeToTask"} {
			c.wantFault(c.faults(m, everyOperation(id)[m]), "EXTENSION_SUPPORT_REQUIRED")
		}
		a := c.with("A2A-Extensions", extension).call("GetTask", obj{"id": id})
		if a.fault != nil || a.header.Get("A2A-Extensions") != extension {
			t.Errorf("with the extension: HTTP %d %s, extensions %q; want it activated", a.status, a.body, a.header.Get("A2A-Extensions"))
		}
	},
	54: func(t *testing.T, w *world) {
		c := w.as(t, w.Alice)
		id, _ := c.held("ref-hold", nil)
		first := c.must("CancelTask", obj{"id": id})
		second := c.must("CancelTask", obj{"id": id})
		if encode(first) != encode(second) {
			t.Errorf("first\n%s\nthen\n%s", encode(first), encode(second))
		}
	},
}

// turns makes a task with n messages and returns their ids in order.
func (w *world) turns(c *caller, n int) (taskID, contextID string, sent []string) {
	c.t.Helper()
	for range n {
		more := obj{}
		if taskID != "" {
			more["taskId"] = taskID
		}
		request := say("tck-input-required", more)
		r := c.must("SendMessage", request)
		taskID, contextID = text(r, "task", "id"), text(r, "task", "contextId")
		sent = append(sent, text(request, "message", "messageId"))
	}
	return taskID, contextID, sent
}

func wantMessages(t *testing.T, name string, task obj, want []string) {
	t.Helper()
	var got []string
	for _, m := range list(task, "history") {
		got = append(got, text(m, "messageId"))
	}
	if strings.Join(got, " ") != strings.Join(want, " ") {
		t.Errorf("%s: history %v, want %v", name, got, want)
	}
}

// failures is an error of every class that callers can provoke.
func (w *world) failures(t *testing.T) map[string]answer {
	c := w.as(t, w.Alice)
	return map[string]answer{
		"no credential":   w.as(t, "").call("ListTasks", obj{}),
		"no permission":   w.as(t, w.Outsider).call("SendMessage", say("tck-complete-task", nil)),
		"no task":         c.call("GetTask", obj{"id": uuid.NewString()}),
		"ended":           c.call("CancelTask", obj{"id": w.endedTask(c, a2a.StateCompleted)}),
		"invalid":         c.call("SendMessage", obj{"message": obj{"messageId": "m", "role": "ROLE_USER"}}),
		"no push":         c.call("ListTaskPushNotificationConfigs", obj{"taskId": uuid.NewString()}),
		"no version":      c.with("A2A-Version", "9.9").call("ListTasks", obj{}),
		"no media type":   c.call("SendMessage", say("tck-complete-task", obj{"parts": []any{obj{"text": "a", "mediaType": "x/y"}}})),
		"agent's failure": c.call("SendMessage", say("ref-error-INTERNAL_ERROR", nil)),
	}
}
