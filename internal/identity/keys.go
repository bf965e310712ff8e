package identity

import (
	"context"
	"fmt"
	"time"

	"github.com/parley-mesh/parley/internal/parley"
)

// MaxTTL is the longest time after which a key may expire; a key without an
// expiry has none of it. It keeps arithmetic on times far from overflow.
const MaxTTL = 10 * 365 * 24 * time.Hour

// KeyRequest asks for a key, either of a principal or of the calling side of an
// agent.
type KeyRequest struct {
	Principal parley.PrincipalName
	Agent     parley.AgentName
	Note      string
	TTL       time.Duration // 0: does not expire
}

// CreateKey makes a key. The text is given this once and kept nowhere. Errors:
// parley.Invalid, also for an unknown principal or agent; parley.Conflict where
// the agent's name belongs to another principal.
func (d *Directory) CreateKey(ctx context.Context, r KeyRequest) (text string, _ *Key, _ error) {
	const op = "identity.createKey"
	if err := invalid(op, "", checkKeyRequest(r)); err != nil {
		return "", nil, err
	}
	p, err := d.keyHolder(ctx, op, r)
	if err != nil {
		return "", nil, err
	}
	text, k := NewKey(p.Name, r.Note, d.opts.Now(), r.TTL)
	if err := d.store.CreateKey(ctx, &k, d.keyEvent(ctx, "key.created", &k, p)); err != nil {
		return "", nil, err
	}
	return text, &k, nil
}

func checkKeyRequest(r KeyRequest) (wrong []parley.Field) {
	if (r.Principal == "") == (r.Agent == "") {
		wrong = append(wrong, parley.Field{Path: "/principal", Problem: "exactly one of principal and agent must be given", Fix: "name who will use the key"})
	}
	if r.TTL < 0 || r.TTL > MaxTTL {
		wrong = append(wrong, parley.Field{Path: "/ttlMs", Problem: fmt.Sprintf("%s is out of range", r.TTL),
			Fix: fmt.Sprintf("use more than 0 and at most %d milliseconds, or leave it out for a key that does not expire", MaxTTL.Milliseconds())})
	}
	return checkText(wrong, "/note", r.Note)
}

// keyHolder is the principal a key is asked for.
func (d *Directory) keyHolder(ctx context.Context, op parley.Op, r KeyRequest) (*Principal, error) {
	if r.Agent != "" {
		return d.agentPrincipal(ctx, op, r.Agent)
	}
	p, err := d.store.Principal(ctx, r.Principal)
	if err != nil && parley.KindOf(err) == parley.NotFound {
		return nil, invalid(op, parley.Subject(r.Principal), []parley.Field{{Path: "/principal",
			Problem: fmt.Sprintf("no principal is named %.63q", r.Principal), Fix: "add it first (parley principal create NAME)"}})
	}
	return p, err
}

// Key gives one key, or a parley.NotFound error.
func (d *Directory) Key(ctx context.Context, id string) (*Key, error) {
	k, _, err := d.store.KeyByID(ctx, id)
	return k, err
}

// KeyWithHolder gives one key and its principal, or a parley.NotFound error.
func (d *Directory) KeyWithHolder(ctx context.Context, id string) (*Key, *Principal, error) {
	return d.store.KeyByID(ctx, id)
}

// Keys gives keys by id, those behind after; principal empty means all.
func (d *Directory) Keys(ctx context.Context, principal parley.PrincipalName, after string, limit int) ([]*Key, error) {
	return d.store.Keys(ctx, principal, after, limit)
}

// RevokeKey makes a key identify nobody from now on. Revoking it again changes
// nothing.
func (d *Directory) RevokeKey(ctx context.Context, id string) (*Key, error) {
	k, p, err := d.store.KeyByID(ctx, id)
	if err != nil {
		return nil, err
	}
	if !k.RevokedAt.IsZero() {
		return k, nil
	}
	now := d.opts.Now()
	if err := d.store.RevokeKey(ctx, id, now, d.keyEvent(ctx, "key.revoked", k, p)); err != nil {
		return nil, err
	}
	d.Invalidate()
	k.RevokedAt = now
	return k, nil
}
