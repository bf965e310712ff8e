package cli

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/parley-mesh/parley/internal/control"
	"github.com/parley-mesh/parley/internal/parley"
)

// subjectFlags name a subject of an issuer.
type subjectFlags struct{ issuer, subject string }

func (n *subjectFlags) add(cmd *cobra.Command) {
	cmd.Flags().StringVar(&n.issuer, "issuer", "", "the issuer, exactly as auth.issuers has it")
	cmd.Flags().StringVar(&n.subject, "subject", "", "what the issuer's tokens have in \"sub\"")
	cmd.MarkFlagsRequiredTogether("issuer", "subject")
	cmd.MarkFlagsOneRequired("issuer")
}

func (n *subjectFlags) body() control.NewSubject {
	return control.NewSubject{Issuer: n.issuer, Subject: n.subject}
}

func principalLinkCommand(p *program) *cobra.Command {
	var n subjectFlags
	cmd := &cobra.Command{
		Use: "link NAME", Short: "Let a subject of an issuer be a principal",
		Long: `Let a subject of an issuer be a principal: tokens of that issuer with that subject
prove it from now on. The issuer must be in auth.issuers; see docs/sign-on.md.`,
		Example: "  parley principal link alice --issuer https://login.example.com --subject 8f14e45f",
		Args:    arguments("NAME"),
		RunE: p.managing(func(ctx context.Context, c *control.Client, args []string) error {
			s, err := c.LinkSubject(ctx, parley.PrincipalName(args[0]), n.body())
			if err != nil {
				return err
			}
			return p.done(s, "subject %s of %s is principal %s now", s.Subject, s.Issuer, s.Principal)
		}),
	}
	n.add(cmd)
	return cmd
}

func principalUnlinkCommand(p *program) *cobra.Command {
	var n subjectFlags
	cmd := &cobra.Command{
		Use: "unlink NAME", Short: "Let a subject of an issuer be nobody again, in force at once",
		Example: "  parley principal unlink alice --issuer https://login.example.com --subject 8f14e45f",
		Args:    arguments("NAME"),
		RunE: p.managing(func(ctx context.Context, c *control.Client, args []string) error {
			if err := c.UnlinkSubject(ctx, parley.PrincipalName(args[0]), n.body()); err != nil {
				return err
			}
			return p.done(removed{"principals/" + args[0] + "/subjects/" + n.subject}, "subject %s of %s is nobody now", n.subject, n.issuer)
		}),
	}
	n.add(cmd)
	return cmd
}
