package conformance

import (
	"encoding/json"
	"net/http"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/parley-mesh/parley/internal/a2a"
)

var dataChecks = map[int]check{
	80: func(t *testing.T, w *world) {
		v := w.another(t, Variant{Agent: withExtension(false)})
		a := v.as(t, v.Alice).with("A2A-Extensions", extensionV2).call("SendMessage", say("tck-complete-task", nil))
		if a.fault != nil || a.header.Get("A2A-Extensions") != "" {
			t.Errorf("another version: HTTP %d, extensions %q; want it ignored", a.status, a.header.Get("A2A-Extensions"))
		}
		v = w.another(t, Variant{Agent: withExtension(true)})
		c := v.as(t, v.Alice).with("A2A-Extensions", extensionV2)
		c.wantFault(c.call("SendMessage", say("tck-complete-task", nil)), "EXTENSION_SUPPORT_REQUIRED")
	},
	81: func(t *testing.T, w *world) {
		c := w.as(t, w.Alice)
		d := c.over(w.other())
		task := c.task("tck-artifact-data", nil)
		id := text(task, "id")
		for m, params := range map[string]obj{"GetTask": {"id": id}, "ListTasks": {"contextId": text(task, "contextId"), "includeArtifacts": true}} {
			if a, b := c.must(m, params), d.must(m, params); !reflect.DeepEqual(a, b) {
				t.Errorf("%s: one binding gives\n%s\nthe other\n%s", m, encode(a), encode(b))
			}
		}
		for m, params := range map[string]obj{"CancelTask": {"id": id}, "SubscribeToTask": {"id": id}, "GetTask": {"id": uuid.NewString()}, "ListTasks": {"pageSize": 0},
			"SendMessage": invalid()["message.role"], "GetExtendedAgentCard": {}} {
			if !c.can(m, params) || m == "ListTasks" && w.grpc() {
				continue
			}
			a, b := c.faults(m, params), d.faults(m, params)
			if a.fault.reason() != b.fault.reason() || a.fault.message != b.fault.message || !reflect.DeepEqual(a.fault.details, b.fault.details) {
				t.Errorf("%s: one binding says\n%s\nthe other\n%s", m, a.body, b.body)
			}
		}
		none := w.as(t, "")
		if a, b := none.call("ListTasks", obj{}), none.over(w.other()).call("ListTasks", obj{}); a.status != b.status {
			t.Errorf("without a credential one binding answers %d, the other %d", a.status, b.status)
		}
	},
	82: func(t *testing.T, w *world) {
		listed := map[string]bool{}
		for _, in := range list(w.card(t), "supportedInterfaces") {
			listed[text(in, "protocolBinding")] = true
		}
		for _, b := range []a2a.Binding{a2a.JSONRPC, a2a.HTTPJSON} {
			w.as(t, w.Alice).over(b).must("ListTasks", obj{})
			if !listed[string(b)] {
				t.Errorf("%s is served and not listed", b)
			}
		}
	},
	83: func(t *testing.T, w *world) {
		if w.through() {
			w.goesOn(t)
			return
		}
		card := w.Agent.Card()
		usual := card.SupportedInterfaces[0].URL
		card.SupportedInterfaces = append([]a2a.AgentInterface{
			{URL: "https://agent.example.com/own", ProtocolBinding: "urn:example:own", ProtocolVersion: "1.0"},
			{URL: "https://agent.example.com/old", ProtocolBinding: a2a.JSONRPC, ProtocolVersion: "0.3"},
		}, card.SupportedInterfaces...)
		if got, ok := card.SelectInterface(a2a.V10); !ok || got.URL != usual {
			t.Errorf("got %+v, %v, want the first of 1.0 in a binding we speak", got, ok)
		}
	},
	84: func(t *testing.T, w *world) {
		c := w.as(t, w.Alice)
		for _, reason := range protocolErrors() {
			c.wantFault(c.call("SendMessage", say("ref-error-"+reason, nil)), reason)
			c.wantFault(c.faults("SendStreamingMessage", say("ref-error-"+reason, nil)), reason)
		}
	},
	85: func(t *testing.T, w *world) {
		camel := regexp.MustCompile(`^[a-z][a-zA-Z0-9]*$`)
		for name, o := range w.samples(t) {
			walk(o, func(key string, _ any) {
				if !camel.MatchString(key) {
					t.Errorf("%s: member %q is not in camelCase", name, key)
				}
			})
		}
	},
	86: func(t *testing.T, w *world) {
		name := map[string]*regexp.Regexp{"state": regexp.MustCompile(`^TASK_STATE_[A-Z_]+$`), "role": regexp.MustCompile(`^ROLE_(USER|AGENT)$`)}
		found := 0
		for sample, o := range w.samples(t) {
			walk(o, func(key string, value any) {
				if name[key] == nil {
					return
				}
				found++
				if s, ok := value.(string); !ok || !name[key].MatchString(s) {
					t.Errorf("%s: %s is %v, want a name", sample, key, value)
				}
			})
		}
		if found < 5 {
			t.Errorf("%d enumerations in the samples, want more", found)
		}
		c := w.as(t, w.Alice)
		c.wantFault(c.call("SendMessage", say("tck-complete-task", obj{"role": "user"})), "INVALID_PARAMS")
	},
	87: func(t *testing.T, w *world) {
		form := regexp.MustCompile(`^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$`)
		found := 0
		for sample, o := range w.samples(t) {
			walk(o, func(key string, value any) {
				if key != "timestamp" {
					return
				}
				found++
				if s, ok := value.(string); !ok || !form.MatchString(s) {
					t.Errorf("%s: timestamp %v, want UTC with milliseconds and Z", sample, value)
				}
			})
		}
		if found == 0 {
			t.Error("no timestamp in the samples")
		}
		c := w.as(t, w.Alice)
		if !w.grpc() { // a time in a message has no zone
			c.wantFault(c.call("ListTasks", obj{"statusTimestampAfter": "2026-01-02T03:04:05+01:00"}), "INVALID_PARAMS")
		}
	},
	88: func(t *testing.T, w *world) {
		c := w.as(t, w.Alice)
		for name, task := range map[string]obj{"sent": c.task("tck-complete-task", nil), "listed": list(c.must("ListTasks", obj{}), "tasks")[0]} {
			if text(task, "id") == "" || text(task, "contextId") == "" || state(task) == "" {
				t.Errorf("%s task lacks a required member: %s", name, encode(task))
			}
			for _, m := range list(task, "history") {
				if text(m, "messageId") == "" || text(m, "role") == "" || len(list(m, "parts")) == 0 {
					t.Errorf("%s message lacks a required member: %s", name, encode(m))
				}
			}
		}
		card := w.card(t)
		for _, name := range []string{"name", "description", "supportedInterfaces", "version", "capabilities", "defaultInputModes", "defaultOutputModes", "skills"} {
			if card[name] == nil {
				t.Errorf("the card lacks %s", name)
			}
		}
		for _, name := range []string{"messageId", "role", "parts"} {
			request := say("tck-complete-task", nil)
			delete(object(request, "message"), name)
			a := c.call("SendMessage", request)
			c.wantFault(a, "INVALID_PARAMS")
			if a.fault != nil && a.fault.fields()["message."+name] == "" {
				t.Errorf("without %s: got %s, want it named", name, a.body)
			}
		}
	},
	89: func(t *testing.T, w *world) {
		c := w.as(t, w.Alice)
		request := configured(say("tck-complete-task", obj{"x-mood": obj{"level": 3}}), obj{"futureOption": true})
		request["futureMember"] = []any{1, "two"}
		wantState(t, object(c.must("SendMessage", request), "task"), a2a.StateCompleted)
	},
}

// samples are answers of many kinds whose members are all the protocol's own.
func (w *world) samples(t *testing.T) map[string]obj {
	c := w.as(t, w.Alice)
	id, contextID, _ := w.turns(c, 2)
	out := map[string]obj{
		"asked":   c.must("GetTask", obj{"id": id}),
		"listed":  c.must("ListTasks", obj{"contextId": contextID}),
		"file":    c.must("SendMessage", say("tck-artifact-file", nil)),
		"message": c.must("SendMessage", say("tck-message-response", nil)),
		"card":    w.card(t),
	}
	s := c.open("SendStreamingMessage", say("ref-stream-3", nil))
	out["stream"] = obj{"events": toAny(s.rest())}
	// The names of schemes are free.
	delete(out["card"], "securitySchemes")
	delete(out["card"], "securityRequirements")
	return out
}

func toAny(events []obj) []any {
	all := make([]any, 0, len(events))
	for _, e := range events {
		all = append(all, e)
	}
	return all
}

// walk visits every member, but not what is inside free objects.
func walk(v any, visit func(key string, value any)) {
	switch v := v.(type) {
	case obj:
		for key, value := range v {
			visit(key, value)
			if key != "metadata" && key != "data" && key != "params" {
				walk(value, visit)
			}
		}
	case []any:
		for _, value := range v {
			walk(value, visit)
		}
	}
}

// card fetches the card as everybody sees it.
func (w *world) card(t *testing.T) obj {
	t.Helper()
	resp := w.fetchCard(t, http.MethodGet, nil)
	defer resp.Body.Close()
	var card obj
	if err := json.NewDecoder(resp.Body).Decode(&card); err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("card: HTTP %d, %v", resp.StatusCode, err)
	}
	return card
}

func (w *world) fetchCard(t *testing.T, verb string, header http.Header) *http.Response {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), verb, strings.TrimSuffix(w.URL, "/")+"/.well-known/agent-card.json", nil)
	if err != nil {
		t.Fatal(err)
	}
	if header != nil {
		req.Header = header
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	return resp
}
