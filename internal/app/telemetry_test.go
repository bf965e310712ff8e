package app_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/parley-mesh/parley/internal/a2a"
	"github.com/parley-mesh/parley/internal/app"
	"github.com/parley-mesh/parley/internal/config"
	"github.com/parley-mesh/parley/internal/control"
	"github.com/parley-mesh/parley/internal/parleytest"
)

func hello(_ context.Context, q *a2a.Request) *a2a.Reply {
	return a2a.Answer(q.Method, a2a.SendMessageResponse{Message: &a2a.Message{
		MessageID: "answer", Role: a2a.RoleAgent, Parts: []a2a.Part{a2a.TextPart("hello")},
	}})
}

// A caller's trace goes through the mesh: one span of the mesh's own stands
// between the caller's and the agent's, and the record names it.
func TestCallersTraceIsContinued(t *testing.T) {
	spans := tracetest.NewSpanRecorder()
	m := parleytest.Start(t, parleytest.Options{App: app.Options{Spans: spans}})
	agent := m.Agent("echo")
	agent.Answer(hello)
	const trace, parent = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
	caller := m.Caller("echo", a2a.JSONRPC, m.Key("alice", "")).With("Traceparent", "00-"+trace+"-"+parent+"-01").With("Tracestate", "vendor=kept")
	if reply, _ := caller.Do(t.Context(), a2a.SendMessage, parleytest.Message("m", "hi")); reply.Err != nil {
		t.Fatal(reply.Err)
	}
	call := m.WaitCall(control.CallFilter{Agent: "echo"}, parleytest.Ended)
	m.Stop() // flushes

	ended := spans.Ended()
	if len(ended) != 1 {
		t.Fatalf("%d spans, want one", len(ended))
	}
	span := ended[0]
	if got := span.SpanContext().TraceID().String(); got != trace || got != call.TraceID {
		t.Errorf("trace %s, record %s, want the caller's %s", got, call.TraceID, trace)
	}
	if got := span.Parent().SpanID().String(); got != parent {
		t.Errorf("parent span %s, want the caller's %s", got, parent)
	}
	own := span.SpanContext().SpanID().String()
	if call.SpanID != own {
		t.Errorf("the record names span %s, want %s", call.SpanID, own)
	}
	seen := agent.Last().Header
	if got, want := seen.Get("Traceparent"), "00-"+trace+"-"+own+"-01"; got != want {
		t.Errorf("the agent got traceparent %q, want %q", got, want)
	}
	if got := seen.Get("Tracestate"); got != "vendor=kept" {
		t.Errorf("the agent got tracestate %q", got)
	}
	attributes := fmt.Sprint(span.Attributes())
	for _, want := range []string{"parley.call.id", call.ID, "gen_ai.agent.name", "a2a.method.name", "parley.outcome"} {
		if !strings.Contains(attributes, want) {
			t.Errorf("span attributes lack %s: %s", want, attributes)
		}
	}
}

// The span of a call whose task goes on ends with the exchange: a span that
// waited for the task would be lost with the mesh.
func TestSpanDoesNotWaitForTheTask(t *testing.T) {
	spans := tracetest.NewSpanRecorder()
	m := parleytest.Start(t, parleytest.Options{App: app.Options{Spans: spans}})
	m.Agent("worker").Answer(func(_ context.Context, q *a2a.Request) *a2a.Reply {
		return a2a.Answer(q.Method, a2a.SendMessageResponse{Task: &a2a.Task{ID: "t", ContextID: "c", Status: a2a.TaskStatus{State: a2a.StateWorking}}})
	})
	if reply, _ := m.Caller("worker", a2a.JSONRPC, m.Key("alice", "")).Do(t.Context(), a2a.SendMessage, parleytest.Message("m", "hi")); reply.Err != nil {
		t.Fatal(reply.Err)
	}
	if started, ended := len(spans.Started()), len(spans.Ended()); started != 1 || ended != 1 {
		t.Errorf("%d spans started and %d ended, want one each", started, ended)
	}
}

// Spans and metrics go to the configured collectors, with the configured
// headers, at the latest when the mesh stops.
func TestCollectorsGetTracesAndMetrics(t *testing.T) {
	got := make(chan *http.Request, 8)
	collector := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if _, err := io.Copy(io.Discard, r.Body); err != nil {
			t.Error(err)
		}
		got <- r
	}))
	defer collector.Close()
	m := parleytest.Start(t, parleytest.Options{Configure: func(c *config.Config) {
		c.Telemetry.TracesEndpoint, c.Telemetry.MetricsEndpoint = collector.URL, collector.URL
		c.Telemetry.TracesHeaders = config.NewSecret("X-Collector-Key: secret of /v1/traces\n")
		c.Telemetry.MetricsHeaders = config.NewSecret("X-Collector-Key: secret of /v1/metrics\n")
		c.Telemetry.MetricsInterval = time.Hour
	}})
	m.Agent("echo").Answer(hello)
	if reply, _ := m.Caller("echo", a2a.HTTPJSON, m.Key("alice", "")).Do(t.Context(), a2a.SendMessage, parleytest.Message("m", "hi")); reply.Err != nil {
		t.Fatal(reply.Err)
	}
	m.Stop()
	close(got) // both deliveries have been answered
	paths := map[string]bool{}
	for r := range got {
		paths[r.URL.Path] = true
		if key := r.Header.Get("X-Collector-Key"); key != "secret of "+r.URL.Path {
			t.Errorf("%s %s came with key %q", r.Method, r.URL.Path, key)
		}
	}
	if !paths["/v1/traces"] || !paths["/v1/metrics"] {
		t.Errorf("the collector got %v by the time the mesh had stopped", paths)
	}
}

func TestMetricsTellOfCalls(t *testing.T) {
	m := parleytest.Start(t, parleytest.Options{App: app.Options{Version: "7.8.9"}})
	m.Agent("echo").Answer(hello)
	key := m.Key("alice", "")
	if reply, _ := m.Caller("echo", a2a.JSONRPC, key).Do(t.Context(), a2a.SendMessage, parleytest.Message("m", "hi")); reply.Err != nil {
		t.Fatal(reply.Err)
	}
	if reply, _ := m.Caller("unregistered", a2a.JSONRPC, key).Do(t.Context(), a2a.SendMessage, parleytest.Message("m2", "hi")); reply.Err == nil {
		t.Fatal("a call to an unknown agent was answered")
	}
	m.WaitCall(control.CallFilter{Agent: "echo"}, parleytest.Ended)
	page := get(t, m.Ready.Ops+"/metrics")
	for _, want := range []string{
		`parley_calls_total{a2a_method_name="SendMessage",gen_ai_agent_name="echo",parley_outcome="ok"} 1`,
		`parley_call_duration_seconds_count{a2a_method_name="SendMessage",gen_ai_agent_name="echo"} 1`,
		"parley_calls_open 0", "parley_store_commit_seconds_count", "parley_pushes_pending 0",
		`target_info{service_name="parley",service_version="7.8.9"} 1`,
	} {
		if !strings.Contains(page, want) {
			t.Errorf("/metrics lacks %s", want)
		}
	}
	for _, never := range []string{"unregistered", "alice", key} {
		if strings.Contains(page, never) {
			t.Errorf("/metrics names %q: labels must be bounded and hold no caller", never)
		}
	}
}

func get(t *testing.T, url string) string {
	t.Helper()
	resp, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(body)
}
