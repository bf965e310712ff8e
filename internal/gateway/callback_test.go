package gateway_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/parley-mesh/parley/internal/a2a"
	"github.com/parley-mesh/parley/internal/a2a/a2atest"
	"github.com/parley-mesh/parley/internal/config"
)

// relayed begins a task of which somebody is to be told, and gives the agent's
// config for it.
func relayed(t *testing.T) (agent *a2atest.Agent, taskID string, config a2a.TaskPushNotificationConfig) {
	t.Helper()
	_, agent, c := pushing(t, a2atest.Options{Push: http.DefaultClient}, rarely)
	task := held(t, c)
	if _, err := c.CreatePushConfig(t.Context(), a2a.TaskPushNotificationConfig{TaskID: task.ID, URL: hook}); err != nil {
		t.Fatal(err)
	}
	config = active(t, agent, task.ID)
	return agent, task.ID, config
}

// Whoever does not have the token learns nothing and moves nothing; whoever has
// it can only speak of its own task.
func TestForgedCallbacks(t *testing.T) {
	agent, id, config := relayed(t)
	about := func(task string) string {
		return `{"task":{"id":"` + task + `","status":{"state":"TASK_STATE_COMPLETED"}}}`
	}
	header := func(pairs ...string) http.Header {
		h := http.Header{"Content-Type": {"application/a2a+json"}}
		for i := 0; i < len(pairs); i += 2 {
			h.Add(pairs[i], pairs[i+1])
		}
		return h
	}
	mine := header("X-A2A-Notification-Token", config.Token)
	base := config.URL[:strings.LastIndexByte(config.URL, '/')+1]
	eventually(t, "the first look", func() bool { return asked(agent, id) > 0 })
	for _, test := range []struct {
		name, url string
		header    http.Header
		body      string
		want      int
	}{
		{"no token", config.URL, header(), about(id), 401},
		{"a wrong token", config.URL, header("X-A2A-Notification-Token", config.Token+"x"), about(id), 401},
		{"an empty token", config.URL, header("X-A2A-Notification-Token", ""), about(id), 401},
		{"a wrong credential", config.URL, header("Authorization", "Bearer nothing"), about(id), 401},
		{"two tokens", config.URL, header("X-A2A-Notification-Token", "x", "X-A2A-Notification-Token", config.Token), about(id), 401},
		{"another address", base + "nobody", mine, about(id), 401},
		{"no address", base, mine, about(id), 401},
		{"a wrong token and no JSON", config.URL, header(), "nonsense", 401},
		{"another task", config.URL, mine, about("other"), 400},
		{"two tasks", config.URL, mine, `{"task":{"id":"` + id + `"},"statusUpdate":{"taskId":"other"}}`, 400},
		{"no task", config.URL, mine, `{"hello":"there"}`, 400},
		{"an array", config.URL, mine, `[]`, 400},
		{"no JSON", config.URL, mine, `nonsense`, 400},
		{"a name twice", config.URL, mine, `{"task":{"id":"` + id + `","id":"other"}}`, 400},
		{"deep", config.URL, mine, strings.Repeat("[", 5000), 400},
		{"another type", config.URL, http.Header{"Content-Type": {"text/plain"}, "X-A2a-Notification-Token": {config.Token}}, about(id), 415},
		{"compressed", config.URL, header("X-A2A-Notification-Token", config.Token, "Content-Encoding", "gzip"), about(id), 415},
		{"large", config.URL, mine, `{"task":{"id":"` + id + `","x":"` + strings.Repeat("x", 5<<20) + `"}}`, 413},
	} {
		if got := pushTo(t, test.url, test.header, test.body); got != test.want {
			t.Errorf("%s: answered %d, want %d", test.name, got, test.want)
		}
	}
	if n := asked(agent, id); n != 1 {
		t.Errorf("the agent was asked %d times, want once", n)
	}

	// Every form that agents really send is taken, and its content is not believed.
	for name, test := range map[string]struct {
		header http.Header
		body   string
	}{
		"1.0 task":         {mine, about(id)},
		"1.0 status":       {header("A2A-Notification-Token", config.Token), `{"statusUpdate":{"taskId":"` + id + `","status":{"state":"TASK_STATE_FAILED"}}}`},
		"1.0 artifact":     {header("Authorization", "Bearer "+config.Token), `{"artifactUpdate":{"taskId":"` + id + `"}}`},
		"1.0 message":      {header("Authorization", "bearer "+config.Token), `{"message":{"taskId":"` + id + `"}}`},
		"bare task":        {mine, `{"id":"` + id + `","status":{"state":"TASK_STATE_COMPLETED"}}`},
		"0.3 task":         {mine, `{"kind":"task","id":"` + id + `","contextId":"c","status":{"state":"completed"}}`},
		"0.3 status":       {mine, `{"kind":"status-update","taskId":"` + id + `","status":{"state":"completed"},"final":true}`},
		"JSON-RPC wrapped": {mine, `{"jsonrpc":"2.0","id":1,"result":{"kind":"task","id":"` + id + `","status":{"state":"completed"}}}`},
	} {
		before := asked(agent, id)
		if got := pushTo(t, config.URL, test.header, test.body); got != http.StatusOK {
			t.Errorf("%s: answered %d, want 200", name, got)
		}
		eventually(t, name+": the mesh looks", func() bool { return asked(agent, id) > before })
	}
}

// Nobody but agents that have a token is heard often.
func TestCallbacksAreLimited(t *testing.T) {
	_, id, config := relayed(t)
	h := http.Header{"Content-Type": {"application/json"}, "Authorization": {"Bearer " + config.Token}}
	got := 0
	for range 500 {
		if got = pushTo(t, config.URL, h, `{"taskId":"`+id+`"}`); got == http.StatusTooManyRequests {
			return
		}
	}
	t.Errorf("five hundred pushes at once were all answered, at last by %d", got)
}

// What was under way when the mesh died goes on when it is back: the callback is
// the same, and what was missed meanwhile is looked for.
func TestRelayAfterRestart(t *testing.T) {
	for name, opt := range map[string]a2atest.Options{"pushes": {Push: http.DefaultClient}, "watched": {}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m, agent, c := pushing(t, opt, often)
			missed, later := held(t, c), held(t, c)
			for _, id := range []string{missed.ID, later.ID} {
				if _, err := c.CreatePushConfig(t.Context(), a2a.TaskPushNotificationConfig{TaskID: id, URL: hook, ID: "mine"}); err != nil {
					t.Fatal(err)
				}
				eventually(t, "the first look", func() bool { return asked(agent, id) > 0 })
			}
			m.Stop()
			if err := agent.SetStatus(missed.ID, a2a.StateCompleted, "while the mesh was away"); err != nil {
				t.Fatal(err)
			}
			m.Restart()
			ended(t, m, missed.ID)
			if err := agent.SetStatus(later.ID, a2a.StateFailed, "after it came back"); err != nil {
				t.Fatal(err)
			}
			ended(t, m, later.ID)
			wantStates(t, journal(t, m, missed.ID), "task TASK_STATE_COMPLETED")
		})
	}
}

// Subscriptions go with the agent, and the agent is told that nobody listens any
// more when the last one is deleted.
func TestRelayEnds(t *testing.T) {
	m, agent, c := pushing(t, a2atest.Options{Push: http.DefaultClient}, rarely)
	kept, dropped := held(t, c), held(t, c)
	for _, id := range []string{kept.ID, dropped.ID} {
		if _, err := c.CreatePushConfig(t.Context(), a2a.TaskPushNotificationConfig{TaskID: id, URL: hook, ID: "mine"}); err != nil {
			t.Fatal(err)
		}
		active(t, agent, id)
	}
	if err := c.DeletePushConfig(t.Context(), a2a.PushConfigRequest{TaskID: dropped.ID, ID: "mine"}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the agent is told", func() bool { return len(agent.PushConfigs(dropped.ID)) == 0 })
	eventually(t, "the relay is gone", func() bool { return count(t, m, `SELECT count(*) FROM push_relays`) == 1 })
	registered, err := m.Admin.Agent(t.Context(), "agent")
	if err == nil {
		err = m.Admin.RemoveAgent(t.Context(), "agent", registered.Version)
	}
	if err != nil {
		t.Fatal(err)
	}
	if n := count(t, m, `SELECT count(*) FROM push_subscriptions`) + count(t, m, `SELECT count(*) FROM push_relays`); n != 0 {
		t.Errorf("%d rows are left of a removed agent's", n)
	}
}

// A mesh whose relay is off says so, in its cards too.
func TestPushSwitchedOff(t *testing.T) {
	m, _, c := pushing(t, a2atest.Options{Push: http.DefaultClient}, func(c *config.Config) { c.Push.Relay = false })
	task := held(t, c)
	for method, params := range map[a2a.Method]any{
		a2a.CreatePushConfig: a2a.TaskPushNotificationConfig{TaskID: task.ID, URL: hook},
		a2a.GetPushConfig:    a2a.PushConfigRequest{TaskID: task.ID, ID: "b"},
		a2a.ListPushConfigs:  a2a.ListPushConfigsRequest{TaskID: task.ID},
		a2a.DeletePushConfig: a2a.PushConfigRequest{TaskID: task.ID, ID: "b"},
	} {
		reply, _ := c.Do(t.Context(), method, params)
		wantErr(t, string(method), reply, a2a.ReasonPushNotSupported)
	}
	if got := pushTo(t, m.Ready.Listen+"/push/x", http.Header{}, "{}"); got != http.StatusNotFound {
		t.Errorf("the callback answers %d, want 404", got)
	}
}
