package storetest

import (
	"context"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/parley-mesh/parley/internal/keyring"
	"github.com/parley-mesh/parley/internal/parley"
)

func testMeshKeys(t *testing.T, s Store) {
	ctx := t.Context()
	row := func(id string, p keyring.Purpose, generation int64) *keyring.Row {
		return &keyring.Row{
			ID: id, Purpose: p, Generation: generation, Public: []byte(`{"kid":"` + id + `"}`), Private: []byte("private half of " + id),
			CreatedAt: at(int(generation)), ActiveAt: at(int(generation) + 60),
		}
	}
	card1, card2, card3, push1 := row("c1", keyring.Card, 1), row("c2", keyring.Card, 2), row("c3", keyring.Card, 3), row("p1", keyring.Push, 1)
	want := func(what string, rows ...*keyring.Row) {
		t.Helper()
		got, err := s.MeshKeys(ctx)
		must(t, err)
		for _, r := range got {
			if len(r.Private) == 0 {
				r.Private = nil
			}
		}
		if diff := cmp.Diff(rows, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", what, diff)
		}
	}
	for _, r := range []*keyring.Row{push1, card1, card2} {
		must(t, s.AddMeshKey(ctx, r, false, happened("keyring/"+string(r.Purpose), "keyring.made")))
	}
	want("two keys of one purpose", card1, card2, push1)
	again := row("c2b", keyring.Card, 2)
	wantKind(t, "a second key of a generation", s.AddMeshKey(ctx, again, true), parley.Conflict)
	want("after a refused one", card1, card2, push1)
	must(t, s.AddMeshKey(ctx, card3, false))
	card1.Private = nil
	want("a third key", card1, card2, card3, push1)
	card4 := row("c4", keyring.Card, 4)
	must(t, s.AddMeshKey(ctx, card4, true))
	for _, r := range []*keyring.Row{card1, card2, card3} {
		r.Private, r.RevokedAt = nil, card4.CreatedAt
	}
	want("after a revocation", card1, card2, card3, card4, push1)
}

// Whoever makes the first key of a purpose at the same moment, all sign with one.
func testMeshKeyRace(t *testing.T, s Store) {
	RaceForKeys(t, s, s)
}

// RaceForKeys has keys asked for at once through both stores, which are two
// replicas' views of one database.
func RaceForKeys(t *testing.T, one, other keyring.Store) {
	t.Helper()
	for _, p := range keyring.Purposes {
		const each = 4
		var keys [2 * each]*keyring.Key
		var all sync.WaitGroup
		for i := range keys {
			store := one
			if i%2 == 1 {
				store = other
			}
			ring := keyring.New(keyring.Options{Store: store})
			all.Go(func() {
				var err error
				if keys[i], err = ring.Current(context.Background(), p); err != nil {
					t.Errorf("%s key of ring %d: %v", p, i, err)
				}
			})
		}
		all.Wait()
		for i, k := range keys {
			if k == nil || k.ID != keys[0].ID {
				t.Fatalf("%s: ring %d signs with %+v, ring 0 with %+v", p, i, k, keys[0])
			}
		}
	}
	rows, err := one.MeshKeys(t.Context())
	must(t, err)
	if len(rows) != len(keyring.Purposes) {
		t.Errorf("%d keys were made for %d purposes", len(rows), len(keyring.Purposes))
	}
}
