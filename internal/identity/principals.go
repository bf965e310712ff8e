package identity

import (
	"context"
	"fmt"
	"slices"

	"github.com/parley-mesh/parley/internal/parley"
)

// AdminPrincipal is the principal of the key that a mesh makes for the admin
// of its own machine.
const AdminPrincipal parley.PrincipalName = "admin"

// NewPrincipal is what a principal is made of.
type NewPrincipal struct {
	Name        parley.PrincipalName
	Owner       parley.OwnerName   // empty: parley.DefaultOwner
	Environment parley.Environment // empty: parley.Dev
	Roles       []parley.Role
	Description string
}

// PrincipalChange is what may change of a principal; nil members stay. Owner
// and environment never change: what was learnt under them would move too.
type PrincipalChange struct {
	Roles       *[]parley.Role
	Description *string
}

// CreatePrincipal adds a principal. Errors: parley.Invalid, also for an unknown
// owner; parley.Conflict where the name is taken.
func (d *Directory) CreatePrincipal(ctx context.Context, n NewPrincipal) (*Principal, error) {
	const op = "identity.createPrincipal"
	p, wrong := d.newPrincipal(n)
	wrong, err := d.checkOwner(ctx, wrong, p.Owner)
	if err != nil {
		return nil, err
	}
	if err := invalid(op, parley.Subject(n.Name), wrong); err != nil {
		return nil, err
	}
	return d.addPrincipal(ctx, op, p)
}

// newPrincipal is a principal of what was asked for, with what is wrong with it
// but for its owner.
func (d *Directory) newPrincipal(n NewPrincipal) (p *Principal, wrong []parley.Field) {
	p = &Principal{Name: n.Name, Owner: n.Owner, Roles: n.Roles, Description: n.Description, CreatedAt: d.opts.Now()}
	if p.Owner == "" {
		p.Owner = parley.DefaultOwner
	}
	wrong = checkPrincipalName(nil, "/name", n.Name)
	env, err := parley.ParseEnvironment(string(n.Environment))
	if err != nil {
		wrong = append(wrong, parley.Field{Path: "/environment", Problem: fmt.Sprintf("%q is unknown", n.Environment), Fix: "use dev, test, staging or prod"})
	}
	p.Environment = env
	return p, checkText(checkRoles(wrong, n.Roles), "/description", n.Description)
}

func (d *Directory) addPrincipal(ctx context.Context, op parley.Op, p *Principal) (*Principal, error) {
	if err := d.store.SavePrincipal(ctx, p, d.principalEvent(ctx, "principal.added", p)); err != nil {
		return nil, taken(op, err, "principal", string(p.Name))
	}
	return d.store.Principal(ctx, p.Name)
}

// checkOwner adds a field where the owner does not exist.
func (d *Directory) checkOwner(ctx context.Context, wrong []parley.Field, name parley.OwnerName) ([]parley.Field, error) {
	_, err := d.store.Owner(ctx, name)
	if err != nil && parley.KindOf(err) == parley.NotFound {
		return append(wrong, parley.Field{Path: "/owner", Problem: fmt.Sprintf("no owner is named %.63q", name),
			Fix: "add it first (parley owner create NAME) or leave it out for \"default\""}), nil
	}
	return wrong, err
}

// Principal gives one principal, or a parley.NotFound error.
func (d *Directory) Principal(ctx context.Context, name parley.PrincipalName) (*Principal, error) {
	return d.store.Principal(ctx, name)
}

// Principals gives principals by name, those behind after; owner empty means
// all.
func (d *Directory) Principals(ctx context.Context, owner parley.OwnerName, after parley.PrincipalName, limit int) ([]*Principal, error) {
	return d.store.Principals(ctx, owner, after, limit)
}

// UpdatePrincipal changes roles or description; it is in force at once. A
// version other than 0 must be the current one, else parley.Conflict.
func (d *Directory) UpdatePrincipal(ctx context.Context, name parley.PrincipalName, version int64, c PrincipalChange) (*Principal, error) {
	const op = "identity.updatePrincipal"
	var wrong []parley.Field
	if c.Roles != nil {
		wrong = checkRoles(wrong, *c.Roles)
	}
	if c.Description != nil {
		wrong = checkText(wrong, "/description", *c.Description)
	}
	if err := invalid(op, parley.Subject(name), wrong); err != nil {
		return nil, err
	}
	p, err := d.store.Principal(ctx, name)
	if err != nil {
		return nil, err
	}
	if err := SameVersion(op, string(name), version, p.Version); err != nil {
		return nil, err
	}
	if c.Roles != nil {
		p.Roles = *c.Roles
	}
	if c.Description != nil {
		p.Description = *c.Description
	}
	if err := d.store.SavePrincipal(ctx, p, d.principalEvent(ctx, "principal.changed", p)); err != nil {
		return nil, err
	}
	d.Invalidate()
	return d.store.Principal(ctx, name)
}

// DeletePrincipal removes a principal and its keys, which identify nobody from
// then on. Records of its calls keep its name.
func (d *Directory) DeletePrincipal(ctx context.Context, name parley.PrincipalName, version int64) error {
	p, err := d.store.Principal(ctx, name)
	if err != nil {
		return err
	}
	if err := SameVersion("identity.deletePrincipal", string(name), version, p.Version); err != nil {
		return err
	}
	if err := d.store.DeletePrincipal(ctx, name, p.Version, d.principalEvent(ctx, "principal.removed", p)); err != nil {
		return err
	}
	d.Invalidate()
	return nil
}

// agentPrincipal is the principal under which an agent calls: it has the
// agent's name, owner and environment, and is made the first time it is needed.
func (d *Directory) agentPrincipal(ctx context.Context, op parley.Op, agent parley.AgentName) (*Principal, error) {
	owner, env, err := d.agents.AgentHome(ctx, agent)
	if err != nil && parley.KindOf(err) == parley.NotFound {
		return nil, invalid(op, parley.Subject(agent), []parley.Field{{Path: "/agent",
			Problem: fmt.Sprintf("no agent is named %.63q", agent), Fix: "add it first (parley agent add NAME URL)"}})
	}
	if err != nil {
		return nil, err
	}
	name := parley.PrincipalName(agent)
	p, err := d.store.Principal(ctx, name)
	if err != nil && parley.KindOf(err) == parley.NotFound {
		p, err = d.addPrincipal(ctx, op, &Principal{
			Name: name, Owner: owner, Environment: env, Agent: agent,
			Description: "calls by the agent of this name", CreatedAt: d.opts.Now(),
		})
		if parley.KindOf(err) == parley.Conflict { // somebody else made it meanwhile
			p, err = d.store.Principal(ctx, name)
		}
	}
	if err != nil {
		return nil, err
	}
	if p.Agent != agent || p.Owner != owner || p.Environment != env {
		return nil, parley.E(op, parley.Conflict, parley.Subject(agent), fmt.Sprintf(
			"the principal %q exists and is not the calling side of agent %q of owner %q in %s: delete it (parley principal rm %s) or rename the agent",
			name, agent, owner, env, name), nil)
	}
	return p, nil
}

// AdminKey makes a key with the role admin for the admin of the mesh's own
// machine; its principal AdminPrincipal is made the first time.
func (d *Directory) AdminKey(ctx context.Context, note string) (text string, _ *Key, _ error) {
	_, err := d.store.Principal(ctx, AdminPrincipal)
	if err != nil && parley.KindOf(err) == parley.NotFound {
		_, err = d.addPrincipal(ctx, "identity.adminKey", &Principal{
			Name: AdminPrincipal, Owner: parley.DefaultOwner, Environment: d.opts.Environment,
			Roles: []parley.Role{parley.RoleAdmin}, Description: "the admin of this mesh's machine", CreatedAt: d.opts.Now(),
		})
	}
	if err != nil {
		return "", nil, err
	}
	return d.CreateKey(ctx, KeyRequest{Principal: AdminPrincipal, Note: note})
}

// checkPrincipalName adds what is wrong with the name of a new principal.
func checkPrincipalName(wrong []parley.Field, path string, name parley.PrincipalName) []parley.Field {
	if name == parley.LocalAdmin || name == parley.Anonymous {
		return append(wrong, parley.Field{Path: path, Problem: fmt.Sprintf("%q is the mesh's own", name), Fix: "choose another name"})
	}
	return checkName(wrong, path, "principal", string(name))
}

// checkRoles adds what is wrong with a list of roles.
func checkRoles(wrong []parley.Field, roles []parley.Role) []parley.Field {
	for i, r := range roles {
		path := fmt.Sprintf("/roles/%d", i)
		if _, err := parley.ParseRole(string(r)); err != nil {
			wrong = append(wrong, parley.Field{Path: path, Problem: fmt.Sprintf("role %.63q is unknown", r), Fix: "use admin, operator, registrar, auditor or viewer"})
		} else if slices.Contains(roles[:i], r) {
			wrong = append(wrong, parley.Field{Path: path, Problem: fmt.Sprintf("role %q stands twice", r), Fix: "name each role once"})
		}
	}
	return wrong
}
