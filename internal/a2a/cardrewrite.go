package a2a

import (
	"fmt"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/parley-mesh/parley/internal/a2a/v03"
	"github.com/parley-mesh/parley/internal/jsonwire"
)

// CardRewrite is what a gateway puts in place of an agent's own addresses and
// schemes.
type CardRewrite struct {
	Interfaces           []AgentInterface          // all of them; the agent's own are dropped
	SecuritySchemes      map[string]SecurityScheme // nil drops the member
	SecurityRequirements []SecurityRequirement     // nil drops the member
	// OldSecurity is told to readers of 0.3 alone, where SecurityRequirements is nil.
	OldSecurity       []SecurityRequirement
	PushNotifications bool
	ExtendedAgentCard *bool  // nil leaves the agent's word
	Name              string // empty leaves the agent's
}

// RewriteCard returns the card that a gateway shows for an agent: with the public
// addresses and the gateway's schemes, without signatures, which the change makes
// void. Members of 0.3 stand beside those of v1.0 where Interfaces lists some of 0.3;
// see v03.UnionCard. Everything else is kept, members this version does not know
// included. raw must be a card that ParseCard accepted.
func RewriteCard(raw []byte, to CardRewrite) ([]byte, error) {
	card, problems := ParseCard(raw)
	if card == nil {
		for _, p := range problems {
			if p.Level == LevelError {
				return nil, fmt.Errorf("rewrite card: %s", p)
			}
		}
	}
	card.SupportedInterfaces = to.Interfaces
	card.SecuritySchemes = to.SecuritySchemes
	card.SecurityRequirements = to.SecurityRequirements
	card.Signatures = nil
	card.Capabilities.PushNotifications = &to.PushNotifications
	if to.ExtendedAgentCard != nil {
		card.Capabilities.ExtendedAgentCard = to.ExtendedAgentCard
	}
	if to.Name != "" {
		card.Name = to.Name
	}
	var err error
	for i := range card.Skills {
		// They name schemes of the agent, which callers of the gateway never meet.
		card.Skills[i].SecurityRequirements = nil
		if card.Skills[i].Unknown, err = without(card.Skills[i].Unknown, []string{"security"}); err != nil {
			return nil, fmt.Errorf("rewrite card: %w", err)
		}
	}
	if card.Unknown, err = without(card.Unknown, v03.CardMembers); err != nil {
		return nil, fmt.Errorf("rewrite card: %w", err)
	}
	hidden := card.SecurityRequirements == nil && to.OldSecurity != nil
	if hidden {
		card.SecurityRequirements = to.OldSecurity
	}
	out, err := jsonwire.Marshal(card)
	if err == nil {
		out, err = v03.UnionCard(out)
	}
	if err == nil && hidden {
		out, err = jsonwire.Delete(out, "/securityRequirements")
	}
	if err != nil {
		return nil, fmt.Errorf("rewrite card: %w", err)
	}
	return out, nil
}

func without(object jsontext.Value, names []string) (jsontext.Value, error) {
	if len(object) == 0 {
		return nil, nil
	}
	for _, name := range names {
		var err error
		if object, err = jsonwire.Delete(object, "/"+name); err != nil {
			return nil, err
		}
	}
	return object, nil
}
