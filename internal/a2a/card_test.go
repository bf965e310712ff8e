package a2a

import (
	"fmt"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/parley-mesh/parley/internal/jsonwire"
)

// goodCard is a card with a bit of everything, unknown members included.
const goodCard = `{
  "name": "Ledger", "description": "Keeps books.", "version": "3.1",
  "supportedInterfaces": [
    {"url": "https://10.1.2.3:8443/rpc", "protocolBinding": "JSONRPC", "protocolVersion": "1.0", "tenant": "t-1", "x-zone": "eu"},
    {"url": "ledger.internal:9000", "protocolBinding": "GRPC", "protocolVersion": "1.0"},
    {"url": "https://ledger.internal/rest", "protocolBinding": "HTTP+JSON", "protocolVersion": "1.0"}
  ],
  "provider": {"url": "https://books.example.com", "organization": "Books"},
  "capabilities": {"streaming": false, "pushNotifications": true, "extensions": [{"uri": "https://e.example/1", "params": {"a": 1.50}}]},
  "securitySchemes": {
    "key": {"apiKeySecurityScheme": {"location": "header", "name": "X-API-Key"}},
    "oauth": {"oauth2SecurityScheme": {"flows": {"clientCredentials": {"tokenUrl": "https://login.example.com/token", "scopes": {"read": "Read"}}}}}
  },
  "securityRequirements": [{"schemes": {"oauth": {"list": ["read"]}}}, {"schemes": {"key": {}}}],
  "defaultInputModes": ["text/plain"], "defaultOutputModes": ["text/plain"],
  "skills": [{"id": "book", "name": "Book", "description": "Books a sum.", "tags": ["money"], "securityRequirements": [{"schemes": {"key": {}}}], "x-cost": 2}],
  "signatures": [{"protected": "eyJhbGciOiJFUzI1NiIsImtpZCI6IjEifQ", "signature": "QFdkNLNszlGj3z3u0YQGt_T9LixY3qtdQpZmsTdDHDe3fXV9y9-B3m2-XgCpzuhiLt8E0tV6HXoZKHv4GtHgKQ"}],
  "iconUrl": "", "x-note": {"kept": true}
}`

func edit(t testing.TB, doc, path, value string) string {
	t.Helper()
	var out []byte
	var err error
	if value == "" {
		out, err = jsonwire.Delete([]byte(doc), path)
	} else {
		out, err = jsonwire.Set([]byte(doc), path, jsontext.Value(value))
	}
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}

func TestParseCardGood(t *testing.T) {
	card, problems := ParseCard([]byte(goodCard))
	if len(problems) > 0 || card == nil {
		t.Fatalf("problems: %v", show(problems))
	}
	if ep, ok := card.SelectInterface(V10, GRPC); !ok || ep.URL != "ledger.internal:9000" {
		t.Errorf("SelectInterface = %+v, %v", ep, ok)
	}
	ep, ok := card.SelectInterface(V10)
	if want := (Endpoint{URL: "https://10.1.2.3:8443/rpc", Binding: JSONRPC, Version: V10, Tenant: "t-1"}); !ok || ep != want {
		t.Errorf("SelectInterface = %+v, %v", ep, ok)
	}
	if ep, ok := card.SelectInterface(V10, HTTPJSON); !ok || ep.URL != "https://ledger.internal/rest" {
		t.Errorf("SelectInterface REST = %+v, %v", ep, ok)
	}
	if _, ok := card.SelectInterface(V03); ok {
		t.Error("there is no interface of 0.3")
	}
}

func show(problems []Problem) []string {
	var list []string
	for _, p := range problems {
		list = append(list, fmt.Sprintf("%s %s", p.Level, p))
	}
	return list
}

func TestParseCardProblems(t *testing.T) {
	const iface = `{"protocolBinding":"JSONRPC","protocolVersion":"1.0","url":`
	tests := []struct {
		name, card string
		want       []string
		refused    bool
	}{
		{"empty object", `{}`, []string{"name: is required", "description: is required", "supportedInterfaces: is required", "version: is required",
			"capabilities: is required", "defaultInputModes: is required", "defaultOutputModes: is required", "skills: is required"}, true},
		{"not JSON", `<html>`, []string{"not valid JSON"}, true},
		{"array", `[]`, []string{"must be an object, not an array"}, true},
		{"no skills member", edit(t, goodCard, "/skills", ""), []string{"skills: is required"}, true},
		{"no interfaces member", edit(t, goodCard, "/supportedInterfaces", ""), []string{"supportedInterfaces: is required"}, true},
		{"empty interfaces", edit(t, goodCard, "/supportedInterfaces", `[]`), []string{"supportedInterfaces: must not be empty"}, true},
		{"empty skills", edit(t, goodCard, "/skills", `[]`), []string{"skills: is empty"}, false},
		{"wrong types", edit(t, edit(t, goodCard, "/capabilities/streaming", `"yes"`), "/version", `3`), []string{"version: must be a string, not a number", "capabilities.streaming: must be a boolean, not a string"}, true},
		{"misspelt", edit(t, goodCard, "/supported_interfaces", `[]`), []string{`supported_interfaces: unknown member "supported_interfaces"; write "supportedInterfaces"`}, true},
		{"relative URL", edit(t, goodCard, "/supportedInterfaces", `[`+iface+`"/rpc"}]`), []string{"supportedInterfaces[0].url: must be an http or https address", "supportedInterfaces: no interface can be used"}, true},
		{"other scheme", edit(t, goodCard, "/supportedInterfaces", `[`+iface+`"ftp://x.example"}]`), []string{"supportedInterfaces[0].url: must be an http or https address"}, true},
		{"no host", edit(t, goodCard, "/supportedInterfaces", `[`+iface+`"https:///rpc"}]`), []string{"supportedInterfaces[0].url: has no host"}, true},
		{"user", edit(t, goodCard, "/supportedInterfaces", `[`+iface+`"https://me@x.example"}]`), []string{"supportedInterfaces[0].url: carries a user name or password"}, true},
		{"fragment", edit(t, goodCard, "/supportedInterfaces", `[`+iface+`"https://x.example/#a"}]`), []string{"supportedInterfaces[0].url: has a fragment"}, true},
		{"only gRPC", edit(t, goodCard, "/supportedInterfaces", `[{"url":"a:1","protocolBinding":"GRPC","protocolVersion":"1.0"}]`), nil, false},
		{"gRPC without a port", edit(t, goodCard, "/supportedInterfaces", `[{"url":"a.example","protocolBinding":"GRPC","protocolVersion":"1.0"}]`), []string{"supportedInterfaces[0].url: is not the address of a gRPC interface: write host:port"}, true},
		{"another binding", edit(t, goodCard, "/supportedInterfaces", `[{"url":"https://a.example","protocolBinding":"https://b.example/slim","protocolVersion":"1.0"}]`), []string{`supportedInterfaces[0].protocolBinding: "https://b.example/slim" is not spoken here`, "supportedInterfaces: no interface can be used"}, true},
		{"only 0.2", edit(t, goodCard, "/supportedInterfaces", `[{"url":"https://a.example","protocolBinding":"JSONRPC","protocolVersion":"0.2"}]`), []string{`supportedInterfaces[0].protocolVersion: "0.2"`, "supportedInterfaces: no interface can be used"}, true},
		{"patch version", edit(t, goodCard, "/supportedInterfaces", `[{"url":"https://a.example","protocolBinding":"JSONRPC","protocolVersion":"1.0.1"}]`), nil, false},
		{"0.3 card", `{"name":"a","url":"a.example","protocolVersion":"0.3.0","preferredTransport":"JSONRPC","description":"","version":"","capabilities":{},"defaultInputModes":[],"defaultOutputModes":[],"skills":[],"additionalInterfaces":[{"url":"https://a.example","transport":"HTTP+JSON"},{"url":"/rest","transport":"HTTP+JSON"}]}`, []string{"url: must be an http or https address", "additionalInterfaces[1].url: must be an http or https address"}, true},
		{"0.3 card without", `{"name":"a","protocolVersion":"0.3.0","preferredTransport":"JSONRPC","description":"","version":"","capabilities":{},"defaultInputModes":[],"defaultOutputModes":[],"skills":[],"additionalInterfaces":[{"transport":"JSONRPC"}],"security":[{"x":[1]}]}`, []string{"url: is required", "additionalInterfaces[0].url: is required", "security[0].schemes.x.list[0]: must be a string"}, true},
		{"two schemes in one", edit(t, goodCard, "/securitySchemes/key/mtlsSecurityScheme", `{}`), []string{"securitySchemes.key: has more than one of"}, true},
		{"unknown scheme", edit(t, goodCard, "/securitySchemes/key", `{"type":"token"}`), []string{"securitySchemes.key: has none of"}, true},
		{"undeclared scheme", edit(t, goodCard, "/securityRequirements", `[{"schemes":{"ghost":{}}}]`), []string{"securityRequirements[0].schemes.ghost: is not declared"}, false},
		{"bad location", edit(t, goodCard, "/securitySchemes/key/apiKeySecurityScheme/location", `"body"`), []string{"securitySchemes.key.apiKeySecurityScheme.location: is none of"}, true},
		{"flow without token URL", edit(t, goodCard, "/securitySchemes/oauth/oauth2SecurityScheme/flows/clientCredentials/tokenUrl", ""), []string{"securitySchemes.oauth.oauth2SecurityScheme.flows.clientCredentials.tokenUrl: must be an http or https address"}, true},
		{"script link", edit(t, goodCard, "/iconUrl", `"javascript:alert(1)"`), []string{"iconUrl: must be an http or https address"}, true},
		{"inline icon", edit(t, goodCard, "/iconUrl", `"data:image/png;base64,AAAA"`), nil, false},
		{"JavaScript SDK scheme", edit(t, goodCard, "/securitySchemes/key", `{"scheme":{"$case":"apiKeySecurityScheme","value":{"location":"header","name":"X"}}}`), []string{"securitySchemes.key: is in the internal form of the JavaScript SDK"}, false},
		{"JavaScript SDK flow", edit(t, goodCard, "/securitySchemes/oauth", `{"scheme":{"$case":"oauth2SecurityScheme","value":{"flows":{"flow":{"$case":"clientCredentials","value":{"tokenUrl":"https://l.example/t","scopes":{}}}}}}}`), []string{"securitySchemes.oauth: is in the internal form"}, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			card, problems := ParseCard([]byte(tt.card))
			if (card == nil) != tt.refused {
				t.Errorf("refused: %v, want %v; problems %v", card == nil, tt.refused, show(problems))
			}
			all := strings.Join(show(problems), "\n")
			for _, want := range tt.want {
				if !strings.Contains(all, want) {
					t.Errorf("no problem %q among\n%s", want, all)
				}
			}
		})
	}
}

func TestCardSecrets(t *testing.T) {
	// Built from pieces, so that no scanner takes this file for a leak.
	hex := "9f86d081" + "884c7d659a2feaa0c55ad015"
	secrets := map[string]string{
		"OpenAI-like key":      "use sk-" + "proj-" + hex + hex,
		"GitHub token":         "gh" + "p_" + "A1b2C3d4E5f6G7h8I9j0K1l2M3n4O5p6Q7r8",
		"AWS key":              "AKIA" + "Q3EGRT7LKJ2MNB5V",
		"our own key":          "pk_" + hex + hex,
		"Slack":                "xoxb-" + "123456789012-" + hex,
		"bearer":               "Authorization: Bearer " + hex,
		"basic":                "Basic " + "YWxpY2U6aHVudGVyMg==",
		"JWT":                  "eyJhbGciOiJIUzI1NiJ9" + ".eyJzdWIiOiIxMjM0NTY3ODkwIn0" + ".dozjgNryP4J3jVmNHl0w5N_XgL0n3I9P",
		"PEM":                  "-----BEGIN " + "EC PRIVATE KEY-----\nMHcC",
		"URL password":         "see https://bob:" + "hunter2@x.example/a",
		"URL query":            "https://x.example/rpc?a=1&api_" + "key=abc123",
		"escaped query":        "https://x.example/rpc?access%5F" + "token=abc123",
		"connection string":    "postgres://u:" + "s3cret@db/x",
		"assignment in a text": "call with api_key=" + hex,
	}
	for name, text := range secrets {
		for _, path := range []string{"/description", "/x-note", "/provider/organization"} {
			doc := edit(t, goodCard, path, string(jsonwire.Quote(text)))
			card, problems := ParseCard([]byte(doc))
			all := strings.Join(show(problems), "\n")
			where := strings.ReplaceAll(path[1:], "/", ".")
			if card != nil || !strings.Contains(all, "error "+where+": looks like") {
				t.Errorf("%s in %s passes: %s", name, where, all)
			}
			if strings.Contains(all, hex) || strings.Contains(all, "hunter2") {
				t.Errorf("%s: the problem repeats the secret: %s", name, all)
			}
		}
	}
	if card, problems := ParseCard([]byte(edit(t, goodCard, "/x-auth", `{"client_secret":"`+hex+`"}`))); card != nil {
		t.Errorf("a random client_secret passes: %v", problems)
	}
	if card, problems := ParseCard([]byte(edit(t, goodCard, "/supportedInterfaces", `[{"url":"https://x.example/?token=abc","protocolBinding":"JSONRPC","protocolVersion":"1.0"}]`))); card != nil {
		t.Errorf("a token in an interface's query passes: %v", problems)
	}
}

func TestCardHarmless(t *testing.T) {
	for _, text := range []string{
		"Send your key as Authorization: Bearer YOUR_API_KEY",
		"Bearer authentication with an OAuth token",
		"Authorization: Bearer <token-from-the-portal-123>",
		"The password must be 12 characters long; token=opaque",
		"Issues JWTs such as eyJhbGciOi...",
		"GET https://x.example/search?q=1&key={your_key}",
		"Task ids look like 0197b0e2-7f5c-7a3e-9d0e-1c2b3a495867",
		"sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
		"mailto:team@books.example.com or ssh://git@host.example/repo.git",
		"Basic bookkeeping, basic arithmetic and basic authentication",
		"sk-learn and task-specific pipelines",
		"AKIAIOSFODNN7EXAMPLE is the documented sample",
	} {
		doc := edit(t, goodCard, "/description", string(jsonwire.Quote(text)))
		if card, problems := ParseCard([]byte(doc)); card == nil {
			t.Errorf("%q is refused: %v", text, show(problems))
		}
	}
}

func TestRewriteCard(t *testing.T) {
	union := edit(t, edit(t, goodCard, "/url", `"https://10.1.2.3:8443/old"`), "/security", `[{"key":[]}]`)
	public := []AgentInterface{
		{URL: "https://mesh.example.com/agents/ledger/", ProtocolBinding: JSONRPC, ProtocolVersion: V10},
		{URL: "https://mesh.example.com/agents/ledger/", ProtocolBinding: HTTPJSON, ProtocolVersion: V10},
	}
	raw, err := RewriteCard([]byte(union), CardRewrite{
		Interfaces:           public,
		SecuritySchemes:      map[string]SecurityScheme{"parley": {HTTPAuth: &HTTPAuthScheme{Scheme: "Bearer"}}},
		SecurityRequirements: []SecurityRequirement{{Schemes: map[string]StringList{"parley": {}}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	const want = `{"name":"Ledger","description":"Keeps books.","supportedInterfaces":[{"url":"https://mesh.example.com/agents/ledger/","protocolBinding":"JSONRPC","protocolVersion":"1.0"},` +
		`{"url":"https://mesh.example.com/agents/ledger/","protocolBinding":"HTTP+JSON","protocolVersion":"1.0"}],"provider":{"url":"https://books.example.com","organization":"Books"},"version":"3.1",` +
		`"capabilities":{"streaming":false,"pushNotifications":false,"extensions":[{"uri":"https://e.example/1","params":{"a":1.50}}]},` +
		`"securitySchemes":{"parley":{"httpAuthSecurityScheme":{"scheme":"Bearer"}}},"securityRequirements":[{"schemes":{"parley":{}}}],` +
		`"defaultInputModes":["text/plain"],"defaultOutputModes":["text/plain"],"skills":[{"id":"book","name":"Book","description":"Books a sum.","tags":["money"],"x-cost":2}],"iconUrl":"","x-note":{"kept":true}}`
	if string(raw) != want {
		t.Errorf("got\n%s\nwant\n%s", raw, want)
	}
	if _, problems := ParseCard(raw); len(problems) != 0 {
		t.Errorf("the rewritten card has problems: %v", problems)
	}
	if _, err := RewriteCard([]byte(`{}`), CardRewrite{Interfaces: public}); err == nil {
		t.Error("{} can be rewritten")
	}
}

func FuzzCard(f *testing.F) {
	f.Add([]byte(goodCard))
	f.Add([]byte(`{}`))
	f.Add([]byte(`{"url":"x","securitySchemes":{"a":{"scheme":{"$case":"x","value":{}}}}}`))
	f.Add([]byte(`{"securitySchemes":{"a/b":{"scheme":{"$case":"oauth2SecurityScheme","value":{"flows":{"flow":{"$case":"password","value":{}}}}}}}}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		card, problems := ParseCard(raw)
		if (card == nil) != Refused(problems) {
			t.Fatalf("card %v, problems %v", card, problems)
		}
		if card == nil {
			return
		}
		out, err := RewriteCard(raw, CardRewrite{Interfaces: []AgentInterface{{URL: "https://mesh.example.com/", ProtocolBinding: JSONRPC, ProtocolVersion: V10}}})
		if err != nil {
			t.Fatalf("an accepted card cannot be rewritten: %v", err)
		}
		if again, problems := ParseCard(out); again == nil {
			t.Fatalf("the rewritten card is refused: %s: %v", out, problems)
		}
	})
}
