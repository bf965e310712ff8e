package probe

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/parley-mesh/parley/internal/a2a"
	"github.com/parley-mesh/parley/internal/parley"
	"github.com/parley-mesh/parley/internal/registry"
)

// readCard judges the card and takes over what is kept of it. A card that is
// refused gives an error that names every wrong field.
func (l *look) readCard(raw []byte) error {
	card, problems := a2a.ParseCard(raw)
	fields := l.tell(problems)
	if card == nil {
		return l.fail(parley.Invalid, "the card at "+l.found.CardURL+" cannot be used", fields...)
	}
	if n := len(card.SupportedInterfaces); n > maxInterfaces {
		const path, fix = "supportedInterfaces", "list those that callers need"
		problem := fmt.Sprintf("lists %d interfaces, at most %d are taken", n, maxInterfaces)
		l.problem(registry.Refusal, path, problem, fix)
		return l.fail(parley.Invalid, "the card at "+l.found.CardURL+" cannot be used", parley.Field{Path: path, Problem: problem, Fix: fix})
	}
	sum := sha256.Sum256(raw)
	l.found.Card, l.found.Hash = raw, hex.EncodeToString(sum[:])
	l.found.Title, l.found.Description, l.found.AgentVersion = words(card.Name, maxTitle), words(card.Description, maxDescription), words(card.Version, maxVersion)
	for _, i := range card.SupportedInterfaces {
		kept := registry.Interface{URL: i.URL, Binding: string(i.ProtocolBinding), Version: string(i.ProtocolVersion), Tenant: i.Tenant}
		if !spoken(kept) {
			kept.URL, kept.Binding, kept.Version, kept.Tenant = words(kept.URL, maxLabel), words(kept.Binding, maxLabel), words(kept.Version, maxLabel), words(kept.Tenant, maxLabel)
		} else if i.ProtocolBinding == a2a.GRPC {
			kept.URL = l.grpcURL(i.URL)
		}
		l.found.Interfaces = append(l.found.Interfaces, kept)
	}
	if a2a.OldCard(raw) {
		l.problem(registry.Note, "", "the card is one of A2A 0.3; what callers of 1.0 send is translated", "")
	}
	l.explainSecurity(card)
	return nil
}

// tell reports what is wrong with the card, what refuses it first, and gives
// what refuses it as fields.
func (l *look) tell(problems []a2a.Problem) (fields []parley.Field) {
	slices.SortStableFunc(problems, func(a, b a2a.Problem) int { return cmp.Compare(severity(a), severity(b)) })
	for _, p := range problems[:min(len(problems), maxCardProblems)] {
		p.Path, p.Problem, p.Fix = words(p.Path, maxLabel), words(p.Problem, maxDescription), words(p.Fix, maxDescription)
		if p.Level == a2a.LevelError {
			l.problem(registry.Refusal, p.Path, p.Problem, p.Fix)
			fields = append(fields, parley.Field{Path: p.Path, Problem: p.Problem, Fix: p.Fix})
		} else {
			l.problem(registry.Warning, p.Path, p.Problem, p.Fix)
		}
	}
	if more := len(problems) - maxCardProblems; more > 0 {
		l.problem(registry.Warning, "", fmt.Sprintf("and %d more problems of the card", more), "")
	}
	return fields
}

func severity(p a2a.Problem) int {
	if p.Level == a2a.LevelError {
		return 0
	}
	return 1
}

// explainSecurity tells which credential the agent wants, which command stores
// it, and what the mesh cannot do yet.
func (l *look) explainSecurity(card *a2a.AgentCard) {
	if len(card.SecuritySchemes) == 0 {
		return
	}
	possible := len(card.SecurityRequirements) == 0
	for _, r := range card.SecurityRequirements {
		possible = possible || l.canMeet(card, r)
	}
	// What cannot be met matters only where nothing else will do.
	level := registry.Note
	if !possible {
		level = registry.Warning
	}
	l.otherEndpoint(card)
	names := slices.Sorted(maps.Keys(card.SecuritySchemes))
	for _, name := range names[:min(len(names), maxSchemes)] {
		path := "securitySchemes." + plain(name)
		if c, kind := credentialFor(card.SecuritySchemes[name]); c != nil {
			command := registry.AuthCommand(l.request.Agent, *c)
			l.auth = cmp.Or(l.auth, command)
			l.problem(registry.Note, path, "the agent takes "+kind, command)
		} else {
			l.problem(level, path, "the agent takes "+kind+", which the mesh cannot show yet", "")
		}
	}
	if !possible {
		l.problem(registry.Warning, "securityRequirements", "the mesh cannot meet any of them: it shows an agent one bearer token, API key, or user and password, and a client certificate beside it", "let the agent accept these")
	}
}

// canMeet tells whether one credential, with a client certificate beside it,
// meets the requirement.
func (l *look) canMeet(card *a2a.AgentCard, r a2a.SecurityRequirement) bool {
	inRequest, certificates := 0, 0
	for name := range r.Schemes {
		c, _ := credentialFor(card.SecuritySchemes[name])
		switch {
		case c == nil:
			return false
		case c.Kind == registry.Certificate:
			certificates++
		default:
			inRequest++
		}
	}
	return inRequest <= 1 && certificates <= 1
}

// otherEndpoint warns where the card names another token endpoint than the one
// that was stored: the secret stays with the latter.
func (l *look) otherEndpoint(card *a2a.AgentCard) {
	c := l.request.Credential
	if c == nil || c.Token == nil {
		return
	}
	named := ""
	for _, s := range card.SecuritySchemes {
		if s.OAuth2 == nil || s.OAuth2.Flows.ClientCredentials == nil {
			continue
		}
		if named = s.OAuth2.Flows.ClientCredentials.TokenURL; named == c.Token.URL {
			return
		}
	}
	if named != "" {
		l.problem(registry.Warning, "securitySchemes", "the card names another token endpoint than the credential is stored with; the secret still goes to "+plain(c.Token.URL)+" only", "if the new one is right: "+registry.AuthCommand(l.request.Agent, registry.Credential{Kind: registry.OAuth2}))
	}
}

// credentialFor gives the shape of credential that a scheme wants, nil if the
// mesh has none, and the scheme in words.
func credentialFor(s a2a.SecurityScheme) (*registry.Credential, string) {
	switch {
	case s.APIKey != nil:
		where := fmt.Sprintf("an API key in the %s %s", plain(s.APIKey.Location), plain(s.APIKey.Name))
		c := &registry.Credential{Kind: registry.APIKey, In: s.APIKey.Location, Name: s.APIKey.Name}
		if !c.Possible() {
			return nil, where
		}
		return c, where
	case s.HTTPAuth != nil && strings.EqualFold(s.HTTPAuth.Scheme, "bearer"):
		return &registry.Credential{Kind: registry.Bearer}, "a bearer token"
	case s.HTTPAuth != nil && strings.EqualFold(s.HTTPAuth.Scheme, "basic"):
		return &registry.Credential{Kind: registry.Basic}, "user and password (basic)"
	case s.HTTPAuth != nil:
		return nil, "HTTP authentication by " + plain(s.HTTPAuth.Scheme)
	case s.OAuth2 != nil && s.OAuth2.Flows.ClientCredentials != nil:
		return oauthFor(s.OAuth2.Flows.ClientCredentials), "OAuth 2 (client credentials)"
	case s.OAuth2 != nil:
		return nil, "OAuth 2 with a person"
	case s.OpenIDConnect != nil:
		return nil, "OpenID Connect"
	case s.MutualTLS != nil:
		return &registry.Credential{Kind: registry.Certificate}, "a client certificate"
	}
	return nil, "an unknown scheme"
}

// oauthFor is the shape of a client of the flow. What the card names is advice
// for an operator: the mesh asks for tokens only where an operator said.
func oauthFor(f *a2a.OAuthFlow) *registry.Credential {
	c := &registry.Credential{Kind: registry.OAuth2, Token: &registry.TokenRequest{URL: f.TokenURL, Scopes: slices.Sorted(maps.Keys(f.Scopes))}}
	if !c.Possible() { // the card's address or scopes are odd: the command alone is said
		c.Token = nil
	}
	return c
}
