package cli

import (
	"context"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/parley-mesh/parley/internal/control"
	"github.com/parley-mesh/parley/internal/parley"
)

func keyCommand(p *program) *cobra.Command {
	return parent(&cobra.Command{
		Use: "key", Short: "Make, list and revoke the API keys that callers prove themselves with",
	}, keyCreateCommand(p), keyListCommand(p), keyRevokeCommand(p))
}

// createdKey is a key with its text, which is shown this once.
type createdKey struct {
	control.Key
	Text string `json:"key"`
}

func keyCreateCommand(p *program) *cobra.Command {
	var holder, note string
	var ttl span
	cmd := &cobra.Command{
		Use: "create --for PRINCIPAL", Short: "Make a key; it is shown this once",
		Long: `Make a key for a principal, or with --for agent:NAME for the calling side of an
agent, so that the mesh knows whose inside its calls are. The key is shown this
once and kept nowhere; with --quiet it is all that is printed.

Programs send it as the header Authorization: Bearer KEY. This command line takes
it from PARLEY_KEY or --key-file, and is that principal then: do not export a
caller's key where you manage the mesh.`,
		Example: `  parley key create --for alice
  parley key create --for agent:researcher --note "runs in the lab"
  ALICE_KEY=$(parley key create --for alice --ttl 30d --quiet)`,
		Args: arguments(),
	}
	cmd.RunE = func(c *cobra.Command, args []string) error {
		if holder == "" {
			return usagef("--for is missing: say whose key it is, as in parley key create --for alice or --for agent:NAME")
		}
		return p.managing(func(ctx context.Context, c *control.Client, _ []string) error {
			n := control.NewKey{Principal: parley.PrincipalName(holder), Note: note, TTLMs: time.Duration(ttl).Milliseconds()}
			if agent, ok := strings.CutPrefix(holder, "agent:"); ok {
				n.Principal, n.Agent = "", parley.AgentName(agent)
			}
			made, err := c.CreateKey(ctx, n)
			if err != nil {
				return err
			}
			return p.showNewKey(createdKey{made.Key, made.Text})
		})(c, args)
	}
	flags := cmd.Flags()
	flags.StringVar(&holder, "for", "", "whose key it is: a principal, or agent:NAME")
	flags.Var(&ttl, "ttl", "how long it is valid, such as 12h or 30d (default: until it is revoked)")
	flags.StringVar(&note, "note", "", "what the key is for")
	return cmd
}

func (p *program) showNewKey(k createdKey) error {
	if p.flags.quiet && !p.json() {
		return p.print("%s\n", k.Text)
	}
	err := p.show(k, func(f *facts) {
		f.add("key", k.Text)
		f.add("id", k.ID)
		f.add("principal", string(k.Principal))
		f.add("note", k.Note)
		f.add("expires", expiry(k.Key))
	})
	p.remark("the key is shown this once; give it to the caller's program, which sends it as the header: Authorization: Bearer KEY")
	return err
}

// expiry is until when a key is valid.
func expiry(k control.Key) string {
	if k.ExpiresAt == nil {
		return "never"
	}
	return k.ExpiresAt.Local().Format("2006-01-02 15:04 MST")
}

func keyListCommand(p *program) *cobra.Command {
	var holder string
	cmd := &cobra.Command{
		Use: "list", Aliases: []string{"ls"}, Short: "List keys, without their secrets",
		Example: "  parley key list\n  parley key list --for alice --output json",
		Args:    arguments(),
		RunE: p.managing(func(ctx context.Context, c *control.Client, _ []string) error {
			who := parley.PrincipalName(strings.TrimPrefix(holder, "agent:")) // the calling side of an agent has its name
			keys, _, err := collect(ctx, 0, func(ctx context.Context, l control.List) (control.Page[control.Key], error) {
				return c.Keys(ctx, who, l)
			})
			if err != nil {
				return err
			}
			return list(p, keys, "no keys: make one with parley key create --for PRINCIPAL",
				[]string{"ID", "PRINCIPAL", "STATE", "EXPIRES", "NOTE", "AGE"}, func(k control.Key) []string {
					return []string{k.ID, string(k.Principal), keyState(k), expiry(k), short(k.Note, 40), p.age(k.CreatedAt)}
				})
		}),
	}
	cmd.Flags().StringVar(&holder, "for", "", "only keys of this principal, or of agent:NAME")
	return cmd
}

func keyState(k control.Key) string {
	switch {
	case k.Valid:
		return "valid"
	case k.RevokedAt != nil:
		return "revoked"
	}
	return "expired"
}

func keyRevokeCommand(p *program) *cobra.Command {
	return &cobra.Command{
		Use: "revoke ID", Short: "Revoke a key, in force at once",
		Example: "  parley key revoke ab2cd3ef4gh5",
		Args:    arguments("ID"),
		RunE: p.managing(func(ctx context.Context, c *control.Client, args []string) error {
			k, err := c.RevokeKey(ctx, keyID(args[0]))
			if err != nil {
				return err
			}
			return p.done(k, "revoked key %s of %s", k.ID, k.Principal)
		}),
	}
}

// keyID is the id in what somebody names a key by: its id, or the whole key.
// The secret half must not travel in an address.
func keyID(text string) string {
	if rest, ok := strings.CutPrefix(text, "pk_"); ok {
		id, _, _ := strings.Cut(rest, "_")
		return id
	}
	return text
}
