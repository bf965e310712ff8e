package storetest

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/parley-mesh/parley/internal/identity"
	"github.com/parley-mesh/parley/internal/parley"
	"github.com/parley-mesh/parley/internal/registry"
)

func testFrozen(t *testing.T, s Store) {
	ctx := t.Context()
	addOwner(t, s, "alpha")
	for _, name := range []parley.PrincipalName{"bob", "ann", "carl"} {
		must(t, s.SavePrincipal(ctx, &identity.Principal{Name: name, Owner: "alpha", Environment: parley.Dev, CreatedAt: at(0)}))
	}
	for _, name := range []parley.PrincipalName{"bob", "ann"} {
		p, err := s.Principal(ctx, name)
		must(t, err)
		p.FrozenAt, p.FrozenReason = at(5), "leaked"
		must(t, s.SavePrincipal(ctx, p, happened("principals/"+string(name), "principal.frozen")))
		got, err := s.Principal(ctx, name)
		must(t, err)
		if diff := cmp.Diff(p, got); diff != "" {
			t.Errorf("principal (-saved +read):\n%s", diff)
		}
	}
	frozen, err := s.FrozenPrincipals(ctx)
	must(t, err)
	if !slices.Equal(frozen, []parley.PrincipalName{"ann", "bob"}) {
		t.Errorf("frozen are %v", frozen)
	}
	must(t, s.CreateKey(ctx, &identity.Key{ID: "k1", Principal: "ann", CreatedAt: at(6)}))
	if _, holder, err := s.KeyByID(ctx, "k1"); err != nil || !holder.Frozen() || holder.FrozenReason != "leaked" {
		t.Errorf("the key's principal is %+v, %v", holder, err)
	}
	p, err := s.Principal(ctx, "ann")
	must(t, err)
	p.FrozenAt, p.FrozenReason = time.Time{}, ""
	must(t, s.SavePrincipal(ctx, p))
	must(t, s.DeletePrincipal(ctx, "bob", 2))
	if frozen, err = s.FrozenPrincipals(ctx); err != nil || len(frozen) != 0 {
		t.Errorf("frozen are %v, %v, want none", frozen, err)
	}
}

func testNames(t *testing.T, s Store) {
	ctx := t.Context()
	addOwner(t, s, "alpha")
	must(t, s.SaveAgent(ctx, &registry.Agent{Name: "planner", Owner: "alpha", Environment: parley.Dev, CreatedAt: at(0)}))
	must(t, s.SavePrincipal(ctx, &identity.Principal{Name: "planner", Owner: "alpha", Environment: parley.Dev, Agent: "planner", CreatedAt: at(0)}))
	must(t, s.SavePrincipal(ctx, &identity.Principal{Name: "ann", Owner: "alpha", Environment: parley.Dev, CreatedAt: at(0)}))
	link := func(kind identity.NameKind, name string, principal parley.PrincipalName) error {
		return s.LinkName(ctx, &identity.CertName{Kind: kind, Name: name, Principal: principal, CreatedAt: at(3)}, happened("principals/"+string(principal), "principal.linked"))
	}
	must(t, link(identity.NameSPIFFE, "spiffe://td/b", "ann"))
	must(t, link(identity.NameDNS, "b.example.com", "ann"))
	must(t, link(identity.NameDNS, "a.example.com", "ann"))
	must(t, link(identity.NameDNS, "planner.example.com", "planner"))
	wantKind(t, "a name that is taken", link(identity.NameDNS, "a.example.com", "planner"), parley.Conflict)
	wantKind(t, "a name for nobody", link(identity.NameDNS, "c.example.com", "nobody"), parley.NotFound)
	must(t, link(identity.NameSPIFFE, "a.example.com", "planner")) // another kind is another name

	names, err := s.Names(ctx, "ann")
	must(t, err)
	want := []*identity.CertName{
		{Kind: identity.NameDNS, Name: "a.example.com", Principal: "ann", CreatedAt: at(3)},
		{Kind: identity.NameDNS, Name: "b.example.com", Principal: "ann", CreatedAt: at(3)},
		{Kind: identity.NameSPIFFE, Name: "spiffe://td/b", Principal: "ann", CreatedAt: at(3)},
	}
	if diff := cmp.Diff(want, names); diff != "" {
		t.Errorf("names of ann (-want +got):\n%s", diff)
	}
	p, err := s.PrincipalByName(ctx, identity.NameDNS, "b.example.com")
	must(t, err)
	if p.Name != "ann" {
		t.Errorf("b.example.com is %s's", p.Name)
	}
	for kind, name := range map[identity.NameKind]string{identity.NameDNS: "spiffe://td/b", identity.NameSPIFFE: "nobody", "": "a.example.com"} {
		_, err := s.PrincipalByName(ctx, kind, name)
		wantKind(t, "a name of nobody", err, parley.NotFound)
	}
	unlink := func(name string, principal parley.PrincipalName) error {
		return s.UnlinkName(ctx, &identity.CertName{Kind: identity.NameDNS, Name: name, Principal: principal}, happened("principals/"+string(principal), "principal.unlinked"))
	}
	wantKind(t, "another's name", unlink("a.example.com", "planner"), parley.NotFound)
	must(t, unlink("a.example.com", "ann"))
	wantKind(t, "a name that is gone", unlink("a.example.com", "ann"), parley.NotFound)

	must(t, s.DeletePrincipal(ctx, "ann", 1))
	_, err = s.PrincipalByName(ctx, identity.NameDNS, "b.example.com")
	wantKind(t, "a name of a deleted principal", err, parley.NotFound)
	must(t, s.DeleteAgent(ctx, "planner", 1))
	_, err = s.PrincipalByName(ctx, identity.NameDNS, "planner.example.com")
	wantKind(t, "a name of the calling side of a removed agent", err, parley.NotFound)
}
