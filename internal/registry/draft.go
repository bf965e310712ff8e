package registry

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/parley-mesh/parley/internal/parley"
)

// Draft is a change of an agent that is decided and not saved: whoever asked
// for it saves it together with other changes, and tells Committed.
type Draft struct {
	Agent      *Agent      // to save; its Version is the one it was decided on
	Credential *Credential // to save with it; nil for none
	Events     []parley.Event
	Report     *Report // what a look found; nil where none was taken
}

// DraftAdd decides a registration as Add does, after the same look.
func (r *Registrar) DraftAdd(ctx context.Context, req AddRequest) (*Draft, error) {
	req.Owner = cmp.Or(req.Owner, parley.DefaultOwner)
	req.Environment = cmp.Or(req.Environment, parley.Dev)
	req.Allow = slices.Clone(req.Allow)
	slices.Sort(req.Allow)
	req.Allow = slices.Compact(req.Allow)
	if err := r.checkAdd(&req); err != nil {
		return nil, err
	}
	in, err := r.look(ctx, InspectRequest{Agent: req.Name, URL: req.URL, Credential: req.Credential})
	if err != nil {
		return &Draft{Report: in.report()}, err
	}
	a, events := admit(req, in, r.now())
	d := &Draft{Agent: a, Credential: req.Credential, Events: events, Report: in.report()}
	if d.Credential != nil {
		d.Events = append(d.Events, a.authSet(d.Credential, r.now()))
	}
	return d, nil
}

// Wish is what a registered agent should become.
type Wish struct {
	URL   string             // as AddRequest; the registered one changes nothing
	Allow []parley.OwnerName // the whole list
	// Credential is stored instead of the present one; nil keeps that.
	Credential *Credential
}

// DraftChange decides what a registered agent becomes. Another URL or another
// credential takes a look at it; one that fails there is refused where the URL
// is another one, since nothing is known of that place, and else shows in the
// agent's state as with SetCredential.
func (r *Registrar) DraftChange(ctx context.Context, old *Agent, wish Wish) (*Draft, error) {
	now := r.now()
	d := &Draft{Agent: old.clone()}
	if err := r.checkWish(ctx, old, &wish); err != nil {
		return nil, err
	}
	var err error
	switch {
	case wish.URL != old.URL:
		err = r.draftMove(ctx, d, old, wish, now)
	case wish.Credential != nil:
		err = r.draftCredential(ctx, d, old, wish.Credential, now)
	}
	if err != nil {
		return d, err
	}
	d.setAllow(wish.Allow, now)
	return d, nil
}

// checkWish reports every wrong member and completes the credential.
func (r *Registrar) checkWish(ctx context.Context, old *Agent, wish *Wish) error {
	wish.Allow = slices.Clone(wish.Allow)
	slices.Sort(wish.Allow)
	wish.Allow = slices.Compact(wish.Allow)
	req := AddRequest{Name: old.Name, URL: wish.URL, Owner: old.Owner, Environment: old.Environment, Allow: wish.Allow}
	if err := r.checkAdd(&req); err != nil {
		return err
	}
	if wish.Credential == nil {
		return nil
	}
	c := *wish.Credential
	c.Agent, c.Owner, c.CreatedAt = old.Name, old.Owner, r.now()
	address := cmp.Or(old.wantsCredential(), wish.URL)
	if wish.URL != old.URL {
		address = wish.URL
	}
	wrong := c.complete(address, "give the origin of one of the agent's interfaces")
	if origins := old.origins(); wish.URL == old.URL && len(wrong) == 0 && !slices.Contains(origins, c.Origin) {
		wrong = []parley.Field{{Path: "origin", Problem: "no interface of the agent is at " + c.Origin, Fix: fmt.Sprintf("use one of %v", origins)}}
	}
	wish.Credential = &c
	return invalid("registry.draft", parley.Subject(old.Name), "this credential cannot be stored", wrong)
}

// draftMove takes an agent to another address. What it was there is looked at
// as if it were new; its name, its history and a suspension stay.
func (r *Registrar) draftMove(ctx context.Context, d *Draft, old *Agent, wish Wish, now time.Time) error {
	cred := wish.Credential
	if cred == nil {
		var err error
		if cred, err = r.credentialOf(ctx, old.Name); err != nil {
			return err
		}
	}
	in, err := r.look(ctx, InspectRequest{Agent: old.Name, URL: wish.URL, Credential: cred})
	d.Report = in.report()
	if err != nil {
		return err
	}
	d.Agent = moved(old, wish.URL, in, now)
	d.Credential = wish.Credential
	d.Events = append(d.Events, d.Agent.event(EventMoved, now, func(e *EventData) { e.Before = old.CardHash }))
	if d.Credential != nil {
		d.Events = append(d.Events, d.Agent.authSet(d.Credential, now))
	}
	return nil
}

// moved decides what an agent becomes at another address.
func moved(old *Agent, address string, in *Inspection, now time.Time) *Agent {
	a := old.clone()
	a.URL, a.CardURL, a.Pending, a.Use, a.CheckErr = address, in.CardURL, nil, -1, ""
	a.Interfaces = nil
	a.CheckedAt, a.UpdatedAt = now, now
	a.Pins = nil
	a.takeCard(in)
	a.takeSignature(in.Signature, "", now)
	a.judge(in, credentialChanged)
	return a
}

func (r *Registrar) draftCredential(ctx context.Context, d *Draft, old *Agent, c *Credential, now time.Time) error {
	in, problem := r.look(ctx, InspectRequest{
		Agent: old.Name, URL: old.CardURL, Exact: true, ETag: old.CardETag, Card: old.Card, Credential: c, Pins: old.Pins,
	})
	if problem != nil && ctx.Err() != nil {
		return problem // whoever asked has left: that says nothing about the agent
	}
	d.Report, d.Credential = in.report(), c
	d.Events = []parley.Event{old.authSet(c, now)}
	var events []parley.Event
	if problem != nil {
		d.Agent, events = lost(old, clip(parley.PublicMessage(problem)), credentialChanged, now)
	} else {
		d.Agent, events = refresh(old, in, credentialChanged, now)
	}
	d.Events = append(d.Events, events...)
	return nil
}

// setAllow makes the allow list what is wished, with an event for each owner
// that comes or goes.
func (d *Draft) setAllow(want []parley.OwnerName, now time.Time) {
	a := d.Agent
	before := a.Allow
	if slices.Equal(before, want) {
		return
	}
	a.Allow, a.UpdatedAt = slices.Clone(want), now
	for _, o := range want {
		if !slices.Contains(before, o) {
			d.Events = append(d.Events, a.event(EventAllowed, now, func(e *EventData) { e.Grantee = o }))
		}
	}
	for _, o := range before {
		if !slices.Contains(want, o) {
			d.Events = append(d.Events, a.event(EventDisallowed, now, func(e *EventData) { e.Grantee = o }))
		}
	}
}

// RemovedEvent is the event of an agent's removal.
func (r *Registrar) RemovedEvent(a *Agent) parley.Event { return a.event(EventRemoved, r.now(), nil) }

// AuthRemovedEvent is the event of a credential's removal.
func (r *Registrar) AuthRemovedEvent(a *Agent) parley.Event {
	return a.event(EventAuthRemoved, r.now(), nil)
}

// Committed tells that drafts of these agents may have been saved, and that
// others may have been removed: what is known of them is forgotten.
func (r *Registrar) Committed(changed, gone []parley.AgentName) {
	for _, name := range changed {
		r.changed(name)
	}
	for _, name := range gone {
		r.changed(name)
		r.removed(name)
	}
}
