package registry

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/parley-mesh/parley/internal/parley"
)

// SetCredential stores what the mesh shows the agent from now on, instead of
// what it showed before, and looks at the agent with it. Without an Origin it
// goes to the origin of the interface that wants credentials, else of the one
// in use, else of the first; an origin that no interface has is
// parley.Invalid. A look that fails leaves the credential stored and shows in
// the agent's Status, Reason and CheckErr.
func (r *Registrar) SetCredential(ctx context.Context, name parley.AgentName, c Credential) (*Agent, *Report, error) {
	a, err := r.store.Agent(ctx, name)
	if err != nil {
		return nil, nil, err
	}
	c.Agent, c.Owner, c.CreatedAt = name, a.Owner, r.now()
	wrong := c.complete(a.wantsCredential(), "give the origin of one of the agent's interfaces")
	if origins := a.origins(); len(wrong) == 0 && !slices.Contains(origins, c.Origin) {
		wrong = []parley.Field{{Path: "origin", Problem: "no interface of the agent is at " + c.Origin, Fix: "use one of " + strings.Join(origins, ", ")}}
	}
	if err := invalid("registry.auth", parley.Subject(name), "this credential cannot be stored", wrong); err != nil {
		return nil, nil, err
	}
	if err := r.store.SaveCredential(ctx, &c, a.authSet(&c, r.now())); err != nil {
		return nil, nil, err
	}
	r.changed(name)
	return r.afterCredential(ctx, name)
}

// RemoveCredential forgets the credential and looks at the agent without it.
// Without one stored the error is parley.NotFound.
func (r *Registrar) RemoveCredential(ctx context.Context, name parley.AgentName) (*Agent, *Report, error) {
	a, err := r.store.Agent(ctx, name)
	if err != nil {
		return nil, nil, err
	}
	if err := r.store.DeleteCredential(ctx, name, a.event(EventAuthRemoved, r.now(), nil)); err != nil {
		return nil, nil, err
	}
	r.changed(name)
	return r.afterCredential(ctx, name)
}

// afterCredential looks at the agent. What the agent does with the new
// credential is no error of the command that stored it: the agent's state
// tells it.
func (r *Registrar) afterCredential(ctx context.Context, name parley.AgentName) (*Agent, *Report, error) {
	a, report, err := r.lookAgain(ctx, name, credentialChanged)
	if a != nil {
		return a, report, nil
	}
	return nil, report, err
}

// authSet is the event of a stored credential.
func (a *Agent) authSet(c *Credential, now time.Time) parley.Event {
	return a.event(EventAuthSet, now, func(d *EventData) { d.Kind, d.Origin = c.Kind, c.Origin })
}

// wantsCredential is the address a credential is most likely meant for.
func (a *Agent) wantsCredential() string {
	for _, i := range a.Interfaces {
		if i.Probe == ProbeUnauthorized {
			return i.URL
		}
	}
	if i := a.inUse(); i.URL != "" {
		return i.URL
	}
	for _, i := range a.Interfaces {
		if _, err := OriginOf(i.URL); err == nil {
			return i.URL
		}
	}
	return ""
}

// origins lists the origins a credential may be stored for: of the card and of
// the agent's interfaces, in card order.
func (a *Agent) origins() []string {
	all := []string{}
	for _, o := range newOrigins(nil, slices.Concat([]Interface{{URL: a.CardURL}}, a.Interfaces)) {
		if strings.Contains(o, "://") {
			all = append(all, o)
		}
	}
	return all
}
