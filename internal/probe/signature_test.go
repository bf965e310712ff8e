package probe_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/parley-mesh/parley/internal/a2a/cardsign"
	"github.com/parley-mesh/parley/internal/netguard"
	"github.com/parley-mesh/parley/internal/probe"
	"github.com/parley-mesh/parley/internal/registry"
)

// author signs cards.
type author struct {
	signer cardsign.Signer
	keys   []byte // its key set
}

func newAuthor(t *testing.T, kid, jku string) author {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	set, err := json.Marshal(jose.JSONWebKeySet{Keys: []jose.JSONWebKey{{Key: key.Public(), KeyID: kid, Algorithm: "ES256", Use: "sig"}}})
	if err != nil {
		t.Fatal(err)
	}
	return author{cardsign.Signer{KeyID: kid, JKU: jku, Algorithm: "ES256", Private: key}, set}
}

func (a author) sign(t *testing.T, card string) string {
	t.Helper()
	signed, err := a.signer.Sign([]byte(card))
	if err != nil {
		t.Fatal(err)
	}
	return string(signed)
}

func TestSignedCard(t *testing.T) {
	a := newAgent(t)
	bare := cardOf("", rpc(a.URL+"/rpc"))
	for place, jku := range map[string]string{"/.well-known/jwks.json": "", "/keys?x=1": a.URL + "/keys?x=1"} {
		by := newAuthor(t, "k"+place, jku)
		a.mux.HandleFunc(strings.TrimSuffix(place, "?x=1"), func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(by.keys) })
		a.card = by.sign(t, bare)
		in, _, text := look(t, loopback(), registry.InspectRequest{URL: a.URL})
		if s := in.Signature; text != "" || s.State != registry.Verified || len(s.Keys) != 1 || s.Keys[0].KeyID != "k"+place || s.Keys[0].Form != "presence" || s.Keys[0].Thumbprint == "" {
			t.Errorf("keys at %s: %+v, %s", place, s, text)
		}
		a.card = strings.Replace(a.card, "says it again", "says another thing", 1)
		in, _, text = look(t, loopback(), registry.InspectRequest{URL: a.URL})
		if text != "" || in.Signature.State != registry.Wrong || !strings.Contains(lines(in, registry.Warning), "signatures: no signature of the card holds") {
			t.Errorf("changed: %+v, %s\n%s", in.Signature, text, lines(in, registry.Warning))
		}
	}
	a.card = bare
	if in, _, _ := look(t, loopback(), registry.InspectRequest{URL: a.URL}); in.Signature.State != registry.Unsigned {
		t.Errorf("without a signature: %+v", in.Signature)
	}
}

// TestKeySetsThatAreNotAsked: a card names where its keys are, and must not make
// the mesh reach anywhere by that.
func TestKeySetsThatAreNotAsked(t *testing.T) {
	for name, jku := range map[string]string{
		"another origin":           "https://evil.example/keys",
		"another port":             "https://example.com:8443/keys",
		"in plain":                 "http://example.com/keys",
		"a private address":        "https://10.0.0.1/keys",
		"this machine":             "https://127.0.0.1/keys",
		"an odd spelling":          "https://2130706433/keys",
		"a name that leads inside": "https://inside.example/keys",
		"the cloud's own":          "http://169.254.169.254/latest",
		"a file":                   "file:///etc/passwd",
		"a user name":              "https://example.com@evil.example/keys",
		"with a password":          "https://u:p@example.com/keys",
		"nothing":                  "keys",
		"another text":             "https://example.com\\@evil.example/",
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld()
			w.Resolve("inside.example", "10.9.9.9")
			w.Resolve("evil.example", "1.1.1.2")
			by := newAuthor(t, "k", jku)
			card := by.sign(t, cardOf("", rpc("https://example.com/rpc")))
			rpcHandler, _ := stock(t)
			w.site(t, http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
				switch r.URL.Path {
				case "/rpc":
					rpcHandler.ServeHTTP(rw, r)
				case "/card":
					fmt.Fprint(rw, card)
				default:
					t.Errorf("asked for %s", r.URL)
				}
			}))
			in, _, text := look(t, w.inspector(), registry.InspectRequest{URL: "https://example.com/card"})
			if text != "" || in.Signature.State != registry.Unverified || in.Signature.Problem == "" {
				t.Errorf("%+v, %s", in.Signature, text)
			}
			for _, addr := range w.Permitted() {
				if addr.String() != "1.1.1.1:443" {
					t.Errorf("dialled %v", addr)
				}
			}
		})
	}
}

// TestKeySetsOfStrangers: whatever a key set's address answers, the look ends and
// nothing is taken for a key.
func TestKeySetsOfStrangers(t *testing.T) {
	by, other := newAuthor(t, "k", ""), newAuthor(t, "k", "")
	for _, test := range []struct {
		name   string
		answer http.HandlerFunc
		state  registry.SignatureState
	}{
		{"nothing there", http.NotFound, registry.Unverified},
		{"a redirect to the keys", func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/elsewhere", http.StatusFound) }, registry.Unverified},
		{"a page", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "<html>") }, registry.Unverified},
		{"too much", func(w http.ResponseWriter, _ *http.Request) {
			_, _ = w.Write(append([]byte(`{"x":"`+strings.Repeat("a", cardsign.MaxKeySetBytes)+`",`), by.keys[1:]...))
		}, registry.Unverified},
		{"compressed", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Encoding", "gzip")
			_, _ = w.Write(by.keys)
		}, registry.Unverified},
		{"a server in trouble", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(500); _, _ = w.Write(by.keys) }, registry.Unverified},
		{"another key of that name", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(other.keys) }, registry.Wrong},
		{"the key", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(by.keys) }, registry.Verified},
	} {
		t.Run(test.name, func(t *testing.T) {
			a := newAgent(t)
			a.card = by.sign(t, cardOf("", rpc(a.URL+"/rpc")))
			a.mux.HandleFunc("/.well-known/jwks.json", test.answer)
			a.mux.HandleFunc("/elsewhere", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(by.keys) })
			in, _, text := look(t, loopback(), registry.InspectRequest{URL: a.URL})
			if text != "" || in.Signature.State != test.state {
				t.Errorf("%+v, %s; want %s", in.Signature, text, test.state)
			}
		})
	}
}

// TestPinnedProvider: an origin that the operator named has keys of any agent.
func TestPinnedProvider(t *testing.T) {
	asked := 0
	var by author
	provider := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { asked++; _, _ = w.Write(by.keys) }))
	t.Cleanup(provider.Close)
	by = newAuthor(t, "k", provider.URL+"/keys")
	a := newAgent(t)
	a.card = by.sign(t, cardOf("", rpc(a.URL+"/rpc")))
	now := time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)
	i := probe.New(loopbackGuard(), probe.Options{KeyProviders: []string{provider.URL}, Now: func() time.Time { return now }})
	want := func(state registry.SignatureState, fetches int, r registry.InspectRequest) {
		t.Helper()
		r.URL = a.URL
		if in, _, text := look(t, i, r); text != "" || in.Signature.State != state || asked != fetches {
			t.Errorf("%+v, %s, after %d fetches; want %s after %d", in.Signature, text, asked, state, fetches)
		}
	}
	want(registry.Verified, 1, registry.InspectRequest{})
	want(registry.Verified, 1, registry.InspectRequest{}) // from memory
	// The provider takes the key back, and another of its cards names one that it
	// does not have: that is asked for once in a minute.
	kept := by
	by = newAuthor(t, "later", provider.URL+"/keys")
	now = now.Add(6 * time.Minute)
	a.card = kept.sign(t, cardOf("", rpc(a.URL+"/rpc")))
	pins := registry.InspectRequest{Pins: []registry.Pin{{CardKey: registry.CardKey{KeyID: "k"}}}}
	want(registry.Withdrawn, 2, pins)
	want(registry.Unverified, 2, registry.InspectRequest{})
	now = now.Add(time.Minute)
	want(registry.Withdrawn, 3, pins)
}

// The set must come over a connection that proves its host, as the card does.
func TestKeySetOverTLS(t *testing.T) {
	w := newWorld()
	by := newAuthor(t, "k", "https://example.com/keys")
	card := by.sign(t, cardOf("", rpc("https://example.com/rpc")))
	rpcHandler, _ := stock(t)
	w.site(t, http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/rpc":
			rpcHandler.ServeHTTP(rw, r)
		case "/card":
			fmt.Fprint(rw, card)
		case "/keys":
			_, _ = rw.Write(by.keys)
		}
	}))
	in, _, text := look(t, w.inspector(), registry.InspectRequest{URL: "https://example.com/card"})
	if text != "" || in.Signature.State != registry.Verified {
		t.Errorf("%+v, %s", in.Signature, text)
	}
	stranger := probe.New(netguard.New(netguard.Options{NewDialer: w.NewDialer}), probe.Options{TLS: &tls.Config{}})
	if _, _, text := look(t, stranger, registry.InspectRequest{URL: "https://example.com/card"}); text == "" {
		t.Error("a card of a host that proves nothing is taken")
	}
}
