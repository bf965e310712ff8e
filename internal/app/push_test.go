package app_test

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/parley-mesh/parley/internal/a2a"
	"github.com/parley-mesh/parley/internal/config"
	"github.com/parley-mesh/parley/internal/parley"
	"github.com/parley-mesh/parley/internal/parleytest"
	"github.com/parley-mesh/parley/webhook"
)

// receiver takes pushes as a stranger would, with the public package.
type receiver struct {
	URL string

	t        testing.TB
	mu       sync.Mutex
	verifier *webhook.Verifier
	answer   func(d *webhook.Delivery) error
	got      []*webhook.Delivery
	arrived  chan *webhook.Delivery
	refused  []error
}

func newReceiver(t testing.TB) *receiver {
	t.Helper()
	r := &receiver{t: t, arrived: make(chan *webhook.Delivery, 1000)}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		r.mu.Lock()
		v := r.verifier
		r.mu.Unlock()
		v.Handler(r.take).ServeHTTP(w, q)
	}))
	t.Cleanup(server.Close)
	r.URL = server.URL + "/hook"
	return r
}

// trust makes the receiver take what the mesh sends.
func (r *receiver) trust(m *parleytest.Mesh, token string) {
	r.t.Helper()
	v, err := webhook.New(webhook.Config{Issuer: m.Ready.Listen, Audience: r.URL, Token: token, Refused: func(_ *http.Request, err error) {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.refused = append(r.refused, err)
	}})
	if err != nil {
		r.t.Fatal(err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.verifier = v
}

func (r *receiver) take(_ context.Context, d *webhook.Delivery) error {
	r.mu.Lock()
	answer := r.answer
	r.mu.Unlock()
	if answer != nil {
		if err := answer(d); err != nil {
			return err
		}
	}
	r.mu.Lock()
	r.got = append(r.got, d)
	r.mu.Unlock()
	r.arrived <- d
	return nil
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
