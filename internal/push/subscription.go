package push

import (
	"context"
	"crypto/rand"
	"time"

	"github.com/parley-mesh/parley/internal/call"
	"github.com/parley-mesh/parley/internal/parley"
)

// Subscription is a principal's wish to be told of a task's events at a URL
// (TaskPushNotificationConfig, A2A 1.0, section 3.1.7).
type Subscription struct {
	ID        string // the mesh's own, for ever
	Task      call.TaskKey
	Owner     parley.OwnerName // of the principal; its key seals the target
	Principal parley.PrincipalName
	ConfigID  string // as callers name it, one of its task's

	URL             string
	Token           string // shown to the receiver; empty: none
	AuthScheme      string // of Authorization; empty: the caller gave none
	AuthCredentials string
	Version         string // A2A version of the subscriber: "1.0" or "0.3"

	// Cursor is the place in the task's journal of the last event that was
	// delivered or given up. Events behind it are due.
	Cursor  int64
	Created time.Time
}

// NewID gives an id that nobody can guess.
func NewID() string { return rand.Text() }

// Limits bound how many subscriptions are kept. Zero members bound nothing.
type Limits struct {
	PerTask      int
	PerPrincipal int // for tasks that are not final
}

// Store keeps subscriptions. Errors of subscriptions that are not there are
// parley.NotFound.
type Store interface {
	// Subscribe stores s, and the relay of its task where there is none yet.
	// Where the task has a subscription of that ConfigID, its target is
	// replaced: ID, Cursor and Created stay, and are set in s. One too many is a
	// parley.Exhausted error, a task that is not the principal's a
	// parley.NotFound error.
	Subscribe(ctx context.Context, s *Subscription, r *Relay, most Limits) error
	// Unsubscribe ends one; one that is not there is no error.
	Unsubscribe(ctx context.Context, task call.TaskKey, configID string) error
	Subscription(ctx context.Context, task call.TaskKey, configID string) (*Subscription, error)
	// TaskSubscriptions gives those of a task by ConfigID, behind after.
	TaskSubscriptions(ctx context.Context, task call.TaskKey, after string, limit int) ([]*Subscription, error)

	// SubscriptionByID gives one by the mesh's own id.
	SubscriptionByID(ctx context.Context, id string) (*Subscription, error)
	// Subscriptions gives everybody's by ID, behind after.
	Subscriptions(ctx context.Context, after string, limit int) ([]*Subscription, error)
}
