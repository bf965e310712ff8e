package cli

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/parley-mesh/parley/internal/control"
)

func keyringCommand(p *program) *cobra.Command {
	return parent(&cobra.Command{
		Use: "keyring", Short: "List and rotate the keys with which the mesh itself signs",
		Long: `List and rotate the keys with which the mesh signs cards, tokens of pushes and
webhooks. Keys of callers are another thing: see parley key.`,
	}, keyringListCommand(p), keyringRotateCommand(p))
}

func keyringListCommand(p *program) *cobra.Command {
	return &cobra.Command{
		Use: "list", Aliases: []string{"ls"}, Short: "List the keys, without their private halves",
		Long: `List the keys with which the mesh signs, or has signed. A key is next while it is
published and signs nothing yet, current while it signs, retired while what it
signed may still be verified, then expired. A purpose that nobody has needed yet
has no key.`,
		Example: "  parley keyring list\n  parley keyring list --output json",
		Args:    arguments(),
		RunE: p.managing(func(ctx context.Context, c *control.Client, _ []string) error {
			keys, err := c.MeshKeys(ctx)
			if err != nil {
				return err
			}
			return list(p, keys.Items, "no keys: they are made when the mesh first signs something",
				[]string{"PURPOSE", "ID", "ALGORITHM", "STATE", "SIGNS FROM", "PUBLISHED TO"}, func(k control.MeshKey) []string {
					until := "-"
					if k.PublishedTo != nil {
						until = p.moment(*k.PublishedTo)
					}
					return []string{string(k.Purpose), k.ID, k.Algorithm, string(k.State), p.moment(k.ActiveAt), until}
				})
		}),
	}
}

func keyringRotateCommand(p *program) *cobra.Command {
	var revoke bool
	cmd := &cobra.Command{
		Use: "rotate PURPOSE", Short: "Make another key; the old one stays published until nothing depends on it",
		Long: `Make another key of a purpose: card, push or webhook. It is published at once and
signs a minute later; the old one stays published for keys.overlap. The mesh does
this by itself every keys.rotation.

--revoke is for a key that was stolen: all older keys of the purpose leave the
published set at once, so that nothing they signed is trusted any more.`,
		Example: "  parley keyring rotate card\n  parley keyring rotate push --revoke",
		Args:    arguments("PURPOSE"),
		RunE: p.managing(func(ctx context.Context, c *control.Client, args []string) error {
			made, err := c.RotateMeshKey(ctx, args[0], control.MeshKeyRotation{Revoke: revoke})
			if err != nil {
				return err
			}
			return p.done(made, "made the %s key %s: it signs from %s on", made.Purpose, made.ID, p.moment(made.ActiveAt))
		}),
	}
	cmd.Flags().BoolVar(&revoke, "revoke", false, "take back all older keys of the purpose at once")
	return cmd
}
