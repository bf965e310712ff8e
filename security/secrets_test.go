package security_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/parley-mesh/parley/internal/a2a"
	"github.com/parley-mesh/parley/internal/control"
	"github.com/parley-mesh/parley/internal/parley"
	"github.com/parley-mesh/parley/internal/parleytest"
)

// TestSecretsStayInside: keys, credentials and payloads are looked for in
// everything that a mesh writes: its log at the most talkative level, every
// byte of its data directory, metrics, profiles, error bodies, records, events.
func TestSecretsStayInside(t *testing.T) {
	const (
		agentSecret  = "agent-credential-9c41f2e07b"
		querySecret  = "query-credential-51aa02cd9e"
		basicSecret  = "basic-credential-77e0b1d3aa"
		payload      = "payload-of-alice-3fd2c8a1"
		answerText   = "answer-of-the-agent-c0ffee12"
		wrongKey     = "pk_aaaaaaaaaaaa_bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb"
		foreignToken = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiJzZWNyZXQifQ.c2lnbmF0dXJlLW9mLWFub3RoZXI"
	)
	m := parleytest.Start(t, parleytest.Options{})
	key := m.Key("alice", "")
	revoked := m.NewKey(control.NewKey{Principal: "alice"})
	secrets := map[string]string{
		"a key": key, "half a key": key[len(key)-40:], "a revoked key": revoked.Text, "a bearer credential": agentSecret, "a query credential": querySecret,
		"a basic credential": basicSecret, "a payload": payload, "an answer": answerText, "a wrong key": wrongKey, "a foreign token": foreignToken,
		"a basic credential, encoded": base64.StdEncoding.EncodeToString([]byte("user:" + basicSecret)),
	}
	var told strings.Builder // what callers and operators were told

	answers := func(_ context.Context, q *a2a.Request) *a2a.Reply {
		one := a2a.Task{ID: "t-" + q.Facts.MessageID, ContextID: "c-" + q.Facts.MessageID, Status: a2a.TaskStatus{State: a2a.StateCompleted},
			Artifacts: []a2a.Artifact{{ArtifactID: "a", Parts: []a2a.Part{a2a.TextPart(answerText)}}}}
		return a2a.Answer(q.Method, a2a.SendMessageResponse{Task: &one})
	}
	for name, auth := range map[string]*control.NewAuth{
		"bearer": {Kind: "bearer", Secret: agentSecret},
		"query":  {Kind: "api_key", In: "query", Name: "api_key", Secret: querySecret},
		"basic":  {Kind: "basic", Name: "user", Secret: basicSecret},
	} {
		agent := parleytest.NewAgent(t)
		added := m.Add(control.NewAgent{Name: parley.AgentName(name), URL: agent.URL, Auth: auth})
		agent.Answer(answers)
		for _, b := range []a2a.Binding{a2a.JSONRPC, a2a.HTTPJSON} {
			c := m.Caller(added.Name, b, key)
			if reply, _ := c.Do(t.Context(), a2a.SendMessage, parleytest.Message("m-"+name+"-"+string(b), payload)); reply.Err != nil {
				t.Fatalf("%s: %v", name, reply.Err)
			}
			for _, bad := range []string{wrongKey, foreignToken, revoked.Text + "x"} {
				reply, _ := m.Caller(added.Name, b, bad).Do(t.Context(), a2a.SendMessage, parleytest.Message("", payload))
				told.WriteString(string(reply.Err.REST()))
			}
			for _, broken := range brokenAgents(agentSecret + " " + querySecret) {
				agent.Serve(broken)
				for _, method := range []a2a.Method{a2a.SendMessage, a2a.SendStreamingMessage} {
					reply, _ := c.Do(t.Context(), method, parleytest.Message("", payload))
					if reply.Err != nil {
						told.WriteString(string(reply.Err.REST()))
					}
				}
			}
			agent.Answer(answers)
		}
	}
	if _, err := m.Admin.RevokeKey(t.Context(), revoked.ID); err != nil {
		t.Fatal(err)
	}
	admin := m.Key("root", "", parley.RoleAdmin)
	for _, path := range []string{"/api/v1/status", "/api/v1/keys", "/api/v1/principals", "/api/v1/agents", "/api/v1/agents/bearer", "/api/v1/agents/query", "/api/v1/calls?limit=200", "/api/v1/tasks", "/api/v1/events?limit=200"} {
		told.WriteString(get(t, m.Ready.Listen+path, admin))
	}
	for _, path := range []string{"/metrics", "/debug/pprof/cmdline", "/debug/pprof/goroutine?debug=2", "/readyz"} {
		told.WriteString(get(t, m.Ready.Ops+path, ""))
	}
	m.Stop() // everything is written
	told.WriteString(m.Log())
	for what, secret := range secrets {
		if i := strings.Index(told.String(), secret); i >= 0 {
			t.Errorf("%s is told: %q", what, told.String()[max(0, i-150):min(told.Len(), i+20)])
		}
	}
	grepFiles(t, m.Config.Data, secrets)
}

// brokenAgents answer with what a careless agent puts into its errors.
func brokenAgents(echo string) []http.HandlerFunc {
	return []http.HandlerFunc{
		func(w http.ResponseWriter, r *http.Request) { http.Error(w, echo, http.StatusUnauthorized) },
		func(w http.ResponseWriter, r *http.Request) { http.Error(w, echo, http.StatusInternalServerError) },
		func(w http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(w, echo) },
		func(w http.ResponseWriter, r *http.Request) { panic(http.ErrAbortHandler) },
		func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "text/event-stream")
			_, _ = io.WriteString(w, "data: "+echo+"\n\n")
		},
	}
}

// get reads an address, which must be there.
func get(t *testing.T, url, key string) string {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	if key != "" {
		req.Header.Set("Authorization", "Bearer "+key)
	}
	resp, err := http.DefaultTransport.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode >= 300 {
		t.Fatalf("GET %s: %s, %v", url, resp.Status, err)
	}
	return string(body)
}

// grepFiles looks for secrets in every byte of a directory. The admin's key
// file is the one place where a key is meant to stand.
func grepFiles(t *testing.T, dir string, secrets map[string]string) {
	t.Helper()
	files := 0
	err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.Type().IsRegular() {
			return err
		}
		files++
		content, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		for what, secret := range secrets {
			if bytes.Contains(content, []byte(secret)) {
				t.Errorf("%s stands in %s", what, entry.Name())
			}
		}
		info, err := entry.Info()
		if err == nil && info.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s is open to others: %v", entry.Name(), info.Mode())
		}
		return err
	})
	if err != nil || files < 3 {
		t.Fatalf("looked into %d files: %v", files, err)
	}
}
