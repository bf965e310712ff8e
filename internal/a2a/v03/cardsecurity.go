package v03

import (
	"slices"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/parley-mesh/parley/internal/jsonwire"
)

// schemeMembers are the members that v1.0 puts a security scheme in, by the type
// that 0.3, like OpenAPI, writes into it.
var schemeMembers = [][2]string{
	{"apiKey", "apiKeySecurityScheme"}, {"http", "httpAuthSecurityScheme"}, {"oauth2", "oauth2SecurityScheme"},
	{"openIdConnect", "openIdConnectSecurityScheme"}, {"mutualTLS", "mtlsSecurityScheme"},
}

// flowKinds are the flows of OAuth 2 that either version knows.
var flowKinds = []string{"authorizationCode", "clientCredentials", "deviceCode", "implicit", "password"}

// maxAlternatives bounds how many requirements of a card are made of those that name
// schemes with several flows. Of further ones the first flow alone is told.
const maxAlternatives = 64

// flowNames tells which schemes stand for one that had several flows.
type flowNames struct {
	of   map[string][]string
	left int // of maxAlternatives
}

// schemesToV1 rewrites the schemes of 0.3's form; nil where there are none.
func schemesToV1(raw jsontext.Value) (jsontext.Value, *flowNames) {
	schemes, touched := fieldsOf(raw), false
	split := &flowNames{of: map[string][]string{}, left: maxAlternatives}
	var out cardFields
	for _, m := range schemes {
		member, inner := schemeToV1(fieldsOf(m.Value))
		if inner == nil {
			out = append(out, m)
			continue
		}
		touched = true
		flows := slices.DeleteFunc(fieldsOf(inner.get("flows")), func(f jsonwire.Member) bool { return !slices.Contains(flowKinds, f.Name) })
		if member != "oauth2SecurityScheme" || len(flows) < 2 {
			out = append(out, jsonwire.Member{Name: m.Name, Value: wrapped(member, inner)})
			continue
		}
		for n, flow := range flows {
			name := m.Name
			for name += "-" + flow.Name; schemes.get(name) != nil; name += "_" { // a name of its own
			}
			if n == 0 {
				name = m.Name
			}
			split.of[m.Name] = append(split.of[m.Name], name)
			out = append(out, jsonwire.Member{Name: name, Value: wrapped(member, inner.set("flows", cardFields{flow}.json()))})
		}
	}
	if !touched {
		return nil, split
	}
	return out.json(), split
}

func wrapped(member string, inner cardFields) jsontext.Value {
	return cardFields{{Name: member, Value: inner.json()}}.json()
}

// schemeToV1 gives the member of v1.0 that a scheme with a type belongs in, and what
// belongs inside; nil for a scheme without a type that is known.
func schemeToV1(scheme cardFields) (member string, inner cardFields) {
	kind := scheme.text("type")
	for _, pair := range schemeMembers {
		if kind != pair[0] {
			continue
		}
		if has := fieldsOf(scheme.get(pair[1])); has != nil {
			return pair[1], has // it is written in both forms
		}
		inner = scheme.without("type")
		if kind == "apiKey" {
			if in := inner.get("in"); in != nil {
				inner = inner.without("in").fill("location", in)
			}
		}
		if inner == nil {
			inner = cardFields{}
		}
		return pair[1], inner
	}
	return "", nil
}

// requirementsToV1 gives an object the member securityRequirements that its member
// security stands for, and takes the latter away.
func requirementsToV1(object cardFields, split *flowNames) (cardFields, bool) {
	old := object.get("security")
	if old == nil {
		return object, false
	}
	if object.get("securityRequirements") != nil || old.Kind() != '[' {
		return object.without("security"), true
	}
	var all []jsontext.Value
	for _, r := range jsonwire.Elements(old) {
		for _, alternative := range alternatives(requirement(r), split) {
			all = append(all, cardFields{{Name: "schemes", Value: alternative.json()}}.json())
		}
	}
	return object.without("security").set("securityRequirements", listOf(all)), true
}

// requirement reads one requirement of 0.3, in either of its forms, as the schemes
// of one of v1.0.
func requirement(raw jsontext.Value) cardFields {
	r := fieldsOf(raw)
	if schemes := r.get("schemes"); schemes.Kind() == '{' {
		return fieldsOf(schemes)
	}
	out := make(cardFields, 0, len(r))
	for _, m := range r {
		scopes := cardFields{}
		if m.Value.Kind() != '[' || len(jsonwire.Elements(m.Value)) > 0 {
			scopes = cardFields{{Name: "list", Value: m.Value}}
		}
		out = append(out, jsonwire.Member{Name: m.Name, Value: scopes.json()})
	}
	return out
}

// alternatives are the requirements that stand for one whose schemes were split.
func alternatives(r cardFields, split *flowNames) []cardFields {
	all := []cardFields{nil}
	defer func() { split.left -= len(all) - 1 }()
	for _, m := range r {
		names := split.of[m.Name]
		if len(names) == 0 || len(all)*len(names)-1 > split.left {
			names = []string{m.Name}
		}
		var next []cardFields
		for _, sofar := range all {
			for _, name := range names {
				next = append(next, append(slices.Clone(sofar), jsonwire.Member{Name: name, Value: m.Value}))
			}
		}
		all = next
	}
	return all
}
