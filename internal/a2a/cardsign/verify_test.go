package cardsign

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
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"flag"
	"fmt"
	"math/big"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/parley-mesh/parley/internal/jsonwire"
)

var update = flag.Bool("update", false, "write the golden files anew")

const card = `{"name":"A","description":"Does.","version":"1","x-more":{"a":""},"capabilities":{"streaming":true},"skills":[],` +
	`"securitySchemes":{"b":{"httpAuthSecurityScheme":{"scheme":"Bearer"}}}}`

// fixedKey is the same key in every run: its signatures need no randomness.
func fixedKey(t testing.TB) *ecdsa.PrivateKey {
	t.Helper()
	d := sha256.Sum256([]byte("a key for tests"))
	key, err := ecdsa.ParseRawPrivateKey(elliptic.P256(), d[:])
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func signerOf(t testing.TB) (*Signer, KeySet) {
	t.Helper()
	key := fixedKey(t)
	return &Signer{KeyID: "k", Algorithm: "ES256", Private: key, JKU: "https://a.example/keys"},
		KeySet{{Key: key.Public(), KeyID: "k"}}
}

func encode(b []byte) string { return base64.RawURLEncoding.EncodeToString(b) }

// with puts a signature with any protected header over the card in the form
// Presence.
func with(t testing.TB, raw, protected string, sign func(input []byte) []byte) []byte {
	t.Helper()
	payload, err := Canonical([]byte(raw), Presence)
	if err != nil {
		t.Fatal(err)
	}
	p := encode([]byte(protected))
	one := fmt.Sprintf(`[{"protected":%q,"signature":%q,"header":{"kid":"other","alg":"none","jku":"https://evil.example"}}]`, p, encode(sign(signingInput(p, payload))))
	signed, err := jsonwire.Set([]byte(raw), "/signatures", []byte(one))
	if err != nil {
		t.Fatal(err)
	}
	return signed
}

func verify(t testing.TB, raw []byte, keys KeySource) *Verdict {
	t.Helper()
	v, err := Verify(t.Context(), raw, keys)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func TestSignedCardHolds(t *testing.T) {
	s, keys := signerOf(t)
	signed, err := s.Sign([]byte(card))
	if err != nil {
		t.Fatal(err)
	}
	v := verify(t, signed, keys)
	forms := map[Form]bool{}
	for _, one := range v.Valid {
		forms[one.Form] = true
		if one.KeyID != "k" || one.JKU != s.JKU || one.Algorithm != "ES256" || one.Thumbprint == "" {
			t.Errorf("signed by %+v", one)
		}
	}
	if v.Count != 3 || len(v.Valid) != 3 || len(forms) != 3 || len(v.Problems) != 0 {
		t.Errorf("verified %+v; want one signature for each of presence, model and schemeless", v)
	}
	if by := v.Signers(); len(by) != 1 || by[0].Form != Presence {
		t.Errorf("signed by %+v, want the one key and what covers most", by)
	}
	again, err := s.Sign([]byte(card))
	if err != nil || string(again) != string(signed) {
		t.Errorf("signed again it differs: %v", err)
	}
	rest, err := jsonwire.Delete(signed, "/signatures")
	if err != nil || string(rest) != card {
		t.Errorf("the card became %s", rest)
	}
	_, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	second, err := (&Signer{KeyID: "e", Algorithm: "EdDSA", Private: private}).Sign(signed)
	if err != nil {
		t.Fatal(err)
	}
	if v := verify(t, second, append(keys, jose.JSONWebKey{Key: private.Public(), KeyID: "e"})); len(v.Valid) != 6 {
		t.Errorf("a second signer's: %+v", v)
	}
	if v := verify(t, second, keys); len(v.Valid) != 3 || !v.Keyless || len(v.Problems) != 3 {
		t.Errorf("a second signer who is not known: %+v", v)
	}
}

// TestGolden: what was signed once holds for ever, and is signed so again.
func TestGolden(t *testing.T) {
	s, keys := signerOf(t)
	signed, err := s.Sign([]byte(card))
	if err != nil {
		t.Fatal(err)
	}
	if *update {
		if err := os.WriteFile("testdata/signed.json", append(signed, '\n'), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile("testdata/signed.json")
	if err != nil {
		t.Fatal(err)
	}
	if string(want) != string(signed)+"\n" {
		t.Errorf("signed\n%s\nwant\n%s", signed, want)
	}
	if v := verify(t, want, keys); len(v.Valid) != v.Count || v.Count == 0 {
		t.Errorf("verified %+v", v)
	}
}

func TestChangedCardDoesNotHold(t *testing.T) {
	s, keys := signerOf(t)
	signed, err := s.Sign([]byte(card))
	if err != nil {
		t.Fatal(err)
	}
	for path, value := range map[string]string{
		"/name": `"B"`, "/capabilities/streaming": `false`, "/skills": `[{"id":"s","name":"S","description":"","tags":[]}]`, "/version": `""`,
		"/provider": `{"url":"https://evil.example","organization":"x"}`, "/iconUrl": `"https://evil.example/i"`,
	} {
		changed, err := jsonwire.Set(signed, path, []byte(value))
		if err != nil {
			t.Fatal(err)
		}
		if v := verify(t, changed, keys); len(v.Valid) != 0 || v.Keyless {
			t.Errorf("with another %s it holds: %+v", path, v)
		}
	}
	// A member that the protocol does not know is covered by one of the forms, and
	// the others say so.
	changed, err := jsonwire.Set(signed, "/x-more", []byte(`1`))
	if err != nil {
		t.Fatal(err)
	}
	for _, one := range verify(t, changed, keys).Valid {
		if one.Form == Presence || one.Form == Stripped {
			t.Errorf("with another unknown member it holds by %s", one.Form)
		}
	}
}

// What a stranger can write into a header, and what is made of it.
func TestHostileSignatures(t *testing.T) {
	key := fixedKey(t)
	s, keys := signerOf(t)
	ecdsaSign := func(input []byte) []byte {
		signature, err := s.sign(input)
		if err != nil {
			t.Fatal(err)
		}
		return signature
	}
	if v := verify(t, with(t, card, `{"alg":"ES256","kid":"k"}`, ecdsaSign), keys); len(v.Valid) != 1 || v.Valid[0].KeyID != "k" || v.Valid[0].JKU != "" {
		t.Fatalf("the plain case: %+v", v)
	}
	public, err := x509.MarshalPKIXPublicKey(key.Public())
	if err != nil {
		t.Fatal(err)
	}
	jwk, err := json.Marshal(jose.JSONWebKey{Key: key.Public()})
	if err != nil {
		t.Fatal(err)
	}
	weak, err := rsa.GenerateKey(rand.Reader, 1024)
	if err != nil {
		t.Fatal(err)
	}
	hmacSign := func(secret []byte) func([]byte) []byte {
		return func(input []byte) []byte { h := hmac.New(sha256.New, secret); h.Write(input); return h.Sum(nil) }
	}
	for _, test := range []struct {
		name, protected string
		sign            func([]byte) []byte
		keys            KeySet
		says            string
	}{
		{"no algorithm", `{"alg":"none","kid":"k"}`, func([]byte) []byte { return []byte("x") }, nil, `algorithm "none"`},
		{"the public key as a secret", `{"alg":"HS256","kid":"k"}`, hmacSign(public), nil, `algorithm "HS256"`},
		{"the JWK as a secret", `{"alg":"HS256","kid":"k"}`, hmacSign(jwk), nil, `algorithm "HS256"`},
		{"a symmetric key in the set", `{"alg":"HS256","kid":"k"}`, hmacSign([]byte("s")), KeySet{{Key: []byte("s"), KeyID: "k"}}, `algorithm "HS256"`},
		{"its own key", `{"alg":"ES256","kid":"k","jwk":` + string(jwk) + `}`, ecdsaSign, nil, "its own key (jwk)"},
		{"its own certificate", `{"alg":"ES256","kid":"k","x5c":["MII"]}`, ecdsaSign, nil, "its own key (x5c)"},
		{"a certificate elsewhere", `{"alg":"ES256","kid":"k","x5u":"https://evil.example"}`, ecdsaSign, nil, "its own key (x5u)"},
		{"a demand", `{"alg":"ES256","kid":"k","crit":["exp"],"exp":1}`, ecdsaSign, nil, "the extension crit"},
		{"a payload as it is", `{"alg":"ES256","kid":"k","b64":false}`, ecdsaSign, nil, "the extension b64"},
		{"the token of another purpose", `{"alg":"ES256","kid":"k","typ":"at+jwt"}`, ecdsaSign, nil, `of type "at+jwt"`},
		{"a name twice", `{"alg":"ES256","kid":"k","alg":"ES256"}`, ecdsaSign, nil, "unique names"},
		{"no key", `{"alg":"ES256"}`, ecdsaSign, nil, "names no key"},
		{"a key of another name", `{"alg":"ES256","kid":"other"}`, ecdsaSign, nil, `no key for kid "other"`},
		{"a key that is a number", `{"alg":"ES256","kid":1}`, ecdsaSign, nil, "names no key"},
		{"an algorithm that the key is not for", `{"alg":"ES384","kid":"k"}`, ecdsaSign, nil, "one for ES384"},
		{"an algorithm that its set forbids", `{"alg":"ES256","kid":"k"}`, ecdsaSign, KeySet{{Key: key.Public(), KeyID: "k", Algorithm: "ES512"}}, "one for ES256"},
		{"a weak key", `{"alg":"RS256","kid":"k"}`, func(input []byte) []byte {
			digest := sha256.Sum256(input)
			signature, err := rsa.SignPKCS1v15(rand.Reader, weak, crypto.SHA256, digest[:])
			if err != nil {
				t.Skip("no weak keys here:", err)
			}
			return signature
		}, KeySet{{Key: weak.Public(), KeyID: "k"}}, "one for RS256"},
		{"a signature in DER", `{"alg":"ES256","kid":"k"}`, func(input []byte) []byte {
			digest := sha256.Sum256(input)
			der, err := key.Sign(rand.Reader, digest[:], crypto.SHA256)
			if err != nil {
				t.Fatal(err)
			}
			return der
		}, nil, "does not hold"},
		{"zeros", `{"alg":"ES256","kid":"k"}`, func([]byte) []byte { return make([]byte, 64) }, nil, "does not hold"},
		{"r and s at the order of the curve", `{"alg":"ES256","kid":"k"}`, func([]byte) []byte {
			n := new(big.Int).Set(elliptic.P256().Params().N)
			return append(n.FillBytes(make([]byte, 32)), n.FillBytes(make([]byte, 32))...)
		}, nil, "does not hold"},
		{"a huge header", `{"alg":"ES256","kid":"k","x":"` + strings.Repeat("a", 10_000) + `"}`, ecdsaSign, nil, "too long"},
		{"a deep header", `{"alg":"ES256","kid":"k","x":` + strings.Repeat("[", 20) + strings.Repeat("]", 20) + `}`, ecdsaSign, nil, "protected is no JSON object"},
		{"no header", `[]`, ecdsaSign, nil, "protected is no JSON object"},
	} {
		t.Run(test.name, func(t *testing.T) {
			use := test.keys
			if use == nil {
				use = keys
			}
			v := verify(t, with(t, card, test.protected, test.sign), use)
			if len(v.Valid) != 0 || len(v.Problems) != 1 || !strings.Contains(v.Problems[0], test.says) {
				t.Errorf("verified %+v; want a problem with %q", v, test.says)
			}
		})
	}
}

// counting notes how often keys are asked for.
type counting struct {
	KeySource
	asked int
}

func (c *counting) Keys(ctx context.Context, h Hint) ([]jose.JSONWebKey, error) {
	c.asked++
	return c.KeySource.Keys(ctx, h)
}

func TestManySignatures(t *testing.T) {
	s, keys := signerOf(t)
	signed, err := s.Sign([]byte(`{"name":"A"}`))
	if err != nil {
		t.Fatal(err)
	}
	list, _ := jsonwire.Get(signed, "/signatures")
	one := strings.Trim(string(list), "[]")
	for _, n := range []int{MaxSignatures, MaxSignatures + 1, 1000} {
		many, err := jsonwire.Set(signed, "/signatures", []byte("["+strings.Repeat(one+",", n-1)+one+"]"))
		if err != nil {
			t.Fatal(err)
		}
		source := &counting{KeySource: keys}
		v := verify(t, many, source)
		if within := n <= MaxSignatures; within != (len(v.Valid) == n) || !within && (source.asked != 0 || v.Keyless) || v.Count != n {
			t.Errorf("%d signatures: %d hold, keys were asked for %d times", n, len(v.Valid), source.asked)
		}
	}
	for _, odd := range []string{`{}`, `"x"`, `[1]`, `[{"protected":"x"}]`, `[{"protected":"e30","signature":"="}]`, `[{"protected":"e30=","signature":"x"}]`} {
		raw, err := jsonwire.Set(signed, "/signatures", []byte(odd))
		if err != nil {
			t.Fatal(err)
		}
		if v, err := Verify(t.Context(), raw, keys); err == nil && (len(v.Valid) > 0 || v.Keyless) {
			t.Errorf("signatures %s: %+v", odd, v)
		}
	}
}

func TestKeySets(t *testing.T) {
	now := time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)
	key, err := json.Marshal(jose.JSONWebKey{Key: fixedKey(t).Public(), KeyID: "k"})
	if err != nil {
		t.Fatal(err)
	}
	private, err := json.Marshal(jose.JSONWebKey{Key: fixedKey(t), KeyID: "k"})
	if err != nil {
		t.Fatal(err)
	}
	withMember := func(member string) string {
		return `{"keys":[` + strings.TrimSuffix(string(key), "}") + "," + member + "}]}"
	}
	for _, test := range []struct {
		name, set string
		keys      int // -1: refused
	}{
		{"one", `{"keys":[` + string(key) + `]}`, 1},
		{"a key alone", string(key), 1},
		{"none", `{"keys":[]}`, 0},
		{"one for encryption", withMember(`"use":"enc"`), 0},
		{"one that signs only", withMember(`"key_ops":["sign"]`), 0},
		{"one that verifies", withMember(`"key_ops":["verify"]`), 1},
		{"one that has ended", withMember(fmt.Sprintf(`"exp":%d`, now.Unix())), 0},
		{"one that ends later", withMember(fmt.Sprintf(`"exp":%d`, now.Unix()+1)), 1},
		{"one that has not begun", withMember(fmt.Sprintf(`"nbf":%d`, now.Unix()+1)), 0},
		{"one with an odd end", withMember(`"exp":"never"`), 0},
		{"one that is revoked", withMember(`"revoked":{"revoked_at":1}`), 0},
		{"a private one", `{"keys":[` + string(private) + `]}`, 0},
		{"a symmetric one", `{"keys":[{"kty":"oct","k":"AAAA","kid":"k"}]}`, 0},
		{"one of an unknown kind beside one that is known", `{"keys":[{"kty":"MOON"},` + string(key) + `]}`, 1},
		{"a point that is not on the curve", `{"keys":[{"kty":"EC","crv":"P-256","x":"AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA","y":"AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAE","kid":"k"}]}`, 0},
		{"too many", `{"keys":[` + strings.Repeat(string(key)+",", 100) + string(key) + `]}`, -1},
		{"too large", `{"keys":[],"x":"` + strings.Repeat("a", MaxKeySetBytes) + `"}`, -1},
		{"a name twice", `{"keys":[],"keys":[` + string(key) + `]}`, -1},
		{"no set", `{"name":"A"}`, -1},
		{"a page", `<html>`, -1},
	} {
		set, err := ParseKeySet([]byte(test.set), now)
		if got := len(set); (err != nil) != (test.keys < 0) || err == nil && got != test.keys {
			t.Errorf("%s: %d keys, %v; want %d", test.name, got, err, test.keys)
		}
	}
}

// Whatever card it is: nothing holds that the key has not signed, and what it has
// signed does.
func FuzzVerify(f *testing.F) {
	s, keys := signerOf(f)
	signed, err := s.Sign([]byte(card))
	if err != nil {
		f.Fatal(err)
	}
	f.Add([]byte(card))
	f.Add(signed)
	f.Add([]byte(`{"signatures":[{"protected":"eyJhbGciOiJub25lIn0","signature":"eA"}]}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		if v, err := Verify(t.Context(), raw, keys); err == nil {
			for _, one := range v.Valid {
				ours, err := Canonical([]byte(card), one.Form)
				if err != nil {
					t.Fatal(err)
				}
				theirs, err := Canonical(raw, one.Form)
				if err != nil || string(ours) != string(theirs) {
					t.Errorf("%q holds by %s and was not signed", raw, one.Form)
				}
			}
		}
		bare, err := jsonwire.Delete(raw, "/signatures")
		if err != nil {
			return
		}
		mine, err := s.Sign(bare)
		if err != nil {
			return
		}
		if v, err := Verify(t.Context(), mine, keys); err != nil || len(v.Valid) != v.Count || v.Count == 0 {
			t.Errorf("%q signed does not hold: %+v, %v", bare, v, err)
		}
	})
}
