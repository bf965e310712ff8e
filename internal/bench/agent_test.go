package bench

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"
)

// serveAgent starts an agent on loopback and returns its address.
func serveAgent(t *testing.T, kind Kind) string {
	t.Helper()
	server := httptest.NewUnstartedServer(nil)
	base := "http://" + server.Listener.Addr().String() + "/"
	agent, err := NewAgent(kind, base)
	if err != nil {
		t.Fatal(err)
	}
	server.Config.Handler = agent
	server.Start()
	t.Cleanup(server.Close)
	return base
}

// serveProxy starts the reverse proxy in front of upstream.
func serveProxy(t *testing.T, upstream string) string {
	t.Helper()
	proxy, err := NewProxy(upstream)
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(proxy)
	t.Cleanup(server.Close)
	return server.URL + "/"
}

func TestRequest(t *testing.T) {
	for _, spec := range []Spec{{}, {Stream: true}, {Old: true}} {
		spec.Header = []string{"X-API-Key: k"}
		r, err := newRequest("host:1", "/a/", spec)
		if err != nil {
			t.Fatal(err)
		}
		seen := map[string]bool{}
		for n := range uint64(3) {
			r.number(n * 0x1234567)
			head, body, _ := strings.Cut(string(r.wire), "\r\n\r\n")
			if !strings.HasPrefix(head, "POST /a/ HTTP/1.1\r\nHost: host:1\r\n") || !strings.Contains(head, "\r\nX-API-Key: k\r\n") {
				t.Fatalf("head is %q", head)
			}
			var call struct {
				ID     string `json:"id"`
				Params struct {
					Message struct {
						MessageID string `json:"messageId"`
					} `json:"message"`
				} `json:"params"`
			}
			if err := json.Unmarshal([]byte(body), &call); err != nil || len(body) != payloadBytes {
				t.Fatalf("body of %d bytes, want %d, valid JSON: %v", len(body), payloadBytes, err)
			}
			if string(r.id) != quoted(call.ID) || seen[call.ID] || seen[call.Params.Message.MessageID] {
				t.Fatalf("id %s, sent %q and %q: not new or not the same", r.id, call.ID, call.Params.Message.MessageID)
			}
			seen[call.ID], seen[call.Params.Message.MessageID] = true, true
		}
	}
	if _, err := newRequest("host", "/", Spec{Header: []string{"A: b\r\nC: d"}}); err == nil {
		t.Error("a header line with a line break was accepted")
	}
}

func TestLoadOnAgent(t *testing.T) {
	message, task := serveAgent(t, RepliesMessage), serveAgent(t, RepliesTask)
	tests := []struct {
		name string
		spec Spec
	}{
		{"message", Spec{URLs: []string{message}, Conns: 2}},
		{"task", Spec{URLs: []string{task}, Conns: 2}},
		{"stream", Spec{URLs: []string{message}, Conns: 2, Stream: true}},
		{"paced", Spec{URLs: []string{message}, Conns: 2, Rate: 500}},
		{"message of 0.3", Spec{URLs: []string{serveAgent(t, RepliesOldMessage)}, Conns: 2, Old: true}},
		{"task of 0.3", Spec{URLs: []string{serveAgent(t, RepliesOldTask)}, Conns: 2, Old: true}},
		{"through the proxy", Spec{URLs: []string{serveProxy(t, message)}, Conns: 2}},
		{"stream through the proxy", Spec{URLs: []string{serveProxy(t, message)}, Conns: 2, Stream: true}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			tt.spec.Duration = 30 * ms
			got, err := Load(t.Context(), tt.spec)
			if err != nil {
				t.Fatal(err)
			}
			if got.Requests == 0 || got.P50 <= 0 || got.P99 < got.P50 {
				t.Errorf("got %+v", got)
			}
		})
	}
}

// Anything but a JSON-RPC result for the request makes the measurement void.
func TestLoadRefusesOtherAnswers(t *testing.T) {
	tests := []struct {
		name    string
		stream  bool
		handler http.HandlerFunc
		wrong   string
	}{
		{"denied", false, func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "no key", http.StatusUnauthorized) }, "status 401"},
		{"error", false, func(w http.ResponseWriter, _ *http.Request) {
			io.WriteString(w, `{"jsonrpc":"2.0","id":"1","error":{"code":-32603}}`)
		}, "JSON-RPC error"},
		{"closes the connection", false, func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("Connection", "close") }, "closes the connection: true"},
		{"no stream where one was asked for", true, func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "{}") }, "event stream: false"},
		{"an empty stream", true, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/event-stream")
			w.(http.Flusher).Flush()
		}, "stream had 0 events"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			server := httptest.NewServer(tt.handler)
			defer server.Close()
			_, err := Load(t.Context(), Spec{URLs: []string{server.URL}, Conns: 1, Stream: tt.stream, Duration: time.Second})
			if err == nil || !strings.Contains(err.Error(), tt.wrong) {
				t.Errorf("err = %v, want one with %q", err, tt.wrong)
			}
		})
	}
}

func TestLoadChecksItsSpec(t *testing.T) {
	good := Spec{URLs: []string{"http://127.0.0.1:1/"}, Conns: 1, Duration: ms}
	for wrong, change := range map[string]func(*Spec){
		"conns":    func(s *Spec) { s.Conns = 0 },
		"duration": func(s *Spec) { s.Duration = 0 },
		"warmup":   func(s *Spec) { s.Warmup = -1 },
		"rate":     func(s *Spec) { s.Rate = -1 },
		"url":      func(s *Spec) { s.URLs = []string{"https://127.0.0.1:1/"} },
	} {
		spec := good
		change(&spec)
		if _, err := Load(t.Context(), spec); err == nil || !strings.Contains(err.Error(), wrong) {
			t.Errorf("bad %s: err = %v", wrong, err)
		}
	}
}

func TestAgentAnswers(t *testing.T) {
	base := serveAgent(t, RepliesMessage)
	response, err := http.Get(base + ".well-known/agent-card.json")
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	var got card
	if err := json.NewDecoder(response.Body).Decode(&got); err != nil {
		t.Fatal(err)
	}
	if len(got.SupportedInterfaces) != 1 || got.SupportedInterfaces[0] != (cardInterface{base, "JSONRPC", "1.0"}) || len(got.Skills) != 1 {
		t.Errorf("card is %+v", got)
	}

	tests := []struct{ name, version, body, want string }{
		{"unknown task", "1.0", `{"jsonrpc":"2.0","id":7,"method":"GetTask","params":{"id":"x"}}`, `"code":-32001`},
		{"unknown method", "1.0", `{"jsonrpc":"2.0","id":7,"method":"Nonsense"}`, `"code":-32601`},
		{"older version", "0.3", `{"jsonrpc":"2.0","id":7,"method":"SendMessage"}`, `"reason":"VERSION_NOT_SUPPORTED"`},
		{"no JSON", "1.0", `hello`, `"code":-32700`},
		{"message", "1.0", `{"jsonrpc":"2.0","id":7,"method":"SendMessage","params":{}}`, `"id":7,"result":{"message":`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			request, err := http.NewRequest(http.MethodPost, base, strings.NewReader(tt.body))
			if err != nil {
				t.Fatal(err)
			}
			request.Header.Set("A2A-Version", tt.version)
			response, err := http.DefaultClient.Do(request)
			if err != nil {
				t.Fatal(err)
			}
			defer response.Body.Close()
			answer, err := io.ReadAll(response.Body)
			if err != nil || !json.Valid(answer) || !strings.Contains(string(answer), tt.want) {
				t.Errorf("%s: answer %s, %v, want valid JSON with %s", tt.body, answer, err, tt.want)
			}
		})
	}
}

// Every reply and every event must be JSON that others can read.
func TestAgentBodiesAreJSON(t *testing.T) {
	for _, kind := range []Kind{RepliesMessage, RepliesTask} {
		agent, err := NewAgent(kind, "http://127.0.0.1:1/")
		if err != nil {
			t.Fatal(err)
		}
		if body := agent.appendAnswer(nil, []byte(`"1"`)); !json.Valid(body) || len(body) < 900 || len(body) > 1400 {
			t.Errorf("%s: answer of %d bytes, valid JSON: %t\n%s", kind, len(body), json.Valid(body), body)
		}
		recorder := httptest.NewRecorder()
		agent.stream(t.Context(), recorder, []byte(`"1"`))
		events := strings.Split(strings.TrimSuffix(recorder.Body.String(), "\n\n"), "\n\n")
		if len(events) != StreamEvents {
			t.Fatalf("%s: %d events, want %d", kind, len(events), StreamEvents)
		}
		for _, event := range events {
			if !json.Valid([]byte(strings.TrimPrefix(event, "data: "))) {
				t.Errorf("%s: event is not JSON: %s", kind, event)
			}
		}
	}
}

func TestCommitTime(t *testing.T) {
	dir := t.TempDir()
	got, err := commitTime(t.Context(), dir)
	if err != nil || got <= 0 {
		t.Fatalf("commitTime = %s, %v", got, err)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}
