package probe_test

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/parley-mesh/parley/internal/parley"
	"github.com/parley-mesh/parley/internal/registry"
)

// guarded is an agent that wants the bearer token "good" and notes every
// request's path, query and headers.
type guarded struct {
	*agent
	mu   sync.Mutex
	seen []string
}

func newGuarded(t *testing.T) *guarded {
	g := &guarded{agent: newAgent(t)}
	inner := g.Config.Handler
	g.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		g.mu.Lock()
		g.seen = append(g.seen, fmt.Sprint(r.URL, r.Header))
		g.mu.Unlock()
		open := strings.HasPrefix(r.URL.Path, "/.well-known/")
		if !open && r.Header.Get("Authorization") != "Bearer good" && r.URL.Query().Get("key") != "good" {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		inner.ServeHTTP(w, r)
	})
	return g
}

// saw tells whether any request carried the text.
func (g *guarded) saw(text string) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return strings.Contains(strings.Join(g.seen, "\n"), text)
}

func credentialFor(url string) *registry.Credential {
	origin, err := registry.OriginOf(url)
	if err != nil {
		panic(err)
	}
	return &registry.Credential{Kind: registry.Bearer, Secret: "good", Origin: origin}
}

func TestAgentThatWantsCredentials(t *testing.T) {
	g := newGuarded(t)
	g.card = cardOf(`,"securitySchemes":{"b":{"httpAuthSecurityScheme":{"scheme":"Bearer"}}},"securityRequirements":[{"schemes":{"b":{}}}]`, rpc(g.URL+"/rpc"))
	in, _, text := look(t, loopback(), registry.InspectRequest{Agent: "echo", URL: g.URL})
	if text != "" || in.Use != -1 || in.Interfaces[0].Probe != registry.ProbeUnauthorized {
		t.Errorf("without: use %d, %+v, %s", in.Use, in.Interfaces, text)
	}
	if got := lines(in, registry.Note); got != "securitySchemes.b: the agent takes a bearer token (parley agent auth echo --bearer)\n" {
		t.Errorf("notes:\n%s", got)
	}
	if got := lines(in, registry.Warning); !strings.Contains(got, "supportedInterfaces[0]: wants credentials (parley agent auth echo --bearer)") {
		t.Errorf("warnings:\n%s", got)
	}
	in, _, text = look(t, loopback(), registry.InspectRequest{URL: g.URL, Credential: credentialFor(g.URL)})
	if text != "" || in.Use != 0 {
		t.Errorf("with: use %d, %v, %s", in.Use, in.Problems, text)
	}
	wrong := credentialFor(g.URL)
	wrong.Secret = "bad"
	in, _, _ = look(t, loopback(), registry.InspectRequest{URL: g.URL, Credential: wrong})
	if got := lines(in, registry.Warning); in.Use != -1 || !strings.Contains(got, "refuses the credentials it was shown") {
		t.Errorf("with a wrong one:\n%s", got)
	}
}

func TestEachKindOfCredentialIsShown(t *testing.T) {
	for _, c := range []registry.Credential{
		{Kind: registry.Bearer, Secret: "good"},
		{Kind: registry.APIKey, In: registry.InQuery, Name: "key", Secret: "good"},
		{Kind: registry.APIKey, In: registry.InHeader, Name: "Authorization", Secret: "Bearer good"},
	} {
		g := newGuarded(t)
		g.card = cardOf("", rest(g.URL+"/rest?x=y;z"))
		c.Origin = credentialFor(g.URL).Origin
		in, _, text := look(t, loopback(), registry.InspectRequest{URL: g.URL, Credential: &c})
		if text != "" || in.Use != 0 {
			t.Errorf("%v: use %d, %s", c, in.Use, text)
		}
		if strings.Contains(fmt.Sprint(in), "good") {
			t.Errorf("%v: the secret is in what was found", c)
		}
	}
}

// A card may point anywhere, also to somebody who collects credentials.
func TestCredentialGoesToNoOtherOrigin(t *testing.T) {
	home, thief := newGuarded(t), newGuarded(t)
	home.card = cardOf("", rpc(thief.URL+"/rpc"), rest(thief.URL+"/rest"), rpc(home.URL+"/rpc"))
	c := credentialFor(home.URL)
	in, _, text := look(t, loopback(), registry.InspectRequest{URL: home.URL, Credential: c})
	if text != "" || in.Use != 2 || in.Interfaces[0].Probe != registry.ProbeUnauthorized {
		t.Errorf("use %d, %+v, %s", in.Use, in.Interfaces, text)
	}
	if thief.saw("good") {
		t.Errorf("the credential went to another origin: %v", thief.seen)
	}
	if len(thief.seen) == 0 || !home.saw("Bearer good") {
		t.Error("the test shows nothing: neither was asked")
	}
	if got := lines(in, registry.Note); !strings.Contains(got, "supportedInterfaces[0]: is at another origin than the card: "+thief.URL) {
		t.Errorf("notes:\n%s", got)
	}
	if got := lines(in, registry.Warning); !strings.Contains(got, "those at hand are for "+c.Origin+" only") {
		t.Errorf("warnings:\n%s", got)
	}

	// The card itself, too: it is asked for without, where it lives elsewhere.
	if _, _, text := look(t, loopback(), registry.InspectRequest{URL: thief.URL, Credential: c}); text == "" || thief.saw("good") {
		t.Errorf("the card of another origin was asked for with the credential: %s %v", text, thief.seen)
	}
}

func TestCredentialIsNotShownAfterARedirect(t *testing.T) {
	thief := newGuarded(t)
	home := newAgent(t)
	home.mux.HandleFunc("/bounce/", func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, thief.URL+"/rpc", http.StatusTemporaryRedirect)
	})
	home.card = cardOf("", rpc(home.URL+"/bounce/"))
	for _, url := range []string{home.URL, home.URL + "/bounce/card"} {
		if _, _, text := look(t, loopback(), registry.InspectRequest{URL: url, Credential: credentialFor(home.URL)}); text != "" {
			t.Errorf("%s: %s", url, text)
		}
	}
	if len(thief.seen) != 0 {
		t.Errorf("redirects were followed: %v", thief.seen)
	}
}

func TestSchemesTheMeshCannotMeet(t *testing.T) {
	const all = `,"securitySchemes":{` +
		`"a":{"apiKeySecurityScheme":{"location":"cookie","name":"sid"}},` +
		`"b":{"oauth2SecurityScheme":{"flows":{"clientCredentials":{"tokenUrl":"https://example.com/token;$(id)","scopes":{"read":"","a;b":""}}}}},` +
		`"c":{"openIdConnectSecurityScheme":{"openIdConnectUrl":"https://example.com/oidc"}},` +
		`"d":{"mtlsSecurityScheme":{}},` +
		`"e":{"httpAuthSecurityScheme":{"scheme":"Digest"}},` +
		`"f":{"apiKeySecurityScheme":{"location":"query","name":"key"}},` +
		`"h":{"apiKeySecurityScheme":{"location":"header","name":"X;rm -rf $HOME"}},` +
		`"i":{"apiKeySecurityScheme":{"location":"header","name":"X$(id)"}},` +
		`"g":{"httpAuthSecurityScheme":{"scheme":"basic"}}}`
	a := newAgent(t)
	a.card = cardOf(all+`,"securityRequirements":[{"schemes":{"c":{}}},{"schemes":{"f":{},"g":{}}}]`, rpc(a.URL+"/rpc"))
	in, _, text := look(t, loopback(), registry.InspectRequest{Agent: "echo", URL: a.URL})
	if text != "" {
		t.Fatal(text)
	}
	want := `securitySchemes.a: the agent takes an API key in the cookie sid, which the mesh cannot show yet
securitySchemes.c: the agent takes OpenID Connect, which the mesh cannot show yet
securitySchemes.e: the agent takes HTTP authentication by Digest, which the mesh cannot show yet
securitySchemes.h: the agent takes an API key in the header X;rm -rf $HOME, which the mesh cannot show yet
securitySchemes.i: the agent takes an API key in the header X$(id), which the mesh cannot show yet
securityRequirements: the mesh cannot meet any of them: it shows an agent one bearer token, API key, or user and password, and a client certificate beside it (let the agent accept these)
`
	if got := lines(in, registry.Warning); got != want {
		t.Errorf("warnings:\n%swant:\n%s", got, want)
	}
	if got := lines(in, registry.Note); strings.Contains(got, "another origin") {
		t.Errorf("the card's own origin is called another one:\n%s", got)
	}
	want = `securitySchemes.b: the agent takes OAuth 2 (client credentials) (parley agent auth echo --oauth2 --client-id ID --client-secret-file FILE --token-url 'https://example.com/token;$(id)' --scope 'a;b' --scope read)
securitySchemes.d: the agent takes a client certificate (parley agent auth echo --client-cert FILE --client-key FILE)
securitySchemes.f: the agent takes an API key in the query key (parley agent auth echo --api-key --query key)
securitySchemes.g: the agent takes user and password (basic) (parley agent auth echo --basic USER)
`
	if got := lines(in, registry.Note); got != want {
		t.Errorf("notes:\n%swant:\n%s", got, want)
	}

	a.card = cardOf(all+`,"securityRequirements":[{"schemes":{"c":{}}},{"schemes":{"b":{},"d":{}}}]`, rpc(a.URL+"/rpc"))
	in, _, _ = look(t, loopback(), registry.InspectRequest{URL: a.URL})
	if got := lines(in, registry.Warning); got != "" {
		t.Errorf("one requirement can be met, and yet:\n%s", got)
	}
}

func TestCardOfTheJavaScriptSDK(t *testing.T) {
	a := newAgent(t)
	a.card = cardOf(`,"securitySchemes":{"b":{"scheme":{"$case":"httpAuthSecurityScheme","value":{"scheme":"Bearer"}}}},"securityRequirements":[{"schemes":{"b":{}}}]`, rpc(a.URL+"/rpc"))
	in, _, text := look(t, loopback(), registry.InspectRequest{Agent: "echo", URL: a.URL})
	if text != "" {
		t.Fatal(text)
	}
	if got := lines(in, registry.Warning); !strings.Contains(got, "securitySchemes.b: is in the internal form of the JavaScript SDK") {
		t.Errorf("warnings:\n%s", got)
	}
	if got := lines(in, registry.Note); !strings.Contains(got, "parley agent auth echo --bearer") {
		t.Errorf("notes:\n%s", got)
	}
}

// A public card must not make the mesh reach into private networks.
func TestPublicCardThatPointsInside(t *testing.T) {
	w := newWorld()
	w.Resolve("inside.example", "10.9.9.9")
	card := ""
	rpcHandler, _ := stock(t)
	w.site(t, http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/rpc" {
			rpcHandler.ServeHTTP(rw, r)
			return
		}
		fmt.Fprint(rw, card)
	}))
	inside := []face{rpc("https://10.0.0.1/"), rpc("https://inside.example/"), rest("https://[::1]/"), rpc("http://example.com/plain")}
	card = cardOf("", append(inside, rpc("https://example.com/rpc"))...)
	in, _, text := look(t, w.inspector(), registry.InspectRequest{URL: "https://example.com/card"})
	if text != "" || in.Use != 4 {
		t.Fatalf("use %d, %+v, %s", in.Use, in.Interfaces, text)
	}
	for n := range inside {
		if !strings.HasPrefix(in.Interfaces[n].Probe, "not connected: ") || !strings.Contains(lines(in, registry.Warning), fmt.Sprintf("supportedInterfaces[%d]: not connected", n)) {
			t.Errorf("interface %d: %+v", n, in.Interfaces[n])
		}
	}
	for _, addr := range w.Permitted() {
		if addr.String() != "1.1.1.1:443" {
			t.Errorf("dialled %v", addr)
		}
	}

	card = cardOf("", inside...)
	in, kind, text := look(t, w.inspector(), registry.InspectRequest{URL: "https://example.com/card"})
	if kind != parley.Invalid || !strings.Contains(text, "may not connect to any interface") || !strings.Contains(text, "supportedInterfaces[1].url: not connected: 10.9.9.9:443") {
		t.Errorf("none left: kind %v, %s", kind, text)
	}
	if lines(in, registry.Refusal) == "" {
		t.Error("the report refuses nothing")
	}
	if in, _, text := look(t, w.inspector("10.0.0.0/8"), registry.InspectRequest{URL: "https://example.com/card"}); text != "" || in.Interfaces[0].Probe != "nothing answers there" {
		t.Errorf("inside network.allow: %+v, %s", in.Interfaces, text)
	}
}
