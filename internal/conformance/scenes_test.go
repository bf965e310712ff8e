package conformance

import (
	"net/http"
	"testing"

	"github.com/parley-mesh/parley/internal/a2a"
	"github.com/parley-mesh/parley/internal/a2a/a2atest"
)

// fixed is a message whose id needs no name.
func fixed(id string, more obj) obj {
	all := obj{"messageId": id}
	for k, v := range more {
		all[k] = v
	}
	return say("", all)
}

// scenes are in the order of the index.
var scenes = []scene{
	{"card", "An agent's card, with the mesh's addresses and the mesh's schemes.", "82, 99, 100, 105, 131", a2atest.Options{}, func(t *testing.T, w *world, _ *caller) {
		w.fetchCard(t, http.MethodGet, nil).Body.Close()
	}},
	{"send", "A message leads to a task, which is answered when it is done.", "1, 32, 55, 59, 72", a2atest.Options{}, func(t *testing.T, _ *world, c *caller) {
		c.must("SendMessage", fixed("tck-complete-task-1", nil))
	}},
	{"message", "A message is answered with a message.", "1", a2atest.Options{}, func(t *testing.T, _ *world, c *caller) {
		c.must("SendMessage", fixed("tck-message-response-1", nil))
	}},
	{"turns", "A task asks for input and gets it with a second message.", "32, 60", a2atest.Options{}, func(t *testing.T, _ *world, c *caller) {
		task := object(c.must("SendMessage", fixed("tck-input-required-1", nil)), "task")
		c.must("SendMessage", fixed("tck-complete-task-2", obj{"taskId": text(task, "id")}))
	}},
	{"parts", "An artifact that is a file, and one that is data.", "72", a2atest.Options{}, func(t *testing.T, _ *world, c *caller) {
		c.must("SendMessage", fixed("tck-artifact-file-1", nil))
		c.must("SendMessage", fixed("tck-artifact-data-1", nil))
	}},
	{"stream", "A stream shows a task from its beginning to its end.", "5, 7, 8, 63", a2atest.Options{}, func(t *testing.T, _ *world, c *caller) {
		c.open("SendStreamingMessage", fixed("ref-stream-2-1", nil)).rest()
	}},
	{"stream_message", "A stream that is one message.", "6", a2atest.Options{}, func(t *testing.T, _ *world, c *caller) {
		c.open("SendStreamingMessage", fixed("tck-message-response-1", nil)).rest()
	}},
	{"subscribe", "A task is followed by a subscription until it ends; then there is nothing to subscribe to.", "22, 23, 24", a2atest.Options{}, func(t *testing.T, w *world, c *caller) {
		task := object(c.must("SendMessage", configured(fixed("ref-hold-1", nil), obj{"returnImmediately": true})), "task")
		s := c.open("SubscribeToTask", obj{"id": text(task, "id")})
		s.must("task")
		w.drive(t, text(task, "id"), a2a.StateCompleted, "driven to its end")
		s.rest()
		c.wantFault(c.faults("SubscribeToTask", obj{"id": text(task, "id")}), "UNSUPPORTED_OPERATION")
	}},
	{"get", "A task is read, with a part of its history; then one that does not exist, and by somebody else.", "10, 36, 42", a2atest.Options{}, func(t *testing.T, w *world, c *caller) {
		task := object(c.must("SendMessage", fixed("tck-complete-task-1", nil)), "task")
		c.must("GetTask", obj{"id": text(task, "id"), "historyLength": 0})
		c.wantFault(c.call("GetTask", obj{"id": "no-such-task"}), "TASK_NOT_FOUND")
		other := w.as(t, w.Bob)
		other.wantFault(other.call("GetTask", obj{"id": text(task, "id")}), "TASK_NOT_FOUND")
	}},
	{"list", "Two tasks of a context are listed page by page: the mesh's own answer, from its index.", "11, 12, 13, 14, 15, 17", a2atest.Options{}, func(t *testing.T, _ *world, c *caller) {
		first := object(c.must("SendMessage", fixed("tck-complete-task-1", nil)), "task")
		c.must("SendMessage", fixed("tck-complete-task-2", obj{"contextId": text(first, "contextId")}))
		page := c.must("ListTasks", obj{"contextId": text(first, "contextId"), "pageSize": 1})
		c.must("ListTasks", obj{"contextId": text(first, "contextId"), "pageSize": 1, "pageToken": text(page, "nextPageToken")})
	}},
	{"cancel", "A task is canceled, twice; one that is done cannot be.", "20, 54", a2atest.Options{}, func(t *testing.T, _ *world, c *caller) {
		task := object(c.must("SendMessage", configured(fixed("ref-hold-1", nil), obj{"returnImmediately": true})), "task")
		c.must("CancelTask", obj{"id": text(task, "id")})
		c.must("CancelTask", obj{"id": text(task, "id")})
		done := object(c.must("SendMessage", fixed("tck-complete-task-2", nil)), "task")
		c.wantFault(c.call("CancelTask", obj{"id": text(done, "id")}), "TASK_NOT_CANCELABLE")
	}},
	{"errors", "Each error of the protocol, as an agent gives it.", "47, 48, 84, 109, 114", a2atest.Options{}, func(t *testing.T, _ *world, c *caller) {
		for _, reason := range protocolErrors() {
			c.wantFault(c.call("SendMessage", fixed("ref-error-"+reason, nil)), reason)
		}
	}},
	{"invalid", "What is wrong with a request is told field by field, and the agent is not asked.", "43, 44", a2atest.Options{}, func(t *testing.T, _ *world, c *caller) {
		c.wantFault(c.call("SendMessage", fixed("m", obj{"role": "ROLE_NOBODY", "parts": []any{}})), "INVALID_PARAMS")
		c.wantFault(c.call("ListTasks", obj{"pageSize": 101}), "INVALID_PARAMS")
	}},
	{"refused", "Callers without a credential, with a wrong one, and without permission.", "38, 39, 40, 93", a2atest.Options{}, func(t *testing.T, w *world, _ *caller) {
		for credential, status := range map[string]int{"": http.StatusUnauthorized} {
			c := w.as(t, credential)
			c.wantStatus(c.call("ListTasks", obj{}), status)
		}
		wrong := w.as(t, "Bearer pk_wrong")
		wrong.wantStatus(wrong.call("ListTasks", obj{}), http.StatusUnauthorized)
		outsider := w.as(t, w.Outsider)
		outsider.wantStatus(outsider.call("SendMessage", fixed("tck-complete-task-1", nil)), http.StatusForbidden)
	}},
	{"push", "A push configuration is created, read, listed and deleted, twice: the mesh's own answers, without the token.", "26, 27, 28, 29", a2atest.Options{}, func(t *testing.T, _ *world, c *caller) {
		task := object(c.must("SendMessage", fixed("tck-complete-task-1", nil)), "task")
		one := obj{"taskId": text(task, "id"), "id": "hook"}
		c.must("CreateTaskPushNotificationConfig", obj{"taskId": text(task, "id"), "id": "hook", "url": "https://hooks.example.com/x", "token": "a-token-of-the-caller"})
		c.must("GetTaskPushNotificationConfig", one)
		c.must("ListTaskPushNotificationConfigs", obj{"taskId": text(task, "id")})
		c.must("DeleteTaskPushNotificationConfig", one)
		c.must("DeleteTaskPushNotificationConfig", one)
	}},
	{"unsupported", "What is not offered: another version, another media type, an extended card.", "3, 51, 69", a2atest.Options{}, func(t *testing.T, _ *world, c *caller) {
		c.wantFault(c.with("A2A-Version", "7.0").call("ListTasks", obj{}), "VERSION_NOT_SUPPORTED")
		c.wantFault(c.call("SendMessage", fixed("tck-complete-task-2", obj{"parts": []any{obj{"url": "https://files.example.com/x", "mediaType": "video/mp4"}}})), "CONTENT_TYPE_NOT_SUPPORTED")
		c.wantFault(c.call("GetExtendedAgentCard", obj{}), "UNSUPPORTED_OPERATION")
	}},
	{"extension", "An extension that the agent requires, not asked for and asked for.", "52, 80, 108", withExtension(true), func(t *testing.T, _ *world, c *caller) {
		c.wantFault(c.call("SendMessage", fixed("tck-complete-task-1", nil)), "EXTENSION_SUPPORT_REQUIRED")
		c.with("A2A-Extensions", extension).must("SendMessage", fixed("tck-complete-task-2", nil))
	}},
}
