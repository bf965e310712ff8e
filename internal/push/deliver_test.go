package push_test

import (
	"cmp"
	"context"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"errors"
	"fmt"
	"maps"
	mathrand "math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/parley-mesh/parley/internal/call"
	"github.com/parley-mesh/parley/internal/parley"
	"github.com/parley-mesh/parley/internal/push"
)

// outbox is one in memory, by the rules of the store's; that keeps them is
// tested in internal/storetest.
type outbox struct {
	mu      sync.Mutex
	rows    map[string]*row
	letters []push.Letter
	events  []parley.Event
}

type row struct {
	sub      push.Subscription
	host     string
	journal  []push.Event
	due      time.Time // zero: not
	held     bool
	attempts int
	ended    bool
}

func (o *outbox) add(id, host string, events int) *row {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.rows == nil {
		o.rows = map[string]*row{}
	}
	r := &row{host: host, due: time.Now(), sub: push.Subscription{
		ID: id, Task: call.TaskKey{Agent: "echo", ID: "task-" + id}, Owner: "alpha", Principal: parley.PrincipalName("p-" + id),
		URL: "https://" + host + "/" + id, Version: "1.0",
	}}
	for i := range events {
		r.journal = append(r.journal, push.Event{Seq: int64(i + 1), At: time.Now(), Frame: fmt.Appendf(nil, `{"n":%d}`, i+1)})
	}
	o.rows[id] = r
	return r
}

func (o *outbox) MarkPushes(_ context.Context, tasks []call.TaskKey) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, r := range o.rows {
		for _, task := range tasks {
			if r.sub.Task == task && r.due.IsZero() && !r.ended {
				r.due = time.Now()
			}
		}
	}
	return nil
}

func (r *row) behind() []push.Event {
	for i, e := range r.journal {
		if e.Seq > r.sub.Cursor {
			return r.journal[i:]
		}
	}
	return nil
}

func (o *outbox) SweepPushes(context.Context) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, r := range o.rows {
		if r.due.IsZero() && !r.ended && len(r.behind()) > 0 {
			r.due = time.Now()
		}
	}
	return nil
}

func (o *outbox) DuePushes(_ context.Context, perHost, perPrincipal, limit int) (due []push.Due, _ error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	ids := slices.SortedFunc(maps.Keys(o.rows), func(a, b string) int {
		return cmp.Or(o.rows[a].due.Compare(o.rows[b].due), cmp.Compare(a, b))
	})
	of, by := map[string]int{}, map[parley.PrincipalName]int{}
	for _, id := range ids {
		r := o.rows[id]
		who := r.sub.Principal
		if r.due.IsZero() || r.due.After(time.Now()) || r.held || of[r.host] >= perHost || by[who] >= perPrincipal || len(due) >= limit {
			continue
		}
		of[r.host]++
		by[who]++
		due = append(due, push.Due{Subscription: id, Host: r.host, Principal: r.sub.Principal})
	}
	return due, nil
}

func (o *outbox) ClaimPush(_ context.Context, id, holder string, _ time.Duration) (*push.Claim, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	r := o.rows[id]
	if r.held || r.due.IsZero() {
		return nil, nil
	}
	r.held = true
	return &push.Claim{Subscription: r.sub, Holder: holder, Attempts: r.attempts}, nil
}

func (o *outbox) PushEvents(_ context.Context, c *push.Claim, limit int) ([]push.Event, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	r := o.rows[c.ID]
	r.sub.Cursor = max(r.sub.Cursor, c.Cursor)
	events := r.behind()
	return events[:min(len(events), limit)], nil
}

func (o *outbox) change(c *push.Claim, f func(*row)) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	r := o.rows[c.ID]
	if !r.held {
		return push.ErrLost
	}
	f(r)
	return nil
}

func (o *outbox) PushDelivered(_ context.Context, c *push.Claim, seq int64, _ time.Duration) error {
	return o.change(c, func(r *row) { r.sub.Cursor, r.attempts = seq, 0 })
}

func (o *outbox) PushDead(_ context.Context, c *push.Claim, l push.Letter, _ time.Duration, e parley.Event) error {
	return o.change(c, func(r *row) {
		r.sub.Cursor, r.attempts = l.Event.Seq, 0
		o.letters, o.events = append(o.letters, l), append(o.events, e)
	})
}

func (o *outbox) RetryPush(_ context.Context, c *push.Claim, _ string, pause time.Duration) error {
	return o.change(c, func(r *row) { r.held, r.attempts, r.due = false, c.Attempts, time.Now().Add(pause) })
}

func (o *outbox) RestPush(_ context.Context, c *push.Claim) error {
	return o.change(c, func(r *row) {
		r.held, r.due = false, time.Time{}
		if len(r.behind()) > 0 {
			r.due = time.Now()
		}
	})
}

func (o *outbox) EndPush(_ context.Context, c *push.Claim, _ string, e parley.Event) error {
	return o.change(c, func(r *row) {
		r.held, r.due, r.ended = false, time.Time{}, true
		o.events = append(o.events, e)
	})
}

// receivers stand in for the network.
type receivers struct {
	mu     sync.Mutex
	got    map[string][]string // accepted bodies, by URL
	tries  map[string][]time.Time
	ids    map[string][]string // webhook-id of each try
	answer func(ctx context.Context, url string, body []byte) (push.Answer, error)

	enough   int // accepted bodies after which run ends; 0: at its time
	accepted int
	stop     context.CancelFunc
}

func (r *receivers) Post(ctx context.Context, url string, header map[string]string, body []byte) (push.Answer, error) {
	r.mu.Lock()
	r.tries[url] = append(r.tries[url], time.Now())
	r.ids[url] = append(r.ids[url], header["Webhook-Id"])
	r.mu.Unlock()
	a := push.Answer{Status: 204}
	if r.answer != nil {
		var err error
		if a, err = r.answer(ctx, url, body); err != nil {
			return a, err
		}
	}
	if a.Status < 300 {
		r.mu.Lock()
		r.got[url] = append(r.got[url], string(body))
		if r.accepted++; r.accepted == r.enough {
			time.AfterFunc(time.Minute, r.stop) // whatever comes then would be one too many
		}
		r.mu.Unlock()
	}
	return a, nil
}

type keys struct{ es, ed push.Key }

func (k keys) PushKey(context.Context) (push.Key, error)    { return k.es, nil }
func (k keys) WebhookKey(context.Context) (push.Key, error) { return k.ed, nil }

func newKeys() keys {
	es, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		panic(err)
	}
	_, ed, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		panic(err)
	}
	return keys{push.Key{ID: "es", Private: es}, push.Key{ID: "ed", Private: ed}}
}

var testKeys = newKeys()

func newReceivers(answer func(ctx context.Context, url string, body []byte) (push.Answer, error)) *receivers {
	return &receivers{got: map[string][]string{}, tries: map[string][]time.Time{}, ids: map[string][]string{}, answer: answer}
}

// run delivers for d of virtual time, and stops.
func run(o *outbox, r *receivers, d time.Duration) {
	dispatcher := push.NewDispatcher(push.Options{
		Outbox: o, Post: r, Keys: testKeys, Issuer: "https://mesh.example", Environment: parley.Dev, Holder: "one",
		Timeout: 10 * time.Second, GiveUp: 24 * time.Hour, RetryFirst: 5 * time.Second, RetryMax: time.Hour, Concurrent: 8, PerHost: 2,
	})
	ctx, cancel := context.WithTimeout(context.Background(), d)
	defer cancel()
	r.stop = cancel
	_ = dispatcher.Run(ctx) // always nil
}

// TestOrderUnderFailures: whatever fails and however often, each subscriber gets
// each event, and accepts them in order without one left out.
func TestOrderUnderFailures(outer *testing.T) {
	rapid.Check(outer, func(t *rapid.T) {
		subs, events := rapid.IntRange(1, 12).Draw(t, "subscriptions"), rapid.IntRange(1, 40).Draw(t, "events")
		share := rapid.IntRange(0, 60).Draw(t, "failures in 100")
		chance := mathrand.New(mathrand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0))
		var mu sync.Mutex
		var o outbox
		r := newReceivers(func(context.Context, string, []byte) (push.Answer, error) {
			mu.Lock()
			defer mu.Unlock()
			switch x := chance.IntN(100); {
			case x >= share:
				return push.Answer{Status: 200}, nil
			case x%3 == 0:
				return push.Answer{}, errors.New("no connection")
			case x%3 == 1:
				return push.Answer{Status: 503, RetryAfter: "7"}, nil
			}
			return push.Answer{Status: 302}, nil
		})
		problem := ""
		synctest.Test(outer, func(*testing.T) {
			for i := range subs {
				o.add(fmt.Sprint(i), fmt.Sprintf("h%d.example", i%3), events)
			}
			r.enough = subs * events
			run(&o, r, 23*time.Hour)
			for i := range subs {
				var want []string
				for e := range events {
					want = append(want, fmt.Sprintf(`{"n":%d}`, e+1))
				}
				got := r.got[fmt.Sprintf("https://h%d.example/%d", i%3, i)]
				if strings.Join(got, "") != strings.Join(want, "") {
					problem = fmt.Sprintf("subscription %d accepted %v", i, got)
				}
			}
		})
		if problem != "" {
			t.Fatal(problem)
		}
	})
}

// TestHangingReceivers: hosts that never answer, many more of them than there is
// room for, hold up their own deliveries and no other principal's.
func TestHangingReceivers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var o outbox
		r := newReceivers(func(ctx context.Context, url string, _ []byte) (push.Answer, error) {
			if strings.Contains(url, "hang") {
				<-ctx.Done()
				return push.Answer{}, ctx.Err()
			}
			return push.Answer{Status: 200}, nil
		})
		for i := range 400 { // they have waited longest
			o.add(fmt.Sprintf("h%d", i), fmt.Sprintf("hang%d.example", i), 1).sub.Principal = "slow"
		}
		time.Sleep(time.Second) // virtual
		for i := range 40 {
			o.add(fmt.Sprintf("f%d", i), fmt.Sprintf("fast%d.example", i), 5)
		}
		begun := time.Now()
		run(&o, r, time.Minute)
		for i := range 40 {
			url := fmt.Sprintf("https://fast%d.example/f%d", i, i)
			if len(r.got[url]) != 5 {
				t.Fatalf("%s got %d of 5 events in a minute", url, len(r.got[url]))
			}
			if last := r.tries[url][4].Sub(begun); last > 5*time.Second {
				t.Errorf("%s had its last event after %s", url, last)
			}
		}
		for i := range 8 {
			if len(r.tries[fmt.Sprintf("https://hang%d.example/h%d", i, i)]) > 12 {
				t.Errorf("host %d was tried %d times", i, len(r.tries))
			}
		}
	})
}

// TestSlowHostsShareHalf: once they are known, hosts that hang leave half of the
// room to others, whoever they belong to.
func TestSlowHostsShareHalf(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var o outbox
		r := newReceivers(func(ctx context.Context, url string, _ []byte) (push.Answer, error) {
			if strings.Contains(url, "hang") {
				<-ctx.Done()
				return push.Answer{}, ctx.Err()
			}
			return push.Answer{Status: 200}, nil
		})
		for i := range 16 {
			o.add(fmt.Sprintf("h%d", i), fmt.Sprintf("hang%d.example", i), 1)
		}
		var added time.Time
		time.AfterFunc(time.Minute, func() { // all of them are known by then
			added = time.Now()
			for i := range 8 {
				o.add(fmt.Sprintf("f%d", i), fmt.Sprintf("fast%d.example", i), 5)
			}
		})
		run(&o, r, 2*time.Minute)
		for i := range 8 {
			tries := r.tries[fmt.Sprintf("https://fast%d.example/f%d", i, i)]
			if len(tries) != 5 || tries[4].Sub(added) > 5*time.Second {
				t.Errorf("fast host %d was served at %v after %s", i, tries, added)
			}
		}
	})
}

// TestDeadLetter: an event is given up a day after it happened, kept, told of, and
// the next ones follow.
func TestDeadLetter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var o outbox
		begun := time.Now()
		r := newReceivers(func(_ context.Context, _ string, body []byte) (push.Answer, error) {
			if string(body) == `{"n":1}` || time.Since(begun) < 30*time.Minute {
				return push.Answer{Status: 500}, nil
			}
			return push.Answer{Status: 200}, nil
		})
		o.add("s", "a.example", 3)
		run(&o, r, 25*time.Hour)
		url := "https://a.example/s"
		if got := fmt.Sprint(r.got[url]); got != `[{"n":2} {"n":3}]` {
			t.Errorf("accepted %s", got)
		}
		if len(o.letters) != 1 || string(o.letters[0].Event.Frame) != `{"n":1}` || o.letters[0].Reason != "the receiver answered with status 500" {
			t.Fatalf("dead letters %+v", o.letters)
		}
		if len(o.events) != 1 || o.events[0].Type != push.EventDead || o.events[0].Subject != "pushes/s" {
			t.Errorf("events %+v", o.events)
		}
		tries := r.tries[url][:o.letters[0].Attempts]
		if last := tries[len(tries)-1].Sub(begun); last < 24*time.Hour || last > 24*time.Hour+time.Minute {
			t.Errorf("the last attempt came after %s, want a day", last)
		}
		for i := 1; i < len(tries); i++ {
			if pause := tries[i].Sub(tries[i-1]); pause > time.Hour+time.Minute {
				t.Errorf("pause %d is %s, more than an hour", i, pause)
			}
		}
		if len(tries) < 24 || len(tries) > 80 {
			t.Errorf("%d attempts in a day", len(tries))
		}
		first := r.ids[url][0]
		for i := range tries {
			if r.ids[url][i] != first {
				t.Errorf("attempt %d has the id %q, the first had %q", i, r.ids[url][i], first)
			}
		}
		if r.ids[url][len(tries)] == first {
			t.Error("the next event has the id of the first")
		}
	})
}

// TestRetryAfter: the receiver's wish is the least pause.
func TestRetryAfter(t *testing.T) {
	for _, test := range []struct {
		after string
		least time.Duration
	}{{"600", 600 * time.Second}, {"Sat, 01 Jan 2000 01:00:00 GMT", time.Hour}, {"soon", 0}, {"-5", 0}, {"999999999999", 0}} {
		synctest.Test(t, func(t *testing.T) { // the bubble's clock begins at midnight, 1 January 2000 UTC
			var o outbox
			r := newReceivers(func(context.Context, string, []byte) (push.Answer, error) {
				return push.Answer{Status: 429, RetryAfter: test.after}, nil
			})
			o.add("s", "a.example", 1)
			run(&o, r, 2*time.Hour)
			tries := r.tries["https://a.example/s"]
			if pause := tries[1].Sub(tries[0]); pause < test.least || pause > max(test.least, 5*time.Second)+2*time.Second {
				t.Errorf("Retry-After %q: tried again after %s", test.after, pause)
			}
		})
	}
}

// TestGone: 410 ends a subscription, and nothing more is sent.
func TestGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var o outbox
		r := newReceivers(func(context.Context, string, []byte) (push.Answer, error) { return push.Answer{Status: 410}, nil })
		o.add("s", "a.example", 3)
		run(&o, r, 25*time.Hour)
		if n := len(r.tries["https://a.example/s"]); n != 1 || !o.rows["s"].ended || len(o.letters) != 0 {
			t.Errorf("%d attempts, ended %t, letters %v", n, o.rows["s"].ended, o.letters)
		}
	})
}

// TestGrown: an event that comes while nothing is due is delivered at once.
func TestGrown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var o outbox
		r := newReceivers(nil)
		row := o.add("s", "a.example", 0)
		d := push.NewDispatcher(push.Options{
			Outbox: &o, Post: r, Keys: testKeys, Timeout: 10 * time.Second, GiveUp: time.Hour,
			RetryFirst: time.Second, RetryMax: time.Second, Concurrent: 2, PerHost: 2,
		})
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- d.Run(ctx) }()
		time.Sleep(10 * time.Second) // virtual
		o.mu.Lock()
		row.journal = append(row.journal, push.Event{Seq: 1, At: time.Now(), Frame: []byte(`{}`)})
		o.mu.Unlock()
		happened := time.Now()
		d.Grown(row.sub.Task)
		time.Sleep(time.Minute) // virtual
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
		tries := r.tries["https://a.example/s"]
		if len(tries) != 1 || tries[0].Sub(happened) > 100*time.Millisecond {
			t.Errorf("attempts %v after the event", tries)
		}
	})
}
