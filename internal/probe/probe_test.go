package probe_test

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/parley-mesh/parley/internal/parley"
	"github.com/parley-mesh/parley/internal/registry"
)

func TestStockAgentIsProven(t *testing.T) {
	a := newAgent(t)
	a.card = cardOf("", rpc(a.URL+"/rpc"), rest(a.URL+"/rest"), face{a.URL + "/slim", "SLIM", "1.0"})
	in, kind, text := look(t, loopback(), registry.InspectRequest{URL: a.URL})
	if text != "" {
		t.Fatalf("%v: %s", kind, text)
	}
	want := []registry.Interface{
		{URL: a.URL + "/rpc", Binding: "JSONRPC", Version: "1.0", Probe: "ok"},
		{URL: a.URL + "/rest", Binding: "HTTP+JSON", Version: "1.0", Probe: "ok"},
		{URL: a.URL + "/slim", Binding: "SLIM", Version: "1.0", Probe: "not spoken by the mesh"},
	}
	if diff := cmp.Diff(want, in.Interfaces); diff != "" || in.Use != 0 {
		t.Errorf("use %d; interfaces (-want +got):\n%s\n%v", in.Use, diff, in.Problems)
	}
	sum := sha256.Sum256([]byte(a.card))
	if string(in.Card) != a.card || in.Hash != hex.EncodeToString(sum[:]) || in.Title != "echo" || in.AgentVersion != "7" || in.CardURL != a.URL+"/.well-known/agent-card.json" {
		t.Errorf("found %+v", in)
	}
	if got := a.gets[0].Header.Get("A2A-Version"); got != "1.0" {
		t.Errorf("the card was asked for with A2A-Version %q", got)
	}
}

func TestLabelAndBehaviourAreCompared(t *testing.T) {
	a := newAgent(t)
	a.card = cardOf("", rpc(a.URL+"/rest"), rest(a.URL+"/rpc"))
	in, _, text := look(t, loopback(), registry.InspectRequest{URL: a.URL})
	if text != "" {
		t.Fatal(text)
	}
	for n, want := range []string{"HTTP+JSON", "JSONRPC"} {
		if i := in.Interfaces[n]; i.Probe != "ok" || i.Behaves != want || i.Speaks() != want {
			t.Errorf("interface %d: %+v, want it to behave as %s", n, i, want)
		}
	}
	if got := lines(in, registry.Warning); !strings.Contains(got, "supportedInterfaces[0]: is labelled JSONRPC, but HTTP+JSON answers there") {
		t.Errorf("warnings:\n%s", got)
	}
}

func TestFirstProvenInCardOrderIsUsed(t *testing.T) {
	a := newAgent(t)
	a.mux.HandleFunc("/down", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(503) })
	a.card = cardOf("", rpc(a.URL+"/down"), rest(a.URL+"/rest"), rpc(a.URL+"/rpc"))
	in, _, text := look(t, loopback(), registry.InspectRequest{URL: a.URL})
	if text != "" || in.Use != 1 || in.Interfaces[0].Probe != "HTTP 503: no JSON-RPC answer" {
		t.Errorf("use %d, interfaces %+v, %s", in.Use, in.Interfaces, text)
	}
}

func TestTenantOfAnInterface(t *testing.T) {
	a := newAgent(t)
	var paths []string
	a.mux.HandleFunc("/t/", func(w http.ResponseWriter, r *http.Request) {
		paths = append(paths, r.URL.EscapedPath())
		w.WriteHeader(http.StatusNotFound)
		fmt.Fprint(w, `{"error":{"code":404,"status":"NOT_FOUND","message":"no","details":[{"@type":"type.googleapis.com/google.rpc.ErrorInfo","reason":"TASK_NOT_FOUND","domain":"a2a-protocol.org"}]}}`)
	})
	a.card = strings.Replace(cardOf("", rest(a.URL+"/t")), `"protocolVersion"`, `"tenant":"a/b","protocolVersion"`, 1)
	in, _, text := look(t, loopback(), registry.InspectRequest{URL: a.URL})
	if text != "" || in.Use != 0 || len(paths) != 1 || !strings.HasPrefix(paths[0], "/t/a%2Fb/tasks/") {
		t.Errorf("use %d, asked %q, %s", in.Use, paths, text)
	}
}

// Every way an agent can answer the probe, and what is made of it.
func TestProbeResults(t *testing.T) {
	rpcError := func(code int, reason string) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			id := "null"
			if r.Method == http.MethodPost {
				body := make([]byte, 1024)
				n, _ := r.Body.Read(body)
				_, rest, _ := strings.Cut(string(body[:n]), `"id":`)
				id, _, _ = strings.Cut(rest, ",")
			}
			data := ""
			if reason != "" {
				data = `,"data":[{"@type":"type.googleapis.com/google.rpc.ErrorInfo","reason":"` + reason + `","domain":"a2a-protocol.org"}]`
			}
			fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"error":{"code":%d,"message":"m"%s}}`, id, code, data)
		}
	}
	says := func(status int, kind, body string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", kind)
			w.WriteHeader(status)
			fmt.Fprint(w, body)
		}
	}
	for _, tc := range []struct {
		name    string
		binding string
		answer  http.HandlerFunc
		probe   string
		behaves string
	}{
		{"task not found", "JSONRPC", rpcError(-32001, "TASK_NOT_FOUND"), "ok", ""},
		{"task not found by code alone", "JSONRPC", rpcError(-32001, ""), "ok", ""},
		{"another error of A2A", "JSONRPC", rpcError(-32004, "UNSUPPORTED_OPERATION"), "ok", ""},
		{"an internal error in its shape", "JSONRPC", rpcError(-32603, ""), "ok", ""},
		{"method not found", "JSONRPC", rpcError(-32601, ""), "JSON-RPC: does not know GetTask; an agent of another version of A2A answers so", ""},
		{"parse error", "JSONRPC", rpcError(-32700, ""), "JSON-RPC: could not read a GetTask request", ""},
		{"version not supported", "JSONRPC", rpcError(-32009, ""), "JSON-RPC: refuses this version of A2A (VersionNotSupported)", ""},
		{"unauthenticated inside 200", "JSONRPC", rpcError(-31401, "UNAUTHENTICATED"), "unauthorized", ""},
		{"forbidden inside 200", "JSONRPC", rpcError(-31403, "UNAUTHORIZED"), "unauthorized", ""},
		{"401", "JSONRPC", says(401, "text/plain", "no"), "unauthorized", ""},
		{"403", "HTTP+JSON", says(403, "text/plain", "no"), "unauthorized", ""},
		{"another id", "JSONRPC", says(200, "application/json", `{"jsonrpc":"2.0","id":1,"error":{"code":-32001,"message":"m"}}`), "JSON-RPC: answered with another id than it was asked with", ""},
		{"a task nobody made", "JSONRPC", says(200, "application/json", `{"jsonrpc":"2.0","id":1,"result":{"id":"x","status":{"state":"TASK_STATE_WORKING"}}}`), "JSON-RPC: knows a task that nobody made, where TaskNotFound was expected", ""},
		{"a web page", "JSONRPC", says(200, "text/html; charset=utf-8", "<html>"), "HTTP 200 with text/html: no JSON-RPC answer", ""},
		{"a redirect", "JSONRPC", func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/elsewhere", http.StatusFound) }, "HTTP 302: a redirect, and redirects are not followed", ""},
		{"too large", "JSONRPC", says(200, "application/json", strings.Repeat("x", 65<<10)), "the answer broke off, is too large or is not HTTP", ""},
		{"too deep", "JSONRPC", says(200, "application/json", `{"jsonrpc":"2.0","id":1,"result":`+strings.Repeat("[", 500)+strings.Repeat("]", 500)+"}"), "HTTP 200 with application/json: no JSON-RPC answer", ""},
		{"a page for 404", "HTTP+JSON", says(404, "text/html", "<html>"), "HTTP 404 with text/html: no HTTP+JSON answer", ""},
		{"an error object of 404 that names no error of A2A", "HTTP+JSON", says(404, "application/json", `{"error":{"code":404,"status":"NOT_FOUND","message":"no"}}`), "ok", ""},
		{"which proves nothing behind another label", "JSONRPC", says(404, "application/json", `{"error":{"code":404,"status":"NOT_FOUND","message":"no"}}`), "HTTP 404 with application/json: no JSON-RPC answer", ""},
		{"problem+json", "HTTP+JSON", says(404, "application/problem+json", `{"type":"https://a2a-protocol.org/errors/task-not-found","title":"Task Not Found","status":404}`), "ok", ""},
		{"REST behind JSONRPC", "JSONRPC", says(404, "application/json", `{"error":{"code":404,"status":"NOT_FOUND","message":"no","details":[{"@type":"type.googleapis.com/google.rpc.ErrorInfo","reason":"TASK_NOT_FOUND","domain":"a2a-protocol.org"}]}}`), "ok", "HTTP+JSON"},
		{"JSON-RPC behind REST", "HTTP+JSON", rpcError(-32001, ""), "ok", "JSONRPC"},
		{"a gateway's 502", "HTTP+JSON", says(502, "text/plain", "bad gateway"), "HTTP 502 with text/plain: no HTTP+JSON answer", ""},
		{"not available in its shape", "HTTP+JSON", says(503, "application/json", `{"error":{"code":503,"status":"UNAVAILABLE","message":"no"}}`), "HTTP+JSON: not available now (HTTP 503)", ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			a := newAgent(t)
			a.mux.HandleFunc("/x/", tc.answer)
			a.card = cardOf("", face{a.URL + "/x/", tc.binding, "1.0"})
			in, _, text := look(t, loopback(), registry.InspectRequest{URL: a.URL})
			if text != "" {
				t.Fatal(text)
			}
			if i := in.Interfaces[0]; i.Probe != tc.probe || i.Behaves != tc.behaves || (in.Use == 0) != (tc.probe == "ok") {
				t.Errorf("probe %q, behaves %q, use %d; want %q, %q", i.Probe, i.Behaves, in.Use, tc.probe, tc.behaves)
			}
			if tc.probe != "ok" && !strings.Contains(lines(in, registry.Warning), "supportedInterfaces[0]: ") {
				t.Errorf("the report tells nothing of it: %v", in.Problems)
			}
		})
	}
}

func TestNobodyAtTheInterface(t *testing.T) {
	a := newAgent(t)
	gone := httptest.NewServer(nil)
	gone.Close()
	a.card = cardOf("", rpc(gone.URL))
	in, _, text := look(t, loopback(), registry.InspectRequest{URL: a.URL})
	if text != "" || in.Use != -1 || in.Interfaces[0].Probe != "nothing answers there" {
		t.Errorf("use %d, %+v, %s", in.Use, in.Interfaces, text)
	}
}

func TestTooManyInterfaces(t *testing.T) {
	a := newAgent(t)
	var probes atomic.Int32
	a.mux.HandleFunc("/many/", func(w http.ResponseWriter, _ *http.Request) { probes.Add(1); w.WriteHeader(401) })
	var faces []face
	for n := range 30 {
		faces = append(faces, rpc(fmt.Sprintf("%s/many/%d", a.URL, n)))
	}
	a.card = cardOf("", faces...)
	in, _, text := look(t, loopback(), registry.InspectRequest{URL: a.URL})
	if text != "" || probes.Load() != 8 || in.Interfaces[8].Probe != "not probed: the card names too many interfaces" {
		t.Errorf("%d probes, %q, %s", probes.Load(), in.Interfaces[8].Probe, text)
	}
}

func TestNotModifiedCardIsProbedAgain(t *testing.T) {
	a := newAgent(t)
	a.mux.HandleFunc("/card", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("ETag", `"7"`)
		if r.Header.Get("If-None-Match") == `"7"` {
			w.WriteHeader(http.StatusNotModified)
			return
		}
		fmt.Fprint(w, a.card)
	})
	a.card = cardOf("", rpc(a.URL+"/rpc"))
	first, _, text := look(t, loopback(), registry.InspectRequest{URL: a.URL + "/card"})
	if text != "" || first.ETag != `"7"` || first.CardURL != a.URL+"/card" {
		t.Fatalf("%+v %s", first, text)
	}
	second, _, text := look(t, loopback(), registry.InspectRequest{URL: first.CardURL, Exact: true, ETag: first.ETag, Card: first.Card})
	if text != "" || second.Hash != first.Hash || second.ETag != first.ETag || second.Use != 0 || second.Tried[0].Result != "an agent card, unchanged" {
		t.Errorf("%+v %s", second, text)
	}
}

func TestExactAsksNowhereElse(t *testing.T) {
	a := newAgent(t)
	a.card = cardOf("", rpc(a.URL+"/rpc"))
	in, kind, _ := look(t, loopback(), registry.InspectRequest{URL: a.URL + "/gone", Exact: true})
	if kind != parley.AgentFailed || len(in.Tried) != 1 || len(a.gets) != 0 {
		t.Errorf("kind %v, tried %v", kind, in.Tried)
	}
}
