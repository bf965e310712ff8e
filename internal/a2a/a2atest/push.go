package a2atest

import (
	"bytes"
	"cmp"
	"context"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/parley-mesh/parley/internal/a2a"
)

// Bounds of push notifications.
const (
	maxConfigs = 16 // of one task
	// PushTimeout bounds one notification, where Options say nothing else.
	PushTimeout = 10 * time.Second
)

// receiver is one push notification config of a task, with the events that wait
// to be sent to it. They are sent in order, each once.
type receiver struct {
	config a2a.TaskPushNotificationConfig

	mu      sync.Mutex
	waiting [][]byte // guarded by mu
	sending bool     // guarded by mu
	gone    bool     // guarded by mu
}

// add queues an event. Beyond most, the oldest that waits is dropped.
func (r *receiver) add(opt *Options, body []byte) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.waiting = append(r.waiting, body); len(r.waiting) > opt.MaxLag {
		r.waiting = r.waiting[1:]
	}
	if !r.sending {
		r.sending = true
		go r.send(opt)
	}
}

// send sends what waits, and ends.
func (r *receiver) send(opt *Options) {
	for {
		r.mu.Lock()
		if len(r.waiting) == 0 || r.gone {
			r.sending = false
			r.mu.Unlock()
			return
		}
		body := r.waiting[0]
		r.waiting = r.waiting[1:]
		r.mu.Unlock()
		r.post(opt, body)
	}
}

// post sends one notification. Nobody is told whether it arrived: there is one
// attempt, as the protocol demands.
func (r *receiver) post(opt *Options, body []byte) {
	ctx, cancel := context.WithTimeout(context.Background(), cmp.Or(opt.PushTimeout, PushTimeout))
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, r.config.URL, bytes.NewReader(body))
	if err != nil {
		return
	}
	request.Header.Set("Content-Type", "application/a2a+json")
	if auth := r.config.Authentication; auth != nil {
		request.Header.Set("Authorization", auth.Scheme+" "+auth.Credentials)
	}
	if r.config.Token != "" {
		request.Header.Set("A2A-Notification-Token", r.config.Token)
		request.Header.Set("X-A2A-Notification-Token", r.config.Token)
	}
	if response, err := opt.Push.Do(request); err == nil {
		_ = response.Body.Close()
	}
}

// push tells the task's receivers of an event. a.mu is held.
func (a *Agent) push(t *task, frame a2a.Frame) {
	for _, r := range t.receivers {
		r.add(&a.opt, frame.Result)
	}
}

// subscribePush adds a config to a task, or replaces the one of that id. a.mu is
// held.
func (a *Agent) subscribePush(t *task, config a2a.TaskPushNotificationConfig) (*a2a.TaskPushNotificationConfig, *a2a.Error) {
	if !strings.HasPrefix(config.URL, "http://") && !strings.HasPrefix(config.URL, "https://") {
		return nil, a2a.InvalidParams(a2a.FieldViolation{Field: "url", Description: "must be an http or https URL"})
	}
	if config.ID == "" {
		config.ID = newID()
	}
	config.TaskID, config.Tenant, config.Unknown = t.id, "", nil
	if r := t.receiver(config.ID); r != nil {
		t.unsubscribePush(config.ID)
	}
	if len(t.receivers) == maxConfigs {
		return nil, a2a.NewError(a2a.ReasonRateLimited, "the task has %d push notification configs; delete one first", maxConfigs)
	}
	t.receivers = append(t.receivers, &receiver{config: config})
	return &config, nil
}

func (t *task) receiver(id string) *receiver {
	for _, r := range t.receivers {
		if r.config.ID == id {
			return r
		}
	}
	return nil
}

// unsubscribePush removes a config; nothing is sent to it from then on, but for
// what is on its way.
func (t *task) unsubscribePush(id string) {
	t.receivers = slices.DeleteFunc(t.receivers, func(r *receiver) bool {
		if r.config.ID != id {
			return false
		}
		r.mu.Lock()
		defer r.mu.Unlock()
		r.gone = true
		return true
	})
}

// operatePush answers the four operations on push notification configs.
func (a *Agent) operatePush(owner string, q *a2a.Request) *a2a.Reply {
	a.mu.Lock()
	defer a.mu.Unlock()
	t, err := a.find(owner, q.Facts.TaskID)
	if err != nil {
		return a2a.Fail(err)
	}
	switch q.Method {
	case a2a.CreatePushConfig:
		var in a2a.TaskPushNotificationConfig
		if err := q.Decode(&in); err != nil {
			return a2a.Fail(a2a.Internal("the config could not be read"))
		}
		config, err := a.subscribePush(t, in)
		if err != nil {
			return a2a.Fail(err)
		}
		return a2a.Answer(q.Method, config)
	case a2a.GetPushConfig:
		r := t.receiver(q.Facts.ConfigID)
		if r == nil {
			return a2a.Fail(a2a.NewError(a2a.ReasonTaskNotFound, "the task has no such push notification config"))
		}
		return a2a.Answer(q.Method, r.config)
	case a2a.ListPushConfigs:
		page := a2a.ListPushConfigsResponse{Configs: []a2a.TaskPushNotificationConfig{}}
		for _, r := range t.receivers {
			page.Configs = append(page.Configs, r.config)
		}
		return a2a.Answer(q.Method, page)
	}
	t.unsubscribePush(q.Facts.ConfigID)
	return a2a.Answer(q.Method, a2a.Empty{})
}

// PushConfigs are the configs of a task as they stand, whoever owns it.
func (a *Agent) PushConfigs(taskID string) (configs []a2a.TaskPushNotificationConfig) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if t := a.tasks[taskID]; t != nil {
		for _, r := range t.receivers {
			configs = append(configs, r.config)
		}
	}
	return configs
}
