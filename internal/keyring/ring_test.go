package keyring_test

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"encoding/base64"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/parley-mesh/parley/internal/keyring"
	"github.com/parley-mesh/parley/internal/parley"
	"github.com/parley-mesh/parley/internal/store"
)

// clock is a time that a test moves.
type clock struct{ now time.Time }

func (c *clock) Now() time.Time { return c.now }

// failing is a store whose reads fail while err is set.
type failing struct {
	keyring.Store
	err error
}

func (f *failing) MeshKeys(ctx context.Context) ([]*keyring.Row, error) {
	if f.err != nil {
		return nil, f.err
	}
	return f.Store.MeshKeys(ctx)
}

func newRing(t *testing.T) (*keyring.Ring, *failing, *clock) {
	t.Helper()
	db, err := store.Open(t.Context(), store.Options{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	c := &clock{time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)}
	s := &failing{Store: db}
	return keyring.New(keyring.Options{Store: s, Period: 24 * time.Hour, Overlap: 2 * time.Hour, Now: c.Now}), s, c
}

func current(t *testing.T, r *keyring.Ring, p keyring.Purpose) *keyring.Key {
	t.Helper()
	k, err := r.Current(t.Context(), p)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// published are the ids in the set.
func published(t *testing.T, r *keyring.Ring) []string {
	t.Helper()
	raw, err := r.JWKS(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var set jose.JSONWebKeySet
	if err := json.Unmarshal(raw, &set); err != nil {
		t.Fatal(err)
	}
	ids := map[string]bool{}
	for _, k := range set.Keys {
		print, err := k.Thumbprint(crypto.SHA256)
		if err != nil || base64.RawURLEncoding.EncodeToString(print) != k.KeyID {
			t.Errorf("the kid %s is not the thumbprint: %v", k.KeyID, err)
		}
		if !k.IsPublic() || k.Use != "sig" || k.Algorithm == "" {
			t.Errorf("published key %+v", k)
		}
		ids[k.KeyID] = true
	}
	return slices.Sorted(maps.Keys(ids))
}

func sorted(ids ...string) []string { slices.Sort(ids); return ids }

func TestKeysPerPurpose(t *testing.T) {
	r, _, _ := newRing(t)
	if ids := published(t, r); len(ids) != 0 {
		t.Errorf("before any need %v is published", ids)
	}
	card, push, webhook := current(t, r, keyring.Card), current(t, r, keyring.Push), current(t, r, keyring.Webhook)
	for _, k := range []*keyring.Key{card, push} {
		if private, ok := k.Private.(*ecdsa.PrivateKey); !ok || k.Algorithm != "ES256" || private.Curve.Params().BitSize != 256 {
			t.Errorf("%s: %s with %T", k.Purpose, k.Algorithm, k.Private)
		}
	}
	if _, ok := webhook.Private.(ed25519.PrivateKey); !ok || webhook.Algorithm != "EdDSA" {
		t.Errorf("webhook: %s with %T", webhook.Algorithm, webhook.Private)
	}
	if got, want := published(t, r), sorted(card.ID, push.ID, webhook.ID); !slices.Equal(got, want) {
		t.Errorf("published %v, want %v", got, want)
	}
	if _, err := r.Current(t.Context(), "wages"); parley.KindOf(err) != parley.Invalid {
		t.Errorf("a key for no purpose: %v", err)
	}
}

// TestRotation follows one key through its life: published before it signs,
// published after it signed, then gone.
func TestRotation(t *testing.T) {
	r, _, c := newRing(t)
	old := current(t, r, keyring.Card)
	push := current(t, r, keyring.Push)
	next, err := r.Rotate(t.Context(), keyring.Rotation{Purpose: keyring.Card})
	if err != nil {
		t.Fatal(err)
	}
	if next.State != keyring.Next || next.ID == old.ID {
		t.Errorf("rotated to %+v", next)
	}
	if k := current(t, r, keyring.Card); k.ID != old.ID {
		t.Error("the new key signs before others can know it")
	}
	if got, want := published(t, r), sorted(old.ID, next.ID, push.ID); !slices.Equal(got, want) {
		t.Errorf("published %v, want %v", got, want)
	}
	if _, err := r.Rotate(t.Context(), keyring.Rotation{Purpose: keyring.Card}); parley.KindOf(err) != parley.Conflict {
		t.Errorf("a rotation while the next key waits: %v", err)
	}
	c.now = next.ActiveAt
	if k := current(t, r, keyring.Card); k.ID != next.ID {
		t.Error("the new key does not sign when its time has come")
	}
	c.now = next.ActiveAt.Add(2*time.Hour - time.Second)
	if !slices.Contains(published(t, r), old.ID) {
		t.Error("the old key left before the overlap ended")
	}
	c.now = next.ActiveAt.Add(2 * time.Hour)
	if got, want := published(t, r), sorted(next.ID, push.ID); !slices.Equal(got, want) {
		t.Errorf("after the overlap %v is published, want %v", got, want)
	}
	infos, err := r.List(t.Context())
	if err != nil || len(infos) != 3 || infos[0].State != keyring.Expired || infos[1].State != keyring.Current {
		t.Errorf("list %+v, %v", infos, err)
	}
}

func TestRevocation(t *testing.T) {
	r, s, _ := newRing(t)
	old := current(t, r, keyring.Push)
	next, err := r.Rotate(t.Context(), keyring.Rotation{Purpose: keyring.Push, Revoke: true})
	if err != nil {
		t.Fatal(err)
	}
	if next.State != keyring.Current {
		t.Errorf("a key that replaces a stolen one is %s", next.State)
	}
	if got := published(t, r); !slices.Equal(got, []string{next.ID}) {
		t.Errorf("published %v, want %s without %s", got, next.ID, old.ID)
	}
	if k := current(t, r, keyring.Push); k.ID != next.ID {
		t.Error("a revoked key still signs")
	}
	rows, err := s.MeshKeys(t.Context())
	if err != nil || len(rows[0].Private) != 0 {
		t.Errorf("the stolen key's private half is kept: %v", err)
	}
}

// TestReplacedWhenDue: Run replaces what is older than the period, once, and only
// where it is this process's turn.
func TestReplacedWhenDue(t *testing.T) {
	_, s, c := newRing(t)
	made := c.now
	old := current(t, keyring.New(keyring.Options{Store: s, Now: c.Now}), keyring.Card)
	// after gives how many keys there are once Run has looked at that time. It
	// looks at once, and again a minute later; the test does not wait for that.
	after := func(now time.Time, mine bool, until int) int {
		asked := make(chan struct{}, 1)
		r := keyring.New(keyring.Options{
			Store: s, Period: 24 * time.Hour, Now: func() time.Time { return now },
			Turn: func() bool { asked <- struct{}{}; return mine },
		})
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- r.Run(ctx) }()
		<-asked
		deadline := time.After(30 * time.Second)
		for n := 0; ; {
			rows, err := s.MeshKeys(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if n = len(rows); n >= until {
				cancel()
				if err := <-ended; err != nil {
					t.Error(err)
				}
				return n
			}
			select {
			case <-deadline:
				t.Fatalf("%d keys after 30 s, want %d", n, until)
			case <-time.After(time.Millisecond):
			}
		}
	}
	if n := after(made.Add(25*time.Hour), false, 1); n != 1 {
		t.Errorf("%d keys where it is another's turn", n)
	}
	if n := after(made.Add(23*time.Hour), true, 1); n != 1 {
		t.Errorf("%d keys before one is due", n)
	}
	if n := after(made.Add(25*time.Hour), true, 2); n != 2 {
		t.Errorf("%d keys where one was due", n)
	}
	c.now = made.Add(26 * time.Hour)
	if k := current(t, keyring.New(keyring.Options{Store: s, Now: c.Now}), keyring.Card); k.ID == old.ID {
		t.Error("the old key still signs")
	}
}

// TestStoreAway: signing goes on with the key that is known.
func TestStoreAway(t *testing.T) {
	r, s, c := newRing(t)
	k := current(t, r, keyring.Card)
	s.err = errors.New("the store is away")
	c.now = c.now.Add(time.Hour)
	if again := current(t, r, keyring.Card); again.ID != k.ID {
		t.Errorf("signs with %s, not %s", again.ID, k.ID)
	}
	s.err = nil
	c.now = c.now.Add(time.Second)
	current(t, r, keyring.Card)
	fresh := keyring.New(keyring.Options{Store: &failing{s.Store, errors.New("away")}})
	if _, err := fresh.Current(t.Context(), keyring.Card); err == nil {
		t.Error("a key of a store that never answered")
	}
}
