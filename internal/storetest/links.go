package storetest

import (
	"sync"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/parley-mesh/parley/internal/identity"
	"github.com/parley-mesh/parley/internal/parley"
)

const issuer = "https://login.example"

func testLinks(t *testing.T, s Store) {
	ctx := t.Context()
	addOwner(t, s, "alpha")
	p := &identity.Principal{Name: "client", Owner: "alpha", Environment: parley.Dev, CreatedAt: at(0)}
	must(t, s.SavePrincipal(ctx, p))
	l := &identity.Link{Issuer: issuer, Subject: "s-1", Principal: "client", CreatedAt: at(1)}
	must(t, s.AddLink(ctx, l, happened("principals/client", "principal.linked")))
	wantKind(t, "the same subject again", s.AddLink(ctx, l, happened("principals/client", "principal.linked")), parley.Conflict)
	wantKind(t, "a link to nobody", s.AddLink(ctx, &identity.Link{Issuer: issuer, Subject: "s-2", Principal: "nobody"}), parley.NotFound)
	must(t, s.AddLink(ctx, &identity.Link{Issuer: "https://other.example", Subject: "s-1", Principal: "client", CreatedAt: at(2)}))
	must(t, s.TouchLink(ctx, issuer, "s-1", at(5)))
	l.SeenAt = at(5)
	got, who, err := s.Linked(ctx, issuer, "s-1")
	must(t, err)
	if diff := cmp.Diff(l, got); diff != "" {
		t.Errorf("link (-saved +read):\n%s", diff)
	}
	if diff := cmp.Diff(p, who); diff != "" {
		t.Errorf("its principal (-saved +read):\n%s", diff)
	}
	_, _, err = s.Linked(ctx, issuer, "s-9")
	wantKind(t, "an unknown subject", err, parley.NotFound)
	all, err := s.Links(ctx, "client", 1)
	must(t, err)
	if len(all) != 1 || all[0].Issuer != issuer {
		t.Errorf("the first link of the principal is %+v, want that of %s", all, issuer)
	}
	wantKind(t, "taking away another's link", s.RemoveLink(ctx, &identity.Link{Issuer: issuer, Subject: "s-1", Principal: "other"}), parley.NotFound)
	must(t, s.RemoveLink(ctx, l, happened("principals/client", "principal.unlinked")))
	wantKind(t, "taking it away again", s.RemoveLink(ctx, l), parley.NotFound)
	must(t, s.DeletePrincipal(ctx, "client", p.Version))
	_, _, err = s.Linked(ctx, "https://other.example", "s-1")
	wantKind(t, "a link to a deleted principal", err, parley.NotFound)
	must(t, s.Flush(ctx))
	events, err := s.Events(ctx, 0, 100)
	must(t, err)
	if len(events) != 2 {
		t.Errorf("%d events, want 2: of the link and its end", len(events))
	}
}

// Of many first calls of one subject, one makes its principal, and none of the
// others leaves anything.
func testAdmitRace(t *testing.T, s Store) {
	ctx := t.Context()
	addOwner(t, s, "alpha")
	var won atomic.Int32
	var wg sync.WaitGroup
	for n := range 8 {
		wg.Go(func() {
			name := parley.PrincipalName("grace-" + string(rune('a'+n)))
			p := &identity.Principal{Name: name, Owner: "alpha", Environment: parley.Test, Description: "d", CreatedAt: at(1)}
			l := &identity.Link{Issuer: issuer, Subject: "s-1", Principal: name, Made: true, CreatedAt: at(1), SeenAt: at(1)}
			switch err := s.AdmitPrincipal(ctx, p, l, happened("principals/"+string(name), "principal.added")); {
			case err == nil:
				won.Add(1)
				if p.Version != 1 {
					t.Errorf("the new principal has version %d, want 1", p.Version)
				}
			case parley.KindOf(err) != parley.Conflict:
				t.Errorf("a lost race: %v, want conflict", err)
			}
		})
	}
	wg.Wait()
	principals, err := s.Principals(ctx, "alpha", "", 100)
	must(t, err)
	must(t, s.Flush(ctx))
	events, err := s.Events(ctx, 0, 100)
	must(t, err)
	if won.Load() != 1 || len(principals) != 1 || len(events) != 1 {
		t.Fatalf("%d won, %d principals, %d events; want one of each", won.Load(), len(principals), len(events))
	}
	l, p, err := s.Linked(ctx, issuer, "s-1")
	must(t, err)
	if !l.Made || p.Environment != parley.Test || p.Owner != "alpha" || p.Description != "d" {
		t.Errorf("admitted: %+v, %+v", l, p)
	}
	err = s.AdmitPrincipal(ctx, &identity.Principal{Name: "q", Owner: "nobody", Environment: parley.Dev}, &identity.Link{Issuer: issuer, Subject: "s-2", Principal: "q"})
	wantKind(t, "an owner that does not exist", err, parley.Invalid)
	err = s.AdmitPrincipal(ctx, &identity.Principal{Name: p.Name, Owner: "alpha", Environment: parley.Dev}, &identity.Link{Issuer: issuer, Subject: "s-3", Principal: p.Name})
	wantKind(t, "a name that is taken", err, parley.Conflict)
	_, _, err = s.Linked(ctx, issuer, "s-3")
	wantKind(t, "the subject that came too late", err, parley.NotFound)
}
