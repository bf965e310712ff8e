package interop

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
)

// brokenAgent is an agent of no SDK whose every stream ends after its first
// event, before the task has: the network does that to the best of agents.
func brokenAgent(t *testing.T) string {
	t.Helper()
	var tasks atomic.Int64
	mux := http.NewServeMux()
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	mux.HandleFunc("GET /.well-known/agent-card.json", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"name":"broken","description":"Breaks off.","version":"1.0.0",
			"capabilities":{"streaming":true},"defaultInputModes":["text/plain"],"defaultOutputModes":["text/plain"],
			"skills":[{"id":"break","name":"Break","description":"Breaks off.","tags":["sample"]}],
			"supportedInterfaces":[{"url":%q,"protocolBinding":"JSONRPC","protocolVersion":"1.0"}]}`, server.URL+"/rpc")
	})
	mux.HandleFunc("POST /rpc", func(w http.ResponseWriter, r *http.Request) {
		var call struct {
			ID     json.RawMessage `json:"id"`
			Method string          `json:"method"`
		}
		if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxDocument)).Decode(&call); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		if call.Method != "SendStreamingMessage" {
			w.Header().Set("Content-Type", "application/json")
			fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"error":{"code":-32001,"message":"no such task","data":[
				{"@type":"type.googleapis.com/google.rpc.ErrorInfo","reason":"TASK_NOT_FOUND","domain":"a2a-protocol.org"}]}}`, call.ID)
			return
		}
		w.Header().Set("Content-Type", "text/event-stream")
		fmt.Fprintf(w, `data: {"jsonrpc":"2.0","id":%s,"result":{"task":{"id":"task-%[2]d","contextId":"context-%[2]d",`+
			`"status":{"state":"TASK_STATE_WORKING"}}}}`+"\n\n", call.ID, tasks.Add(1))
	})
	return server.URL + "/"
}

// TestBrokenStreamDirect records why the mesh must speak up: no SDK's client
// tells its user that a stream ended before the task did.
func TestBrokenStreamDirect(t *testing.T) {
	agent := brokenAgent(t)
	for _, sdk := range []SDK{Go, JavaScript, Python} {
		step := sayTo(t, sdk, ClientOptions{URL: agent})
		if step.Error != nil || len(step.Events) != 1 {
			t.Errorf("%s: %d events and %+v; if the SDK has learnt to tell, say so in docs/sdk", sdk, len(step.Events), step.Error)
		}
	}
}

// TestBrokenStream has Parley between: every client must see the first event
// and then an error, over either binding.
func TestBrokenStream(t *testing.T) {
	mesh := startMesh(t)
	key := newCaller(t, mesh, "interop-client")
	addAgent(t, mesh, "broken", brokenAgent(t))
	for _, sdk := range []SDK{Go, JavaScript, Python} {
		for _, binding := range []Binding{JSONRPC, HTTPJSON} {
			t.Run(string(sdk)+"-"+strings.ToLower(string(binding)), func(t *testing.T) {
				step := sayTo(t, sdk, ClientOptions{URL: mesh.Agent("broken"), Key: key, Binding: binding})
				if step.Error == nil || len(step.Events) != 1 {
					t.Errorf("%d events and error %+v, want one and an error", len(step.Events), step.Error)
				}
			})
		}
	}
}

func sayTo(t *testing.T, sdk SDK, o ClientOptions) Step {
	t.Helper()
	o.Say, o.Stream = "break off", true
	return runClient(t, sdk, o)[0].Steps[0]
}
