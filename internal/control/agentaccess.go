package control

import (
	"context"
	"time"

	"github.com/parley-mesh/parley/internal/parley"
	"github.com/parley-mesh/parley/internal/registry"
)

// Auth is what the mesh shows an agent, without the secret.
type Auth struct {
	Kind      registry.CredentialKind `json:"kind" enum:"bearer,api_key,basic"`
	In        string                  `json:"in,omitempty" doc:"api_key: header or query."`
	Name      string                  `json:"name,omitempty" doc:"api_key: the header or parameter; basic: the user."`
	Origin    string                  `json:"origin" doc:"scheme://host:port it may go to."`
	CreatedAt time.Time               `json:"createdAt"`
}

// NewAuth is a credential to show an agent.
type NewAuth struct {
	Kind   registry.CredentialKind `json:"kind" doc:"bearer, api_key or basic."`
	In     string                  `json:"in,omitempty" doc:"api_key: header or query."`
	Name   string                  `json:"name,omitempty" doc:"api_key: the header or parameter; basic: the user."`
	Origin string                  `json:"origin,omitempty" doc:"scheme://host:port it may go to; without it, the agent's."`
	Secret string                  `json:"secret" doc:"Kept sealed and never given back."`
}

func (a *NewAuth) credential() registry.Credential {
	return registry.Credential{Kind: a.Kind, In: a.In, Name: a.Name, Origin: a.Origin, Secret: a.Secret}
}

// Suspension is why an agent is taken out of service.
type Suspension struct {
	Reason string `json:"reason,omitempty" doc:"Why, in one line. Callers of the agent read it as well."`
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
