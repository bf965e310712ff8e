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

// DraftCertName decides that a name in client certificates proves a principal,
// as LinkName does; the principal may be a draft as well. A name that is taken is
// seen when it is saved, and how many there are is for whoever asks to count.
func (d *Directory) DraftCertName(ctx context.Context, p *Principal, kind NameKind, name string) (*CertName, parley.Event, error) {
	const op = "identity.draftCertName"
	name, problem, fix := checkCertName(kind, name)
	if problem != "" {
		return nil, parley.Event{}, invalid(op, parley.Subject(p.Name), []parley.Field{{Path: "/name", Problem: problem, Fix: fix}})
	}
	n := &CertName{Kind: kind, Name: name, Principal: p.Name, CreatedAt: d.opts.Now()}
	return n, d.nameEvent(ctx, "principal.linked", p, n), nil
}

// RemovedCertNameEvent is the event of a name that proves nobody any more.
func (d *Directory) RemovedCertNameEvent(ctx context.Context, p *Principal, n *CertName) parley.Event {
	return d.nameEvent(ctx, "principal.unlinked", p, n)
}

// DraftLink decides that a subject of an issuer is a principal, as
// LinkPrincipal does; the principal may be a draft as well. A subject that is
// linked is seen when it is saved.
func (d *Directory) DraftLink(ctx context.Context, p *Principal, issuer, subject string) (*Link, parley.Event, error) {
	if err := invalid("identity.draftLink", parley.Subject(p.Name), checkLink(issuer, subject)); err != nil {
		return nil, parley.Event{}, err
	}
	l := &Link{Issuer: issuer, Subject: subject, Principal: p.Name, CreatedAt: d.opts.Now()}
	return l, d.linkEvent(ctx, "principal.linked", l, p), nil
}

// RemovedLinkEvent is the event of a subject that is nobody any more.
func (d *Directory) RemovedLinkEvent(ctx context.Context, p *Principal, l *Link) parley.Event {
	return d.linkEvent(ctx, "principal.unlinked", l, p)
}
