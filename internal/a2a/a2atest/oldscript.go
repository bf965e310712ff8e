package a2atest

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/parley-mesh/parley/internal/a2a"
)

// OldAnswer says what an agent of 0.3 answers: a member `"result":…` or `"error":…`.
// What it gives to say goes out at once, each as an event of a stream, and what it
// returns behind them; "" ends the stream. ctx ends with the request.
type OldAnswer func(ctx context.Context, method string, params []byte, say func(member string)) string

// NewOldScript serves an agent of 0.3 over JSON-RPC that says what SDKs would not, or
// not at that time, and gives its address, where its card is. It is called until the
// test ends, by several requests at once.
func NewOldScript(t testing.TB, answer OldAnswer) string {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet {
			if r.URL.Path != a2a.CardPath {
				http.NotFound(w, r)
				return
			}
			fmt.Fprintf(w, `{"name":"s","description":"s","version":"1","protocolVersion":"0.3.0","url":"http://%s/","preferredTransport":"JSONRPC",
				"capabilities":{"streaming":true},"defaultInputModes":["text/plain"],"defaultOutputModes":["text/plain"],
				"skills":[{"id":"s","name":"s","description":"s","tags":["s"]}]}`, r.Host)
			return
		}
		var call struct {
			ID     json.RawMessage
			Method string
			Params json.RawMessage
		}
		if err := json.NewDecoder(r.Body).Decode(&call); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		streams := false
		event := func(member string) {
			if !streams {
				streams = true
				w.Header().Set("Content-Type", "text/event-stream")
			}
			fmt.Fprintf(w, "data: {\"jsonrpc\":\"2.0\",\"id\":%s,%s}\n\n", call.ID, member)
			w.(http.Flusher).Flush()
		}
		switch last := answer(r.Context(), call.Method, call.Params, event); {
		case streams && last != "":
			event(last)
		case !streams:
			fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,%s}`, call.ID, last)
		}
	}))
	t.Cleanup(server.Close)
	return server.URL + "/"
}
