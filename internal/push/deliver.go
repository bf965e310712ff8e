package push

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/parley-mesh/parley/internal/call"
	"github.com/parley-mesh/parley/internal/parley"
)

// Event is one event of a task's journal: a StreamResponse of A2A 1.0.
type Event struct {
	Seq   int64
	At    time.Time // when it happened
	Frame []byte
}

// Due is a subscription with something to deliver.
type Due struct {
	Subscription string
	Host         string // of its URL, with the port where it has one
	Principal    parley.PrincipalName
}

// Claim is a subscription that this process alone delivers to, until it lets go
// or its lease ends.
type Claim struct {
	Subscription
	Holder   string // the process, as ClaimPush was told
	Attempts int    // that failed for the event after Cursor
}

// Letter is an event that could not be delivered in time.
type Letter struct {
	ID           string
	Subscription string
	Task         call.TaskKey
	Owner        parley.OwnerName
	Principal    parley.PrincipalName
	Event        Event // without its frame in lists
	Attempts     int
	Reason       string // of the last failure
	DiedAt       time.Time
}

// Outbox keeps what is to be delivered. Every method is one transaction or reads;
// those that take a claim give ErrLost where it is no longer the caller's.
type Outbox interface {
	// MarkPushes makes the subscriptions to these tasks due, whose journals have
	// grown.
	MarkPushes(ctx context.Context, tasks []call.TaskKey) error
	// SweepPushes makes every subscription due whose cursor is behind its journal:
	// what a process that died has not marked.
	SweepPushes(ctx context.Context) error
	// DuePushes gives subscriptions with something to deliver now that nobody
	// holds, longest waiting first: at most perHost of one host, perPrincipal of
	// one principal, and limit in all.
	DuePushes(ctx context.Context, perHost, perPrincipal, limit int) ([]Due, error)
	// ClaimPush takes a subscription for lease; nil where somebody else has it, it
	// is not due, or is gone.
	ClaimPush(ctx context.Context, subscription, holder string, lease time.Duration) (*Claim, error)
	// PushEvents gives events behind the claim's cursor, oldest first.
	PushEvents(ctx context.Context, c *Claim, limit int) ([]Event, error)
	// PushDelivered moves the cursor behind an event, and renews the lease.
	PushDelivered(ctx context.Context, c *Claim, seq int64, lease time.Duration) error
	// PushDead keeps an event as a dead letter and moves the cursor behind it.
	PushDead(ctx context.Context, c *Claim, l Letter, lease time.Duration, event parley.Event) error
	// RetryPush lets go of the claim until pause is over, after a failed attempt.
	RetryPush(ctx context.Context, c *Claim, reason string, pause time.Duration) error
	// RestPush lets go of the claim: the subscription is due again at once where the
	// journal has more, else with the next event.
	RestPush(ctx context.Context, c *Claim) error
	// EndPush ends the subscription: the receiver wants no more.
	EndPush(ctx context.Context, c *Claim, reason string, event parley.Event) error
}

// ErrLost is what an Outbox answers about a claim that is no longer held: the
// lease ended, or the subscription was removed. Whoever gets it stops.
var ErrLost = errors.New("push: the claim is lost")

// Meter counts deliveries.
type Meter interface {
	// Attempt counts one attempt by its Result. age is how long ago the event happened.
	Attempt(ctx context.Context, result string, took, age time.Duration)
	// Dead counts a dead letter.
	Dead(ctx context.Context)
}

// Options are the parts of a Dispatcher. All without a default are required.
type Options struct {
	Outbox Outbox
	Post   Poster
	Keys   Keys
	Issuer string // public URL of the mesh, which its tokens name
	// Body renders an event for a subscriber of another version than 1.0. It gives
	// nil where that version cannot express the event: nothing is sent then.
	Body  func(ctx context.Context, s *Subscription, e Event) ([]byte, error)
	Meter Meter // nil: nothing is counted
	Log   *slog.Logger
	Now   func() time.Time // nil: time.Now

	Environment parley.Environment // of the mesh's events

	Holder     string        // names this process among the replicas
	Timeout    time.Duration // of one attempt
	GiveUp     time.Duration // after an event happened, before it becomes a dead letter
	RetryFirst time.Duration // pause after a first failure; doubled after each
	RetryMax   time.Duration // longest such pause
	Concurrent int           // attempts under way at once
	PerHost    int           // of these, at one host
}

// Fixed choices of the dispatcher.
const (
	poll       = time.Second          // pause between two looks without a hint
	sweepEvery = 30 * time.Second     // pause between two looks for what nobody marked
	maxGrown   = 10_000               // tasks remembered until the next look; beyond it all are swept
	passGap    = 5 * time.Millisecond // least time between two looks
	batch      = 16                   // events read at once
	turnEvents = 64                   // events after which a subscription goes to the end of the queue
	leaseGrace = 15 * time.Second     // of a claim, beyond what its attempt may take
	letGoTime  = 2 * time.Second      // for letting go of claims when the process stops
)

// Dispatcher delivers events to subscribers: those of one subscription one after
// the other, in order; those of several at the same time. It is safe for
// concurrent use. Several processes over one store share the work.
type Dispatcher struct {
	opts  Options
	lanes *lanes
	wake  chan struct{} // holds a token: there may be something to deliver

	mu    sync.Mutex
	grown map[call.TaskKey]bool // whose journals have grown since the last look
	swept time.Time             // when all were last looked at; zero: to be done
}

// NewDispatcher returns a dispatcher that does nothing until Run.
func NewDispatcher(o Options) *Dispatcher {
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return &Dispatcher{opts: o, lanes: newLanes(o.Concurrent, o.PerHost), wake: make(chan struct{}, 1), grown: map[call.TaskKey]bool{}}
}

// Grown tells that a task's journal has new events. It returns at once.
func (d *Dispatcher) Grown(task call.TaskKey) {
	d.mu.Lock()
	if len(d.grown) < maxGrown {
		d.grown[task] = true
	} else {
		d.swept = time.Time{}
	}
	d.mu.Unlock()
	d.Wake()
}

// Wake tells that there may be something to deliver. It returns at once.
func (d *Dispatcher) Wake() {
	select {
	case d.wake <- struct{}{}:
	default: // it is told already
	}
}

// Run delivers until ctx ends. What is under way then is broken off, and
// delivered again by whoever runs next.
func (d *Dispatcher) Run(ctx context.Context) error {
	var work sync.WaitGroup
	defer work.Wait()
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		if err := d.pass(ctx, &work); err != nil && ctx.Err() == nil {
			d.opts.Log.WarnContext(ctx, "deliveries that are due not found; tried again", "err", err)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(passGap):
		}
		timer.Reset(poll)
		select {
		case <-ctx.Done():
			return nil
		case <-d.wake:
		case <-timer.C:
		}
	}
}

// pass starts as many deliveries as there is room for.
func (d *Dispatcher) pass(ctx context.Context, work *sync.WaitGroup) error {
	if err := d.mark(ctx); err != nil {
		return err
	}
	if d.lanes.full() {
		return nil // whoever ends wakes
	}
	due, err := d.opts.Outbox.DuePushes(ctx, 2*d.opts.PerHost, 2*d.lanes.perPrincipal, 4*d.opts.Concurrent)
	if err != nil {
		return err
	}
	for _, one := range due {
		leave, ok := d.lanes.enter(one)
		if !ok {
			continue
		}
		work.Go(func() {
			defer d.Wake()
			leave(d.serve(ctx, one.Subscription))
		})
	}
	return nil
}

// mark makes due whatever has something new.
func (d *Dispatcher) mark(ctx context.Context) error {
	now := d.opts.Now()
	d.mu.Lock()
	grown, sweep := slices.Collect(maps.Keys(d.grown)), now.Sub(d.swept) >= sweepEvery
	clear(d.grown)
	if sweep {
		d.swept = now
	}
	d.mu.Unlock()
	var err error
	switch {
	case sweep:
		err = d.opts.Outbox.SweepPushes(ctx)
	case len(grown) > 0:
		err = d.opts.Outbox.MarkPushes(ctx, grown)
	}
	if err != nil { // what was to be marked is found by a sweep
		d.mu.Lock()
		d.swept = time.Time{}
		d.mu.Unlock()
	}
	return err
}

func (d *Dispatcher) lease() time.Duration { return d.opts.Timeout + leaseGrace }

// serve delivers what a subscription has waiting, until there is nothing more or
// an attempt fails. slow tells that its host kept an attempt waiting in vain.
func (d *Dispatcher) serve(ctx context.Context, subscription string) (slow bool) {
	c, err := d.opts.Outbox.ClaimPush(ctx, subscription, d.opts.Holder, d.lease())
	if err == nil && c != nil {
		slow, err = d.deliver(ctx, c)
	}
	switch {
	case err == nil || errors.Is(err, ErrLost):
	case ctx.Err() != nil && c != nil:
		letGo, cancel := context.WithTimeout(context.WithoutCancel(ctx), letGoTime)
		defer cancel()
		// Where this fails, the lease ends by itself.
		_ = d.opts.Outbox.RestPush(letGo, c)
	case ctx.Err() == nil:
		d.opts.Log.WarnContext(ctx, "delivery not recorded; tried again when its lease has ended", "subscription", subscription, "err", err)
	}
	return slow
}

// deliver sends the claim's events in order. A crash between an attempt and the
// line that records it repeats the event, under the same id.
func (d *Dispatcher) deliver(ctx context.Context, c *Claim) (slow bool, err error) {
	for range turnEvents / batch {
		events, err := d.opts.Outbox.PushEvents(ctx, c, batch)
		if err != nil || len(events) == 0 {
			return false, cmp.Or(err, d.opts.Outbox.RestPush(ctx, c))
		}
		for _, e := range events {
			if on, slow, err := d.one(ctx, c, e); err != nil || !on {
				return slow, err
			}
		}
	}
	return false, d.opts.Outbox.RestPush(ctx, c) // others wait: to the end of the queue
}

// one sends one event; on tells that the next may follow.
func (d *Dispatcher) one(ctx context.Context, c *Claim, e Event) (on, slow bool, err error) {
	box := d.opts.Outbox
	got := d.attempt(ctx, c, e)
	if ctx.Err() != nil {
		return false, false, ctx.Err() // what came of it is not known
	}
	switch got.result {
	case Delivered, Skipped:
		err := box.PushDelivered(ctx, c, e.Seq, d.lease())
		c.Cursor, c.Attempts = e.Seq, 0
		return err == nil, false, err
	case Gone:
		d.opts.Log.InfoContext(ctx, "a receiver wants no more pushes: its subscription has ended", "subscription", c.ID, "agent", c.Task.Agent)
		return false, false, box.EndPush(ctx, c, got.reason, d.event(EventEnded, c, eventData{Reason: got.reason}))
	}
	c.Attempts++
	left := e.At.Add(d.opts.GiveUp).Sub(d.opts.Now())
	if left > 0 {
		return false, got.slow, box.RetryPush(ctx, c, got.reason, min(left, d.pause(c.Attempts, got.retryAfter)))
	}
	letter := Letter{
		ID: letterID(c.ID, e.Seq), Subscription: c.ID, Task: c.Task, Owner: c.Owner, Principal: c.Principal, Event: e,
		Attempts: c.Attempts, Reason: got.reason, DiedAt: d.opts.Now(),
	}
	if err := box.PushDead(ctx, c, letter, d.lease(), d.event(EventDead, c, eventData{Letter: letter.ID, Attempts: letter.Attempts, Reason: got.reason})); err != nil {
		return false, got.slow, err
	}
	d.opts.Log.WarnContext(ctx, "a push was given up and kept as a dead letter", "subscription", c.ID, "agent", c.Task.Agent, "letter", letter.ID, "reason", got.reason)
	if d.opts.Meter != nil {
		d.opts.Meter.Dead(ctx)
	}
	c.Cursor, c.Attempts = e.Seq, 0
	return true, got.slow, nil
}

// letterID names a dead letter as its webhook-id does: it is the same event.
func letterID(subscription string, seq int64) string { return fmt.Sprintf("%s-%d", subscription, seq) }

// pause is how long to wait after the given number of failed attempts: twice as
// long after each, and up to a half less by chance, so that receivers that failed
// together are not asked together. What the receiver asked for is the least.
func (d *Dispatcher) pause(attempts int, asked time.Duration) time.Duration {
	pause := d.opts.RetryMax
	if doublings := attempts - 1; doublings < 32 {
		pause = min(pause, d.opts.RetryFirst<<doublings)
	}
	return max(asked, pause-jitter(pause/2))
}
