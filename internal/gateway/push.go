package gateway

import (
	"context"
	"time"

	"github.com/parley-mesh/parley/internal/a2a"
	"github.com/parley-mesh/parley/internal/call"
	"github.com/parley-mesh/parley/internal/jsonwire"
	"github.com/parley-mesh/parley/internal/parley"
	"github.com/parley-mesh/parley/internal/push"
	"github.com/parley-mesh/parley/internal/stream"
)

// PushStore keeps subscriptions, and the relays that follow their tasks.
type PushStore interface {
	push.Store
	// RoomForSubscription gives a parley.Exhausted error where the principal has
	// as many as it may have.
	RoomForSubscription(ctx context.Context, principal parley.PrincipalName, most push.Limits) error
	Relay(ctx context.Context, task call.TaskKey) (*push.Relay, error)
	RelayByCallback(ctx context.Context, callback string) (*push.Relay, error)
	DueRelays(ctx context.Context, now time.Time, limit int) ([]*push.Relay, error)
	Relays(ctx context.Context, after string, limit int) ([]*push.Relay, error)
	ClaimRelay(ctx context.Context, r *push.Relay, until time.Time) (claimed bool, err error)
	SaveUpstream(ctx context.Context, r *push.Relay) (saved bool, err error)
	SaveRelay(ctx context.Context, r *push.Relay) error
	NudgeRelay(ctx context.Context, task call.TaskKey, at time.Time) error
	DropRelay(ctx context.Context, task call.TaskKey) (dropped bool, err error)
}

// TaskJournal keeps the events of tasks in order.
type TaskJournal interface {
	Append(ctx context.Context, key call.TaskKey, owner parley.OwnerName, frames ...[]byte) (last int64, err error)
	After(ctx context.Context, key call.TaskKey, seq int64, max int) ([]stream.Event, error)
	Bounds(ctx context.Context, key call.TaskKey) (first, last int64, err error)
}

// PushOptions are the parts of the push relay.
type PushOptions struct {
	Store  PushStore
	Events TaskJournal
	// CheckURL says why nothing could ever be delivered to a URL. It must not
	// connect to anything or resolve a name.
	CheckURL func(raw string) error
	Most     push.Limits
	// Callback is the address under which agents reach the mesh, without a
	// trailing slash; empty: they are not asked to push.
	Callback string
}

// relayOff answers where the operator has switched the relay off.
func relayOff() *a2a.Error {
	return a2a.NewError(a2a.ReasonPushNotSupported, "push notifications are switched off in this mesh: subscribe to the task instead")
}

// answerPush answers the operations on push notification configs: the agent
// never hears of them.
func (g *Gateway) answerPush(ctx context.Context, c *Call) *a2a.Reply {
	var reply *a2a.Reply
	var err error
	switch {
	case g.Push == nil:
		err = relayOff()
	case c.anonymous():
		// Anonymous callers are one principal and many people, and none of them
		// answers for what is sent to whom.
		err = a2a.NewError(a2a.ReasonPushNotSupported, "push notifications need a caller with a credential")
	case c.req.Method == a2a.CreatePushConfig:
		reply, err = g.createPushConfig(ctx, c)
	case c.req.Method == a2a.GetPushConfig:
		reply, err = g.getPushConfig(ctx, c)
	case c.req.Method == a2a.ListPushConfigs:
		reply, err = g.listPushConfigs(ctx, c)
	default:
		reply, err = g.deletePushConfig(ctx, c)
	}
	if err != nil {
		return g.refuse(c, err)
	}
	return reply
}

func (g *Gateway) createPushConfig(ctx context.Context, c *Call) (*a2a.Reply, error) {
	var config a2a.TaskPushNotificationConfig
	if err := jsonwire.Unmarshal(c.req.Params, &config, g.Server.Limits); err != nil {
		return nil, err
	}
	if err := g.checkPushConfig(&config, ""); err != nil {
		return nil, err
	}
	task, err := g.Journal.Task(ctx, c.sees.key)
	if err != nil {
		return nil, err
	}
	s, r := g.subscription(c, &config)
	if _, s.Cursor, err = g.Push.Events.Bounds(ctx, s.Task); err != nil {
		return nil, err
	}
	// The caller knows what the index knows: it asks for what follows.
	r.Seen, r.SeenSeq = sightOfIndex(task).Mark(), s.Cursor
	if task.Final {
		r.LookAt, r.Ended = time.Time{}, g.Now()
	}
	if err := g.Push.Store.Subscribe(ctx, s, r, g.Push.Most); err != nil {
		return nil, pushError(err, s.Task.ID)
	}
	g.relays.follow(r)
	return a2a.Answer(c.req.Method, shownConfig(s)), nil
}

// checkPushConfig names the member of a config that is wrong. prefix is the path
// to the config in the request.
func (g *Gateway) checkPushConfig(config *a2a.TaskPushNotificationConfig, prefix string) error {
	if err := g.Push.CheckURL(config.URL); err != nil {
		return a2a.InvalidParams(a2a.FieldViolation{Field: prefix + "url", Description: err.Error()})
	}
	var scheme *string
	credentials := ""
	if auth := config.Authentication; auth != nil {
		scheme, credentials = &auth.Scheme, auth.Credentials
	}
	if p := push.CheckSecrets(config.Token, scheme, credentials); p != nil {
		return a2a.InvalidParams(a2a.FieldViolation{Field: prefix + p.Field, Description: p.Problem})
	}
	return nil
}

// subscription is what a config asks for, with the relay that follows the call's
// task, which is to look at once.
func (g *Gateway) subscription(c *Call, config *a2a.TaskPushNotificationConfig) (*push.Subscription, *push.Relay) {
	now := g.Now()
	s := &push.Subscription{
		ID: push.NewID(), Task: c.sees.key, Owner: c.record.CallerOwner, Principal: c.record.Caller, ConfigID: config.ID,
		URL: config.URL, Token: config.Token, Version: string(c.req.Version), Created: now,
	}
	switch {
	case s.ConfigID != "":
	case c.req.Version == a2a.V03: // where a config is asked for without an id
		s.ConfigID = s.Task.ID
	default:
		s.ConfigID = push.NewID()
	}
	if auth := config.Authentication; auth != nil {
		s.AuthScheme, s.AuthCredentials = auth.Scheme, auth.Credentials
	}
	return s, &push.Relay{
		Task: s.Task, Owner: s.Owner, Principal: s.Principal, Callback: push.NewID(), LookAt: now, Created: now,
	}
}

// shownConfig is a subscription as the protocol shows it. Token and credentials
// stay here: the caller has them, and nothing in the protocol needs them back.
func shownConfig(s *push.Subscription) *a2a.TaskPushNotificationConfig {
	config := &a2a.TaskPushNotificationConfig{ID: s.ConfigID, TaskID: s.Task.ID, URL: s.URL}
	if s.AuthScheme != "" {
		config.Authentication = &a2a.AuthenticationInfo{Scheme: s.AuthScheme}
	}
	return config
}

// pushError is a refusal of the store's as callers read it.
func pushError(err error, taskID string) error {
	if parley.KindOf(err) == parley.NotFound {
		return a2a.TaskNotFound(taskID)
	}
	return err
}

func (g *Gateway) getPushConfig(ctx context.Context, c *Call) (*a2a.Reply, error) {
	s, err := g.Push.Store.Subscription(ctx, c.sees.key, c.req.Facts.ConfigID)
	if parley.KindOf(err) == parley.NotFound || err == nil && s.Principal != c.record.Caller {
		return nil, a2a.NewError(a2a.ReasonTaskNotFound, "the task has no such push notification config").With("taskId", c.sees.key.ID)
	}
	if err != nil {
		return nil, err
	}
	return a2a.Answer(c.req.Method, shownConfig(s)), nil
}

func (g *Gateway) listPushConfigs(ctx context.Context, c *Call) (*a2a.Reply, error) {
	var params a2a.ListPushConfigsRequest
	if err := jsonwire.Unmarshal(c.req.Params, &params, g.Server.Limits); err != nil {
		return nil, err
	}
	size := min(int(params.PageSize), a2a.MaxPageSize)
	if size == 0 {
		size = a2a.DefaultPageSize
	}
	after := ""
	if params.PageToken != "" {
		var err error
		if after, err = openConfigToken(g.TokenKey, c.record.Caller, c.sees.key, params.PageToken); err != nil {
			return nil, a2a.InvalidParams(a2a.FieldViolation{Field: "pageToken", Description: err.Error()})
		}
	}
	found, err := g.Push.Store.TaskSubscriptions(ctx, c.sees.key, after, size+1) // one more tells whether there is a next page
	if err != nil {
		return nil, err
	}
	page := a2a.ListPushConfigsResponse{Configs: []a2a.TaskPushNotificationConfig{}}
	if len(found) > size {
		found = found[:size]
		page.NextPageToken = configToken(g.TokenKey, c.record.Caller, c.sees.key, found[size-1].ConfigID)
	}
	for _, s := range found {
		if s.Principal == c.record.Caller {
			page.Configs = append(page.Configs, *shownConfig(s))
		}
	}
	return a2a.Answer(c.req.Method, page), nil
}

func (g *Gateway) deletePushConfig(ctx context.Context, c *Call) (*a2a.Reply, error) {
	if err := g.Push.Store.Unsubscribe(ctx, c.sees.key, c.req.Facts.ConfigID); err != nil {
		return nil, err
	}
	g.nudge(ctx, c.sees.key) // the last one may be gone
	return a2a.Answer(c.req.Method, a2a.Empty{}), nil
}
