package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/parley-mesh/parley/internal/control"
	"github.com/parley-mesh/parley/internal/parley"
	"github.com/parley-mesh/parley/internal/registry"
)

func agentCommand(p *program) *cobra.Command {
	return parent(&cobra.Command{
		Use: "agent", Short: "Register, look at and manage agents",
	},
		agentAddCommand(p), agentListCommand(p), agentShowCommand(p), agentRemoveCommand(p),
		agentSuspendCommand(p), agentResumeCommand(p), agentRefreshCommand(p), agentApproveCommand(p),
		agentAuthCommand(p), agentSetCommand(p), agentInstanceCommand(p), agentAllowCommand(p), agentDisallowCommand(p))
}

func agentAddCommand(p *program) *cobra.Command {
	var n struct {
		owner, environment string
		allow              []string
	}
	var auth authFlags
	cmd := &cobra.Command{
		Use: "add NAME URL", Short: "Look at an agent and register it",
		Long: `Fetch an agent's card, check it, find out which binding really answers, and
register the agent under NAME. URL is the card's address, a base address or a
bare host. Nothing is executed. If the card does not pass, nothing is stored and
every problem is named.`,
		Example: `  parley agent add echo http://127.0.0.1:9000
  parley agent add billing agents.example.com --owner finance --environment prod
  parley agent add search https://search.example.com --api-key --header X-API-Key --secret-file key.txt`,
		Args: arguments("NAME", "URL"),
		RunE: p.managing(func(ctx context.Context, c *control.Client, args []string) error {
			credential, err := auth.credential(ctx, p)
			if err != nil {
				return err
			}
			looked, err := c.AddAgent(ctx, control.NewAgent{
				Name: parley.AgentName(args[0]), URL: args[1], Owner: parley.OwnerName(n.owner),
				Environment: parley.Environment(n.environment), Allow: named[parley.OwnerName](n.allow), Auth: credential,
			})
			return p.showLook(looked, err, "registered")
		}),
	}
	flags := cmd.Flags()
	flags.StringVar(&n.owner, "owner", "", "who answers for it (default: default)")
	flags.StringVar(&n.environment, "environment", "", "dev, test, staging or prod (default: dev)")
	flags.StringSliceVar(&n.allow, "allow", nil, "other owners that may call it (repeatable)")
	auth.register(cmd)
	return cmd
}

// showLook tells what a look at an agent found and what came of it. A look
// that failed is shown as well, before its error.
func (p *program) showLook(looked control.LookedAt, failure error, verb string) error {
	if p.json() {
		if failure != nil && looked.Report == nil {
			return failure
		}
		return errors.Join(p.document(looked), failure)
	}
	if looked.Report != nil && (failure != nil || !p.flags.quiet) {
		if err := p.remarkReport(looked.Report, failure); err != nil {
			return errors.Join(err, failure)
		}
	}
	if failure != nil || looked.Agent == nil {
		return failure
	}
	return p.agentIs(*looked.Agent, verb)
}

// remarkReport writes a report to the error stream: which addresses were tried
// and what is to be said of the card, but not what the error of a failed look
// says anyhow.
func (p *program) remarkReport(r *control.Report, failure error) error {
	said := ""
	if failure != nil {
		said = plainMessage(failure)
	}
	var f facts
	for _, t := range r.Tried {
		if text := t.URL + ": " + t.Result; !strings.Contains(said, text) {
			f.add("tried", text)
		}
	}
	for _, problem := range r.Problems {
		if failure == nil || problem.Level != registry.Refusal {
			f.add(string(problem.Level), problem.String())
		}
	}
	return f.write(p.Err)
}

// agentIs tells in a line what an agent is after something was done with it,
// and what to do next.
func (p *program) agentIs(a control.Agent, verb string) error {
	text := fmt.Sprintf("%s agent %s: it is %s", verb, a.Name, a.Status)
	if used, ok := inUse(a); ok {
		text += fmt.Sprintf("; calls go to %s (%s %s)", used.URL, used.Speaks(), used.SpeaksVersion())
	}
	if err := p.done(a, "%s", text); err != nil {
		return err
	}
	if a.CheckError != "" && a.CheckError != a.Reason {
		p.remark("the look at it failed: %s", a.CheckError)
	}
	switch {
	case a.Reason != "":
		p.remark("%s", a.Reason)
	case a.CheckError != "": // was told
	case a.Pending != nil:
		p.remark("a newer card waits, since %s; see it with parley agent show %s, take it with parley agent approve %s", a.Pending.Why, a.Name, a.Name)
	case a.Status == registry.Active:
		p.remark("try it: parley send %s \"hello\"", a.Name)
	}
	return nil
}

// inUse is the interface that calls to an agent go to.
func inUse(a control.Agent) (registry.Interface, bool) {
	if a.Use < 0 || a.Use >= len(a.Interfaces) {
		return registry.Interface{}, false
	}
	return a.Interfaces[a.Use], true
}

func agentListCommand(p *program) *cobra.Command {
	var owner string
	var stale span
	var unused bool
	cmd := &cobra.Command{
		Use: "list", Aliases: []string{"ls"}, Short: "List agents by name",
		Long: `List agents by name. --stale D lists those of which no look has gone well for that
long, --unused those that nobody has called since they were registered; together
they list those of which neither happened for that long.`,
		Example: "  parley agent list\n  parley agent list --owner finance --output json\n  parley agent list --stale 30d --unused",
		Args:    arguments(),
		RunE: p.managing(func(ctx context.Context, c *control.Client, _ []string) error {
			f := control.AgentFilter{Owner: parley.OwnerName(owner), Unused: unused}
			if stale > 0 {
				f.SeenBefore = p.now().Add(-time.Duration(stale))
				f.UnusedSince = f.SeenBefore
			}
			agents, err := agentsThat(ctx, c, f)
			if err != nil {
				return err
			}
			none := "no agents: register one with parley agent add NAME URL"
			if f != (control.AgentFilter{}) {
				none = "no agent is like that; all of them: parley agent list"
			}
			return list(p, agents, none,
				[]string{"NAME", "STATUS", "OWNER", "ENVIRONMENT", "BINDING", "URL", "CHECKED"}, func(a control.Agent) []string {
					status, binding, checked := string(a.Status), "", ""
					if a.Pending != nil {
						status += ", card waits"
					}
					if used, ok := inUse(a); ok {
						binding = used.Speaks() + " " + used.SpeaksVersion()
					}
					if a.CheckedAt != nil {
						checked = p.age(*a.CheckedAt)
					}
					return []string{string(a.Name), status, string(a.Owner), string(a.Environment), binding, a.URL, checked}
				})
		}),
	}
	cmd.Flags().StringVar(&owner, "owner", "", "only those of this owner")
	cmd.Flags().Var(&stale, "stale", "only those not found well for that long, such as 30d")
	cmd.Flags().BoolVar(&unused, "unused", false, "only those that nobody has called: ever, or as long as --stale says")
	return cmd
}

func allAgents(ctx context.Context, c *control.Client, owner string) ([]control.Agent, error) {
	return agentsThat(ctx, c, control.AgentFilter{Owner: parley.OwnerName(owner)})
}

func agentsThat(ctx context.Context, c *control.Client, f control.AgentFilter) ([]control.Agent, error) {
	agents, _, err := collect(ctx, 0, func(ctx context.Context, l control.List) (control.Page[control.Agent], error) {
		return c.FindAgents(ctx, f, l)
	})
	return agents, err
}

func agentShowCommand(p *program) *cobra.Command {
	return &cobra.Command{
		Use: "show NAME", Short: "Show an agent: its interfaces, what is wrong with them, and who may call it",
		Example: "  parley agent show echo\n  parley agent show echo --output json",
		Args:    arguments("NAME"),
		RunE: p.managing(func(ctx context.Context, c *control.Client, args []string) error {
			a, err := c.Agent(ctx, parley.AgentName(args[0]))
			if err != nil {
				return err
			}
			return p.show(a, func(f *facts) { p.agentFacts(f, a) })
		}),
	}
}

func (p *program) agentFacts(f *facts, a control.AgentDetail) {
	f.add("name", string(a.Name))
	f.add("title", a.Title)
	f.add("description", a.Description)
	f.add("version", a.AgentVersion)
	f.add("owner", string(a.Owner))
	f.add("environment", string(a.Environment))
	f.add("status", string(a.Status))
	f.add("because", a.Reason)
	f.add("url", a.URL)
	f.add("card", a.CardURL)
	f.add("card hash", a.CardHash)
	f.add("signature", signatureText(a.Signature))
	for _, pin := range a.Pins {
		f.add("pinned", "key "+pin.KeyID+" ("+pin.Thumbprint+"), since "+p.moment(pin.Since))
	}
	for i, one := range a.Interfaces {
		f.add("interface", interfaceText(one, i == a.Use))
	}
	f.add("may call", "owner "+string(a.Owner)+" in "+string(a.Environment))
	for _, owner := range a.Allow {
		f.add("may call", "owner "+string(owner))
	}
	if a.AuthRequired == registry.AuthForbid {
		f.add("may not", "ask callers for a credential")
	}
	if c := a.Auth; c != nil {
		f.add("credential", strings.Join(strings.Fields(fmt.Sprintf("%s %s %s", c.Kind, c.In, c.Name)), " ")+", sent to "+c.Origin+" only")
		p.authFacts(f, c)
	}
	for _, warning := range a.Warnings {
		f.add("warning", warning)
	}
	if w := a.Pending; w != nil {
		f.add("waits", fmt.Sprintf("a newer card, %s: %s", p.moment(w.Since), w.Why))
		f.add("its signature", signatureText(w.Signature))
		for _, one := range w.Interfaces {
			f.add("would be", interfaceText(one, false))
		}
	}
	if a.CheckedAt != nil {
		f.add("checked", p.moment(*a.CheckedAt))
	}
	f.add("found", a.CheckError)
	if a.SeenAt != nil {
		f.add("found well", p.moment(*a.SeenAt))
	}
	if a.CalledAt != nil {
		f.add("called", p.moment(*a.CalledAt))
	}
	f.add("registered", p.moment(a.CreatedAt))
}

// interfaceText is an interface in a line, with what the binding probe found.
func interfaceText(i registry.Interface, used bool) string {
	text := fmt.Sprintf("%s %s at %s", i.Binding, i.Version, i.URL)
	if i.Tenant != "" {
		text += " tenant " + i.Tenant
	}
	if i.Probe != "" {
		text += ": " + i.Probe
	}
	if i.Behaves != "" {
		text += ", speaks " + i.Behaves
	}
	if i.BehavesVersion != "" {
		text += ", speaks version " + i.BehavesVersion
	}
	if used {
		text += " (in use)"
	}
	return text
}

func agentRemoveCommand(p *program) *cobra.Command {
	return &cobra.Command{
		Use: "rm NAME", Aliases: []string{"remove", "delete"}, Short: "Forget an agent and the keys it calls with; its calls stay on record",
		Example: "  parley agent rm echo",
		Args:    arguments("NAME"),
		RunE: p.managing(func(ctx context.Context, c *control.Client, args []string) error {
			if err := c.RemoveAgent(ctx, parley.AgentName(args[0]), 0); err != nil {
				return err
			}
			return p.done(removed{"agents/" + args[0]}, "removed agent %s", args[0])
		}),
	}
}

func agentSuspendCommand(p *program) *cobra.Command {
	var reason string
	cmd := &cobra.Command{
		Use: "suspend NAME", Short: "Take an agent out of service until resume",
		Example: "  parley agent suspend echo --reason \"answers nonsense since the update\"",
		Args:    arguments("NAME"),
		RunE: p.managing(func(ctx context.Context, c *control.Client, args []string) error {
			a, err := c.SuspendAgent(ctx, parley.AgentName(args[0]), control.Suspension{Reason: reason})
			if err != nil {
				return err
			}
			return p.done(a, "suspended agent %s", a.Name)
		}),
	}
	cmd.Flags().StringVar(&reason, "reason", "", "why, in one line; callers and operators read it")
	return cmd
}

func agentSetCommand(p *program) *cobra.Command {
	var authRequired string
	cmd := &cobra.Command{
		Use: "set NAME --auth-required pass|forbid", Short: "Say what an agent may do",
		Long: `Say whether an agent may ask callers for a credential, by the task state
TASK_STATE_AUTH_REQUIRED. Where it may not, such a call ends as denied, and what
the agent asks is not shown.`,
		Example: "  parley agent set billing --auth-required forbid\n  parley agent set billing --auth-required pass",
		Args:    arguments("NAME"),
	}
	cmd.RunE = func(c *cobra.Command, args []string) error {
		if authRequired == "" {
			return usagef("nothing to set: %s", c.UseLine())
		}
		return p.managing(func(ctx context.Context, c *control.Client, args []string) error {
			a, err := c.SetAgent(ctx, parley.AgentName(args[0]), control.AgentSettings{AuthRequired: registry.AuthPolicy(authRequired)})
			if err != nil {
				return err
			}
			may := "may"
			if a.AuthRequired == registry.AuthForbid {
				may = "may not"
			}
			return p.done(a, "agent %s %s ask callers for a credential", a.Name, may)
		})(c, args)
	}
	cmd.Flags().StringVar(&authRequired, "auth-required", "", "pass or forbid")
	return cmd
}

func agentResumeCommand(p *program) *cobra.Command {
	return agentVerb(p, "resume NAME", "Take a suspension back", "  parley agent resume echo", "resumed",
		func(ctx context.Context, c *control.Client, name parley.AgentName) (control.Agent, error) {
			return c.ResumeAgent(ctx, name)
		})
}

func agentApproveCommand(p *program) *cobra.Command {
	cmd := agentVerb(p, "approve NAME", "Put a card that waits in use", "  parley agent show billing\n  parley agent approve billing", "approved the card of",
		func(ctx context.Context, c *control.Client, name parley.AgentName) (control.Agent, error) {
			// The version makes sure that no card is taken that came after this look.
			a, err := c.Agent(ctx, name)
			if err != nil {
				return control.Agent{}, err
			}
			return c.ApproveAgent(ctx, name, a.Version)
		})
	cmd.Long = "Put a card that waits in use. A card waits where it names addresses at an origin\nthat the agent did not have before; look at it first with: parley agent show."
	return cmd
}

// agentVerb is a verb that names nothing but an agent.
func agentVerb(p *program, use, short, example, past string, do func(context.Context, *control.Client, parley.AgentName) (control.Agent, error)) *cobra.Command {
	return &cobra.Command{
		Use: use, Short: short, Example: example, Args: arguments("NAME"),
		RunE: p.managing(func(ctx context.Context, c *control.Client, args []string) error {
			a, err := do(ctx, c, parley.AgentName(args[0]))
			if err != nil {
				return err
			}
			return p.agentIs(a, past)
		}),
	}
}

func agentRefreshCommand(p *program) *cobra.Command {
	return &cobra.Command{
		Use: "refresh NAME", Short: "Look at an agent again, now",
		Example: "  parley agent refresh echo",
		Args:    arguments("NAME"),
		RunE: p.managing(func(ctx context.Context, c *control.Client, args []string) error {
			looked, err := c.RefreshAgent(ctx, parley.AgentName(args[0]))
			return p.showLook(looked, err, "refreshed")
		}),
	}
}

func agentAllowCommand(p *program) *cobra.Command {
	return allowCommand(p, "allow", "Let another owner's callers call an agent", "may call",
		func(ctx context.Context, c *control.Client, name parley.AgentName, owner parley.OwnerName) (control.Agent, error) {
			return c.AllowOwner(ctx, name, owner)
		})
}

func agentDisallowCommand(p *program) *cobra.Command {
	return allowCommand(p, "disallow", "Take an owner off the list of those who may call an agent", "may no longer call",
		func(ctx context.Context, c *control.Client, name parley.AgentName, owner parley.OwnerName) (control.Agent, error) {
			return c.DisallowOwner(ctx, name, owner)
		})
}

func allowCommand(p *program, verb, short, effect string, do func(context.Context, *control.Client, parley.AgentName, parley.OwnerName) (control.Agent, error)) *cobra.Command {
	var owner string
	cmd := &cobra.Command{
		Use: verb + " NAME --owner OWNER", Short: short,
		Example: "  parley agent " + verb + " billing --owner sales",
		Args:    arguments("NAME"),
	}
	cmd.RunE = func(c *cobra.Command, args []string) error {
		if owner == "" {
			return usagef("--owner is missing: %s", c.UseLine())
		}
		return p.managing(func(ctx context.Context, c *control.Client, args []string) error {
			a, err := do(ctx, c, parley.AgentName(args[0]), parley.OwnerName(owner))
			if err != nil {
				return err
			}
			return p.done(a, "callers of owner %s %s agent %s", owner, effect, a.Name)
		})(c, args)
	}
	cmd.Flags().StringVar(&owner, "owner", "", "the owner")
	return cmd
}
