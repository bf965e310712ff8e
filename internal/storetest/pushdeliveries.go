package storetest

import (
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/parley-mesh/parley/internal/call"
	"github.com/parley-mesh/parley/internal/identity"
	"github.com/parley-mesh/parley/internal/parley"
	"github.com/parley-mesh/parley/internal/push"
	"github.com/parley-mesh/parley/internal/store"
)

const lease = time.Minute

func grow(t *testing.T, s Store, task call.TaskKey, frames ...string) {
	t.Helper()
	for _, frame := range frames {
		_, err := s.Append(t.Context(), task, "alpha", []byte(frame))
		must(t, err)
	}
}

// subscribed makes a subscription from the journal's beginning.
func subscribed(t *testing.T, s Store, who parley.PrincipalName, task call.TaskKey, config string) *push.Subscription {
	t.Helper()
	sub, relay := newSubscription(who, task, config)
	sub.Cursor = 0
	must(t, s.Subscribe(t.Context(), sub, relay, push.Limits{}))
	return sub
}

func due(t *testing.T, s Store) []string {
	t.Helper()
	all, err := s.DuePushes(t.Context(), 100, 100, 100)
	must(t, err)
	ids := []string{}
	for _, d := range all {
		ids = append(ids, d.Subscription)
	}
	return ids
}

func wantDue(t *testing.T, s Store, what string, want ...string) {
	t.Helper()
	got := due(t, s)
	if len(got) != len(want) {
		t.Fatalf("%s: due are %v, want %v", what, got, want)
	}
	for _, id := range want {
		if !contains(got, id) {
			t.Errorf("%s: due are %v, want %v", what, got, want)
		}
	}
}

func contains(all []string, one string) bool {
	for _, id := range all {
		if id == one {
			return true
		}
	}
	return false
}

func claim(t *testing.T, s Store, id, holder string) *push.Claim {
	t.Helper()
	c, err := s.ClaimPush(t.Context(), id, holder, lease)
	must(t, err)
	if c == nil {
		t.Fatalf("%s was not claimed for %s", id, holder)
	}
	return c
}

func testPushTurns(t *testing.T, s Store) {
	ctx := t.Context()
	task := taskOf(t, s, "alice", "t")
	a := subscribed(t, s, "alice", task, "a")
	grow(t, s, task, `{"n":1}`, `{"n":2}`)
	wantDue(t, s, "a new subscription", a.ID)

	c := claim(t, s, a.ID, "one")
	if c.URL != a.URL || c.Token != a.Token || c.Cursor != 0 {
		t.Errorf("claim %+v of %+v", c, a)
	}
	wantDue(t, s, "while it is held")
	if other, err := s.ClaimPush(ctx, a.ID, "two", lease); other != nil || err != nil {
		t.Errorf("claimed twice: %+v, %v", other, err)
	}
	events, err := s.PushEvents(ctx, c, 10)
	must(t, err)
	if len(events) != 2 || events[0].Seq != 1 || string(events[1].Frame) != `{"n":2}` || events[0].At.IsZero() {
		t.Fatalf("events %+v", events)
	}
	must(t, s.PushDelivered(ctx, c, 1, lease))
	c.Attempts = 3
	must(t, s.RetryPush(ctx, c, "no \x00 answer", time.Hour))
	wantDue(t, s, "while it waits for another attempt")
	if err := s.PushDelivered(ctx, c, 2, lease); !errors.Is(err, push.ErrLost) {
		t.Errorf("a claim that was let go: %v, want push.ErrLost", err)
	}
	must(t, s.RetryPushNow(ctx, a.ID))
	c = claim(t, s, a.ID, "two")
	if c.Cursor != 1 || c.Attempts != 3 {
		t.Errorf("claimed again: cursor %d, attempts %d, want 1 and 3", c.Cursor, c.Attempts)
	}
	must(t, s.RestPush(ctx, c)) // before the second event
	wantDue(t, s, "let go with an event left", a.ID)
	c = claim(t, s, a.ID, "two")
	must(t, s.PushDelivered(ctx, c, 2, lease))
	must(t, s.RestPush(ctx, c))
	wantDue(t, s, "at rest")

	grow(t, s, task, `{"n":3}`)
	must(t, s.MarkPushes(ctx, []call.TaskKey{task, {Agent: "echo", ID: "nobody's"}}))
	wantDue(t, s, "marked", a.ID)
	c = claim(t, s, a.ID, "two")
	must(t, s.PushDelivered(ctx, c, 3, lease))
	must(t, s.RestPush(ctx, c))
	grow(t, s, task, `{"n":4}`)
	wantDue(t, s, "grown and not marked")
	must(t, s.SweepPushes(ctx))
	wantDue(t, s, "swept", a.ID)

	c = claim(t, s, a.ID, "two")
	must(t, s.Unsubscribe(ctx, task, "a"))
	if err := s.PushDelivered(ctx, c, 4, lease); !errors.Is(err, push.ErrLost) {
		t.Errorf("a subscription that was removed: %v, want push.ErrLost", err)
	}
	wantDue(t, s, "removed")
}

func testPushMarks(t *testing.T, s Store) {
	var tasks []call.TaskKey
	var ids []string
	for _, id := range []string{"u", "t", "v"} {
		task := taskOf(t, s, "alice", id)
		a := subscribed(t, s, "alice", task, "a")
		must(t, s.RestPush(t.Context(), claim(t, s, a.ID, "one")))
		grow(t, s, task, `{}`)
		tasks, ids = append(tasks, task), append(ids, a.ID)
	}
	wantDue(t, s, "grown and not marked")
	must(t, s.MarkPushes(t.Context(), tasks))
	wantDue(t, s, "marked together", ids...)
}

func testPushLeaseEnds(t *testing.T, s Store) {
	task := taskOf(t, s, "alice", "t")
	a := subscribed(t, s, "alice", task, "a")
	grow(t, s, task, `{}`)
	c, err := s.ClaimPush(t.Context(), a.ID, "one", time.Millisecond)
	must(t, err)
	deadline := time.Now().Add(30 * time.Second)
	for len(due(t, s)) == 0 { // the lease runs by the database's clock
		if time.Now().After(deadline) {
			t.Fatal("the lease does not end")
		}
		time.Sleep(time.Millisecond)
	}
	claim(t, s, a.ID, "two")
	if err := s.PushDelivered(t.Context(), c, 1, lease); !errors.Is(err, push.ErrLost) {
		t.Errorf("the first holder: %v, want push.ErrLost", err)
	}
}

func testPushClaimRace(t *testing.T, s Store) {
	task := taskOf(t, s, "alice", "t")
	a := subscribed(t, s, "alice", task, "a")
	var group sync.WaitGroup
	var won atomic.Int32
	for _, holder := range []string{"one", "two", "three", "four"} {
		group.Go(func() {
			c, err := s.ClaimPush(t.Context(), a.ID, holder, lease)
			if err != nil {
				t.Error(err)
			}
			if c != nil {
				won.Add(1)
			}
		})
	}
	group.Wait()
	if won.Load() != 1 {
		t.Errorf("%d claimed it", won.Load())
	}
}

func testPushEnds(t *testing.T, s Store) {
	ctx := t.Context()
	task := taskOf(t, s, "alice", "t")
	a := subscribed(t, s, "alice", task, "a")
	grow(t, s, task, `{"n":1}`, `{"n":2}`)
	c := claim(t, s, a.ID, "one")
	letter := push.Letter{ID: "l-1", Subscription: a.ID, Event: push.Event{Seq: 1, At: at(3), Frame: []byte(`{"n":1}`)}, Attempts: 5, Reason: "status 500", DiedAt: at(9)}
	must(t, s.PushDead(ctx, c, letter, lease, happened("pushes/"+a.ID, push.EventDead)))
	must(t, s.EndPush(ctx, c, "410", happened("pushes/"+a.ID, push.EventEnded)))
	grow(t, s, task, `{"n":3}`)
	must(t, s.MarkPushes(ctx, []call.TaskKey{task}))
	must(t, s.SweepPushes(ctx))
	wantDue(t, s, "after its end")
	wantKind(t, "a retry of what has ended", s.RetryPushNow(ctx, a.ID), parley.Conflict)
	wantKind(t, "a retry of nothing", s.RetryPushNow(ctx, "nothing"), parley.NotFound)

	states, err := s.PushStates(ctx, push.StateFilter{Limit: 10})
	must(t, err)
	if len(states) != 1 {
		t.Fatalf("states %+v", states)
	}
	got := states[0]
	if got.ID != a.ID || got.ConfigID != "a" || got.Cursor != 1 || got.Last != 3 || got.Letters != 1 || got.Error != "410" || got.EndedAt.IsZero() || got.URL != a.URL {
		t.Errorf("state %+v", got)
	}
	letters, err := s.PushLetters(ctx, push.LetterFilter{Limit: 10})
	must(t, err)
	if len(letters) != 1 || letters[0].ID != "l-1" || letters[0].Attempts != 5 || !letters[0].DiedAt.Equal(at(9)) || letters[0].Principal != "alice" {
		t.Errorf("letters %+v", letters)
	}
	one, err := s.PushLetter(ctx, "l-1")
	must(t, err)
	if string(one.Event.Frame) != `{"n":1}` || !one.Event.At.Equal(at(3)) || one.Task != task {
		t.Errorf("letter %+v", one)
	}
	subscribed(t, s, "alice", task, "a") // the same config again
	wantDue(t, s, "subscribed anew", a.ID)

	_, err = s.Prune(ctx, store.Cutoffs{Letters: at(8)})
	must(t, err)
	_, err = s.PushLetter(ctx, "l-1")
	must(t, err)
	_, err = s.Prune(ctx, store.Cutoffs{Letters: at(10)})
	must(t, err)
	_, err = s.PushLetter(ctx, "l-1")
	wantKind(t, "a letter past its time", err, parley.NotFound)
}

func testPushFairness(t *testing.T, s Store) {
	ctx := t.Context()
	addOwner(t, s, "alpha")
	bob := &identity.Principal{Name: "bob", Owner: "alpha", Environment: parley.Dev, CreatedAt: at(0)}
	must(t, s.SavePrincipal(ctx, bob))
	task, other := taskOf(t, s, "alice", "t"), taskOf(t, s, "bob", "u")
	for _, config := range []string{"a", "b", "c"} {
		subscribed(t, s, "alice", task, config)
	}
	b := subscribed(t, s, "bob", other, "d")
	if found, err := s.DuePushes(ctx, 2, 100, 100); err != nil || len(found) != 2 {
		t.Errorf("two of one host: %+v, %v", found, err)
	}
	if found, err := s.DuePushes(ctx, 100, 1, 100); err != nil || len(found) != 2 || found[0].Principal == found[1].Principal {
		t.Errorf("one of each principal: %+v, %v", found, err)
	}
	bob.FrozenAt, bob.FrozenReason = at(5), "a test"
	must(t, s.SavePrincipal(ctx, bob))
	if got := due(t, s); len(got) != 3 || contains(got, b.ID) {
		t.Errorf("due are %v with %s of a frozen principal", got, b.ID)
	}
}
