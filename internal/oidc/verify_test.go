package oidc_test

import (
	"crypto/x509"
	"encoding/pem"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/parley-mesh/parley/internal/identity"
	"github.com/parley-mesh/parley/internal/oidc"
	"github.com/parley-mesh/parley/internal/parley"
)

func TestGoodTokens(t *testing.T) {
	v := newWorld().verifier(nil)
	for name, token := range map[string]string{
		"RS256":                          good(t),
		"ES256":                          signed(t, jose.ES256, keys().ec, "ec-1", claims(nil)),
		"EdDSA":                          signed(t, jose.EdDSA, keys().ed, "ed-1", claims(nil)),
		"one of several aud":             rs256(t, keys().rsa, header(nil), claims(object{"aud": []string{"other", "https://mesh.example"}})),
		"type in capitals":               rs256(t, keys().rsa, header(object{"typ": "application/AT+JWT"}), claims(nil)),
		"no key id, one key of the kind": rs256(t, keys().rsa, header(object{"kid": nil}), claims(nil)),
		"a little too late":              rs256(t, keys().rsa, header(nil), claims(object{"exp": start.Add(-29 * time.Second).Unix()})),
		"a little too early":             rs256(t, keys().rsa, header(nil), claims(object{"nbf": start.Add(29 * time.Second).Unix(), "iat": start.Add(29 * time.Second).Unix()})),
		"fractions":                      rs256(t, keys().rsa, header(nil), claims(object{"exp": float64(start.Unix()) + 60.5})),
		"keys of its own, not looked at": rs256(t, keys().rsa, header(object{"jku": "https://evil.example/keys", "x5u": "https://evil.example/c", "x5t": "AA"}), claims(nil)),
	} {
		a, err := v.Verify(t.Context(), token)
		if err != nil {
			t.Errorf("%s: %v", name, err)
		} else if a.Subject != "s-1" || a.Issuer != issuerID {
			t.Errorf("%s: it is %q of %q", name, a.Subject, a.Issuer)
		}
	}
}

// TestHostileTokens: each is refused for its own reason, and nothing but the
// issuer's own addresses is ever asked.
func TestHostileTokens(t *testing.T) {
	w := newWorld()
	v := w.verifier(nil)
	public, err := x509.MarshalPKIXPublicKey(keys().rsa.Public())
	if err != nil {
		t.Fatal(err)
	}
	publicPEM := pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: public})
	ours, h, c := keys().rsa, header, claims
	token := good(t)
	parts := strings.Split(token, ".")
	evilKey := jose.JSONWebKey{Key: keys().other.Public(), KeyID: "evil", Algorithm: "RS256"}
	for _, tc := range []struct {
		name, token string
		want        identity.Reason
	}{
		{"nothing", "", identity.ReasonToken},
		{"one part", "eyJhbGciOiJSUzI1NiJ9", identity.ReasonToken},
		{"encrypted: five parts", "eyJhbGciOiJSU0EtT0FFUCIsImVuYyI6IkEyNTZHQ00ifQ.a.b.c.d", identity.ReasonToken},
		{"detached: no payload", parts[0] + ".." + parts[2], identity.ReasonToken},
		{"no signature", parts[0] + "." + parts[1] + ".", identity.ReasonToken},
		{"JSON serialization", `{"payload":"` + parts[1] + `","protected":"` + parts[0] + `","signature":"` + parts[2] + `"}`, identity.ReasonToken},
		{"padded base64", parts[0] + "=." + parts[1] + "." + parts[2], identity.ReasonToken},
		{"a line break inside", parts[0] + "." + parts[1] + "\n." + parts[2], identity.ReasonToken},
		{"oversized", rs256(t, ours, h(nil), c(object{"fat": strings.Repeat("x", oidc.MaxToken)})), identity.ReasonToken},
		{"deep claims", rs256(t, ours, h(nil), `{"iss":"`+issuerID+`","x":`+strings.Repeat("[", 100)+strings.Repeat("]", 100)+`}`), identity.ReasonToken},
		{"header is a list", encode(t, `["RS256"]`) + "." + parts[1] + "." + parts[2], identity.ReasonToken},
		{"claims are a text", rs256(t, ours, h(nil), `"hello"`), identity.ReasonToken},
		{"a nested token", rs256(t, ours, h(object{"cty": "JWT"}), `"`+token+`"`), identity.ReasonToken},
		{"a nested token in an object", rs256(t, ours, h(object{"cty": "jwt"}), c(nil)), identity.ReasonToken},
		{"duplicate claim", rs256(t, ours, h(nil), `{"iss":"`+issuerID+`","sub":"s-1","sub":"root","aud":"mesh","exp":4000000000}`), identity.ReasonToken},
		{"duplicate claim, escaped", rs256(t, ours, h(nil), `{"iss":"`+issuerID+`","sub":"s-1","s\u0075b":"root","aud":"mesh","exp":4000000000}`), identity.ReasonToken},
		{"duplicate alg", rs256(t, ours, `{"alg":"RS256","alg":"none","kid":"rsa-1","typ":"at+jwt"}`, c(nil)), identity.ReasonToken},
		{"invalid UTF-8", rs256(t, ours, h(nil), "{\"iss\":\""+issuerID+"\",\"sub\":\"\xff\"}"), identity.ReasonToken},

		{"alg none", encode(t, h(object{"alg": "none"})) + "." + parts[1] + ".", identity.ReasonToken},
		{"alg none, with a signature", encode(t, h(object{"alg": "none"})) + "." + parts[1] + "." + parts[2], identity.ReasonToken},
		{"alg None", encode(t, h(object{"alg": "None"})) + "." + parts[1] + "." + parts[2], identity.ReasonToken},
		{"no alg", encode(t, h(object{"alg": nil})) + "." + parts[1] + "." + parts[2], identity.ReasonToken},
		{"HMAC with the public key", hs256(t, publicPEM, h(object{"alg": "HS256"}), c(nil)), identity.ReasonToken},
		{"an algorithm off the list", rs256(t, ours, h(object{"alg": "RS512"}), c(nil)), identity.ReasonToken},
		{"another algorithm's name for a key", rs256(t, ours, h(object{"alg": "PS256"}), c(nil)), identity.ReasonSignature},
		{"an algorithm of another kind of key", rs256(t, ours, h(object{"alg": "ES256"}), c(nil)), identity.ReasonSignature},

		{"somebody else's key", rs256(t, keys().other, h(nil), c(nil)), identity.ReasonSignature},
		{"a key of its own in jwk", rs256(t, keys().other, h(object{"jwk": evilKey}), c(nil)), identity.ReasonSignature},
		{"a key of its own behind jku", rs256(t, keys().other, h(object{"jku": "https://evil.example/keys", "kid": "evil"}), c(nil)), identity.ReasonSignature},
		{"a key of its own behind x5u", rs256(t, keys().other, h(object{"x5u": "https://evil.example/cert", "kid": "evil"}), c(nil)), identity.ReasonSignature},
		{"a key for encryption", rs256(t, keys().other, h(object{"kid": "enc-1"}), c(nil)), identity.ReasonSignature},
		{"a key that is too short", rs256(t, keys().small, h(object{"kid": "small-1"}), c(nil)), identity.ReasonSignature},
		{"other claims under the signature", parts[0] + "." + encode(t, c(object{"sub": "root"})) + "." + parts[2], identity.ReasonSignature},
		{"kid is a number", rs256(t, ours, `{"alg":"RS256","kid":1,"typ":"at+jwt"}`, c(nil)), identity.ReasonToken},
		{"kid is huge", rs256(t, ours, h(object{"kid": strings.Repeat("k", 600)}), c(nil)), identity.ReasonToken},
		{"kid is a path", rs256(t, ours, h(object{"kid": "../../etc/passwd"}), c(nil)), identity.ReasonSignature},

		{"crit", rs256(t, ours, h(object{"crit": []string{"exp"}}), c(nil)), identity.ReasonToken},
		{"crit, empty", rs256(t, ours, h(object{"crit": []string{}}), c(nil)), identity.ReasonToken},
		{"b64 false", rs256(t, ours, h(object{"b64": false, "crit": []string{"b64"}}), c(nil)), identity.ReasonToken},
		{"b64 false without crit", rs256(t, ours, h(object{"b64": false}), c(nil)), identity.ReasonToken},
		{"compressed", rs256(t, ours, h(object{"zip": "DEF"}), c(nil)), identity.ReasonToken},

		{"an ID token by its type", rs256(t, ours, h(object{"typ": "JWT"}), c(nil)), identity.ReasonToken},
		{"no type", rs256(t, ours, h(object{"typ": nil}), c(nil)), identity.ReasonToken},
		{"a proof of possession", rs256(t, ours, h(object{"typ": "dpop+jwt"}), c(nil)), identity.ReasonToken},
		{"an ID token by its claims", rs256(t, ours, h(nil), c(object{"at_hash": "x"})), identity.ReasonToken},
		{"a logout token", rs256(t, ours, h(nil), c(object{"events": object{"x": object{}}})), identity.ReasonToken},
		{"bound to a key", rs256(t, ours, h(nil), c(object{"cnf": object{"jkt": "x"}})), identity.ReasonToken},

		{"no issuer", rs256(t, ours, h(nil), c(object{"iss": nil})), identity.ReasonToken},
		{"another issuer", rs256(t, ours, h(nil), c(object{"iss": "https://evil.example"})), identity.ReasonIssuer},
		{"the issuer with a slash more", rs256(t, ours, h(nil), c(object{"iss": issuerID + "/"})), identity.ReasonIssuer},
		{"the issuer in capitals", rs256(t, ours, h(nil), c(object{"iss": strings.ToUpper(issuerID)})), identity.ReasonIssuer},
		{"the issuer in a list", rs256(t, ours, h(nil), c(object{"iss": []string{issuerID}})), identity.ReasonToken},
		{"another audience", rs256(t, ours, h(nil), c(object{"aud": "other"})), identity.ReasonAudience},
		{"no audience", rs256(t, ours, h(nil), c(object{"aud": nil})), identity.ReasonAudience},
		{"an audience that begins alike", rs256(t, ours, h(nil), c(object{"aud": "mesh2"})), identity.ReasonAudience},
		{"audiences of several kinds", rs256(t, ours, h(nil), c(object{"aud": []any{"mesh", 7}})), identity.ReasonAudience},
		{"expired", rs256(t, ours, h(nil), c(object{"exp": start.Add(-30 * time.Second).Unix()})), identity.ReasonTokenExpired},
		{"no expiry", rs256(t, ours, h(nil), c(object{"exp": nil})), identity.ReasonToken},
		{"expiry is a text", rs256(t, ours, h(nil), c(object{"exp": "4000000000"})), identity.ReasonToken},
		{"expiry is out of all bounds", rs256(t, ours, h(nil), `{"iss":"`+issuerID+`","sub":"s","aud":"mesh","exp":1e300}`), identity.ReasonToken},
		{"not yet valid", rs256(t, ours, h(nil), c(object{"nbf": start.Add(31 * time.Second).Unix()})), identity.ReasonTokenExpired},
		{"made in the future", rs256(t, ours, h(nil), c(object{"iat": start.Add(time.Hour).Unix()})), identity.ReasonTokenExpired},
		{"nbf is a text", rs256(t, ours, h(nil), c(object{"nbf": "0"})), identity.ReasonToken},
		{"no subject", rs256(t, ours, h(nil), c(object{"sub": nil})), identity.ReasonClaims},
		{"a subject of another kind", rs256(t, ours, h(nil), c(object{"sub": 7})), identity.ReasonClaims},
		{"a subject of many bytes", rs256(t, ours, h(nil), c(object{"sub": strings.Repeat("s", 600)})), identity.ReasonClaims},
	} {
		a, err := v.Verify(t.Context(), tc.token)
		if a != nil {
			t.Errorf("%s: verified as %+v", tc.name, a)
		}
		wantReason(t, tc.name, err, tc.want)
		if err != nil && strings.Contains(err.Error(), parts[2]) {
			t.Errorf("%s: the error repeats the token", tc.name)
		}
	}
	for url := range w.fetched {
		if url != metadataURL && url != keysURL {
			t.Errorf("%s was asked", url)
		}
	}
}

func TestScopesAreNeeded(t *testing.T) {
	v := newWorld().verifier(func(i *oidc.Issuer) { i.Scopes = []string{"call", "mesh"} })
	for _, tc := range []struct {
		claims object
		want   identity.Reason
	}{
		{object{"scope": "openid mesh call"}, ""},
		{object{"scp": []string{"call", "mesh"}}, ""},
		{object{"scope": "call"}, identity.ReasonScope},
		{object{"scope": "callmesh"}, identity.ReasonScope},
		{object{}, identity.ReasonScope},
	} {
		_, err := v.Verify(t.Context(), rs256(t, keys().rsa, header(nil), claims(tc.claims)))
		wantReason(t, "a token", err, tc.want)
	}
}

func TestClaimsAreMapped(t *testing.T) {
	mapping := func(i *oidc.Issuer) {
		i.Create, i.Roles = true, []parley.Role{}
		i.Claims = oidc.Claims{
			Name: "preferred_username", Owner: "department", OwnerMap: map[string]string{"R&D": "research", "Labs": "research", "Ops": "operations"},
			Environment: "stage", Roles: "/realm_access/roles", RoleMap: map[string]string{"platform-admins": "admin", "on-call": "operator"},
		}
	}
	full := object{"preferred_username": "Ada", "department": []string{"Labs", "unknown", "R&D"}, "stage": "prod", "realm_access": object{"roles": []string{"x", "on-call", "admin"}}}
	for _, tc := range []struct {
		name   string
		change func(*oidc.Issuer)
		claims object
		want   *identity.Assertion // nil: its owner or environment cannot be told
	}{
		{"all", nil, full, &identity.Assertion{Name: "Ada", Owner: "research", Environment: parley.Prod, Roles: []parley.Role{parley.RoleOperator}}},
		{"two owners", nil, object{"department": []string{"Labs", "Ops"}, "stage": "prod"}, nil},
		{"no owner", nil, object{"stage": "prod"}, nil},
		{"an owner that is not mapped", nil, object{"department": "default", "stage": "prod"}, nil},
		{"no owner, one by default", func(i *oidc.Issuer) { i.Owner = "guests" }, object{"stage": "test"}, &identity.Assertion{Name: "s-1", Owner: "guests", Environment: parley.Test}},
		{"no environment", nil, object{"department": "Ops"}, nil},
		{"an environment that does not exist", nil, object{"department": "Ops", "stage": "production"}, nil},
		{"nothing asked for", func(i *oidc.Issuer) { i.Claims, i.Roles = oidc.Claims{}, []parley.Role{parley.RoleOperator} }, full,
			&identity.Assertion{Name: "s-1", Owner: "default", Environment: parley.Staging, Roles: []parley.Role{parley.RoleOperator}}},
		{"roles as they are", func(i *oidc.Issuer) { i.Claims = oidc.Claims{Roles: "roles"} }, object{"roles": []string{"root", "admin", "admin"}},
			&identity.Assertion{Name: "s-1", Owner: "default", Environment: parley.Staging, Roles: []parley.Role{parley.RoleAdmin}}},
		{"linked subjects need no home", func(i *oidc.Issuer) { i.Create = false }, object{}, &identity.Assertion{Name: "s-1"}},
		{"a claim with dots and slashes", func(i *oidc.Issuer) { i.Claims = oidc.Claims{Roles: "https://x.example/roles"} }, object{"https://x.example/roles": "admin"},
			&identity.Assertion{Name: "s-1", Owner: "default", Environment: parley.Staging, Roles: []parley.Role{parley.RoleAdmin}}},
		{"a pointer to it", func(i *oidc.Issuer) { i.Claims = oidc.Claims{Roles: "/https:~1~1x.example~1roles"} }, object{"https://x.example/roles": "admin"},
			&identity.Assertion{Name: "s-1", Owner: "default", Environment: parley.Staging, Roles: []parley.Role{parley.RoleAdmin}}},
	} {
		v := newWorld().verifier(func(i *oidc.Issuer) {
			mapping(i)
			if tc.change != nil {
				tc.change(i)
			}
		})
		got, err := v.Verify(t.Context(), rs256(t, keys().rsa, header(nil), claims(tc.claims)))
		if tc.want == nil {
			if err != nil || got.Homeless == nil || got.Homeless.Reason != identity.ReasonClaims {
				t.Errorf("%s: %+v, %v, want an owner or environment that cannot be told", tc.name, got, err)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", tc.name, err)
			continue
		}
		tc.want.Issuer, tc.want.Subject, tc.want.ExpiresAt, tc.want.Create = issuerID, "s-1", got.ExpiresAt, got.Create
		if diff := cmp.Diff(tc.want, got, cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tc.name, diff)
		}
	}
}

// FuzzToken: whatever arrives, only what the issuer signed is verified, and
// nothing but the issuer's addresses is asked.
func FuzzToken(f *testing.F) {
	token := good(f)
	parts := strings.Split(token, ".")
	f.Add(token)
	f.Add(parts[0] + ".." + parts[2])
	f.Add(encode(f, `{"alg":"none"}`) + "." + parts[1] + ".")
	f.Add(encode(f, `{"alg":"RS256","kid":"x","crit":["b64"]}`) + "." + parts[1] + "." + parts[2])
	w := newWorld()
	v := w.verifier(nil)
	f.Fuzz(func(t *testing.T, text string) {
		a, err := v.Verify(t.Context(), text)
		if (a == nil) == (err == nil) {
			t.Fatalf("%q: %v beside %v", text, a, err)
		}
		if a != nil && text != token {
			t.Fatalf("%q is verified, and the issuer made only %q", text, token)
		}
		if err != nil && parley.KindOf(err) != parley.Unavailable && reason(err) == "" {
			t.Fatalf("%q: %v is neither a refusal nor about the issuer", text, err)
		}
		for url := range w.fetched {
			if url != metadataURL && url != keysURL {
				t.Fatalf("%q: %s was asked", text, url)
			}
		}
	})
}
