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
	"github.com/parley-mesh/parley/internal/config"
	"github.com/parley-mesh/parley/webhook"
)

// pushPatience bounds the wait for a notification: far above what one takes.
const pushPatience = 30 * time.Second

// hook is a receiver of push notifications.
type hook struct {
	t   *testing.T
	URL string
	// answer gives the status of the answer to the nth request, from 0; nil: 200.
	// It is called before the request is among those that got here.
	answer func(n int, r *http.Request) int

	mu     sync.Mutex
	asked  int           // guarded by mu
	got    []pushed      // guarded by mu
	change chan struct{} // guarded by mu; closed and replaced with every notification
}

type pushed struct {
	at     time.Time
	header http.Header
	raw    []byte
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
	if r.Method != http.MethodPost || r.URL.Path != "/hook" {
		// The port may have been an agent's that is gone, and of which a mesh still asks
		// for tasks.
		http.NotFound(w, r)
		return
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	h.mu.Lock()
	n := h.asked
	h.asked++
	h.mu.Unlock()
	if h.answer != nil {
		w.WriteHeader(h.answer(n, r))
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.got = append(h.got, pushed{time.Now(), r.Header.Clone(), body, mustJSON(h.t, body)})
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
	return h.times(1, taskID, want)[0]
}

// times waits until it was told so n times.
func (h *hook) times(n int, taskID string, want a2a.TaskState) []pushed {
	h.t.Helper()
	timer := time.NewTimer(pushPatience)
	defer timer.Stop()
	for {
		h.mu.Lock()
		change := h.change
		var found []pushed
		for _, p := range h.got {
			if id, state := p.stateOf(); id == taskID && state == string(want) {
				found = append(found, p)
			}
		}
		h.mu.Unlock()
		if len(found) >= n {
			return found
		}
		select {
		case <-change:
		case <-timer.C:
			h.t.Fatalf("nobody was told %d times that task %s is %s; what came: %+v", n, taskID, want, h.all())
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
	74: func(t *testing.T, w *world) {
		v, ours, bare := w.pushing(t), newHook(t), newHook(t)
		c := v.as(t, v.Alice)
		id, _ := c.held("ref-hold", nil)
		c.must(opCreate, obj{"taskId": id, "url": ours.URL, "authentication": obj{"scheme": "Basic", "credentials": "eDp5"}})
		c.must(opCreate, obj{"taskId": id, "url": bare.URL, "authentication": obj{"scheme": "Bearer", "credentials": "receiver's-own"}})
		v.drive(t, id, a2a.StateCompleted, "")
		if got := ours.wait(id, a2a.StateCompleted).header.Get("Authorization"); got != "Basic eDp5" {
			t.Errorf("Authorization is %q, want what the config says", got)
		}
		got := bare.wait(id, a2a.StateCompleted)
		if got.header.Get("Authorization") != "Bearer receiver's-own" {
			t.Errorf("Authorization is %q, want what the config says", got.header.Get("Authorization"))
		}
		if w.through() {
			v.genuine(t, bare.URL, id, got)
		}
	},
	76: func(t *testing.T, w *world) {
		v, h := w.pushing(t), newHook(t)
		c := v.as(t, v.Alice)
		id, _ := c.held("ref-hold", nil)
		c.must(opCreate, obj{"taskId": id, "url": h.URL})
		config := v.asked(t, id)
		for _, token := range []string{"", "wrong"} {
			if got := notify(t, config, "application/a2a+json", token, id); got != http.StatusUnauthorized {
				t.Errorf("a notification of unknown source was answered with %d", got)
			}
		}
		v.drive(t, id, a2a.StateInputRequired, "")
		h.wait(id, a2a.StateInputRequired)
		for range 3 {
			if got := notify(t, config, "application/a2a+json", config.Token, id); got/100 != 2 {
				t.Errorf("a notification that comes again was answered with %d", got)
			}
		}
		v.drive(t, id, a2a.StateCompleted, "")
		h.wait(id, a2a.StateCompleted)
		if seen := h.times(1, id, a2a.StateInputRequired); len(seen) != 1 {
			t.Errorf("what came again was told %d times", len(seen))
		}
	},
	77: func(t *testing.T, w *world) {
		v, one, broken, other := w.pushing(t), newHook(t), newHook(t), newHook(t)
		broken.answer = func(int, *http.Request) int { return http.StatusInternalServerError }
		c := v.as(t, v.Alice)
		id, _ := c.held("ref-hold", nil)
		hooks := []*hook{one, broken, other}
		for _, h := range hooks {
			c.must(opCreate, obj{"taskId": id, "url": h.URL})
		}
		v.drive(t, id, a2a.StateCompleted, "")
		for _, h := range hooks {
			h.wait(id, a2a.StateCompleted)
		}
	},
	78: func(t *testing.T, w *world) {
		for what, limit := range map[string]time.Duration{"Parley's": config.Default().Push.Timeout, "the reference agent's": a2atest.PushTimeout} {
			if limit < 10*time.Second || limit > 30*time.Second {
				t.Errorf("%s limit is %v by default, want 10 to 30 s", what, limit)
			}
		}
		v, h := w.another(t, Variant{Agent: a2atest.Options{Push: http.DefaultClient, PushTimeout: hastyTimeout}, Hasty: true}), newHook(t)
		h.answer = func(n int, r *http.Request) int {
			if n == 0 {
				<-r.Context().Done() // until whoever delivers has left
			}
			return http.StatusOK
		}
		c := v.as(t, v.Alice)
		id, _ := c.held("ref-hold", nil)
		c.must(opCreate, obj{"taskId": id, "url": h.URL})
		v.drive(t, id, a2a.StateInputRequired, "")
		h.wait(id, a2a.StateInputRequired)
		v.drive(t, id, a2a.StateCompleted, "")
		h.wait(id, a2a.StateCompleted)
	},
	120: func(t *testing.T, w *world) {
		const attempts = 4
		v, h := w.another(t, Variant{Agent: a2atest.Options{Push: http.DefaultClient}, Hasty: true}), newHook(t)
		h.answer = func(n int, _ *http.Request) int {
			if n < attempts-1 {
				return http.StatusServiceUnavailable
			}
			return http.StatusOK
		}
		c := v.as(t, v.Alice)
		id, _ := c.held("ref-hold", nil)
		c.must(opCreate, obj{"taskId": id, "url": h.URL})
		v.drive(t, id, a2a.StateCompleted, "")
		got := h.times(attempts, id, a2a.StateCompleted)
		least := hastyRetry / 2 // of a pause, after what chance takes off
		for i, p := range got[1:] {
			if p.header.Get("webhook-id") != got[0].header.Get("webhook-id") {
				t.Errorf("attempt %d is of event %s, want %s", i+2, p.header.Get("webhook-id"), got[0].header.Get("webhook-id"))
			}
			if pause := p.at.Sub(got[i].at); pause < least {
				t.Errorf("attempt %d came after %v, want %v or more", i+2, pause, least)
			}
			least *= 2
		}
	},
	121: func(t *testing.T, w *world) {
		v := w.pushing(t)
		c := v.as(t, v.Alice)
		id, _ := c.held("ref-hold", nil)
		for _, url := range []string{
			"http://169.254.169.254/latest/meta-data/", "https://metadata.google.internal/", "https://10.0.0.1/", "https://[fd00::1]/", "https://0x7f000001/",
			"https://169.254.169.254./", "https://[64:ff9b::a9fe:a9fe]/", "ftp://hooks.example.com/", "https://user:pw@hooks.example.com/",
		} {
			c.wantFault(c.call(opCreate, obj{"taskId": id, "url": url}), "INVALID_PARAMS")
			in := configured(say("ref-hold", nil), obj{"returnImmediately": true, "taskPushNotificationConfig": obj{"url": url}})
			c.wantFault(c.call("SendMessage", in), "INVALID_PARAMS")
		}
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
	return id, w.asked(t, id)
}

// asked waits until the agent has a config for a task, and gives it.
func (w *world) asked(t *testing.T, id string) a2a.TaskPushNotificationConfig {
	t.Helper()
	for deadline := time.Now().Add(pushPatience); ; time.Sleep(5 * time.Millisecond) {
		if all := w.Agent.PushConfigs(id); len(all) > 0 {
			return all[0]
		}
		if time.Now().After(deadline) {
			t.Fatal("the agent was not asked to push")
		}
	}
}

// genuine checks that a delivery is the mesh's, to this receiver and about this
// task.
func (w *world) genuine(t *testing.T, url, id string, p pushed) {
	t.Helper()
	verifier, err := webhook.New(webhook.Config{Issuer: w.Mesh.public, Audience: url})
	if err != nil {
		t.Fatal(err)
	}
	d, err := verifier.VerifyBody(t.Context(), p.header, p.raw)
	if err != nil || d.TaskID != id {
		t.Errorf("delivery %+v, %v", d, err)
	}
	if _, err := verifier.VerifyBody(t.Context(), p.header, append(p.raw, ' ')); err == nil {
		t.Error("a delivery with another body was taken for genuine")
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
