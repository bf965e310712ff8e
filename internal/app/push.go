package app

import (
	"context"
	"crypto/rand"
	"errors"
	"net/http"

	"github.com/parley-mesh/parley/internal/call"
	"github.com/parley-mesh/parley/internal/keyring"
	"github.com/parley-mesh/parley/internal/netguard"
	"github.com/parley-mesh/parley/internal/push"
	"github.com/parley-mesh/parley/internal/telemetry"
)

// openPushes makes what delivers events to those who subscribed to them.
func (a *App) openPushes(ctx context.Context) error {
	meter, err := telemetry.NewPushes(a.measures.Meter(), a.store.PushesWaiting)
	if err != nil {
		return err
	}
	c := a.cfg.Push
	fetches := a.guard().FetchClient(netguard.FetchOptions{Timeout: c.Timeout, HeaderTimeout: c.Timeout, UserAgent: "parley-push", Webhooks: true})
	a.pushes = push.NewDispatcher(push.Options{
		Outbox: a.store, Post: webhooks{fetches}, Keys: pushKeys{a.keyring}, Issuer: a.ready.Public,
		Body: a.oldPush, Meter: meter, Environment: a.cfg.Environment, Log: a.log, Now: a.opts.Now,
		Holder: rand.Text(), Timeout: c.Timeout, GiveUp: c.GiveUp, RetryFirst: c.RetryFirst, RetryMax: c.RetryMax,
		Concurrent: c.Concurrent, PerHost: c.PerHost,
	})
	return a.store.ReleasePushes(ctx)
}

// journaled tells whoever delivers that a task's journal has grown. The store is
// opened first.
func (a *App) journaled(task call.TaskKey) {
	if a.pushes != nil {
		a.pushes.Grown(task)
	}
}

// webhooks posts deliveries: guarded at the dial, over a connection of its own
// each, without redirects and proxies.
type webhooks struct{ client *netguard.FetchClient }

// Post implements push.Poster. Its errors do not tell which address a name has:
// those who may read them may not know it.
func (w webhooks) Post(ctx context.Context, url string, header map[string]string, body []byte) (push.Answer, error) {
	h := http.Header{}
	for name, value := range header {
		h.Set(name, value)
	}
	got, err := w.client.Fetch(ctx, url, netguard.Request{Method: http.MethodPost, Header: h, Body: body, AnyStatus: true, NoBody: true})
	if err == nil {
		return push.Answer{Status: got.Status, RetryAfter: got.Header.Get("Retry-After")}, nil
	}
	failed, ok := errors.AsType[*netguard.Error](err)
	switch {
	case !ok:
		return push.Answer{}, err
	case failed.Reason == netguard.ReasonRefused:
		return push.Answer{}, errNotAllowed
	case failed.Reason == netguard.ReasonTimeout:
		return push.Answer{}, errors.Join(errors.New(failed.Problem), context.DeadlineExceeded)
	}
	return push.Answer{}, errors.New(failed.Problem)
}

var errNotAllowed = errors.New("not connected: the host's address is not one that webhooks may have; public addresses need https on port 443 or one from 1024 on, others a line in network.allow")

// pushKeys are the mesh's keys as deliveries use them.
type pushKeys struct{ ring *keyring.Ring }

// PushKey implements push.Keys.
func (k pushKeys) PushKey(ctx context.Context) (push.Key, error) { return k.key(ctx, keyring.Push) }

// WebhookKey implements push.Keys.
func (k pushKeys) WebhookKey(ctx context.Context) (push.Key, error) {
	return k.key(ctx, keyring.Webhook)
}

func (k pushKeys) key(ctx context.Context, p keyring.Purpose) (push.Key, error) {
	key, err := k.ring.Current(ctx, p)
	if err != nil {
		return push.Key{}, err
	}
	return push.Key{ID: key.ID, Private: key.Private}, nil
}
