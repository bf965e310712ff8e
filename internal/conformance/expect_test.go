package conformance

import (
	"context"
	"net/http"
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/parley-mesh/parley/internal/a2a"
)

// errorTable is section 5.4 of the specification, with the generic errors of 3.3.2
// and 9.5. It is written here once more on purpose: the tests must not take it
// from the code they judge.
var errorTable = map[string]struct {
	rpc, http int
	status    string
}{
	"TASK_NOT_FOUND":                     {-32001, 404, "NOT_FOUND"},
	"TASK_NOT_CANCELABLE":                {-32002, 400, "FAILED_PRECONDITION"},
	"PUSH_NOTIFICATION_NOT_SUPPORTED":    {-32003, 400, "FAILED_PRECONDITION"},
	"UNSUPPORTED_OPERATION":              {-32004, 400, "FAILED_PRECONDITION"},
	"CONTENT_TYPE_NOT_SUPPORTED":         {-32005, 400, "INVALID_ARGUMENT"},
	"INVALID_AGENT_RESPONSE":             {-32006, 500, "INTERNAL"},
	"EXTENDED_AGENT_CARD_NOT_CONFIGURED": {-32007, 400, "FAILED_PRECONDITION"},
	"EXTENSION_SUPPORT_REQUIRED":         {-32008, 400, "FAILED_PRECONDITION"},
	"VERSION_NOT_SUPPORTED":              {-32009, 400, "FAILED_PRECONDITION"},
	"INVALID_PARAMS":                     {-32602, 400, "INVALID_ARGUMENT"},
}

// protocolErrors are those whose reason the protocol itself defines.
func protocolErrors() []string {
	return []string{"TASK_NOT_FOUND", "TASK_NOT_CANCELABLE", "PUSH_NOTIFICATION_NOT_SUPPORTED", "UNSUPPORTED_OPERATION",
		"CONTENT_TYPE_NOT_SUPPORTED", "INVALID_AGENT_RESPONSE", "EXTENDED_AGENT_CARD_NOT_CONFIGURED", "EXTENSION_SUPPORT_REQUIRED", "VERSION_NOT_SUPPORTED"}
}

// wantFault checks an error down to its codes.
func (c *caller) wantFault(a answer, reason string) {
	c.t.Helper()
	if a.fault == nil {
		c.t.Errorf("got HTTP %d %s, want the error %s", a.status, a.body, reason)
		return
	}
	want := errorTable[reason]
	domain := "a2a-protocol.org"
	if reason == "INVALID_PARAMS" {
		domain = text(a.fault.info(), "domain") // the protocol gives none to what it does not define
	}
	if c.binding == a2a.GRPC {
		if a.fault.status != want.status || a.fault.reason() != reason || text(a.fault.info(), "domain") != domain {
			c.t.Errorf("got %s %s, want the error %s with code %s", a.fault.status, a.body, reason, want.status)
		}
		return
	}
	code, status := want.rpc, http.StatusOK
	if c.binding == a2a.HTTPJSON {
		code, status = want.http, want.http
	}
	ok := a.fault.code == code && a.status == status && a.fault.reason() == reason && text(a.fault.info(), "domain") == domain
	if c.binding == a2a.HTTPJSON {
		ok = ok && a.fault.status == want.status
	}
	if !ok {
		c.t.Errorf("got HTTP %d %s, want the error %s with code %d, HTTP %d", a.status, a.body, reason, code, status)
	}
}

// wantStatus checks an error that HTTP itself must know, in both bindings.
func (c *caller) wantStatus(a answer, status int) {
	c.t.Helper()
	if a.fault == nil || a.status != status || a.fault.message == "" {
		c.t.Errorf("got HTTP %d %s, want an error with HTTP status %d", a.status, a.body, status)
	}
}

// faults sends an operation, streaming or not, that has to fail.
func (c *caller) faults(method string, params obj) answer {
	c.t.Helper()
	if !a2a.Method(method).Streaming() {
		return c.call(method, params)
	}
	s, a := c.try(method, params)
	if s != nil {
		event, f, _ := s.next()
		c.t.Fatalf("%s %s: a stream began (event %s, error %+v), want an error before it", method, encode(params), encode(event), f)
	}
	return a
}

// newMessageID makes an id that the reference agent acts by.
func newMessageID(prefix string) string { return prefix + "-" + uuid.NewString() }

// message is a message with a text and more members.
func message(prefix string, more obj) obj {
	m := obj{"messageId": newMessageID(prefix), "role": "ROLE_USER", "parts": []any{obj{"text": "hello"}}}
	for k, v := range more {
		m[k] = v
	}
	return m
}

// say is a request that sends such a message.
func say(prefix string, more obj) obj { return obj{"message": message(prefix, more)} }

// configured adds a configuration to a request.
func configured(request, configuration obj) obj {
	request["configuration"] = configuration
	return request
}

// task sends a message and returns the task it led to.
func (c *caller) task(prefix string, more obj) obj {
	c.t.Helper()
	t := object(c.must("SendMessage", say(prefix, more)), "task")
	if t == nil {
		c.t.Fatalf("%s: no task in the answer", prefix)
	}
	return t
}

// held begins a task that stays as it is until the test drives it.
func (c *caller) held(prefix string, more obj) (id, contextID string) {
	c.t.Helper()
	t := object(c.must("SendMessage", configured(say(prefix, more), obj{"returnImmediately": true})), "task")
	if t == nil {
		c.t.Fatalf("%s: no task in the answer", prefix)
	}
	return text(t, "id"), text(t, "contextId")
}

// drive moves a task on at the agent.
func (w *world) drive(t *testing.T, taskID string, state a2a.TaskState, words string) {
	t.Helper()
	if err := w.Agent.SetStatus(taskID, state, words); err != nil {
		t.Fatal(err)
	}
}

// produce gives a task an artifact at the agent, or one more part of it.
func (w *world) produce(t *testing.T, taskID, artifactID, words string, more bool) {
	t.Helper()
	err := w.Agent.AddArtifact(taskID, a2a.Artifact{ArtifactID: artifactID, Parts: []a2a.Part{a2a.TextPart(words)}}, more, false)
	if err != nil {
		t.Fatal(err)
	}
}

// arrived waits for a message at the agent and returns its task.
func (w *world) arrived(t *testing.T, messageID string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	id, err := w.Agent.Arrived(ctx, messageID)
	if err != nil {
		t.Fatal(err)
	}
	return id
}

func state(task obj) string { return text(task, "status", "state") }

func wantState(t *testing.T, task obj, want a2a.TaskState) {
	t.Helper()
	if state(task) != string(want) {
		t.Errorf("task is %s, want %s: %s", state(task), want, encode(task))
	}
}

// ended are the end states, with a way into each: a message prefix, or the hook.
var ended = []a2a.TaskState{a2a.StateCompleted, a2a.StateFailed, a2a.StateCanceled, a2a.StateRejected}

// endedTask makes a task that has ended in a state.
func (w *world) endedTask(c *caller, s a2a.TaskState) string {
	c.t.Helper()
	switch s {
	case a2a.StateCompleted:
		return text(c.task("tck-complete-task", nil), "id")
	case a2a.StateFailed:
		return text(c.task("ref-fail", nil), "id")
	case a2a.StateRejected:
		return text(c.task("tck-reject-task", nil), "id")
	}
	id, _ := c.held("ref-hold", nil)
	c.must("CancelTask", obj{"id": id})
	return id
}

// texts are the texts of all parts of an artifact or message.
func texts(o obj) string {
	var all []string
	for _, p := range list(o, "parts") {
		all = append(all, text(p, "text"))
	}
	return strings.Join(all, "|")
}
