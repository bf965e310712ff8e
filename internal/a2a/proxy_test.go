package a2a

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
)

// proxy passes every call on to one endpoint, as a gateway does.
func proxy(t testing.TB, ep Endpoint) string {
	client := &Client{Transport: testTransport(t)}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		q, failure := Open(r, r.URL.EscapedPath(), ServerOptions{})
		if failure == nil {
			failure = q.ReadFrom(w, r)
		}
		if failure != nil {
			_, _ = Respond(r.Context(), w, q, Fail(failure), ServerOptions{})
			return
		}
		rep, err := client.Do(r.Context(), ep, q, nil)
		if err != nil {
			rep = Fail(NewError(ReasonInvalidAgentResponse, "the agent gave no answer"))
			var te *TransportError
			if !errors.As(err, &te) {
				t.Errorf("Do: %v is no *TransportError", err)
			}
		}
		_, _ = Respond(r.Context(), w, q, rep, ServerOptions{})
	}))
	t.Cleanup(s.Close)
	return s.URL
}

// Every pair of bindings gives the caller the same outcome, and the same binding
// on both sides the same bytes as without the proxy.
func TestProxyBindings(t *testing.T) {
	agent := startAgent(t, HandlerFunc(echoAgent))
	calls := []struct {
		name              string
		method            Method
		params            string
		verb, path, query string // REST
	}{
		{"send", SendMessage, `{"message":{"messageId":"m1","role":"ROLE_USER","parts":[{"text":"hé"}],"x":{"y":1}},"z":[1]}`, "POST", "/message:send", ""},
		{"fail", SendMessage, `{"message":{"messageId":"fail-TASK_NOT_CANCELABLE","role":"ROLE_USER","parts":[{"text":"hi"}]}}`, "POST", "/message:send", ""},
		{"invalid", SendMessage, `{"message":{"messageId":"m1","role":"ROLE_NOBODY","parts":[]}}`, "POST", "/message:send", ""},
		{"stream", SendStreamingMessage, `{"message":{"messageId":"m1","role":"ROLE_USER","parts":[{"text":"hi"}]}}`, "POST", "/message:stream", ""},
		{"stream error", SendStreamingMessage, `{"message":{"messageId":"broken","role":"ROLE_USER","parts":[{"text":"hi"}]}}`, "POST", "/message:stream", ""},
		{"stream cut", SendStreamingMessage, `{"message":{"messageId":"short","role":"ROLE_USER","parts":[{"text":"hi"}]}}`, "POST", "/message:stream", ""},
		{"get", GetTask, `{"id":"a/b","historyLength":0}`, "GET", "/tasks/a%2Fb", "historyLength=0"},
		{"get missing", GetTask, `{"id":"missing"}`, "GET", "/tasks/missing", ""},
		{"list", ListTasks, `{"status":"TASK_STATE_WORKING","pageSize":3}`, "GET", "/tasks", "status=TASK_STATE_WORKING&pageSize=3"},
		{"list bad", ListTasks, `{"pageSize":0}`, "GET", "/tasks", "pageSize=0"},
		{"cancel", CancelTask, `{"id":"t1"}`, "POST", "/tasks/t1:cancel", ""},
		{"subscribe missing", SubscribeToTask, `{"id":"missing"}`, "POST", "/tasks/missing:subscribe", ""},
		{"push get", GetPushConfig, `{"taskId":"t1","id":"p1"}`, "GET", "/tasks/t1/pushNotificationConfigs/p1", ""},
		{"push delete", DeletePushConfig, `{"taskId":"t1","id":"p1"}`, "DELETE", "/tasks/t1/pushNotificationConfigs/p1", ""},
		{"card", GetExtendedCard, `{}`, "GET", "/extendedAgentCard", ""},
	}
	for _, caller := range []Binding{JSONRPC, HTTPJSON} {
		for _, upstream := range []Binding{JSONRPC, HTTPJSON} {
			through := proxy(t, Endpoint{URL: agent, Binding: upstream, Version: V10})
			for _, c := range calls {
				t.Run(fmt.Sprintf("%s to %s/%s", caller, upstream, c.name), func(t *testing.T) {
					var want, got string
					if caller == JSONRPC {
						body := `{"id":"q-1","jsonrpc":"2.0","method":"` + string(c.method) + `","params":` + c.params + `}`
						want, got = rawCall(t, "POST", agent, body), rawCall(t, "POST", through, body)
					} else {
						body, target := "", c.path
						if c.verb == "POST" && !c.method.NamesTask() {
							body = c.params
						}
						if c.query != "" {
							target += "?" + c.query
						}
						want, got = rawCall(t, c.verb, agent+target, body), rawCall(t, c.verb, through+target, body)
					}
					if c.name == "stream cut" {
						if n := strings.Count(got, "data: "); n != 3 || !strings.Contains(got, string(ReasonInvalidAgentResponse)) {
							t.Errorf("a stream that ends early must end in an error frame, got\n%s", got)
						}
						return
					}
					if maskTime(got) != maskTime(want) {
						t.Errorf("through the proxy\n%s\nwant as direct\n%s", got, want)
					}
				})
			}
		}
	}
}

func rawCall(t testing.TB, verb, url, body string) string {
	t.Helper()
	req, err := http.NewRequest(verb, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("A2A-Version", "1.0")
	req.Header.Set("Content-Type", "application/json")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("%d %s\n%s", resp.StatusCode, resp.Header.Get("Content-Type"), data)
}

// maskTime blanks the digits of timestamps, which differ between two calls.
func maskTime(s string) string {
	const mark = `"timestamp":"`
	var b strings.Builder
	for {
		i := strings.Index(s, mark)
		if i < 0 {
			return b.String() + s
		}
		b.WriteString(s[:i] + mark)
		s = s[i+len(mark):]
		s = s[strings.IndexByte(s, '"'):]
	}
}

// BenchmarkOwnPath is what this package itself costs on the hot path, JSON-RPC in
// and out at 1 KB: everything but net/http.
func BenchmarkOwnPath(b *testing.B) {
	body := []byte(benchBody())
	answer := []byte(`{"jsonrpc":"2.0","id":7,"result":{"message":{"messageId":"r1","contextId":"0197b0e2-7f5c-7a3e-9d0e-1c2b3a495868","role":"ROLE_AGENT","parts":[{"text":"` + strings.Repeat("Fine. ", 120) + `"}]}}}`)
	client := &Client{Transport: cannedTransport(answer)}
	ep := Endpoint{URL: "http://127.0.0.1:9/rpc", Binding: JSONRPC, Version: V10}
	r := httptest.NewRequest("POST", "/", nil)
	r.Header = http.Header{"A2a-Version": {"1.0"}, "Content-Type": {"application/json"}}
	r.ContentLength = int64(len(body))
	header := http.Header{"Authorization": {"Bearer x"}}
	var w nullWriter
	reader := bytes.NewReader(body)
	b.SetBytes(int64(len(body)))
	b.ReportAllocs()
	for b.Loop() {
		reader.Reset(body)
		q, failure := Open(r, "/", ServerOptions{})
		if failure == nil {
			failure = q.ReadBody(reader)
		}
		if failure != nil {
			b.Fatal(failure)
		}
		rep, err := client.Do(r.Context(), ep, q, header)
		if err != nil {
			b.Fatal(err)
		}
		w.header = http.Header{}
		if _, err := Respond(r.Context(), &w, q, rep, ServerOptions{}); err != nil {
			b.Fatal(err)
		}
	}
}

type cannedTransport []byte

func (c cannedTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	return &http.Response{StatusCode: 200, Header: http.Header{}, ContentLength: int64(len(c)), Body: io.NopCloser(bytes.NewReader(c))}, nil
}

type nullWriter struct{ header http.Header }

func (w *nullWriter) Header() http.Header         { return w.header }
func (w *nullWriter) Write(p []byte) (int, error) { return len(p), nil }
func (w *nullWriter) WriteHeader(int)             {}

func BenchmarkReadBody(b *testing.B) {
	body := []byte(benchBody())
	r := httptest.NewRequest("POST", "/", nil)
	r.Header = http.Header{"A2a-Version": {"1.0"}, "Content-Type": {"application/json"}}
	r.ContentLength = int64(len(body))
	reader := bytes.NewReader(body)
	b.SetBytes(int64(len(body)))
	b.ReportAllocs()
	for b.Loop() {
		reader.Reset(body)
		q, err := Open(r, "/", ServerOptions{})
		if err == nil {
			err = q.ReadBody(reader)
		}
		if err != nil {
			b.Fatal(err)
		}
	}
}

func benchBody() string {
	text := strings.Repeat("The quick brown fox jumps over the lazy dog. ", 12)
	return `{"jsonrpc":"2.0","id":7,"method":"SendMessage","params":{"message":{"messageId":"0197b0e2-7f5c-7a3e-9d0e-1c2b3a495867","contextId":"0197b0e2-7f5c-7a3e-9d0e-1c2b3a495868","role":"ROLE_USER","parts":[{"text":"` +
		text + `"},{"data":{"amount":1200,"currency":"EUR","tags":["a","b"]},"mediaType":"application/json"}],"metadata":{"trace":"abc"}},"configuration":{"acceptedOutputModes":["text/plain"],"returnImmediately":false,"historyLength":5}}}`
}

// BenchmarkProxy is a whole call over loopback: client, proxy and agent in one
// process.
func BenchmarkProxy(b *testing.B) {
	agent := startAgent(b, HandlerFunc(func(ctx context.Context, q *Request) *Reply {
		return &Reply{Result: jsontext.Value(`{"message":{"messageId":"r1","contextId":"c1","role":"ROLE_AGENT","parts":[{"text":"ok"}]}}`)}
	}))
	through := proxy(b, Endpoint{URL: agent, Binding: JSONRPC, Version: V10})
	body := benchBody()
	b.ReportAllocs()
	for b.Loop() {
		req, _ := http.NewRequest("POST", through, strings.NewReader(body))
		req.Header = http.Header{"A2a-Version": {"1.0"}, "Content-Type": {"application/json"}}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			b.Fatal(err)
		}
		_, _ = io.Copy(io.Discard, resp.Body)
		resp.Body.Close()
	}
}
