package conformance

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/parley-mesh/parley/internal/a2a"
	"github.com/parley-mesh/parley/internal/a2a/a2atest"
)

// pushPatience bounds the wait for a notification: far above what one takes.
const pushPatience = 30 * time.Second

// hook is a receiver of push notifications.
type hook struct {
	t   *testing.T
	URL string

	mu     sync.Mutex
	got    []pushed      // guarded by mu
	change chan struct{} // guarded by mu; closed and replaced with every notification
}

type pushed struct {
	header http.Header
	body   obj
}

func newHook(t *testing.T) *hook {
	t.Helper()
	h := &hook{t: t, change: make(chan struct{})}
	s := httptest.NewServer(h)
	t.Cleanup(func() { s.CloseClientConnections(); s.Close() })
	h.URL = s.URL + "/hook"
	return h
}

func (h *hook) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.got = append(h.got, pushed{r.Header.Clone(), mustJSON(h.t, body)})
	close(h.change)
	h.change = make(chan struct{})
}

// stateOf is the state that a notification tells, and of which task.
func (p pushed) stateOf() (id, state string) {
	if task := object(p.body, "task"); task != nil {
		return text(task, "id"), text(task, "status", "state")
	}
	update := object(p.body, "statusUpdate")
	return text(update, "taskId"), text(update, "status", "state")
}

// wait waits until the receiver was told that a task is in a state.
func (h *hook) wait(taskID string, want a2a.TaskState) pushed {
	h.t.Helper()
	timer := time.NewTimer(pushPatience)
	defer timer.Stop()
	for {
		h.mu.Lock()
		change := h.change
		for _, p := range h.got {
			if id, state := p.stateOf(); id == taskID && state == string(want) {
				h.mu.Unlock()
				return p
			}
		}
		h.mu.Unlock()
		select {
		case <-change:
		case <-timer.C:
			h.t.Fatalf("nobody was told that task %s is %s; what came: %+v", taskID, want, h.all())
		}
	}
}

func (h *hook) all() []pushed {
	h.mu.Lock()
	defer h.mu.Unlock()
	return append([]pushed(nil), h.got...)
}

// pushing is the world with an agent that sends push notifications.
func (w *world) pushing(t *testing.T) *world {
	t.Helper()
	return w.another(t, Variant{Agent: a2atest.Options{Push: http.DefaultClient}})
}

const (
	opCreate = "CreateTaskPushNotificationConfig"
	opGet    = "GetTaskPushNotificationConfig"
	opList   = "ListTaskPushNotificationConfigs"
	opDelete = "DeleteTaskPushNotificationConfig"
)

var pushChecks = map[int]check{
	26: func(t *testing.T, w *world) {
		v, h := w.pushing(t), newHook(t)
		c := v.as(t, v.Alice)
		id, _ := c.held("ref-hold", nil)
		config := c.must(opCreate, obj{"taskId": id, "url": h.URL, "token": "told-you"})
		if text(config, "id") == "" || text(config, "taskId") != id || text(config, "url") != h.URL {
			t.Errorf("created %s", encode(config))
		}
		v.drive(t, id, a2a.StateInputRequired, "more")
		h.wait(id, a2a.StateInputRequired)
		v.drive(t, id, a2a.StateCompleted, "")
		if got := h.wait(id, a2a.StateCompleted); got.header.Get("X-A2A-Notification-Token") != "told-you" {
			t.Errorf("the token came as %q", got.header.Get("X-A2A-Notification-Token"))
		}
	},
	27: func(t *testing.T, w *world) {
		v := w.pushing(t)
		c, other := v.as(t, v.Alice), v.as(t, v.Bob)
		id, _ := c.held("ref-hold", nil)
		c.must(opCreate, obj{"taskId": id, "id": "mine", "url": newHook(t).URL + "?a=b", "authentication": obj{"scheme": "Basic", "credentials": "eDp5"}})
		got := c.must(opGet, obj{"taskId": id, "id": "mine"})
		if !strings.HasSuffix(text(got, "url"), "/hook?a=b") || text(got, "id") != "mine" || text(got, "authentication", "scheme") != "Basic" {
			t.Errorf("read %s", encode(got))
		}
		c.wantFault(c.call(opGet, obj{"taskId": id, "id": "other"}), "TASK_NOT_FOUND")
		c.wantFault(c.call(opGet, obj{"taskId": "unknown", "id": "mine"}), "TASK_NOT_FOUND")
		other.wantFault(other.call(opGet, obj{"taskId": id, "id": "mine"}), "TASK_NOT_FOUND")
	},
	28: func(t *testing.T, w *world) {
		v, url := w.pushing(t), newHook(t).URL
		c, other := v.as(t, v.Alice), v.as(t, v.Bob)
		id, _ := c.held("ref-hold", nil)
		elsewhere, _ := c.held("ref-hold", nil)
		for _, config := range []obj{{"taskId": id, "id": "a"}, {"taskId": id, "id": "b"}, {"taskId": elsewhere, "id": "c"}, {"taskId": id, "id": "a"}} {
			config["url"] = url
			c.must(opCreate, config)
		}
		found := map[string]int{}
		all := c.must(opList, obj{"taskId": id})
		for _, one := range list(all, "configs") {
			found[text(one, "id")]++
		}
		if len(found) != 2 || found["a"] != 1 || found["b"] != 1 {
			t.Errorf("listed %s, want a and b", encode(all))
		}
		other.wantFault(other.call(opList, obj{"taskId": id}), "TASK_NOT_FOUND")
	},
	29: func(t *testing.T, w *world) {
		v, dropped, kept := w.pushing(t), newHook(t), newHook(t)
		c, other := v.as(t, v.Alice), v.as(t, v.Bob)
		id, _ := c.held("ref-hold", nil)
		c.must(opCreate, obj{"taskId": id, "id": "dropped", "url": dropped.URL})
		c.must(opCreate, obj{"taskId": id, "id": "kept", "url": kept.URL})
		other.wantFault(other.call(opDelete, obj{"taskId": id, "id": "dropped"}), "TASK_NOT_FOUND")
		for range 2 {
			if a := c.call(opDelete, obj{"taskId": id, "id": "dropped"}); a.fault != nil {
				t.Errorf("delete: %s", a.body)
			}
		}
		c.wantFault(c.call(opGet, obj{"taskId": id, "id": "dropped"}), "TASK_NOT_FOUND")
		v.drive(t, id, a2a.StateCompleted, "")
		kept.wait(id, a2a.StateCompleted)
		if got := dropped.all(); len(got) > 0 {
			t.Errorf("a deleted config got %+v", got)
		}
	},
	34: func(t *testing.T, w *world) {
		v, h := w.pushing(t), newHook(t)
		c := v.as(t, v.Alice)
		in := configured(say("ref-hold", nil), obj{"returnImmediately": true, "taskPushNotificationConfig": obj{"url": h.URL}})
		id := text(c.must("SendMessage", in), "task", "id")
		v.drive(t, id, a2a.StateCompleted, "")
		h.wait(id, a2a.StateCompleted)
	},
	75: func(t *testing.T, w *world) {
		v := w.pushing(t)
		id, config := v.callback(t)
		for _, kind := range []string{"application/a2a+json", "application/json"} {
			if got := notify(t, config, kind, config.Token, id); got/100 != 2 {
				t.Errorf("a notification as %s was answered with %d", kind, got)
			}
		}
		if got := notify(t, config, "application/a2a+json", config.Token, "another"); got != http.StatusBadRequest {
			t.Errorf("a notification about another task was answered with %d", got)
		}
	},
	122: func(t *testing.T, w *world) {
		v := w.pushing(t)
		id, config := v.callback(t)
		_, other := v.callback(t)
		for _, token := range []string{"", "wrong", other.Token} {
			if got := notify(t, config, "application/a2a+json", token, id); got != http.StatusUnauthorized {
				t.Errorf("a notification with the token %.5q was answered with %d", token, got)
			}
		}
	},
	123: func(t *testing.T, w *world) {
		v := w.pushing(t)
		_, one := v.callback(t)
		_, two := v.callback(t)
		if one.Token == two.Token || len(one.Token) < 20 || one.Token == "told-you" {
			t.Errorf("tokens %q and %q: want long ones of the mesh's own, one for each task", one.Token, two.Token)
		}
		if log := v.Log(); strings.Contains(log, one.Token) || strings.Contains(log, "told-you") {
			t.Error("a token stands in the log")
		}
		c := v.as(t, v.Alice)
		id, _ := c.held("ref-hold", nil)
		c.wantFault(c.call(opCreate, obj{"taskId": id, "url": "http://203.0.113.7/"}), "INVALID_PARAMS")
		c.wantFault(c.call(opCreate, obj{"taskId": id, "url": "http://8.8.8.8/"}), "INVALID_PARAMS")
	},
}

// callback makes a task whose caller is to be told, and gives the config that the
// agent has got for it.
func (w *world) callback(t *testing.T) (taskID string, config a2a.TaskPushNotificationConfig) {
	t.Helper()
	c := w.as(t, w.Alice)
	id, _ := c.held("ref-hold", nil)
	c.must(opCreate, obj{"taskId": id, "url": newHook(t).URL, "token": "told-you"})
	for deadline := time.Now().Add(pushPatience); ; time.Sleep(5 * time.Millisecond) {
		if all := w.Agent.PushConfigs(id); len(all) > 0 {
			return id, all[0]
		}
		if time.Now().After(deadline) {
			t.Fatal("the agent was not asked to push")
		}
	}
}

// notify posts a notification about a task to where the agent was told to, and
// gives the status of the answer.
func notify(t *testing.T, config a2a.TaskPushNotificationConfig, contentType, token, taskID string) int {
	t.Helper()
	body := strings.NewReader(encode(obj{"statusUpdate": obj{"taskId": taskID, "contextId": "c", "status": obj{"state": "TASK_STATE_WORKING"}}}))
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, config.URL, body)
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Content-Type", contentType)
	if token != "" {
		request.Header.Set("X-A2A-Notification-Token", token)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	_ = response.Body.Close()
	return response.StatusCode
}
