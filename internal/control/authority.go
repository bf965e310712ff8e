package control

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/parley-mesh/parley/internal/identity"
	"github.com/parley-mesh/parley/internal/parley"
)

// reach is how far the caller goes in an operation or part of one.
func reach(ctx context.Context, id string) Reach {
	caller := identity.CallerFrom(ctx)
	if caller == nil {
		return ReachNone
	}
	return RoleTable[id].reachOf(caller.Roles)
}

// permit refuses callers whom the table gives nothing of id.
func permit(ctx context.Context, id string) error {
	if reach(ctx, id) == ReachNone {
		return tooLittle(ctx, id, "")
	}
	return nil
}

// permitChange refuses to change what belongs to an owner and an environment
// that the caller's reach does not cover.
func permitChange(ctx context.Context, id string, owner parley.OwnerName, env parley.Environment) error {
	switch reach(ctx, id) {
	case ReachAll:
		return nil
	case ReachOwn:
		if caller := identity.CallerFrom(ctx); caller.Owner == owner && caller.Environment == env {
			return nil
		}
		return tooLittle(ctx, id, fmt.Sprintf("this belongs to owner %s in %s", owner, env))
	}
	return tooLittle(ctx, id, "")
}

// permitRead refuses to show what none of these owners' people may see.
func permitRead(ctx context.Context, id string, owners ...parley.OwnerName) error {
	switch reach(ctx, id) {
	case ReachAll:
		return nil
	case ReachOwn:
		if slices.Contains(owners, identity.CallerFrom(ctx).Owner) {
			return nil
		}
		return tooLittle(ctx, id, "this belongs to another owner")
	}
	return tooLittle(ctx, id, "")
}

// readable is the owner to whom a list is bound: what was asked for, or the
// caller's own where that is all the caller may see.
func readable(ctx context.Context, id string, asked parley.OwnerName) (parley.OwnerName, error) {
	if reach(ctx, id) == ReachOwn && asked == "" {
		asked = identity.CallerFrom(ctx).Owner
	}
	return asked, permitRead(ctx, id, asked)
}

// permitPrincipal refuses to act on a principal that is out of the caller's
// reach, or has a role that the caller does not have: whoever holds its keys or
// changes it would have that role's rights.
func permitPrincipal(ctx context.Context, id string, p *identity.Principal) error {
	if err := permitChange(ctx, id, p.Owner, p.Environment); err != nil {
		return err
	}
	if p.Frozen() && reach(ctx, id) == ReachOwn {
		return notTheirs(ctx, "principal "+string(p.Name)+" is frozen")
	}
	return covers(ctx, p.Roles, "principal "+string(p.Name)+" has")
}

// notTheirs refuses to let those undo or get around a stop who may not stop.
func notTheirs(ctx context.Context, what string) error {
	caller := identity.CallerFrom(ctx)
	return parley.E("control.authorise", parley.Denied, parley.Subject(caller.Name),
		what+": that is for an operator to take back first. "+grantOf(caller, parley.RoleOperator), nil)
}

// covers refuses where the caller lacks one of the roles; why says whose they
// are.
func covers(ctx context.Context, roles []parley.Role, why string) error {
	caller := identity.CallerFrom(ctx)
	for _, role := range roles {
		if !caller.Has(role) {
			return parley.E("control.authorise", parley.Denied, parley.Subject(caller.Name), fmt.Sprintf(
				"%s the role %s, which %s does not have: nobody manages more rights than they hold. %s",
				why, role, caller.Name, grantOf(caller, role)), nil)
		}
	}
	return nil
}

// tooLittle says which roles would do, and how to get one. why is what stands
// in the way of a role that reaches only what is the caller's own.
func tooLittle(ctx context.Context, id, why string) error {
	caller := identity.CallerFrom(ctx)
	if caller == nil {
		return parley.E("control.authorise", parley.Denied, "", "nobody asks for this", nil)
	}
	var far, near []parley.Role
	for _, role := range parley.Roles {
		switch RoleTable[id].Of(role) {
		case ReachAll:
			far = append(far, role)
		case ReachOwn:
			near = append(near, role)
		}
	}
	text := "needs the role " + either(far)
	if why != "" {
		text = why + ", which " + text
	} else if len(near) > 0 {
		text += ", or " + either(near) + " for what is of owner " + string(caller.Owner)
	}
	if why == "" {
		text = "this " + text
	}
	least := far[len(far)-1] // every operation is at least the admin's
	if why == "" && len(near) > 0 {
		least = near[0]
	}
	return parley.E("control.authorise", parley.Denied, parley.Subject(caller.Name), text+". "+grantOf(caller, least), nil)
}

// grantOf is the command that gives the caller one more role.
func grantOf(caller *identity.Caller, role parley.Role) string {
	all := make([]string, 0, len(caller.Roles)+1)
	for _, r := range caller.Roles {
		all = append(all, string(r))
	}
	return fmt.Sprintf("To give it: parley principal update %s --role %s", caller.Name, strings.Join(append(all, string(role)), ","))
}

// either lists roles as a choice.
func either(roles []parley.Role) string {
	words := make([]string, len(roles))
	for i, r := range roles {
		words[i] = string(r)
	}
	if len(words) == 1 {
		return words[0]
	}
	return strings.Join(words[:len(words)-1], ", ") + " or " + words[len(words)-1]
}
