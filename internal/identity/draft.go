package identity

import (
	"context"

	"github.com/parley-mesh/parley/internal/parley"
)

// The drafts are changes that are decided and not saved: whoever asked for them
// saves them together with others, and then calls Invalidate. An error is
// parley.Invalid with every wrong field.

// DraftOwner decides what an owner becomes; old nil makes a new one.
func (d *Directory) DraftOwner(ctx context.Context, old *Owner, name parley.OwnerName, description string) (*Owner, parley.Event, error) {
	const op = "identity.draftOwner"
	wrong := checkName(nil, "/name", "owner", string(name))
	wrong = checkText(wrong, "/description", description)
	if err := invalid(op, parley.Subject(name), wrong); err != nil {
		return nil, parley.Event{}, err
	}
	typ, o := "owner.added", &Owner{Name: name, CreatedAt: d.opts.Now()}
	if old != nil {
		typ, *o = "owner.changed", *old
	}
	o.Description = description
	return o, d.ownerEvent(ctx, typ, o), nil
}

// DraftPrincipal decides a new principal. Its owner may be one that is drafted
// as well: whether it exists is seen when both are saved.
func (d *Directory) DraftPrincipal(ctx context.Context, n NewPrincipal) (*Principal, parley.Event, error) {
	const op = "identity.draftPrincipal"
	p, wrong := d.newPrincipal(n)
	if err := invalid(op, parley.Subject(n.Name), wrong); err != nil {
		return nil, parley.Event{}, err
	}
	return p, d.principalEvent(ctx, "principal.added", p), nil
}

// DraftPrincipalChange decides what a principal becomes.
func (d *Directory) DraftPrincipalChange(ctx context.Context, old *Principal, c PrincipalChange) (*Principal, parley.Event, error) {
	var wrong []parley.Field
	if c.Roles != nil {
		wrong = checkRoles(wrong, *c.Roles)
	}
	if c.Description != nil {
		wrong = checkText(wrong, "/description", *c.Description)
	}
	if err := invalid("identity.draftPrincipal", parley.Subject(old.Name), wrong); err != nil {
		return nil, parley.Event{}, err
	}
	p := *old
	if c.Roles != nil {
		p.Roles = *c.Roles
	}
	if c.Description != nil {
		p.Description = *c.Description
	}
	return &p, d.principalEvent(ctx, "principal.changed", &p), nil
}

// RemovedOwnerEvent is the event of an owner's removal.
func (d *Directory) RemovedOwnerEvent(ctx context.Context, o *Owner) parley.Event {
	return d.ownerEvent(ctx, "owner.removed", o)
}

// RemovedPrincipalEvent is the event of a principal's removal.
func (d *Directory) RemovedPrincipalEvent(ctx context.Context, p *Principal) parley.Event {
	return d.principalEvent(ctx, "principal.removed", p)
}
