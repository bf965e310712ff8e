package identity_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/parley-mesh/parley/internal/identity"
	"github.com/parley-mesh/parley/internal/identity/identitytest"
	"github.com/parley-mesh/parley/internal/parley"
)

// homes is a registry of agents that only knows where they live.
type homes map[parley.AgentName]struct {
	owner parley.OwnerName
	env   parley.Environment
}

func (h homes) AgentHome(_ context.Context, name parley.AgentName) (parley.OwnerName, parley.Environment, error) {
	a, ok := h[name]
	if !ok {
		return "", "", parley.E("homes.get", parley.NotFound, parley.Subject(name), "no such agent", nil)
	}
	return a.owner, a.env, nil
}

func (h homes) AgentsOf(_ context.Context, owner parley.OwnerName, limit int) (out []parley.AgentName, _ error) {
	for name, a := range h {
		if a.owner == owner && len(out) < limit {
			out = append(out, name)
		}
	}
	return out, nil
}

// mesh is a directory with one principal and its key.
type mesh struct {
	*identity.Directory
	store *identitytest.Store
	key   string
	keyID string
}

func newMesh(t testing.TB, opts identity.Options) *mesh {
	t.Helper()
	ctx := t.Context()
	m := &mesh{store: &identitytest.Store{}}
	m.Directory = identity.NewDirectory(m.store, homes{}, opts)
	if err := m.Bootstrap(ctx); err != nil {
		t.Fatal(err)
	}
	if _, err := m.CreatePrincipal(ctx, identity.NewPrincipal{Name: "ann", Environment: parley.Test, Roles: []parley.Role{parley.RoleOperator}}); err != nil {
		t.Fatal(err)
	}
	m.key, m.keyID = m.newKey(t, 0)
	return m
}

func (m *mesh) newKey(t testing.TB, ttl time.Duration) (text, id string) {
	t.Helper()
	text, k, err := m.CreateKey(t.Context(), identity.KeyRequest{Principal: "ann", TTL: ttl})
	if err != nil {
		t.Fatal(err)
	}
	return text, k.ID
}

func bearer(key string) identity.Credential {
	return identity.Credential{Authorization: "Bearer " + key, RemoteAddr: "192.0.2.1:4711"}
}

// wantRefusal checks kind and reason of a refused identification.
func wantRefusal(t *testing.T, err error, kind parley.Kind, reason identity.Reason) {
	t.Helper()
	r, ok := errors.AsType[*identity.Refusal](err)
	if !ok || parley.KindOf(err) != kind || r.Reason != reason {
		t.Errorf("got %v, want kind %v, reason %q", err, kind, reason)
	}
}

func TestIdentify(t *testing.T) {
	m := newMesh(t, identity.Options{})
	for name, c := range map[string]identity.Credential{
		"bearer":             {Authorization: "Bearer " + m.key},
		"scheme in any case": {Authorization: "bearer  " + m.key},
		"X-API-Key":          {XAPIKey: m.key},
		"key on the socket":  {XAPIKey: m.key, LocalSocket: true},
	} {
		caller, err := m.Identify(t.Context(), c)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if caller.Name != "ann" || caller.Owner != "default" || caller.Environment != parley.Test || caller.KeyID != m.keyID || !caller.Has(parley.RoleOperator) || caller.Has(parley.RoleAdmin) {
			t.Errorf("%s: got %+v", name, caller)
		}
	}
	caller, err := m.Identify(t.Context(), identity.Credential{LocalSocket: true})
	if err != nil || caller.Name != parley.LocalAdmin || !caller.Has(parley.RoleAdmin) {
		t.Errorf("local socket: %+v, %v", caller, err)
	}
}

func TestIdentifyRefuses(t *testing.T) {
	m := newMesh(t, identity.Options{})
	other, _ := identity.NewKey("ann", "", time.Now(), 0)
	last := m.key[len(m.key)-1:]
	wrongSecret := m.key[:20] + strings.Map(func(r rune) rune {
		if r == 'a' {
			return 'b'
		}
		return 'a'
	}, m.key[20:len(m.key)-1]) + last
	for _, tc := range []struct {
		name      string
		c         identity.Credential
		reason    identity.Reason
		challenge string
	}{
		{"nothing", identity.Credential{}, identity.ReasonNone, `Bearer realm="parley"`},
		{"basic", identity.Credential{Authorization: "Basic YTpi"}, identity.ReasonScheme, `Bearer realm="parley"`},
		{"scheme alone", identity.Credential{Authorization: "Bearer"}, identity.ReasonScheme, `Bearer realm="parley"`},
		{"not a key", bearer("hello"), identity.ReasonMalformed, `Bearer realm="parley", error="invalid_token"`},
		{"cut off", bearer(m.key[:len(m.key)-1]), identity.ReasonMalformed, `Bearer realm="parley", error="invalid_token"`},
		{"upper case", bearer(strings.ToUpper(m.key)), identity.ReasonMalformed, `Bearer realm="parley", error="invalid_token"`},
		{"a megabyte", bearer(strings.Repeat("a", 1<<20)), identity.ReasonMalformed, `Bearer realm="parley", error="invalid_token"`},
		{"unknown", bearer(other), identity.ReasonUnknownKey, `Bearer realm="parley", error="invalid_token"`},
		{"wrong secret", bearer(wrongSecret), identity.ReasonUnknownKey, `Bearer realm="parley", error="invalid_token"`},
		{"bad key on the socket", identity.Credential{XAPIKey: other, LocalSocket: true}, identity.ReasonUnknownKey, `Bearer realm="parley", error="invalid_token"`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			caller, err := m.Identify(t.Context(), tc.c)
			if caller != nil {
				t.Fatalf("identified as %+v", caller)
			}
			wantRefusal(t, err, parley.Unauthorized, tc.reason)
			if got := identity.Challenge(err, ""); got != tc.challenge && !strings.HasPrefix(got, tc.challenge+`, error_description="`) {
				t.Errorf("challenge %q, want %q", got, tc.challenge)
			}
			if msg := parley.PublicMessage(err); !strings.Contains(msg, "pk_") && !strings.Contains(msg, "key") {
				t.Errorf("the message does not say what to send: %s", msg)
			}
		})
	}
}

func TestAWrongSecretReadsLikeAnUnknownKey(t *testing.T) {
	m := newMesh(t, identity.Options{})
	if _, err := m.RevokeKey(t.Context(), m.keyID); err != nil {
		t.Fatal(err)
	}
	forged := "pk_" + m.keyID + "_" + strings.Repeat("a", 52)
	_, err := m.Identify(t.Context(), bearer(forged))
	wantRefusal(t, err, parley.Unauthorized, identity.ReasonUnknownKey)
}

func TestKeyForm(t *testing.T) {
	pattern := regexp.MustCompile("^" + identity.KeyPattern + "$")
	seen := map[string]bool{}
	for range 100 {
		text, k := identity.NewKey("ann", "note", time.Unix(1, 0), time.Hour)
		if !pattern.MatchString(text) || !strings.HasPrefix(text, "pk_"+k.ID+"_") {
			t.Fatalf("key %q with id %q does not match %s", text, k.ID, pattern)
		}
		if seen[text] || seen[k.ID] {
			t.Fatalf("%q came twice", text)
		}
		seen[text], seen[k.ID] = true, true
	}
}

func TestRevocationAndChangesAreInForceAtOnce(t *testing.T) {
	m := newMesh(t, identity.Options{})
	ctx := t.Context()
	identify := func() (*identity.Caller, error) { return m.Identify(ctx, bearer(m.key)) }
	if _, err := identify(); err != nil {
		t.Fatal(err)
	}
	if _, err := m.UpdatePrincipal(ctx, "ann", 0, identity.PrincipalChange{Roles: &[]parley.Role{parley.RoleAdmin}}); err != nil {
		t.Fatal(err)
	}
	if c, err := identify(); err != nil || !c.Has(parley.RoleAdmin) {
		t.Errorf("after the change of roles: %+v, %v", c, err)
	}
	if _, err := m.RevokeKey(ctx, m.keyID); err != nil {
		t.Fatal(err)
	}
	_, err := identify()
	wantRefusal(t, err, parley.Unauthorized, identity.ReasonRevoked)

	m.key, m.keyID = m.newKey(t, 0)
	if _, err := identify(); err != nil {
		t.Fatal(err)
	}
	if err := m.DeletePrincipal(ctx, "ann", 0); err != nil {
		t.Fatal(err)
	}
	_, err = identify()
	wantRefusal(t, err, parley.Unauthorized, identity.ReasonUnknownKey)
}

func TestChangesOfOthersAreSeenAfterInvalidate(t *testing.T) {
	m := newMesh(t, identity.Options{})
	if _, err := m.Identify(t.Context(), bearer(m.key)); err != nil {
		t.Fatal(err)
	}
	// Another process revokes: this directory does not see the write.
	if err := m.store.RevokeKey(t.Context(), m.keyID, time.Now()); err != nil {
		t.Fatal(err)
	}
	m.Invalidate()
	_, err := m.Identify(t.Context(), bearer(m.key))
	wantRefusal(t, err, parley.Unauthorized, identity.ReasonRevoked)
}

func TestExpiryHoldsForCachedKeys(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMesh(t, identity.Options{})
		key, _ := m.newKey(t, time.Hour)
		time.Sleep(time.Hour - time.Nanosecond)
		if _, err := m.Identify(t.Context(), bearer(key)); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Nanosecond)
		_, err := m.Identify(t.Context(), bearer(key))
		wantRefusal(t, err, parley.Unauthorized, identity.ReasonExpired)
	})
}

func TestACachedKeyNeedsNoStore(t *testing.T) {
	m := newMesh(t, identity.Options{})
	for range 3 {
		if _, err := m.Identify(t.Context(), bearer(m.key)); err != nil {
			t.Fatal(err)
		}
	}
	if n := m.store.Lookups(); n != 1 {
		t.Errorf("%d look-ups for one key, want 1", n)
	}
}

func TestTheCacheIsBounded(t *testing.T) {
	m := newMesh(t, identity.Options{CachedKeys: 2})
	var keys []string
	for range 5 {
		key, _ := m.newKey(t, 0)
		keys = append(keys, key)
	}
	before := m.store.Lookups()
	for range 2 {
		for _, key := range keys {
			if _, err := m.Identify(t.Context(), bearer(key)); err != nil {
				t.Fatal(err)
			}
		}
	}
	if n := m.store.Lookups() - before; n < 5+3 {
		t.Errorf("%d look-ups for 5 keys asked twice with 2 places: the cache holds too much", n)
	}
}

func TestStoreTroubleIsNotTheCallersFault(t *testing.T) {
	m := newMesh(t, identity.Options{})
	m.store.Fail(parley.E("store.read", parley.Unavailable, "", "the store is away", nil))
	_, err := m.Identify(t.Context(), bearer(m.key))
	if parley.KindOf(err) != parley.Unavailable {
		t.Errorf("got %v, want unavailable", err)
	}
	if f := m.Failures(); f.Total != 0 {
		t.Errorf("counted as a failure: %+v", f)
	}
}

func TestFailuresAreLimitedPerAddress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMesh(t, identity.Options{FailuresPerMinute: 30, FailureBurst: 3})
		guess := func(addr string) error {
			key, _ := identity.NewKey("ann", "", time.Now(), 0)
			_, err := m.Identify(t.Context(), identity.Credential{XAPIKey: key, RemoteAddr: addr})
			return err
		}
		for range 3 {
			wantRefusal(t, guess("192.0.2.1:1"), parley.Unauthorized, identity.ReasonUnknownKey)
		}
		before := m.store.Lookups()
		err := guess("192.0.2.1:2")
		wantRefusal(t, err, parley.Exhausted, identity.ReasonLimited)
		if got := identity.RetryAfter(err); got != 2*time.Second {
			t.Errorf("retry after %v, want 2s", got)
		}
		if identity.Challenge(err, "") != "" {
			t.Error("a limited caller is challenged")
		}
		if m.store.Lookups() != before {
			t.Error("a limited attempt reached the store")
		}
		wantRefusal(t, guess("192.0.2.2:1"), parley.Unauthorized, identity.ReasonUnknownKey)
		time.Sleep(2 * time.Second)
		wantRefusal(t, guess("192.0.2.1:3"), parley.Unauthorized, identity.ReasonUnknownKey)
		wantRefusal(t, guess("192.0.2.1:3"), parley.Exhausted, identity.ReasonLimited)
	})
}

func TestALimitedAddressDoesNotLockOutVerifiedKeys(t *testing.T) {
	m := newMesh(t, identity.Options{FailureBurst: 1})
	if _, err := m.Identify(t.Context(), bearer(m.key)); err != nil {
		t.Fatal(err)
	}
	for range 5 {
		if _, err := m.Identify(t.Context(), bearer("nonsense")); err == nil {
			t.Fatal("nonsense was identified")
		}
	}
	if _, err := m.Identify(t.Context(), bearer(m.key)); err != nil {
		t.Errorf("a verified key is refused: %v", err)
	}
}

func TestAskingWithoutACredentialIsNotLimited(t *testing.T) {
	m := newMesh(t, identity.Options{FailureBurst: 1})
	for range 5 {
		_, err := m.Identify(t.Context(), identity.Credential{RemoteAddr: "192.0.2.1:1"})
		wantRefusal(t, err, parley.Unauthorized, identity.ReasonNone)
	}
}

func TestOneHostHasOneAllowance(t *testing.T) {
	for _, pair := range [][2]string{
		{"[2001:db8::1]:1", "[2001:db8::2:3]:9"},
		{"192.0.2.7:1", "[::ffff:192.0.2.7]:2"},
		{"not an address", "neither"},
	} {
		m := newMesh(t, identity.Options{FailureBurst: 1, FailuresPerMinute: 1})
		_, err := m.Identify(t.Context(), identity.Credential{XAPIKey: "x", RemoteAddr: pair[0]})
		wantRefusal(t, err, parley.Unauthorized, identity.ReasonMalformed)
		_, err = m.Identify(t.Context(), identity.Credential{XAPIKey: "x", RemoteAddr: pair[1]})
		wantRefusal(t, err, parley.Exhausted, identity.ReasonLimited)
	}
}

func TestAFloodOfAddressesIsLimitedToo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMesh(t, identity.Options{Addresses: 10, FailureBurst: 2})
		limited := 0
		for i := range 100 {
			_, err := m.Identify(t.Context(), identity.Credential{XAPIKey: "x", RemoteAddr: fmt.Sprintf("192.0.2.%d:1", i)})
			if parley.KindOf(err) == parley.Exhausted {
				limited++
			}
		}
		if limited != 88 {
			t.Errorf("%d of 100 addresses were limited, want 88: 10 have places, 2 fit the shared bucket", limited)
		}
		// Once allowances are whole again, places are free again.
		time.Sleep(time.Minute)
		_, err := m.Identify(t.Context(), identity.Credential{XAPIKey: "x", RemoteAddr: "198.51.100.1:1"})
		wantRefusal(t, err, parley.Unauthorized, identity.ReasonMalformed)
	})
}

func TestFailuresAreSummarised(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		store := &identitytest.Store{}
		d := identity.NewDirectory(store, homes{}, identity.Options{Sink: store, Log: slog.New(slog.NewJSONHandler(&log, nil))})
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- d.Run(ctx) }()

		key, _ := identity.NewKey("ann", "", time.Now(), 0)
		fail := func() {
			for _, c := range []identity.Credential{{}, bearer(key), bearer("x")} {
				if _, err := d.Identify(ctx, c); err == nil {
					t.Error("identified")
				}
			}
		}
		fail()
		time.Sleep(5 * time.Minute) // four of the five have nothing to tell
		synctest.Wait()             // the fifth was at this very moment
		fail()
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}

		events := store.Events()
		if len(events) != 2 || strings.Count(log.String(), "\n") != 2 {
			t.Fatalf("got %d events and log %s; want 2 of each", len(events), log.String())
		}
		var got identity.Failures
		if err := json.Unmarshal(events[0].Data, &got); err != nil {
			t.Fatal(err)
		}
		want := identity.Failures{
			Since: got.Since, Until: got.Since.Add(time.Minute), Total: 3,
			Reasons: map[identity.Reason]int64{identity.ReasonNone: 1, identity.ReasonUnknownKey: 1, identity.ReasonMalformed: 1},
			Sources: []identity.Source{{Address: "192.0.2.1", Count: 2}},
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("summary (-want +got):\n%s", diff)
		}
		if events[0].Type != "auth.failed" || events[0].SubjectSeq != 1 {
			t.Errorf("event %+v", events[0])
		}
		if all := string(events[0].Data) + log.String(); strings.Contains(all, key) || strings.Contains(all, key[16:]) {
			t.Error("a presented key is written down")
		}
		if f := d.Failures(); f.Total != 6 {
			t.Errorf("total since the start %d, want 6", f.Total)
		}
	})
}

func TestIdentifyAllocatesNothingForAKnownKey(t *testing.T) {
	m := newMesh(t, identity.Options{})
	c, ctx := bearer(m.key), t.Context()
	if n := testing.AllocsPerRun(100, func() {
		if _, err := m.Identify(ctx, c); err != nil {
			t.Fatal(err)
		}
	}); n != 0 {
		t.Errorf("%v allocations for a cached key, want 0", n)
	}
}

func BenchmarkIdentifyCached(b *testing.B) {
	m := newMesh(b, identity.Options{})
	c, ctx := bearer(m.key), b.Context()
	b.ReportAllocs()
	for b.Loop() {
		if _, err := m.Identify(ctx, c); err != nil {
			b.Fatal(err)
		}
	}
}

func FuzzIdentify(f *testing.F) {
	m := newMesh(f, identity.Options{FailuresPerMinute: 1e9, FailureBurst: 1e9})
	f.Add("Bearer "+m.key, "")
	f.Add("", "pk_aaaaaaaaaaaa_")
	f.Fuzz(func(t *testing.T, authorization, xAPIKey string) {
		caller, err := m.Identify(t.Context(), identity.Credential{Authorization: authorization, XAPIKey: xAPIKey})
		if (caller == nil) == (err == nil) {
			t.Fatalf("caller %v, err %v", caller, err)
		}
		if caller != nil && !strings.Contains(authorization+xAPIKey, m.key) {
			t.Fatalf("%q, %q identified %s", authorization, xAPIKey, caller.Name)
		}
	})
}
