package push

import (
	"context"
	"time"

	"github.com/parley-mesh/parley/internal/parley"
)

// State is how the delivery of a subscription stands.
type State struct {
	Subscription
	Last        int64     // the last event of the task's journal
	DueAt       time.Time // zero: nothing waits
	Attempts    int       // that failed for the event that is next
	AttemptedAt time.Time
	DeliveredAt time.Time
	Error       string    // of the last attempt; empty where it succeeded
	EndedAt     time.Time // when the receiver said that it wants no more
	Letters     int       // dead letters that are kept
}

// Pending is how many events are still to be delivered.
func (s *State) Pending() int64 {
	if !s.EndedAt.IsZero() {
		return 0
	}
	return max(0, s.Last-s.Cursor)
}

// StateFilter selects subscriptions, by ID upwards; empty members select all.
type StateFilter struct {
	Owner parley.OwnerName
	Agent parley.AgentName
	Task  string
	ID    string
	After string // only those behind this id
	Limit int
}

// LetterFilter selects dead letters, newest first; empty members select all.
type LetterFilter struct {
	Owner        parley.OwnerName
	Agent        parley.AgentName
	Subscription string
	BeforeAt     time.Time // only those behind this place
	BeforeID     string
	Limit        int
}

// Letters keeps dead letters. Errors of what is not there are parley.NotFound.
type Letters interface {
	PushLetter(ctx context.Context, id string) (*Letter, error)
	SubscriptionByID(ctx context.Context, id string) (*Subscription, error)
	// DropPushLetter takes a letter away that has been delivered after all.
	DropPushLetter(ctx context.Context, id string) error
}

// Redeliver tries once more to deliver a dead letter, at once and whatever else
// its subscription has waiting, and takes it away where that succeeds. Errors:
// parley.NotFound without such a letter, parley.Conflict where its subscription is
// gone, parley.AgentFailed where the receiver does not take it.
func (d *Dispatcher) Redeliver(ctx context.Context, from Letters, id string) (*Letter, error) {
	const op parley.Op = "push.redeliver"
	letter, err := from.PushLetter(ctx, id)
	if err != nil {
		return nil, err
	}
	s, err := from.SubscriptionByID(ctx, letter.Subscription)
	if err != nil {
		if parley.KindOf(err) == parley.NotFound {
			err = parley.E(op, parley.Conflict, parley.Subject(id), "the subscription of the dead letter is gone, and with it where it was to go", nil)
		}
		return nil, err
	}
	got := d.attempt(ctx, &Claim{Subscription: *s}, letter.Event)
	switch got.result {
	case Delivered, Skipped:
		return letter, from.DropPushLetter(ctx, id)
	}
	return nil, parley.E(op, parley.AgentFailed, parley.Subject(id), "the dead letter is still not delivered: "+got.reason, nil)
}
