package storetest

import (
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/parley-mesh/parley/internal/call"
	"github.com/parley-mesh/parley/internal/identity"
	"github.com/parley-mesh/parley/internal/parley"
	"github.com/parley-mesh/parley/internal/push"
	"github.com/parley-mesh/parley/internal/registry"
	"github.com/parley-mesh/parley/internal/store"
)

// taskOf makes an unfinished task of a principal's.
func taskOf(t *testing.T, s Store, who parley.PrincipalName, id string) call.TaskKey {
	t.Helper()
	task := &call.Task{
		Agent: "echo", Instance: "one", ID: id, Principal: who, Owner: "alpha", ContextID: "c",
		State: "TASK_STATE_WORKING", StatusAt: at(0), UpdatedAt: at(0),
	}
	must(t, s.Settle(t.Context(), call.Settlement{Task: task}, false))
	return task.Key()
}

func newSubscription(who parley.PrincipalName, task call.TaskKey, config string) (*push.Subscription, *push.Relay) {
	s := &push.Subscription{
		ID: push.NewID(), Task: task, Owner: "alpha", Principal: who, ConfigID: config,
		URL: "https://hooks.example.com/" + config, Token: "a token", AuthScheme: "Bearer", AuthCredentials: "a secret",
		Version: "1.0", Cursor: 3, Created: at(1),
	}
	return s, &push.Relay{Task: task, Owner: "alpha", Principal: who, Callback: push.NewID(), Seen: "s", SeenSeq: 3, LookAt: at(1), Created: at(1)}
}

func subscribe(t *testing.T, s Store, who parley.PrincipalName, task call.TaskKey, config string) *push.Subscription {
	t.Helper()
	sub, relay := newSubscription(who, task, config)
	must(t, s.Subscribe(t.Context(), sub, relay, push.Limits{}))
	return sub
}

func claimRelay(t *testing.T, s Store, r *push.Relay, until time.Time) {
	t.Helper()
	if claimed, err := s.ClaimRelay(t.Context(), r, until); err != nil || !claimed {
		t.Fatalf("claimed %t, %v", claimed, err)
	}
}

func testSubscriptions(t *testing.T, s Store) {
	ctx := t.Context()
	task, other := taskOf(t, s, "alice", "t"), taskOf(t, s, "alice", "u")
	a, b, c := subscribe(t, s, "alice", task, "a"), subscribe(t, s, "alice", task, "b"), subscribe(t, s, "alice", other, "a")

	got, err := s.Subscription(ctx, task, "a")
	must(t, err)
	if diff := cmp.Diff(a, got); diff != "" {
		t.Errorf("subscription (-stored +read):\n%s", diff)
	}
	got, err = s.SubscriptionByID(ctx, c.ID)
	must(t, err)
	if diff := cmp.Diff(c, got); diff != "" {
		t.Errorf("subscription by id (-stored +read):\n%s", diff)
	}
	of, err := s.TaskSubscriptions(ctx, task, "", 10)
	must(t, err)
	if diff := cmp.Diff([]*push.Subscription{a, b}, of); diff != "" {
		t.Errorf("subscriptions of a task:\n%s", diff)
	}
	if of, err = s.TaskSubscriptions(ctx, task, "a", 10); err != nil || len(of) != 1 || of[0].ID != b.ID {
		t.Errorf("behind a: %+v, %v, want b", of, err)
	}
	var walked []string
	for after := ""; ; {
		page, err := s.Subscriptions(ctx, after, 2)
		must(t, err)
		if len(page) == 0 {
			break
		}
		for _, one := range page {
			walked = append(walked, one.ID)
		}
		after = walked[len(walked)-1]
	}
	if len(walked) != 3 {
		t.Errorf("walking all gives %v, want three", walked)
	}

	// The same config id again replaces where it goes, not how far it is.
	again, relay := newSubscription("alice", task, "a")
	again.URL, again.Token, again.Version, again.Cursor = "https://elsewhere.example.com", "", "0.3", 0
	must(t, s.Subscribe(ctx, again, relay, push.Limits{PerTask: 2}))
	if again.ID != a.ID || again.Cursor != a.Cursor || !again.Created.Equal(a.Created) {
		t.Errorf("replaced: %+v, want the id, place and time of the first", again)
	}
	got, err = s.Subscription(ctx, task, "a")
	must(t, err)
	if diff := cmp.Diff(again, got); diff != "" {
		t.Errorf("replaced subscription (-stored +read):\n%s", diff)
	}

	must(t, s.Unsubscribe(ctx, task, "a"))
	must(t, s.Unsubscribe(ctx, task, "a"))
	_, err = s.Subscription(ctx, task, "a")
	wantKind(t, "one that was ended", err, parley.NotFound)
	if _, err := s.Subscription(ctx, other, "a"); err != nil {
		t.Errorf("that of another task is gone too: %v", err)
	}
}

func testSubscriptionLimits(t *testing.T, s Store) {
	ctx := t.Context()
	most := push.Limits{PerTask: 2, PerPrincipal: 3}
	one, two, three := taskOf(t, s, "alice", "one"), taskOf(t, s, "alice", "two"), taskOf(t, s, "bob", "three")
	try := func(who parley.PrincipalName, task call.TaskKey, config string) error {
		sub, relay := newSubscription(who, task, config)
		return s.Subscribe(ctx, sub, relay, most)
	}
	must(t, try("alice", one, "a"))
	must(t, try("alice", one, "b"))
	wantKind(t, "a third of one task", try("alice", one, "c"), parley.Exhausted)
	must(t, try("alice", one, "a")) // replaces
	must(t, try("alice", two, "a"))
	wantKind(t, "a fourth of one principal", try("alice", two, "b"), parley.Exhausted)
	wantKind(t, "room for a fourth", s.RoomForSubscription(ctx, "alice", most), parley.Exhausted)
	must(t, s.RoomForSubscription(ctx, "bob", most))
	must(t, try("bob", three, "a"))
	wantKind(t, "another's task", try("bob", one, "z"), parley.NotFound)
	wantKind(t, "a task that is not there", try("bob", call.TaskKey{Agent: "echo", ID: "none"}, "z"), parley.NotFound)
	// Tasks that are over count no more.
	r, err := s.Relay(ctx, one)
	must(t, err)
	claimRelay(t, s, r, at(20))
	r.Ended, r.LookAt = at(9), time.Time{}
	must(t, s.SaveRelay(ctx, r))
	must(t, try("alice", two, "b"))
}

func testSubscriptionsGoWith(t *testing.T, s Store) {
	ctx := t.Context()
	addOwner(t, s, "alpha")
	agent := addAgent(t, s, "echo", at(0))
	alice := &identity.Principal{Name: "alice", Owner: "alpha", Environment: parley.Dev, CreatedAt: at(0)}
	bob := &identity.Principal{Name: "bob", Owner: "alpha", Environment: parley.Dev, CreatedAt: at(0)}
	must(t, s.SavePrincipal(ctx, alice))
	must(t, s.SavePrincipal(ctx, bob))
	left := func(what string, want int) {
		t.Helper()
		all, err := s.Subscriptions(ctx, "", 10)
		must(t, err)
		relays, err := s.Relays(ctx, "", 10)
		must(t, err)
		if len(all) != want || len(relays) != want {
			t.Errorf("%s: %d subscriptions and %d relays are left, want %d", what, len(all), len(relays), want)
		}
	}
	subscribe(t, s, "alice", taskOf(t, s, "alice", "a"), "x")
	subscribe(t, s, "bob", taskOf(t, s, "bob", "b"), "x")
	left("at first", 2)

	bob.FrozenAt, bob.FrozenReason = at(2), "leaked"
	must(t, s.SavePrincipal(ctx, bob))
	left("bob is frozen", 1)
	sub, relay := newSubscription("bob", call.TaskKey{Agent: "echo", Instance: "one", ID: "b"}, "y")
	wantKind(t, "a frozen principal subscribes", s.Subscribe(ctx, sub, relay, push.Limits{}), parley.Frozen)

	must(t, s.DeletePrincipal(ctx, "alice", alice.Version))
	left("alice is deleted", 0)
	sub, relay = newSubscription("alice", call.TaskKey{Agent: "echo", Instance: "one", ID: "a"}, "y")
	wantKind(t, "whoever has the name next", s.Subscribe(ctx, sub, relay, push.Limits{}), parley.NotFound)

	must(t, s.SaveInstance(ctx, &registry.Instance{Agent: "echo", ID: "one", CreatedAt: at(1)}))
	subscribe(t, s, "carol", taskOf(t, s, "carol", "c"), "x")
	elsewhere := call.Task{Agent: "echo", Instance: "two", ID: "d", Principal: "carol", Owner: "alpha", State: "TASK_STATE_WORKING", StatusAt: at(0), UpdatedAt: at(0)}
	must(t, s.Settle(ctx, call.Settlement{Task: &elsewhere}, true))
	subscribe(t, s, "carol", elsewhere.Key(), "x")
	left("two at two instances", 2)
	must(t, s.DeleteInstance(ctx, "echo", "one", 1))
	left("an instance is gone", 1)
	must(t, s.DeleteAgent(ctx, "echo", agent.Version))
	left("the agent is gone", 0)

	subscribe(t, s, "carol", taskOf(t, s, "carol", "e"), "x")
	_, err := s.Prune(ctx, store.Cutoffs{Unfinished: at(100)})
	must(t, err)
	left("the task was removed", 0)
}

func testRelays(t *testing.T, s Store) {
	ctx := t.Context()
	task := taskOf(t, s, "alice", "t")
	sub, relay := newSubscription("alice", task, "a")
	must(t, s.Subscribe(ctx, sub, relay, push.Limits{}))
	got, err := s.RelayByCallback(ctx, relay.Callback)
	must(t, err)
	if diff := cmp.Diff(relay, got); diff != "" {
		t.Errorf("relay (-stored +read):\n%s", diff)
	}
	_, err = s.RelayByCallback(ctx, "nobody's")
	wantKind(t, "a callback that is not there", err, parley.NotFound)
	due := func(second int) int {
		t.Helper()
		all, err := s.DueRelays(ctx, at(second), 10)
		must(t, err)
		return len(all)
	}
	if due(0) != 0 || due(1) != 1 {
		t.Errorf("due: %d before its time, %d at it", due(0), due(1))
	}
	claimed, err := s.ClaimRelay(ctx, got, at(30))
	must(t, err)
	if !claimed || due(29) != 0 {
		t.Errorf("claimed %t, and %d are due", claimed, due(29))
	}

	// What was learnt is kept; nobody asked for a look meanwhile.
	got.TokenHash, got.Upstream, got.Seen, got.SeenSeq, got.Delay, got.Lost, got.LookAt = []byte("hash"), push.UpstreamActive, "more", 7, 5, 2, at(40)
	saved, err := s.SaveUpstream(ctx, got)
	must(t, err)
	must(t, s.SaveRelay(ctx, got))
	if !saved {
		t.Error("not saved by who has it")
	}
	again, err := s.Relay(ctx, task)
	must(t, err)
	if diff := cmp.Diff(got, again); diff != "" {
		t.Errorf("relay (-saved +read):\n%s", diff)
	}
	// Somebody asks while a look is under way: it stays due, but nobody else looks
	// meanwhile.
	claimRelay(t, s, again, at(60))
	must(t, s.NudgeRelay(ctx, task, at(50)))
	must(t, s.NudgeRelay(ctx, task, at(55)))
	if due(59) != 0 || due(60) != 1 {
		t.Errorf("while one looks %d are due, when it has died %d", due(59), due(60))
	}
	again.LookAt = at(70)
	must(t, s.SaveRelay(ctx, again))
	if due(49) != 0 || due(50) != 1 {
		t.Errorf("due before the nudge %d, at it %d", due(49), due(50))
	}
	// Whoever was too slow writes nothing any more.
	slow, err := s.Relay(ctx, task)
	must(t, err)
	claimRelay(t, s, slow, at(80))
	taker, err := s.Relay(ctx, task)
	must(t, err)
	claimRelay(t, s, taker, at(90))
	slow.Seen, slow.LookAt = "stale", at(81)
	saved, err = s.SaveUpstream(ctx, slow)
	must(t, err)
	must(t, s.SaveRelay(ctx, slow))
	if got, err := s.Relay(ctx, task); err != nil || saved || got.Seen != "more" || !got.Busy.Equal(at(90)) {
		t.Errorf("after a late save: %+v, %v, saved %t", got, err, saved)
	}
	taker.LookAt = at(95)
	must(t, s.SaveRelay(ctx, taker))
	// A second subscription looks at once.
	second, fresh := newSubscription("alice", task, "b")
	fresh.LookAt = at(2)
	must(t, s.Subscribe(ctx, second, fresh, push.Limits{}))
	if got, err := s.Relay(ctx, task); err != nil || got.Callback != relay.Callback || !got.LookAt.Equal(at(2)) {
		t.Errorf("after a second subscription: %+v, %v", got, err)
	}

	for _, config := range []string{"a", "b"} {
		if dropped, err := s.DropRelay(ctx, task); dropped || err != nil {
			t.Errorf("dropped %t, %v, while somebody subscribes", dropped, err)
		}
		must(t, s.Unsubscribe(ctx, task, config))
	}
	if dropped, err := s.DropRelay(ctx, task); !dropped || err != nil {
		t.Errorf("dropped %t, %v, with nobody left", dropped, err)
	}
}

// However many look at once, one does.
func testRelayClaimRace(t *testing.T, s Store) {
	task := taskOf(t, s, "alice", "t")
	subscribe(t, s, "alice", task, "a")
	r, err := s.Relay(t.Context(), task)
	must(t, err)
	var won atomic.Int32
	var group sync.WaitGroup
	for i := range 8 {
		group.Go(func() {
			mine := *r
			claimed, err := s.ClaimRelay(t.Context(), &mine, at(100+i))
			if err != nil {
				t.Error(err)
			}
			if claimed {
				won.Add(1)
			}
		})
	}
	group.Wait()
	if won.Load() != 1 {
		t.Errorf("%d claimed it, want one", won.Load())
	}
}

func testRelaysEnd(t *testing.T, s Store) {
	ctx := t.Context()
	subs := map[string]*push.Subscription{}
	for i, id := range []string{"delivered", "due", "fresh"} {
		task := taskOf(t, s, "alice", id)
		sub, relay := newSubscription("alice", task, "x")
		if id != "due" {
			sub.Cursor = 5
		}
		must(t, s.Subscribe(ctx, sub, relay, push.Limits{}))
		subs[id] = sub
		r, err := s.Relay(ctx, task)
		must(t, err)
		claimRelay(t, s, r, at(20))
		r.SeenSeq, r.Ended, r.LookAt = 5, at(10*i), time.Time{}
		must(t, s.SaveRelay(ctx, r))
	}
	if n, err := s.EndRelays(ctx, at(15)); err != nil || n != 1 {
		t.Errorf("%d ended, %v, want the delivered one", n, err)
	}
	for id, want := range map[string]parley.Kind{"delivered": parley.NotFound, "due": 0, "fresh": 0} {
		_, err := s.SubscriptionByID(ctx, subs[id].ID)
		if want != 0 {
			wantKind(t, id, err, want)
		} else if err != nil {
			t.Errorf("the %s one: %v", id, err)
		}
	}
}
