package control

import (
	"context"
	"time"

	"github.com/parley-mesh/parley/internal/parley"
	"github.com/parley-mesh/parley/internal/registry"
)

// Auth is what the mesh shows an agent, without the secret.
type Auth struct {
	Kind        registry.CredentialKind `json:"kind" enum:"bearer,api_key,basic,oauth2,client_certificate"`
	In          string                  `json:"in,omitempty" doc:"api_key: header or query."`
	Name        string                  `json:"name,omitempty" doc:"api_key: the header or parameter; basic: the user; oauth2: the client id."`
	Origin      string                  `json:"origin" doc:"scheme://host:port it may go to."`
	OAuth2      *OAuth2                 `json:"oauth2,omitempty"`
	Certificate *ClientCertificate      `json:"certificate,omitempty"`
	CreatedAt   time.Time               `json:"createdAt"`
}

// OAuth2 says where and for what the mesh asks for tokens, by the grant client
// credentials.
type OAuth2 struct {
	TokenURL  string   `json:"tokenUrl" doc:"The token endpoint; the client secret goes nowhere else."`
	Scopes    []string `json:"scopes,omitempty" nullable:"false"`
	Audience  string   `json:"audience,omitempty"`
	AuthStyle string   `json:"authStyle,omitempty" doc:"basic (default) or post: how the client shows itself to the endpoint."`
}

// ClientCertificate is what the mesh shows an agent in the TLS handshake,
// without its key.
type ClientCertificate struct {
	Subject   string    `json:"subject"`
	Issuer    string    `json:"issuer"`
	NotBefore time.Time `json:"notBefore"`
	NotAfter  time.Time `json:"notAfter"`
	CA        bool      `json:"ca" doc:"Whether a CA is trusted beside the system's roots."`
}

// NewAuth is a credential to show an agent.
type NewAuth struct {
	Kind        registry.CredentialKind `json:"kind" doc:"bearer, api_key, basic, oauth2 or client_certificate."`
	In          string                  `json:"in,omitempty" doc:"api_key: header or query."`
	Name        string                  `json:"name,omitempty" doc:"api_key: the header or parameter; basic: the user; oauth2: the client id."`
	Origin      string                  `json:"origin,omitempty" doc:"scheme://host:port it may go to; without it, the agent's."`
	Secret      string                  `json:"secret,omitempty" doc:"Kept sealed and never given back. All kinds but client_certificate need it."`
	OAuth2      *OAuth2                 `json:"oauth2,omitempty" doc:"oauth2: where tokens are had."`
	Certificate *NewCertificate         `json:"certificate,omitempty" doc:"client_certificate needs it; it may stand beside any other kind."`
}

// NewCertificate is a client certificate with its key, as PEM.
type NewCertificate struct {
	Chain string `json:"chain" doc:"The client's own certificate first, then intermediates."`
	Key   string `json:"key" doc:"Its private key, unencrypted. Kept sealed and never given back."`
	CA    string `json:"ca,omitempty" doc:"Trusted beside the system's roots, for the agent and the token endpoint."`
}

func (a *NewAuth) credential() registry.Credential {
	c := registry.Credential{Kind: a.Kind, In: a.In, Name: a.Name, Origin: a.Origin, Secret: a.Secret}
	if q := a.OAuth2; q != nil {
		c.Token = &registry.TokenRequest{URL: q.TokenURL, Scopes: q.Scopes, Audience: q.Audience, Style: q.AuthStyle}
	}
	if x := a.Certificate; x != nil {
		c.Certificate = &registry.ClientCertificate{Chain: x.Chain, Key: x.Key, CA: x.CA}
	}
	return c
}

func authOf(c *registry.Credential) *Auth {
	a := &Auth{Kind: c.Kind, In: c.In, Name: c.Name, Origin: c.Origin, CreatedAt: c.CreatedAt.UTC()}
	if q := c.Token; q != nil {
		a.OAuth2 = &OAuth2{TokenURL: q.URL, Scopes: q.Scopes, Audience: q.Audience, AuthStyle: q.Style}
	}
	if x := c.Certificate; x != nil {
		a.Certificate = &ClientCertificate{CA: x.CA != ""}
		if leaf := x.Leaf(); leaf != nil {
			a.Certificate.Subject, a.Certificate.Issuer = leaf.Subject.String(), leaf.Issuer.String()
			a.Certificate.NotBefore, a.Certificate.NotAfter = leaf.NotBefore.UTC(), leaf.NotAfter.UTC()
		}
	}
	return a
}

// Suspension is why an agent is taken out of service.
type Suspension struct {
	Reason string `json:"reason,omitempty" doc:"Why, in one line. Callers of the agent read it as well."`
}

// AgentSettings are what may be set of an agent.
type AgentSettings struct {
	AuthRequired registry.AuthPolicy `json:"authRequired" enum:"pass,forbid" doc:"pass: callers are told that the agent asks for a credential. forbid: such a call ends as denied."`
}

// agentAccessRoutes are the verbs that say whether and by whom an agent may be
// called, and what it is shown.
func (s *Server) agentAccessRoutes() {
	reg := s.opts.Registry
	// verb adds an operation that names nothing but the agent.
	verb := func(id, path, summary string, do func(context.Context, parley.AgentName) (*registry.Agent, error)) {
		type input struct {
			AgentPath
			Matching
		}
		route(s, operation(id, "POST", "/agents/{name}/"+path, summary, 200),
			func(ctx context.Context, in *input) (*entity[Agent], error) {
				if err := s.permitAgent(ctx, id, in.Name, &in.Matching); err != nil {
					return nil, err
				}
				return agentEntity(do(ctx, in.Name))
			})
	}
	verb("approveAgent", "approve", "Put the card that waits in use", reg.Approve)
	verb("resumeAgent", "resume", "Take a suspension back", reg.Resume)

	type suspend struct {
		AgentPath
		Matching
		Body Suspension
	}
	route(s, operation("suspendAgent", "POST", "/agents/{name}/suspend", "Take an agent out of service", 200),
		func(ctx context.Context, in *suspend) (*entity[Agent], error) {
			if err := s.permitAgent(ctx, "suspendAgent", in.Name, &in.Matching); err != nil {
				return nil, err
			}
			return agentEntity(reg.Suspend(ctx, in.Name, in.Body.Reason))
		})
	type allowance struct {
		AgentPath
		Owner parley.OwnerName `path:"owner" maxLength:"63"`
	}
	route(s, operation("allowOwner", "PUT", "/agents/{name}/allow/{owner}", "Let an owner's callers call the agent", 200),
		func(ctx context.Context, in *allowance) (*entity[Agent], error) {
			if err := s.permitAgent(ctx, "allowOwner", in.Name, &Matching{}); err != nil {
				return nil, err
			}
			return agentEntity(reg.Allow(ctx, in.Name, in.Owner))
		})
	route(s, operation("disallowOwner", "DELETE", "/agents/{name}/allow/{owner}", "Take an owner off the list again", 200),
		func(ctx context.Context, in *allowance) (*entity[Agent], error) {
			if err := s.permitAgent(ctx, "disallowOwner", in.Name, &Matching{}); err != nil {
				return nil, err
			}
			return agentEntity(reg.Disallow(ctx, in.Name, in.Owner))
		})
	type settings struct {
		AgentPath
		Body AgentSettings
	}
	route(s, operation("setAgent", "PATCH", "/agents/{name}", "Say what the agent may do", 200),
		func(ctx context.Context, in *settings) (*entity[Agent], error) {
			if err := s.permitAgent(ctx, "setAgent", in.Name, &Matching{}); err != nil {
				return nil, err
			}
			return agentEntity(reg.SetAuthPolicy(ctx, in.Name, in.Body.AuthRequired))
		})
	type auth struct {
		AgentPath
		Body NewAuth
	}
	route(s, operation("setAuth", "PUT", "/agents/{name}/auth", "Store what the mesh shows the agent, and look at it", 200),
		func(ctx context.Context, in *auth) (*entity[LookedAt], error) {
			if err := s.permitAgent(ctx, "setAuth", in.Name, &Matching{}); err != nil {
				return nil, err
			}
			return lookEntity(reg.SetCredential(ctx, in.Name, in.Body.credential()))
		})
	route(s, operation("removeAuth", "DELETE", "/agents/{name}/auth", "Forget what the mesh shows the agent, and look at it", 200),
		func(ctx context.Context, in *AgentPath) (*entity[LookedAt], error) {
			if err := s.permitAgent(ctx, "removeAuth", in.Name, &Matching{}); err != nil {
				return nil, err
			}
			return lookEntity(reg.RemoveCredential(ctx, in.Name))
		})
}
