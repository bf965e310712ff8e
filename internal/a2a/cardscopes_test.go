package a2a

import (
	"strings"
	"testing"
)

func TestBareScopeListsAreReadWithAWarning(t *testing.T) {
	const raw = `{"name":"n","description":"d","version":"1","supportedInterfaces":[{"url":"https://agent.example/a","protocolBinding":"JSONRPC","protocolVersion":"1.0"}],
		"capabilities":{},"defaultInputModes":["text/plain"],"defaultOutputModes":["text/plain"],
		"securitySchemes":{"oauth":{"httpAuthSecurityScheme":{"scheme":"bearer"}}},
		"securityRequirements":[{"schemes":{"oauth":["read"]}},{"schemes":{"oauth":{"list":["kept"]}}}],
		"skills":[{"id":"s","name":"s","description":"d","tags":["t"],"securityRequirements":[{"schemes":{"oauth":[]}}]}]}`
	card, problems := ParseCard([]byte(raw))
	if card == nil {
		t.Fatalf("refused: %v", problems)
	}
	if got := card.SecurityRequirements[0].Schemes["oauth"].List; len(got) != 1 || got[0] != "read" {
		t.Errorf("scopes = %v, want [read]", got)
	}
	if got := card.SecurityRequirements[1].Schemes["oauth"].List; len(got) != 1 || got[0] != "kept" {
		t.Errorf("a list in A2A's form became %v", got)
	}
	var said []string
	for _, p := range problems {
		said = append(said, p.Path)
	}
	if got := strings.Join(said, " "); !strings.Contains(got, "securityRequirements[0].schemes.oauth") || !strings.Contains(got, "skills[0].securityRequirements[0].schemes.oauth") {
		t.Errorf("warnings name %q", got)
	}
}
