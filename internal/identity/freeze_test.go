package identity_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/parley-mesh/parley/internal/identity"
	"github.com/parley-mesh/parley/internal/parley"
)

// A frozen principal is told so, whoever holds its key, until that is taken
// back; the key itself stays good.
func TestFreeze(t *testing.T) {
	var told [][]parley.PrincipalName
	m := newMesh(t, identity.Options{Frozen: func(all []parley.PrincipalName) { told = append(told, all) }})
	ctx := t.Context()
	if _, err := m.Identify(ctx, bearer(m.key)); err != nil {
		t.Fatal(err)
	}
	p, err := m.FreezePrincipal(identity.WithCaller(ctx, &identity.Caller{Principal: identity.Principal{Name: "root"}}), "ann", "leaked")
	if err != nil || !p.Frozen() || p.FrozenReason != "leaked" {
		t.Fatalf("%+v, %v", p, err)
	}
	for range 2 { // from the store, and from the cache
		c, err := m.Identify(ctx, bearer(m.key))
		if c != nil || parley.KindOf(err) != parley.Frozen || !strings.Contains(parley.PublicMessage(err), "leaked") {
			t.Fatalf("%+v, %v", c, err)
		}
		if who := identity.FrozenCaller(err); who == nil || who.Name != "ann" || who.KeyID != m.keyID {
			t.Errorf("the refusal says it was %+v", who)
		}
	}
	if _, err := m.Identify(ctx, bearer("pk_wrong")); identity.FrozenCaller(err) != nil || parley.KindOf(err) != parley.Unauthorized {
		t.Errorf("a wrong key: %v", err)
	}
	if p, err = m.UnfreezePrincipal(ctx, "ann"); err != nil || p.Frozen() || p.FrozenReason != "" {
		t.Fatalf("%+v, %v", p, err)
	}
	if _, err := m.Identify(ctx, bearer(m.key)); err != nil {
		t.Errorf("after that: %v", err)
	}
	if len(told) != 2 || !slices.Equal(told[0], []parley.PrincipalName{"ann"}) || len(told[1]) != 0 {
		t.Errorf("told %v, want ann and then nobody", told)
	}
	var types []string
	for _, e := range m.store.Events() {
		if strings.Contains(e.Type, "frozen") {
			types = append(types, e.Type+" "+string(e.Data))
		}
	}
	if len(types) != 2 || !strings.HasPrefix(types[0], "principal.frozen ") || !strings.Contains(types[0], `"frozen":"leaked"`) || !strings.Contains(types[0], `"by":"root"`) || !strings.HasPrefix(types[1], "principal.unfrozen ") {
		t.Errorf("events %q", types)
	}
}

// What another process froze ends exchanges here too, as soon as somebody says
// that things have changed, and a store that fails is asked again.
func TestFreezeOfAnotherProcess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		told := make(chan []parley.PrincipalName, 8)
		m := newMesh(t, identity.Options{Frozen: func(all []parley.PrincipalName) { told <- all }})
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- m.RunFreezes(ctx) }()
		if got := <-told; len(got) != 0 {
			t.Errorf("at the start %v", got)
		}
		other := identity.NewDirectory(m.store, homes{}, identity.Options{})
		if _, err := other.FreezePrincipal(ctx, "ann", "leaked"); err != nil {
			t.Fatal(err)
		}
		m.store.Fail(errors.New("away"))
		m.Invalidate()
		synctest.Wait()
		if len(told) != 0 {
			t.Errorf("told %v while the store was away", <-told)
		}
		m.store.Fail(nil)
		if got := <-told; !slices.Equal(got, []parley.PrincipalName{"ann"}) {
			t.Errorf("told %v, want ann", got)
		}
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

func TestFreezeNeedsAReasonAndSomebody(t *testing.T) {
	m := newMesh(t, identity.Options{})
	for _, reason := range []string{"", "two\nlines", strings.Repeat("x", identity.MaxTextLength+1)} {
		if _, err := m.FreezePrincipal(t.Context(), "ann", reason); parley.KindOf(err) != parley.Invalid {
			t.Errorf("reason %.20q: %v", reason, err)
		}
	}
	for name, err := range map[string]error{
		"freeze":   second(m.FreezePrincipal(t.Context(), "nobody", "x")),
		"unfreeze": second(m.UnfreezePrincipal(t.Context(), "nobody")),
	} {
		if parley.KindOf(err) != parley.NotFound {
			t.Errorf("%s of nobody: %v", name, err)
		}
	}
}

func second[T any](_ T, err error) error { return err }

// Names are kept in one form, belong to one principal, and go with it.
func TestCertNames(t *testing.T) {
	m := newMesh(t, identity.Options{})
	ctx := t.Context()
	if _, err := m.CreatePrincipal(ctx, identity.NewPrincipal{Name: "bob"}); err != nil {
		t.Fatal(err)
	}
	n, err := m.LinkName(ctx, "ann", identity.NameDNS, "Job.Example.COM")
	if err != nil || n.Name != "job.example.com" {
		t.Fatalf("%+v, %v", n, err)
	}
	if _, err := m.LinkName(ctx, "bob", identity.NameDNS, "job.example.com"); parley.KindOf(err) != parley.Conflict || !strings.Contains(parley.PublicMessage(err), "ann") {
		t.Errorf("a name twice: %v", err)
	}
	for kind, names := range map[identity.NameKind][]string{
		identity.NameDNS:    {"", "*.example.com", "a..b", "-a.b", "a-.b", "a b", "ä.b", "127.0.0.1", "::1", strings.Repeat("a", 64), strings.Repeat("a.", 127) + "aa", "a.b."},
		identity.NameSPIFFE: {"", "spiffe://", "spiffe://td", "spiffe://td/", "spiffe://TD/x", "https://td/x", "spiffe://td/x?y", "spiffe://td/x#y", "spiffe://td/../x", "spiffe://td//x", "spiffe://u@td/x", "spiffe://td:1/x", "SPIFFE://td/x"},
		"email":             {"a@b"},
	} {
		for _, name := range names {
			if _, err := m.LinkName(ctx, "bob", kind, name); parley.KindOf(err) != parley.Invalid {
				t.Errorf("%s %q: %v", kind, name, err)
			}
		}
	}
	if err := m.UnlinkName(ctx, "bob", identity.NameDNS, "job.example.com"); parley.KindOf(err) != parley.NotFound {
		t.Errorf("another's name is taken away: %v", err)
	}
	for i := range identity.MaxNames {
		if _, err := m.LinkName(ctx, "bob", identity.NameSPIFFE, "spiffe://td/"+strings.Repeat("x", i+1)); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := m.LinkName(ctx, "bob", identity.NameSPIFFE, "spiffe://td/one-more"); parley.KindOf(err) != parley.Exhausted {
		t.Errorf("one more than the limit: %v", err)
	}
	if err := m.UnlinkName(ctx, "ann", identity.NameDNS, "JOB.example.com"); err != nil {
		t.Error(err)
	}
	if _, err := m.Names(ctx, "nobody"); parley.KindOf(err) != parley.NotFound {
		t.Errorf("names of nobody: %v", err)
	}
}
