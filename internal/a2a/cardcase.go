package a2a

import (
	"github.com/go-json-experiment/json/jsontext"

	"github.com/parley-mesh/parley/internal/jsonwire"
)

// The JavaScript SDK serves its internal form of a oneof, in which the member that
// is set is wrapped: {"scheme":{"$case":"httpAuthSecurityScheme","value":{…}}}
// stands for {"httpAuthSecurityScheme":{…}}. It occurs in security schemes, and
// inside them in OAuth flows.

// unwrapCases rewrites the wrapped security schemes of a card and says so. A card
// without any is returned as it is.
func (j *cardJudge) unwrapCases(raw []byte) []byte {
	schemes, ok := jsonwire.Get(raw, "/securitySchemes")
	if !ok || schemes[0] != '{' {
		return raw
	}
	for _, m := range jsonwire.Members(schemes) {
		plain, ok := unwrapCase(m.Value)
		if !ok {
			continue
		}
		if flow, ok := jsonwire.Get(plain, "/oauth2SecurityScheme/flows"); ok {
			if flow, ok := unwrapCase(flow); ok {
				if mended, err := jsonwire.Set(plain, "/oauth2SecurityScheme/flows", flow); err == nil {
					plain = mended
				}
			}
		}
		mended, err := jsonwire.Set(raw, "/securitySchemes/"+jsonwire.EscapePointer(m.Name), plain)
		if err != nil {
			continue
		}
		raw = mended
		j.warn("securitySchemes."+clip(m.Name), `is in the internal form of the JavaScript SDK (scheme.$case); it is read as if it were A2A`,
			`serve {"httpAuthSecurityScheme":{…}} or the like, without "scheme" and "$case"`)
	}
	return raw
}

// unwrapCase finds the one member of an object that wraps a oneof.
func unwrapCase(object jsontext.Value) (jsontext.Value, bool) {
	for _, m := range jsonwire.Members(object) {
		name, ok := jsonwire.Get(m.Value, "/$case")
		value, has := jsonwire.Get(m.Value, "/value")
		if !ok || !has || jsonwire.String(name) == "" {
			continue
		}
		plain := append(jsontext.Value{'{'}, name...)
		plain = append(append(plain, ':'), value...)
		return append(plain, '}'), true
	}
	return nil, false
}

// PlainCard is the card as ParseCard reads it: what SDKs write in a form of their
// own is in that of A2A. A card without such is returned as it is.
func PlainCard(raw []byte) []byte {
	j := &cardJudge{}
	return j.wrapScopes(j.unwrapCases(raw))
}
