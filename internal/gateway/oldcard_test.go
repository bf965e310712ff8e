package gateway_test

import (
	"io"
	"net/http"
	"slices"
	"testing"

	old "github.com/a2aproject/a2a-go/a2a"
	oldcard "github.com/a2aproject/a2a-go/a2aclient/agentcard"
	sdk "github.com/a2aproject/a2a-go/v2/a2a"
	sdkcard "github.com/a2aproject/a2a-go/v2/a2aclient/agentcard"
	"github.com/a2aproject/a2a-go/v2/a2acompat/a2av0"

	"github.com/parley-mesh/parley/internal/a2a/a2atest"
	"github.com/parley-mesh/parley/internal/control"
	"github.com/parley-mesh/parley/internal/parleytest"
)

// TestCardsForEveryReader: the cards of an agent of 0.3 and of one of 1.0 are read by
// the official Go SDKs of both versions, from both well-known places, and lead each
// of them to the mesh in its version.
func TestCardsForEveryReader(t *testing.T) {
	m := parleytest.Start(t, parleytest.Options{})
	m.Agent("new")
	m.Add(control.NewAgent{Name: "old", URL: a2atest.NewOldAgent(t).URL})
	for _, name := range []string{"new", "old"} {
		address := m.Ready.Public + "/agents/" + name + "/"
		for _, path := range []string{".well-known/agent-card.json", ".well-known/agent.json"} {
			card, err := oldcard.DefaultResolver.Resolve(t.Context(), address, oldcard.WithPath(path))
			if err != nil {
				t.Fatalf("%s at %s is not read by 0.3: %v", name, path, err)
			}
			if card.URL != address || card.PreferredTransport != old.TransportProtocolJSONRPC || card.ProtocolVersion != "0.3.0" ||
				!slices.Contains(card.AdditionalInterfaces, old.AgentInterface{URL: address, Transport: old.TransportProtocolHTTPJSON}) {
				t.Errorf("%s: a reader of 0.3 is led to %s by %s (%s) or %v", name, card.URL, card.PreferredTransport, card.ProtocolVersion, card.AdditionalInterfaces)
			}
			if bearer, ok := card.SecuritySchemes["bearer"].(old.HTTPAuthSecurityScheme); !ok || bearer.Scheme != "Bearer" ||
				!slices.ContainsFunc(card.Security, func(r old.SecurityRequirements) bool { _, ok := r["bearer"]; return ok && len(r) == 1 }) {
				t.Errorf("%s: a reader of 0.3 is told of %+v, of which it needs %v", name, card.SecuritySchemes, card.Security)
			}
		}
		var compat = sdkcard.NewResolver(http.DefaultClient)
		compat.CardParser = a2av0.NewAgentCardParser()
		for form, resolver := range map[string]*sdkcard.Resolver{"plain": sdkcard.DefaultResolver, "compat": compat} {
			card, err := resolver.Resolve(t.Context(), address)
			if err != nil {
				t.Fatalf("%s is not read by 1.0 (%s): %v", name, form, err)
			}
			first := card.SupportedInterfaces[0]
			if first.URL != address || first.ProtocolBinding != sdk.TransportProtocolJSONRPC || first.ProtocolVersion != "1.0" {
				t.Errorf("%s: a reader of 1.0 (%s) is led to %+v", name, form, first)
			}
			if bearer, ok := card.SecuritySchemes["bearer"].(sdk.HTTPAuthSecurityScheme); !ok || bearer.Scheme != "Bearer" {
				t.Errorf("%s: a reader of 1.0 (%s) is told of %+v", name, form, card.SecuritySchemes)
			}
		}
	}
}

// TestCardAtBothAddresses is the same document by GET and HEAD, with the validator
// that belongs to it.
func TestCardAtBothAddresses(t *testing.T) {
	m := parleytest.Start(t, parleytest.Options{})
	m.Add(control.NewAgent{Name: "old", URL: a2atest.NewOldAgent(t).URL})
	var text, tag string
	for _, path := range []string{"/.well-known/agent-card.json", "/.well-known/agent.json"} {
		for _, method := range []string{http.MethodGet, http.MethodHead} {
			req, err := http.NewRequestWithContext(t.Context(), method, m.Ready.Public+"/agents/old"+path, nil)
			if err != nil {
				t.Fatal(err)
			}
			resp, err := http.DefaultTransport.RoundTrip(req)
			if err != nil {
				t.Fatal(err)
			}
			raw, err := io.ReadAll(resp.Body)
			resp.Body.Close()
			if err != nil || resp.StatusCode != http.StatusOK || (method == http.MethodHead) != (len(raw) == 0) {
				t.Errorf("%s %s: %s, %d bytes, %v", method, path, resp.Status, len(raw), err)
			}
			if text == "" {
				text, tag = string(raw), resp.Header.Get("ETag")
			}
			if tag == "" || resp.Header.Get("ETag") != tag || len(raw) > 0 && string(raw) != text {
				t.Errorf("%s %s is another document: ETag %s, not %s", method, path, resp.Header.Get("ETag"), tag)
			}
		}
	}
}
