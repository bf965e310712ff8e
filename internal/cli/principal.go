package cli

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/parley-mesh/parley/internal/control"
	"github.com/parley-mesh/parley/internal/parley"
)

func principalCommand(p *program) *cobra.Command {
	return parent(&cobra.Command{
		Use: "principal", Short: "Manage principals: the people and services that call",
		Long: "Manage principals: the people and services that call. A principal proves itself with\na key (parley key create). The calling side of an agent is a principal too, made by:\nparley key create --for agent:NAME.",
	}, principalCreateCommand(p), principalListCommand(p), principalShowCommand(p), principalUpdateCommand(p), principalRemoveCommand(p),
		principalFreezeCommand(p), principalUnfreezeCommand(p), principalLinkCommand(p), principalUnlinkCommand(p))
}

func principalCreateCommand(p *program) *cobra.Command {
	var n struct {
		owner, environment, description string
		roles                           []string
	}
	cmd := &cobra.Command{
		Use: "create NAME", Short: "Add a principal",
		Example: "  parley principal create alice\n  parley principal create billing-job --owner finance --environment prod\n  parley principal create ops --role operator",
		Args:    arguments("NAME"),
		RunE: p.managing(func(ctx context.Context, c *control.Client, args []string) error {
			who, err := c.CreatePrincipal(ctx, control.NewPrincipal{
				Name: parley.PrincipalName(args[0]), Owner: parley.OwnerName(n.owner), Environment: parley.Environment(n.environment),
				Roles: named[parley.Role](n.roles), Description: n.description,
			})
			if err != nil {
				return err
			}
			if err := p.done(who, "created principal %s of owner %s in %s", who.Name, who.Owner, who.Environment); err != nil {
				return err
			}
			p.remark("give it a key: parley key create --for %s", who.Name)
			return nil
		}),
	}
	flags := cmd.Flags()
	flags.StringVar(&n.owner, "owner", "", "who answers for it (default: default)")
	flags.StringVar(&n.environment, "environment", "", "dev, test, staging or prod (default: dev)")
	flags.StringSliceVar(&n.roles, "role", nil, "admin, operator, registrar, auditor or viewer, to manage the mesh (docs/roles.md); calling agents needs none")
	flags.StringVar(&n.description, "description", "", "who or what it is")
	return cmd
}

func principalListCommand(p *program) *cobra.Command {
	var owner string
	cmd := &cobra.Command{
		Use: "list", Aliases: []string{"ls"}, Short: "List principals by name",
		Example: "  parley principal list\n  parley principal list --owner finance --output json",
		Args:    arguments(),
		RunE: p.managing(func(ctx context.Context, c *control.Client, _ []string) error {
			all, _, err := collect(ctx, 0, func(ctx context.Context, l control.List) (control.Page[control.Principal], error) {
				return c.Principals(ctx, parley.OwnerName(owner), l)
			})
			if err != nil {
				return err
			}
			return list(p, all, "no principals: add one with parley principal create NAME",
				[]string{"NAME", "OWNER", "ENVIRONMENT", "ROLES", "STATE", "DESCRIPTION", "AGE"}, func(who control.Principal) []string {
					return []string{string(who.Name), string(who.Owner), string(who.Environment), joined(who.Roles), principalState(who), short(who.Description, 50), p.age(who.CreatedAt)}
				})
		}),
	}
	cmd.Flags().StringVar(&owner, "owner", "", "only those of this owner")
	return cmd
}

func principalShowCommand(p *program) *cobra.Command {
	return &cobra.Command{
		Use: "show NAME", Short: "Show a principal",
		Example: "  parley principal show alice",
		Args:    arguments("NAME"),
		RunE: p.managing(func(ctx context.Context, c *control.Client, args []string) error {
			who, err := c.Principal(ctx, parley.PrincipalName(args[0]))
			if err != nil {
				return err
			}
			names, err := c.CertNames(ctx, who.Name)
			if err != nil {
				return err
			}
			subjects, err := c.Subjects(ctx, who.Name)
			if err != nil {
				return err
			}
			return p.showPrincipal(shownPrincipal{who, names.Items, subjects.Items})
		}),
	}
}

// shownPrincipal is a principal with what proves it beside its keys.
type shownPrincipal struct {
	control.Principal
	Names    []control.PrincipalCertName `json:"names,omitempty"`
	Subjects []control.Subject           `json:"subjects,omitempty"`
}

// principalState is whether a principal may do anything.
func principalState(who control.Principal) string {
	if who.FrozenAt != nil {
		return "frozen"
	}
	return "active"
}

func (p *program) showPrincipal(who shownPrincipal) error {
	return p.show(who, func(f *facts) {
		f.add("name", string(who.Name))
		f.add("owner", string(who.Owner))
		f.add("environment", string(who.Environment))
		f.add("agent", string(who.Agent))
		f.add("roles", joined(who.Roles))
		f.add("description", who.Description)
		if who.FrozenAt != nil {
			f.add("frozen", p.moment(*who.FrozenAt)+": "+who.FrozenReason)
		}
		for _, n := range who.Names {
			f.add(string(n.Kind), n.Name)
		}
		for _, s := range who.Subjects {
			f.add("subject", s.Subject+" at "+s.Issuer)
		}
		f.add("created", p.moment(who.CreatedAt))
	})
}

func principalUpdateCommand(p *program) *cobra.Command {
	var roles []string
	var description string
	cmd := &cobra.Command{
		Use: "update NAME", Short: "Change a principal's roles or description",
		Example: "  parley principal update ops --role operator,auditor\n  parley principal update ops --role \"\"",
		Args:    arguments("NAME"),
	}
	flags := cmd.Flags()
	flags.StringSliceVar(&roles, "role", nil, "all its roles from now on: admin, operator, registrar, auditor, viewer; \"\" for none")
	flags.StringVar(&description, "description", "", "who or what it is")
	cmd.MarkFlagsOneRequired("role", "description")
	cmd.RunE = p.managing(func(ctx context.Context, c *control.Client, args []string) error {
		var change control.PrincipalChange
		if flags.Changed("role") {
			change.Roles = &[]parley.Role{}
			*change.Roles = append(*change.Roles, named[parley.Role](roles)...)
		}
		if flags.Changed("description") {
			change.Description = &description
		}
		who, err := c.UpdatePrincipal(ctx, parley.PrincipalName(args[0]), 0, change)
		if err != nil {
			return err
		}
		return p.showPrincipal(shownPrincipal{Principal: who})
	})
	return cmd
}

func principalRemoveCommand(p *program) *cobra.Command {
	return &cobra.Command{
		Use: "rm NAME", Aliases: []string{"remove", "delete"}, Short: "Remove a principal and its keys, in force at once",
		Example: "  parley principal rm alice",
		Args:    arguments("NAME"),
		RunE: p.managing(func(ctx context.Context, c *control.Client, args []string) error {
			if err := c.DeletePrincipal(ctx, parley.PrincipalName(args[0]), 0); err != nil {
				return err
			}
			return p.done(removed{"principals/" + args[0]}, "removed principal %s and its keys", args[0])
		}),
	}
}
