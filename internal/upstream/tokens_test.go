package upstream

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/parley-mesh/parley/internal/netguard"
	"github.com/parley-mesh/parley/internal/parley"
	"github.com/parley-mesh/parley/internal/registry"
)

// endpoint answers as a test says, and takes its time.
type endpoint struct {
	mu     sync.Mutex
	asked  int // guarded by mu
	takes  time.Duration
	status int
	body   func(n int) string
	err    error
}

// Fetch implements Fetcher.
func (e *endpoint) Fetch(ctx context.Context, _ string, _ netguard.Request) (*netguard.Response, error) {
	e.mu.Lock()
	e.asked++
	n := e.asked
	e.mu.Unlock()
	select {
	case <-time.After(e.takes):
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	if e.err != nil {
		return nil, e.err
	}
	return &netguard.Response{Status: e.status, Body: []byte(e.body(n))}, nil
}

func (e *endpoint) count() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.asked
}

// grants is an endpoint whose tokens live so many seconds.
func grants(seconds int) *endpoint {
	return &endpoint{status: http.StatusOK, body: func(n int) string {
		return fmt.Sprintf(`{"access_token":"t%d","token_type":"bearer","expires_in":%d,"ext":{"a":[1]}}`, n, seconds)
	}}
}

func client(secret string) *registry.Credential {
	return &registry.Credential{Agent: "echo", Kind: registry.OAuth2, Name: "mesh", Secret: secret, Token: &registry.TokenRequest{URL: "https://login.example/token"}}
}

// inBubble runs a test on a set that asks e, in fake time.
func inBubble(t *testing.T, e *endpoint, run func(t *testing.T, set *Tokens)) {
	synctest.Test(t, func(t *testing.T) {
		set := New(Options{})
		set.fetcher = func(*registry.Credential) (Fetcher, error) { return e, nil }
		defer set.Close()
		run(t, set)
	})
}

func shown(t *testing.T, set *Tokens, c *registry.Credential) string {
	t.Helper()
	p, err := set.Present(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimPrefix(p.Value, "Bearer ")
}

// TestOneExchangeForAll: many who want a token at once cause one exchange, and
// one who leaves takes it from nobody.
func TestOneExchangeForAll(t *testing.T) {
	e := grants(3600)
	e.takes = time.Second
	inBubble(t, e, func(t *testing.T, set *Tokens) {
		c := client("s")
		impatient, leave := context.WithCancel(t.Context())
		var all sync.WaitGroup
		all.Go(func() {
			if _, err := set.Present(impatient, c); err == nil {
				t.Error("who had left got a token")
			}
		})
		for range 50 {
			all.Go(func() {
				if got := shown(t, set, c); got != "t1" {
					t.Errorf("token %q, want t1", got)
				}
			})
		}
		synctest.Wait()
		leave()
		all.Wait()
		if n := e.count(); n != 1 {
			t.Errorf("%d exchanges, want 1", n)
		}
	})
}

// TestRenewedAhead: a token is replaced before it ends, without anybody waiting,
// and never shown after its end.
func TestRenewedAhead(t *testing.T) {
	e := grants(100)
	inBubble(t, e, func(t *testing.T, set *Tokens) {
		c := client("s")
		shown(t, set, c)
		time.Sleep(60 * time.Second)
		if got := shown(t, set, c); got != "t1" || e.count() != 1 {
			t.Fatalf("at 60 of 100 s: %s after %d exchanges", got, e.count())
		}
		time.Sleep(33 * time.Second) // past 0.9 of its life
		e.takes = time.Second
		if got := shown(t, set, c); got != "t1" {
			t.Errorf("while the next one is fetched: %s, want the old one", got)
		}
		time.Sleep(2 * time.Second)
		if got := shown(t, set, c); got != "t2" || e.count() != 2 {
			t.Errorf("after that: %s and %d exchanges, want t2 and 2", got, e.count())
		}
		// An endpoint that fails meanwhile costs nothing until the token ends.
		time.Sleep(91 * time.Second)
		e.err = context.DeadlineExceeded
		if got := shown(t, set, c); got != "t2" {
			t.Errorf("with a failing endpoint: %s, want t2", got)
		}
		time.Sleep(10 * time.Second)
		if _, err := set.Present(t.Context(), c); parley.KindOf(err) != parley.Unavailable {
			t.Errorf("a token that has ended, and no other: %v", err)
		}
	})
}

// TestFailuresPause: a failing endpoint is asked ever more rarely, and again at
// once with another credential.
func TestFailuresPause(t *testing.T) {
	e := &endpoint{status: http.StatusUnauthorized, body: func(int) string { return `{"error":"invalid_client"}` }}
	inBubble(t, e, func(t *testing.T, set *Tokens) {
		for range 600 { // ten a second for a minute
			if _, err := set.Present(t.Context(), client("wrong")); err == nil {
				t.Fatal("a token came of nothing")
			}
			time.Sleep(100 * time.Millisecond)
		}
		if n := e.count(); n < 4 || n > 7 {
			t.Errorf("asked %d times in a minute, want 1, 2, 4, 8, 16 and 30 s apart", n)
		}
		*e = *grants(60)
		if got := shown(t, set, client("right")); got != "t1" {
			t.Errorf("with another secret: %s", got)
		}
	})
}

// TestRefusedTokens: a refused token is replaced once for all who hold it, and
// an agent that refuses every token cannot make the mesh hammer the endpoint.
func TestRefusedTokens(t *testing.T) {
	e := grants(3600)
	inBubble(t, e, func(t *testing.T, set *Tokens) {
		c := client("s")
		first, err := set.Present(t.Context(), c)
		if err != nil {
			t.Fatal(err)
		}
		for range 3 {
			if p, ok, err := set.Again(t.Context(), c, first); err != nil || !ok || p.Value != "Bearer t2" {
				t.Errorf("again: %q, %v, %v; want t2", p.Value, ok, err)
			}
		}
		before := e.count()
		for range 100 {
			p, err := set.Present(t.Context(), c)
			if err != nil {
				t.Fatal(err)
			}
			_, _, _ = set.Again(t.Context(), c, p) // it is about how often the endpoint is asked
		}
		if n := e.count() - before; n > renewalBurst {
			t.Errorf("100 refusals in a row caused %d exchanges", n)
		}
		if _, ok, _ := set.Again(t.Context(), &registry.Credential{Kind: registry.Bearer, Secret: "x"}, registry.Bearing("x")); ok {
			t.Error("a bearer token that was stored has no other")
		}
	})
}

// TestHostileAnswers: what an endpoint answers is bounded and judged, and
// neither it nor the secret is in the error.
func TestHostileAnswers(t *testing.T) {
	const secret = "s3cret-of-the-mesh"
	for _, test := range []struct {
		what   string
		status int
		body   string
		want   string
	}{
		{"no JSON", 200, "access_token=" + secret, "not the JSON of RFC 6749"},
		{"the same member twice", 200, `{"access_token":"a","access_token":"b","token_type":"bearer"}`, "not the JSON"},
		{"no token", 200, `{"token_type":"bearer"}`, "no access_token"},
		{"a header in the token", 200, `{"access_token":"a\r\nX-Evil: 1","token_type":"bearer"}`, "characters that no header may carry"},
		{"a token without end", 200, `{"access_token":"` + strings.Repeat("a", maxToken+1) + `","token_type":"bearer"}`, "longer than"},
		{"another type", 200, `{"access_token":"a","token_type":"DPoP"}`, "token_type is not Bearer"},
		{"a known error", 400, `{"error":"invalid_scope","error_description":"` + secret + `"}`, "HTTP 400 invalid_scope: check --scope"},
		{"an unknown error", 500, `{"error":"` + secret + `"}`, "answered HTTP 500"},
		{"a page", 503, `<html>` + secret, "answered HTTP 503"},
		{"success of another kind", 201, `{"access_token":"a","token_type":"bearer"}`, "answered HTTP 201"},
	} {
		e := &endpoint{status: test.status, body: func(int) string { return test.body }}
		inBubble(t, e, func(t *testing.T, set *Tokens) {
			_, err := set.Present(t.Context(), client(secret))
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("%s: %v, want %q", test.what, err, test.want)
			}
			if err != nil && strings.Contains(err.Error(), secret) {
				t.Errorf("%s: the error repeats the secret", test.what)
			}
			if got := parley.PublicMessage(err); strings.Contains(got, "login.example") || strings.Contains(got, "HTTP") {
				t.Errorf("%s: a caller is told %q", test.what, got)
			}
		})
	}
}

func TestLifeOf(t *testing.T) {
	for text, want := range map[string]time.Duration{
		"": defaultLife, "null": defaultLife, `"soon"`: defaultLife, "{}": defaultLife, "NaN": defaultLife,
		"3600": time.Hour, `"3600"`: time.Hour, "0": time.Second, "-5": time.Second, "1.5": 1500 * time.Millisecond,
		"1e300": maxLife, "Inf": maxLife,
	} {
		if got := lifeOf(text); got != want {
			t.Errorf("expires_in %s lives %v, want %v", text, got, want)
		}
	}
}

// TestRequest follows RFC 6749: id and secret are form-encoded before they are
// joined, or stand in the body, and never both.
func TestRequest(t *testing.T) {
	c := client("a:b+c%")
	c.Name = "mesh at home"
	r := request(c)
	if got, want := r.Header.Get("Authorization"), "Basic bWVzaCthdCtob21lOmElM0FiJTJCYyUyNQ=="; got != want {
		t.Errorf("Authorization %q, want %q", got, want)
	}
	if body := string(r.Body); body != "grant_type=client_credentials" {
		t.Errorf("body %q", body)
	}
	c.Token.Style, c.Token.Scopes, c.Token.Audience = registry.AuthPost, []string{"a", "b"}, "https://x"
	r = request(c)
	if got := r.Header.Get("Authorization"); got != "" {
		t.Errorf("with the style post there is an Authorization %q", got)
	}
	if body, want := string(r.Body), "audience=https%3A%2F%2Fx&client_id=mesh+at+home&client_secret=a%3Ab%2Bc%25&grant_type=client_credentials&scope=a+b"; body != want {
		t.Errorf("body %q, want %q", body, want)
	}
}
