package apply

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/parley-mesh/parley/internal/identity"
	"github.com/parley-mesh/parley/internal/manifest"
	"github.com/parley-mesh/parley/internal/parley"
)

// stored gives what a store has under a name, nil where it has nothing.
func stored[T any](v *T, err error) (*T, error) {
	if err != nil && parley.KindOf(err) == parley.NotFound {
		return nil, nil
	}
	return v, err
}

func (p *planner) planOwners(ctx context.Context) error {
	return p.each(manifest.KindOwner, func(i int, d Input) error {
		name := parley.OwnerName(d.Name)
		old, err := stored(p.Store.Owner(ctx, name))
		if err != nil {
			return err
		}
		c := Change{Action: Create, Kind: d.Kind, Name: d.Name}
		before := ""
		if old != nil {
			if !p.free(i, d, old.CreatedAt.UnixMicro()) {
				return nil
			}
			c.Action, before = Update, old.Description
			if before == d.Owner.Description {
				p.plan.Unchanged++
				return nil
			}
		}
		o, event, err := p.Identity.DraftOwner(ctx, old, name, d.Owner.Description)
		if ok, err := p.judge(i, err); !ok {
			return err
		}
		(*fields)(&c.Fields).add("description", before, d.Owner.Description)
		p.change(c)
		p.batch.SaveOwner(ctx, o, event)
		if old == nil {
			p.batch.Mark(manifest.Mark{Kind: d.Kind, Name: d.Name, Set: p.req.Set, MadeAt: o.CreatedAt})
		}
		return nil
	})
}

func (p *planner) planPrincipals(ctx context.Context) error {
	return p.each(manifest.KindPrincipal, func(i int, d Input) error {
		spec := d.Principal
		owner, env := cmp.Or(spec.Owner, parley.DefaultOwner), cmp.Or(spec.Environment, parley.Dev)
		if known, err := p.home(ctx, i, "/spec/owner", owner); !known {
			return err
		}
		old, err := stored(p.Store.Principal(ctx, parley.PrincipalName(d.Name)))
		if err != nil {
			return err
		}
		who, err := p.principal(ctx, i, d, old, owner, env)
		if err != nil || who == nil {
			return err
		}
		return p.planProofs(ctx, i, d, who)
	})
}

// principal decides what becomes of a principal itself; nil where it is refused.
func (p *planner) principal(ctx context.Context, i int, d Input, old *identity.Principal, owner parley.OwnerName, env parley.Environment) (*identity.Principal, error) {
	if old == nil {
		return p.newPrincipal(ctx, i, d, owner, env)
	}
	return p.oldPrincipal(ctx, i, d, old, owner, env)
}

func (p *planner) newPrincipal(ctx context.Context, i int, d Input, owner parley.OwnerName, env parley.Environment) (*identity.Principal, error) {
	made, event, err := p.Identity.DraftPrincipal(ctx, identity.NewPrincipal{
		Name: parley.PrincipalName(d.Name), Owner: owner, Environment: env, Roles: d.Principal.Roles, Description: d.Principal.Description,
	})
	if ok, err := p.judge(i, err); !ok {
		return nil, err
	}
	c := Change{Action: Create, Kind: d.Kind, Name: d.Name}
	f := (*fields)(&c.Fields)
	f.add("owner", "", string(owner))
	f.add("environment", "", string(env))
	f.add("roles", "", names(d.Principal.Roles))
	f.add("description", "", d.Principal.Description)
	p.change(c)
	p.batch.SavePrincipal(ctx, made, event)
	p.batch.Mark(manifest.Mark{Kind: d.Kind, Name: d.Name, Set: p.req.Set, MadeAt: made.CreatedAt})
	return made, nil
}

func (p *planner) oldPrincipal(ctx context.Context, i int, d Input, old *identity.Principal, owner parley.OwnerName, env parley.Environment) (*identity.Principal, error) {
	spec := d.Principal
	if !p.free(i, d, old.CreatedAt.UnixMicro()) {
		return nil, nil
	}
	if old.Agent != "" {
		p.refuse(i, "/metadata/name", fmt.Sprintf("principal %s is the calling side of agent %s", d.Name, old.Agent), "take it out: it comes and goes with the agent")
		return nil, nil
	}
	if !p.sameHome(i, old.Owner, owner, old.Environment, env) {
		return nil, nil
	}
	if caller(ctx) == old.Name && slices.Contains(old.Roles, parley.RoleAdmin) && !slices.Contains(spec.Roles, parley.RoleAdmin) {
		p.refuse(i, "/spec/roles", "would take the role admin from whoever applies this", "keep the role, or let another admin apply it")
		return nil, nil
	}
	c := Change{Action: Update, Kind: d.Kind, Name: d.Name}
	f := (*fields)(&c.Fields)
	if !sameNames(old.Roles, spec.Roles) {
		f.add("roles", names(sorted(old.Roles)), names(sorted(spec.Roles)))
	}
	f.add("description", old.Description, spec.Description)
	if len(c.Fields) == 0 {
		p.plan.Unchanged++
		return old, nil
	}
	next, event, err := p.Identity.DraftPrincipalChange(ctx, old, identity.PrincipalChange{Roles: &spec.Roles, Description: &spec.Description})
	if ok, err := p.judge(i, err); !ok {
		return nil, err
	}
	p.change(c)
	p.batch.SavePrincipal(ctx, next, event)
	return next, nil
}

// sameHome refuses another owner or environment: what was learnt under them
// would move too.
func (p *planner) sameHome(i int, oldOwner, owner parley.OwnerName, oldEnv, env parley.Environment) bool {
	if oldOwner != owner {
		p.refuse(i, "/spec/owner", fmt.Sprintf("the owner is %q and cannot change to %q", oldOwner, owner), "keep it, or declare it under another name")
	}
	if oldEnv != env {
		p.refuse(i, "/spec/environment", fmt.Sprintf("the environment is %q and cannot change to %q", oldEnv, env), "keep it, or declare it under another name")
	}
	return oldOwner == owner && oldEnv == env
}
