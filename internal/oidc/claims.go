package oidc

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/parley-mesh/parley/internal/identity"
	"github.com/parley-mesh/parley/internal/jsonwire"
	"github.com/parley-mesh/parley/internal/parley"
)

// maxSeconds is the latest time a claim may have, in seconds: the year 5138.
const maxSeconds = 1e11

// assertion checks the claims of a token whose signature is verified, and puts
// what they say into the mesh's words. It is pure.
func (i *issuer) assertion(t *token, now time.Time, own parley.Environment) (*identity.Assertion, error) {
	expires, err := i.checkTimes(t, now)
	if err != nil {
		return nil, err
	}
	if !slices.ContainsFunc(t.texts("aud"), func(aud string) bool { return slices.Contains(i.Audience, aud) }) {
		return nil, &identity.Refusal{Reason: identity.ReasonAudience}
	}
	if err := t.checkPurpose(); err != nil {
		return nil, err
	}
	if err := i.checkScopes(t); err != nil {
		return nil, err
	}
	a := &identity.Assertion{
		Issuer: i.ID, Subject: t.text("sub"), ExpiresAt: expires, Create: i.Create, Roles: slices.Clone(i.Roles),
	}
	if a.Subject == "" || len(a.Subject) > identity.MaxSubjectLength {
		return nil, unusable("it names no subject (sub), or one of more than %d bytes", identity.MaxSubjectLength)
	}
	a.Name = cmp.Or(t.text(cmp.Or(i.Claims.Name, "sub")), a.Subject)
	for _, value := range t.texts(i.Claims.Roles) {
		name, known := mapped(i.Claims.RoleMap, value)
		role, err := parley.ParseRole(name)
		if known && err == nil && !slices.Contains(a.Roles, role) {
			a.Roles = append(a.Roles, role)
		}
	}
	if i.Create {
		a.Homeless = i.home(t, a, own)
	}
	return a, nil
}

// home sets owner and environment, or says why it cannot. Only subjects that are
// admitted by claims need them: who was linked by hand has them from there.
func (i *issuer) home(t *token, a *identity.Assertion, own parley.Environment) *identity.Refusal {
	owner, err := one(t.texts(i.Claims.Owner), i.Claims.OwnerMap, func(s string) bool { return parley.CheckName("owner", s) == nil })
	switch {
	case err != nil:
		return unusable("its claim %q names more than one owner", i.Claims.Owner)
	case owner == "" && i.Owner == "" && i.Claims.Owner != "":
		return unusable("its claim %q names no owner", i.Claims.Owner)
	}
	a.Owner = cmp.Or(parley.OwnerName(owner), i.Owner, parley.DefaultOwner)
	env, err := one(t.texts(i.Claims.Environment), i.Claims.EnvironmentMap, func(s string) bool { return slices.Contains(parley.Environments, parley.Environment(s)) })
	switch {
	case err != nil:
		return unusable("its claim %q names more than one environment", i.Claims.Environment)
	case env == "" && i.Environment == "" && i.Claims.Environment != "":
		return unusable("its claim %q names no environment", i.Claims.Environment)
	}
	a.Environment = cmp.Or(parley.Environment(env), i.Environment, own, parley.Dev)
	return nil
}

// one finds the one thing that values name; empty where none does. Two would
// leave it to the order of a list which counts.
func one(values []string, byValue map[string]string, valid func(string) bool) (string, error) {
	found := ""
	for _, value := range values {
		name, known := mapped(byValue, value)
		if !known || !valid(name) || name == found {
			continue
		}
		if found != "" {
			return "", fmt.Errorf("two")
		}
		found = name
	}
	return found, nil
}

// mapped is what a claim's value stands for. Without a map it stands for itself.
func mapped(byValue map[string]string, value string) (string, bool) {
	if len(byValue) == 0 {
		return value, true
	}
	name, known := byValue[value]
	return name, known
}

func unusable(format string, args ...any) *identity.Refusal {
	return &identity.Refusal{Reason: identity.ReasonClaims, Detail: "the token says too little about its subject: " + fmt.Sprintf(format, args...)}
}

// checkTimes checks exp, which must be there, nbf and iat. It gives the end of
// the token's validity, the issuer's clock skew included.
func (i *issuer) checkTimes(t *token, now time.Time) (time.Time, error) {
	exp, ok := t.time("exp")
	if !ok {
		return time.Time{}, notTaken("it does not say when it expires (exp)")
	}
	expires := exp.Add(i.ClockSkew)
	if !now.Before(expires) {
		return time.Time{}, &identity.Refusal{Reason: identity.ReasonTokenExpired, Detail: "the token has expired: get a new one"}
	}
	for _, name := range []string{"nbf", "iat"} {
		at, ok := t.time(name)
		switch {
		case !ok && t.claim(name) != nil:
			return time.Time{}, notTaken("its claim %s is not a time", name)
		case ok && at.After(now.Add(i.ClockSkew)):
			return time.Time{}, &identity.Refusal{Reason: identity.ReasonTokenExpired, Detail: "the token is not valid yet (" + name + " lies ahead): check the clocks of issuer and mesh"}
		}
	}
	return expires, nil
}

// checkPurpose refuses tokens that were made for something else than being
// shown as they are.
func (t *token) checkPurpose() error {
	if t.claim("cnf") != nil {
		return notTaken("it is bound to a key (cnf), and proofs of possession are not understood")
	}
	for _, name := range []string{"at_hash", "c_hash", "events"} {
		if t.claim(name) != nil {
			return notTaken("it has %q: it is an ID token or an event, not an access token", name)
		}
	}
	return nil
}

// checkScopes wants all of the issuer's scopes, in scope (RFC 8693) or in scp,
// which some issuers write.
func (i *issuer) checkScopes(t *token) error {
	var given []string
	for _, text := range append(t.texts("scope"), t.texts("scp")...) {
		given = append(given, strings.Fields(text)...)
	}
	for _, needed := range i.Scopes {
		if !slices.Contains(given, needed) {
			return &identity.Refusal{Reason: identity.ReasonScope, Scope: strings.Join(i.Scopes, " "),
				Detail: fmt.Sprintf("the token lacks the scope %q: ask the issuer for one that has it", needed)}
		}
	}
	return nil
}

// claim finds a claim by its name or JSON pointer; nil where it is missing or
// null.
func (t *token) claim(name string) jsontext.Value {
	if name == "" {
		return nil
	}
	path := name
	if !strings.HasPrefix(name, "/") {
		path = "/" + jsonwire.EscapePointer(name)
	}
	raw, ok := jsonwire.Get(t.payload, path)
	if !ok || raw.Kind() == 'n' {
		return nil
	}
	return raw
}

func (t *token) text(name string) string { return jsonwire.String(t.claim(name)) }

// texts are the texts of a claim: itself, or the elements of a list.
func (t *token) texts(name string) []string {
	raw := t.claim(name)
	if text := jsonwire.String(raw); text != "" {
		return []string{text}
	}
	return jsonwire.Strings(raw)
}

// time reads a NumericDate (RFC 7519, section 2).
func (t *token) time(name string) (time.Time, bool) {
	raw := t.claim(name)
	if raw == nil || raw.Kind() != '0' {
		return time.Time{}, false
	}
	seconds, err := strconv.ParseFloat(string(raw), 64)
	if err != nil || !(seconds >= 0 && seconds <= maxSeconds) { // written so that NaN fails
		return time.Time{}, false
	}
	return time.UnixMilli(int64(seconds * 1000)), true
}
