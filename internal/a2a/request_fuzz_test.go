package a2a

import (
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/parley-mesh/parley/internal/jsonwire"
)

// typed returns an empty request message of a method.
func typed(m Method) any {
	switch m {
	case SendMessage, SendStreamingMessage:
		return new(SendMessageRequest)
	case GetTask:
		return new(GetTaskRequest)
	case ListTasks:
		return new(ListTasksRequest)
	case CancelTask:
		return new(CancelTaskRequest)
	case SubscribeToTask:
		return new(SubscribeToTaskRequest)
	case CreatePushConfig:
		return new(TaskPushNotificationConfig)
	case GetPushConfig, DeletePushConfig:
		return new(PushConfigRequest)
	case ListPushConfigs:
		return new(ListPushConfigsRequest)
	}
	return new(GetExtendedCardRequest)
}

// Parameters that pass the check can be decoded, written and read again without
// loss, and a Request made of them says the same.
func FuzzParams(f *testing.F) {
	for i, params := range []string{
		`{"message":{"messageId":"m","role":"ROLE_USER","parts":[{"text":""},{"raw":"_-8"},{"url":"u"},{"data":null}],"x":1},"configuration":{"historyLength":0}}`,
		`{"message":{"messageId":"m","role":2,"parts":[{"data":[1.0]}],"referenceTaskIds":["a"]}}`,
		`{"id":"t","historyLength":3,"tenant":"x"}`, `{"status":1,"statusTimestampAfter":"2026-01-02T03:04:05.1234Z","includeArtifacts":false}`,
		`{"id":"t","metadata":{"a":1e400}}`, `{"id":"t"}`, `{"taskId":"t","url":"u","authentication":{"scheme":"Bearer"}}`,
		`{"taskId":"t","id":"c"}`, `{"taskId":"t","pageSize":0}`, `{"taskId":"t","id":""}`, `{}`,
	} {
		f.Add(uint8(i), []byte(params))
	}
	f.Fuzz(func(t *testing.T, method uint8, params []byte) {
		m := Methods()[int(method)%len(Methods())]
		if operations[m].request.Check(params, jsonwire.CheckOptions{}) != nil {
			return
		}
		in := typed(m)
		if problems := jsonwire.UnmarshalAll(params, in, jsonwire.CheckOptions{}); problems != nil {
			t.Fatalf("%s passes the check, not decoding: %v", params, problems)
		}
		q, err := NewRequest(m, in)
		if err != nil {
			if m == CreatePushConfig {
				return // without a task
			}
			t.Fatalf("%s: %v", params, err)
		}
		again := typed(m)
		if err := q.Decode(again); err != nil {
			t.Fatal(err)
		}
		q2, err := NewRequest(m, again)
		if err != nil || string(q.Params) != string(q2.Params) {
			t.Fatalf("%s then %s (%v)", q.Params, q2.Params, err)
		}
		for _, tenant := range []string{"", "x/y"} {
			checkSent(t, q, tenant)
		}
	})
}

// checkSent reads what the client would send in either binding back.
func checkSent(t *testing.T, q *Request, tenant string) {
	body, _, err := q.rpcBody(tenant)
	if err != nil {
		t.Fatal(err)
	}
	r := httptest.NewRequest("POST", "/", strings.NewReader(string(body)))
	r.Header.Set("Content-Type", mediaJSON)
	rpc, failure := Open(r, "/", ServerOptions{})
	if failure == nil {
		failure = rpc.ReadBody(r.Body)
	}
	if failure != nil || rpc.Method != q.Method || rpc.Tenant != tenant || rpc.Facts.TaskID != q.Facts.TaskID {
		t.Fatalf("%s %s sent as %s reads %+v: %v", q.Method, q.Params, body, rpc, failure)
	}
	call, err := q.restFor(Endpoint{Tenant: tenant})
	if err != nil {
		return // an id of dots
	}
	target := call.path
	if len(call.query) > 0 {
		target += "?" + call.query.Encode()
	}
	r = httptest.NewRequest(call.verb, target, strings.NewReader(string(call.body)))
	r.Header.Set("Content-Type", mediaA2A)
	rest, failure := Open(r, call.path, ServerOptions{})
	if failure == nil {
		failure = rest.ReadBody(r.Body)
	}
	if failure != nil || rest.Method != q.Method || rest.Tenant != tenant || rest.Facts.TaskID != q.Facts.TaskID || rest.Facts.ConfigID != q.Facts.ConfigID || rest.Facts.HistoryLength != q.Facts.HistoryLength {
		t.Fatalf("%s %s sent as %s %s %s reads %+v: %v", q.Method, q.Params, call.verb, target, call.body, rest, failure)
	}
}

// Whatever the path and query, the call is refused or its params are checked.
func FuzzREST(f *testing.F) {
	f.Add("GET", "/tasks/a%2Fb", "historyLength=3&tenant=x", "")
	f.Add("POST", "/acme/tasks/t:cancel", "", `{"metadata":{}}`)
	f.Add("POST", "/message:send", "", `{"message":{"messageId":"m","role":"ROLE_USER","parts":[{"text":"a"}]}}`)
	f.Add("DELETE", "/tasks/t/pushNotificationConfigs/c", "A2A-Version=1.0", "")
	f.Add("GET", "/%zz/tasks", "pageSize=%", "")
	f.Fuzz(func(t *testing.T, verb, path, query, body string) {
		r := httptest.NewRequest("POST", "/", nil)
		r.Method, r.URL.RawQuery = verb, query
		r.Header.Set("A2A-Version", "1.0")
		r.Header.Set("Content-Type", mediaA2A)
		q, failure := Open(r, path, ServerOptions{})
		if failure != nil {
			return
		}
		if failure = q.ReadBody(strings.NewReader(body)); failure != nil {
			return
		}
		if problems := operations[q.Method].request.Check(q.Params, jsonwire.CheckOptions{}); problems != nil {
			t.Fatalf("%s %s?%s %s: params %s: %v", verb, path, query, body, q.Params, problems)
		}
		if q.Method.NamesTask() && q.Facts.TaskID == "" {
			t.Fatalf("%s %s: no task id", verb, path)
		}
	})
}
