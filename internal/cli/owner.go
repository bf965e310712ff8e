package cli

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/parley-mesh/parley/internal/control"
	"github.com/parley-mesh/parley/internal/parley"
)

func ownerCommand(p *program) *cobra.Command {
	return parent(&cobra.Command{
		Use: "owner", Short: "Manage owners: the teams that answer for agents and callers",
		Long: "Manage owners: the teams that answer for agents and callers. Callers and agents of\none owner and environment may talk to each other; across owners an agent has to be\nopened with: parley agent allow.",
	}, ownerCreateCommand(p), ownerListCommand(p), ownerShowCommand(p), ownerRemoveCommand(p))
}

func ownerCreateCommand(p *program) *cobra.Command {
	var description string
	cmd := &cobra.Command{
		Use: "create NAME", Short: "Add an owner",
		Example: "  parley owner create finance\n  parley owner create finance --description \"billing and dunning\"",
		Args:    arguments("NAME"),
		RunE: p.managing(func(ctx context.Context, c *control.Client, args []string) error {
			o, err := c.CreateOwner(ctx, control.NewOwner{Name: parley.OwnerName(args[0]), Description: description})
			if err != nil {
				return err
			}
			return p.done(o, "created owner %s", o.Name)
		}),
	}
	cmd.Flags().StringVar(&description, "description", "", "what the owner does")
	return cmd
}

func ownerListCommand(p *program) *cobra.Command {
	return &cobra.Command{
		Use: "list", Aliases: []string{"ls"}, Short: "List owners by name",
		Example: "  parley owner list\n  parley owner list --output json",
		Args:    arguments(),
		RunE: p.managing(func(ctx context.Context, c *control.Client, _ []string) error {
			owners, _, err := collect(ctx, 0, c.Owners)
			if err != nil {
				return err
			}
			return list(p, owners, "no owners", []string{"NAME", "DESCRIPTION", "AGE"}, func(o control.Owner) []string {
				return []string{string(o.Name), short(o.Description, 60), p.age(o.CreatedAt)}
			})
		}),
	}
}

func ownerShowCommand(p *program) *cobra.Command {
	return &cobra.Command{
		Use: "show NAME", Short: "Show an owner",
		Example: "  parley owner show finance",
		Args:    arguments("NAME"),
		RunE: p.managing(func(ctx context.Context, c *control.Client, args []string) error {
			o, err := c.Owner(ctx, parley.OwnerName(args[0]))
			if err != nil {
				return err
			}
			return p.show(o, func(f *facts) {
				f.add("name", string(o.Name))
				f.add("description", o.Description)
				f.add("created", p.moment(o.CreatedAt))
			})
		}),
	}
}

func ownerRemoveCommand(p *program) *cobra.Command {
	return &cobra.Command{
		Use: "rm NAME", Aliases: []string{"remove", "delete"}, Short: "Remove an owner that answers for nothing any more",
		Example: "  parley owner rm finance",
		Args:    arguments("NAME"),
		RunE: p.managing(func(ctx context.Context, c *control.Client, args []string) error {
			if err := c.DeleteOwner(ctx, parley.OwnerName(args[0]), 0); err != nil {
				return err
			}
			return p.done(removed{"owners/" + args[0]}, "removed owner %s", args[0])
		}),
	}
}
