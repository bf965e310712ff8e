package cli

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/parley-mesh/parley/internal/control"
	"github.com/parley-mesh/parley/internal/parley"
)

func pushCommand(p *program) *cobra.Command {
	return parent(&cobra.Command{
		Use: "push", Short: "See how push notifications are delivered, try again, or receive some",
		Long: "See how push notifications are delivered, try again, or receive some. Callers ask\nfor them themselves, task by task; parley send --push URL is one that does.",
	}, pushListCommand(p), pushRetryCommand(p), pushListenCommand(p))
}

func pushListCommand(p *program) *cobra.Command {
	var f struct{ owner, agent, task string }
	var dead bool
	var limit int
	cmd := &cobra.Command{
		Use: "list", Aliases: []string{"ls"}, Short: "List who is told of tasks' events, or what could not be delivered",
		Example: `  parley push list
  parley push list --agent billing --output json
  parley push list --dead`,
		Args: arguments(),
	}
	cmd.RunE = func(c *cobra.Command, args []string) error {
		if limit < 0 {
			return usagef("--limit %d: use 0 for all, or how many", limit)
		}
		if dead && f.task != "" {
			return usagef("--task and --dead exclude each other: give one")
		}
		return p.managing(func(ctx context.Context, c *control.Client, _ []string) error {
			if dead {
				return p.listLetters(ctx, c, control.LetterFilter{Owner: parley.OwnerName(f.owner), Agent: parley.AgentName(f.agent)}, limit)
			}
			return p.listPushes(ctx, c, control.PushFilter{Owner: parley.OwnerName(f.owner), Agent: parley.AgentName(f.agent), Task: f.task}, limit)
		})(c, args)
	}
	flags := cmd.Flags()
	flags.StringVar(&f.owner, "owner", "", "only what this owner's callers asked for")
	flags.StringVar(&f.agent, "agent", "", "only of this agent's tasks")
	flags.StringVar(&f.task, "task", "", "only of this task")
	flags.BoolVar(&dead, "dead", false, "list dead letters instead: events that could not be delivered in time")
	flags.IntVar(&limit, "limit", 50, "how many at most; 0 for all")
	return cmd
}

func (p *program) listPushes(ctx context.Context, c *control.Client, f control.PushFilter, limit int) error {
	pushes, more, err := collect(ctx, limit, func(ctx context.Context, l control.List) (control.Page[control.Push], error) {
		return c.Pushes(ctx, f, l)
	})
	if err != nil {
		return err
	}
	err = list(p, pushes, "nobody is told of any task", []string{"PUSH", "AGENT", "TASK", "CALLER", "URL", "STATE", "PENDING", "DEAD", "ERROR"}, func(one control.Push) []string {
		return []string{
			one.ID, string(one.Agent), short(one.Task, 36), string(one.Principal), short(one.URL, 40), one.State,
			fmt.Sprint(one.Pending), fmt.Sprint(one.DeadLetters), short(one.Error, 50),
		}
	})
	if err == nil && more {
		p.remark("there are more: raise --limit, or narrow the list with its other flags")
	}
	return err
}

func (p *program) listLetters(ctx context.Context, c *control.Client, f control.LetterFilter, limit int) error {
	letters, more, err := collect(ctx, limit, func(ctx context.Context, l control.List) (control.Page[control.DeadLetter], error) {
		return c.DeadLetters(ctx, f, l)
	})
	if err != nil {
		return err
	}
	err = list(p, letters, "no dead letters", []string{"LETTER", "AGE", "AGENT", "TASK", "CALLER", "ATTEMPTS", "ERROR"}, func(one control.DeadLetter) []string {
		return []string{one.ID, p.age(one.DiedAt), string(one.Agent), short(one.Task, 36), string(one.Principal), fmt.Sprint(one.Attempts), short(one.Error, 50)}
	})
	if err == nil && more {
		p.remark("there are more: raise --limit, or narrow the list with its other flags")
	}
	return err
}

func pushRetryCommand(p *program) *cobra.Command {
	return &cobra.Command{
		Use: "retry PUSH|LETTER", Short: "Make the next attempt of a subscription at once, or try a dead letter once more",
		Example: "  parley push list\n  parley push retry K4TRN2ZQXA\n  parley push list --dead\n  parley push retry K4TRN2ZQXA-3",
		Args:    arguments("PUSH|LETTER"),
		RunE: p.managing(func(ctx context.Context, c *control.Client, args []string) error {
			if strings.Contains(args[0], "-") { // a subscription's id has none
				letter, err := c.RetryDeadLetter(ctx, args[0])
				if err != nil {
					return err
				}
				return p.done(letter, "delivered event %d of task %s, which was a dead letter", letter.Event, letter.Task)
			}
			one, err := c.RetryPush(ctx, args[0])
			if err != nil {
				return err
			}
			return p.done(one, "%s", retriedText(one))
		}),
	}
}

// retriedText is what came of asking for the next attempt.
func retriedText(one control.Push) string {
	if one.Pending == 0 {
		return one.ID + " has nothing to try: no events are pending"
	}
	return fmt.Sprintf("%s is tried again now: %d events are pending", one.ID, one.Pending)
}
