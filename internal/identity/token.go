package identity

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/parley-mesh/parley/internal/parley"
)

// Tokens verifies access tokens of foreign issuers.
type Tokens interface {
	// Verify says what a token proves. Its errors are a *Refusal for a token
	// that proves nothing, or a *parley.Error where that cannot be told now.
	Verify(ctx context.Context, token string) (*Assertion, error)
}

// Assertion is what a verified token says, in the mesh's words.
type Assertion struct {
	Issuer    string
	Subject   string
	ExpiresAt time.Time // with the issuer's clock skew
	Roles     []parley.Role
	// Create says that a principal may be made for a subject that has none. The
	// rest is what it is made of; of a principal that was made, owner and
	// environment must stay what the tokens say.
	Create      bool
	Name        string // any text: see principalNameFor
	Owner       parley.OwnerName
	Environment parley.Environment
	Homeless    *Refusal // why owner and environment cannot be told; nil where they can
}

const (
	// maxTokenCache bounds how long a verified token is believed without
	// looking at it again: a key that its issuer took back counts no longer
	// then.
	maxTokenCache = 5 * time.Minute
	// seenEvery is how exact Link.SeenAt is.
	seenEvery = time.Hour
)

// isToken reports whether text is to be looked at as a token. Keys have no dots,
// and signed tokens do.
func isToken(text string) bool { return strings.Contains(text, ".") }

// verifyToken identifies the subject of a token.
func (d *Directory) verifyToken(ctx context.Context, c Credential, token string, now time.Time) (*Caller, error) {
	hash := sha256.Sum256([]byte(token))
	if caller := d.cache.get(hash, now); caller != nil {
		return admitted(caller)
	}
	if wait := d.failures.wait(c.RemoteAddr, now); wait > 0 {
		d.failures.count(ReasonLimited)
		return nil, refused(&Refusal{Reason: ReasonLimited, RetryAfter: wait})
	}
	gen := d.cache.generation()
	a, err := d.opts.Tokens.Verify(ctx, token)
	if r, ok := errors.AsType[*Refusal](err); ok {
		return nil, d.refuseWith(c, r)
	}
	if err != nil {
		return nil, err
	}
	link, p, err := d.subject(ctx, a)
	if r, ok := errors.AsType[*Refusal](err); ok {
		return nil, d.refuseWith(c, r)
	}
	if err != nil {
		return nil, err
	}
	caller := &Caller{Principal: *p, Issuer: a.Issuer}
	caller.Roles = mergeRoles(p.Roles, a.Roles)
	expires := a.ExpiresAt
	if latest := now.Add(maxTokenCache); expires.After(latest) {
		expires = latest
	}
	d.cache.put(hash, cachedKey{caller: caller, expires: expires, generation: gen})
	d.seen(ctx, link, now)
	return admitted(caller)
}

// subject finds the principal of an assertion, or makes it.
func (d *Directory) subject(ctx context.Context, a *Assertion) (*Link, *Principal, error) {
	if !validSubject(a.Subject) {
		return nil, nil, &Refusal{Reason: ReasonClaims}
	}
	l, p, err := d.store.Linked(ctx, a.Issuer, a.Subject)
	if err != nil && parley.KindOf(err) == parley.NotFound {
		if !a.Create {
			return nil, nil, &Refusal{Reason: ReasonUnlinked, Detail: fmt.Sprintf(
				"the token is valid and its subject is nobody here: ask an admin (parley principal link NAME --issuer %s --subject %s)", a.Issuer, a.Subject)}
		}
		l, p, err = d.admit(ctx, a)
	}
	if err != nil {
		return nil, nil, err
	}
	if l.Made && a.Homeless != nil {
		return nil, nil, a.Homeless
	}
	if l.Made && (p.Owner != a.Owner || p.Environment != a.Environment) {
		return nil, nil, &Refusal{Reason: ReasonMoved, Detail: fmt.Sprintf(
			"the token is of owner %s in %s, and its principal %s of owner %s in %s: ask an admin to remove the principal (parley principal rm %s), so that it is made anew",
			a.Owner, a.Environment, p.Name, p.Owner, p.Environment, p.Name)}
	}
	return l, p, nil
}

// admit makes a principal for a subject that comes for the first time. Its name
// is free: no claim leads to a principal that exists. Where somebody else takes
// the name meanwhile it is chosen once more.
func (d *Directory) admit(ctx context.Context, a *Assertion) (l *Link, p *Principal, err error) {
	if a.Homeless != nil {
		return nil, nil, a.Homeless
	}
	for range 2 {
		if l, p, err = d.admitOnce(ctx, a); err == nil || parley.KindOf(err) != parley.Conflict {
			return l, p, err
		}
		// Most often it was the same subject, in another request.
		if l, p, linkErr := d.store.Linked(ctx, a.Issuer, a.Subject); linkErr == nil {
			return l, p, nil
		}
	}
	return nil, nil, err
}

func (d *Directory) admitOnce(ctx context.Context, a *Assertion) (*Link, *Principal, error) {
	name, err := d.principalNameFor(ctx, a)
	if err != nil {
		return nil, nil, err
	}
	now := d.opts.Now()
	p := &Principal{
		Name: name, Owner: a.Owner, Environment: a.Environment,
		Description: "signed on by " + shortened(a.Issuer), CreatedAt: now,
	}
	l := &Link{Issuer: a.Issuer, Subject: a.Subject, Principal: name, Made: true, CreatedAt: now, SeenAt: now}
	err = d.store.AdmitPrincipal(ctx, p, l, d.principalEvent(ctx, "principal.added", p), d.linkEvent(ctx, "principal.linked", l, p))
	if err != nil && parley.KindOf(err) == parley.Invalid {
		return nil, nil, &Refusal{Reason: ReasonOwner, Detail: fmt.Sprintf(
			"the token says owner %s, which does not exist here: ask an admin to add it (parley owner create %s) or to map it (claims.owner_map)", a.Owner, a.Owner)}
	}
	return l, p, err
}

// seen notes that a subject was here, about once in seenEvery. That it cannot be
// noted is no reason to refuse anybody.
func (d *Directory) seen(ctx context.Context, l *Link, now time.Time) {
	if now.Sub(l.SeenAt) < seenEvery {
		return
	}
	if err := d.store.TouchLink(ctx, l.Issuer, l.Subject, now); err != nil {
		d.opts.Log.WarnContext(ctx, "time of sign-on not kept", "principal", l.Principal, "err", err)
	}
}

// mergeRoles joins two lists without repeats; the first is left as it is.
func mergeRoles(own, given []parley.Role) []parley.Role {
	all := slices.Clone(own)
	for _, r := range given {
		if !slices.Contains(all, r) {
			all = append(all, r)
		}
	}
	return all
}

// shortened keeps an issuer's address within a description.
func shortened(text string) string {
	if len(text) > MaxTextLength/2 {
		return text[:MaxTextLength/2]
	}
	return text
}
