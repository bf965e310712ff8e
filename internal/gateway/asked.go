package gateway

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/parley-mesh/parley/internal/a2a"
	"github.com/parley-mesh/parley/internal/call"
	"github.com/parley-mesh/parley/internal/jsonwire"
	"github.com/parley-mesh/parley/internal/parley"
	"github.com/parley-mesh/parley/internal/registry"
)

// reasonAsks is the reason in the record of a call whose agent asked for a
// credential and may not.
const reasonAsks = "auth_required_forbidden"

// Bounds of what is kept of the schemes that an agent names.
const (
	maxSchemes = 8
	maxScheme  = 64 // bytes of one
)

// forbidden reports whether a task in that state is not to be shown: its agent
// asks for a credential, and may not.
func forbidden(agent *registry.Agent, state string) bool {
	return agent.AuthRequired == registry.AuthForbid && state == string(a2a.StateAuthRequired)
}

// mayAsk is nil, or the caller's answer where the agent asks for a credential and
// may not. Nothing of what it asks is kept or shown.
func (g *Gateway) mayAsk(c *Call) *a2a.Error {
	if !forbidden(c.target.Agent, c.sees.state) {
		return nil
	}
	c.sees.snapshot = nil
	return c.deniesAsking(c.sees.key.ID)
}

// deniesAsking is the answer of a call that is not shown what the agent asks for.
func (c *Call) deniesAsking(taskID string) *a2a.Error {
	const message = "the agent asks its caller for a credential, which the mesh's operators do not allow it"
	c.ends(parley.OutcomeDenied, reasonAsks, message+"; to allow it: parley agent set "+string(c.record.Agent)+" --auth-required pass")
	return a2a.NewError(a2a.ReasonForbidden, "%s; its task can be canceled", message).With("taskId", taskID)
}

// errAsks says that the agent asks for a credential, and may not any more.
var errAsks = errors.New("the agent asks for a credential, which it may not")

// forbidsAsking reports whether the agent may not ask for credentials, as the
// policy is now: journals hold what was asked while it might.
func (g *Gateway) forbidsAsking(ctx context.Context, agent parley.AgentName) (bool, error) {
	target, err := g.Agents.Lookup(ctx, agent)
	if err != nil {
		return false, err
	}
	return target.Agent.AuthRequired == registry.AuthForbid, nil
}

// asksIn reports whether an event of the journal shows its task in the state of
// asking for a credential.
func asksIn(frame jsontext.Value) bool {
	for _, path := range []string{"/statusUpdate/status/state", "/task/status/state"} {
		if state, ok := jsonwire.Get(frame, path); ok {
			return jsonwire.String(state) == string(a2a.StateAuthRequired)
		}
	}
	return false
}

// asked notes that the call's agent asks its caller's side for a credential. It
// reports whether that is news.
func (g *Gateway) asked(c *Call, result jsontext.Value) bool {
	if c.sees.state != string(a2a.StateAuthRequired) || c.record.Asked != nil || !c.begun {
		return false
	}
	c.record.Asked = &call.Asked{At: g.Now(), Schemes: schemesAsked(result)}
	return true
}

// schemesAsked are the security schemes that the status message of a task names:
// A2A leaves open how (1.0, section 7.6), so that a member "scheme" or
// "securitySchemes" of its metadata or of a data part counts.
func schemesAsked(result jsontext.Value) (named []string) {
	var message jsontext.Value
	for _, path := range []string{"/status/message", "/task/status/message", "/statusUpdate/status/message"} {
		if found, ok := jsonwire.Get(result, path); ok {
			message = found
			break
		}
	}
	add := func(name string) {
		printable := name != "" && len(name) <= maxScheme && !slices.ContainsFunc([]byte(name), func(b byte) bool { return b < ' ' || b > '~' })
		if printable && a2a.SecretLike(name) == "" && len(named) < maxSchemes && !slices.Contains(named, name) {
			named = append(named, name)
		}
	}
	from := func(object jsontext.Value) {
		if scheme, ok := jsonwire.Get(object, "/scheme"); ok {
			add(jsonwire.String(scheme))
		}
		if schemes, ok := jsonwire.Get(object, "/securitySchemes"); ok && len(schemes) > 0 && schemes[0] == '{' {
			for _, m := range jsonwire.Members(schemes) {
				add(m.Name)
			}
		}
	}
	if metadata, ok := jsonwire.Get(message, "/metadata"); ok {
		from(metadata)
	}
	parts, _ := jsonwire.Get(message, "/parts")
	for _, part := range jsonwire.Elements(parts) {
		if data, ok := jsonwire.Get(part, "/data"); ok && len(data) > 0 && data[0] == '{' {
			from(data)
		}
	}
	return named
}

// askedEvent is the data of agent.asked.
type askedEvent struct {
	Agent   parley.AgentName     `json:"agent"`
	Call    string               `json:"call"`
	Root    string               `json:"root"`
	Depth   int                  `json:"depth"` // how deep in its chain the call is
	Caller  parley.PrincipalName `json:"caller"`
	Task    string               `json:"task"`
	Schemes []string             `json:"schemes,omitempty"`
	Allowed bool                 `json:"allowed"` // whether the caller was told
}

// tellAsked is the event of an agent's asking for a credential.
func tellAsked(r *call.Record, allowed bool) (parley.Event, error) {
	data, err := json.Marshal(askedEvent{
		Agent: r.Agent, Call: r.ID.String(), Root: r.Root.String(), Depth: r.Link.Depth, Caller: r.Caller,
		Task: r.TaskID, Schemes: r.Asked.Schemes, Allowed: allowed,
	})
	return parley.Event{
		Subject: "agents/" + string(r.Agent), Type: registry.EventAsked, Time: r.Asked.At,
		Owner: r.AgentOwner, Environment: r.Environment, Data: data,
	}, err
}

// saveAsked writes what an open call's agent asks for while its exchange, or its
// task, goes on: who looks after the caller must see it before the end.
func (g *Gateway) saveAsked(ctx context.Context, r call.Record, allowed bool) {
	event, err := tellAsked(&r, allowed)
	if err == nil {
		r.End = call.End{}
		err = g.Journal.Settle(context.WithoutCancel(ctx), call.Settlement{Record: &r, Events: []parley.Event{event}}, false)
	}
	if err != nil {
		g.Log.Warn("what an agent asks for is not recorded", "call", r.ID, "agent", r.Agent, "err", err)
	}
}

// askedWaiting notes that the agent of waiting calls asks for a credential, which
// the mesh saw when it looked at their task.
func (g *Gateway) askedWaiting(ctx context.Context, key call.TaskKey, result jsontext.Value, at time.Time, allowed bool) {
	for _, r := range g.open.ask(key, call.Asked{At: at, Schemes: schemesAsked(result)}) {
		g.saveAsked(ctx, r, allowed)
	}
}
