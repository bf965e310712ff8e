package gateway_test

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/url"
	"reflect"
	"strings"
	"testing"

	"github.com/parley-mesh/parley/internal/a2a"
	"github.com/parley-mesh/parley/internal/config"
	"github.com/parley-mesh/parley/internal/control"
	"github.com/parley-mesh/parley/internal/parley"
	"github.com/parley-mesh/parley/internal/parleytest"
)

// mustHideInternals checks that a text for callers names no address behind the
// mesh and no cause.
func mustHideInternals(t *testing.T, m *parleytest.Mesh, agent *parleytest.Agent, text string) {
	t.Helper()
	at, err := url.Parse(agent.URL)
	if err != nil {
		t.Fatal(err)
	}
	for _, secret := range []string{at.Host, ":" + at.Port(), "10.1.2.3", m.Config.Data, "connection refused", "EOF", "reset", "dial tcp", "http:", "sqlite", "goroutine", ".go:"} {
		if strings.Contains(text, secret) {
			t.Errorf("a caller is told %q: %s", secret, text)
		}
	}
}

func says(text string) func(context.Context, *a2a.Request) *a2a.Reply {
	return func(_ context.Context, q *a2a.Request) *a2a.Reply {
		return a2a.Answer(q.Method, a2a.SendMessageResponse{Message: &a2a.Message{MessageID: "a", Role: a2a.RoleAgent, Parts: []a2a.Part{a2a.TextPart(text)}}})
	}
}

// TestWhoMayCall: inside one owner yes, else only where allowed, and the
// refusal says which command would allow it.
func TestWhoMayCall(t *testing.T) {
	m, agent := start(t, nil)
	agent.Answer(says("yes"))
	m.Owner("elsewhere")
	inside, outside := m.Key("alice", ""), m.Key("mallory", "elsewhere")
	ctx, send := t.Context(), parleytest.Message("m", "x")
	for _, b := range bindings {
		send.Message.MessageID = fresh("m")
		if reply, _ := m.Caller("agent", b, inside).Do(ctx, a2a.SendMessage, send); reply.Err != nil {
			t.Errorf("%s: the owner's own caller is refused: %v", b, reply.Err)
		}
		before := len(agent.Seen())
		reply, id := m.Caller("agent", b, outside).Do(ctx, a2a.SendMessage, send)
		wantErr(t, "another owner's caller", reply, a2a.ReasonForbidden)
		if want := "parley agent allow agent --owner elsewhere"; !strings.Contains(reply.Err.Message, want) {
			t.Errorf("the refusal %q does not print %q", reply.Err.Message, want)
		}
		wantCall(t, m, id, "denied", "denied")
		reply, _ = m.Caller("agent", b, "").Do(ctx, a2a.SendMessage, send)
		wantErr(t, "a caller without a credential", reply, a2a.ReasonUnauthenticated)
		reply, _ = m.Caller("nobody", b, inside).Do(ctx, a2a.SendMessage, send)
		wantErr(t, "an agent that is not there", reply, "AGENT_NOT_FOUND")
		if len(agent.Seen()) != before {
			t.Error("a refused call reached the agent")
		}
	}
	if _, err := m.Admin.AllowOwner(ctx, "agent", "elsewhere"); err != nil {
		t.Fatal(err)
	}
	if reply, _ := m.Caller("agent", a2a.JSONRPC, outside).Do(ctx, a2a.SendMessage, send); reply.Err != nil {
		t.Errorf("an allowed owner's caller is refused: %v", reply.Err)
	}
	if _, err := m.Admin.DisallowOwner(ctx, "agent", "elsewhere"); err != nil {
		t.Fatal(err)
	}
	reply, _ := m.Caller("agent", a2a.JSONRPC, outside).Do(ctx, a2a.SendMessage, send)
	wantErr(t, "an owner that is no longer allowed", reply, a2a.ReasonForbidden)
}

// TestEnvironmentsAreApart: a caller of another environment is another's.
func TestEnvironmentsAreApart(t *testing.T) {
	m, agent := start(t, nil)
	agent.Answer(says("yes"))
	if _, err := m.Admin.CreatePrincipal(t.Context(), control.NewPrincipal{Name: "prod-caller", Environment: parley.Prod}); err != nil {
		t.Fatal(err)
	}
	key := m.NewKey(control.NewKey{Principal: "prod-caller"}).Text
	reply, _ := m.Caller("agent", a2a.JSONRPC, key).Do(t.Context(), a2a.SendMessage, parleytest.Message("m", "x"))
	wantErr(t, "another environment's caller", reply, a2a.ReasonForbidden)
}

// TestRevokedKeyAndSuspendedAgent take effect with the next call.
func TestRevokedKeyAndSuspendedAgent(t *testing.T) {
	m, agent := start(t, nil)
	agent.Answer(says("yes"))
	m.Key("alice", "")
	key := m.NewKey(control.NewKey{Principal: "alice"})
	c := m.Caller("agent", a2a.JSONRPC, key.Text)
	send := parleytest.Message("m", "x")
	if reply, _ := c.Do(t.Context(), a2a.SendMessage, send); reply.Err != nil {
		t.Fatal(reply.Err)
	}
	if _, err := m.Admin.SuspendAgent(t.Context(), "agent", control.Suspension{Reason: "costs too much"}); err != nil {
		t.Fatal(err)
	}
	reply, id := c.Do(t.Context(), a2a.SendMessage, send)
	wantErr(t, "a suspended agent", reply, a2a.ReasonUnavailable)
	mustHideInternals(t, m, agent, string(reply.Err.REST()))
	if !strings.Contains(reply.Err.Message, "agent agent is suspended: costs too much") {
		t.Errorf("the caller reads %q", reply.Err.Message)
	}
	wantCall(t, m, id, "denied", "agent_suspended")
	if _, err := m.Admin.ResumeAgent(t.Context(), "agent"); err != nil {
		t.Fatal(err)
	}
	send.Message.MessageID = fresh("m")
	if reply, _ := c.Do(t.Context(), a2a.SendMessage, send); reply.Err != nil {
		t.Errorf("a resumed agent: %v", reply.Err)
	}
	if _, err := m.Admin.RevokeKey(t.Context(), key.ID); err != nil {
		t.Fatal(err)
	}
	before := len(agent.Seen())
	reply, _ = c.Do(t.Context(), a2a.SendMessage, send)
	wantErr(t, "a revoked key", reply, a2a.ReasonUnauthenticated)
	if len(agent.Seen()) != before {
		t.Error("a call with a revoked key reached the agent")
	}
}

// TestAnonymousCallers reach what the configuration opens, and list nothing.
func TestAnonymousCallers(t *testing.T) {
	m := parleytest.Start(t, parleytest.Options{Configure: func(c *config.Config) { c.Auth.Anonymous = []parley.AgentName{"open"} }})
	open, closed := m.Agent("open"), m.Agent("closed")
	open.Answer(answersTask(task("t-anon", "c", a2a.StateCompleted)))
	closed.Answer(says("yes"))
	send := parleytest.Message("m", "x")
	c := m.Caller("open", a2a.HTTPJSON, "")
	reply, id := c.Do(t.Context(), a2a.SendMessage, send)
	if reply.Err != nil {
		t.Fatal(reply.Err)
	}
	if got := wantCall(t, m, id, "ok", ""); got.Caller != parley.Anonymous {
		t.Errorf("the caller is recorded as %s", got.Caller)
	}
	if list, err := c.ListTasks(t.Context(), a2a.ListTasksRequest{}); err != nil || len(list.Tasks) != 0 {
		t.Errorf("an anonymous list holds %+v, %v", list, err)
	}
	reply, _ = m.Caller("closed", a2a.HTTPJSON, "").Do(t.Context(), a2a.SendMessage, send)
	wantErr(t, "an agent that is not opened", reply, a2a.ReasonUnauthenticated)
	reply, _ = m.Caller("open", a2a.HTTPJSON, "pk_wrong").Do(t.Context(), a2a.SendMessage, send)
	wantErr(t, "a wrong credential at an open agent", reply, a2a.ReasonUnauthenticated)
}

// TestAgentsRefusalIsNotPassedOn: it is about the mesh's credential.
func TestAgentsRefusalIsNotPassedOn(t *testing.T) {
	for _, behind := range bindings {
		m, agent := start(t, nil, behind)
		c := m.Caller("agent", behind, m.Key("alice", ""))
		for _, status := range []int{http.StatusUnauthorized, http.StatusForbidden} {
			agent.Serve(func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("WWW-Authenticate", `Bearer realm="inner"`)
				http.Error(w, "who are you", status)
			})
			if behind == a2a.GRPC {
				reason := map[int]a2a.Reason{http.StatusUnauthorized: a2a.ReasonUnauthenticated, http.StatusForbidden: a2a.ReasonForbidden}[status]
				agent.Answer(func(context.Context, *a2a.Request) *a2a.Reply { return a2a.Fail(a2a.NewError(reason, "who are you")) })
			}
			for _, method := range []a2a.Method{a2a.SendMessage, a2a.SendStreamingMessage} {
				reply, id := c.Do(t.Context(), method, parleytest.Message(fresh("m"), "x"))
				wantErr(t, http.StatusText(status), reply, a2a.ReasonUnavailable)
				if got := reply.Received.Get("WWW-Authenticate"); got != "" {
					t.Errorf("the caller is asked to authenticate: %s", got)
				}
				got := wantCall(t, m, id, "agent_error", "")
				if !strings.Contains(got.Detail, "parley agent auth agent") {
					t.Errorf("the record %q does not say what to do", got.Detail)
				}
			}
		}
	}
}

// TestUnreachableAgentIsNotNamed.
func TestUnreachableAgentIsNotNamed(t *testing.T) {
	m, agent := start(t, nil)
	c := m.Caller("agent", a2a.JSONRPC, m.Key("alice", ""))
	// Nobody listens there from here on.
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	dead := "http://" + l.Addr().String() + "/"
	l.Close()
	agent.SetCard(parleytest.Card(dead))
	m.Admin.RefreshAgent(t.Context(), "agent") //nolint:errcheck // the look fails as the agent does
	if _, err := m.Admin.ApproveAgent(t.Context(), "agent", 0); err != nil {
		t.Fatal(err)
	}
	reply, _ := c.Do(t.Context(), a2a.SendMessage, parleytest.Message("m", "x"))
	wantErr(t, "an agent that is away", reply, a2a.ReasonUnavailable)
	mustHideInternals(t, m, agent, string(reply.Err.REST()))
}

// TestCORS: pages of listed origins may call, others are not told that they may.
func TestCORS(t *testing.T) {
	const good = "https://app.example.com"
	m := parleytest.Start(t, parleytest.Options{Configure: func(c *config.Config) { c.CORS.Origins = []string{good} }})
	agent := m.Agent("agent")
	agent.Answer(says("yes"))
	key := m.Key("alice", "")
	for origin, want := range map[string]string{good: good, "https://evil.example.com": "", "null": "", good + ".evil.example": ""} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodOptions, m.URL("agent"), nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Origin", origin)
		req.Header.Set("Access-Control-Request-Method", "POST")
		req.Header.Set("Access-Control-Request-Headers", "a2a-version,authorization,content-type")
		resp, err := http.DefaultTransport.RoundTrip(req)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if got := resp.Header.Get("Access-Control-Allow-Origin"); got != want {
			t.Errorf("preflight from %s: allowed origin %q, want %q", origin, got, want)
		}
		headers, _ := post(t, m.URL("agent"), key, `{"jsonrpc":"2.0","id":1,"method":"SendMessage","params":{"message":{"messageId":"m","role":"ROLE_USER","parts":[{"text":"x"}]}}}`,
			map[string]string{"Origin": origin})
		if got := headers.Get("Access-Control-Allow-Origin"); got != want {
			t.Errorf("call from %s: allowed origin %q, want %q", origin, got, want)
		}
		if got := headers.Get("Access-Control-Allow-Credentials"); got != "" {
			t.Errorf("cookies are allowed for %s", origin)
		}
	}
}

// TestCards: the card names the mesh's address alone, holds still, and is found
// where clients of all ages look.
func TestCards(t *testing.T) {
	m, agent := start(t, nil)
	card := parleytest.Card(agent.URL)
	card.SupportedInterfaces = append(card.SupportedInterfaces,
		a2a.AgentInterface{URL: "http://inner-host.example.net:8080/prefix/a2a", ProtocolBinding: a2a.JSONRPC, ProtocolVersion: a2a.V10},
		a2a.AgentInterface{URL: "https://10.1.2.3/rest", ProtocolBinding: a2a.HTTPJSON, ProtocolVersion: a2a.V10, Tenant: "inner-tenant"},
		a2a.AgentInterface{URL: "inner-grpc.example.net:443", ProtocolBinding: "GRPC", ProtocolVersion: a2a.V10})
	yes := true
	card.Capabilities.PushNotifications, card.Capabilities.ExtendedAgentCard = &yes, &yes
	card.SecuritySchemes = map[string]a2a.SecurityScheme{"inner": {HTTPAuth: &a2a.HTTPAuthScheme{Scheme: "Bearer"}}}
	card.Signatures = []a2a.AgentCardSignature{{Protected: "eyJhbGciOiJFUzI1NiJ9", Signature: "c2ln"}}
	agent.SetCard(card)
	m.Add(control.NewAgent{Name: "second", URL: agent.URL})

	var tag, text string
	for _, path := range []string{".well-known/agent-card.json", ".well-known/agent.json"} {
		resp, err := http.Get(m.URL("second") + path)
		if err != nil {
			t.Fatal(err)
		}
		raw, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		if err != nil || resp.StatusCode != http.StatusOK {
			t.Fatalf("%s: %s, %v", path, resp.Status, err)
		}
		if text != "" && (text != string(raw) || tag != resp.Header.Get("ETag")) {
			t.Errorf("the two addresses give different cards")
		}
		text, tag = string(raw), resp.Header.Get("ETag")
		if tag == "" || resp.Header.Get("Cache-Control") == "" {
			t.Errorf("%s: ETag %q, Cache-Control %q", path, tag, resp.Header.Get("Cache-Control"))
		}
	}
	parsed, problems := a2a.ParseCard([]byte(text))
	if parsed == nil {
		t.Fatalf("the card does not pass: %v", problems)
	}
	address := m.Ready.Public + "/agents/second/"
	want := []a2a.AgentInterface{
		{URL: address, ProtocolBinding: a2a.JSONRPC, ProtocolVersion: a2a.V10},
		{URL: address, ProtocolBinding: a2a.HTTPJSON, ProtocolVersion: a2a.V10},
		{URL: m.Ready.GRPC, ProtocolBinding: a2a.GRPC, ProtocolVersion: a2a.V10, Tenant: "agents.second"},
		{URL: address, ProtocolBinding: a2a.JSONRPC, ProtocolVersion: a2a.V03},
		{URL: address, ProtocolBinding: a2a.HTTPJSON, ProtocolVersion: a2a.V03},
	}
	if got := parsed.SupportedInterfaces; !reflect.DeepEqual(got, want) {
		t.Errorf("the card names %+v, want %+v", got, want)
	}
	for _, inner := range []string{hostOf(agent.URL), "inner-host", "10.1.2.3", "inner-grpc", "inner-tenant", `"inner"`, "c2ln"} {
		if strings.Contains(text, inner) {
			t.Errorf("the card tells of %s: %s", inner, text)
		}
	}
	if c := parsed.Capabilities; c.PushNotifications == nil || !*c.PushNotifications || c.ExtendedAgentCard == nil || !*c.ExtendedAgentCard {
		t.Errorf("the card claims %+v", c)
	}
	for method, header := range map[string]string{http.MethodHead: "", http.MethodGet: tag} {
		req, err := http.NewRequestWithContext(t.Context(), method, m.URL("second")+".well-known/agent-card.json", nil)
		if err != nil {
			t.Fatal(err)
		}
		want := http.StatusOK
		if header != "" {
			req.Header.Set("If-None-Match", header)
			want = http.StatusNotModified
		}
		resp, err := http.DefaultTransport.RoundTrip(req)
		if err != nil {
			t.Fatal(err)
		}
		raw, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		if err != nil || resp.StatusCode != want || len(raw) != 0 || resp.Header.Get("ETag") != tag {
			t.Errorf("%s %s: %s, %d bytes, ETag %s, %v", method, header, resp.Status, len(raw), resp.Header.Get("ETag"), err)
		}
	}
}

func hostOf(address string) string {
	u, err := url.Parse(address)
	if err != nil {
		return address
	}
	return u.Host
}

// TestClosedCards need a credential where the configuration says so.
func TestClosedCards(t *testing.T) {
	m := parleytest.Start(t, parleytest.Options{Configure: func(c *config.Config) { c.Cards = config.CardsAuthenticated }})
	m.Agent("agent")
	key := m.Key("alice", "")
	for credential, want := range map[string]int{"": http.StatusUnauthorized, "Bearer " + key: http.StatusOK} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, m.URL("agent")+".well-known/agent-card.json", nil)
		if err != nil {
			t.Fatal(err)
		}
		if credential != "" {
			req.Header.Set("Authorization", credential)
		}
		resp, err := http.DefaultTransport.RoundTrip(req)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode != want {
			t.Errorf("with %q: %s, want %d", credential, resp.Status, want)
		}
	}
}

// TestOpenCardsAmongClosedOnes: where a card is open, a credential beside the
// request is one that nobody looks at, and spares the address no allowance.
func TestOpenCardsAmongClosedOnes(t *testing.T) {
	m := parleytest.Start(t, parleytest.Options{Configure: func(c *config.Config) {
		c.Cards, c.Auth.Anonymous = config.CardsAuthenticated, []parley.AgentName{"open"}
		c.Limits.RatePerAddress, c.Limits.BurstPerAddress = 1, 3
	}})
	m.Agent("open")
	limited := false
	for range 20 {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, m.URL("open")+".well-known/agent-card.json", nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", "Bearer whatever")
		resp, err := http.DefaultTransport.RoundTrip(req)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		limited = limited || resp.StatusCode == http.StatusTooManyRequests
	}
	if !limited {
		t.Error("20 requests at once with a credential that nobody looks at are all served, want at most 3 and the rest limited")
	}
}
