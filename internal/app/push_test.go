package app_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"github.com/parley-mesh/parley/internal/a2a"
	"github.com/parley-mesh/parley/internal/config"
	"github.com/parley-mesh/parley/internal/control"
	"github.com/parley-mesh/parley/internal/parley"
	"github.com/parley-mesh/parley/internal/parleytest"
	"github.com/parley-mesh/parley/webhook"
)

// webhookRequest is a delivery that is not verified yet.
type webhookRequest struct {
	ctx    context.Context
	header http.Header
	body   []byte
}

// receiver takes pushes as a stranger would, with the public package.
type receiver struct {
	URL string

	t       testing.TB
	mu      sync.Mutex
	verify  func(webhookRequest) (*webhook.Delivery, error)
	answer  func(d *webhook.Delivery) error // nil: takes everything
	raw     func(webhookRequest)            // nil: nobody looks
	got     []*webhook.Delivery
	arrived chan *webhook.Delivery
	refused []error
}

func newReceiver(t testing.TB) *receiver {
	t.Helper()
	r := &receiver{t: t, arrived: make(chan *webhook.Delivery, 1000)}
	server := httptest.NewServer(r)
	t.Cleanup(server.Close)
	r.URL = server.URL + "/hook"
	return r
}

// verifierFor trusts one mesh.
func (r *receiver) verifierFor(issuer, token string) *webhook.Verifier {
	r.t.Helper()
	v, err := webhook.New(webhook.Config{Issuer: issuer, Audience: r.URL, Token: token})
	if err != nil {
		r.t.Fatal(err)
	}
	return v
}

// trust makes the receiver take what the mesh sends, and nothing else.
func (r *receiver) trust(m *parleytest.Mesh, token string) { r.trustIssuer(m.Ready.Listen, token) }

func (r *receiver) trustIssuer(issuer, token string) {
	v := r.verifierFor(issuer, token)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.verify = func(q webhookRequest) (*webhook.Delivery, error) { return v.VerifyBody(q.ctx, q.header, q.body) }
}

// ServeHTTP implements http.Handler.
func (r *receiver) ServeHTTP(w http.ResponseWriter, q *http.Request) {
	body, err := io.ReadAll(q.Body)
	if err != nil {
		return // the mesh has left
	}
	request := webhookRequest{q.Context(), q.Header, body}
	r.mu.Lock()
	verify, answer, raw := r.verify, r.answer, r.raw
	r.mu.Unlock()
	if raw != nil {
		raw(request)
	}
	d, err := verify(request)
	if err == nil && answer != nil {
		err = answer(d)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if err != nil {
		r.refused = append(r.refused, err)
		w.WriteHeader(http.StatusInternalServerError)
		return
	}
	r.got = append(r.got, d)
	r.arrived <- d
	w.WriteHeader(http.StatusNoContent)
}

// next waits for a delivery.
func (r *receiver) next() *webhook.Delivery {
	r.t.Helper()
	select {
	case d := <-r.arrived:
		return d
	case <-time.After(parleytest.Patience):
		r.mu.Lock()
		defer r.mu.Unlock()
		r.t.Fatalf("no delivery came; refused: %v", r.refused)
		return nil
	}
}

func impatient(c *config.Config) {
	c.Watch.First, c.Watch.Max = 20*time.Millisecond, 20*time.Millisecond
	c.Push.RetryFirst, c.Push.RetryMax = 20*time.Millisecond, 20*time.Millisecond
}

// TestPushReachesItsSubscriber: a caller's config, an agent that cannot push, and
// the final state arrives, proven.
func TestPushReachesItsSubscriber(t *testing.T) {
	m := parleytest.Start(t, parleytest.Options{Configure: impatient})
	r := newReceiver(t)
	r.trust(m, "a token of the subscriber's own")
	agent := m.Agent("echo")
	var mu sync.Mutex
	state := a2a.StateWorking
	agent.Answer(tasks(func(string) a2a.TaskState { mu.Lock(); defer mu.Unlock(); return state }))
	caller := m.Caller("echo", a2a.JSONRPC, m.Key("alice", parley.DefaultOwner))

	reply, _ := caller.Do(t.Context(), a2a.SendMessage, a2a.SendMessageRequest{
		Message: parleytest.Message("1", "go").Message,
		Configuration: &a2a.SendMessageConfiguration{ReturnImmediately: true, PushConfig: &a2a.TaskPushNotificationConfig{
			URL: r.URL, Token: "a token of the subscriber's own",
		}},
	})
	if reply.Err != nil {
		t.Fatal(reply.Err)
	}
	mu.Lock()
	state = a2a.StateCompleted
	mu.Unlock()
	for {
		d := r.next()
		if d.TaskID != "t-1" || d.ID == "" {
			t.Errorf("delivery %+v", d)
		}
		var event a2a.StreamResponse
		if err := json.Unmarshal(d.Body, &event); err != nil {
			t.Fatalf("%s: %v", d.Body, err)
		}
		if event.Task != nil && event.Task.Status.State == a2a.StateCompleted || event.StatusUpdate != nil && event.StatusUpdate.Status.State == a2a.StateCompleted {
			return
		}
	}
}

// TestStockLibraryVerifies: a receiver that knows Standard Webhooks only, and the
// token that it gave as the secret.
func TestStockLibraryVerifies(t *testing.T) {
	m := parleytest.Start(t, parleytest.Options{Configure: impatient})
	m.Agent("echo").Answer(tasks(func(string) a2a.TaskState { return a2a.StateCompleted }))
	key := m.Key("alice", parley.DefaultOwner)
	for name, token := range map[string]string{"raw": "a secret of thirty-two characters", "whsec": "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"} {
		t.Run(name, func(t *testing.T) {
			var stock *standardwebhooks.Webhook
			var err error
			if name == "raw" {
				stock, err = standardwebhooks.NewWebhookRaw([]byte(token))
			} else {
				stock, err = standardwebhooks.NewWebhook(token)
			}
			if err != nil {
				t.Fatal(err)
			}
			r := newReceiver(t)
			r.trust(m, token)
			verified := make(chan error, 100)
			r.raw = func(q webhookRequest) { verified <- stock.Verify(q.body, q.header) }
			in := parleytest.Message("1"+name, "go")
			in.Configuration = &a2a.SendMessageConfiguration{PushConfig: &a2a.TaskPushNotificationConfig{
				URL: r.URL, Token: token, Authentication: &a2a.AuthenticationInfo{Scheme: "Basic", Credentials: "dTpw"},
			}}
			if reply, _ := m.Caller("echo", a2a.HTTPJSON, key).Do(t.Context(), a2a.SendMessage, in); reply.Err != nil {
				t.Fatal(reply.Err)
			}
			r.next()
			if err := <-verified; err != nil {
				t.Errorf("the stock library refuses a delivery: %v", err)
			}
		})
	}
}

// TestRetryVerbs: what waits for another attempt is tried at once, and a dead
// letter is delivered after all.
func TestRetryVerbs(t *testing.T) {
	m := parleytest.Start(t, parleytest.Options{Configure: func(c *config.Config) {
		impatient(c)
		c.Push.RetryFirst, c.Push.RetryMax, c.Push.GiveUp = time.Hour, time.Hour, 10*time.Millisecond
	}})
	m.Agent("echo").Answer(tasks(func(string) a2a.TaskState { return a2a.StateCompleted }))
	r := newReceiver(t)
	r.trust(m, "")
	fails := true
	r.answer = func(*webhook.Delivery) error {
		if fails {
			return io.ErrUnexpectedEOF
		}
		return nil
	}
	in := parleytest.Message("1", "go")
	in.Configuration = &a2a.SendMessageConfiguration{PushConfig: &a2a.TaskPushNotificationConfig{ID: "mine", URL: r.URL + "?secret=1"}}
	if reply, _ := m.Caller("echo", a2a.JSONRPC, m.Key("alice", parley.DefaultOwner)).Do(t.Context(), a2a.SendMessage, in); reply.Err != nil {
		t.Fatal(reply.Err)
	}
	r.mu.Lock()
	v, err := webhook.New(webhook.Config{Issuer: m.Ready.Listen, Audience: r.URL + "?secret=1"})
	if err != nil {
		t.Fatal(err)
	}
	r.verify = func(q webhookRequest) (*webhook.Delivery, error) { return v.VerifyBody(q.ctx, q.header, q.body) }
	r.mu.Unlock()
	ctx := t.Context()
	letters := func() []control.DeadLetter {
		page, err := m.Admin.DeadLetters(ctx, control.LetterFilter{}, control.List{})
		if err != nil {
			t.Fatal(err)
		}
		return page.Items
	}
	m.Await("an attempt has failed", func() bool {
		all := m.Pushes()
		if len(all) != 1 || all[0].URL != r.URL || all[0].Config != "mine" || all[0].Task != "t-1" {
			t.Fatalf("pushes %+v, want one to %s", all, r.URL)
		}
		// The first attempt comes before or after the time to give up.
		if all[0].State == "waiting" {
			if _, err := m.Admin.RetryPush(ctx, all[0].ID); err != nil {
				t.Fatal(err)
			}
		}
		return len(letters()) > 0
	})
	letter := letters()[0]
	if _, err := m.Admin.RetryDeadLetter(ctx, letter.ID); parley.KindOf(err) != parley.AgentFailed {
		t.Errorf("a receiver that still fails: %v", err)
	}
	r.mu.Lock()
	fails = false
	r.mu.Unlock()
	if got, err := m.Admin.RetryDeadLetter(ctx, letter.ID); err != nil || got.ID != letter.ID {
		t.Fatalf("%+v, %v", got, err)
	}
	if d := r.next(); d.ID != letter.ID || d.TaskID != "t-1" {
		t.Errorf("delivered %+v", d)
	}
	for _, one := range letters() {
		if one.ID == letter.ID {
			t.Error("the letter is still there")
		}
	}
	if _, err := m.Admin.RetryDeadLetter(ctx, letter.ID); parley.KindOf(err) != parley.NotFound {
		t.Errorf("the letter again: %v", err)
	}
}

// TestPushOfOldVersion: a subscriber that speaks 0.3 is told of the whole task, as
// 0.3 writes it.
func TestPushOfOldVersion(t *testing.T) {
	m := parleytest.Start(t, parleytest.Options{Configure: impatient})
	m.Agent("echo").Answer(tasks(func(string) a2a.TaskState { return a2a.StateCompleted }))
	r := newReceiver(t)
	r.trust(m, "")
	body := fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":"message/send","params":{
		"message":{"kind":"message","messageId":"1","role":"user","parts":[{"kind":"text","text":"go"}]},
		"configuration":{"blocking":false,"pushNotificationConfig":{"url":%q}}}}`, r.URL)
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, m.URL("echo"), strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Authorization", "Bearer "+m.Key("alice", parley.DefaultOwner))
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	said, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != 200 || resp.Body.Close() != nil {
		t.Fatalf("status %d, %s, %v", resp.StatusCode, said, err)
	}
	d := r.next()
	var task struct {
		Kind, ID string
		Status   struct{ State string }
	}
	if err := json.Unmarshal(d.Body, &task); err != nil || task.Kind != "task" || task.ID != "t-1" || task.Status.State != "completed" {
		t.Errorf("told %s, %v (the answer was %s)", d.Body, err, said)
	}
}

// TestPushOfOldVersionIsWhole: of a streamed task a subscriber that speaks 0.3 is
// told at the end with the artifacts that the stream showed in pieces.
func TestPushOfOldVersionIsWhole(t *testing.T) {
	m := parleytest.Start(t, parleytest.Options{Configure: impatient})
	event := func(e a2a.StreamResponse) a2a.Frame { return a2a.StreamFrame(e) }
	piece := func(text string, more bool) a2a.Frame {
		return event(a2a.StreamResponse{ArtifactUpdate: &a2a.TaskArtifactUpdateEvent{
			TaskID: "t-1", ContextID: "c-1", Append: more, Artifact: a2a.Artifact{ArtifactID: "poem", Parts: []a2a.Part{a2a.TextPart(text)}},
		}})
	}
	m.Agent("poet").Answer(func(_ context.Context, q *a2a.Request) *a2a.Reply {
		task := a2a.Task{ID: "t-1", ContextID: "c-1", Status: a2a.TaskStatus{State: a2a.StateWorking}}
		if !q.Method.Streaming() { // it knows less than its stream tells
			return a2a.Answer(q.Method, &task)
		}
		frames := make(chan a2a.Frame, 4)
		frames <- event(a2a.StreamResponse{Task: &task})
		frames <- piece("roses ", false)
		frames <- piece("are red", true)
		frames <- event(a2a.StreamResponse{StatusUpdate: &a2a.TaskStatusUpdateEvent{TaskID: "t-1", ContextID: "c-1", Status: a2a.TaskStatus{State: a2a.StateCompleted}}})
		close(frames)
		return &a2a.Reply{Stream: a2a.NewChanStream(frames)}
	})
	r := newReceiver(t)
	r.trust(m, "")
	caller := m.Caller("poet", a2a.JSONRPC, m.Key("alice", parley.DefaultOwner))
	caller.Endpoint.Version = a2a.V03
	in := parleytest.Message("1", "go")
	in.Configuration = &a2a.SendMessageConfiguration{PushConfig: &a2a.TaskPushNotificationConfig{URL: r.URL}}
	reply, _ := caller.Do(t.Context(), a2a.SendStreamingMessage, in)
	if reply.Err != nil {
		t.Fatal(reply.Err)
	}
	for frame := (a2a.Frame{}); frame.Err == nil; {
		var err error
		if frame, err = reply.Stream.Next(t.Context()); err != nil {
			break
		}
	}
	for {
		d := r.next()
		var task struct {
			Kind      string
			Status    struct{ State string }
			Artifacts []struct{ Parts []struct{ Text string } }
		}
		if err := json.Unmarshal(d.Body, &task); err != nil || task.Kind != "task" {
			t.Fatalf("told %s, %v", d.Body, err)
		}
		if task.Status.State != "completed" {
			continue
		}
		if len(task.Artifacts) != 1 || len(task.Artifacts[0].Parts) != 2 || task.Artifacts[0].Parts[1].Text != "are red" {
			t.Errorf("at the end it is told %s, want the artifact whole", d.Body)
		}
		return
	}
}
