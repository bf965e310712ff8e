package cli

import (
	"context"
	"strings"

	"github.com/spf13/cobra"

	"github.com/parley-mesh/parley/internal/control"
	"github.com/parley-mesh/parley/internal/parley"
)

func principalFreezeCommand(p *program) *cobra.Command {
	var reason string
	cmd := &cobra.Command{
		Use: "freeze NAME --reason TEXT", Short: "Stop everything of a principal, in force at once",
		Long: `Stop everything of a principal at once: its calls and its requests to the mesh are
refused, and its exchanges and streams under way end. Its keys stay and are good
again after parley principal unfreeze. Tasks that agents have begun for it go on
and are watched; to end them too: parley calls list --caller NAME --outcome open,
then parley calls cancel ID.`,
		Example: "  parley principal freeze billing-job --reason \"its key was leaked\"",
		Args:    arguments("NAME"),
	}
	cmd.RunE = func(c *cobra.Command, args []string) error {
		if strings.TrimSpace(reason) == "" {
			return usagef("--reason is missing: say why in one line, the principal reads it as well")
		}
		return p.managing(func(ctx context.Context, c *control.Client, args []string) error {
			who, err := c.FreezePrincipal(ctx, parley.PrincipalName(args[0]), reason)
			if err != nil {
				return err
			}
			return p.done(who, "froze principal %s: %s", who.Name, who.FrozenReason)
		})(c, args)
	}
	cmd.Flags().StringVar(&reason, "reason", "", "why, in one line; the principal reads it as well")
	return cmd
}

func principalUnfreezeCommand(p *program) *cobra.Command {
	return &cobra.Command{
		Use: "unfreeze NAME", Short: "Take a freeze back: the principal's keys are good again",
		Example: "  parley principal unfreeze billing-job",
		Args:    arguments("NAME"),
		RunE: p.managing(func(ctx context.Context, c *control.Client, args []string) error {
			who, err := c.UnfreezePrincipal(ctx, parley.PrincipalName(args[0]))
			if err != nil {
				return err
			}
			return p.done(who, "unfroze principal %s", who.Name)
		}),
	}
}
