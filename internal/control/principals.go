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
	// FrozenAt is since when everything of it is refused.
	FrozenAt     *time.Time `json:"frozenAt,omitempty" doc:"Missing: not frozen."`
	FrozenReason string     `json:"frozenReason,omitempty"`
}

// Freeze is why everything of a principal is stopped.
type Freeze struct {
	Reason string `json:"reason" doc:"Why, in one line. The principal reads it as well."`
}

// NewPrincipal asks for a principal.
type NewPrincipal struct {
	Name        parley.PrincipalName `json:"name" doc:"[a-z][a-z0-9-]*, at most 63 bytes."`
	Owner       parley.OwnerName     `json:"owner,omitempty" doc:"Who answers for it; without it, default."`
	Environment parley.Environment   `json:"environment,omitempty" doc:"dev, test, staging or prod; without it, dev."`
	Roles       []parley.Role        `json:"roles,omitempty" nullable:"false" doc:"admin, operator, registrar, auditor, viewer; calling agents needs none. Only roles that the caller has."`
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
		FrozenAt: timeOf(p.FrozenAt), FrozenReason: p.FrozenReason,
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
	route(s, operation("listPrincipals", "GET", "/principals", "List principals by name", 200),
		func(ctx context.Context, in *list) (*listed[Principal], error) {
			at, err := in.place("principals", 1)
			if err != nil {
				return nil, err
			}
			all, err := dir.Principals(ctx, in.Owner, parley.PrincipalName(at[0]), in.Limit+1)
			return page(all, in.Limit, principalOf, func(p *identity.Principal) string { return cursorOf("principals", string(p.Name)) }), err
		})
	route(s, operation("createPrincipal", "POST", "/principals", "Add a principal", 201),
		func(ctx context.Context, in *struct{ Body NewPrincipal }) (*entity[Principal], error) {
			if err := permitNewPrincipal(ctx, &in.Body); err != nil {
				return nil, err
			}
			return principalEntity(dir.CreatePrincipal(ctx, identity.NewPrincipal(in.Body)))
		})
	route(s, operation("getPrincipal", "GET", "/principals/{name}", "Show a principal", 200),
		func(ctx context.Context, in *PrincipalPath) (*entity[Principal], error) {
			return principalEntity(dir.Principal(ctx, in.Name))
		})
	type change struct {
		PrincipalPath
		Matching
		Body PrincipalChange
	}
	route(s, operation("updatePrincipal", "PATCH", "/principals/{name}", "Change a principal's roles or description", 200),
		func(ctx context.Context, in *change) (*entity[Principal], error) {
			version, err := s.principalVersion(ctx, "updatePrincipal", in.Name, &in.Matching)
			if err != nil {
				return nil, err
			}
			if in.Body.Roles != nil {
				if err := covers(ctx, *in.Body.Roles, "this gives"); err != nil {
					return nil, err
				}
			}
			return principalEntity(dir.UpdatePrincipal(ctx, in.Name, version, identity.PrincipalChange(in.Body)))
		})
	type deletion struct {
		PrincipalPath
		Matching
	}
	route(s, operation("deletePrincipal", "DELETE", "/principals/{name}", "Remove a principal and its keys", 204),
		func(ctx context.Context, in *deletion) (*empty, error) {
			version, err := s.principalVersion(ctx, "deletePrincipal", in.Name, &in.Matching)
			if err != nil {
				return nil, err
			}
			return &empty{}, dir.DeletePrincipal(ctx, in.Name, version)
		})
	s.freezeRoutes()
}

// permitNewPrincipal refuses principals that the caller may not make.
func permitNewPrincipal(ctx context.Context, n *NewPrincipal) error {
	owner, env := n.Owner, n.Environment
	if owner == "" {
		owner = parley.DefaultOwner
	}
	if env == "" {
		env = parley.Dev
	}
	if err := permitChange(ctx, "createPrincipal", owner, env); err != nil {
		return err
	}
	return covers(ctx, n.Roles, "this gives")
}

// principalVersion checks that the caller may change a principal, and gives the
// version that the change must find: the one that was checked, so that roles
// given meanwhile are not overlooked.
func (s *Server) principalVersion(ctx context.Context, id string, name parley.PrincipalName, m *Matching) (int64, error) {
	version, err := m.version()
	if err != nil {
		return 0, err
	}
	p, err := s.opts.Identity.Principal(ctx, name)
	if err != nil {
		return 0, err
	}
	if err := permitPrincipal(ctx, id, p); err != nil {
		return 0, err
	}
	if version == 0 && reach(ctx, id) != ReachAll {
		version = p.Version
	}
	return version, nil
}
