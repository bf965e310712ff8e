package probe_test

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/parley-mesh/parley/internal/parley"
	"github.com/parley-mesh/parley/internal/probe"
	"github.com/parley-mesh/parley/internal/registry"
)

// v03 is a card as agents of A2A 0.3 serve it.
const v03 = `{"name":"old","description":"d","url":"https://example.com/","protocolVersion":"0.3.0","version":"1","capabilities":{},"skills":[],"defaultInputModes":[],"defaultOutputModes":[]}`

func TestWhereACardIsFound(t *testing.T) {
	for _, tc := range []struct{ name, given, place, tried string }{
		{"its own address", "/a/card.json", "/a/card.json", "/a/card.json: an agent card\n"},
		{"a base address", "/agents/echo", "/agents/echo/.well-known/agent-card.json",
			"/agents/echo: answered with status 404\n/agents/echo/.well-known/agent-card.json: an agent card\n"},
		{"a base address with a slash", "/agents/echo/", "/agents/echo/.well-known/agent-card.json",
			"/agents/echo/: answered with status 404\n/agents/echo/.well-known/agent-card.json: an agent card\n"},
		{"an endpoint whose host has the card", "/rpc/v1", "/.well-known/agent-card.json",
			"/rpc/v1: answered with status 404\n/rpc/v1/.well-known/agent-card.json: answered with status 404\n/.well-known/agent-card.json: an agent card\n"},
		{"the well-known address itself", "/.well-known/agent-card.json", "/.well-known/agent-card.json", "/.well-known/agent-card.json: an agent card\n"},
		{"the old well-known address", "/.well-known/agent.json", "/.well-known/agent-card.json",
			"/.well-known/agent.json: answered with status 404\n/.well-known/agent-card.json: an agent card\n"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			a := newAgent(t)
			s := newAgent(t)
			card := cardOf("", rpc(a.URL+"/rpc"), rpc(s.URL+"/rpc"))
			s.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path != tc.place {
					http.NotFound(w, r)
					return
				}
				fmt.Fprint(w, card)
			})
			in, _, text := look(t, loopback(), registry.InspectRequest{URL: s.URL + tc.given})
			if got := tried(in, s.URL); got != tc.tried || in.CardURL != s.URL+tc.place || text != "" {
				t.Errorf("card at %q, %s; tried:\n%swant:\n%s", in.CardURL, text, got, tc.tried)
			}
		})
	}
}

func TestNothingFoundSaysWhatAnsweredWhere(t *testing.T) {
	a := newAgent(t)
	a.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/x":
			w.Header().Set("Content-Type", "text/html")
			fmt.Fprint(w, "<html>secret page</html>")
		case "/x/.well-known/agent-card.json":
			http.Redirect(w, r, "https://evil.example/card?token=abc", http.StatusMovedPermanently)
		case "/.well-known/agent-card.json":
			w.WriteHeader(401)
		default:
			w.WriteHeader(500)
		}
	})
	in, kind, text := look(t, loopback(), registry.InspectRequest{URL: a.URL + "/x"})
	want := `/x: status 200, text/html: not an agent card
/x/.well-known/agent-card.json: answered with status 301, a redirect, and redirects are not followed: if you trust it, give https://evil.example/card instead
/.well-known/agent-card.json: answered with status 401
/x/.well-known/agent.json: answered with status 500
/.well-known/agent.json: answered with status 500
`
	if diff := cmp.Diff(want, tried(in, a.URL)); diff != "" || kind != parley.AgentFailed {
		t.Errorf("kind %v; tried (-want +got):\n%s", kind, diff)
	}
	for _, part := range []string{"no agent card was found", "/.well-known/agent-card.json: answered with status 401 (the agent keeps its card closed", a.URL + "/x/.well-known/agent.json: answered with status 500"} {
		if !strings.Contains(text, part) {
			t.Errorf("the error does not say %q: %s", part, text)
		}
	}
	if strings.Contains(text, "secret page") || in.Card != nil {
		t.Errorf("the answer is repeated: %s", text)
	}
}

func TestSilentHostIsAskedOnce(t *testing.T) {
	a := newAgent(t)
	a.Close()
	in, kind, text := look(t, loopback(), registry.InspectRequest{URL: a.URL + "/x"})
	if kind != parley.AgentFailed || len(in.Tried) != 1 || !strings.Contains(text, "nothing answers at") {
		t.Errorf("kind %v, tried %v, %s", kind, in.Tried, text)
	}
}

func TestCardsLargerThanTheLimitAreNotTaken(t *testing.T) {
	a := newAgent(t)
	a.card = cardOf(`,"documentationUrl":"https://example.com/`+strings.Repeat("a", 2000)+`"`, rpc(a.URL+"/rpc"))
	for _, tc := range []struct {
		limit int64
		fails bool
	}{{0, false}, {int64(len(a.card)), false}, {int64(len(a.card)) - 1, true}} {
		i := probe.New(loopbackGuard(), probe.Options{MaxCard: tc.limit})
		_, _, text := look(t, i, registry.InspectRequest{URL: a.URL})
		if tc.fails != strings.Contains(text, fmt.Sprintf("more than %d bytes", tc.limit)) || tc.fails != (text != "") {
			t.Errorf("a card of %d bytes within a limit of %d: %q", len(a.card), tc.limit, text)
		}
	}
}

// TestAnotherAgentsCardIsNotTaken: a path that is mistyped must not lead to the
// agent that the host's own card belongs to.
func TestAnotherAgentsCardIsNotTaken(t *testing.T) {
	a := newAgent(t)
	a.card = cardOf("", rpc(a.URL+"/rpc"))
	host := strings.TrimPrefix(a.URL, "http://")
	for _, tc := range []struct {
		url   string
		taken bool
	}{
		{a.URL, true}, {a.URL + "/", true}, {a.URL + "/.well-known/agent-card.json", true},
		{a.URL + "/rpc", true}, {a.URL + "/rpc/", true}, {host + "/rpc", true},
		{a.URL + "/rp", false}, {a.URL + "/rpc2/", false}, {a.URL + "/RPC", false}, {a.URL + "/rpc/below", true}, {host + "/other", false},
		{a.URL + "/other/.well-known/agent-card.json", false},
	} {
		in, kind, text := look(t, loopback(), registry.InspectRequest{URL: tc.url})
		if tc.taken != (text == "") {
			t.Errorf("%s: taken %v, want %v (card at %s): %s", tc.url, text == "", tc.taken, in.CardURL, text)
		}
		if !tc.taken && (kind != parley.Invalid || in.Use >= 0 || !strings.Contains(text, "give "+a.URL+"/.well-known/agent-card.json to mean that agent")) {
			t.Errorf("%s: kind %v, use %d: %s", tc.url, kind, in.Use, text)
		}
	}
}

func TestBareHost(t *testing.T) {
	a := newAgent(t)
	a.card = cardOf("", rpc(a.URL+"/rpc"))
	host := strings.TrimPrefix(a.URL, "http://")
	in, _, text := look(t, loopback(), registry.InspectRequest{URL: host})
	if text != "" || in.CardURL != a.URL+"/.well-known/agent-card.json" || len(in.Tried) != 2 || !strings.HasPrefix(in.Tried[0].URL, "https://"+host) {
		t.Errorf("plain http inside network.allow: card at %q, tried %v, %s", in.CardURL, in.Tried, text)
	}

	w := newWorld()
	card := ""
	w.site(t, http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		if card == "" || !strings.HasSuffix(r.URL.Path, "agent-card.json") {
			rw.WriteHeader(404)
			return
		}
		fmt.Fprint(rw, card)
	}))
	in, kind, _ := look(t, w.inspector(), registry.InspectRequest{URL: "example.com"})
	for _, try := range in.Tried {
		if !strings.HasPrefix(try.URL, "https://example.com/.well-known/") {
			t.Errorf("https answered, and yet %s was tried", try.URL)
		}
	}
	if kind != parley.AgentFailed {
		t.Errorf("kind %v, tried %v", kind, in.Tried)
	}
	card = cardOf("", rpc("https://example.com/rpc"))
	if in, _, text := look(t, w.inspector(), registry.InspectRequest{URL: "example.com"}); in.CardURL != "https://example.com/.well-known/agent-card.json" || text != "" {
		t.Errorf("card at %q, %s", in.CardURL, text)
	}
}

func TestPlainHTTPOutsideNetworkAllowIsRefused(t *testing.T) {
	w := newWorld()
	w.Resolve("example.com", "1.1.1.1")
	in, kind, text := look(t, w.inspector(), registry.InspectRequest{URL: "http://example.com/"})
	if kind != parley.Invalid || len(in.Tried) != 1 || !strings.Contains(text, "use https") || len(w.Permitted()) != 0 {
		t.Errorf("kind %v, %s, dialled %v", kind, text, w.Permitted())
	}
}

func TestPrivateAddressesAreNotDialled(t *testing.T) {
	for _, url := range []string{
		"https://127.0.0.1/", "https://10.1.2.3/", "https://169.254.169.254/latest/meta-data", "https://[::1]/", "https://[fd00::1]/",
		"https://192.168.0.1:443/", "https://inside.example/", "10.1.2.3", "inside.example:443",
	} {
		w := newWorld()
		w.Resolve("inside.example", "10.9.9.9")
		in, kind, text := look(t, w.inspector(), registry.InspectRequest{URL: url})
		if kind != parley.Invalid || !strings.Contains(text, "not a public address") || !strings.Contains(text, "network.allow") || len(w.Permitted()) != 0 {
			t.Errorf("%s: kind %v, %s, tried %v, dialled %v", url, kind, text, in.Tried, w.Permitted())
		}
	}
}

func TestAddressThatCannotBeUsed(t *testing.T) {
	for url, part := range map[string]string{
		"ftp://example.com/":           "the scheme is",
		"https://user:pw@example.com/": "carries a user name",
		"https://":                     "no host",
		"https://example.com/#card":    "fragment",
		"exa mple.com":                 "position 12",
		"https://example.com/card?token=abcdef0123456789":                              "parley agent auth echo --api-key --query",
		"https://example.com/card?x=eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.c2lnbmF0dXJl": "JSON web token",
	} {
		w := newWorld()
		in, kind, text := look(t, w.inspector(), registry.InspectRequest{Agent: "echo", URL: url})
		if kind != parley.Invalid || !strings.Contains(text, part) || len(in.Tried) != 0 || strings.Contains(text, "pw@") || strings.Contains(text, "abcdef0123456789") {
			t.Errorf("%s: kind %v, %s", url, kind, text)
		}
	}
}

// TestOldCardIsTaken from either place; it has to be one that can be used.
func TestOldCardIsTaken(t *testing.T) {
	for _, place := range []string{"/.well-known/agent.json", "/.well-known/agent-card.json"} {
		w := newWorld()
		w.site(t, http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
			if r.URL.Path != place {
				rw.WriteHeader(404)
				return
			}
			fmt.Fprint(rw, v03)
		}))
		in, kind, text := look(t, w.inspector(), registry.InspectRequest{URL: "https://example.com/"})
		if text != "" || in.CardURL != "https://example.com"+place || string(in.Card) != v03 || in.Use != -1 {
			t.Errorf("%s: kind %v, %s, card at %q", place, kind, text, in.CardURL)
		}
		if got := in.Tried[len(in.Tried)-1].Result; got != "an agent card of A2A 0.3" || !strings.Contains(lines(in, registry.Note), "one of A2A 0.3") {
			t.Errorf("%s: tried %v, %v", place, in.Tried, in.Problems)
		}
		if got := in.Interfaces[0]; got.Version != "0.3" || got.Binding != "JSONRPC" || !strings.HasPrefix(got.Probe, "HTTP 404: no JSON-RPC of A2A 0.3 answer") {
			t.Errorf("%s: %+v", place, got)
		}
	}
}

func TestAgentOfBothVersionsShowsItsNewCard(t *testing.T) {
	a := newAgent(t)
	card := cardOf("", rpc(a.URL+"/rpc"))
	s := newAgent(t)
	s.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("A2A-Version") == "1.0" {
			fmt.Fprint(w, card)
			return
		}
		fmt.Fprint(w, v03)
	})
	if in, _, text := look(t, loopback(), registry.InspectRequest{URL: s.URL}); in.Use != 0 || text != "" {
		t.Errorf("use %d, %s", in.Use, text)
	}
}

func TestHostileDocuments(t *testing.T) {
	const deep = 3000
	for _, tc := range []struct {
		name, body string
		kind       parley.Kind
		part       string
	}{
		{"nothing in it", `{}`, parley.Invalid, "supportedInterfaces"},
		{"cut off", cardOf("", rpc("https://example.com/"))[:200], parley.Invalid, "not valid JSON"},
		{"too deep", `{"name":` + strings.Repeat("[", deep) + strings.Repeat("]", deep) + `}`, parley.Invalid, "deep"},
		{"too large", `{"name":"` + strings.Repeat("x", 2<<20) + `"}`, parley.AgentFailed, "more than 1048576 bytes"},
		{"a name twice", strings.Replace(cardOf("", rpc("https://example.com/")), `{"name"`, `{"name":"a","name"`, 1), parley.Invalid, "twice"},
		{"an array", `[]`, parley.AgentFailed, "not an agent card"},
		{"not UTF-8", "{\"name\":\"\xff\"}", parley.Invalid, ""},
		{"no interface", cardOf(""), parley.Invalid, "supportedInterfaces"},
		{"no interface that is spoken", cardOf("", face{"https://example.com/", "JSONRPC", "0.2"}), parley.Invalid, "no interface can be used"},
		{"too many interfaces", cardOf("", slices.Repeat([]face{rpc("https://example.com/")}, 65)...), parley.Invalid, "lists 65 interfaces, at most 64"},
		{"a bad address", cardOf("", rpc("/rpc")), parley.Invalid, "supportedInterfaces[0].url"},
		{"a secret", cardOf(`,"documentationUrl":"https://example.com/?api_key=0a1b2c3d4e5f6a7b"`, rpc("https://example.com/")), parley.Invalid, "documentationUrl: looks like"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := newWorld()
			w.site(t, http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) { fmt.Fprint(rw, tc.body) }))
			in, kind, text := look(t, w.inspector(), registry.InspectRequest{URL: "https://example.com/card"})
			if kind != tc.kind || !strings.Contains(text, tc.part) || in.Card != nil || strings.Contains(text, "0a1b2c3d") {
				t.Errorf("kind %v, %s, tried %v", kind, text, in.Tried)
			}
			if tc.kind == parley.Invalid && lines(in, registry.Refusal) == "" {
				t.Errorf("the report refuses nothing: %v", in.Problems)
			}
		})
	}
}

func TestEveryWrongFieldIsNamed(t *testing.T) {
	w := newWorld()
	w.site(t, http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		fmt.Fprint(rw, `{"name":"","description":3,"supportedInterfaces":[{"url":"https://example.com/","protocolBinding":"JSONRPC"}]}`)
	}))
	_, _, text := look(t, w.inspector(), registry.InspectRequest{URL: "https://example.com/card"})
	for _, field := range []string{"name", "description", "version", "capabilities", "defaultInputModes", "defaultOutputModes", "skills", "supportedInterfaces[0].protocolVersion"} {
		if !strings.Contains(text, "; "+field+": ") {
			t.Errorf("%s is not named: %s", field, text)
		}
	}
}

func TestManyProblemsAreBounded(t *testing.T) {
	w := newWorld()
	w.site(t, http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		var faces []face
		for n := range 64 {
			faces = append(faces, face{fmt.Sprintf("relative/%d", n), "JSONRPC", "1.0"})
		}
		fmt.Fprint(rw, cardOf("", faces...))
	}))
	in, kind, text := look(t, w.inspector(), registry.InspectRequest{URL: "https://example.com/card"})
	if kind != parley.Invalid || len(in.Problems) > 40 || strings.Count(text, "supportedInterfaces[") > 40 || !strings.Contains(lines(in, registry.Warning), "more problems of the card") {
		t.Errorf("%d problems, %s", len(in.Problems), text)
	}
}

// An agent's words are printed on terminals.
func TestWordsOfAnAgentAreCleaned(t *testing.T) {
	a := newAgent(t)
	a.card = strings.Replace(cardOf("", rpc(a.URL+"/rpc"), face{`x\u001b[2Jy`, `GR\u001bPC`, "1.0"}), `"echo"`, `"e\u001b[31mcho\u202e `+strings.Repeat("ä", 500)+`"`, 1)
	in, _, text := look(t, loopback(), registry.InspectRequest{URL: a.URL})
	if text != "" {
		t.Fatal(text)
	}
	if !strings.HasPrefix(in.Title, "e[31mcho ä") || len(in.Title) > 203 || strings.ContainsAny(fmt.Sprint(in.Title, in.Interfaces, in.Problems), "\x1b\u202e") {
		t.Errorf("title %q, interfaces %q, problems %q", in.Title, in.Interfaces, in.Problems)
	}
}

func TestSlowAgentsEnd(t *testing.T) {
	release := make(chan struct{})
	slow := func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprint(w, `{"name":`)
		w.(http.Flusher).Flush()
		<-release
	}
	a := newAgent(t)
	defer close(release) // before the server closes
	a.mux.HandleFunc("/slow", slow)
	a.card = cardOf("", rpc(a.URL+"/slow"))
	i := probe.New(loopbackGuard(), probe.Options{Limits: probe.Limits{Fetch: 50 * time.Millisecond}})
	_, kind, text := look(t, i, registry.InspectRequest{URL: a.URL + "/slow", Exact: true})
	if kind != parley.AgentFailed || !strings.Contains(text, "no answer in time") {
		t.Errorf("a slow card: kind %v, %s", kind, text)
	}
	i = probe.New(loopbackGuard(), probe.Options{Limits: probe.Limits{Probe: 50 * time.Millisecond}})
	in, _, text := look(t, i, registry.InspectRequest{URL: a.URL})
	if text != "" || in.Use != -1 || in.Interfaces[0].Probe != "no answer within 50ms" {
		t.Errorf("a slow interface: %+v, %s", in.Interfaces, text)
	}
	i = probe.New(loopbackGuard(), probe.Options{Limits: probe.Limits{Total: 50 * time.Millisecond}})
	if _, kind, _ := look(t, i, registry.InspectRequest{URL: a.URL + "/slow"}); kind != parley.Timeout {
		t.Errorf("the whole look: kind %v", kind)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := loopback().Inspect(ctx, registry.InspectRequest{URL: a.URL}); parley.KindOf(err) != parley.Canceled {
		t.Errorf("canceled: %v", err)
	}
}
