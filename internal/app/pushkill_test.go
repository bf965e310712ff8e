//go:build linux

package app_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/parley-mesh/parley/internal/a2a"
	"github.com/parley-mesh/parley/internal/config"
	"github.com/parley-mesh/parley/internal/parley"
	"github.com/parley-mesh/parley/internal/parleytest"
	"github.com/parley-mesh/parley/internal/storetest/pgtest"
	"github.com/parley-mesh/parley/webhook"
)

// TestKillBetweenDeliveries: what the mesh had not delivered when it was killed is
// delivered by whoever runs next over its store, each event under the id it had.
func TestKillBetweenDeliveries(t *testing.T) {
	t.Run("SQLite", func(t *testing.T) { killBetweenDeliveries(t, "") })
	t.Run("PostgreSQL", func(t *testing.T) { killBetweenDeliveries(t, pgtest.Database(t)) })
}

func killBetweenDeliveries(t *testing.T, url string) {
	const sends, killedAt = 40, 10
	dir := parleytest.Dir(t)
	var env []string
	if url != "" {
		env = append(env, storeVariable+"="+url)
	}
	p := startProcess(t, dir, env...)
	agent, key := taskAgent(t, p)
	agent.Answer(tasks(func(string) a2a.TaskState { return a2a.StateCompleted }))
	r := newReceiver(t)
	r.trustIssuer(p.ready.Listen, "")
	var mu sync.Mutex
	seen := map[string]int{} // by event
	killed := make(chan struct{})
	dead := false
	r.answer = func(d *webhook.Delivery) error {
		mu.Lock()
		defer mu.Unlock()
		seen[d.ID]++
		if len(seen) < killedAt || dead {
			return nil
		}
		dead = true
		defer close(killed)
		return p.cmd.Process.Kill() // it never sees the answer to this one
	}
	conn := connTo(p.ready.Listen, "agent", key)
	go func() { // ends by the kill, or with the last message
		for i := range sends {
			in := parleytest.Message(fmt.Sprint(i), "x")
			in.Configuration = &a2a.SendMessageConfiguration{PushConfig: &a2a.TaskPushNotificationConfig{URL: r.URL}}
			if _, err := conn.SendMessage(context.Background(), in); err != nil {
				return
			}
		}
	}()
	select {
	case <-killed:
	case <-time.After(parleytest.Patience):
		t.Fatal("too few deliveries to kill between them")
	}
	_ = p.cmd.Wait() // killed, so always an error

	m := parleytest.Start(t, parleytest.Options{Configure: func(c *config.Config) {
		impatient(c)
		c.Data = dir
		if url != "" {
			c.Store = config.PostgresStore(url)
		}
	}})
	r.trust(m, "")
	pushes := m.Pushes()
	if len(pushes) < killedAt {
		t.Fatalf("%d subscriptions after the kill, %d events were delivered before", len(pushes), killedAt)
	}
	want := map[string]bool{} // tasks
	for _, one := range pushes {
		want[one.Task] = true
	}
	t.Cleanup(func() {
		if t.Failed() {
			for _, one := range m.Pushes() {
				if one.Pending > 0 || one.DeliveredAt == nil {
					t.Logf("not delivered: %+v", one)
				}
			}
		}
	})
	m.Await("everything is delivered", func() bool {
		for _, one := range m.Pushes() {
			if one.Pending > 0 || one.DeliveredAt == nil {
				return false
			}
		}
		return true
	})
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, d := range r.got {
		delete(want, d.TaskID)
	}
	if len(want) > 0 {
		t.Errorf("never delivered: %v", want)
	}
}

// TestReplicasDeliverOnce: two replicas share the work, and each event goes out
// once where neither of them dies.
func TestReplicasDeliverOnce(t *testing.T) {
	one, two := replicas(t, impatient)
	r := newReceiver(t)
	// Their tokens name the mesh under which each is reached.
	v1, v2 := r.verifierFor(one.Ready.Listen, ""), r.verifierFor(two.Ready.Listen, "")
	r.verify = func(q webhookRequest) (*webhook.Delivery, error) {
		if d, err := v1.VerifyBody(q.ctx, q.header, q.body); err == nil {
			return d, nil
		}
		return v2.VerifyBody(q.ctx, q.header, q.body)
	}
	agent := one.Agent("agent")
	agent.Answer(tasks(func(string) a2a.TaskState { return a2a.StateCompleted }))
	key := one.Key("alice", parley.DefaultOwner)
	var group sync.WaitGroup
	const each = 30
	for n, m := range []*parleytest.Mesh{one, two} {
		group.Go(func() {
			for i := range each {
				in := parleytest.Message(fmt.Sprintf("%d-%d", n, i), "x")
				in.Configuration = &a2a.SendMessageConfiguration{PushConfig: &a2a.TaskPushNotificationConfig{URL: r.URL}}
				if reply, _ := m.Caller("agent", a2a.JSONRPC, key).Do(t.Context(), a2a.SendMessage, in); reply.Err != nil {
					t.Errorf("send: %v", reply.Err)
				}
			}
		})
	}
	group.Wait()
	one.Await("everything is delivered", func() bool {
		all := one.Pushes()
		for _, p := range all {
			if p.Pending > 0 || p.DeliveredAt == nil {
				return false
			}
		}
		return len(all) == 2*each
	})
	r.mu.Lock()
	defer r.mu.Unlock()
	times := map[string]int{}
	for _, d := range r.got {
		times[d.ID]++
	}
	for id, n := range times {
		if n != 1 {
			t.Errorf("event %s was delivered %d times", id, n)
		}
	}
	if len(times) < 2*each {
		t.Errorf("%d events delivered, want %d", len(times), 2*each)
	}
}
