package control

import (
	"context"
	"time"

	"github.com/parley-mesh/parley/internal/identity"
	"github.com/parley-mesh/parley/internal/parley"
)

// Principal is somebody who calls.
type Principal struct {
	Name        parley.PrincipalName `json:"name"`
	Owner       parley.OwnerName     `json:"owner"`
	Environment parley.Environment   `json:"environment"`
	// Agent is set where the principal is the calling side of an agent.
	Agent       parley.AgentName `json:"agent,omitempty"`
	Roles       []parley.Role    `json:"roles" nullable:"false"`
	Description string           `json:"description"`
	CreatedAt   time.Time        `json:"createdAt"`
	Version     int64            `json:"version"`
}

// NewPrincipal asks for a principal.
type NewPrincipal struct {
	Name        parley.PrincipalName `json:"name" doc:"[a-z][a-z0-9-]*, at most 63 bytes."`
	Owner       parley.OwnerName     `json:"owner,omitempty" doc:"Who answers for it; without it, default."`
	Environment parley.Environment   `json:"environment,omitempty" doc:"dev, test, staging or prod; without it, dev."`
	Roles       []parley.Role        `json:"roles,omitempty" nullable:"false" doc:"admin, operator; calling agents needs none."`
	Description string               `json:"description,omitempty"`
}

// PrincipalChange is what may change of a principal; members left out stay.
type PrincipalChange struct {
	Roles       *[]parley.Role `json:"roles,omitempty" nullable:"false"`
	Description *string        `json:"description,omitempty"`
}

func principalOf(p *identity.Principal) Principal {
	out := Principal{
		Name: p.Name, Owner: p.Owner, Environment: p.Environment, Agent: p.Agent, Roles: p.Roles,
		Description: p.Description, CreatedAt: p.CreatedAt.UTC(), Version: p.Version,
	}
	if out.Roles == nil {
		out.Roles = []parley.Role{}
	}
	return out
}

func principalEntity(p *identity.Principal, err error) (*entity[Principal], error) {
	if err != nil {
		return nil, err
	}
	return &entity[Principal]{ETag: etag(p.Version), Location: Prefix + "/principals/" + string(p.Name), Body: principalOf(p)}, nil
}

// PrincipalPath names a principal in the path of a request.
type PrincipalPath struct {
	Name parley.PrincipalName `path:"name" maxLength:"63"`
}

func (s *Server) principalRoutes() {
	dir := s.opts.Identity
	type list struct {
		Paging
		Owner parley.OwnerName `query:"owner" maxLength:"63" doc:"Only this owner's."`
	}
	route(s, parley.RoleOperator, operation("listPrincipals", "GET", "/principals", "List principals by name", 200),
		func(ctx context.Context, in *list) (*listed[Principal], error) {
			at, err := in.place("principals", 1)
			if err != nil {
				return nil, err
			}
			all, err := dir.Principals(ctx, in.Owner, parley.PrincipalName(at[0]), in.Limit+1)
			return page(all, in.Limit, principalOf, func(p *identity.Principal) string { return cursorOf("principals", string(p.Name)) }), err
		})
	route(s, parley.RoleAdmin, operation("createPrincipal", "POST", "/principals", "Add a principal", 201),
		func(ctx context.Context, in *struct{ Body NewPrincipal }) (*entity[Principal], error) {
			return principalEntity(dir.CreatePrincipal(ctx, identity.NewPrincipal(in.Body)))
		})
	route(s, parley.RoleOperator, operation("getPrincipal", "GET", "/principals/{name}", "Show a principal", 200),
		func(ctx context.Context, in *PrincipalPath) (*entity[Principal], error) {
			return principalEntity(dir.Principal(ctx, in.Name))
		})
	type change struct {
		PrincipalPath
		Matching
		Body PrincipalChange
	}
	route(s, parley.RoleAdmin, operation("updatePrincipal", "PATCH", "/principals/{name}", "Change a principal's roles or description", 200),
		func(ctx context.Context, in *change) (*entity[Principal], error) {
			version, err := in.version()
			if err != nil {
				return nil, err
			}
			return principalEntity(dir.UpdatePrincipal(ctx, in.Name, version, identity.PrincipalChange(in.Body)))
		})
	type deletion struct {
		PrincipalPath
		Matching
	}
	route(s, parley.RoleAdmin, operation("deletePrincipal", "DELETE", "/principals/{name}", "Remove a principal and its keys", 204),
		func(ctx context.Context, in *deletion) (*empty, error) {
			version, err := in.version()
			if err != nil {
				return nil, err
			}
			return &empty{}, dir.DeletePrincipal(ctx, in.Name, version)
		})
}
