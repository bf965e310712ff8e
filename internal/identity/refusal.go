package identity

import (
	"cmp"
	"errors"
	"fmt"
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
	ReasonTwoPrincipals Reason = "two_principals"       // it proves one principal and the key another
)

// reasons lists all reasons, in the order they are reported.
var reasons = []Reason{ReasonNone, ReasonScheme, ReasonMalformed, ReasonUnknownKey, ReasonExpired, ReasonRevoked, ReasonLimited,
	ReasonCertificate, ReasonCertName, ReasonCertUnlinked, ReasonTwoPrincipals}

// messages is what whoever asked reads; each says what to send.
var messages = map[Reason]string{
	ReasonNone:       "no credential: send an API key as \"Authorization: Bearer pk_...\" or \"X-API-Key: pk_...\"",
	ReasonScheme:     "this kind of Authorization is not understood: send an API key as \"Authorization: Bearer pk_...\"",
	ReasonMalformed:  "the credential is not an API key of this mesh: send pk_ID_SECRET exactly as it was shown when the key was made",
	ReasonUnknownKey: "the API key is not valid here: use a key of this mesh, or ask an admin for one (parley key create)",
	ReasonExpired:    "the API key has expired: ask an admin for a new one (parley key create)",
	ReasonRevoked:    "the API key is revoked: ask an admin for a new one (parley key create)",
	ReasonLimited:    "too many failed attempts from this address: wait, then send a valid API key",

	ReasonCertificate:   "the client certificate is not taken",
	ReasonCertName:      "no name in the client certificate can be used",
	ReasonCertUnlinked:  "the client certificate proves nobody here: ask an admin (parley principal link)",
	ReasonTwoPrincipals: "the client certificate and the API key belong to two principals: send the one or the other, or both of one",
}

// Refusal is the cause inside the errors of Identify, for whoever has to
// write an answer: why, and how long to wait.
type Refusal struct {
	Reason     Reason
	RetryAfter time.Duration // set for ReasonLimited
	Detail     string        // what whoever asked may read, instead of the reason's own words
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
	if r.Reason == ReasonLimited {
		kind = parley.Exhausted
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
// credential.
func Challenge(err error) string {
	r, ok := errors.AsType[*Refusal](err)
	switch {
	case !ok || r.Reason == ReasonLimited:
		return ""
	case r.Reason == ReasonNone || r.Reason == ReasonScheme || r.Reason == ReasonCertificate || r.Reason == ReasonCertName || r.Reason == ReasonCertUnlinked:
		return `Bearer realm="parley"`
	}
	return `Bearer realm="parley", error="invalid_token"`
}
