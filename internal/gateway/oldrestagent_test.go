package gateway_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"iter"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	old "github.com/a2aproject/a2a-go/a2a"
	sdk "github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/a2aproject/a2a-go/v2/a2acompat/a2av0"
	"github.com/a2aproject/a2a-go/v2/a2asrv"

	"github.com/parley-mesh/parley/internal/a2a"
	"github.com/parley-mesh/parley/internal/control"
	"github.com/parley-mesh/parley/internal/parleytest"
)

// oldRESTCard is the card of an agent of 0.3 over HTTP+JSON at an address.
func oldRESTCard(w http.ResponseWriter, address string) {
	fmt.Fprintf(w, `{"name":"rest","description":"r","version":"1","protocolVersion":"0.3.0","url":%q,"preferredTransport":"HTTP+JSON",
		"capabilities":{"streaming":true},"defaultInputModes":["text/plain"],"defaultOutputModes":["text/plain"],
		"skills":[{"id":"s","name":"s","description":"s","tags":["s"]}]}`, address)
}

// TestOldRESTAgent: callers of 1.0 and 0.3 work through the mesh with an agent that
// serves 0.3 over HTTP+JSON alone, by the official Go SDK; that of 0.3 has no such
// binding.
func TestOldRESTAgent(t *testing.T) {
	m := parleytest.Start(t, parleytest.Options{})
	key := m.Key("alice", "")
	handler := a2av0.NewRESTHandler(a2asrv.NewHandler(restEcho{}))
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == a2a.CardPath {
			oldRESTCard(w, "http://"+r.Host+"/")
			return
		}
		handler.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	m.Add(control.NewAgent{Name: "rest", URL: server.URL})
	for _, b := range bindings {
		c, ctx := m.Caller("rest", b, key), t.Context()
		done := mustSend(t, c, parleytest.Message(fresh("m"), "hello"))
		if done.Status.State != a2a.StateCompleted || len(done.Artifacts) != 1 || *done.Artifacts[0].Parts[0].Text != "hello" {
			t.Errorf("%s: got %+v, want a completed task", b, done)
		}
		stream, err := c.SendStreamingMessage(ctx, parleytest.Message(fresh("m"), "flow"))
		if err != nil {
			t.Fatal(err)
		}
		if last, err := drain(ctx, stream); err != io.EOF || last == nil || last.StatusUpdate == nil || last.StatusUpdate.Status.State != a2a.StateCompleted {
			t.Errorf("%s: the stream ended with %+v, %v", b, last, err)
		}
		if got, err := c.GetTask(ctx, a2a.GetTaskRequest{ID: done.ID}); err != nil || got.ID != done.ID || len(got.History) == 0 {
			t.Errorf("%s: get %+v, %v", b, got, err)
		}
		wait := parleytest.Message(fresh("m"), "wait")
		wait.Configuration = &a2a.SendMessageConfiguration{ReturnImmediately: true}
		open := mustSend(t, c, wait)
		if got, err := c.CancelTask(ctx, a2a.CancelTaskRequest{ID: open.ID}); err != nil || got.Status.State != a2a.StateCanceled {
			t.Errorf("%s: cancel %+v, %v", b, got, err)
		}
		reply, _ := c.Do(ctx, a2a.SubscribeToTask, a2a.SubscribeToTaskRequest{ID: open.ID})
		wantErr(t, "subscribe to a task that has ended", reply, a2a.ReasonUnsupportedOperation)
		reply, _ = c.Do(ctx, a2a.GetTask, a2a.GetTaskRequest{ID: "no-such-task"})
		wantErr(t, "get a task that is not there", reply, a2a.ReasonTaskNotFound)
	}
	if got := oldTask(t, oldCaller(t, m.URL("rest"), key), oldMessage(fresh("m"))); got.Status.State != old.TaskStateCompleted {
		t.Errorf("by JSON-RPC of 0.3: %+v", got)
	}
}

// restEcho says again what it is told, or works until it is canceled.
type restEcho struct{}

// Execute implements a2asrv.AgentExecutor.
func (restEcho) Execute(ctx context.Context, in *a2asrv.ExecutorContext) iter.Seq2[sdk.Event, error] {
	return func(yield func(sdk.Event, error) bool) {
		text := in.Message.Parts[0].Text()
		if !yield(sdk.NewSubmittedTask(in, in.Message), nil) || !yield(sdk.NewStatusUpdateEvent(in, sdk.TaskStateWorking, nil), nil) {
			return
		}
		if text == "wait" {
			<-ctx.Done()
			return
		}
		_ = yield(sdk.NewArtifactEvent(in, sdk.NewTextPart(text)), nil) && yield(sdk.NewStatusUpdateEvent(in, sdk.TaskStateCompleted, nil), nil)
	}
}

// Cancel implements a2asrv.AgentExecutor.
func (restEcho) Cancel(_ context.Context, in *a2asrv.ExecutorContext) iter.Seq2[sdk.Event, error] {
	return func(yield func(sdk.Event, error) bool) {
		yield(sdk.NewStatusUpdateEvent(in, sdk.TaskStateCanceled, nil), nil)
	}
}

// TestOldRESTPasses: between two sides of 0.3 over HTTP+JSON bodies pass as they came,
// also those of errors and streams, with members that nobody knows.
func TestOldRESTPasses(t *testing.T) {
	m := parleytest.Start(t, parleytest.Options{})
	key := m.Key("alice", "")
	id := fresh("t")
	task := `{"x-new":[1.50], "id":"` + id + `","contextId":"c-` + id + `","status":{"state":"TASK_STATE_WORKING"}}`
	answers := map[string]string{ // by what the agent is asked
		"POST /v1/message:send":            `{ "task":` + task + `}`,
		"GET /v1/tasks/" + id:              task,
		"POST /v1/message:stream":          "data: {\"task\":" + task + "}\n\ndata: {\"statusUpdate\":{\"x-new\":1e2,\"taskId\":\"" + id + "\",\"contextId\":\"c-" + id + "\",\"status\":{\"state\":\"TASK_STATE_COMPLETED\"},\"final\":true}}\n\n",
		"POST /v1/tasks/" + id + ":cancel": `{"code":-32002,"message":"it has ended", "x-new":1}`,
	}
	var sent atomic.Value
	sent.Store("")
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == a2a.CardPath {
			oldRESTCard(w, "http://"+r.Host+"/")
			return
		}
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		asked := r.Method + " " + r.URL.Path
		answer, ok := answers[asked]
		switch w.Header().Set("Content-Type", "application/json"); {
		case !ok:
			w.WriteHeader(http.StatusNotFound)
			answer = `{"code":-32001,"message":"task not found"}`
		case strings.HasSuffix(asked, ":stream"):
			w.Header().Set("Content-Type", "text/event-stream")
		case strings.HasSuffix(asked, ":cancel"):
			w.WriteHeader(http.StatusConflict)
		}
		sent.Store(string(body))
		_, _ = io.WriteString(w, answer)
	}))
	t.Cleanup(server.Close)
	m.Add(control.NewAgent{Name: "raw", URL: server.URL})
	body := func() string {
		return `{"later":{"a":1e2}, "message":{"messageId":"` + fresh("m") + `","role":"ROLE_USER","content":[{"text":"a"}]}}`
	}
	ask := func(verb, path, body string) string {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), verb, strings.TrimSuffix(m.URL("raw"), "/")+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		req.Header = http.Header{"Authorization": {"Bearer " + key}, "Content-Type": {"application/json"}}
		resp, err := http.DefaultTransport.RoundTrip(req)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		raw, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		return string(raw)
	}
	in := body()
	if got := ask(http.MethodPost, "/v1/message:send", in); got != answers["POST /v1/message:send"] || sent.Load() != in {
		t.Errorf("send: the agent got\n%s\nwant\n%s\nthe caller got\n%s", sent.Load(), in, got)
	}
	if got := ask(http.MethodGet, "/v1/tasks/"+id, ""); got != task {
		t.Errorf("get: %s", got)
	}
	if got := ask(http.MethodPost, "/v1/tasks/"+id+":cancel", ""); got != answers["POST /v1/tasks/"+id+":cancel"] {
		t.Errorf("cancel: %s", got)
	}
	var events []string
	for line := range strings.Lines(ask(http.MethodPost, "/v1/message:stream", body())) {
		if data, ok := strings.CutPrefix(line, "data: "); ok {
			events = append(events, "data: "+data+"\n")
		}
	}
	if got := strings.Join(events, ""); got != answers["POST /v1/message:stream"] {
		t.Errorf("stream:\n%s", got)
	}
}

// TestOldAddressWithoutSlash: stock clients of 0.3 use an address as it stands, and a
// redirect would lose them the body.
func TestOldAddressWithoutSlash(t *testing.T) {
	m := parleytest.Start(t, parleytest.Options{})
	key := m.Key("alice", "")
	m.Agent("new").Answer(func(_ context.Context, q *a2a.Request) *a2a.Reply {
		return a2a.Answer(q.Method, a2a.SendMessageResponse{Task: new(task(fresh("t"), "c", a2a.StateCompleted))})
	})
	got := oldTask(t, oldCaller(t, strings.TrimSuffix(m.URL("new"), "/"), key), oldMessage(fresh("m")))
	if got.Status.State != old.TaskStateCompleted {
		raw, _ := json.Marshal(got)
		t.Errorf("got %s", raw)
	}
}
