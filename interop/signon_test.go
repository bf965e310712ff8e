package interop

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/parley-mesh/parley/internal/a2a"
	"github.com/parley-mesh/parley/internal/config"
	"github.com/parley-mesh/parley/internal/control"
	"github.com/parley-mesh/parley/internal/parley"
	"github.com/parley-mesh/parley/internal/parleytest"
	"github.com/parley-mesh/parley/internal/signon"
)

func startProvider(t *testing.T) *Provider {
	t.Helper()
	p, err := StartProvider(context.WithoutCancel(t.Context()))
	if err != nil {
		t.Fatal(err)
	}
	stopLater(t, p.Stop)
	return p
}

// issuerOf is the configuration of the provider, changed by the test.
func issuerOf(p *Provider, change func(*config.Issuer)) func(*config.Config) {
	return func(c *config.Config) {
		one := config.Issuer{
			Issuer: p.Issuer, Audience: []string{ProviderAudience}, Algorithms: []string{"RS256", "ES256"}, AcceptTyp: []string{"at+jwt"},
			ClockSkew: 30 * time.Second, JWKSRefresh: time.Hour, Principals: config.AdmitCreate,
		}
		if change != nil {
			change(&one)
		}
		c.Auth.Issuers = []config.Issuer{one}
	}
}

func jobToken(t *testing.T, p *Provider) string {
	t.Helper()
	token, err := p.JobToken(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return token
}

func echoAgent(t *testing.T, mesh *parleytest.Mesh) {
	t.Helper()
	mesh.Agent("echo").Answer(func(_ context.Context, q *a2a.Request) *a2a.Reply {
		return a2a.Answer(q.Method, a2a.SendMessageResponse{Message: &a2a.Message{MessageID: "a", Role: a2a.RoleAgent, Parts: []a2a.Part{a2a.TextPart("hello")}}})
	})
}

// TestTokenOfARealProvider: a token of a client of a real provider is a
// credential, in every binding, and its subject a principal of its own; the
// provider's keys may change meanwhile.
func TestTokenOfARealProvider(t *testing.T) {
	p := startProvider(t)
	mesh := parleytest.Start(t, parleytest.Options{Configure: issuerOf(p, nil)})
	echoAgent(t, mesh)
	call := func(token string) control.Call {
		t.Helper()
		for _, binding := range []a2a.Binding{a2a.JSONRPC, a2a.GRPC, a2a.HTTPJSON} {
			reply, id := mesh.Caller("echo", binding, token).Do(t.Context(), a2a.SendMessage, parleytest.Message("", "hello"))
			if reply.Err != nil {
				t.Fatalf("%s: %v\n%s", binding, reply.Err, mesh.Log())
			}
			if got := mesh.Call(id); got.Caller != "batch-job" {
				t.Fatalf("the call is recorded as one of %q, want batch-job", got.Caller)
			} else if binding == a2a.HTTPJSON {
				return got
			}
		}
		panic("unreachable")
	}
	first := call(jobToken(t, p))
	if err := p.Rotate(t.Context(), "ES256"); err != nil {
		t.Fatal(err)
	}
	if second := call(jobToken(t, p)); second.CallerOwner != first.CallerOwner || second.CallerOwner != parley.DefaultOwner {
		t.Errorf("owner %q after %q, want default", second.CallerOwner, first.CallerOwner)
	}
	if n, err := p.KeyFetches(t.Context()); err != nil || n != 2 {
		t.Errorf("keys were fetched %d times (%v), want 2: at the start, and for the new key", n, err)
	}
}

// TestForgedTokenOfARealProvider: the same token with another claim, or for a
// mesh of another name, opens nothing, and the refusal says where tokens are
// had.
func TestForgedTokenOfARealProvider(t *testing.T) {
	p := startProvider(t)
	mesh := parleytest.Start(t, parleytest.Options{Configure: issuerOf(p, func(i *config.Issuer) { i.Audience = []string{"https://other.example"} })})
	echoAgent(t, mesh)
	token := jobToken(t, p)
	parts := strings.Split(token, ".")
	for name, sent := range map[string]string{
		"another audience":    token,
		"another payload":     parts[0] + "." + parts[1][:len(parts[1])-4] + "AAAA." + parts[2],
		"no signature":        parts[0] + "." + parts[1] + ".",
		"another's signature": parts[0] + "." + parts[1] + "." + strings.Repeat("A", len(parts[2])),
	} {
		reply, _ := mesh.Caller("echo", a2a.HTTPJSON, sent).Do(t.Context(), a2a.SendMessage, parleytest.Message("", "hello"))
		if reply.Err == nil || reply.Err.HTTP != http.StatusUnauthorized {
			t.Errorf("%s: got %v, want 401", name, reply.Err)
			continue
		}
		challenge := reply.Err.Challenge
		for _, want := range []string{`error="invalid_token"`, `error_description="`, `resource_metadata="` + mesh.Ready.Public + `/.well-known/oauth-protected-resource/agents/echo"`} {
			if !strings.Contains(challenge, want) {
				t.Errorf("%s: the challenge %s lacks %s", name, challenge, want)
			}
		}
	}
}

// TestStockClientsReadCardsWithIssuers: cards name the issuers, and the card
// readers of all official SDKs take them. That nothing answers at the issuers
// keeps neither the mesh from starting nor other callers from calling.
func TestStockClientsReadCardsWithIssuers(t *testing.T) {
	mesh := parleytest.Start(t, parleytest.Options{Configure: func(c *config.Config) {
		for _, issuer := range []string{"http://127.0.0.1:1", "http://127.0.0.1:1/tenant"} {
			c.Auth.Issuers = append(c.Auth.Issuers, config.Issuer{
				Issuer: issuer, Audience: []string{"mesh"}, Algorithms: []string{"RS256"}, AcceptTyp: []string{"at+jwt"},
				JWKSRefresh: time.Hour, Principals: config.AdmitLinked,
			})
		}
	}})
	agent := startAgent(t, Go, AgentOptions{})
	mesh.Add(control.NewAgent{Name: "echo", URL: agent.URL})
	key := mesh.Key("caller", "")
	resp, err := http.Get(mesh.URL("echo") + ".well-known/agent-card.json")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	var card a2a.AgentCard
	if err := json.NewDecoder(resp.Body).Decode(&card); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{
		"openId": "http://127.0.0.1:1/.well-known/openid-configuration", "openId2": "http://127.0.0.1:1/tenant/.well-known/openid-configuration",
	} {
		if scheme := card.SecuritySchemes[name].OpenIDConnect; scheme == nil || scheme.URL != want {
			t.Errorf("the card's scheme %s is %+v, want %s", name, scheme, want)
		}
	}
	for _, sdk := range []SDK{Go, JavaScript, Python} {
		documents := runClient(t, sdk, ClientOptions{URL: mesh.URL("echo"), Key: key, Scenarios: []string{"send"}})
		if e := documents[0].Steps[0].Error; e != nil {
			t.Errorf("%s: %+v", sdk, e)
		}
	}
}

// TestLoginWithARealProvider: the device flow, and a renewal of what it gave,
// after which the token is still one of the same person.
func TestLoginWithARealProvider(t *testing.T) {
	p := startProvider(t)
	ctx := t.Context()
	mesh := parleytest.Start(t, parleytest.Options{Configure: issuerOf(p, func(i *config.Issuer) {
		i.Login = config.Login{ClientID: ProviderClient, Scopes: []string{"openid", "offline_access"}, Resource: ProviderAudience}
	})})
	resp, err := http.Get(mesh.Ready.Listen + signon.MetadataPath)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	var described signon.Resource
	if err := json.NewDecoder(resp.Body).Decode(&described); err != nil {
		t.Fatal(err)
	}
	if len(described.Logins) != 1 || described.AuthorizationServers[0] != p.Issuer {
		t.Fatalf("the mesh says %+v", described)
	}
	offer, c := described.Logins[0], signon.NewClient(nil)
	endpoints, err := c.Discover(ctx, offer.Issuer, "")
	if err != nil {
		t.Fatal(err)
	}
	prompt, err := c.Begin(ctx, endpoints, offer)
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Approve(ctx, prompt.UserCode, "bob"); err != nil {
		t.Fatal(err)
	}
	tokens, err := c.Await(ctx, endpoints, offer, prompt)
	if err != nil {
		t.Fatal(err)
	}
	logins := signon.Logins{Dir: t.TempDir()}
	login := &signon.Login{
		Origin: mesh.Ready.Listen, Issuer: p.Issuer, ClientID: offer.ClientID, Resource: offer.Resource, TokenURL: endpoints.Token,
		Access: tokens.Access, Refresh: tokens.Refresh, ExpiresAt: time.Now(), // as if it were over
	}
	if err := logins.Save(login); err != nil {
		t.Fatal(err)
	}
	renewed, err := logins.Token(ctx, c, login.Origin)
	if err != nil || renewed == tokens.Access {
		t.Fatalf("renewed: %v; the same token: %t", err, renewed == tokens.Access)
	}
	for what, token := range map[string]string{"the first token": tokens.Access, "the renewed one": renewed} {
		client, err := control.NewClient(nil, mesh.Ready.Listen, token)
		if err != nil {
			t.Fatal(err)
		}
		if who, err := client.WhoAmI(ctx); err != nil || who.Name != "bob" || who.Issuer != p.Issuer {
			t.Errorf("%s: %+v, %v", what, who, err)
		}
		client.Close()
	}
	after, err := logins.Load(login.Origin)
	if err != nil || after.Access != renewed || after.Refresh == tokens.Refresh {
		t.Errorf("kept after the renewal: refresh token the same %t, %v", after.Refresh == tokens.Refresh, err)
	}
}
