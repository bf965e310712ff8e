package identity

import (
	"context"
	"fmt"
	"net/url"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/parley-mesh/parley/internal/parley"
)

// Limits of what names a subject, in bytes.
const (
	MaxIssuerLength  = 2048
	MaxSubjectLength = 512
)

// Link says which principal the subject of an issuer is. The pair of issuer and
// subject is what counts: no other claim of a token can lead to a principal
// that exists.
type Link struct {
	Issuer    string
	Subject   string
	Principal parley.PrincipalName
	// Made is set where the principal was made for this subject, at its first
	// call; its owner and environment then follow the claims.
	Made      bool
	CreatedAt time.Time
	SeenAt    time.Time // about when a token of it was last verified; zero: never
}

// LinkPrincipal makes a subject of an issuer be the principal from now on.
// Linking it again to the same one changes nothing. Errors: parley.Invalid;
// parley.NotFound for an unknown principal; parley.Conflict where the subject is
// linked to another one.
func (d *Directory) LinkPrincipal(ctx context.Context, name parley.PrincipalName, issuer, subject string) (*Link, error) {
	const op = "identity.linkPrincipal"
	if err := invalid(op, parley.Subject(name), checkLink(issuer, subject)); err != nil {
		return nil, err
	}
	p, err := d.store.Principal(ctx, name)
	if err != nil {
		return nil, err
	}
	switch old, _, err := d.store.Linked(ctx, issuer, subject); {
	case err == nil && old.Principal == name:
		return old, nil
	case err == nil:
		return nil, linkedElsewhere(op, old)
	case parley.KindOf(err) != parley.NotFound:
		return nil, err
	}
	l := &Link{Issuer: issuer, Subject: subject, Principal: name, CreatedAt: d.opts.Now()}
	if err := d.store.AddLink(ctx, l, d.linkEvent(ctx, "principal.linked", l, p)); err != nil {
		return nil, err
	}
	d.Invalidate()
	return l, nil
}

func linkedElsewhere(op parley.Op, old *Link) error {
	return parley.E(op, parley.Conflict, parley.Subject(old.Principal), fmt.Sprintf(
		"this subject is principal %q already: take it away there first (parley principal unlink %s --issuer %s --subject %s)",
		old.Principal, old.Principal, old.Issuer, old.Subject), nil)
}

// UnlinkPrincipal ends what LinkPrincipal began, or what a first call did. It is
// in force at once.
func (d *Directory) UnlinkPrincipal(ctx context.Context, name parley.PrincipalName, issuer, subject string) error {
	const op = "identity.unlinkPrincipal"
	l, p, err := d.store.Linked(ctx, issuer, subject)
	if err != nil {
		return err
	}
	if l.Principal != name {
		return parley.E(op, parley.NotFound, parley.Subject(name), fmt.Sprintf("principal %q has no such link", name), nil)
	}
	if err := d.store.RemoveLink(ctx, l, d.linkEvent(ctx, "principal.unlinked", l, p)); err != nil {
		return err
	}
	d.Invalidate()
	return nil
}

// Links gives the subjects that are the principal, by issuer and subject, at
// most limit.
func (d *Directory) Links(ctx context.Context, name parley.PrincipalName, limit int) ([]*Link, error) {
	return d.store.Links(ctx, name, limit)
}

func (d *Directory) linkEvent(ctx context.Context, typ string, l *Link, p *Principal) parley.Event {
	return d.event(ctx, typ, "principals/"+string(p.Name), p.Owner, p.Environment, changeData{
		Principal: l.Principal, Issuer: l.Issuer, Subject: l.Subject,
	})
}

// checkLink lists what is wrong with a pair of issuer and subject.
func checkLink(issuer, subject string) (wrong []parley.Field) {
	u, err := url.Parse(issuer)
	if err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Host == "" || len(issuer) > MaxIssuerLength {
		wrong = append(wrong, parley.Field{Path: "/issuer", Problem: "is not an issuer's address", Fix: "write it as in auth.issuers, such as https://login.example.com"})
	}
	if !validSubject(subject) {
		wrong = append(wrong, parley.Field{Path: "/subject", Problem: "is empty, too long or has control characters in it",
			Fix: fmt.Sprintf("write what the issuer's tokens have in \"sub\", at most %d bytes", MaxSubjectLength)})
	}
	return wrong
}

func validSubject(subject string) bool {
	return subject != "" && len(subject) <= MaxSubjectLength && utf8.ValidString(subject) && !strings.ContainsFunc(subject, isControl)
}
