package conformance

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"slices"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/parley-mesh/parley/internal/a2a/a2atest"
	"github.com/parley-mesh/parley/internal/a2a/cardsign"
	"github.com/parley-mesh/parley/internal/jsonwire"
	"github.com/parley-mesh/parley/internal/registry"
)

func signatureIsCanonical(t *testing.T, w *world) {
	v := w.another(t, Variant{Agent: signing(t, "")})
	raw, keys := v.signedCard(t)
	holds := func(what string, raw []byte, want bool) {
		t.Helper()
		got, err := cardsign.Verify(t.Context(), raw, keys)
		if err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		ok := slices.ContainsFunc(got.Valid, func(s cardsign.Signature) bool { return s.Form == cardsign.Presence })
		if ok != want || !want && len(got.Valid) > 0 {
			t.Errorf("%s: verified %+v\n%s", what, got, raw)
		}
	}
	holds("the card", raw, true)
	var members map[string]json.RawMessage
	if err := json.Unmarshal(raw, &members); err != nil {
		t.Fatal(err)
	}
	shuffled, err := json.MarshalIndent(members, "", "  ") // other order, other space
	if err != nil {
		t.Fatal(err)
	}
	holds("the card in another order", shuffled, true)
	members["name"] = json.RawMessage(`"Another"`)
	changed, err := json.Marshal(members)
	if err != nil {
		t.Fatal(err)
	}
	holds("the card under another name", changed, false)
}

func signatureNamesKey(t *testing.T, w *world) {
	v := w.another(t, Variant{Agent: signing(t, "")})
	raw, keys := v.signedCard(t)
	list, _ := jsonwire.Get(raw, "/signatures")
	all := jsonwire.Elements(list)
	if len(all) == 0 {
		t.Fatalf("the card is not signed: %s", raw)
	}
	for _, one := range all {
		protected, _ := jsonwire.Get(one, "/protected")
		header, err := base64.RawURLEncoding.DecodeString(jsonwire.String(protected))
		if err != nil {
			t.Fatal(err)
		}
		kid, _ := jsonwire.Get(header, "/kid")
		if found, err := keys.Keys(t.Context(), cardsign.Hint{KeyID: jsonwire.String(kid)}); err != nil || len(found) != 1 {
			t.Errorf("kid %s: %d keys, %v", kid, len(found), err)
		}
		for path, want := range map[string]string{"/alg": "ES256", "/typ": "JOSE"} {
			if got, _ := jsonwire.Get(header, path); jsonwire.String(got) != want {
				t.Errorf("%s is %s, want %s", path, got, want)
			}
		}
	}
}

func signatureIsVerified(t *testing.T, w *world) {
	for member, want := range map[string]registry.SignatureState{
		"":                         registry.Verified,
		`"exp":1`:                  registry.Unverified,
		`"revoked":{"reason":"x"}`: registry.Unverified,
		`"use":"enc"`:              registry.Unverified,
	} {
		v := w.another(t, Variant{Agent: signing(t, member)})
		got, err := v.Mesh.control.Agent(t.Context(), v.Name)
		if err != nil || got.Signature == nil || got.Signature.State != want {
			t.Errorf("with a key that says %s: %+v, %v; want %s", member, got.Signature, err, want)
		}
	}
}

// signing lets an agent sign its card; its key set says more of the key.
func signing(t *testing.T, more string) a2atest.Options {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	public, err := json.Marshal(jose.JSONWebKey{Key: key.Public(), KeyID: "author-1"})
	if err != nil {
		t.Fatal(err)
	}
	if more != "" {
		public = append(append(append(public[:len(public)-1], ','), more...), '}')
	}
	return a2atest.Options{
		Signer: &cardsign.Signer{KeyID: "author-1", Algorithm: "ES256", Private: key},
		Keys:   append(append([]byte(`{"keys":[`), public...), "]}"...),
	}
}

// signedCard is the target's card, and the key set at its origin.
func (w *world) signedCard(t *testing.T) ([]byte, cardsign.KeySet) {
	t.Helper()
	resp := w.fetchCard(t, http.MethodGet, nil)
	defer resp.Body.Close()
	card, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	at, err := url.Parse(w.URL)
	if err != nil {
		t.Fatal(err)
	}
	keys, err := http.Get(at.Scheme + "://" + at.Host + a2atest.KeySetPath)
	if err != nil {
		t.Fatal(err)
	}
	defer keys.Body.Close()
	raw, err := io.ReadAll(keys.Body)
	if err != nil {
		t.Fatal(err)
	}
	set, err := cardsign.ParseKeySet(raw, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	return card, set
}
