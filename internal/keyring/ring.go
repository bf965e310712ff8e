package keyring

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/parley-mesh/parley/internal/parley"
)

const (
	// DefaultPeriod is how long a key signs before it is replaced.
	DefaultPeriod = 90 * 24 * time.Hour
	// DefaultOverlap is how long a replaced key stays published: longer than
	// caches keep a card that it signed.
	DefaultOverlap = 7 * 24 * time.Hour

	// lead is how long a new key is published before it signs. It is longer than
	// a replica keeps what it has read, so that no replica publishes a set without
	// a key with which another one signs.
	lead = time.Minute
	// keep is how long what was read from the store is used.
	keep = 10 * time.Second
	// retry is the pause before the store is asked again after it failed, where
	// older keys are known.
	retry = time.Second
	// lookEvery is how often keys are looked at for their age.
	lookEvery = time.Minute
)

// Store keeps keys.
type Store interface {
	// MeshKeys gives all keys, by purpose and generation.
	MeshKeys(ctx context.Context) ([]*Row, error)
	// AddMeshKey stores a key durably, and forgets the private halves of those
	// that are two generations and more older; where revoke is set, it revokes all
	// older ones and forgets theirs too. A generation that is there already is a
	// parley.Conflict error.
	AddMeshKey(ctx context.Context, row *Row, revoke bool, events ...parley.Event) error
}

// Options are what a Ring works with.
type Options struct {
	Store   Store         // required
	Period  time.Duration // zero means DefaultPeriod
	Overlap time.Duration // zero means DefaultOverlap
	// Environment is the mesh's, for events.
	Environment parley.Environment
	// Turn reports whether this process is the one to replace keys that are due,
	// where several have the same store; nil means always.
	Turn func() bool
	Now  func() time.Time // nil means time.Now
	Log  *slog.Logger     // nil means none
}

// Ring gives the keys of the mesh.
type Ring struct {
	opt Options

	mu      sync.Mutex // held over reading the store: all wait for one read
	rows    []*Row
	opened  map[string]*Key // by id
	readAt  time.Time
	nextTry time.Time
}

// New makes a ring.
func New(o Options) *Ring {
	o.Period, o.Overlap = cmp.Or(o.Period, DefaultPeriod), cmp.Or(o.Overlap, DefaultOverlap)
	if o.Turn == nil {
		o.Turn = func() bool { return true }
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return &Ring{opt: o, opened: map[string]*Key{}}
}

// Current gives the key that signs for the purpose now, and makes it where there
// is none yet. While the store is away, the key that was known stays in use.
func (r *Ring) Current(ctx context.Context, p Purpose) (*Key, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := r.load(ctx); err != nil {
		return nil, err
	}
	row := r.current(p)
	if row == nil {
		var err error
		if row, err = r.first(ctx, p); err != nil {
			return nil, err
		}
	}
	if key := r.opened[row.ID]; key != nil {
		return key, nil
	}
	key, err := row.open()
	if err != nil {
		return nil, err
	}
	r.opened[row.ID] = key
	return key, nil
}

// JWKS gives the set to publish (RFC 7517): keys that sign, are about to or did
// so of late. Its bytes change only with its keys.
func (r *Ring) JWKS(ctx context.Context) ([]byte, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := r.load(ctx); err != nil {
		return nil, err
	}
	set := jose.JSONWebKeySet{Keys: []jose.JSONWebKey{}}
	now := r.opt.Now()
	for i, row := range r.rows {
		if s, _ := r.state(i, now); s == Expired || s == Revoked {
			continue
		}
		var key jose.JSONWebKey
		if err := key.UnmarshalJSON(row.Public); err != nil {
			return nil, parley.E("keyring.jwks", parley.Internal, parley.Subject(row.ID), "a key of the mesh is damaged", err)
		}
		set.Keys = append(set.Keys, key)
	}
	return json.Marshal(set)
}

// List tells of all keys, by purpose and age.
func (r *Ring) List(ctx context.Context) ([]Info, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.readAt = time.Time{}
	if err := r.load(ctx); err != nil {
		return nil, err
	}
	infos := make([]Info, 0, len(r.rows))
	for i := range r.rows {
		infos = append(infos, r.info(i))
	}
	return infos, nil
}

// Rotation asks for another key.
type Rotation struct {
	Purpose Purpose
	// Revoke takes back all keys of the purpose at once, as after a theft: the new
	// one is in force immediately, and the others leave the published set.
	Revoke bool
	By     parley.PrincipalName // who asks; empty is the mesh itself
}

// Rotate makes another key. It signs once it has been published for a minute;
// until then another rotation is a parley.Conflict error.
func (r *Ring) Rotate(ctx context.Context, ask Rotation) (*Info, error) {
	const op parley.Op = "keyring.rotate"
	r.mu.Lock()
	defer r.mu.Unlock()
	r.readAt = time.Time{}
	if err := r.load(ctx); err != nil {
		return nil, err
	}
	now := r.opt.Now()
	newest := r.newest(ask.Purpose)
	if newest != nil && newest.ActiveAt.After(now) && !ask.Revoke {
		return nil, parley.E(op, parley.Conflict, parley.Subject(ask.Purpose), fmt.Sprintf("a new %s key is published already and signs from %s on", ask.Purpose, newest.ActiveAt.UTC().Format(time.RFC3339)), nil)
	}
	row, err := generate(ask.Purpose)
	if err != nil {
		return nil, err
	}
	row.Generation, row.CreatedAt, row.ActiveAt = 1, now, now
	data := eventData{Purpose: ask.Purpose, Key: row.ID, Revoked: ask.Revoke && newest != nil, By: ask.By}
	kind := EventMade
	if newest != nil {
		row.Generation, data.Before, kind = newest.Generation+1, newest.ID, EventRotated
		if !ask.Revoke {
			row.ActiveAt = now.Add(lead)
		}
	}
	data.ActiveAt = row.ActiveAt.UTC()
	if err := r.opt.Store.AddMeshKey(ctx, row, ask.Revoke, data.event(kind, now, r.opt.Environment)); err != nil {
		if parley.KindOf(err) == parley.Conflict {
			return nil, parley.E(op, parley.Conflict, parley.Subject(ask.Purpose), "the key was rotated at the same moment: look with 'parley keyring list'", err)
		}
		return nil, err
	}
	r.opt.Log.Info("key of the mesh rotated", "purpose", ask.Purpose, "key", row.ID, "active_at", row.ActiveAt)
	r.readAt = time.Time{}
	if err := r.load(ctx); err != nil {
		return nil, err
	}
	for i, one := range r.rows {
		if one.ID == row.ID {
			info := r.info(i)
			return &info, nil
		}
	}
	return nil, parley.E(op, parley.Internal, parley.Subject(ask.Purpose), "the new key is not in the store", nil)
}

// Run replaces keys that are due, until ctx ends. A purpose that nobody has
// needed yet has none.
func (r *Ring) Run(ctx context.Context) error {
	ticker := time.NewTicker(lookEvery)
	defer ticker.Stop()
	for {
		if r.opt.Turn() {
			if err := r.replaceDue(ctx); err != nil && ctx.Err() == nil {
				r.opt.Log.Warn("keys of the mesh that are due were not replaced; the next look tries again", "err", err)
			}
		}
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
	}
}

func (r *Ring) replaceDue(ctx context.Context) error {
	var errs []error
	for _, p := range Purposes {
		r.mu.Lock()
		err := r.load(ctx)
		newest := r.newest(p)
		r.mu.Unlock()
		if err != nil {
			return err
		}
		if newest == nil || r.opt.Now().Sub(newest.ActiveAt) < r.opt.Period {
			continue
		}
		if _, err := r.Rotate(ctx, Rotation{Purpose: p}); err != nil && parley.KindOf(err) != parley.Conflict {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// Invalidate has the store read again before the next answer.
func (r *Ring) Invalidate() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.readAt = time.Time{}
}

// load reads the keys where they were not read of late.
func (r *Ring) load(ctx context.Context) error {
	now := r.opt.Now()
	if !r.readAt.IsZero() && now.Sub(r.readAt) < keep {
		return nil
	}
	if len(r.rows) > 0 && now.Before(r.nextTry) {
		return nil
	}
	rows, err := r.opt.Store.MeshKeys(ctx)
	if err != nil {
		if len(r.rows) == 0 {
			return err
		}
		r.nextTry = now.Add(retry)
		r.opt.Log.Warn("keys of the mesh cannot be read: those that are known stay in use", "err", err)
		return nil
	}
	r.rows, r.readAt, r.nextTry = rows, now, time.Time{}
	return nil
}

// first makes the first key of a purpose, or takes the one that somebody else has
// made meanwhile.
func (r *Ring) first(ctx context.Context, p Purpose) (*Row, error) {
	row, err := generate(p)
	if err != nil {
		return nil, err
	}
	now := r.opt.Now()
	row.Generation, row.CreatedAt, row.ActiveAt = 1, now, now
	err = r.opt.Store.AddMeshKey(ctx, row, false, eventData{Purpose: p, Key: row.ID, ActiveAt: now.UTC()}.event(EventMade, now, r.opt.Environment))
	if err != nil && parley.KindOf(err) != parley.Conflict {
		return nil, err
	}
	r.readAt = time.Time{}
	if err := r.load(ctx); err != nil {
		return nil, err
	}
	if row := r.current(p); row != nil {
		return row, nil
	}
	return nil, parley.E("keyring.first", parley.Unavailable, parley.Subject(p), "the "+string(p)+" key that was made is not in the store", nil)
}

// current is the key that signs for the purpose now: the newest one in force. One
// that another replica, whose clock is ahead, has just made counts too.
func (r *Ring) current(p Purpose) *Row {
	now := r.opt.Now()
	var found *Row
	for _, row := range r.rows {
		if row.Purpose == p && row.RevokedAt.IsZero() && len(row.Private) > 0 && (found == nil || !row.ActiveAt.After(now)) {
			found = row
		}
	}
	return found
}

func (r *Ring) newest(p Purpose) *Row {
	var found *Row
	for _, row := range r.rows {
		if row.Purpose == p {
			found = row
		}
	}
	return found
}

// state is where the i-th key is in its life, and until when it is published;
// the zero time where nothing replaces it yet.
func (r *Ring) state(i int, now time.Time) (State, time.Time) {
	row := r.rows[i]
	if !row.RevokedAt.IsZero() {
		return Revoked, row.RevokedAt
	}
	var until time.Time
	if i+1 < len(r.rows) && r.rows[i+1].Purpose == row.Purpose {
		until = r.rows[i+1].ActiveAt.Add(r.opt.Overlap)
	}
	switch signs := r.current(row.Purpose); {
	case !until.IsZero() && !now.Before(until):
		return Expired, until
	case signs == row:
		return Current, until
	case signs == nil || row.Generation < signs.Generation:
		return Retired, until
	}
	return Next, until
}

func (r *Ring) info(i int) Info {
	row := r.rows[i]
	state, until := r.state(i, r.opt.Now())
	return Info{
		ID: row.ID, Purpose: row.Purpose, Algorithm: row.Purpose.Algorithm(), State: state,
		CreatedAt: row.CreatedAt, ActiveAt: row.ActiveAt, Until: until,
	}
}

// ParsePurpose reads a purpose.
func ParsePurpose(s string) (Purpose, error) {
	if p := Purpose(s); slices.Contains(Purposes, p) {
		return p, nil
	}
	return "", fmt.Errorf("%q is no purpose of a key: name one of card, push and webhook", s)
}
