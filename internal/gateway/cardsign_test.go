package gateway_test

import (
	"crypto/sha256"
	"encoding/hex"
	"io"
	"net/http"
	"testing"
	"time"

	"github.com/parley-mesh/parley/internal/a2a/cardsign"
	"github.com/parley-mesh/parley/internal/jsonwire"
)

// fetched is a document of the mesh with its ETag.
func fetched(t *testing.T, address string) (raw []byte, tag string) {
	t.Helper()
	resp, err := http.Get(address)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if raw, err = io.ReadAll(resp.Body); err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("%s: %s, %v", address, resp.Status, err)
	}
	return raw, resp.Header.Get("ETag")
}

// TestServedCardIsSigned: whoever has the card and the set of keys that it names
// can tell that the mesh made it, and where it comes from.
func TestServedCardIsSigned(t *testing.T) {
	m, agent := start(t, nil)
	raw, tag := fetched(t, m.URL("agent")+".well-known/agent-card.json")
	keys, _ := fetched(t, m.Ready.Public+"/.well-known/jwks.json")
	set, err := cardsign.ParseKeySet(keys, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	v, err := cardsign.Verify(t.Context(), raw, set)
	if err != nil || len(v.Problems) > 0 || len(v.Valid) == 0 {
		t.Fatalf("verified: %+v, %v\n%s", v, err, raw)
	}
	for _, s := range v.Valid {
		if s.KeyID != s.Thumbprint || s.JKU != m.Ready.Public+"/.well-known/jwks.json" || s.Algorithm != "ES256" {
			t.Errorf("signed by %+v", s)
		}
	}
	if again, second := fetched(t, m.URL("agent")+".well-known/agent-card.json"); second != tag || string(again) != string(raw) {
		t.Error("the same card differs from one fetch to the next")
	}
	own, _ := fetched(t, agent.URL+".well-known/agent-card.json")
	sum := sha256.Sum256(own)
	want := map[string]string{"mesh": m.Ready.Mesh, "meshUrl": m.Ready.Public + "/", "cardSha256": hex.EncodeToString(sum[:]), "signature": "unsigned"}
	extensions, _ := jsonwire.Get(raw, "/capabilities/extensions")
	for _, x := range jsonwire.Elements(extensions) {
		if uri, _ := jsonwire.Get(x, "/uri"); jsonwire.String(uri) != "https://parley.invalid/ext/provenance/v1" {
			continue
		}
		for name, value := range want {
			if got, _ := jsonwire.Get(x, "/params/"+name); jsonwire.String(got) != value {
				t.Errorf("provenance says %s is %s, want %s", name, got, value)
			}
		}
		want = nil
	}
	if want != nil {
		t.Errorf("the card does not tell where it comes from: %s", extensions)
	}
}
