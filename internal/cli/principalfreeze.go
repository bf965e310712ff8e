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

// certNameFlags are the two ways to name a name in client certificates.
type certNameFlags struct{ spiffe, dns string }

func (n *certNameFlags) add(cmd *cobra.Command) {
	cmd.Flags().StringVar(&n.spiffe, "spiffe", "", "a SPIFFE id, the one URI name of the certificate")
	cmd.Flags().StringVar(&n.dns, "dns", "", "a host name, one of the DNS names of the certificate")
	cmd.MarkFlagsOneRequired("spiffe", "dns")
	cmd.MarkFlagsMutuallyExclusive("spiffe", "dns")
}

func (n *certNameFlags) name() control.NewCertName {
	if n.spiffe != "" {
		return control.NewCertName{Kind: "spiffe", Name: n.spiffe}
	}
	return control.NewCertName{Kind: "dns", Name: n.dns}
}

func principalLinkCommand(p *program) *cobra.Command {
	var name certNameFlags
	cmd := &cobra.Command{
		Use: "link NAME", Short: "Let a name in client certificates prove a principal",
		Long: `Let a name in client certificates prove a principal. The mesh must take client
certificates (tls.client_ca in its configuration, see docs/mtls.md).`,
		Example: "  parley principal link billing-job --spiffe spiffe://finance.example/ns/prod/sa/billing\n  parley principal link alice --dns laptop-7.example.com",
		Args:    arguments("NAME"),
		RunE: p.managing(func(ctx context.Context, c *control.Client, args []string) error {
			n, err := c.LinkCertName(ctx, parley.PrincipalName(args[0]), name.name())
			if err != nil {
				return err
			}
			return p.done(n, "certificates with %s prove principal %s", n.Name, n.Principal)
		}),
	}
	name.add(cmd)
	return cmd
}

func principalUnlinkCommand(p *program) *cobra.Command {
	var name certNameFlags
	cmd := &cobra.Command{
		Use: "unlink NAME", Short: "Take a name in client certificates from a principal, in force at once",
		Example: "  parley principal unlink alice --dns laptop-7.example.com",
		Args:    arguments("NAME"),
		RunE: p.managing(func(ctx context.Context, c *control.Client, args []string) error {
			n := name.name()
			if err := c.UnlinkCertName(ctx, parley.PrincipalName(args[0]), n); err != nil {
				return err
			}
			return p.done(removed{"principals/" + args[0] + "/names/" + n.Name}, "certificates with %s prove nobody now", n.Name)
		}),
	}
	name.add(cmd)
	return cmd
}
