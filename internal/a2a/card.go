package a2a

import (
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/parley-mesh/parley/internal/a2a/v03"
	"github.com/parley-mesh/parley/internal/jsonwire"
)

// AgentCard is what an agent says of itself.
type AgentCard struct {
	Name                 string                    `json:"name" wire:"required,nonempty"`
	Description          string                    `json:"description" wire:"required"`
	SupportedInterfaces  []AgentInterface          `json:"supportedInterfaces" wire:"required,nonempty"`
	Provider             *AgentProvider            `json:"provider,omitzero"`
	Version              string                    `json:"version" wire:"required"`
	DocumentationURL     *string                   `json:"documentationUrl,omitzero"`
	Capabilities         AgentCapabilities         `json:"capabilities" wire:"required"`
	SecuritySchemes      map[string]SecurityScheme `json:"securitySchemes,omitzero"`
	SecurityRequirements []SecurityRequirement     `json:"securityRequirements,omitzero"`
	DefaultInputModes    []string                  `json:"defaultInputModes" wire:"required"`
	DefaultOutputModes   []string                  `json:"defaultOutputModes" wire:"required"`
	Skills               []AgentSkill              `json:"skills" wire:"required"`
	Signatures           []AgentCardSignature      `json:"signatures,omitzero"`
	IconURL              *string                   `json:"iconUrl,omitzero"`
	Unknown              jsontext.Value            `json:",embed"`
}

// AgentInterface is one address at which an agent answers.
type AgentInterface struct {
	URL             string         `json:"url" wire:"required,nonempty"`
	ProtocolBinding Binding        `json:"protocolBinding" wire:"required,nonempty"`
	Tenant          string         `json:"tenant,omitzero"`
	ProtocolVersion Version        `json:"protocolVersion" wire:"required,nonempty"`
	Unknown         jsontext.Value `json:",embed"`
}

// AgentProvider is who answers for the agent.
type AgentProvider struct {
	URL          string         `json:"url" wire:"required"`
	Organization string         `json:"organization" wire:"required"`
	Unknown      jsontext.Value `json:",embed"`
}

// AgentCapabilities are the optional features of an agent. A false that was
// written is kept: it counts in signatures.
type AgentCapabilities struct {
	Streaming         *bool            `json:"streaming,omitzero"`
	PushNotifications *bool            `json:"pushNotifications,omitzero"`
	Extensions        []AgentExtension `json:"extensions,omitzero"`
	ExtendedAgentCard *bool            `json:"extendedAgentCard,omitzero"`
	Unknown           jsontext.Value   `json:",embed"`
}

// AgentExtension is an extension of the protocol that an agent knows.
type AgentExtension struct {
	URI         string         `json:"uri,omitzero"`
	Description string         `json:"description,omitzero"`
	Required    bool           `json:"required,omitzero"`
	Params      jsontext.Value `json:"params,omitzero" wire:"object"`
	Unknown     jsontext.Value `json:",embed"`
}

// AgentSkill is something an agent can do.
type AgentSkill struct {
	ID                   string                `json:"id" wire:"required,nonempty"`
	Name                 string                `json:"name" wire:"required"`
	Description          string                `json:"description" wire:"required"`
	Tags                 []string              `json:"tags" wire:"required"`
	Examples             []string              `json:"examples,omitzero"`
	InputModes           []string              `json:"inputModes,omitzero"`
	OutputModes          []string              `json:"outputModes,omitzero"`
	SecurityRequirements []SecurityRequirement `json:"securityRequirements,omitzero"`
	Unknown              jsontext.Value        `json:",embed"`
}

// AgentCardSignature is a detached JSON web signature over the card.
type AgentCardSignature struct {
	Protected string         `json:"protected" wire:"required"`
	Signature string         `json:"signature" wire:"required"`
	Header    jsontext.Value `json:"header,omitzero" wire:"object"`
	Unknown   jsontext.Value `json:",embed"`
}

// SecurityScheme is one way to authenticate: exactly one member is set.
type SecurityScheme struct {
	APIKey        *APIKeyScheme        `json:"apiKeySecurityScheme,omitzero" wire:"oneof"`
	HTTPAuth      *HTTPAuthScheme      `json:"httpAuthSecurityScheme,omitzero" wire:"oneof"`
	OAuth2        *OAuth2Scheme        `json:"oauth2SecurityScheme,omitzero" wire:"oneof"`
	OpenIDConnect *OpenIDConnectScheme `json:"openIdConnectSecurityScheme,omitzero" wire:"oneof"`
	MutualTLS     *MutualTLSScheme     `json:"mtlsSecurityScheme,omitzero" wire:"oneof"`
	Unknown       jsontext.Value       `json:",embed"`
}

// APIKeyScheme is a key sent as a header, query parameter or cookie.
type APIKeyScheme struct {
	Description string         `json:"description,omitzero"`
	Location    string         `json:"location" wire:"required,nonempty"`
	Name        string         `json:"name" wire:"required,nonempty"`
	Unknown     jsontext.Value `json:",embed"`
}

// HTTPAuthScheme is an HTTP authentication scheme such as Bearer.
type HTTPAuthScheme struct {
	Description  string         `json:"description,omitzero"`
	Scheme       string         `json:"scheme" wire:"required,nonempty"`
	BearerFormat string         `json:"bearerFormat,omitzero"`
	Unknown      jsontext.Value `json:",embed"`
}

// OAuth2Scheme is an OAuth 2 flow.
type OAuth2Scheme struct {
	Description string         `json:"description,omitzero"`
	Flows       OAuthFlows     `json:"flows" wire:"required"`
	MetadataURL string         `json:"oauth2MetadataUrl,omitzero"`
	Unknown     jsontext.Value `json:",embed"`
}

// OAuthFlows is one flow: exactly one member is set. Implicit and Password are
// deprecated.
type OAuthFlows struct {
	AuthorizationCode *OAuthFlow     `json:"authorizationCode,omitzero" wire:"oneof"`
	ClientCredentials *OAuthFlow     `json:"clientCredentials,omitzero" wire:"oneof"`
	DeviceCode        *OAuthFlow     `json:"deviceCode,omitzero" wire:"oneof"`
	Implicit          *OAuthFlow     `json:"implicit,omitzero" wire:"oneof"`
	Password          *OAuthFlow     `json:"password,omitzero" wire:"oneof"`
	Unknown           jsontext.Value `json:",embed"`
}

// OAuthFlow holds the addresses and scopes of a flow; which of them it needs
// depends on the flow.
type OAuthFlow struct {
	AuthorizationURL       string            `json:"authorizationUrl,omitzero"`
	DeviceAuthorizationURL string            `json:"deviceAuthorizationUrl,omitzero"`
	TokenURL               string            `json:"tokenUrl,omitzero"`
	RefreshURL             string            `json:"refreshUrl,omitzero"`
	Scopes                 map[string]string `json:"scopes,omitzero"`
	PKCERequired           bool              `json:"pkceRequired,omitzero"`
	Unknown                jsontext.Value    `json:",embed"`
}

// OpenIDConnectScheme is OpenID Connect discovery.
type OpenIDConnectScheme struct {
	Description string         `json:"description,omitzero"`
	URL         string         `json:"openIdConnectUrl" wire:"required,nonempty"`
	Unknown     jsontext.Value `json:",embed"`
}

// MutualTLSScheme is a client certificate.
type MutualTLSScheme struct {
	Description string         `json:"description,omitzero"`
	Unknown     jsontext.Value `json:",embed"`
}

// SecurityRequirement names schemes that are needed together, with their scopes.
type SecurityRequirement struct {
	Schemes map[string]StringList `json:"schemes,omitzero"`
	Unknown jsontext.Value        `json:",embed"`
}

// StringList is a list that the protocol wraps in an object.
type StringList struct {
	List    []string       `json:"list,omitempty"`
	Unknown jsontext.Value `json:",embed"`
}

// Level says what a Problem means for a card.
type Level string

const (
	LevelError   Level = "error"   // the card cannot be used
	LevelWarning Level = "warning" // it can, but not all of it
)

// Problem is one wrong field of a card.
type Problem struct {
	Level   Level  `json:"level"`
	Path    string `json:"path"` // supportedInterfaces[0].url; "" is the card itself
	Problem string `json:"problem"`
	Fix     string `json:"fix,omitempty"`
}

// String is the problem in one line.
func (p Problem) String() string {
	text := p.Problem
	if p.Path != "" {
		text = p.Path + ": " + text
	}
	if p.Fix != "" {
		text += "; " + p.Fix
	}
	return text
}

// Refused tells whether a problem among these forbids the use of the card.
func Refused(problems []Problem) bool {
	return slices.ContainsFunc(problems, func(p Problem) bool { return p.Level == LevelError })
}

// MaxCardBytes is the largest card accepted, in bytes.
const MaxCardBytes = 1 << 20

// ParseCard reads and judges an agent card of v1.0, of 0.3 or of both; see
// v03.ReadCard. It names every wrong field it finds, by the names that the card
// itself has. The card is nil if it cannot be used, that is, if Refused(problems).
// raw must be kept as it is by the caller: signatures hold for it alone.
func ParseCard(raw []byte) (*AgentCard, []Problem) {
	j := &cardJudge{}
	card := j.read(raw)
	j.secrets(raw)
	if card != nil {
		j.interfaces(card)
		j.skills(card)
		j.security(card)
		j.links(card)
	}
	if Refused(j.problems) {
		return nil, j.problems
	}
	return card, j.problems
}

// cardJudge collects what is wrong with one card.
type cardJudge struct {
	problems []Problem
	old      v03.Card // how it was read
}

func (j *cardJudge) fault(path, problem, fix string) {
	j.problems = append(j.problems, Problem{LevelError, oldPath(path, j.old), problem, fix})
}

func (j *cardJudge) warn(path, problem, fix string) {
	j.problems = append(j.problems, Problem{LevelWarning, oldPath(path, j.old), problem, fix})
}

// read decodes the card, after naming the shapes it may have instead.
func (j *cardJudge) read(raw []byte) *AgentCard {
	limits := jsonwire.Limits{MaxBytes: MaxCardBytes, MaxDepth: 64}
	if e := jsonwire.Valid(raw, limits); e != nil {
		j.fault(cardPath(e.Path), e.Problem, e.Fix)
		return nil
	}
	raw = j.unwrapCases(raw)                       // before the old form is looked for: the wrapping hides it
	if old, err := v03.ReadCard(raw); err == nil { // what is no object is told below
		j.old, raw = old, old.V1
	}
	raw = j.wrapScopes(raw)
	card := new(AgentCard)
	problems := jsonwire.UnmarshalAll(raw, card, jsonwire.CheckOptions{Limits: limits})
	for _, e := range problems {
		j.fault(cardPath(e.Path), e.Problem, e.Fix)
	}
	if problems != nil {
		return nil
	}
	return card
}

func cardPath(pointer string) string {
	if pointer == "" {
		return ""
	}
	return fieldPath(pointer)
}

// interfaces checks every address; those we cannot speak are only a warning as
// long as one is left.
func (j *cardJudge) interfaces(card *AgentCard) {
	usable := 0
	for i, in := range card.SupportedInterfaces {
		path := fmt.Sprintf("supportedInterfaces[%d]", i)
		if !slices.Contains(spoken, in.ProtocolBinding) {
			j.warn(path+".protocolBinding", fmt.Sprintf("%q is not spoken here, so this interface is not used", clip(string(in.ProtocolBinding))), "")
			continue
		}
		if problem, fix := checkInterfaceURL(in); problem != "" {
			j.fault(path+".url", problem, fix)
			continue
		}
		if v := MajorMinor(in.ProtocolVersion); v != V10 && v != V03 {
			j.warn(path+".protocolVersion", fmt.Sprintf("%q is not spoken here, so this interface is not used", clip(string(in.ProtocolVersion))), "")
			continue
		}
		usable++
	}
	if usable == 0 {
		j.fault("supportedInterfaces", "no interface can be used", fmt.Sprintf("offer %s, %s or %s at version %s or %s", JSONRPC, HTTPJSON, GRPC, V10, V03))
	}
}

// spoken are the bindings that calls can be made in.
var spoken = []Binding{JSONRPC, HTTPJSON, GRPC}

func checkInterfaceURL(in AgentInterface) (problem, fix string) {
	if in.ProtocolBinding != GRPC {
		return checkURL(in.URL)
	}
	if _, err := ParseGRPCAddress(in.URL); err != nil {
		return err.Error(), ""
	}
	return "", ""
}

// checkURL accepts absolute http and https addresses.
func checkURL(text string) (problem, fix string) {
	const form = "give an absolute address such as https://agents.example.com/a2a"
	u, err := url.Parse(text)
	switch {
	case err != nil:
		return "is not a URL", form
	case u.Scheme != "https" && u.Scheme != "http":
		return "must be an http or https address", form
	case u.Hostname() == "" || u.Opaque != "":
		return "has no host", form
	case u.User != nil:
		return "carries a user name or password", "take it out; credentials are given when the agent is registered"
	case u.Fragment != "" || strings.HasSuffix(text, "#"):
		return "has a fragment", "leave out the part from # on"
	}
	return "", ""
}

func (j *cardJudge) skills(card *AgentCard) {
	if len(card.Skills) == 0 {
		j.warn("skills", "is empty, so nobody can find the agent by what it does", "list what the agent can do")
	}
	seen := map[string]bool{}
	for i, s := range card.Skills {
		if seen[s.ID] {
			j.warn(fmt.Sprintf("skills[%d].id", i), "is used by an earlier skill too", "give each skill an id of its own")
		}
		seen[s.ID] = true
	}
}

// security checks that requirements name declared schemes.
func (j *cardJudge) security(card *AgentCard) {
	check := func(path string, list []SecurityRequirement) {
		for i, r := range list {
			for name := range r.Schemes {
				if _, ok := card.SecuritySchemes[name]; !ok {
					j.warn(fmt.Sprintf("%s[%d].schemes.%s", path, i, clip(name)), "is not declared in securitySchemes", "declare it, or drop the requirement")
				}
			}
		}
	}
	check("securityRequirements", card.SecurityRequirements)
	for i, s := range card.Skills {
		check(fmt.Sprintf("skills[%d].securityRequirements", i), s.SecurityRequirements)
	}
	for name, s := range card.SecuritySchemes {
		path := "securitySchemes." + clip(name)
		if k := s.APIKey; k != nil && !slices.Contains([]string{"query", "header", "cookie"}, k.Location) {
			j.fault(path+".apiKeySecurityScheme.location", "is none of query, header, cookie", "write one of them")
		}
		j.flow(path, s)
	}
}

// flow checks the addresses of the schemes that have some.
func (j *cardJudge) flow(path string, s SecurityScheme) {
	link := func(name, text string, required bool) {
		if text == "" && !required {
			return
		}
		if problem, fix := checkURL(text); problem != "" {
			j.fault(path+"."+name, problem, fix)
		}
	}
	if s.OpenIDConnect != nil {
		link("openIdConnectSecurityScheme.openIdConnectUrl", s.OpenIDConnect.URL, true)
	}
	if s.OAuth2 == nil {
		return
	}
	link("oauth2SecurityScheme.oauth2MetadataUrl", s.OAuth2.MetadataURL, false)
	f := s.OAuth2.Flows
	for _, flow := range []struct {
		name                string
		flow                *OAuthFlow
		code, token, device bool
	}{
		{"authorizationCode", f.AuthorizationCode, true, true, false},
		{"clientCredentials", f.ClientCredentials, false, true, false},
		{"deviceCode", f.DeviceCode, false, true, true},
		{"implicit", f.Implicit, false, false, false},
		{"password", f.Password, false, false, false},
	} {
		if flow.flow == nil {
			continue
		}
		at := "oauth2SecurityScheme.flows." + flow.name + "."
		link(at+"authorizationUrl", flow.flow.AuthorizationURL, flow.code)
		link(at+"tokenUrl", flow.flow.TokenURL, flow.token)
		link(at+"deviceAuthorizationUrl", flow.flow.DeviceAuthorizationURL, flow.device)
		link(at+"refreshUrl", flow.flow.RefreshURL, false)
	}
}

// links checks the addresses people may click.
func (j *cardJudge) links(card *AgentCard) {
	check := func(path, text string) {
		if text == "" {
			return
		}
		if problem, fix := checkURL(text); problem != "" && problem != "has a fragment" {
			j.fault(path, problem, fix)
		}
	}
	if card.Provider != nil {
		check("provider.url", card.Provider.URL)
	}
	if card.DocumentationURL != nil {
		check("documentationUrl", *card.DocumentationURL)
	}
	// An icon may be inline data, which carries no one's address.
	if card.IconURL != nil && !strings.HasPrefix(*card.IconURL, "data:image/") {
		check("iconUrl", *card.IconURL)
	}
}

// SelectInterface takes the first interface, in the card's order, whose binding
// is among those given and whose version is v. With no bindings given, one of the
// two over plain HTTP will do.
func (c *AgentCard) SelectInterface(v Version, bindings ...Binding) (Endpoint, bool) {
	if len(bindings) == 0 {
		bindings = []Binding{JSONRPC, HTTPJSON}
	}
	for _, in := range c.SupportedInterfaces {
		if MajorMinor(in.ProtocolVersion) == v && slices.Contains(bindings, in.ProtocolBinding) {
			return Endpoint{URL: in.URL, Binding: in.ProtocolBinding, Version: v, Tenant: in.Tenant}, true
		}
	}
	return Endpoint{}, false
}
