package identity

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/parley-mesh/parley/internal/parley"
)

// frozenRetry is the pause before frozen principals are read again after the
// store failed.
const frozenRetry = time.Second

// frozenError is the cause inside the error for a caller who is frozen: unlike
// other refusals it says who it was, so that the refusal can be recorded.
type frozenError struct{ caller *Caller }

func (e *frozenError) Error() string { return "principal " + string(e.caller.Name) + " is frozen" }

// FrozenCaller is who was refused with err because everything of theirs is
// stopped; nil for any other error.
func FrozenCaller(err error) *Caller {
	if e, ok := errors.AsType[*frozenError](err); ok {
		return e.caller
	}
	return nil
}

// admitted gives the caller on, unless it is frozen.
func admitted(c *Caller) (*Caller, error) {
	if !c.Frozen() {
		return c, nil
	}
	return nil, parley.E("identity.identify", parley.Frozen, parley.Subject(c.Name), fmt.Sprintf(
		"principal %s is frozen (%s): all its calls are refused until an operator takes that back: parley principal unfreeze %s",
		c.Name, c.FrozenReason, c.Name), &frozenError{c})
}

// FreezePrincipal stops everything of one principal: from its return on nothing
// that it asks for is answered, and its exchanges under way are told to end. Its
// keys stay, and are good again once it is unfrozen. Freezing it again changes
// the reason.
//
// Errors: parley.Invalid without a reason, parley.NotFound, parley.Conflict
// where somebody else changed the principal meanwhile.
func (d *Directory) FreezePrincipal(ctx context.Context, name parley.PrincipalName, reason string) (*Principal, error) {
	const op = "identity.freezePrincipal"
	wrong := checkText(nil, "/reason", reason)
	if reason == "" {
		wrong = append(wrong, parley.Field{Path: "/reason", Problem: "is missing", Fix: "say why in one line; the caller reads it as well"})
	}
	if err := invalid(op, parley.Subject(name), wrong); err != nil {
		return nil, err
	}
	return d.setFrozen(ctx, name, "principal.frozen", func(p *Principal) {
		if !p.Frozen() {
			p.FrozenAt = d.opts.Now()
		}
		p.FrozenReason = reason
	})
}

// UnfreezePrincipal takes a freeze back. Where there is none it changes nothing.
func (d *Directory) UnfreezePrincipal(ctx context.Context, name parley.PrincipalName) (*Principal, error) {
	p, err := d.store.Principal(ctx, name)
	if err != nil || !p.Frozen() {
		return p, err
	}
	return d.setFrozen(ctx, name, "principal.unfrozen", func(p *Principal) { p.FrozenAt, p.FrozenReason = time.Time{}, "" })
}

func (d *Directory) setFrozen(ctx context.Context, name parley.PrincipalName, event string, change func(*Principal)) (*Principal, error) {
	p, err := d.store.Principal(ctx, name)
	if err != nil {
		return nil, err
	}
	change(p)
	if err := d.store.SavePrincipal(ctx, p, d.principalEvent(ctx, event, p)); err != nil {
		return nil, err
	}
	d.Invalidate()
	if err := d.tellFrozen(ctx); err != nil { // it is stored: RunFreezes tells it as soon as the store answers
		d.opts.Log.WarnContext(ctx, "exchanges of frozen principals not ended yet", "err", err)
	}
	return d.store.Principal(ctx, name)
}

// tellFrozen reads who is frozen and tells Options.Frozen. One at a time, so
// that an older answer of the store is not told after a newer one.
func (d *Directory) tellFrozen(ctx context.Context) error {
	if d.opts.Frozen == nil {
		return nil
	}
	d.frozenMu.Lock() // held while the store is read: the order is the point
	defer d.frozenMu.Unlock()
	names, err := d.store.FrozenPrincipals(ctx)
	if err != nil {
		return err
	}
	d.opts.Frozen(names)
	return nil
}

// RunFreezes tells Options.Frozen who is frozen: at its start, and after every
// Invalidate, so that a freeze by another process ends exchanges here too. It
// gives nil when ctx ends.
func (d *Directory) RunFreezes(ctx context.Context) error {
	var wait time.Duration
	for {
		if err := d.tellFrozen(ctx); err != nil {
			if ctx.Err() != nil {
				return nil
			}
			d.opts.Log.LogAttrs(ctx, slog.LevelDebug, "frozen principals not read; will be tried again", slog.Any("err", err))
			wait = frozenRetry
		} else {
			wait = 0
		}
		var again <-chan time.Time
		if wait > 0 {
			again = time.After(wait)
		}
		select {
		case <-d.changed:
		case <-again:
		case <-ctx.Done():
			return nil
		}
	}
}
