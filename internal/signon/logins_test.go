package signon_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/parley-mesh/parley/internal/parley"
	"github.com/parley-mesh/parley/internal/signon"
)

const meshOrigin = "https://mesh.example:443"

func saved(t *testing.T, change func(*signon.Login)) signon.Logins {
	t.Helper()
	logins := signon.Logins{Dir: filepath.Join(t.TempDir(), "a", "logins")}
	login := signon.Login{
		Origin: meshOrigin, Issuer: issuerURL, ClientID: "cli", Resource: "mesh", TokenURL: issuerURL + "/token", RevokeURL: issuerURL + "/revoke",
		Access: "a-0", Refresh: "r-0", ExpiresAt: time.Now().Add(time.Hour),
	}
	if change != nil {
		change(&login)
	}
	if err := logins.Save(&login); err != nil {
		t.Fatal(err)
	}
	return logins
}

// TestLoginsArePrivate: nobody else can read them, each mesh has its own, and
// nothing is left of one that was removed.
func TestLoginsArePrivate(t *testing.T) {
	logins := saved(t, nil)
	files, err := os.ReadDir(logins.Dir)
	if err != nil || len(files) != 1 {
		t.Fatalf("%v, %v", files, err)
	}
	info, err := files[0].Info()
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, %v, want 0600", info.Mode(), err)
	}
	if dir, err := os.Stat(logins.Dir); err != nil || dir.Mode().Perm() != 0o700 {
		t.Errorf("folder: mode %v, %v, want 0700", dir.Mode(), err)
	}
	for _, other := range []string{"https://mesh.example:444", "http://mesh.example:443", "https://evil.example:443"} {
		if _, err := logins.Load(other); !errors.Is(err, signon.ErrNone) {
			t.Errorf("%s: %v, want none", other, err)
		}
	}
	// A file that was copied to another mesh's place is not that mesh's.
	raw, err := os.ReadFile(filepath.Join(logins.Dir, files[0].Name()))
	if err != nil {
		t.Fatal(err)
	}
	if err := logins.Save(&signon.Login{Origin: "https://evil.example:443", Access: "x"}); err != nil {
		t.Fatal(err)
	}
	after, err := os.ReadDir(logins.Dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range after {
		if f.Name() != files[0].Name() {
			if err := os.WriteFile(filepath.Join(logins.Dir, f.Name()), raw, 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	if login, err := logins.Load("https://evil.example:443"); err == nil {
		t.Errorf("another mesh is shown %s's login: %+v", meshOrigin, login)
	}
	if err := logins.Remove(meshOrigin); err != nil {
		t.Fatal(err)
	}
	if err := logins.Remove(meshOrigin); !errors.Is(err, signon.ErrNone) {
		t.Errorf("removed twice: %v", err)
	}
}

func TestTokenIsRenewed(t *testing.T) {
	ended := func(l *signon.Login) { l.ExpiresAt = time.Now().Add(10 * time.Second) }
	for _, tc := range []struct {
		name    string
		change  func(*signon.Login)
		answers []string
		want    string // the token; empty: an error of kind
		kind    parley.Kind
		refresh string // kept afterwards
	}{
		{"fresh", nil, nil, "a-0", 0, "r-0"},
		{"without an end", func(l *signon.Login) { l.ExpiresAt = time.Time{} }, nil, "a-0", 0, "r-0"},
		{"near its end", ended, []string{granted}, "a-1", 0, "r-1"},
		{"the refresh token stays", ended, []string{`200 {"access_token":"a-2","token_type":"bearer"}`}, "a-2", 0, "r-0"},
		{"over", ended, []string{`400 {"error":"invalid_grant"}`}, "", parley.Unauthorized, "r-0"},
		{"without a refresh token", func(l *signon.Login) { ended(l); l.Refresh = "" }, nil, "", parley.Unauthorized, ""},
		{"the issuer is away", ended, []string{""}, "", parley.Unavailable, "r-0"},
		{"the issuer points elsewhere", ended, []string{"302 {}"}, "", parley.Unavailable, "r-0"},
	} {
		logins, s := saved(t, tc.change), &script{answers: tc.answers}
		got, err := logins.Token(t.Context(), signon.NewClient(s), meshOrigin)
		if got != tc.want || (tc.want == "") != (err != nil) || err != nil && parley.KindOf(err) != tc.kind {
			t.Errorf("%s: %q, %v", tc.name, got, err)
		}
		if err != nil && (strings.Contains(err.Error(), "r-0") || strings.Contains(err.Error(), "a-0")) {
			t.Errorf("%s: the error repeats a secret: %v", tc.name, err)
		}
		for _, q := range s.asked {
			if q.url != issuerURL+"/token" || q.form.Get("refresh_token") != "r-0" || q.form.Get("resource") != "mesh" {
				t.Errorf("%s: asked %+v", tc.name, q)
			}
		}
		if kept, err := logins.Load(meshOrigin); err != nil || kept.Refresh != tc.refresh {
			t.Errorf("%s: kept %+v, %v", tc.name, kept, err)
		}
	}
}

// TestOneRenewalAtATime: a refresh token that an issuer sees twice ends the
// login, so whoever comes second uses what the first one got.
func TestOneRenewalAtATime(t *testing.T) {
	logins := saved(t, func(l *signon.Login) { l.ExpiresAt = time.Now() })
	s := &script{answers: []string{granted}}
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			if token, err := logins.Token(t.Context(), signon.NewClient(s), meshOrigin); token != "a-1" {
				t.Errorf("%q, %v", token, err)
			}
		})
	}
	wg.Wait()
	if len(s.asked) != 1 {
		t.Errorf("the issuer was asked %d times, want once", len(s.asked))
	}
}

func TestRevoke(t *testing.T) {
	logins, s := saved(t, nil), &script{answers: []string{"200 "}}
	login, err := logins.Load(meshOrigin)
	if err != nil {
		t.Fatal(err)
	}
	if err := signon.NewClient(s).Revoke(t.Context(), login); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"r-0"}, s.asked[0].form["token"]); diff != "" || s.asked[0].url != issuerURL+"/revoke" {
		t.Errorf("asked %+v", s.asked[0])
	}
	login.RevokeURL = ""
	if err := signon.NewClient(s).Revoke(t.Context(), login); err != nil || len(s.asked) != 1 {
		t.Errorf("an issuer without a place for that: %v, asked %d times", err, len(s.asked))
	}
}
