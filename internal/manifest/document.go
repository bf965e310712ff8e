package manifest

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"

	"github.com/parley-mesh/parley/internal/parley"
)

// APIVersion is the version of all documents.
const APIVersion = "parley/v1"

// Kind says what a document declares.
type Kind string

// The kinds, in the order in which they are made: each needs only those before
// it.
const (
	KindOwner      Kind = "Owner"
	KindPrincipal  Kind = "Principal"
	KindAgent      Kind = "Agent"
	KindCredential Kind = "Credential"
	KindLimits     Kind = "Limits"
)

// The kinds of parts of a document that are marked and told of on their own,
// since they come and go alone. No document is of such a kind.
const (
	PartInstance Kind = "Instance" // of an Agent
	PartCertName Kind = "CertName" // of a Principal
	PartSubject  Kind = "Subject"  // of a Principal
)

// Kinds lists all kinds in the order in which they are made.
var Kinds = []Kind{KindOwner, KindPrincipal, KindAgent, KindCredential, KindLimits}

// LimitsName is the only name a Limits document may have: a mesh has one set.
const LimitsName = "default"

// Document is one decoded document. Exactly the spec of its kind is set.
type Document struct {
	Kind Kind
	Name string

	Owner      *Owner
	Principal  *Principal
	Agent      *Agent
	Credential *Credential
	Limits     *Limits

	places map[string]Position
}

// Owner is the spec of a team that answers for things.
type Owner struct {
	Description string `json:"description,omitempty" maxLength:"1000" doc:"What the owner does."`
}

// Principal is the spec of somebody who calls.
type Principal struct {
	Owner       parley.OwnerName   `json:"owner,omitempty" format:"name" doc:"Who answers for it; without it, default. It cannot change."`
	Environment parley.Environment `json:"environment,omitempty" enum:"dev,test,staging,prod" doc:"Without it, dev. It cannot change."`
	Roles       []parley.Role      `json:"roles,omitempty" maxItems:"16" doc:"Roles towards the mesh itself; calling agents needs none."`
	Description string             `json:"description,omitempty" maxLength:"1000" doc:"Who or what it is."`
	SPIFFE      []string           `json:"spiffe,omitempty" maxLength:"2048" maxItems:"100" doc:"SPIFFE ids of client certificates that prove it."`
	DNS         []string           `json:"dns,omitempty" maxLength:"253" maxItems:"100" doc:"DNS names of client certificates that prove it."`
	Subjects    []Subject          `json:"subjects,omitempty" maxItems:"100" doc:"Whom an issuer's tokens name that is this principal."`
}

// Subject is whom the tokens of an issuer name.
type Subject struct {
	Issuer  string `json:"issuer" required:"true" maxLength:"2048" doc:"Exactly as auth.issuers has it."`
	Subject string `json:"subject" required:"true" maxLength:"512" doc:"What its tokens have in sub."`
}

// Agent is the spec of an agent, with who may call it.
type Agent struct {
	URL         string             `json:"url" required:"true" maxLength:"2048" doc:"The card's address, a base address or a bare host."`
	Owner       parley.OwnerName   `json:"owner,omitempty" format:"name" doc:"Who answers for it; without it, default. It cannot change."`
	Environment parley.Environment `json:"environment,omitempty" enum:"dev,test,staging,prod" doc:"Without it, dev. It cannot change."`
	Allow       []parley.OwnerName `json:"allow,omitempty" format:"name" maxItems:"256" doc:"The owners beside its own whose callers may call it."`
	Instances   []Instance         `json:"instances,omitempty" maxItems:"32" doc:"Further addresses at which it answers."`
}

// Instance is a further address of an agent.
type Instance struct {
	ID         string `json:"id" required:"true" format:"name" doc:"Its name in the agent."`
	URL        string `json:"url" required:"true" maxLength:"2048" doc:"The card's address, a base address or a bare host. It cannot change."`
	Credential bool   `json:"credential,omitempty" doc:"Confirms that the agent's credential may go to the origin of url."`
}

// KindOAuth2 and KindCertificate are the kinds of Credential that are made of
// other members than the others.
const (
	KindOAuth2      = "oauth2"
	KindCertificate = "client_certificate"
)

// Credential is the spec of what the mesh shows the agent of the document's
// name.
type Credential struct {
	Kind        string       `json:"kind" required:"true" enum:"bearer,api_key,basic,oauth2,client_certificate" doc:"How it is presented."`
	In          string       `json:"in,omitempty" enum:"header,query" doc:"Where an api_key stands."`
	Name        string       `json:"name,omitempty" maxLength:"128" doc:"The header or parameter of an api_key; the user of basic."`
	Origin      string       `json:"origin,omitempty" maxLength:"2048" doc:"scheme://host:port it may go to; without it, the agent's."`
	OAuth2      *OAuth2      `json:"oauth2,omitempty" doc:"Where tokens are had, for the kind oauth2."`
	Certificate *Certificate `json:"certificate,omitempty" doc:"A client certificate, alone (kind client_certificate) or beside any other kind."`
	SecretRef   *SecretRef   `json:"secretRef,omitempty" doc:"Where the secret is; every kind but client_certificate has one. It is read where the command line runs."`
}

// OAuth2 says where and for what the mesh asks for tokens by client
// credentials. The client's secret is the Credential's.
type OAuth2 struct {
	TokenURL  string   `json:"tokenUrl" required:"true" maxLength:"2048" doc:"The token endpoint; the client secret goes nowhere else."`
	ClientID  string   `json:"clientId" required:"true" maxLength:"128" doc:"The client's id there."`
	Scopes    []string `json:"scopes,omitempty" maxLength:"256" maxItems:"32" doc:"What to ask for."`
	Audience  string   `json:"audience,omitempty" maxLength:"2048" doc:"For whom to ask."`
	AuthStyle string   `json:"authStyle,omitempty" enum:"basic,post" doc:"How the client shows itself to the endpoint; without it, basic."`
}

// Certificate says where the PEM texts of a client certificate are.
type Certificate struct {
	ChainRef *SecretRef `json:"chainRef" required:"true" doc:"The client's own certificate first, then intermediates."`
	KeyRef   *SecretRef `json:"keyRef" required:"true" doc:"Its private key, unencrypted."`
	CARef    *SecretRef `json:"caRef,omitempty" doc:"CAs to trust beside the system's, for the agent and the token endpoint."`
}

// SecretRef says where a secret is; exactly one member is set.
type SecretRef struct {
	File string `json:"file,omitempty" maxLength:"4096" doc:"A file that holds it; a relative path starts at the document's folder."`
	Env  string `json:"env,omitempty" maxLength:"256" doc:"An environment variable that holds it."`
}

// Limits is the spec of limits that differ from the configuration's. Members
// are keys of the configuration's section limits.
type Limits struct {
	CallDeadline        *string `json:"call_deadline,omitempty" format:"duration" doc:"How long a call may stay open."`
	UnaryTimeout        *string `json:"unary_timeout,omitempty" format:"duration" doc:"How long an agent may take for an answer that is no stream."`
	FirstByteTimeout    *string `json:"first_byte_timeout,omitempty" format:"duration" doc:"How long an agent may take to begin a stream."`
	Streams             *int64  `json:"streams,omitempty" doc:"Streams open at once."`
	StreamsPerPrincipal *int64  `json:"streams_per_principal,omitempty" doc:"Streams open at once for one principal."`
	ListRefresh         *int64  `json:"list_refresh,omitempty" doc:"Tasks that one ListTasks asks agents for."`
	ListRefreshTimeout  *string `json:"list_refresh_timeout,omitempty" format:"duration" doc:"How long a ListTasks waits for agents."`
}

// Values are the limits that are set, by the configuration's dotted key, as
// the configuration file would write them.
func (l *Limits) Values() map[string]string {
	values := map[string]string{}
	if l == nil {
		return values
	}
	v := reflect.ValueOf(l).Elem()
	for i := range v.NumField() {
		if field := v.Field(i); !field.IsNil() {
			values[limitsSection+jsonName(v.Type().Field(i))] = fmt.Sprint(field.Elem().Interface())
		}
	}
	return values
}

const limitsSection = "limits."

// LimitKeys lists the dotted keys of the configuration that a Limits document
// can set.
func LimitKeys() (keys []string) {
	for f := range reflect.TypeFor[Limits]().Fields() {
		keys = append(keys, limitsSection+jsonName(f))
	}
	return keys
}

// specOf gives a new spec of the kind, nil for an unknown kind.
func (d *Document) specOf(k Kind) any {
	switch k {
	case KindOwner:
		d.Owner = new(Owner)
		return d.Owner
	case KindPrincipal:
		d.Principal = new(Principal)
		return d.Principal
	case KindAgent:
		d.Agent = new(Agent)
		return d.Agent
	case KindCredential:
		d.Credential = new(Credential)
		return d.Credential
	case KindLimits:
		d.Limits = new(Limits)
		return d.Limits
	}
	return nil
}

// spec is the spec that is set.
func (d *Document) spec() any {
	switch d.Kind {
	case KindOwner:
		return d.Owner
	case KindPrincipal:
		return d.Principal
	case KindAgent:
		return d.Agent
	case KindCredential:
		return d.Credential
	}
	return d.Limits
}

// ID is kind and name in a form that no two documents of one plan share.
func (d *Document) ID() string { return string(d.Kind) + "/" + d.Name }

// Place tells where in its file a JSON pointer of the document is, or the
// nearest thing above it that is there.
func (d *Document) Place(pointer string) Position {
	for {
		if at, ok := d.places[pointer]; ok {
			return at
		}
		cut := strings.LastIndexByte(pointer, '/')
		if cut < 0 {
			return d.places[""]
		}
		pointer = pointer[:cut]
	}
}

// MarshalJSON writes the document in its envelope, as DecodeJSON reads it.
func (d *Document) MarshalJSON() ([]byte, error) {
	type metadata struct {
		Name string `json:"name"`
	}
	return json.Marshal(struct {
		APIVersion string   `json:"apiVersion"`
		Kind       Kind     `json:"kind"`
		Metadata   metadata `json:"metadata"`
		Spec       any      `json:"spec"`
	}{APIVersion, d.Kind, metadata{d.Name}, d.spec()})
}

// Position is a place in a file; lines and columns count from 1.
type Position struct {
	File         string
	Line, Column int
}

// String is file:line:column, as editors and compilers write it.
func (p Position) String() string {
	if p.Line == 0 {
		return p.File
	}
	return fmt.Sprintf("%s:%d:%d", p.File, p.Line, p.Column)
}

// Problem is one thing that is wrong with a document.
type Problem struct {
	At      Position
	Pointer string // into the document
	Problem string
	Fix     string
}

// Field is the problem as a field of an error that names its place in a file.
func (p Problem) Field() parley.Field {
	return parley.Field{Path: p.At.String(), Problem: p.Problem, Fix: p.Fix}
}
