package conformance

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/parley-mesh/parley/internal/config"
)

// neededScope is what a mesh of the kind scoped asks of every token.
const neededScope = "tasks:write"

// issuer signs access tokens for a mesh of the kind scoped.
type issuer struct {
	url string
	key *ecdsa.PrivateKey
}

const issuerKey, issuerAudience = "key-1", "mesh"

// newIssuer starts an issuer with its documents; it ends with t.
func newIssuer(t *testing.T) *issuer {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	i := &issuer{key: key}
	serve := func(document func() any) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			_ = json.NewEncoder(w).Encode(document()) // a reader that has left
		}
	}
	mux := http.NewServeMux()
	mux.HandleFunc("/.well-known/openid-configuration", serve(func() any { return obj{"issuer": i.url, "jwks_uri": i.url + "/keys"} }))
	mux.HandleFunc("/keys", serve(func() any {
		return jose.JSONWebKeySet{Keys: []jose.JSONWebKey{{Key: key.Public(), KeyID: issuerKey, Use: "sig", Algorithm: string(jose.ES256)}}}
	}))
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	i.url = server.URL
	return i
}

// configured is the issuer as the configuration of a mesh names it.
func (i *issuer) configured() config.Issuer {
	return config.Issuer{
		Issuer: i.url, Audience: []string{issuerAudience}, Algorithms: []string{string(jose.ES256)}, AcceptTyp: []string{"at+jwt"},
		RequiredScopes: []string{neededScope}, ClockSkew: time.Minute, JWKSRefresh: time.Hour, Principals: config.AdmitCreate, Owner: "default",
	}
}

// token is the Authorization of a subject that was given these scopes.
func (i *issuer) token(t *testing.T, subject, scopes string) string {
	t.Helper()
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.ES256, Key: jose.JSONWebKey{Key: i.key, KeyID: issuerKey}},
		(&jose.SignerOptions{}).WithType("at+jwt"))
	if err != nil {
		t.Fatal(err)
	}
	claims, err := json.Marshal(obj{
		"iss": i.url, "aud": issuerAudience, "sub": subject, "client_id": "conformance", "jti": subject, "scope": scopes,
		"iat": time.Now().Unix(), "exp": time.Now().Add(time.Hour).Unix(),
	})
	if err != nil {
		t.Fatal(err)
	}
	signed, err := signer.Sign(claims)
	if err != nil {
		t.Fatal(err)
	}
	text, err := signed.CompactSerialize()
	if err != nil {
		t.Fatal(err)
	}
	return "Bearer " + text
}
