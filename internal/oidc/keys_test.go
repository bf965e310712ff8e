package oidc_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/parley-mesh/parley/internal/identity"
	"github.com/parley-mesh/parley/internal/oidc"
	"github.com/parley-mesh/parley/internal/parley"
)

func withKey(t testing.TB, kid string) string {
	t.Helper()
	return rs256(t, keys().rsa, header(object{"kid": kid}), claims(object{"exp": start.Add(1000 * time.Hour).Unix()}))
}

// TestUnknownKeysCostOneFetchAMinute: however many tokens name keys that do not
// exist, and however many at once.
func TestUnknownKeysCostOneFetchAMinute(t *testing.T) {
	w := newWorld()
	v := w.verifier(nil)
	if _, err := v.Verify(t.Context(), good(t)); err != nil {
		t.Fatal(err)
	}
	w.advance(time.Minute)
	flood := make([]string, 50)
	for i := range flood {
		flood[i] = withKey(t, fmt.Sprintf("made-up-%d", i))
	}
	for minute := range 3 {
		before := w.count(keysURL)
		var wg sync.WaitGroup
		for _, token := range flood {
			wg.Go(func() {
				_, err := v.Verify(context.Background(), token)
				wantReason(t, "a made-up key", err, identity.ReasonSignature)
			})
		}
		wg.Wait()
		w.advance(59 * time.Second)
		_, err := v.Verify(t.Context(), flood[0])
		wantReason(t, "again within the minute", err, identity.ReasonSignature)
		if got := w.count(keysURL) - before; got != 1 {
			t.Errorf("minute %d: %d fetches of the keys, want 1", minute, got)
		}
		w.advance(time.Second)
	}
	if _, err := v.Verify(t.Context(), good(t)); err != nil {
		t.Errorf("a good token after the flood: %v", err)
	}
	if got := w.count(metadataURL); got != 1 {
		t.Errorf("metadata were fetched %d times, want once", got)
	}
}

// TestRotation: a token under a new key is taken at once, and one under a key
// that was taken back no longer.
func TestRotation(t *testing.T) {
	w := newWorld()
	v := w.verifier(nil)
	if _, err := v.Verify(t.Context(), withKey(t, "rsa-1")); err != nil {
		t.Fatal(err)
	}
	w.advance(2 * time.Minute)
	w.publish("rsa-2")
	if _, err := v.Verify(t.Context(), withKey(t, "rsa-2")); err != nil {
		t.Errorf("the new key: %v", err)
	}
	_, err := v.Verify(t.Context(), withKey(t, "rsa-1"))
	wantReason(t, "the old key", err, identity.ReasonSignature)
}

// TestIssuerAway: without keys nothing can be told; with keys all goes on for a
// day, and no longer.
func TestIssuerAway(t *testing.T) {
	w := newWorld()
	w.set(func() { w.down = true })
	v := w.verifier(nil)
	wantKind := func(what string, token string, want parley.Kind) {
		t.Helper()
		a, err := v.Verify(t.Context(), token)
		if a != nil || err == nil || parley.KindOf(err) != want || reason(err) != "" {
			t.Errorf("%s: %v, %v, want %s", what, a, err, want)
		}
	}
	token := withKey(t, "rsa-1")
	for range 5 {
		wantKind("before any key", token, parley.Unavailable)
	}
	if got := w.count(metadataURL); got != 1 {
		t.Errorf("the issuer was asked %d times within a minute, want once", got)
	}
	w.advance(time.Minute)
	w.set(func() { w.down = false })
	if _, err := v.Verify(t.Context(), token); err != nil {
		t.Errorf("once it is back: %v", err)
	}

	w.set(func() { w.down = true })
	w.advance(time.Hour)
	if _, err := v.Verify(t.Context(), token); err != nil {
		t.Errorf("a known key while the issuer is away: %v", err)
	}
	wantKind("an unknown key while it is away", withKey(t, "rsa-9"), parley.Unavailable)
	w.advance(oidc.MaxKeyAge)
	wantKind("keys older than a day", token, parley.Unavailable)
	w.set(func() { w.down = false })
	w.advance(time.Minute)
	if _, err := v.Verify(t.Context(), token); err != nil {
		t.Errorf("once it is back again: %v", err)
	}
}

func TestMetadataMustBeTheIssuersOwn(t *testing.T) {
	rfc8414 := "https://login.example/.well-known/oauth-authorization-server/tenant"
	good := fmt.Sprintf(`{"issuer":%q,"jwks_uri":%q}`, issuerID, keysURL)
	for _, tc := range []struct {
		name string
		docs map[string]string
		want bool
	}{
		{"as RFC 8414 places them", map[string]string{metadataURL: "", rfc8414: good}, true},
		{"of another issuer", map[string]string{metadataURL: strings.Replace(good, issuerID, "https://evil.example", 1)}, false},
		{"with keys over http", map[string]string{metadataURL: strings.Replace(good, "https://login.example/keys", "http://login.example/keys", 1)}, false},
		{"with keys in a file", map[string]string{metadataURL: strings.Replace(good, "https://login.example/keys", "file:///etc/keys", 1)}, false},
		{"without keys", map[string]string{metadataURL: fmt.Sprintf(`{"issuer":%q}`, issuerID)}, false},
		{"that name the issuer twice", map[string]string{metadataURL: `{"issuer":"https://evil.example",` + good[1:]}, false},
		{"with an empty key set", map[string]string{keysURL: `{"keys":[]}`}, false},
		{"with keys of kinds unknown here", map[string]string{keysURL: `{"keys":[{"kty":"XYZ","kid":"rsa-1"},{"kty":"oct","k":"c2VjcmV0c2VjcmV0","kid":"rsa-1"}]}`}, false},
		{"with a key set that is no JSON", map[string]string{keysURL: `<html>`}, false},
	} {
		w := newWorld()
		for url, doc := range tc.docs {
			if w.docs[url] = doc; doc == "" {
				delete(w.docs, url)
			}
		}
		_, err := w.verifier(nil).Verify(t.Context(), withKey(t, "rsa-1"))
		if tc.want && err != nil {
			t.Errorf("metadata %s: %v", tc.name, err)
		}
		if !tc.want && (err == nil || parley.KindOf(err) != parley.Unavailable) {
			t.Errorf("metadata %s: %v, want unavailable", tc.name, err)
		}
	}
}

// TestKeysAreKeptFresh: in the background, sooner after a failure, and not at
// all once the verifier has stopped.
func TestKeysAreKeptFresh(t *testing.T) {
	keys() // not in the bubble: their making is not bounded by its clock
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		v := oidc.New(oidc.Options{
			Issuers: []oidc.Issuer{{ID: issuerID, Refresh: 10 * time.Minute}}, Fetch: w,
		})
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- v.Run(ctx) }()
		synctest.Wait()
		if got := w.count(keysURL); got != 1 {
			t.Errorf("%d fetches at the start, want 1", got)
		}
		time.Sleep(25 * time.Minute)
		synctest.Wait()
		if got := w.count(keysURL); got != 3 {
			t.Errorf("%d fetches after 25 minutes, want 3", got)
		}
		w.set(func() { w.down = true })
		time.Sleep(5*time.Minute + 16*time.Second) // fails at 30:00, 30:05, 30:15
		synctest.Wait()
		w.set(func() { w.down = false })
		before := w.count(keysURL)
		time.Sleep(20 * time.Second)
		synctest.Wait()
		if got := w.count(keysURL) - before; got != 1 {
			t.Errorf("%d fetches within 20 s of the issuer's return, want 1", got)
		}
		cancel()
		if err := <-done; err != nil {
			t.Errorf("the end: %v", err)
		}
		before = w.count(keysURL)
		time.Sleep(time.Hour)
		if got := w.count(keysURL); got != before {
			t.Errorf("it goes on after its end: %d fetches more", got-before)
		}
	})
}
