package registry

import (
	"encoding/base64"
	"fmt"
	"log/slog"
	"net/url"
	"strings"
	"time"

	"github.com/parley-mesh/parley/internal/parley"
)

// Limits of a credential, in bytes.
const (
	maxSecretBytes         = 8 << 10
	maxCredentialNameBytes = 128
)

// CredentialKind is how a credential is presented.
type CredentialKind string

// The kinds of credential.
const (
	Bearer CredentialKind = "bearer"
	APIKey CredentialKind = "api_key" // in a header or query parameter of a given name
	Basic  CredentialKind = "basic"
	// OAuth2 is a bearer token that the mesh itself gets from a token endpoint.
	OAuth2 CredentialKind = "oauth2"
	// Certificate is a client certificate alone. One may also stand beside a
	// credential of another kind.
	Certificate CredentialKind = "client_certificate"
)

// Where an API key stands in a request.
const (
	InHeader = "header"
	InQuery  = "query"
)

// Credential is what the mesh shows an agent. Secret is sealed at rest; no way
// of printing or encoding a Credential shows it.
type Credential struct {
	Agent  parley.AgentName
	Kind   CredentialKind
	In     string        // api_key: InHeader or InQuery
	Name   string        // api_key: the header's or parameter's name; basic: the user; oauth2: the client id
	Origin string        // scheme://host:port it may go to
	Token  *TokenRequest // oauth2: where its tokens are had; else nil
	// Certificate is shown in the TLS handshake; nil for none.
	Certificate *ClientCertificate
	Secret      string           `json:"-"`
	Owner       parley.OwnerName // whose key seals it
	CreatedAt   time.Time
}

// String describes the credential without its secret.
func (c Credential) String() string {
	s := string(c.Kind)
	if c.Name != "" {
		s += " " + c.Name
	}
	if c.Certificate != nil {
		s += " with " + c.Certificate.String()
	}
	return s + " for " + c.Origin
}

// GoString is String, so that %#v shows no secret either.
func (c Credential) GoString() string { return "registry.Credential(" + c.String() + ")" }

// LogValue is String, for the log.
func (c Credential) LogValue() slog.Value { return slog.StringValue(c.String()) }

// For reports whether the credential may go to the address: its origin is the
// one it was stored for, by scheme, host and port.
func (c *Credential) For(address string) bool {
	if c == nil || c.Origin == "" {
		return false
	}
	origin, err := OriginOf(address)
	return err == nil && origin == c.Origin
}

// Presented is a credential as it stands in a request: one header or one query
// parameter. The zero value is none.
type Presented struct {
	Header string // the header's name; empty for a query parameter
	Query  string // the parameter's name; empty for a header
	Value  string
}

// Bearing is a bearer token as it stands in a request.
func Bearing(token string) Presented {
	return Presented{Header: "Authorization", Value: "Bearer " + token}
}

// Present says how the credential is shown, where it alone tells: a token of
// OAuth2 has to be had first (see package upstream), and a certificate stands
// in no request. Whoever uses it asks For first.
func (c *Credential) Present() Presented {
	switch {
	case c == nil || c.Kind == OAuth2 || c.Kind == Certificate:
		return Presented{}
	case c.Kind == Basic:
		pair := base64.StdEncoding.EncodeToString([]byte(c.Name + ":" + c.Secret))
		return Presented{Header: "Authorization", Value: "Basic " + pair}
	case c.Kind == APIKey && c.In == InQuery:
		return Presented{Query: c.Name, Value: c.Secret}
	case c.Kind == APIKey:
		return Presented{Header: c.Name, Value: c.Secret}
	}
	return Bearing(c.Secret)
}

// OriginOf gives the origin of an absolute http or https address as
// scheme://host:port, in lower case and with the port always there.
func OriginOf(address string) (string, error) {
	u, err := url.Parse(address)
	if err != nil || u.Hostname() == "" {
		return "", fmt.Errorf("%.80q is not an absolute address such as https://agent.example/", address)
	}
	port := u.Port()
	switch scheme := strings.ToLower(u.Scheme); {
	case scheme != "http" && scheme != "https":
		return "", fmt.Errorf("%.80q has the scheme %q: use https, or http inside network.allow", address, u.Scheme)
	case port == "" && scheme == "https":
		port = "443"
	case port == "":
		port = "80"
	}
	host := strings.ToLower(u.Hostname())
	if strings.Contains(host, ":") {
		host = "[" + host + "]"
	}
	return strings.ToLower(u.Scheme) + "://" + host + ":" + port, nil
}

// Possible reports whether a credential of this shape can be stored, whatever
// its secret.
func (c *Credential) Possible() bool {
	shape := *c
	shape.Secret = "x"
	switch shape.Kind {
	case Certificate:
		return true // any will do
	case OAuth2:
		shape.Name = "x" // the client's id is no matter of its shape
	}
	return len(shape.check()) == 0
}

// check reports every wrong member of the credential.
func (c *Credential) check() []parley.Field {
	var wrong []parley.Field
	add := func(path, problem, fix string) {
		wrong = append(wrong, parley.Field{Path: path, Problem: problem, Fix: fix})
	}
	switch c.Kind {
	case Bearer:
		if strings.ContainsAny(c.Secret, " \t") {
			add("secret", "holds a blank", "give the bare token, without the word Bearer")
		}
	case Basic:
		if c.Name == "" || strings.Contains(c.Name, ":") {
			add("name", "is not a user name", "give the user, without a colon")
		}
	case APIKey:
		c.checkAPIKey(add)
	case OAuth2, Certificate:
	default:
		add("kind", fmt.Sprintf("%q is unknown", c.Kind), "use bearer, api_key, basic, oauth2 or client_certificate")
	}
	wrong = append(wrong, c.checkParts()...)
	switch {
	case c.Kind == Certificate && c.Secret != "":
		add("secret", "does not go with a client certificate alone", "leave it out; the key is part of the certificate")
	case c.Kind == Certificate:
	case c.Secret == "":
		add("secret", "is empty", "give the token, key or password")
	case len(c.Secret) > maxSecretBytes:
		add("secret", fmt.Sprintf("is %d bytes long", len(c.Secret)), fmt.Sprintf("at most %d are allowed", maxSecretBytes))
	case strings.ContainsFunc(c.Secret, control):
		add("secret", "holds a line break or another control character", "give the bare secret")
	}
	if len(c.Name) > maxCredentialNameBytes || strings.ContainsFunc(c.Name, control) {
		add("name", "is too long or holds a control character", fmt.Sprintf("at most %d bytes are allowed", maxCredentialNameBytes))
	}
	return wrong
}

func (c *Credential) checkAPIKey(add func(path, problem, fix string)) {
	switch {
	case c.In != InHeader && c.In != InQuery:
		add("in", fmt.Sprintf("%q is not a place for an API key", c.In), "use header or query")
	case c.Name == "":
		add("name", "is empty", "name the header or query parameter that carries the key")
	case c.In == InHeader && strings.ContainsFunc(c.Name, notToken):
		add("name", fmt.Sprintf("%q cannot be a header's name", c.Name), "use letters, digits and '-'")
	case c.In == InHeader && reservedHeader(c.Name):
		add("name", fmt.Sprintf("the header %s belongs to the protocol", c.Name), "name the header that the agent's card names")
	}
}

func control(r rune) bool { return r < 0x20 || r == 0x7f }

// notToken follows RFC 9110, section 5.6.2.
func notToken(r rune) bool {
	letter := r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9'
	return !letter && !strings.ContainsRune("!#$%&'*+-.^_`|~", r)
}

// reservedHeader names the headers that frame a request or that A2A and the
// mesh set themselves.
func reservedHeader(name string) bool {
	switch lower := strings.ToLower(name); lower {
	case "host", "connection", "content-length", "content-type", "transfer-encoding", "te", "trailer", "upgrade",
		"accept", "expect", "keep-alive", "traceparent", "tracestate", "idempotency-key", "last-event-id":
		return true
	default:
		return strings.HasPrefix(lower, "a2a-") || strings.HasPrefix(lower, "parley-") || strings.HasPrefix(lower, "proxy-")
	}
}

// AuthCommand is the command that stores a credential of that shape, fit to be
// pasted: names come from cards, and a card must not write shell commands.
func AuthCommand(agent parley.AgentName, c Credential) string {
	if agent == "" {
		agent = "NAME"
	}
	s := "parley agent auth " + string(agent)
	switch {
	case c.Kind == Basic:
		return s + " --basic USER"
	case c.Kind == APIKey && c.In == InQuery:
		return s + " --api-key --query " + shellWord(c.Name)
	case c.Kind == APIKey:
		return s + " --api-key --header " + shellWord(c.Name)
	case c.Kind == Certificate:
		return s + " --client-cert FILE --client-key FILE"
	case c.Kind == OAuth2:
		s += " --oauth2 --client-id ID --client-secret-file FILE --token-url "
		if c.Token == nil || c.Token.URL == "" {
			return s + "URL"
		}
		s += shellWord(c.Token.URL)
		for _, scope := range c.Token.Scopes {
			s += " --scope " + shellWord(scope)
		}
		return s
	}
	return s + " --bearer"
}

// shellWord quotes s unless a shell takes it as it is.
func shellWord(s string) string {
	special := func(r rune) bool {
		letter := r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9'
		return !letter && !strings.ContainsRune("-_.", r)
	}
	if s != "" && !strings.HasPrefix(s, "-") && !strings.ContainsFunc(s, special) {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}
