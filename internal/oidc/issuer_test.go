package oidc_test

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/hmac"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/parley-mesh/parley/internal/identity"
	"github.com/parley-mesh/parley/internal/netguard"
	"github.com/parley-mesh/parley/internal/oidc"
	"github.com/parley-mesh/parley/internal/parley"
)

const issuerID = "https://login.example/tenant"

// start is the time of every test's clock.
var start = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// keys are made once: RSA keys take their time.
var keys = sync.OnceValue(func() (k struct {
	rsa, other *rsa.PrivateKey
	small      *rsa.PrivateKey
	ec         *ecdsa.PrivateKey
	ed         ed25519.PrivateKey
}) {
	must := func(err error) {
		if err != nil {
			panic(err)
		}
	}
	var err error
	k.rsa, err = rsa.GenerateKey(rand.Reader, 2048)
	must(err)
	k.other, err = rsa.GenerateKey(rand.Reader, 2048)
	must(err)
	k.small, err = rsa.GenerateKey(rand.Reader, 1024)
	must(err)
	k.ec, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(err)
	_, k.ed, err = ed25519.GenerateKey(rand.Reader)
	must(err)
	return k
})

// world is an issuer as the mesh sees it: documents by address, and a clock.
type world struct {
	mu      sync.Mutex
	now     time.Time
	docs    map[string]string
	down    bool
	fetched map[string]int
}

const (
	metadataURL = issuerID + "/.well-known/openid-configuration"
	keysURL     = "https://login.example/keys"
)

func newWorld() *world {
	w := &world{now: start, docs: map[string]string{}, fetched: map[string]int{}}
	w.docs[metadataURL] = fmt.Sprintf(`{"issuer":%q,"jwks_uri":%q}`, issuerID, keysURL)
	w.publish("rsa-1")
	return w
}

// publish sets the key set: the keys of all kinds, with the RSA one under kid.
func (w *world) publish(kid string) {
	set := jose.JSONWebKeySet{Keys: []jose.JSONWebKey{
		{Key: keys().rsa.Public(), KeyID: kid, Use: "sig", Algorithm: "RS256"},
		{Key: keys().ec.Public(), KeyID: "ec-1", Use: "sig"},
		{Key: keys().ed.Public(), KeyID: "ed-1", Use: "sig", Algorithm: "EdDSA"},
		{Key: keys().small.Public(), KeyID: "small-1", Use: "sig"},
		{Key: keys().other.Public(), KeyID: "enc-1", Use: "enc"},
	}}
	raw, err := json.Marshal(set)
	if err != nil {
		panic(err)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.docs[keysURL] = string(raw)
}

func (w *world) set(f func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	f()
}

func (w *world) clock() time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.now
}

func (w *world) advance(d time.Duration) { w.set(func() { w.now = w.now.Add(d) }) }

func (w *world) count(url string) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.fetched[url]
}

// Fetch implements oidc.Fetcher.
func (w *world) Fetch(_ context.Context, url string, r netguard.Request) (*netguard.Response, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.fetched[url]++
	doc, ok := w.docs[url]
	if w.down || !ok {
		return nil, errors.New("nothing answers at " + url)
	}
	if int64(len(doc)) > r.MaxBody {
		return nil, errors.New("too large")
	}
	return &netguard.Response{Status: 200, Body: []byte(doc)}, nil
}

// verifier knows one issuer; change alters it.
func (w *world) verifier(change func(*oidc.Issuer)) *oidc.Verifier {
	one := oidc.Issuer{
		ID: issuerID, Audience: []string{"https://mesh.example", "mesh"}, Algorithms: []string{"RS256", "ES256", "EdDSA", "PS256"},
		Types: []string{"at+jwt"}, ClockSkew: 30 * time.Second, Refresh: 15 * time.Minute,
	}
	if change != nil {
		change(&one)
	}
	return oidc.New(oidc.Options{Issuers: []oidc.Issuer{one}, Fetch: w, Now: w.clock, Environment: parley.Staging})
}

type object = map[string]any

// claims are those of a good token, changed.
func claims(change object) object {
	c := object{"iss": issuerID, "sub": "s-1", "aud": "mesh", "exp": start.Add(time.Hour).Unix(), "iat": start.Unix(), "client_id": "c", "jti": "j"}
	for name, v := range change {
		if v == nil {
			delete(c, name)
		} else {
			c[name] = v
		}
	}
	return c
}

// header is that of a good token, changed.
func header(change object) object {
	h := object{"alg": "RS256", "kid": "rsa-1", "typ": "at+jwt"}
	for name, v := range change {
		if v == nil {
			delete(h, name)
		} else {
			h[name] = v
		}
	}
	return h
}

func encode(t testing.TB, v any) string {
	t.Helper()
	raw, ok := v.(string) // JSON as it is
	if !ok {
		b, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		raw = string(b)
	}
	return base64.RawURLEncoding.EncodeToString([]byte(raw))
}

// rs256 signs whatever it is given: go-jose would not make most of what is
// tested here.
func rs256(t testing.TB, key *rsa.PrivateKey, header, claims any) string {
	t.Helper()
	input := encode(t, header) + "." + encode(t, claims)
	sum := sha256.Sum256([]byte(input))
	sig, err := rsa.SignPKCS1v15(rand.Reader, key, crypto.SHA256, sum[:])
	if err != nil {
		t.Fatal(err)
	}
	return input + "." + base64.RawURLEncoding.EncodeToString(sig)
}

// hs256 signs with a secret, as somebody would who takes a public key for one.
func hs256(t testing.TB, secret []byte, header, claims any) string {
	t.Helper()
	input := encode(t, header) + "." + encode(t, claims)
	mac := hmac.New(sha256.New, secret)
	mac.Write([]byte(input))
	return input + "." + base64.RawURLEncoding.EncodeToString(mac.Sum(nil))
}

// signed is a token by go-jose, for algorithms that need more than a hash.
func signed(t testing.TB, alg jose.SignatureAlgorithm, key any, kid string, claims object) string {
	t.Helper()
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: alg, Key: jose.JSONWebKey{Key: key, KeyID: kid}}, (&jose.SignerOptions{}).WithType("at+jwt"))
	if err != nil {
		t.Fatal(err)
	}
	raw, err := json.Marshal(claims)
	if err != nil {
		t.Fatal(err)
	}
	object, err := signer.Sign(raw)
	if err != nil {
		t.Fatal(err)
	}
	token, err := object.CompactSerialize()
	if err != nil {
		t.Fatal(err)
	}
	return token
}

func good(t testing.TB) string { return rs256(t, keys().rsa, header(nil), claims(nil)) }

// reason is why err refuses a token; empty where it does not.
func reason(err error) identity.Reason {
	if r, ok := errors.AsType[*identity.Refusal](err); ok {
		return r.Reason
	}
	return ""
}

func wantReason(t *testing.T, what string, err error, want identity.Reason) {
	t.Helper()
	if got := reason(err); got != want {
		t.Errorf("%s: %v (reason %q), want %q", what, err, got, want)
	}
}
