package cli

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/parley-mesh/parley/internal/control"
	"github.com/parley-mesh/parley/internal/parley"
)

func callsCommand(p *program) *cobra.Command {
	return parent(&cobra.Command{
		Use: "calls", Short: "See what was called, by whom, and what came of it",
		Long: "See what was called, by whom, and what came of it. Every call is on record, also\nrefused and failed ones; payloads are not.",
	}, callsListCommand(p), callsShowCommand(p), callsTreeCommand(p), callsCancelCommand(p))
}

func callsListCommand(p *program) *cobra.Command {
	var f struct{ caller, owner, agent, method, task, reference, root, outcome, since, until string }
	var limit int
	cmd := &cobra.Command{
		Use: "list", Aliases: []string{"ls"}, Short: "List calls, newest first",
		Example: `  parley calls list
  parley calls list --agent billing --outcome crash --since 2h
  parley calls list --reference case-4711 --output json`,
		Args: arguments(),
	}
	cmd.RunE = func(c *cobra.Command, args []string) error {
		filter := control.CallFilter{
			Caller: parley.PrincipalName(f.caller), Owner: parley.OwnerName(f.owner), Agent: parley.AgentName(f.agent),
			Method: f.method, Task: f.task, Reference: f.reference, Root: f.root, Outcome: f.outcome,
		}
		var err error
		if filter.Since, err = p.parseTime("since", f.since); err != nil {
			return err
		}
		if filter.Until, err = p.parseTime("until", f.until); err != nil {
			return err
		}
		if limit < 0 {
			return usagef("--limit %d: use 0 for all, or how many", limit)
		}
		return p.managing(func(ctx context.Context, c *control.Client, _ []string) error {
			return p.listCalls(ctx, c, filter, limit)
		})(c, args)
	}
	flags := cmd.Flags()
	flags.StringVar(&f.caller, "caller", "", "only calls by this principal")
	flags.StringVar(&f.owner, "owner", "", "only calls by or to this owner's")
	flags.StringVar(&f.agent, "agent", "", "only calls to this agent")
	flags.StringVar(&f.method, "method", "", "only this A2A method, such as SendMessage")
	flags.StringVar(&f.task, "task", "", "only calls about this task")
	flags.StringVar(&f.reference, "reference", "", "only calls with this reference")
	flags.StringVar(&f.root, "root", "", "only calls of this chain")
	flags.StringVar(&f.outcome, "outcome", "", "only calls that ended so: open, "+joined(parley.Outcomes))
	flags.StringVar(&f.since, "since", "", "only calls since then: 2h, 7d, 2026-03-01 or a time in RFC 3339")
	flags.StringVar(&f.until, "until", "", "only calls until then")
	flags.IntVar(&limit, "limit", 50, "how many at most; 0 for all")
	return cmd
}

func (p *program) listCalls(ctx context.Context, c *control.Client, f control.CallFilter, limit int) error {
	calls, more, err := collect(ctx, limit, func(ctx context.Context, l control.List) (control.Page[control.Call], error) {
		return c.Calls(ctx, f, l)
	})
	if err != nil {
		return err
	}
	err = list(p, calls, "no calls", []string{"CALL", "AGE", "CALLER", "AGENT", "METHOD", "OUTCOME", "MS", "REFERENCE"}, func(one control.Call) []string {
		return []string{one.ID, p.age(one.Begun), string(one.Caller), string(one.Agent), one.Method, outcomeText(one), callTime(one), short(one.Reference, 30)}
	})
	if err == nil && more {
		p.remark("there are more: raise --limit, or narrow the list with its other flags")
	}
	return err
}

// outcomeText is how a call ended, with the reason where that says more.
func outcomeText(c control.Call) string {
	if c.Reason == "" || strings.EqualFold(c.Reason, c.Outcome) {
		return c.Outcome
	}
	return c.Outcome + " (" + c.Reason + ")"
}

// callTime is how long a call took, in milliseconds.
func callTime(c control.Call) string {
	if c.Ended == nil {
		return ""
	}
	return fmt.Sprintf("%.1f", c.TotalMs)
}

func callsShowCommand(p *program) *cobra.Command {
	return &cobra.Command{
		Use: "show CALL", Short: "Show all that is on record of a call",
		Example: "  parley calls show 01970000-0000-7000-8000-000000000000",
		Args:    arguments("CALL"),
		RunE: p.managing(func(ctx context.Context, c *control.Client, args []string) error {
			one, err := c.Call(ctx, args[0])
			if err != nil {
				return err
			}
			return p.showCall(one)
		}),
	}
}

func (p *program) showCall(c control.Call) error {
	return p.show(c, func(f *facts) {
		f.add("call", c.ID)
		f.add("caller", who(string(c.Caller), string(c.CallerOwner)))
		f.add("for agent", string(c.CallerAgent))
		f.add("agent", who(string(c.Agent), string(c.AgentOwner)))
		f.add("instance", c.Instance)
		f.add("environment", string(c.Environment))
		f.add("method", c.Method)
		f.add("binding", bindings(c))
		f.add("outcome", outcomeText(c))
		if c.Asked != nil {
			f.add("asked", strings.TrimSpace("its caller's side for a credential "+strings.Join(c.Asked.Schemes, ", "))+", "+p.moment(c.Asked.At))
		}
		f.add("detail", c.Detail)
		f.add("begun", p.moment(c.Begun))
		if c.Ended != nil {
			f.add("ended", p.moment(*c.Ended))
			f.add("took", fmt.Sprintf("%.1f ms, first byte after %.1f ms", c.TotalMs, c.FirstByteMs))
		} else if c.Deadline != nil {
			f.add("deadline", c.Deadline.Local().Format("2006-01-02 15:04:05 MST"))
		}
		if len(c.Steps) > 0 {
			f.add("steps", stepsText(c.Steps))
		}
		if c.Status != 0 {
			f.add("HTTP status", fmt.Sprint(c.Status))
		}
		f.add("bytes", fmt.Sprintf("%d in, %d out", c.BytesIn, c.BytesOut))
		f.add("task", strings.TrimSpace(c.TaskID+" "+strings.TrimPrefix(c.TaskState, "TASK_STATE_")))
		f.add("context", c.ContextID)
		f.add("message", c.MessageID)
		f.add("reference", c.Reference)
		f.add("trace", c.TraceID)
		f.add("link", linkText(c))
		f.add("parent", c.Parent)
		if c.Root != c.ID {
			f.add("root", c.Root)
		}
		if c.Link == "ambiguous" {
			f.add("candidates", strings.Join(c.Candidates, "\n"))
		}
	})
}

func who(name, owner string) string {
	if owner == "" {
		return name
	}
	return name + " (owner " + owner + ")"
}

// bindings are what the caller spoke and what the agent was spoken to in.
func bindings(c control.Call) string {
	if c.AgentBinding == "" || c.AgentBinding == c.CallerBinding {
		return strings.TrimSpace(c.CallerBinding + " " + c.Version)
	}
	return fmt.Sprintf("%s %s, translated to %s", c.CallerBinding, c.Version, c.AgentBinding)
}

func stepsText(steps []control.CallStep) string {
	var texts []string
	for _, s := range steps {
		texts = append(texts, fmt.Sprintf("%s %.2f", s.Name, s.TookMs))
	}
	return strings.Join(texts, ", ") + " ms"
}

// linkText says how the call came to its place in the chain.
func linkText(c control.Call) string {
	switch c.Link {
	case "root":
		return "begins a chain"
	case "parent":
		return fmt.Sprintf("inside another call, depth %d", c.Depth)
	case "turn":
		return "a further turn of a task"
	case "ambiguous":
		return fmt.Sprintf("inside one of %d open calls of its caller, which one is not known; depth %d", c.CandidateCount, c.Depth)
	}
	return string(c.Link)
}

func callsTreeCommand(p *program) *cobra.Command {
	return &cobra.Command{
		Use: "tree CALL", Short: "Draw the whole chain that a call stands in",
		Example: "  parley calls tree 01970000-0000-7000-8000-000000000000",
		Args:    arguments("CALL"),
		RunE: p.managing(func(ctx context.Context, c *control.Client, args []string) error {
			tree, err := c.CallTree(ctx, args[0])
			if err != nil {
				return err
			}
			if p.json() {
				return p.document(tree)
			}
			return drawTree(p.Out, p.styleOf(p.Out), tree, args[0])
		}),
	}
}

func callsCancelCommand(p *program) *cobra.Command {
	return &cobra.Command{
		Use: "cancel CALL", Short: "Cancel an open call: its agent is asked to give its task up",
		Example: "  parley calls list --outcome open\n  parley calls cancel 01970000-0000-7000-8000-000000000000",
		Args:    arguments("CALL"),
		RunE: p.managing(func(ctx context.Context, c *control.Client, args []string) error {
			one, err := c.CancelCall(ctx, args[0])
			if err != nil {
				return err
			}
			return p.done(one, "canceled call %s to %s: it is %s", one.ID, one.Agent, outcomeText(one))
		}),
	}
}
