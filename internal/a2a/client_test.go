package a2a

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/parley-mesh/parley/internal/jsonwire"
)

// answering serves one fixed answer to every request.
func answering(t testing.TB, status int, contentType, body string) string {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", contentType)
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	}))
	t.Cleanup(s.Close)
	return s.URL
}

func sendRequest(t testing.TB, m Method) *Request {
	t.Helper()
	q, err := NewRequest(m, SendMessageRequest{Message: Message{MessageID: "m1", Role: RoleUser, Parts: []Part{TextPart("hi")}}})
	if err != nil {
		t.Fatal(err)
	}
	return q
}

// Answers that are none are told apart, and what an HTTP status says is kept.
func TestDoNonconforming(t *testing.T) {
	const msg = `{"message":{"messageId":"r1","role":"ROLE_AGENT","parts":[{"text":"a"}]}}`
	tests := []struct {
		name    string
		binding Binding
		status  int
		media   string
		body    string
		want    string // "reason" of Reply.Err, or stage and cause of the TransportError
	}{
		{"wrong id", JSONRPC, 200, mediaJSON, `{"jsonrpc":"2.0","id":2,"result":` + msg + `}`, "body: the answer carries another request's id"},
		{"id as text", JSONRPC, 200, mediaJSON, `{"jsonrpc":"2.0","id":"1","result":` + msg + `}`, "body: the answer carries another request's id"},
		{"neither", JSONRPC, 200, mediaJSON, `{"jsonrpc":"2.0","id":1}`, "body: the answer is not an A2A answer: a response has a result or an error, this has neither (byte 24)"},
		{"two members", JSONRPC, 200, mediaJSON, `{"jsonrpc":"2.0","id":1,"result":{"message":` + msg[11:len(msg)-1] + `,"task":{"id":"t","status":{"state":"TASK_STATE_WORKING"}}}}`, "body: the answer is not an A2A answer: /result: has more than one of task, message; give exactly one of them"},
		{"unknown state", JSONRPC, 200, mediaJSON, `{"jsonrpc":"2.0","id":1,"result":{"task":{"id":"t","status":{"state":"done"}}}}`, "body: the answer is not an A2A answer: /result/task/status/state: is not one of the defined values"},
		{"HTML", JSONRPC, 200, "text/html", `<html>`, "body: the answer is not an A2A answer: not valid JSON: invalid character '<' at start of value"},
		{"HTML 502", JSONRPC, 502, "text/html", `<html>`, "UNAVAILABLE bare"},
		{"HTML 413", HTTPJSON, 413, "text/html", `<html>`, "REQUEST_TOO_LARGE bare"},
		{"redirect", HTTPJSON, 307, "text/html", ``, "INTERNAL_ERROR bare"},
		{"bare 404", HTTPJSON, 404, mediaJSON, `{"detail":"Not Found"}`, "METHOD_NOT_FOUND bare"},
		{"bare 401", JSONRPC, 401, "text/plain", `no`, "UNAUTHENTICATED bare"},
		{"error with null id", JSONRPC, 200, mediaJSON, `{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"m"}}`, "PARSE_ERROR"},
		{"error with a status", JSONRPC, 403, mediaJSON, `{"jsonrpc":"2.0","id":1,"error":{"code":-31403,"message":"m"}}`, "PERMISSION_DENIED"},
		{"REST result", HTTPJSON, 201, mediaA2A, msg, ""},
		{"REST cut", HTTPJSON, 200, mediaA2A, msg[:20], "body: the answer is not an A2A answer: /message: not valid JSON: the text ends too early"},
		{"too large", HTTPJSON, 200, mediaA2A, msg + strings.Repeat(" ", 2000), "body: the answer is over the size limit"},
		{"duplicate name", HTTPJSON, 200, mediaA2A, `{"message":1,"message":2}`, "body: the answer is not an A2A answer: /message: must be an object, not a number"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c := &Client{Transport: testTransport(t), Limits: jsonwire.Limits{MaxBytes: 1500}}
			rep, err := c.Do(t.Context(), Endpoint{URL: answering(t, tt.status, tt.media, tt.body), Binding: tt.binding}, sendRequest(t, SendMessage), nil)
			got := ""
			var te *TransportError
			switch {
			case errors.As(err, &te):
				got = fmt.Sprintf("%s: %v", te.Stage, te.Err)
				if te.Status != tt.status || !te.Wrote {
					t.Errorf("TransportError %+v, want status %d and Wrote", te, tt.status)
				}
			case err != nil:
				t.Fatalf("error %T: %v", err, err)
			case rep.Err != nil:
				got = string(rep.Err.Reason)
				if rep.Err.Bare {
					got += " bare"
				}
			}
			if !strings.HasPrefix(got, tt.want) || tt.want == "" && got != "" {
				t.Errorf("got  %s\nwant %s", got, tt.want)
			}
		})
	}
}

func TestDoNotSpoken(t *testing.T) {
	_, err := (&Client{}).Do(t.Context(), Endpoint{URL: "a:1", Binding: "GRPC"}, sendRequest(t, SendMessage), nil)
	var te *TransportError
	if !errors.As(err, &te) || te.Wrote {
		t.Errorf("Do = %v", err)
	}
}

// How far a failed request came decides whether it may be repeated.
func TestDoStages(t *testing.T) {
	refused, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	refused.Close()
	hangUp := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		conn, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		conn.Close()
	}))
	t.Cleanup(hangUp.Close)
	cut := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Length", "100")
		_, _ = io.WriteString(w, "{")
	}))
	t.Cleanup(cut.Close)
	for _, tt := range []struct {
		name, url string
		stage     Stage
		wrote     bool
	}{
		{"nobody listens", "http://" + refused.Addr().String(), StageDial, false},
		{"bad address", "http://[::1", StageDial, false},
		{"hangs up", hangUp.URL, StageHeaders, true},
		{"cut body", cut.URL, StageBody, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, err := (&Client{Transport: testTransport(t)}).Do(t.Context(), Endpoint{URL: tt.url, Binding: JSONRPC}, sendRequest(t, SendMessage), nil)
			var te *TransportError
			errors.As(err, &te)
			// A peer that hangs up at once may be noticed before the writer is done.
			early := te != nil && te.Stage == StageWrite && tt.stage == StageHeaders
			if te == nil || te.Stage != tt.stage && !early || te.Wrote != tt.wrote {
				t.Errorf("Do = %#v, want stage %s, wrote %v", err, tt.stage, tt.wrote)
			}
		})
	}
}

func TestClientStreams(t *testing.T) {
	const (
		working = `data: {"task":{"id":"t","contextId":"c","status":{"state":"TASK_STATE_WORKING"}}}` + "\n\n"
		asking  = `data: {"statusUpdate":{"taskId":"t","contextId":"c","status":{"state":"TASK_STATE_INPUT_REQUIRED"}}}` + "\n\n"
		part    = `data: {"artifactUpdate":{"taskId":"t","contextId":"c","artifact":{"artifactId":"a","parts":[{"text":"x"}]}}}` + "\n\n"
		final   = `data: {"statusUpdate":{"taskId":"t","contextId":"c","status":{"state":"TASK_STATE_FAILED"}}}` + "\n\n"
		message = `data: {"message":{"messageId":"m","role":"ROLE_AGENT","parts":[{"text":"x"}]}}` + "\n\n"
	)
	tests := []struct {
		name, body string
		frames     int
		want       error // nil: io.EOF
	}{
		{"final", working + part + final, 3, nil},
		{"message", message, 1, nil},
		{"interrupted", working + asking + part, 3, nil},
		{"ends early", working + part, 2, ErrEndEarly},
		{"resumed and ends early", working + asking + working, 3, ErrEndEarly},
		{"empty", "", 0, ErrEndEarly},
		{"only comments", ": hi\n\n", 0, ErrEndEarly},
		{"cut in a frame", working + final[:40], 1, ErrEndEarly},
		{"nonsense", working + "data: {}\n\n", 1, ErrNotA2A},
		{"not JSON", "data: hello\n\n", 0, ErrNotA2A},
		{"huge", "data: " + strings.Repeat(" ", 3000) + "\n\n", 0, ErrTooLarge},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c := &Client{Transport: testTransport(t), MaxFrame: 2000}
			rep, err := c.Do(t.Context(), Endpoint{URL: answering(t, 200, mediaSSE, tt.body), Binding: HTTPJSON}, sendRequest(t, SendStreamingMessage), nil)
			if err != nil {
				t.Fatal(err)
			}
			defer rep.Stream.Close()
			n := 0
			for err == nil {
				if _, err = rep.Stream.Next(t.Context()); err == nil {
					n++
				}
			}
			want := tt.want
			if want == nil {
				want = io.EOF
			}
			if n != tt.frames || !errors.Is(err, want) {
				t.Errorf("%d frames, then %v; want %d, then %v", n, err, tt.frames, want)
			}
			if again, err2 := rep.Stream.Next(t.Context()); !errors.Is(err2, err) || again.Result != nil {
				t.Errorf("after the end: %+v, %v", again, err2)
			}
		})
	}
}

func TestClientStreamNextEndsWithContext(t *testing.T) {
	started := make(chan struct{})
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", mediaSSE)
		_ = http.NewResponseController(w).Flush()
		close(started)
		<-r.Context().Done()
	}))
	defer s.Close()
	rep, err := (&Client{Transport: testTransport(t)}).Do(t.Context(), Endpoint{URL: s.URL, Binding: HTTPJSON}, sendRequest(t, SendStreamingMessage), nil)
	if err != nil {
		t.Fatal(err)
	}
	<-started
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { _, err := rep.Stream.Next(ctx); done <- err }()
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Errorf("Next: %v", err)
	}
	rep.Stream.Close()
}

// A subscription is tried by POST, then by GET.
func TestSubscribeByGET(t *testing.T) {
	for _, refusal := range []int{404, 405} {
		var verbs []string
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			verbs = append(verbs, r.Method+" "+r.URL.Path)
			if r.Method == "POST" {
				w.WriteHeader(refusal)
				return
			}
			w.Header().Set("Content-Type", mediaSSE)
			_, _ = io.WriteString(w, `data: {"task":{"id":"t","status":{"state":"TASK_STATE_COMPLETED"}}}`+"\n\n")
		}))
		c := &Conn{Client: &Client{Transport: testTransport(t)}, Endpoint: Endpoint{URL: s.URL + "/a/", Binding: HTTPJSON}}
		es, err := c.SubscribeToTask(t.Context(), SubscribeToTaskRequest{ID: "t"})
		if err != nil {
			t.Fatal(err)
		}
		if kinds, err := drain(t.Context(), es); kinds != "task" || err != io.EOF {
			t.Errorf("%q, %v", kinds, err)
		}
		if got := strings.Join(verbs, ", "); got != "POST /a/tasks/t:subscribe, GET /a/tasks/t:subscribe" {
			t.Errorf("asked %s", got)
		}
		s.Close()
	}
}

// Peers confirm a deletion in several ways; the caller gets the peer's own where
// it speaks the same binding, else an empty object.
func TestDeleteAnswers(t *testing.T) {
	for _, tt := range []struct {
		upstream Binding
		status   int
		body     string
		caller   Binding
		want     string
	}{
		{HTTPJSON, 204, "", HTTPJSON, "204 application/json\n"},
		{HTTPJSON, 200, "", HTTPJSON, "200 application/json\n"},
		{HTTPJSON, 204, "", JSONRPC, "200 application/json\n" + `{"jsonrpc":"2.0","id":4,"result":{}}`},
		{JSONRPC, 200, `{"jsonrpc":"2.0","id":1,"result":null}`, HTTPJSON, "200 application/a2a+json\n{}"},
		{JSONRPC, 200, `{"jsonrpc":"2.0","id":1}`, HTTPJSON, "200 application/a2a+json\n{}"},
		{JSONRPC, 200, `{"jsonrpc":"2.0","id":4,"result":null}`, JSONRPC, "200 application/json\n" + `{"jsonrpc":"2.0","id":4,"result":null}`},
	} {
		through := proxy(t, Endpoint{URL: answering(t, tt.status, mediaJSON, tt.body), Binding: tt.upstream})
		got := ""
		if tt.caller == JSONRPC {
			got = rawCall(t, "POST", through, `{"jsonrpc":"2.0","id":4,"method":"DeleteTaskPushNotificationConfig","params":{"taskId":"t","id":"c"}}`)
		} else {
			got = rawCall(t, "DELETE", through+"/tasks/t/pushNotificationConfigs/c", "")
		}
		if got != tt.want {
			t.Errorf("%s %d %s to %s: %q, want %q", tt.upstream, tt.status, tt.body, tt.caller, got, tt.want)
		}
	}
}

// A router that takes the whole segment for a task's id must not pass its task off
// as a subscription: the first answer counts.
func TestSubscribeByGETMistaken(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == "POST" {
			w.WriteHeader(http.StatusMethodNotAllowed)
			return
		}
		_, _ = io.WriteString(w, `{"id":"t:subscribe","status":{"state":"TASK_STATE_COMPLETED"}}`)
	}))
	defer s.Close()
	c := &Conn{Client: &Client{Transport: testTransport(t)}, Endpoint: Endpoint{URL: s.URL, Binding: HTTPJSON}}
	_, err := c.SubscribeToTask(t.Context(), SubscribeToTaskRequest{ID: "t"})
	if !hasReason(err, ReasonMethodNotFound) {
		t.Errorf("SubscribeToTask: %v", err)
	}
}

// An agent's invalid answer does not reach the wire.
func TestAnswerIsChecked(t *testing.T) {
	if rep := Answer(GetTask, Task{ID: "t"}); rep.Err == nil || rep.Err.Reason != ReasonInternal {
		t.Errorf("a task without state: %+v", rep)
	}
	if f := StreamFrame(StreamResponse{}); f.Err == nil {
		t.Errorf("an empty event: %+v", f)
	}
}

// What goes out: version, one extension header, no compression, no key that
// makes the transport repeat a send, and the caller's bytes.
func TestDoRequest(t *testing.T) {
	var got *http.Request
	var body []byte
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		got = r
		body, _ = io.ReadAll(r.Body)
		w.Header().Add("A2A-Extensions", "https://e.example/1")
		w.Header().Add("A2A-Extensions", "https://e.example/2")
		w.Header().Set("X-Internal", "secret")
		_, _ = io.WriteString(w, `{"jsonrpc":"2.0","id":"é","result":{"message":{"messageId":"r","role":"ROLE_AGENT","parts":[{"text":"a"}]}}}`)
	}))
	defer s.Close()
	const raw = ` {"id":"é", "method":"SendMessage","params":{ "tenant":"mesh","message":{"messageId":"m","role":"ROLE_USER","parts":[{"text":"x"}], "n":1.50}},"jsonrpc":"2.0"}`
	open := func() *Request {
		r := httptest.NewRequest("POST", "/", strings.NewReader(raw))
		r.Header.Set("Content-Type", mediaJSON)
		r.Header.Add("A2A-Extensions", "https://e.example/1, https://e.example/2")
		r.Header.Add("A2A-Extensions", "https://e.example/2,https://e.example/3")
		q, err := Open(r, "", ServerOptions{})
		if err == nil {
			err = q.ReadBody(r.Body)
		}
		if err != nil {
			t.Fatal(err)
		}
		return q
	}
	header := http.Header{"Authorization": {"Bearer x"}, "Idempotency-Key": {"k"}}
	c := &Client{Transport: testTransport(t)}
	for _, tt := range []struct{ tenant, want string }{
		{"mesh", raw},
		{"", strings.Replace(raw, `"tenant":"mesh",`, "", 1)},
		{"agent/x", strings.Replace(raw, `"mesh"`, `"agent/x"`, 1)},
	} {
		q := open()
		rep, err := c.Do(t.Context(), Endpoint{URL: s.URL, Binding: JSONRPC, Tenant: tt.tenant}, q, header)
		if err != nil {
			t.Fatal(err)
		}
		if string(body) != tt.want {
			t.Errorf("tenant %q sends\n%s\nwant\n%s", tt.tenant, body, tt.want)
		}
		for name, want := range map[string]string{"A2A-Version": "1.0", "A2A-Extensions": "https://e.example/1, https://e.example/2, https://e.example/3",
			"Accept": mediaJSON, "Accept-Encoding": "identity", "Content-Type": mediaJSON, "Authorization": "Bearer x", "Idempotency-Key": ""} {
			if v := strings.Join(got.Header.Values(name), "|"); v != want {
				t.Errorf("%s: %q, want %q", name, v, want)
			}
		}
		if v := rep.Header.Values("A2A-Extensions"); len(rep.Header) != 1 || len(v) != 1 || v[0] != "https://e.example/1, https://e.example/2" {
			t.Errorf("headers for the caller: %v", rep.Header)
		}
		if rep.Raw == nil || rep.Facts.Kind != KindMessage || rep.Facts.MessageID != "r" {
			t.Errorf("reply %+v", rep)
		}
	}
	if header.Get("Idempotency-Key") == "" || len(header) != 2 {
		t.Errorf("Do changed the headers given: %v", header)
	}
	if _, err := c.Do(t.Context(), Endpoint{URL: s.URL, Binding: HTTPJSON, Tenant: ".."}, open(), nil); err == nil {
		t.Error("a tenant of two dots would leave the agent's path")
	}
}

func TestRequestEdits(t *testing.T) {
	const params = `{ "message":{"messageId":"m","role":"ROLE_USER","parts":[{"text":"x"}],"referenceTaskIds":["a", "b"]}}`
	for _, b := range []Binding{JSONRPC, HTTPJSON} {
		body, path := params, "/message:send"
		if b == JSONRPC {
			body, path = `{"jsonrpc":"2.0","method":"SendMessage","params":`+params+`,"id":1}`, "/"
		}
		r := httptest.NewRequest("POST", path, strings.NewReader(body))
		r.Header.Set("Content-Type", mediaJSON)
		q, err := Open(r, path, ServerOptions{})
		if err == nil {
			err = q.ReadBody(r.Body)
		}
		if err != nil {
			t.Fatal(err)
		}
		if got := strings.Join(q.Facts.ReferenceTaskIDs, " "); got != "a b" {
			t.Errorf("reference task ids %q", got)
		}
		for _, edit := range []func() error{
			func() error { return q.Set("/message/referenceTaskIds", jsontext.Value(`["a"]`)) },
			func() error { return q.Set("/message/contextId", jsontext.Value(`"c"`)) },
			func() error { return q.Delete("/message/messageId") },
			func() error { return q.Delete("/message/nothing") },
		} {
			if err := edit(); err != nil {
				t.Fatal(err)
			}
		}
		want := `{ "message":{"contextId":"c","role":"ROLE_USER","parts":[{"text":"x"}],"referenceTaskIds":["a"]}}`
		if string(q.Params) != want || string(q.Raw) != strings.Replace(body, params, want, 1) {
			t.Errorf("%s\nparams %s\nraw    %s", b, q.Params, q.Raw)
		}
	}
	q := &Request{Binding: JSONRPC, Raw: []byte(`{"jsonrpc":"2.0","id":1,"method":"ListTasks"}`), Params: jsontext.Value("{}")}
	for _, name := range []string{"/tenant", "/pageToken"} {
		if err := q.Set(name, jsontext.Value(`"x"`)); err != nil {
			t.Fatal(err)
		}
	}
	if want := `{"params":{"pageToken":"x","tenant":"x"},"jsonrpc":"2.0","id":1,"method":"ListTasks"}`; string(q.Raw) != want {
		t.Errorf("raw %s, want %s", q.Raw, want)
	}
}
