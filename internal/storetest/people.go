package storetest

import (
	"sync"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/parley-mesh/parley/internal/identity"
	"github.com/parley-mesh/parley/internal/parley"
	"github.com/parley-mesh/parley/internal/registry"
)

func testOwners(t *testing.T, s Store) {
	ctx := t.Context()
	o := &identity.Owner{Name: "alpha", Description: "first", CreatedAt: at(0)}
	must(t, s.SaveOwner(ctx, o, happened("owners/alpha", "owner.added")))
	if o.Version != 1 {
		t.Errorf("a new owner has version %d, want 1", o.Version)
	}
	wantKind(t, "the same name again", s.SaveOwner(ctx, &identity.Owner{Name: "alpha", CreatedAt: at(0)}), parley.Conflict)
	stale := *o
	o.Description = "second"
	must(t, s.SaveOwner(ctx, o))
	got, err := s.Owner(ctx, "alpha")
	must(t, err)
	if diff := cmp.Diff(o, got); diff != "" {
		t.Errorf("owner (-saved +read):\n%s", diff)
	}
	wantKind(t, "a stale version", s.SaveOwner(ctx, &stale), parley.Conflict)
	wantKind(t, "a stale delete", s.DeleteOwner(ctx, "alpha", stale.Version), parley.Conflict)
	_, err = s.Owner(ctx, "nobody")
	wantKind(t, "a missing owner", err, parley.NotFound)
	wantKind(t, "changing a missing owner", s.SaveOwner(ctx, &identity.Owner{Name: "nobody", Version: 3, CreatedAt: at(0)}), parley.NotFound)
	wantKind(t, "deleting a missing owner", s.DeleteOwner(ctx, "nobody", 1), parley.NotFound)

	addOwner(t, s, "beta")
	addOwner(t, s, "gamma")
	page, err := s.Owners(ctx, "alpha", 1)
	must(t, err)
	if len(page) != 1 || page[0].Name != "beta" {
		t.Errorf("the page behind alpha is %+v, want beta alone", page)
	}
	must(t, s.SavePrincipal(ctx, &identity.Principal{Name: "p", Owner: "beta", Environment: parley.Dev, CreatedAt: at(0)}))
	wantKind(t, "deleting an owner in use", s.DeleteOwner(ctx, "beta", 1), parley.Conflict)
	must(t, s.DeleteOwner(ctx, "gamma", 1))
	_, err = s.Owner(ctx, "gamma")
	wantKind(t, "a deleted owner", err, parley.NotFound)
}

func testPrincipals(t *testing.T, s Store) {
	ctx := t.Context()
	addOwner(t, s, "alpha")
	must(t, s.SaveAgent(ctx, &registry.Agent{Name: "planner", Owner: "alpha", Environment: parley.Prod, CreatedAt: at(0)}))
	p := &identity.Principal{
		Name: "client", Owner: "alpha", Environment: parley.Prod, Agent: "planner",
		Roles: []parley.Role{parley.RoleAdmin, parley.RoleOperator}, Description: "d", CreatedAt: at(1),
	}
	must(t, s.SavePrincipal(ctx, p))
	got, err := s.Principal(ctx, "client")
	must(t, err)
	if diff := cmp.Diff(p, got); diff != "" {
		t.Errorf("principal (-saved +read):\n%s", diff)
	}
	err = s.SavePrincipal(ctx, &identity.Principal{Name: "q", Owner: "nobody", Environment: parley.Dev, CreatedAt: at(1)})
	wantKind(t, "an owner that does not exist", err, parley.Invalid)
	must(t, s.SavePrincipal(ctx, &identity.Principal{Name: "dora", Owner: "alpha", Environment: parley.Dev, CreatedAt: at(1)}))
	for _, test := range []struct {
		owner parley.OwnerName
		after parley.PrincipalName
		want  int
	}{{"alpha", "", 2}, {"alpha", "client", 1}, {"", "", 2}, {"other", "", 0}} {
		all, err := s.Principals(ctx, test.owner, test.after, 10)
		must(t, err)
		if len(all) != test.want {
			t.Errorf("principals of %q behind %q: %d, want %d", test.owner, test.after, len(all), test.want)
		}
	}
	must(t, s.CreateKey(ctx, &identity.Key{ID: "k1", Principal: "client", CreatedAt: at(2)}))
	wantKind(t, "a stale delete", s.DeletePrincipal(ctx, "client", 7), parley.Conflict)
	if _, _, err := s.KeyByID(ctx, "k1"); err != nil {
		t.Errorf("a refused delete took the key with it: %v", err)
	}
	must(t, s.DeletePrincipal(ctx, "client", p.Version))
	_, _, err = s.KeyByID(ctx, "k1")
	wantKind(t, "the key of a deleted principal", err, parley.NotFound)
}

func testKeys(t *testing.T, s Store) {
	ctx := t.Context()
	addOwner(t, s, "alpha")
	p := &identity.Principal{Name: "client", Owner: "alpha", Environment: parley.Dev, CreatedAt: at(0)}
	must(t, s.SavePrincipal(ctx, p))
	k := &identity.Key{ID: "k1", Principal: "client", Hash: [32]byte{1, 2, 31: 9}, Note: "laptop", CreatedAt: at(1), ExpiresAt: at(100)}
	must(t, s.CreateKey(ctx, k, happened("keys/k1", "key.created")))
	wantKind(t, "the same id again", s.CreateKey(ctx, k), parley.Conflict)
	wantKind(t, "a key for nobody", s.CreateKey(ctx, &identity.Key{ID: "k2", Principal: "nobody", CreatedAt: at(1)}), parley.Invalid)
	got, owner, err := s.KeyByID(ctx, "k1")
	must(t, err)
	if diff := cmp.Diff(k, got); diff != "" {
		t.Errorf("key (-saved +read):\n%s", diff)
	}
	if diff := cmp.Diff(p, owner); diff != "" {
		t.Errorf("principal of the key (-saved +read):\n%s", diff)
	}
	must(t, s.RevokeKey(ctx, "k1", at(5), happened("keys/k1", "key.revoked")))
	must(t, s.RevokeKey(ctx, "k1", at(9), happened("keys/k1", "key.revoked")))
	got, _, err = s.KeyByID(ctx, "k1")
	must(t, err)
	if !got.RevokedAt.Equal(at(5)) {
		t.Errorf("revoked at %v, want the first time, %v", got.RevokedAt, at(5))
	}
	must(t, s.Flush(ctx))
	events, err := s.Events(ctx, 0, 100)
	must(t, err)
	if len(events) != 2 {
		t.Errorf("%d events, want 2: revoking twice is one change", len(events))
	}
	wantKind(t, "revoking a missing key", s.RevokeKey(ctx, "k9", at(5)), parley.NotFound)
	must(t, s.CreateKey(ctx, &identity.Key{ID: "k3", Principal: "client", CreatedAt: at(1)}))
	keys, err := s.Keys(ctx, "client", "k1", 10)
	must(t, err)
	if len(keys) != 1 || keys[0].ID != "k3" {
		t.Errorf("keys behind k1: %v, want k3 alone", keys)
	}
}

func testAgents(t *testing.T, s Store) {
	ctx := t.Context()
	addOwner(t, s, "alpha")
	a := &registry.Agent{
		Name: "echo", Owner: "alpha", Environment: parley.Test, Kind: "a2a", URL: "https://a.example/", CardURL: "https://a.example/card",
		Status: registry.Unproven, Reason: "wants credentials", Card: []byte(`{"name":"Echo"}`), CardHash: "ab", CardETag: `"1"`,
		Title: "Echo", Description: "says it again", AgentVersion: "2.1",
		Interfaces: []registry.Interface{{URL: "https://a.example/rpc", Binding: "JSONRPC", Version: "1.0", Probe: "ok"}}, Use: 0,
		Warnings: []string{"no skills"}, Allow: []parley.OwnerName{"beta"},
		Pending:   &registry.Pending{Card: []byte("{}"), CardHash: "cd", Why: "new origin", Since: at(3)},
		CheckedAt: at(2), CheckErr: "timeout", CreatedAt: at(1), UpdatedAt: at(2),
	}
	must(t, s.SaveAgent(ctx, a, happened("agents/echo", "agent.added")))
	got, err := s.Agent(ctx, "echo")
	must(t, err)
	if diff := cmp.Diff(a, got); diff != "" {
		t.Errorf("agent (-saved +read):\n%s", diff)
	}
	stale := *a
	a.Status, a.Reason, a.Pending, a.Use = registry.Active, "", nil, -1
	must(t, s.SaveAgent(ctx, a))
	got, err = s.Agent(ctx, "echo")
	must(t, err)
	if diff := cmp.Diff(a, got); diff != "" {
		t.Errorf("changed agent (-saved +read):\n%s", diff)
	}
	wantKind(t, "a stale save", s.SaveAgent(ctx, &stale), parley.Conflict)
	wantKind(t, "an unknown owner", s.SaveAgent(ctx, &registry.Agent{Name: "x", Owner: "nobody", CreatedAt: at(1), UpdatedAt: at(1)}), parley.Invalid)
	must(t, s.SaveAgent(ctx, &registry.Agent{Name: "foxtrot", Owner: "alpha", CreatedAt: at(1), UpdatedAt: at(1)}))
	all, err := s.Agents(ctx, "alpha", "echo", 10)
	must(t, err)
	if len(all) != 1 || all[0].Name != "foxtrot" {
		t.Errorf("agents behind echo: %v, want foxtrot alone", all)
	}
	must(t, s.SaveCredential(ctx, &registry.Credential{Agent: "echo", Owner: "alpha", Secret: "s", CreatedAt: at(1)}))
	wantKind(t, "a stale delete", s.DeleteAgent(ctx, "echo", 1), parley.Conflict)
	must(t, s.DeleteAgent(ctx, "echo", a.Version))
	_, err = s.Agent(ctx, "echo")
	wantKind(t, "a deleted agent", err, parley.NotFound)
	_, err = s.Credential(ctx, "echo")
	wantKind(t, "the credential of a deleted agent", err, parley.NotFound)
}

func testCredentials(t *testing.T, s Store) {
	ctx := t.Context()
	addOwner(t, s, "alpha")
	must(t, s.SaveAgent(ctx, &registry.Agent{Name: "echo", Owner: "alpha", CreatedAt: at(1), UpdatedAt: at(1)}))
	_, err := s.Credential(ctx, "echo")
	wantKind(t, "no credential yet", err, parley.NotFound)
	c := &registry.Credential{
		Agent: "echo", Kind: registry.APIKey, In: "header", Name: "X-Key", Origin: "https://a.example:443",
		Secret: "correct horse", Owner: "alpha", CreatedAt: at(1),
	}
	must(t, s.SaveCredential(ctx, c))
	c.Secret, c.Kind = "battery staple", registry.Bearer
	must(t, s.SaveCredential(ctx, c))
	got, err := s.Credential(ctx, "echo")
	must(t, err)
	if diff := cmp.Diff(c, got); diff != "" {
		t.Errorf("credential (-saved +read):\n%s", diff)
	}
	wantKind(t, "a credential for nobody", s.SaveCredential(ctx, &registry.Credential{Agent: "nobody", Owner: "alpha", CreatedAt: at(1)}), parley.NotFound)
	must(t, s.DeleteCredential(ctx, "echo"))
	wantKind(t, "deleting it again", s.DeleteCredential(ctx, "echo"), parley.NotFound)
}

// Of many that change the same version, exactly one may win each round.
func testCompareAndSetRace(t *testing.T, s Store) {
	ctx := t.Context()
	addOwner(t, s, "alpha")
	const rounds, rivals = 20, 8
	for version := int64(1); version <= rounds; version++ {
		var won atomic.Int32
		var wg sync.WaitGroup
		for range rivals {
			wg.Go(func() {
				o := &identity.Owner{Name: "alpha", CreatedAt: at(0), Version: version}
				switch err := s.SaveOwner(ctx, o, happened("owners/alpha", "owner.changed")); {
				case err == nil:
					won.Add(1)
				case parley.KindOf(err) != parley.Conflict:
					t.Errorf("a lost race: %v, want conflict", err)
				}
			})
		}
		wg.Wait()
		if won.Load() != 1 {
			t.Fatalf("version %d was replaced %d times, want once", version, won.Load())
		}
	}
	must(t, s.Flush(ctx))
	events, err := s.Events(ctx, 0, 500)
	must(t, err)
	if len(events) != rounds {
		t.Errorf("%d events, want %d: only who wins tells", len(events), rounds)
	}
}
