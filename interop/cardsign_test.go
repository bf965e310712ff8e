package interop

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/parley-mesh/parley/internal/a2a/cardsign"
	"github.com/parley-mesh/parley/internal/parleytest"
)

// cards are such as one reading of what is signed takes otherwise than another.
var cards = map[string]string{
	"plain": `{"name":"Plain","description":"Says what it must.","version":"1","supportedInterfaces":[{"url":"https://a.example/","protocolBinding":"JSONRPC","protocolVersion":"1.0"}],
		"capabilities":{"streaming":true},"defaultInputModes":["text/plain"],"defaultOutputModes":["text/plain"],"skills":[{"id":"s","name":"S","description":"Does s.","tags":["t"]}]}`,
	"empty": `{"name":"Empty","description":"","version":"","supportedInterfaces":[{"url":"https://a.example/","tenant":"","protocolBinding":"JSONRPC","protocolVersion":"1.0"}],
		"capabilities":{"streaming":false,"extensions":[]},"documentationUrl":"","defaultInputModes":[],"defaultOutputModes":[],"skills":[]}`,
	"foreign": `{"name":"Grüße 😀\u20ac","description":"\u0001 <&> \\ \"","version":"1","supportedInterfaces":[{"url":"https://a.example/","protocolBinding":"JSONRPC","protocolVersion":"1.0"}],
		"capabilities":{"extensions":[{"uri":"https://x.example/1","required":false,"params":{"z":1,"a":1.50,"n":null,"e":"","l":[],"big":1e21,"small":1e-7,"ö":{"b":false,"c":0}}}]},
		"securitySchemes":{"m":{"mtlsSecurityScheme":{}},"b":{"httpAuthSecurityScheme":{"scheme":"Bearer","description":""}}},
		"securityRequirements":[{"schemes":{"b":{"list":[]}}}],
		"defaultInputModes":["text/plain"],"defaultOutputModes":["text/plain"],"skills":[{"id":"s","name":"S","description":"Does s.","tags":["t"]}]}`,
	"union": `{"name":"Union","description":"Both versions.","version":"1","supportedInterfaces":[{"url":"https://a.example/","protocolBinding":"JSONRPC","protocolVersion":"1.0"}],
		"url":"https://a.example/","preferredTransport":"JSONRPC","protocolVersion":"0.3.0","additionalInterfaces":[{"url":"https://a.example/","transport":"JSONRPC"}],
		"security":[{"b":[]}],"supportsAuthenticatedExtendedCard":false,
		"securitySchemes":{"b":{"type":"http","scheme":"Bearer","httpAuthSecurityScheme":{"scheme":"Bearer"}}},
		"capabilities":{"streaming":true,"stateTransitionHistory":false},"defaultInputModes":["text/plain"],"defaultOutputModes":["text/plain"],"skills":[{"id":"s","name":"S","description":"Does s.","tags":["t"]}]}`,
}

// cardSite is a server with cards and the keys that sign them.
type cardSite struct {
	*httptest.Server
	signer cardsign.Signer
	pem    string // file
	set    cardsign.KeySet
}

func publish(t *testing.T, cards *cardShelf) *cardSite {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	p := &cardSite{pem: filepath.Join(t.TempDir(), "key.pem")}
	der, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(p.pem, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}), 0o600); err != nil {
		t.Fatal(err)
	}
	p.set = cardsign.KeySet{{Key: private.Public(), KeyID: "k1", Algorithm: "ES256", Use: "sig"}}
	keys, err := json.Marshal(jose.JSONWebKeySet{Keys: p.set})
	if err != nil {
		t.Fatal(err)
	}
	p.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		name, ok := strings.CutSuffix(strings.TrimPrefix(r.URL.Path, "/"), "/.well-known/agent-card.json")
		switch {
		case r.URL.Path == "/keys":
			_, _ = w.Write(keys)
		case ok && cards.get(name) != nil:
			_, _ = w.Write(cards.get(name))
		default:
			http.NotFound(w, r)
		}
	}))
	t.Cleanup(p.Close)
	p.signer = cardsign.Signer{KeyID: "k1", JKU: p.URL + "/keys", Algorithm: "ES256", Private: private}
	return p
}

// cardTool runs a peer's card program.
func cardTool(t *testing.T, sdk SDK, args ...string) (string, error) {
	t.Helper()
	program, before := peers(t).program(sdk, "card")
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, program, append(before, args...)...)
	var stderr tail
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return stderr.String(), err
	}
	return string(out), nil
}

// cardShelf holds the cards that a test publishes, by name.
type cardShelf struct {
	mu    sync.Mutex
	cards map[string][]byte // guarded by mu
}

func (s *cardShelf) put(name string, card []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cards == nil {
		s.cards = map[string][]byte{}
	}
	s.cards[name] = card
}

func (s *cardShelf) get(name string) []byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.cards[name]
}

// TestSDKsVerifyOurCards: what we sign holds for SDKs that read a card into their
// own types and write it anew, whatever the card has that those do not.
func TestSDKsVerifyOurCards(t *testing.T) {
	served := &cardShelf{}
	p := publish(t, served)
	for name, card := range cards {
		signed, err := p.signer.Sign([]byte(card))
		if err != nil {
			t.Fatal(err)
		}
		served.put(name, signed)
		served.put("changed-"+name, []byte(strings.Replace(string(signed), `"protocolBinding":"JSONRPC"`, `"protocolBinding":"GRPC"`, 1)))
	}
	for _, sdk := range []SDK{Python, JavaScript} {
		for name := range cards {
			if out, err := cardTool(t, sdk, "verify", p.URL+"/"+name+"/"); err != nil {
				t.Errorf("%s does not verify the card %s: %v\n%s", sdk, name, err, out)
			}
			if out, err := cardTool(t, sdk, "verify", p.URL+"/changed-"+name+"/"); err == nil {
				t.Errorf("%s verifies the card %s although it was changed: %s", sdk, name, out)
			}
		}
	}
}

// TestSDKsVerifyServedCard: the same of a card as a mesh serves it.
func TestSDKsVerifyServedCard(t *testing.T) {
	mesh := parleytest.Start(t, parleytest.Options{})
	mesh.Agent("echo")
	for _, sdk := range []SDK{Python, JavaScript} {
		if out, err := cardTool(t, sdk, "verify", mesh.URL("echo")); err != nil {
			t.Errorf("%s does not verify: %v\n%s", sdk, err, out)
		}
	}
}

// TestSDKsCardsVerify: cards that the SDKs sign and serve hold for us, though they
// do not sign what the specification says.
func TestSDKsCardsVerify(t *testing.T) {
	p := publish(t, &cardShelf{})
	for _, sdk := range []SDK{Python, JavaScript} {
		for name, card := range cards {
			file := filepath.Join(t.TempDir(), "card.json")
			if err := os.WriteFile(file, []byte(card), 0o600); err != nil {
				t.Fatal(err)
			}
			out, err := cardTool(t, sdk, "sign", file, p.pem, "k1", p.URL+"/keys")
			if err != nil {
				t.Fatalf("%s does not sign %s: %v\n%s", sdk, name, err, out)
			}
			v, err := cardsign.Verify(t.Context(), []byte(out), p.set)
			if err != nil || len(v.Valid) != 1 {
				t.Errorf("%s: the card %s does not hold: %+v, %v\n%s", sdk, name, v, err, out)
				continue
			}
			t.Logf("%s, card %s: holds by the form %s", sdk, name, v.Valid[0].Form)
		}
	}
}
