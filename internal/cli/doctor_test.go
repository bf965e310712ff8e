package cli

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// sickMesh answers what doctor asks of a mesh with one agent, whose store is
// healthy or not and fails where it writes.
func sickMesh(t *testing.T, healthy bool) string {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		switch {
		case r.URL.Path == "/api/v1/status":
			fmt.Fprintf(w, `{"meshId":"m","version":"v","environment":"dev","store":{"kind":"sqlite","healthy":%v,"problem":"the disk is full","freeBytes":40000000}}`, healthy)
		case r.Method == http.MethodGet:
			fmt.Fprint(w, `{"items":[{"name":"echo","status":"active"},{"name":"other","status":"active"}]}`)
		default:
			w.Header().Set("Content-Type", "application/problem+json")
			w.WriteHeader(http.StatusServiceUnavailable)
			fmt.Fprint(w, `{"title":"Service Unavailable","status":503,"code":"unavailable","detail":"the disk of the data directory /data is full: make room there"}`)
		}
	}))
	t.Cleanup(s.Close)
	return s.URL
}

// TestDoctorBlamesTheDiskNotTheAgent: where the mesh cannot write down what it
// saw of an agent, that says nothing of the agent.
func TestDoctorBlamesTheDiskNotTheAgent(t *testing.T) {
	for _, healthy := range []bool{true, false} {
		code, out, errs := run(t, []string{"PARLEY_DATA=" + t.TempDir()}, "--server", sickMesh(t, healthy), "doctor")
		if code != 1 || strings.Contains(out, "echo") || strings.Contains(out, "failed   agent") {
			t.Errorf("healthy %v: code %d, %s%s", healthy, code, out, errs)
		}
		if strings.Count(out, "failed   store") != 1 || !strings.Contains(out, "full") {
			t.Errorf("healthy %v: the store is not blamed once:\n%s", healthy, out)
		}
		if !strings.Contains(out, "38.1 MiB free") || strings.Contains(out, "without it calls are refused") {
			t.Errorf("healthy %v: the disk:\n%s", healthy, out)
		}
	}
}

// TestDoctorTellsOfInstancesAndRefusals: an instance without new work is a
// warning, and each kind of refused caller has its own advice.
func TestDoctorTellsOfInstancesAndRefusals(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		agent := `{"name":"echo","status":"active","use":0,"interfaces":[{"url":"http://a/rpc","binding":"JSONRPC"}]}`
		switch r.URL.Path {
		case "/api/v1/status":
			fmt.Fprint(w, `{"meshId":"m","version":"v","environment":"dev","store":{"kind":"sqlite","healthy":true,"freeBytes":40000000000},
				"authFailures":{"total":3,"reasons":[{"reason":"certificate","count":1},{"reason":"unlinked","count":1},{"reason":"audience","count":1}]}}`)
		case "/api/v1/agents":
			fmt.Fprintf(w, `{"items":[%s]}`, agent)
		case "/api/v1/agents/echo/instances":
			fmt.Fprint(w, `{"items":[{"id":"first","status":"ready","healthy":true},{"id":"down","status":"ready","checkError":"nothing answers"},
				{"id":"off","status":"suspended"},{"id":"old","status":"draining","checkError":"nothing answers"},
				{"id":"good","status":"ready","healthy":true,"address":"http://b/rpc","binding":"JSONRPC"}]}`)
		default:
			fmt.Fprintf(w, `{"agent":%s}`, agent)
		}
	}))
	t.Cleanup(s.Close)
	code, out, errs := run(t, []string{"PARLEY_DATA=" + t.TempDir()}, "--server", s.URL, "doctor")
	for _, want := range []string{
		"→ see which client certificates are taken: docs/mtls.md; see what tokens are refused for: docs/sign-on.md\n",
		"warning  instance     down of agent echo gets no new work: nothing answers\n",
		"parley agent instance rm echo down\n",
		"warning  instance     off of agent echo gets no new work: it is suspended\n",
		"ok       instance     old of agent echo drains",
		"ok       instance     good of agent echo answers at http://b/rpc (JSONRPC)\n",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
	if code != 0 || strings.Contains(out, "first of agent") || strings.Contains(out, "key list") {
		t.Errorf("code %d\n%s%s", code, out, errs)
	}
}
