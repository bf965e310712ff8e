package control

import (
	"context"
	"net/url"
	"time"

	"github.com/parley-mesh/parley/internal/parley"
	"github.com/parley-mesh/parley/internal/push"
)

// Pushes knows how deliveries stand.
type Pushes interface {
	push.Letters
	PushStates(ctx context.Context, f push.StateFilter) ([]*push.State, error)
	// RetryPushNow makes a subscription due at once. Errors: parley.NotFound,
	// parley.Conflict where it has ended.
	RetryPushNow(ctx context.Context, subscription string) error
	PushLetters(ctx context.Context, f push.LetterFilter) ([]*push.Letter, error)
}

// Deliverer delivers pushes; see push.Dispatcher.
type Deliverer interface {
	Wake()
	Redeliver(ctx context.Context, from push.Letters, id string) (*push.Letter, error)
}

// Push is a subscription to a task's events, and how its delivery stands.
type Push struct {
	ID          string               `json:"id"`
	Config      string               `json:"config" doc:"Id of the push notification config, as its caller names it."`
	Agent       parley.AgentName     `json:"agent"`
	Instance    string               `json:"instance,omitempty"`
	Task        string               `json:"task"`
	Principal   parley.PrincipalName `json:"principal"`
	Owner       parley.OwnerName     `json:"owner"`
	URL         string               `json:"url" doc:"Without its query, which may hold a secret."`
	Version     string               `json:"version" doc:"A2A version that the receiver is told events in."`
	State       string               `json:"state" enum:"idle,due,waiting,ended" doc:"waiting: for another attempt after a failed one; ended: the receiver answered 410."`
	Pending     int64                `json:"pending" doc:"Events still to be delivered."`
	Attempts    int                  `json:"attempts" doc:"That failed for the next event."`
	Error       string               `json:"error,omitempty" doc:"Of the last attempt, where it failed."`
	NextAt      *time.Time           `json:"nextAt,omitempty"`
	AttemptedAt *time.Time           `json:"attemptedAt,omitempty"`
	DeliveredAt *time.Time           `json:"deliveredAt,omitempty"`
	EndedAt     *time.Time           `json:"endedAt,omitempty"`
	DeadLetters int                  `json:"deadLetters"`
	CreatedAt   time.Time            `json:"createdAt"`
}

// DeadLetter is an event that could not be delivered in time.
type DeadLetter struct {
	ID        string               `json:"id" doc:"Also its webhook-id."`
	Push      string               `json:"push" doc:"The subscription."`
	Agent     parley.AgentName     `json:"agent"`
	Task      string               `json:"task"`
	Principal parley.PrincipalName `json:"principal"`
	Owner     parley.OwnerName     `json:"owner"`
	Event     int64                `json:"event" doc:"Its number in the task's journal."`
	Happened  time.Time            `json:"happened"`
	DiedAt    time.Time            `json:"diedAt"`
	Attempts  int                  `json:"attempts"`
	Error     string               `json:"error"`
}

// PushFilter selects subscriptions; empty members select all.
type PushFilter struct {
	Owner parley.OwnerName `query:"owner" maxLength:"63"`
	Agent parley.AgentName `query:"agent" maxLength:"63"`
	Task  string           `query:"task" maxLength:"512"`
}

// LetterFilter selects dead letters; empty members select all.
type LetterFilter struct {
	Owner parley.OwnerName `query:"owner" maxLength:"63"`
	Agent parley.AgentName `query:"agent" maxLength:"63"`
	Push  string           `query:"push" maxLength:"64"`
}

func pushOf(s *push.State) Push {
	return Push{
		ID: s.ID, Config: s.ConfigID, Agent: s.Task.Agent, Instance: s.Task.Instance, Task: s.Task.ID, Principal: s.Principal, Owner: s.Owner,
		URL: withoutQuery(s.URL), Version: s.Version, State: stateOf(s), Pending: s.Pending(), Attempts: s.Attempts, Error: s.Error,
		NextAt: timeOf(s.DueAt), AttemptedAt: timeOf(s.AttemptedAt), DeliveredAt: timeOf(s.DeliveredAt), EndedAt: timeOf(s.EndedAt),
		DeadLetters: s.Letters, CreatedAt: s.Created.UTC(),
	}
}

func stateOf(s *push.State) string {
	switch {
	case !s.EndedAt.IsZero():
		return "ended"
	case s.Attempts > 0:
		return "waiting"
	case s.Pending() > 0:
		return "due"
	}
	return "idle"
}

// withoutQuery is an address as it may be shown.
func withoutQuery(raw string) string {
	u, err := url.Parse(raw)
	if err != nil {
		return ""
	}
	return (&url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path}).String()
}

func letterOf(l *push.Letter) DeadLetter {
	return DeadLetter{
		ID: l.ID, Push: l.Subscription, Agent: l.Task.Agent, Task: l.Task.ID, Principal: l.Principal, Owner: l.Owner,
		Event: l.Event.Seq, Happened: l.Event.At.UTC(), DiedAt: l.DiedAt.UTC(), Attempts: l.Attempts, Error: l.Reason,
	}
}

func (s *Server) pushRoutes() {
	pushes := s.opts.Pushes
	type list struct {
		Paging
		PushFilter
	}
	type one struct {
		ID string `path:"id" maxLength:"96"`
	}
	route(s, operation("listPushes", "GET", "/pushes", "List who is told of tasks' events, and how the delivery stands", 200),
		func(ctx context.Context, in *list) (*listed[Push], error) {
			at, err := in.place("pushes", 1)
			if err != nil {
				return nil, err
			}
			f := push.StateFilter{Owner: in.Owner, Agent: in.Agent, Task: in.Task, After: at[0], Limit: in.Limit + 1}
			if f.Owner, err = readable(ctx, "listPushes", f.Owner); err != nil {
				return nil, err
			}
			states, err := pushes.PushStates(ctx, f)
			return page(states, in.Limit, pushOf, func(p *push.State) string { return cursorOf("pushes", p.ID) }), err
		})
	route(s, operation("retryPush", "POST", "/pushes/{id}/retry", "Make the next attempt at once", 200),
		func(ctx context.Context, in *one) (*entity[Push], error) {
			if err := pushes.RetryPushNow(ctx, in.ID); err != nil {
				return nil, err
			}
			s.opts.Deliver.Wake()
			states, err := pushes.PushStates(ctx, push.StateFilter{ID: in.ID, Limit: 1})
			if err != nil {
				return nil, err
			}
			if len(states) == 0 {
				return nil, parley.E("control.retryPush", parley.NotFound, parley.Subject(in.ID), "the subscription was removed meanwhile", nil)
			}
			return &entity[Push]{Body: pushOf(states[0])}, nil
		})
	s.letterRoutes()
}

func (s *Server) letterRoutes() {
	pushes := s.opts.Pushes
	type list struct {
		Paging
		LetterFilter
	}
	type one struct {
		ID string `path:"id" maxLength:"96"`
	}
	route(s, operation("listDeadLetters", "GET", "/dead-letters", "List events that could not be delivered, newest first", 200),
		func(ctx context.Context, in *list) (*listed[DeadLetter], error) {
			at, err := in.place("dead-letters", 2)
			if err != nil {
				return nil, err
			}
			f := push.LetterFilter{Owner: in.Owner, Agent: in.Agent, Subscription: in.Push, BeforeID: at[1], Limit: in.Limit + 1}
			if at[0] != "" {
				if f.BeforeAt, err = time.Parse(time.RFC3339Nano, at[0]); err != nil {
					return nil, badParam("cursor", "is not a cursor of this list", "pass next of the page before, unchanged")
				}
			}
			if f.Owner, err = readable(ctx, "listDeadLetters", f.Owner); err != nil {
				return nil, err
			}
			letters, err := pushes.PushLetters(ctx, f)
			return page(letters, in.Limit, letterOf, func(l *push.Letter) string {
				return cursorOf("dead-letters", l.DiedAt.UTC().Format(time.RFC3339Nano), l.ID)
			}), err
		})
	route(s, operation("retryDeadLetter", "POST", "/dead-letters/{id}/retry", "Try once more to deliver, and forget what was delivered", 200),
		func(ctx context.Context, in *one) (*entity[DeadLetter], error) {
			l, err := s.opts.Deliver.Redeliver(ctx, pushes, in.ID)
			if err != nil {
				return nil, err
			}
			return &entity[DeadLetter]{Body: letterOf(l)}, nil
		})
}
