package identity_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/parley-mesh/parley/internal/identity"
	"github.com/parley-mesh/parley/internal/identity/identitytest"
	"github.com/parley-mesh/parley/internal/parley"
)

// fieldsOf are the paths of the fields err complains of.
func fieldsOf(err error) (paths []string) {
	if e, ok := errors.AsType[*parley.Error](err); ok {
		for _, f := range e.Fields {
			paths = append(paths, f.Path)
		}
	}
	return paths
}

func TestCreateNamesEveryWrongField(t *testing.T) {
	m := newMesh(t, identity.Options{})
	ctx := t.Context()
	long := strings.Repeat("x", identity.MaxTextLength+1)
	_, ownerErr := m.CreateOwner(ctx, "Team A", long)
	_, principalErr := m.CreatePrincipal(ctx, identity.NewPrincipal{
		Name: "-", Owner: "nobody", Environment: "moon", Roles: []parley.Role{"god", parley.RoleAdmin, parley.RoleAdmin}, Description: "a\nb",
	})
	_, reserved := m.CreatePrincipal(ctx, identity.NewPrincipal{Name: parley.LocalAdmin})
	_, _, none := m.CreateKey(ctx, identity.KeyRequest{TTL: -1, Note: "\x00"})
	_, _, both := m.CreateKey(ctx, identity.KeyRequest{Principal: "ann", Agent: "echo", TTL: identity.MaxTTL + 1})
	_, _, unknown := m.CreateKey(ctx, identity.KeyRequest{Principal: "nobody"})
	_, _, agent := m.CreateKey(ctx, identity.KeyRequest{Agent: "nobody"})
	for _, tc := range []struct {
		name string
		err  error
		want []string
	}{
		{"owner", ownerErr, []string{"/name", "/description"}},
		{"principal", principalErr, []string{"/name", "/environment", "/roles/0", "/roles/2", "/description", "/owner"}},
		{"reserved", reserved, []string{"/name"}},
		{"key of nobody", none, []string{"/principal", "/ttlMs", "/note"}},
		{"key of two", both, []string{"/principal", "/ttlMs"}},
		{"key of an unknown principal", unknown, []string{"/principal"}},
		{"key of an unknown agent", agent, []string{"/agent"}},
	} {
		if diff := cmp.Diff(tc.want, fieldsOf(tc.err)); diff != "" || parley.KindOf(tc.err) != parley.Invalid {
			t.Errorf("%s: %v (-want +got):\n%s", tc.name, tc.err, diff)
		}
		e, ok := errors.AsType[*parley.Error](tc.err)
		if !ok {
			t.Fatalf("%s: %T has no fields", tc.name, tc.err)
		}
		for _, f := range e.Fields {
			if f.Problem == "" || f.Fix == "" {
				t.Errorf("%s: field %s does not say the problem and the fix: %+v", tc.name, f.Path, f)
			}
		}
	}
}

func TestBootstrapTwice(t *testing.T) {
	store := &identitytest.Store{}
	d := identity.NewDirectory(store, homes{}, identity.Options{})
	for range 2 {
		if err := d.Bootstrap(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if n := len(store.Events()); n != 1 {
		t.Errorf("%d events, want the one of the owner's making", n)
	}
}

func TestDeleteOwner(t *testing.T) {
	ctx := t.Context()
	agents := homes{}
	d := identity.NewDirectory(&identitytest.Store{}, agents, identity.Options{})
	if err := d.Bootstrap(ctx); err != nil {
		t.Fatal(err)
	}
	if _, err := d.CreateOwner(ctx, "team", ""); err != nil {
		t.Fatal(err)
	}
	if _, err := d.CreatePrincipal(ctx, identity.NewPrincipal{Name: "bob", Owner: "team"}); err != nil {
		t.Fatal(err)
	}
	agents["echo"] = struct {
		owner parley.OwnerName
		env   parley.Environment
	}{"team", parley.Dev}

	err := d.DeleteOwner(ctx, "team", 0)
	if msg := parley.PublicMessage(err); parley.KindOf(err) != parley.Conflict || !strings.Contains(msg, "echo") || !strings.Contains(msg, "bob") {
		t.Errorf("got %v; want a conflict that names echo and bob", err)
	}
	delete(agents, "echo")
	if err := d.DeletePrincipal(ctx, "bob", 0); err != nil {
		t.Fatal(err)
	}
	if err := d.DeleteOwner(ctx, "team", 99); parley.KindOf(err) != parley.Conflict {
		t.Errorf("a wrong version: %v", err)
	}
	if err := d.DeleteOwner(ctx, "team", 1); err != nil {
		t.Error(err)
	}
	if err := d.DeleteOwner(ctx, "team", 0); parley.KindOf(err) != parley.NotFound {
		t.Errorf("deleted twice: %v", err)
	}
	if err := d.DeleteOwner(ctx, parley.DefaultOwner, 0); parley.KindOf(err) != parley.Conflict {
		t.Errorf("the default owner: %v", err)
	}
}

func TestVersionsGuardChanges(t *testing.T) {
	m := newMesh(t, identity.Options{})
	ctx := t.Context()
	p, err := m.Principal(ctx, "ann")
	if err != nil {
		t.Fatal(err)
	}
	text := "first"
	if _, err := m.UpdatePrincipal(ctx, "ann", p.Version, identity.PrincipalChange{Description: &text}); err != nil {
		t.Fatal(err)
	}
	text = "second"
	if _, err := m.UpdatePrincipal(ctx, "ann", p.Version, identity.PrincipalChange{Description: &text}); parley.KindOf(err) != parley.Conflict {
		t.Errorf("a stale change: %v", err)
	}
	got, err := m.Principal(ctx, "ann")
	if err != nil || got.Description != "first" || len(got.Roles) != 1 {
		t.Errorf("got %+v, %v", got, err)
	}
	if _, err := m.UpdateOwner(ctx, "default", 7, "x"); parley.KindOf(err) != parley.Conflict {
		t.Errorf("a stale change of an owner: %v", err)
	}
}

func TestKeyForAgent(t *testing.T) {
	ctx := t.Context()
	agents := homes{"echo": {"team", parley.Prod}, "ann": {"default", parley.Test}}
	d := identity.NewDirectory(&identitytest.Store{}, agents, identity.Options{})
	if err := d.Bootstrap(ctx); err != nil {
		t.Fatal(err)
	}
	if _, err := d.CreateOwner(ctx, "team", ""); err != nil {
		t.Fatal(err)
	}
	for range 2 { // the second uses the principal the first has made
		text, k, err := d.CreateKey(ctx, identity.KeyRequest{Agent: "echo"})
		if err != nil {
			t.Fatal(err)
		}
		c, err := d.Identify(ctx, bearer(text))
		if err != nil {
			t.Fatal(err)
		}
		if c.Agent != "echo" || c.Name != "echo" || c.Owner != "team" || c.Environment != parley.Prod || len(c.Roles) != 0 || k.Principal != "echo" {
			t.Errorf("the agent calls as %+v with key %+v", c, k)
		}
	}

	if _, err := d.CreatePrincipal(ctx, identity.NewPrincipal{Name: "ann", Environment: parley.Test}); err != nil {
		t.Fatal(err)
	}
	if _, _, err := d.CreateKey(ctx, identity.KeyRequest{Agent: "ann"}); parley.KindOf(err) != parley.Conflict {
		t.Errorf("a person's principal became an agent's: %v", err)
	}
	agents["echo"] = struct {
		owner parley.OwnerName
		env   parley.Environment
	}{"default", parley.Prod}
	if _, _, err := d.CreateKey(ctx, identity.KeyRequest{Agent: "echo"}); parley.KindOf(err) != parley.Conflict {
		t.Errorf("the agent moved to another owner and kept its principal: %v", err)
	}
}

func TestAdminKey(t *testing.T) {
	m := newMesh(t, identity.Options{Environment: parley.Staging})
	for range 2 {
		text, _, err := m.AdminKey(t.Context(), "first start")
		if err != nil {
			t.Fatal(err)
		}
		c, err := m.Identify(t.Context(), bearer(text))
		if err != nil || c.Name != identity.AdminPrincipal || !c.Has(parley.RoleAdmin) || c.Environment != parley.Staging {
			t.Errorf("got %+v, %v", c, err)
		}
	}
}

func TestEventsTellWhatChangedAndHoldNoSecret(t *testing.T) {
	m := newMesh(t, identity.Options{})
	ctx := identity.WithCaller(t.Context(), &identity.Caller{Principal: identity.Principal{Name: "root"}})
	key, k, err := m.CreateKey(ctx, identity.KeyRequest{Principal: "ann", Note: "laptop", TTL: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	steps := []func(context.Context) error{
		func(ctx context.Context) error { _, err := m.CreateOwner(ctx, "team", ""); return err },
		func(ctx context.Context) error { _, err := m.UpdateOwner(ctx, "team", 0, "x"); return err },
		func(ctx context.Context) error { return m.DeleteOwner(ctx, "team", 0) },
		func(ctx context.Context) error {
			_, err := m.UpdatePrincipal(ctx, "ann", 0, identity.PrincipalChange{})
			return err
		},
		func(ctx context.Context) error { _, err := m.RevokeKey(ctx, k.ID); return err },
		func(ctx context.Context) error { _, err := m.RevokeKey(ctx, k.ID); return err }, // changes nothing
		func(ctx context.Context) error { return m.DeletePrincipal(ctx, "ann", 0) },
	}
	for i, step := range steps {
		if err := step(ctx); err != nil {
			t.Fatalf("step %d: %v", i, err)
		}
	}
	var got []string
	for _, e := range m.store.Events() {
		got = append(got, e.Subject+" "+e.Type)
		if strings.Contains(string(e.Data), key[16:]) || !json.Valid(e.Data) || e.Owner == "" || e.Environment == "" || e.Time.IsZero() {
			t.Errorf("event %s: %+v data %s", e.Type, e, e.Data)
		}
	}
	want := []string{
		"owners/default owner.added", "principals/ann principal.added", "keys/" + m.keyID + " key.created",
		"keys/" + k.ID + " key.created", "owners/team owner.added", "owners/team owner.changed", "owners/team owner.removed",
		"principals/ann principal.changed", "keys/" + k.ID + " key.revoked", "principals/ann principal.removed",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
	last := m.store.Events()[3]
	var data struct{ Key, Principal, Note, ExpiresAt, By string }
	if err := json.Unmarshal(last.Data, &data); err != nil || data.Key != k.ID || data.Principal != "ann" || data.Note != "laptop" || data.ExpiresAt == "" || data.By != "root" {
		t.Errorf("data %s, %v", last.Data, err)
	}
}
