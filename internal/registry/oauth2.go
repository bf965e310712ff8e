package registry

import (
	"fmt"
	"net/url"
	"strings"

	"github.com/parley-mesh/parley/internal/parley"
)

// How an OAuth 2 client shows itself to the token endpoint. Source: RFC 6749,
// section 2.3.1.
const (
	AuthBasic = "basic" // id and secret in the Authorization header
	AuthPost  = "post"  // id and secret in the body
)

// Limits of what an OAuth 2 credential names.
const (
	maxScopes     = 32
	maxScopeBytes = 256
)

// TokenRequest says where and for what an OAuth 2 client asks for tokens, by
// the grant "client credentials" of RFC 6749, section 4.4. The client's id is
// the credential's Name, its secret the Secret.
//
// The address is an operator's word and never a card's: a card that names
// another endpoint tomorrow gets nobody's secret sent there.
type TokenRequest struct {
	URL      string   `json:"url"`
	Scopes   []string `json:"scopes,omitempty"`
	Audience string   `json:"audience,omitempty"` // sent as "audience"; many servers need one
	Style    string   `json:"style,omitempty"`    // AuthBasic, which empty means, or AuthPost
}

// check reports every wrong member of the request, and of the client's id.
func (q *TokenRequest) check(clientID string, add func(path, problem, fix string)) {
	if clientID == "" {
		add("name", "is empty", "give the client id")
	}
	if q == nil {
		add("oauth2", "is missing", "say where tokens are had: the token endpoint's URL")
		return
	}
	switch u, err := url.Parse(q.URL); {
	case len(q.URL) > maxURLBytes:
		add("oauth2.url", fmt.Sprintf("is %d bytes long", len(q.URL)), fmt.Sprintf("at most %d are allowed", maxURLBytes))
	case err != nil || u.Hostname() == "" || u.Scheme != "https" && u.Scheme != "http":
		add("oauth2.url", "is not an absolute address", "give the token endpoint, such as https://login.example/oauth2/token")
	case u.User != nil || u.Fragment != "":
		add("oauth2.url", "carries a user or a fragment", "give the bare address; the client's id and secret are given apart")
	}
	if q.Style != "" && q.Style != AuthBasic && q.Style != AuthPost {
		add("oauth2.style", fmt.Sprintf("%q is unknown", q.Style), "use basic or post")
	}
	if len(q.Scopes) > maxScopes {
		add("oauth2.scopes", fmt.Sprintf("names %d scopes", len(q.Scopes)), fmt.Sprintf("at most %d are allowed", maxScopes))
	}
	for _, scope := range q.Scopes {
		if scope == "" || len(scope) > maxScopeBytes || strings.ContainsFunc(scope, notScope) {
			add("oauth2.scopes", fmt.Sprintf("%.40q is not a scope", scope), "give one scope each, without blanks or quotes")
		}
	}
	if len(q.Audience) > maxURLBytes || strings.ContainsFunc(q.Audience, control) {
		add("oauth2.audience", "is too long or holds a control character", fmt.Sprintf("at most %d bytes are allowed", maxURLBytes))
	}
}

// notScope follows RFC 6749, section 3.3.
func notScope(r rune) bool { return r <= ' ' || r > '~' || r == '"' || r == '\\' }

// checkParts reports what is wrong with the parts that only some kinds have.
func (c *Credential) checkParts() (wrong []parley.Field) {
	add := func(path, problem, fix string) {
		wrong = append(wrong, parley.Field{Path: path, Problem: problem, Fix: fix})
	}
	if c.Kind == OAuth2 {
		c.Token.check(c.Name, add)
	} else if c.Token != nil {
		add("oauth2", "does not go with the kind "+string(c.Kind), "leave it out, or use the kind oauth2")
	}
	switch {
	case c.Certificate != nil:
		c.Certificate.check(add)
	case c.Kind == Certificate:
		add("certificate", "is missing", "give the client certificate and its key")
	}
	return wrong
}
