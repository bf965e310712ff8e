package oidc

import (
	"encoding/base64"
	"fmt"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/parley-mesh/parley/internal/identity"
	"github.com/parley-mesh/parley/internal/jsonwire"
)

const (
	// MaxToken is the longest token that is read, in bytes. Groups of a large
	// directory make tokens of several kilobytes; a request's header holds not
	// much more than this.
	MaxToken = 16 << 10
	// maxTokenDepth is how deep the JSON of a token may nest.
	maxTokenDepth = 16
	// maxKeyID is the longest kid, in bytes.
	maxKeyID = 512
)

// token is a token whose form is right. Nothing in it is true before its
// signature is verified.
type token struct {
	compact   string
	payload   jsontext.Value // a JSON object
	algorithm string
	keyID     string // empty: none
	typ       string // lower case, without "application/"
	issuer    string
}

// strict refuses base64 that has a second way to be written.
var strict = base64.RawURLEncoding.Strict()

// notTaken is the refusal of a token that is not of the form that is taken.
func notTaken(format string, args ...any) error {
	return &identity.Refusal{Reason: identity.ReasonToken, Detail: "the token is not taken: " + fmt.Sprintf(format, args...)}
}

// parse reads a token's form. It believes nothing and asks nobody.
func parse(compact string) (*token, error) {
	if len(compact) > MaxToken {
		return nil, notTaken("it has more than %d bytes: let the issuer put less into it", MaxToken)
	}
	parts := strings.Split(compact, ".")
	if strings.ContainsAny(compact, "\r\n") { // which encoding/base64 would skip
		return nil, notTaken("it has line breaks in it")
	}
	if len(parts) != 3 || parts[0] == "" || parts[1] == "" || parts[2] == "" {
		return nil, notTaken("it is not a signed JWT in compact form: encrypted, detached and opaque tokens are not understood")
	}
	header, err := object(parts[0])
	if err != nil {
		return nil, notTaken("its header is no JSON object without repeated names")
	}
	payload, err := object(parts[1])
	if err != nil {
		return nil, notTaken("its claims are no JSON object without repeated names")
	}
	if _, err := strict.DecodeString(parts[2]); err != nil {
		return nil, notTaken("its signature is not base64url")
	}
	t := &token{compact: compact, payload: payload, typ: "jwt"} // RFC 7519: the type may be left out
	for _, m := range jsonwire.Members(header) {
		if err := t.headerMember(m); err != nil {
			return nil, err
		}
	}
	if t.algorithm == "" {
		return nil, notTaken("its header names no algorithm")
	}
	raw, _ := jsonwire.Get(payload, "/iss")
	if t.issuer = jsonwire.String(raw); t.issuer == "" {
		return nil, notTaken("it names no issuer")
	}
	return t, nil
}

// object decodes one part that must be a JSON object.
func object(part string) (jsontext.Value, error) {
	raw, err := strict.DecodeString(part)
	if err != nil {
		return nil, err
	}
	if e := jsonwire.Valid(raw, jsonwire.Limits{MaxBytes: MaxToken, MaxDepth: maxTokenDepth}); e != nil {
		return nil, e
	}
	if jsontext.Value(raw).Kind() != '{' {
		return nil, fmt.Errorf("no object")
	}
	return raw, nil
}

// headerMember reads what counts in a header. Keys, certificates and addresses
// of them that a token brings along (jwk, jku, x5c, x5u) are not looked at: they
// would be the word of whoever made the token.
func (t *token) headerMember(m jsonwire.Member) error {
	text := jsonwire.String(m.Value)
	switch m.Name {
	case "alg":
		t.algorithm = text
	case "kid":
		if t.keyID = text; text == "" || len(text) > maxKeyID {
			return notTaken("its key id (kid) is empty or longer than %d bytes", maxKeyID)
		}
	case "typ":
		if t.typ = strings.TrimPrefix(strings.ToLower(text), "application/"); t.typ == "" {
			return notTaken("its type (typ) is not a text")
		}
	case "cty":
		if strings.EqualFold(text, "JWT") {
			return notTaken("there is another token inside of it")
		}
	case "crit", "b64":
		return notTaken("its header has %q, an extension that is not understood", m.Name)
	case "enc", "zip":
		return notTaken("it is encrypted or compressed")
	}
	return nil
}

// checkHeader compares a header with what the issuer may use.
func (i *issuer) checkHeader(t *token) error {
	if !slices.Contains(i.Algorithms, t.algorithm) {
		return notTaken("its algorithm is not one that is taken of its issuer (%s)", strings.Join(i.Algorithms, ", "))
	}
	if !slices.Contains(i.Types, t.typ) {
		return notTaken("its type is not one that is taken of its issuer (%s): is it an access token?", strings.Join(i.Types, ", "))
	}
	return nil
}
