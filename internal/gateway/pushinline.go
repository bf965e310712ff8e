package gateway

import (
	"context"
	"encoding/base64"
	"time"

	"github.com/parley-mesh/parley/internal/a2a"
	"github.com/parley-mesh/parley/internal/call"
	"github.com/parley-mesh/parley/internal/jsonwire"
	"github.com/parley-mesh/parley/internal/parley"
)

// inlinePush is where a config of a push notification stands in a message that
// is sent.
const inlinePush = "configuration.taskPushNotificationConfig"

// takeInlinePush takes the config out of a message that is to be sent, and
// refuses the message where it could not be kept: once the agent has the
// message it is too late for that.
func (g *Gateway) takeInlinePush(ctx context.Context, c *Call) error {
	switch {
	case g.Push == nil:
		return relayOff()
	case c.anonymous():
		return a2a.NewError(a2a.ReasonPushNotSupported, "push notifications need a caller with a credential")
	}
	const path = "/configuration/taskPushNotificationConfig"
	raw, ok := jsonwire.Get(c.req.Params, path)
	if !ok {
		return a2a.InvalidParams(a2a.FieldViolation{Field: inlinePush, Description: "cannot be read"})
	}
	config := &a2a.TaskPushNotificationConfig{}
	if err := jsonwire.Unmarshal(raw, config, g.Server.Limits); err != nil {
		return a2a.InvalidParams(a2a.FieldViolation{Field: inlinePush, Description: err.Error()})
	}
	if config.TaskID != "" && config.TaskID != c.req.Facts.TaskID {
		return a2a.InvalidParams(a2a.FieldViolation{Field: inlinePush + ".taskId", Description: "names another task than the message: leave it out"})
	}
	if err := g.checkPushConfig(config, inlinePush+"."); err != nil {
		return err
	}
	if sent := c.record.Sent; config.ID == "" && sent != nil {
		// The message may come again, and must not subscribe to its task once more.
		config.ID = base64.RawURLEncoding.EncodeToString(sent.Digest[:16])
	}
	if err := g.Push.Store.RoomForSubscription(ctx, c.record.Caller, g.Push.Most); err != nil {
		return err
	}
	if err := c.req.Delete(path); err != nil {
		return parley.E("gateway.inline", parley.Internal, "", "the request cannot be rewritten", err)
	}
	c.wants = config
	return nil
}

// subscribeInline keeps what the call's message asked for, once its task is the
// caller's and before the caller is told of it. A call that shows no task asked
// in vain.
func (g *Gateway) subscribeInline(ctx context.Context, c *Call) error {
	if c.wants == nil || c.sees.key == (call.TaskKey{}) || c.sees.state == "" {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), storeTimeout)
	defer cancel()
	s, r := g.subscription(c, c.wants)
	if c.req.Facts.TaskID != "" { // what the task's journal holds is older than the message
		var err error
		if _, s.Cursor, err = g.Push.Events.Bounds(ctx, s.Task); err != nil {
			return err
		}
	}
	r.SeenSeq = s.Cursor
	most := g.Push.Most
	most.PerPrincipal = 0 // was asked before the message was sent
	if err := g.Push.Store.Subscribe(ctx, s, r, most); err != nil {
		return err
	}
	c.wants = nil
	g.relays.follow(r)
	return nil
}

// nudge makes the relay look at a task soon, where the task has one.
func (g *Gateway) nudge(ctx context.Context, key call.TaskKey) {
	if g.Push == nil || !g.relays.follows(key) {
		return
	}
	g.nudgeAt(ctx, key, g.Now())
}

func (g *Gateway) nudgeAt(ctx context.Context, key call.TaskKey, at time.Time) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), storeTimeout)
	defer cancel()
	if err := g.Push.Store.NudgeRelay(ctx, key, at); err != nil {
		g.Log.Warn("a task is looked at later than it could be", "agent", key.Agent, "err", err)
	}
	g.relays.wakeUp()
}
