package a2atest

import (
	"net/http"
	"slices"

	"github.com/parley-mesh/parley/internal/a2a"
	"github.com/parley-mesh/parley/internal/jsonwire"
)

// Card is the agent's card.
func (a *Agent) Card() *a2a.AgentCard {
	a.mu.Lock()
	defer a.mu.Unlock()
	yes, no := true, false
	streaming, extended := &yes, &no
	if a.opt.NoStreaming {
		streaming = &no
	}
	push := &no
	if a.opt.Push != nil {
		push = &yes
	}
	if a.opt.Extended != ExtendedNone {
		extended = &yes
	}
	card := &a2a.AgentCard{
		Name:               "Reference agent",
		Description:        "Does what the beginning of a message's id says.",
		Version:            "1.0.0",
		Capabilities:       a2a.AgentCapabilities{Streaming: streaming, PushNotifications: push, ExtendedAgentCard: extended, Extensions: a.opt.Extensions},
		DefaultInputModes:  a.opt.InputModes,
		DefaultOutputModes: outputModes,
		Skills:             []a2a.AgentSkill{{ID: "repeat", Name: "Repeat", Description: "Repeats a text.", Tags: []string{"test"}}},
	}
	for _, b := range a.opt.Bindings {
		url := a.url
		if b == a2a.GRPC {
			url = a.grpc
		}
		card.SupportedInterfaces = append(card.SupportedInterfaces, a2a.AgentInterface{URL: url, ProtocolBinding: b, Tenant: a.opt.Tenant, ProtocolVersion: a2a.V10})
	}
	if len(a.opt.Credentials) > 0 || a.opt.Extended == ExtendedServed {
		card.SecuritySchemes = map[string]a2a.SecurityScheme{"bearer": {HTTPAuth: &a2a.HTTPAuthScheme{Scheme: "Bearer"}}}
	}
	if len(a.opt.Credentials) > 0 {
		card.SecurityRequirements = []a2a.SecurityRequirement{{Schemes: map[string]a2a.StringList{"bearer": {}}}}
	}
	return card
}

func (a *Agent) publicCard(r *http.Request) ([]byte, error) {
	a.noteCard(r)
	return jsonwire.Marshal(a.Card())
}

// extendedCard answers GetExtendedAgentCard.
func (a *Agent) extendedCard(owner string) *a2a.Reply {
	switch a.opt.Extended {
	case ExtendedNone:
		return a2a.Fail(a2a.UnsupportedOperation("this agent has no extended card"))
	case ExtendedMissing:
		return a2a.Fail(a2a.NewError(a2a.ReasonExtendedCardMissing, "the extended card is not configured"))
	}
	if owner == "" {
		e := a2a.NewError(a2a.ReasonUnauthenticated, "the extended card needs a credential: send Authorization: Bearer TOKEN")
		e.Challenge = `Bearer realm="reference agent"`
		return a2a.Fail(e)
	}
	card := a.Card()
	card.Capabilities.Extensions = slices.Concat(card.Capabilities.Extensions, a.opt.Reserved)
	card.Skills = append(card.Skills, a2a.AgentSkill{ID: "count", Name: "Count", Description: "Counts, for callers who are known.", Tags: []string{"test"}})
	return a2a.Answer(a2a.GetExtendedCard, card)
}
