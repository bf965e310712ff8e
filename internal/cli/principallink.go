package cli

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/parley-mesh/parley/internal/control"
	"github.com/parley-mesh/parley/internal/parley"
)

// linkFlags are the ways to name what proves a principal: a name in client
// certificates, or a subject of an issuer of tokens.
type linkFlags struct{ spiffe, dns, issuer, subject string }

func (n *linkFlags) add(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&n.spiffe, "spiffe", "", "a SPIFFE id, the one URI name of the certificate")
	flags.StringVar(&n.dns, "dns", "", "a host name, one of the DNS names of the certificate")
	flags.StringVar(&n.issuer, "issuer", "", "an issuer of tokens, exactly as auth.issuers has it; together with --subject")
	flags.StringVar(&n.subject, "subject", "", "what the issuer's tokens have in \"sub\"")
	cmd.MarkFlagsOneRequired("spiffe", "dns", "issuer")
	cmd.MarkFlagsMutuallyExclusive("spiffe", "dns", "issuer")
	cmd.MarkFlagsRequiredTogether("issuer", "subject")
}

func (n *linkFlags) certName() control.NewCertName {
	if n.spiffe != "" {
		return control.NewCertName{Kind: "spiffe", Name: n.spiffe}
	}
	return control.NewCertName{Kind: "dns", Name: n.dns}
}

func (n *linkFlags) tokenSubject() control.NewSubject {
	return control.NewSubject{Issuer: n.issuer, Subject: n.subject}
}

func principalLinkCommand(p *program) *cobra.Command {
	var n linkFlags
	cmd := &cobra.Command{
		Use: "link NAME", Short: "Let a name in client certificates, or a subject of an issuer, prove a principal",
		Long: `Let a name in client certificates prove a principal, or the subject of an issuer of
tokens. The mesh must take client certificates (tls.client_ca in its configuration,
see docs/mtls.md), or tokens of that issuer (auth.issuers, see docs/sign-on.md).`,
		Example: "  parley principal link billing-job --spiffe spiffe://finance.example/ns/prod/sa/billing\n  parley principal link alice --dns laptop-7.example.com\n  parley principal link alice --issuer https://login.example.com --subject 8f14e45f",
		Args:    arguments("NAME"),
		RunE: p.managing(func(ctx context.Context, c *control.Client, args []string) error {
			name := parley.PrincipalName(args[0])
			if n.issuer != "" {
				s, err := c.LinkSubject(ctx, name, n.tokenSubject())
				if err != nil {
					return err
				}
				return p.done(s, "subject %s of %s is principal %s now", s.Subject, s.Issuer, s.Principal)
			}
			linked, err := c.LinkCertName(ctx, name, n.certName())
			if err != nil {
				return err
			}
			return p.done(linked, "certificates with %s prove principal %s", linked.Name, linked.Principal)
		}),
	}
	n.add(cmd)
	return cmd
}

func principalUnlinkCommand(p *program) *cobra.Command {
	var n linkFlags
	cmd := &cobra.Command{
		Use: "unlink NAME", Short: "Take what link gave from a principal, in force at once",
		Example: "  parley principal unlink alice --dns laptop-7.example.com\n  parley principal unlink alice --issuer https://login.example.com --subject 8f14e45f",
		Args:    arguments("NAME"),
		RunE: p.managing(func(ctx context.Context, c *control.Client, args []string) error {
			name, path := parley.PrincipalName(args[0]), "principals/"+args[0]
			if n.issuer != "" {
				if err := c.UnlinkSubject(ctx, name, n.tokenSubject()); err != nil {
					return err
				}
				return p.done(removed{path + "/subjects/" + n.subject}, "subject %s of %s is nobody now", n.subject, n.issuer)
			}
			if err := c.UnlinkCertName(ctx, name, n.certName()); err != nil {
				return err
			}
			return p.done(removed{path + "/names/" + n.certName().Name}, "certificates with %s prove nobody now", n.certName().Name)
		}),
	}
	n.add(cmd)
	return cmd
}
