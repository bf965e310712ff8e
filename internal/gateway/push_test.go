package gateway_test

import (
	"bytes"
	"context"
	dbsql "database/sql"
	"encoding/json"
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/parley-mesh/parley/internal/a2a"
	"github.com/parley-mesh/parley/internal/a2a/a2atest"
	"github.com/parley-mesh/parley/internal/call"
	"github.com/parley-mesh/parley/internal/config"
	"github.com/parley-mesh/parley/internal/control"
	"github.com/parley-mesh/parley/internal/parleytest"
	"github.com/parley-mesh/parley/internal/store"
	"github.com/parley-mesh/parley/internal/stream"
	"github.com/parley-mesh/parley/internal/vault"
)

const hook = "https://hooks.example.com/here"

// pushing runs a mesh with a reference agent named "agent" behind it, and a
// caller of it.
func pushing(t *testing.T, opt a2atest.Options, configure func(*config.Config)) (*parleytest.Mesh, *a2atest.Agent, *parleytest.Caller) {
	t.Helper()
	m := parleytest.Start(t, parleytest.Options{Configure: configure})
	agent, url := a2atest.Start(t, opt)
	m.Add(control.NewAgent{Name: "agent", URL: url})
	return m, agent, m.Caller("agent", a2a.JSONRPC, m.Key("alice", "default"))
}

// rarely makes the mesh watch so seldom that what a test sees in time came by a
// push.
func rarely(c *config.Config) { c.Watch.First, c.Watch.Max = time.Hour, time.Hour }

// often makes the mesh watch without pause.
func often(c *config.Config) {
	c.Watch.First, c.Watch.Max = 10*time.Millisecond, 50*time.Millisecond
}

// held begins a task that the test drives.
func held(t *testing.T, c *parleytest.Caller) *a2a.Task {
	t.Helper()
	in := parleytest.Message(fresh("ref-hold"), "wait")
	in.Configuration = &a2a.SendMessageConfiguration{ReturnImmediately: true}
	return mustSend(t, c, in)
}

// eventually waits until ok is true.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	deadline := time.Now().Add(parleytest.Patience)
	for !ok() {
		if time.Now().After(deadline) {
			t.Fatalf("%s: it did not come to be", what)
		}
		time.Sleep(5 * time.Millisecond) // between two looks at a condition
	}
}

// active waits until the agent has the mesh's own config for a task, and gives it.
func active(t *testing.T, agent *a2atest.Agent, taskID string) (config a2a.TaskPushNotificationConfig) {
	t.Helper()
	eventually(t, "the mesh asks the agent to push", func() bool {
		all := agent.PushConfigs(taskID)
		if len(all) > 0 {
			config = all[0]
		}
		return len(all) > 0
	})
	return config
}

// journal stops the mesh and gives the states that the journal of a task tells.
func journal(t *testing.T, m *parleytest.Mesh, taskID string) []string {
	t.Helper()
	m.Stop()
	address, _ := m.Config.Store.Postgres()
	db, err := store.Open(t.Context(), store.Options{
		Dir: m.Config.Data, Durability: store.Durability(m.Config.Durability), MasterKey: vault.Source(m.Config.MasterKey.Reference()),
		Postgres: store.Postgres{URL: address},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := db.Close(context.Background()); err != nil {
			t.Error(err)
		}
	}()
	events, err := db.After(t.Context(), call.TaskKey{Agent: "agent", ID: taskID}, 0, 100)
	if err != nil {
		t.Fatal(err)
	}
	return statesOf(t, events)
}

// ended waits until the last event of a task is in its journal. The process
// itself is not asked: a test that did could not tell what rests in the store.
func ended(t *testing.T, m *parleytest.Mesh, taskID string) {
	t.Helper()
	eventually(t, "the last event is in the journal", func() bool {
		return count(t, m, `SELECT count(*) FROM push_relays WHERE ended_at IS NOT NULL AND task_id = $1`, taskID) == 1
	})
}

// count reads a number from the store of a running mesh.
func count(t *testing.T, m *parleytest.Mesh, sql string, args ...any) (n int) {
	t.Helper()
	if address, ok := m.Config.Store.Postgres(); ok {
		conn, err := pgx.Connect(t.Context(), address)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = conn.Close(context.Background()) }()
		if err := conn.QueryRow(t.Context(), sql, args...).Scan(&n); err != nil {
			t.Fatal(err)
		}
		return n
	}
	db, err := dbsql.Open("sqlite", "file:"+filepath.Join(m.Config.Data, "parley.db")+"?mode=ro&_pragma=busy_timeout(10000)")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	if err := db.QueryRowContext(t.Context(), sql, args...).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

func statesOf(t *testing.T, events []stream.Event) (states []string) {
	t.Helper()
	for _, e := range events {
		var frame a2a.StreamResponse
		if err := json.Unmarshal(e.Frame, &frame); err != nil {
			t.Fatalf("event %d: %v: %s", e.Seq, err, e.Frame)
		}
		switch {
		case frame.Task != nil:
			states = append(states, "task "+string(frame.Task.Status.State))
		case frame.StatusUpdate != nil:
			states = append(states, "status "+string(frame.StatusUpdate.Status.State))
		default:
			states = append(states, "other")
		}
	}
	return states
}

// asked is how often the agent was asked for a task by GetTask.
func asked(agent *a2atest.Agent, taskID string) (n int) {
	for _, s := range agent.Seen() {
		if s.Method == a2a.GetTask && s.TaskID == taskID {
			n++
		}
	}
	return n
}

func wantStates(t *testing.T, got []string, want ...string) {
	t.Helper()
	if strings.Join(got, ", ") != strings.Join(want, ", ") {
		t.Errorf("the journal tells %q, want %q", got, want)
	}
}

// An agent that can push does so to the mesh, and what it pushes about is in the
// journal, although nobody looks otherwise.
func TestAgentPushes(t *testing.T) {
	m, agent, c := pushing(t, a2atest.Options{Push: http.DefaultClient}, rarely)
	task := held(t, c)
	created, err := c.CreatePushConfig(t.Context(), a2a.TaskPushNotificationConfig{TaskID: task.ID, URL: hook, Token: "mine"})
	if err != nil || created.ID == "" || created.URL != hook || created.TaskID != task.ID {
		t.Fatalf("created %+v, %v", created, err)
	}
	config := active(t, agent, task.ID)
	if config.URL == hook || config.Token == "mine" || !strings.HasPrefix(config.URL, m.Ready.Public+"/push/") {
		t.Errorf("the agent got %+v, want an address and a token of the mesh's own", config)
	}
	if err := agent.SetStatus(task.ID, a2a.StateCompleted, "done"); err != nil {
		t.Fatal(err)
	}
	ended(t, m, task.ID)
	wantStates(t, journal(t, m, task.ID), "task TASK_STATE_COMPLETED")
}

func pushTo(t *testing.T, url string, header http.Header, body string) int {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, bytes.NewReader([]byte(body)))
	if err != nil {
		t.Fatal(err)
	}
	request.Header = header
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	_, _ = io.Copy(io.Discard, response.Body)
	return response.StatusCode
}

// An agent that cannot push, or cannot reach the mesh, is watched.
func TestAgentIsWatched(t *testing.T) {
	for name, test := range map[string]struct {
		agent     a2atest.Options
		configure func(*config.Config)
	}{
		"it cannot push":           {a2atest.Options{}, often},
		"it is not asked to":       {a2atest.Options{Push: http.DefaultClient}, func(c *config.Config) { often(c); c.Push.Callbacks = false }},
		"it cannot reach the mesh": {a2atest.Options{Push: http.DefaultClient}, func(c *config.Config) { often(c); c.Push.CallbackURL = "http://127.0.0.1:1" }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m, agent, c := pushing(t, test.agent, test.configure)
			task := held(t, c)
			if _, err := c.CreatePushConfig(t.Context(), a2a.TaskPushNotificationConfig{TaskID: task.ID, URL: hook}); err != nil {
				t.Fatal(err)
			}
			if err := agent.SetStatus(task.ID, a2a.StateInputRequired, "more, please"); err != nil {
				t.Fatal(err)
			}
			eventually(t, "the first event is in the journal", func() bool {
				return count(t, m, `SELECT count(*) FROM journals WHERE last_seq = 1 AND task = $1`, task.ID) == 1
			})
			if err := agent.SetStatus(task.ID, a2a.StateFailed, "no"); err != nil {
				t.Fatal(err)
			}
			ended(t, m, task.ID)
			wantStates(t, journal(t, m, task.ID), "task TASK_STATE_INPUT_REQUIRED", "task TASK_STATE_FAILED")
		})
	}
}

// A config that stands in the message never reaches the agent, and is in force
// whether the message blocks, returns at once or streams.
func TestInlinePush(t *testing.T) {
	m, agent, c := pushing(t, a2atest.Options{}, often)
	inline := func(id string, at bool) a2a.SendMessageRequest {
		in := parleytest.Message(id, "hi")
		in.Configuration = &a2a.SendMessageConfiguration{ReturnImmediately: at, PushConfig: &a2a.TaskPushNotificationConfig{URL: hook, ID: "mine"}}
		return in
	}
	blocking := mustSend(t, c, inline(fresh("tck-complete-task"), false))
	atOnce := mustSend(t, c, inline(fresh("ref-hold"), true))
	var streamed string
	reply, _ := c.Do(t.Context(), a2a.SendStreamingMessage, inline(fresh("tck-complete-task"), false))
	for reply.Stream != nil {
		frame, err := reply.Stream.Next(t.Context())
		if err != nil {
			break
		}
		if frame.Facts != nil && frame.Facts.TaskID != "" {
			streamed = frame.Facts.TaskID
		}
	}
	said, _ := c.Do(t.Context(), a2a.SendMessage, inline(fresh("tck-message-response"), false))
	if said.Err != nil {
		t.Errorf("a message for an answer: %v", said.Err)
	}
	for what, id := range map[string]string{"blocking": blocking.ID, "at once": atOnce.ID, "streamed": streamed} {
		got, err := c.GetPushConfig(t.Context(), a2a.PushConfigRequest{TaskID: id, ID: "mine"})
		if err != nil || got.URL != hook {
			t.Errorf("%s: config %+v, %v", what, got, err)
		}
	}
	if err := agent.SetStatus(atOnce.ID, a2a.StateCompleted, "done"); err != nil {
		t.Fatal(err)
	}
	for _, id := range []string{blocking.ID, atOnce.ID, streamed} {
		ended(t, m, id)
	}
	if n := count(t, m, `SELECT count(*) FROM push_subscriptions`); n != 3 {
		t.Errorf("there are %d subscriptions, want three", n)
	}
	states := journal(t, m, atOnce.ID)
	if len(states) == 0 || states[len(states)-1] != "task TASK_STATE_COMPLETED" {
		t.Errorf("the journal tells %q, want the completed task at the end", states)
	}
}

// A message that is sent again with a config that has no id subscribes once: its
// caller is told each event once.
func TestRepeatedInlinePush(t *testing.T) {
	m, _, c := pushing(t, a2atest.Options{}, often)
	in := parleytest.Message(fresh("ref-hold"), "hi")
	in.Configuration = &a2a.SendMessageConfiguration{ReturnImmediately: true, PushConfig: &a2a.TaskPushNotificationConfig{URL: hook}}
	first := mustSend(t, c, in)
	if again := mustSend(t, c, in); again.ID != first.ID {
		t.Fatalf("the message sent again is about task %s, want %s", again.ID, first.ID)
	}
	if n := count(t, m, `SELECT count(*) FROM push_subscriptions`); n != 1 {
		t.Errorf("there are %d subscriptions, want one", n)
	}
}

// The four operations, in every binding.
func TestPushConfigs(t *testing.T) {
	m, agent, _ := pushing(t, a2atest.Options{}, func(c *config.Config) { rarely(c); c.Push.PerTask = 3 })
	alice, bob := m.Key("anna", "default"), m.Key("bob", "default")
	for _, binding := range bindings {
		t.Run(string(binding), func(t *testing.T) {
			ctx := t.Context()
			c, other := m.Caller("agent", binding, alice), m.Caller("agent", binding, bob)
			task := held(t, c)
			secret := &a2a.AuthenticationInfo{Scheme: "Bearer", Credentials: "very secret"}
			first, err := c.CreatePushConfig(ctx, a2a.TaskPushNotificationConfig{TaskID: task.ID, ID: "b", URL: hook, Token: "token", Authentication: secret})
			if err != nil || first.ID != "b" || first.TaskID != task.ID || first.URL != hook || first.Token != "" || first.Authentication == nil || first.Authentication.Scheme != "Bearer" || first.Authentication.Credentials != "" {
				t.Fatalf("created %+v, %v", first, err)
			}
			given, err := c.CreatePushConfig(ctx, a2a.TaskPushNotificationConfig{TaskID: task.ID, URL: hook})
			if err != nil || given.ID == "" {
				t.Fatalf("created without an id: %+v, %v", given, err)
			}
			replaced, err := c.CreatePushConfig(ctx, a2a.TaskPushNotificationConfig{TaskID: task.ID, ID: "b", URL: hook + "/2"})
			if err != nil || replaced.URL != hook+"/2" {
				t.Fatalf("replaced: %+v, %v", replaced, err)
			}
			got, err := c.GetPushConfig(ctx, a2a.PushConfigRequest{TaskID: task.ID, ID: "b"})
			if err != nil || got.URL != hook+"/2" || got.Authentication != nil {
				t.Errorf("read %+v, %v; want the replaced one", got, err)
			}
			var walked []string
			for token := ""; ; {
				page, err := c.ListPushConfigs(ctx, a2a.ListPushConfigsRequest{TaskID: task.ID, PageSize: 1, PageToken: token})
				if err != nil {
					t.Fatal(err)
				}
				for _, one := range page.Configs {
					walked = append(walked, one.ID)
				}
				if token = page.NextPageToken; token == "" {
					break
				}
				reply, _ := c.Do(ctx, a2a.ListPushConfigs, a2a.ListPushConfigsRequest{TaskID: task.ID, PageToken: token + "x"})
				wantErr(t, "a changed page token", reply, a2a.ReasonInvalidParams)
			}
			if len(walked) != 2 {
				t.Errorf("listed %q, want two", walked)
			}
			if _, err := c.CreatePushConfig(ctx, a2a.TaskPushNotificationConfig{TaskID: task.ID, URL: hook}); err != nil {
				t.Error(err)
			}
			reply, _ := c.Do(ctx, a2a.CreatePushConfig, a2a.TaskPushNotificationConfig{TaskID: task.ID, URL: hook})
			wantErr(t, "a fourth config", reply, a2a.ReasonRateLimited)

			// Nobody else's.
			for method, params := range map[a2a.Method]any{
				a2a.CreatePushConfig: a2a.TaskPushNotificationConfig{TaskID: task.ID, URL: hook},
				a2a.GetPushConfig:    a2a.PushConfigRequest{TaskID: task.ID, ID: "b"},
				a2a.ListPushConfigs:  a2a.ListPushConfigsRequest{TaskID: task.ID},
				a2a.DeletePushConfig: a2a.PushConfigRequest{TaskID: task.ID, ID: "b"},
			} {
				reply, _ := other.Do(ctx, method, params)
				wantErr(t, "another's "+string(method), reply, a2a.ReasonTaskNotFound)
			}
			for range 2 {
				if err := c.DeletePushConfig(ctx, a2a.PushConfigRequest{TaskID: task.ID, ID: "b"}); err != nil {
					t.Errorf("delete: %v", err)
				}
			}
			reply, _ = c.Do(ctx, a2a.GetPushConfig, a2a.PushConfigRequest{TaskID: task.ID, ID: "b"})
			wantErr(t, "a deleted config", reply, a2a.ReasonTaskNotFound)

			// On a task that is over they can be made and read, and nothing follows.
			if err := agent.SetStatus(task.ID, a2a.StateCompleted, ""); err != nil {
				t.Fatal(err)
			}
			if _, err := c.GetTask(ctx, a2a.GetTaskRequest{ID: task.ID}); err != nil {
				t.Fatal(err)
			}
		})
	}
	for _, s := range agent.Seen() {
		if s.Method.Push() {
			t.Errorf("the agent was asked for %s", s.Method)
		}
	}
	if strings.Contains(m.Log(), "very secret") {
		t.Error("the log holds a credential")
	}
}

// A config that can never be delivered to is refused by the name of its member.
func TestPushConfigRefused(t *testing.T) {
	_, agent, c := pushing(t, a2atest.Options{}, rarely)
	task := held(t, c)
	long := strings.Repeat("x", 5000)
	for what, test := range map[string]struct {
		config a2a.TaskPushNotificationConfig
		field  string
	}{
		"private":     {a2a.TaskPushNotificationConfig{URL: "https://10.0.0.1/x"}, "url"},
		"plain http":  {a2a.TaskPushNotificationConfig{URL: "http://8.8.8.8/"}, "url"},
		"metadata":    {a2a.TaskPushNotificationConfig{URL: "https://169.254.169.254/latest"}, "url"},
		"hexadecimal": {a2a.TaskPushNotificationConfig{URL: "https://0x7f000001/"}, "url"},
		"credentials": {a2a.TaskPushNotificationConfig{URL: "https://user:pass@hooks.example.com/"}, "url"},
		"scheme":      {a2a.TaskPushNotificationConfig{URL: "ftp://hooks.example.com/"}, "url"},
		"long":        {a2a.TaskPushNotificationConfig{URL: "https://hooks.example.com/" + long}, "url"},
		"token":       {a2a.TaskPushNotificationConfig{URL: hook, Token: "a\r\nX-Evil: 1"}, "token"},
		"long token":  {a2a.TaskPushNotificationConfig{URL: hook, Token: long}, "token"},
		"auth scheme": {a2a.TaskPushNotificationConfig{URL: hook, Authentication: &a2a.AuthenticationInfo{Scheme: "Bear er"}}, "authentication.scheme"},
		"auth value":  {a2a.TaskPushNotificationConfig{URL: hook, Authentication: &a2a.AuthenticationInfo{Scheme: "Bearer", Credentials: "a\nb"}}, "authentication.credentials"},
	} {
		config := test.config
		in := parleytest.Message(fresh("ref-hold"), "hi")
		in.Configuration = &a2a.SendMessageConfiguration{PushConfig: &config}
		inline, _ := c.Do(t.Context(), a2a.SendMessage, in)
		config.TaskID = task.ID
		created, _ := c.Do(t.Context(), a2a.CreatePushConfig, config)
		for where, reply := range map[string]*a2a.Reply{"": created, "configuration.taskPushNotificationConfig.": inline} {
			wantErr(t, what, reply, a2a.ReasonInvalidParams)
			if reply.Err != nil && (len(reply.Err.Violations) != 1 || reply.Err.Violations[0].Field != where+test.field) {
				t.Errorf("%s: %+v, want %s named", what, reply.Err.Violations, where+test.field)
			}
			if reply.Err != nil && strings.Contains(reply.Err.Message, "pass") && what == "credentials" {
				t.Errorf("the answer repeats a password: %s", reply.Err.Message)
			}
		}
	}
	sent := 0
	for _, seen := range agent.Seen() {
		if seen.Method.Sends() {
			sent++
		}
	}
	if sent != 1 {
		t.Errorf("the agent got %d messages, want only the first", sent)
	}
}
