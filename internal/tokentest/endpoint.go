// Package tokentest serves a strict OAuth 2 token endpoint for tests: it takes
// what RFC 6749 asks of the grant "client credentials" and refuses everything
// else. It is for tests only.
package tokentest

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
)

// Endpoint is a token endpoint with one client. Its tokens are good until they
// are revoked.
type Endpoint struct {
	URL            string
	Client, Secret string

	mu     sync.Mutex
	post   bool             // guarded by mu; the client shows itself in the body
	life   any              // guarded by mu; expires_in, nil for none
	broken http.HandlerFunc // guarded by mu; answers instead
	asked  []url.Values     // guarded by mu; forms that passed, oldest first
	seen   int              // guarded by mu; requests of any kind
	good   map[string]bool  // guarded by mu
}

// New serves an endpoint on loopback until the test ends.
func New(t testing.TB, client, secret string) *Endpoint {
	t.Helper()
	e, stop := Serve(client, secret)
	t.Cleanup(stop)
	return e
}

// Serve is New for whoever has no test at hand, and ends the endpoint himself.
func Serve(client, secret string) (e *Endpoint, stop func()) {
	e = &Endpoint{Client: client, Secret: secret, life: 3600, good: map[string]bool{}}
	server := httptest.NewServer(e)
	e.URL = server.URL + "/oauth2/token"
	return e, server.Close
}

// Post makes the client show itself in the body from now on.
func (e *Endpoint) Post() { e.locked(func() { e.post = true }) }

// Life sets what expires_in says from now on; nil leaves it out.
func (e *Endpoint) Life(expiresIn any) { e.locked(func() { e.life = expiresIn }) }

// Break lets h answer from now on; nil mends it.
func (e *Endpoint) Break(h http.HandlerFunc) { e.locked(func() { e.broken = h }) }

// Revoke makes every token so far bad.
func (e *Endpoint) Revoke() { e.locked(func() { clear(e.good) }) }

// Good reports whether a token as it stands in Authorization is one of the
// endpoint's and not revoked.
func (e *Endpoint) Good(authorization string) (ok bool) {
	token, bearer := strings.CutPrefix(authorization, "Bearer ")
	e.locked(func() { ok = bearer && e.good[token] })
	return ok
}

// Asked are the forms of the requests that were granted, oldest first.
func (e *Endpoint) Asked() (all []url.Values) {
	e.locked(func() { all = slices.Clone(e.asked) })
	return all
}

// Seen is how many requests came, granted or not.
func (e *Endpoint) Seen() (n int) {
	e.locked(func() { n = e.seen })
	return n
}

func (e *Endpoint) locked(do func()) {
	e.mu.Lock()
	defer e.mu.Unlock()
	do()
}

// ServeHTTP implements http.Handler.
func (e *Endpoint) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	e.mu.Lock()
	e.seen++
	broken := e.broken
	e.mu.Unlock()
	if broken != nil {
		broken(w, r)
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if code, status := e.check(r); code != "" {
		if status == http.StatusUnauthorized {
			w.Header().Set("WWW-Authenticate", `Basic realm="tokens"`)
		}
		answer(w, status, map[string]any{"error": code})
		return
	}
	e.asked = append(e.asked, r.PostForm)
	token := fmt.Sprintf("token-%d", len(e.asked))
	e.good[token] = true
	granted := map[string]any{"access_token": token, "token_type": "Bearer"}
	if e.life != nil {
		granted["expires_in"] = e.life
	}
	answer(w, http.StatusOK, granted)
}

// check says what of RFC 6749, sections 2.3.1, 3.2 and 4.4.2, a request breaks,
// as an error of section 5.2. The caller holds mu.
func (e *Endpoint) check(r *http.Request) (code string, status int) {
	if r.Method != http.MethodPost || r.URL.RawQuery != "" || r.Header.Get("Content-Type") != "application/x-www-form-urlencoded" {
		return "invalid_request", http.StatusBadRequest
	}
	if err := r.ParseForm(); err != nil {
		return "invalid_request", http.StatusBadRequest
	}
	for _, values := range r.PostForm {
		if len(values) != 1 || values[0] == "" {
			return "invalid_request", http.StatusBadRequest
		}
	}
	id, secret, inHeader := r.BasicAuth()
	inBody := r.PostForm.Has("client_id") || r.PostForm.Has("client_secret")
	switch {
	case inHeader == inBody, inBody != e.post:
		return "invalid_client", http.StatusUnauthorized
	case inHeader: // form-encoded before they were joined
		id, secret = unescape(id), unescape(secret)
	default:
		id, secret = r.PostForm.Get("client_id"), r.PostForm.Get("client_secret")
	}
	switch {
	case id != e.Client || secret != e.Secret:
		return "invalid_client", http.StatusUnauthorized
	case r.PostForm.Get("grant_type") != "client_credentials":
		return "unsupported_grant_type", http.StatusBadRequest
	}
	return "", 0
}

func unescape(s string) string {
	plain, err := url.QueryUnescape(s)
	if err != nil {
		return ""
	}
	return plain
}

func answer(w http.ResponseWriter, status int, v map[string]any) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(v) // a client that left gets nothing
}
