package conformance

import (
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/parley-mesh/parley/internal/a2a"
	"github.com/parley-mesh/parley/internal/a2a/a2agrpc"
)

// rpcOnly, restOnly and grpcOnly are the rows about one binding; they hold for the
// harness's side and are not run in the others.
var (
	rpcOnly  = map[int]bool{107: true, 109: true}
	restOnly = map[int]bool{112: true, 113: true, 114: true, 115: true}
	grpcOnly = map[int]bool{110: true, 111: true}
)

var bindingChecks = map[int]check{
	107: func(t *testing.T, w *world) {
		c := w.as(t, w.Alice)
		a := c.call("SendMessage", say("tck-complete-task", nil)) // the envelope is checked on reading
		if got := a.header.Get("Content-Type"); got != "application/json" {
			t.Errorf("Content-Type %q, want application/json", got)
		}
		s := c.open("SendStreamingMessage", say("tck-complete-task", nil))
		if got := s.Header.Get("Content-Type"); got != "text/event-stream" {
			t.Errorf("Content-Type of a stream %q", got)
		}
		s.rest()
		// A client that reads nothing but a stream gets an error as its only event.
		failed := c.with("Accept", "text/event-stream").open("SubscribeToTask", obj{"id": uuid.NewString()})
		if _, f, _ := failed.next(); f == nil || f.code != -32001 {
			t.Errorf("got %+v, want the error TASK_NOT_FOUND as an event", f)
		}
		failed.rest()
		post := func(body string) answer {
			resp := c.raw(t.Context(), http.MethodPost, c.base+"/", "application/json", strings.NewReader(body))
			defer resp.Body.Close()
			raw, err := io.ReadAll(resp.Body)
			if err != nil {
				t.Fatal(err)
			}
			return answer{status: resp.StatusCode, body: raw}
		}
		for body, want := range map[string]string{
			`{"jsonrpc":"2.0","id":7,"method":"ListTasks"}`:                      `"id":7,"result"`,
			`{"jsonrpc":"2.0","id":"é\n","method":"ListTasks","params":{}}`:      `"id":"é\n","result"`,
			`{"jsonrpc":"2.0","id":1.50,"method":"GetTask","params":{"id":"x"}}`: `"id":1.50,"error":{"code":-32001`,
			`{"jsonrpc":"2.0","id":1,"method":"sendMessage","params":{}}`:        `"id":1,"error":{"code":-32601`,
			`{"jsonrpc":"1.0","id":1,"method":"ListTasks"}`:                      `"id":1,"error":{"code":-32600`,
			`{"jsonrpc":"2.0","id":1,"method":"ListTasks","params":[]}`:          `"id":1,"error":{"code":-32602`,
			`{"jsonrpc":"2.0","id":1,"method":"ListTasks"`:                       `"id":null,"error":{"code":-32700`,
			`[{"jsonrpc":"2.0","id":1,"method":"ListTasks"}]`:                    `"id":null,"error":{"code":-32600`,
		} {
			if got := post(body); !strings.HasPrefix(string(got.body), `{"jsonrpc":"2.0",`+want) {
				t.Errorf("%s\nanswered %s\nwant %s", body, got.body, want)
			}
		}
	},
	108: func(t *testing.T, w *world) {
		v := w.another(t, Variant{Agent: withExtension(true)})
		c := v.as(t, v.Alice)
		for _, lines := range [][]string{{extension}, {"https://ext.example.com/other/v1, " + extension}, {"https://ext.example.com/other/v1", " " + extension + " "}} {
			d := c.with("a2a-extensions", lines...)
			id := newMessageID("tck-complete-task")
			a := d.call("SendMessage", say("", obj{"messageId": id}))
			if a.fault != nil {
				t.Errorf("extensions %q: %s", lines, a.body)
			}
			for _, s := range v.Agent.Seen() {
				if s.MessageID == id && w.through() && len(s.Header.Values("A2A-Extensions")) != 1 {
					t.Errorf("the agent got extensions in %d lines, want one", len(s.Header.Values("A2A-Extensions")))
				}
			}
		}
	},
	109: func(t *testing.T, w *world) {
		for name, a := range w.failures(t) {
			if _, ok := at(mustJSON(t, a.body), "error", "data").([]any); !ok {
				t.Errorf("%s: data is no list: %s", name, a.body)
			}
			if a.fault.info() == nil {
				t.Errorf("%s: no ErrorInfo: %s", name, a.body)
			}
		}
	},
	110: func(t *testing.T, w *world) {
		// The service and its messages are the normative ones, or no row of this side
		// would pass. What HTTP has in headers is metadata.
		v := w.another(t, Variant{Agent: withExtension(true)})
		c := v.as(t, v.Alice)
		c.wantFault(c.call("SendMessage", say("tck-complete-task", nil)), "EXTENSION_SUPPORT_REQUIRED")
		a := c.with("a2a-extensions", "https://ext.example.com/other/v1, "+extension).call("SendMessage", say("tck-complete-task", nil))
		if a.fault != nil || a.header.Get("A2A-Extensions") != extension {
			t.Errorf("with the extension: %s, extensions %q; want it activated", a.body, a.header.Get("A2A-Extensions"))
		}
		w.wantServices(t)
	},
	111: func(t *testing.T, w *world) {
		for name, a := range w.failures(t) {
			if a.fault.info() == nil || a.fault.message == "" {
				t.Errorf("%s: %s, want a message and ErrorInfo", name, a.body)
			}
		}
	},
	112: func(t *testing.T, w *world) {
		c := w.as(t, w.Alice)
		for _, contentType := range []string{"application/a2a+json", "application/json", "application/a2a+json; charset=utf-8"} {
			a := c.with("Content-Type", contentType).call("SendMessage", say("tck-complete-task", nil))
			if got := a.header.Get("Content-Type"); a.fault != nil || got != "application/a2a+json" {
				t.Errorf("sent as %s: HTTP %d as %q, want application/a2a+json", contentType, a.status, got)
			}
		}
		if a := c.call("GetTask", obj{"id": uuid.NewString()}); a.header.Get("Content-Type") != "application/a2a+json" {
			t.Errorf("an error comes as %q", a.header.Get("Content-Type"))
		}
		c.wantFault(c.with("Content-Type", "text/xml").call("SendMessage", say("tck-complete-task", nil)), "CONTENT_TYPE_NOT_SUPPORTED")
	},
	113: func(t *testing.T, w *world) {
		c := w.as(t, w.Alice)
		task := c.task("tck-complete-task", nil)
		get := func(path string) answer {
			resp := c.raw(t.Context(), http.MethodGet, c.base+path, "", nil)
			defer resp.Body.Close()
			return c.read(path, resp)
		}
		a := get("/tasks?contextId=" + url.QueryEscape(text(task, "contextId")) + "&pageSize=1&includeArtifacts=true&status=TASK_STATE_COMPLETED&statusTimestampAfter=" +
			url.QueryEscape(text(task, "status", "timestamp")))
		if got := list(a.result, "tasks"); len(got) != 1 || len(list(got[0], "artifacts")) != 1 {
			t.Errorf("got %s, want the one task with artifacts", a.body)
		}
		c.wantFault(get("/tasks?page_size=1"), "INVALID_PARAMS")
		c.wantFault(get("/tasks?pageSize=one"), "INVALID_PARAMS")
		c.wantFault(get("/tasks/a%2Fb"), "TASK_NOT_FOUND")
		if got := text(get("/tasks/a%2Fb").fault.info(), "metadata", "taskId"); got != "a/b" {
			t.Errorf("the id a%%2Fb was read as %q", got)
		}
	},
	114: func(t *testing.T, w *world) {
		for name, a := range w.failures(t) {
			if a.fault.code != a.status || a.fault.status == "" || a.fault.info() == nil {
				t.Errorf("%s: HTTP %d %s, want the status in it and ErrorInfo", name, a.status, a.body)
			}
		}
	},
	115: func(t *testing.T, w *world) {
		s := w.as(t, w.Alice).open("SendStreamingMessage", say("ref-stream-5", nil))
		kinds := map[string]bool{"task": true, "message": true, "statusUpdate": true, "artifactUpdate": true}
		for _, event := range s.rest() {
			for kind := range event {
				if len(event) != 1 || !kinds[kind] {
					t.Errorf("event %s, want a StreamResponse", encode(event))
				}
			}
		}
		if got := s.Header.Get("Content-Type"); got != "text/event-stream" {
			t.Errorf("Content-Type %q", got)
		}
	},
}

// conn is our own client of the agent behind the target.
func (w *world) conn(t *testing.T, credential string) *a2a.Conn {
	tr := &http.Transport{}
	t.Cleanup(tr.CloseIdleConnections)
	dial := new(net.Dialer).DialContext
	pool := a2agrpc.NewPool(a2agrpc.PoolOptions{DialTLS: dial, DialPlain: dial})
	t.Cleanup(pool.Close)
	endpoint := a2a.Endpoint{URL: w.URL, Binding: w.side.Caller, Version: a2a.V10}
	if w.grpc() {
		endpoint.URL, endpoint.Tenant = "http://"+w.GRPC, w.Tenant
	}
	return &a2a.Conn{Client: &a2a.Client{Transport: tr, GRPC: &a2agrpc.Client{Pool: pool}}, Endpoint: endpoint,
		Header: http.Header{"Authorization": {credential}}}
}
