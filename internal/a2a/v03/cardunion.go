package v03

import (
	"slices"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/parley-mesh/parley/internal/jsonwire"
)

// UnionCard gives a card of v1.0 the members that readers of 0.3 look for, so that
// one document serves both: each generation passes over what it does not know. A card
// without an interface of 0.3 (one with a tenant is none: 0.3 has no tenants) has
// nothing to tell them and comes back as it is. What is told in the old form:
//
//   - the first interface of 0.3 as url and preferredTransport, and all of them as
//     additionalInterfaces where there are several;
//   - securitySchemes with the members of OpenAPI beside those of v1.0, in one object;
//   - security, of the card and of its skills, from securityRequirements;
//   - supportsAuthenticatedExtendedCard from capabilities.extendedAgentCard.
//
// Members of 0.3 that the card has are replaced. raw must be a valid card.
func UnionCard(raw []byte) ([]byte, error) {
	card := fieldsOf(raw)
	if card == nil {
		return nil, errNoCard
	}
	old := interfacesFromV1(card)
	if len(old) == 0 {
		return raw, nil
	}
	card = oldMembers(card, old)
	if schemes := fieldsOf(card.get("securitySchemes")); len(schemes) > 0 {
		schemes = slices.Clone(schemes)
		for i, m := range schemes {
			schemes[i].Value = bothForms(fieldsOf(m.Value)).json()
		}
		card = card.set("securitySchemes", schemes.json())
	}
	return card.json(), nil
}

// oldMembers gives a card all members of 0.3 but the form of its schemes.
func oldMembers(card cardFields, interfaces []cardFields) cardFields {
	card = card.without(CardMembers...)
	card = card.set("protocolVersion", jsonwire.Quote(CardVersion)).
		fill("url", interfaces[0].get("url")).fill("preferredTransport", interfaces[0].get("transport"))
	if len(interfaces) > 1 {
		var list []jsontext.Value
		for _, i := range interfaces {
			list = append(list, i.json())
		}
		card = card.set("additionalInterfaces", listOf(list))
	}
	card = card.fill("supportsAuthenticatedExtendedCard", fieldsOf(card.get("capabilities")).get("extendedAgentCard"))
	card = oldSecurity(card)
	if skills, ok := changed(card.get("skills"), func(skill jsontext.Value) (jsontext.Value, bool) {
		f := fieldsOf(skill)
		return oldSecurity(f.without("security")).json(), f.get("securityRequirements") != nil || f.get("security") != nil
	}); ok {
		card = card.set("skills", skills)
	}
	return card
}

// interfacesFromV1 are the interfaces that 0.3 can be told of, in its form.
func interfacesFromV1(card cardFields) (list []cardFields) {
	for _, raw := range jsonwire.Elements(card.get("supportedInterfaces")) {
		i := fieldsOf(raw)
		if !before1(i.text("protocolVersion")) || i.text("tenant") != "" {
			continue
		}
		list = append(list, cardFields{}.fill("url", i.get("url")).fill("transport", i.get("protocolBinding")))
	}
	return list
}

// oldSecurity writes the requirements of a card or skill in the form of OpenAPI.
func oldSecurity(object cardFields) cardFields {
	requirements := object.get("securityRequirements")
	if requirements == nil {
		return object
	}
	list, _ := changed(requirements, func(r jsontext.Value) (jsontext.Value, bool) {
		var out cardFields
		for _, m := range fieldsOf(fieldsOf(r).get("schemes")) {
			scopes := fieldsOf(m.Value).get("list")
			if scopes == nil {
				scopes = jsontext.Value("[]")
			}
			out = append(out, jsonwire.Member{Name: m.Name, Value: scopes})
		}
		return out.json(), true
	})
	return object.set("security", list)
}

// bothForms adds the members of OpenAPI to a scheme of v1.0.
func bothForms(scheme cardFields) cardFields {
	for _, pair := range schemeMembers {
		inner := fieldsOf(scheme.get(pair[1]))
		if inner == nil {
			continue
		}
		scheme = scheme.set("type", jsonwire.Quote(pair[0]))
		for _, m := range oldScheme(pair[0], inner) {
			scheme = scheme.fill(m.Name, m.Value)
		}
		return scheme
	}
	return scheme
}

// oldScheme is what is inside a scheme of v1.0 as 0.3 has it. Readers of 0.3 refuse a
// whole card for a flow that lacks what they require, so that stands there empty.
func oldScheme(kind string, inner cardFields) cardFields {
	switch kind {
	case "apiKey":
		if location := inner.get("location"); location != nil {
			return inner.without("location").set("in", location)
		}
	case "oauth2":
		flows := slices.Clone(fieldsOf(inner.get("flows")))
		if flows == nil {
			break
		}
		for i, flow := range flows {
			f := fieldsOf(flow.Value)
			for _, name := range oldFlows[flow.Name] {
				f = f.fill(name, jsontext.Value(`""`))
			}
			flows[i].Value = f.fill("scopes", jsontext.Value("{}")).json()
		}
		return inner.set("flows", flows.json())
	}
	return inner
}

// oldFlows are the members that 0.3 requires of a flow, scopes aside.
var oldFlows = map[string][]string{
	"authorizationCode": {"authorizationUrl", "tokenUrl"}, "clientCredentials": {"tokenUrl"},
	"implicit": {"authorizationUrl"}, "password": {"tokenUrl"},
}
