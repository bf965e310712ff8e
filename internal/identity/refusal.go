package identity

import (
	"cmp"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/parley-mesh/parley/internal/parley"
)

// Reason is why a credential identified nobody: a closed set, used by the
// failure summary.
type Reason string

// The reasons.
const (
	ReasonNone       Reason = "no_credential"
	ReasonScheme     Reason = "unsupported_scheme" // an Authorization that is not Bearer
	ReasonMalformed  Reason = "malformed"          // not of the form of a key
	ReasonUnknownKey Reason = "unknown_key"        // no such key, or a wrong secret
	ReasonExpired    Reason = "expired"
	ReasonRevoked    Reason = "revoked"
	ReasonLimited    Reason = "limited" // too many failures from that address

	// Of client certificates.
	ReasonCertificate   Reason = "certificate"          // not of an authority that is taken, expired, revoked, not a client's
	ReasonCertName      Reason = "certificate_name"     // its names cannot be used
	ReasonCertUnlinked  Reason = "certificate_unlinked" // its names prove nobody
	ReasonTwoPrincipals Reason = "two_principals"       // it proves one principal and the other credential another

	// Of tokens.
	ReasonToken        Reason = "token"         // not a token, or one the mesh does not take
	ReasonIssuer       Reason = "issuer"        // of an issuer that is not configured
	ReasonSignature    Reason = "signature"     // not signed with a key of its issuer
	ReasonTokenExpired Reason = "token_expired" // over, or not yet valid
	ReasonAudience     Reason = "audience"      // made for somebody else
	ReasonClaims       Reason = "claims"        // says nothing usable about its subject
	ReasonScope        Reason = "scope"         // lacks a scope
	ReasonUnlinked     Reason = "unlinked"      // its subject is no principal
	ReasonMoved        Reason = "moved"         // its subject belongs to another owner by now
	ReasonOwner        Reason = "owner"         // its owner does not exist
)

// reasons lists all reasons, in the order they are reported.
var reasons = []Reason{
	ReasonNone, ReasonScheme, ReasonMalformed, ReasonUnknownKey, ReasonExpired, ReasonRevoked, ReasonLimited,
	ReasonCertificate, ReasonCertName, ReasonCertUnlinked, ReasonTwoPrincipals,
	ReasonToken, ReasonIssuer, ReasonSignature, ReasonTokenExpired, ReasonAudience, ReasonClaims, ReasonScope, ReasonUnlinked, ReasonMoved, ReasonOwner,
}

// messages is what whoever asked reads; each says what to send.
var messages = map[Reason]string{
	ReasonNone:       "no credential: send an API key as \"Authorization: Bearer pk_...\" or \"X-API-Key: pk_...\", or a client certificate or an access token where the mesh takes them",
	ReasonScheme:     "this kind of Authorization is not understood: send an API key as \"Authorization: Bearer pk_...\"",
	ReasonMalformed:  "the credential is not an API key of this mesh: send pk_ID_SECRET exactly as it was shown when the key was made",
	ReasonUnknownKey: "the API key is not valid here: use a key of this mesh, or ask an admin for one (parley key create)",
	ReasonExpired:    "the API key has expired: ask an admin for a new one (parley key create)",
	ReasonRevoked:    "the API key is revoked: ask an admin for a new one (parley key create)",
	ReasonLimited:    "too many failed attempts from this address: wait, then send a valid API key",

	ReasonCertificate:   "the client certificate is not taken",
	ReasonCertName:      "no name in the client certificate can be used",
	ReasonCertUnlinked:  "the client certificate proves nobody here: ask an admin (parley principal link)",
	ReasonTwoPrincipals: "the client certificate and the other credential belong to two principals: send the one or the other, or both of one",
	ReasonToken:         "this is not a token that is taken here: send an access token as the issuer gave it",
	ReasonIssuer:        "the token's issuer is not known here: log in with one of those in the resource metadata",
	ReasonSignature:     "the token is not signed with a key of its issuer: get a new one",
	ReasonTokenExpired:  "the token has expired or is not valid yet: get a new one, and check the clock of whoever made it",
	ReasonAudience:      "the token is not made for this mesh: ask for one with this mesh as its audience",
	ReasonClaims:        "the token says too little about its subject: ask whoever runs the issuer",
	ReasonScope:         "the token lacks a scope that is needed here",
	ReasonUnlinked:      "the token is valid and its subject is nobody here: ask an admin (parley principal link)",
	ReasonMoved:         "the token's owner or environment is not that of its principal",
	ReasonOwner:         "the token's owner does not exist here",
}

// Refusal is the cause inside the errors of Identify, for whoever has to
// write an answer: why, and how long to wait.
type Refusal struct {
	Reason     Reason
	RetryAfter time.Duration // set for ReasonLimited
	Detail     string        // what whoever asked may read, instead of the reason's own words
	Scope      string        // set for ReasonScope: what is needed
}

// Error names the reason; it is for logs.
func (r *Refusal) Error() string {
	if r.RetryAfter > 0 {
		return fmt.Sprintf("%s, retry after %s", r.Reason, r.RetryAfter)
	}
	return string(r.Reason)
}

// refused makes the error of a refusal.
func refused(r *Refusal) error {
	kind := parley.Unauthorized
	switch r.Reason {
	case ReasonLimited:
		kind = parley.Exhausted
	case ReasonScope:
		kind = parley.Denied
	}
	return parley.E("identity.identify", kind, "", cmp.Or(r.Detail, messages[r.Reason]), r)
}

// RetryAfter is how long whoever got err should wait, for the header
// Retry-After; 0 where err asks for no wait.
func RetryAfter(err error) time.Duration {
	if r, ok := errors.AsType[*Refusal](err); ok {
		return r.RetryAfter
	}
	return 0
}

// Challenge is the value of the header WWW-Authenticate that belongs to err
// (RFC 6750, section 3); empty where err is not about a missing or invalid
// credential. metadata is the address of the resource's metadata (RFC 9728);
// empty where it has none.
func Challenge(err error, metadata string) string {
	r, ok := errors.AsType[*Refusal](err)
	if !ok || r.Reason == ReasonLimited {
		return ""
	}
	challenge := `Bearer realm="parley"`
	switch r.Reason {
	case ReasonNone, ReasonScheme, ReasonCertificate, ReasonCertName, ReasonCertUnlinked:
	case ReasonScope:
		challenge += `, error="insufficient_scope", scope="` + quotable(r.Scope) + `"`
	default:
		challenge += `, error="invalid_token", error_description="` + quotable(cmp.Or(r.Detail, messages[r.Reason])) + `"`
	}
	if metadata != "" {
		challenge += `, resource_metadata="` + quotable(metadata) + `"`
	}
	return challenge
}

// quotable is text as it may stand between quotes in a challenge: what RFC 6750
// does not allow there becomes an apostrophe.
func quotable(text string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r > '~' || r == '"' || r == '\\' {
			return '\''
		}
		return r
	}, text)
}
