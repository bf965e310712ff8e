package cli

import (
	"context"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/parley-mesh/parley/internal/control"
	"github.com/parley-mesh/parley/internal/parley"
)

func agentInstanceCommand(p *program) *cobra.Command {
	return parent(&cobra.Command{
		Use: "instance", Short: "Manage the addresses at which one agent answers",
	}, instanceAddCommand(p), instanceListCommand(p), instanceRemoveCommand(p))
}

func instanceAddCommand(p *program) *cobra.Command {
	var n control.NewInstance
	cmd := &cobra.Command{
		Use: "add NAME URL", Short: "Add a further address of an agent",
		Long: `Look at a further address of an agent and share calls with it from then on. It must
answer, and its card must be the agent's: the same name, version and skills.
New work goes to the healthy address with the least to do; a task stays where it
began. The agent's credential goes to another origin only with --credential.`,
		Example: `  parley agent instance add billing https://billing-2.example.com
  parley agent instance add billing https://billing-eu.example.com --id eu --credential`,
		Args: arguments("NAME", "URL"),
		RunE: p.managing(func(ctx context.Context, c *control.Client, args []string) error {
			n.URL = args[1]
			i, err := c.AddInstance(ctx, parley.AgentName(args[0]), n)
			if err != nil {
				return err
			}
			return p.done(i, "added instance %s of agent %s: calls go to %s (%s)", i.ID, args[0], i.Address, i.Binding)
		}),
	}
	cmd.Flags().StringVar(&n.ID, "id", "", "how to call the instance (default: the mesh makes one)")
	cmd.Flags().BoolVar(&n.Credential, "credential", false, "let the agent's credential go to this URL's origin")
	return cmd
}

func instanceListCommand(p *program) *cobra.Command {
	return &cobra.Command{
		Use: "list NAME", Aliases: []string{"ls"}, Short: "List an agent's addresses, its own first",
		Example: "  parley agent instance list billing",
		Args:    arguments("NAME"),
		RunE: p.managing(func(ctx context.Context, c *control.Client, args []string) error {
			page, err := c.Instances(ctx, parley.AgentName(args[0]))
			if err != nil {
				return err
			}
			return list(p, page.Items, "", []string{"ID", "STATUS", "HEALTHY", "UNDER WAY", "ADDRESS", "CHECKED", "FOUND"}, func(i control.Instance) []string {
				healthy, checked := "no", ""
				if i.Healthy {
					healthy = "yes"
				}
				if i.CheckedAt != nil {
					checked = p.age(*i.CheckedAt)
				}
				return []string{i.ID, string(i.Status), healthy, strconv.Itoa(i.Exchanges), i.Address, checked, i.CheckError}
			})
		}),
	}
}

func instanceRemoveCommand(p *program) *cobra.Command {
	var force bool
	cmd := &cobra.Command{
		Use: "rm NAME ID", Aliases: []string{"remove", "delete"}, Short: "Take an instance out of service",
		Long: `Take an instance out of service. It gets no new work from now on; tasks that are
open there stay reachable, and it is forgotten once they are final. With --force it
is forgotten at once, and what is open there is lost to callers.`,
		Example: "  parley agent instance rm billing eu\n  parley agent instance rm billing eu --force",
		Args:    arguments("NAME", "ID"),
		RunE: p.managing(func(ctx context.Context, c *control.Client, args []string) error {
			out, err := c.RemoveInstance(ctx, parley.AgentName(args[0]), args[1], force)
			if err != nil {
				return err
			}
			if out.Gone {
				return p.done(out, "removed instance %s of agent %s", out.ID, args[0])
			}
			return p.done(out, "instance %s of agent %s drains: %d open there; it is forgotten once nothing is", out.ID, args[0], out.Open)
		}),
	}
	cmd.Flags().BoolVar(&force, "force", false, "at once, whatever is open there")
	return cmd
}
