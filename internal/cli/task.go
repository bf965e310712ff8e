package cli

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/parley-mesh/parley/internal/a2a"
)

func taskCommand(p *program) *cobra.Command {
	return parent(&cobra.Command{
		Use: "task", Short: "See, follow and cancel your tasks at agents",
		Long: "See, follow and cancel the tasks that you began at agents. Tasks of others do not\nexist for you; what the mesh saw of all calls is in: parley calls.",
	}, taskGetCommand(p), taskListCommand(p), taskCancelCommand(p), taskSubscribeCommand(p))
}

func taskGetCommand(p *program) *cobra.Command {
	var history int32
	cmd := &cobra.Command{
		Use: "get AGENT TASK", Short: "Show a task as its agent has it now",
		Example: "  parley task get billing 0a1b2c\n  parley task get billing 0a1b2c --history 10 --output json",
		Args:    arguments("AGENT", "TASK"),
		RunE: func(cmd *cobra.Command, args []string) error {
			e, err := p.edge(args[0], "")
			if err != nil {
				return err
			}
			task, err := e.GetTask(cmd.Context(), a2a.GetTaskRequest{ID: args[1], HistoryLength: &history})
			if err != nil {
				return err
			}
			if err := p.showTask(task); err != nil {
				return err
			}
			p.remarkNext(args[0], task)
			return nil
		},
	}
	cmd.Flags().Int32Var(&history, "history", 0, "how many of the newest messages to show")
	return cmd
}

// remarkNext says what a task that waits for its caller waits for.
func (p *program) remarkNext(agent string, t *a2a.Task) {
	if next := nextStep(agent, t.ID, t.Status.State); next != "" && !p.json() {
		p.remark("%s", next)
	}
}

// showTask prints one task as a page.
func (p *program) showTask(t *a2a.Task) error {
	if p.json() {
		return p.document(wire{t})
	}
	var f facts
	f.add("task", t.ID)
	f.add("context", t.ContextID)
	f.add("state", stateText(t.Status.State))
	if t.Status.Timestamp != nil {
		f.add("since", p.moment(t.Status.Timestamp.Time))
	}
	f.add("says", messageText(t.Status.Message))
	for _, m := range t.History {
		who := "agent said"
		if m.Role == a2a.RoleUser {
			who = "you said"
		}
		f.add(who, messageText(&m))
	}
	for _, a := range t.Artifacts {
		name := a.Name
		if name == "" {
			name = a.ArtifactID
		}
		f.add("artifact", cleanLine(name)+"\n"+partsText(a.Parts))
	}
	return f.write(p.Out)
}

func taskListCommand(p *program) *cobra.Command {
	var contextID, state string
	var since span
	var limit int
	cmd := &cobra.Command{
		Use: "list AGENT", Short: "List your tasks at an agent, newest first",
		Example: "  parley task list billing\n  parley task list billing --state input-required --since 24h\n  parley task list billing --context c-17 --output json",
		Args:    arguments("AGENT"),
		RunE: func(cmd *cobra.Command, args []string) error {
			in := a2a.ListTasksRequest{ContextID: contextID}
			var err error
			if in.Status, err = parseState(state); err != nil {
				return err
			}
			if since > 0 {
				in.StatusTimestampAfter = &a2a.Timestamp{Time: p.now().Add(-time.Duration(since)).UTC()}
			}
			e, err := p.edge(args[0], "")
			if err != nil {
				return err
			}
			tasks, more, err := listTasks(cmd.Context(), e, in, limit)
			if err != nil {
				return err
			}
			return p.showTasks(tasks, more)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&contextID, "context", "", "only tasks of this context")
	flags.StringVar(&state, "state", "", "only tasks in this state, such as working or input-required")
	flags.Var(&since, "since", "only tasks whose state is younger, such as 24h or 7d")
	flags.IntVar(&limit, "limit", 50, "how many at most")
	return cmd
}

// listTasks walks the pages of a list until limit; more says that there are
// further tasks.
func listTasks(ctx context.Context, e *edge, in a2a.ListTasksRequest, limit int) (tasks []a2a.Task, more bool, err error) {
	if limit < 1 {
		return nil, false, usagef("--limit %d: use 1 or more", limit)
	}
	for {
		size := int32(min(limit-len(tasks), a2a.MaxPageSize))
		in.PageSize = &size
		page, err := e.ListTasks(ctx, in)
		if err != nil {
			return nil, false, err
		}
		tasks = append(tasks, page.Tasks...)
		in.PageToken = page.NextPageToken
		if in.PageToken == "" || len(page.Tasks) == 0 || len(tasks) >= limit {
			return tasks, in.PageToken != "", nil
		}
	}
}

func (p *program) showTasks(tasks []a2a.Task, more bool) error {
	if p.json() {
		for i := range tasks {
			if err := p.line(wire{&tasks[i]}); err != nil {
				return err
			}
		}
		return nil
	}
	err := list(p, tasks, "no tasks", []string{"TASK", "STATE", "SINCE", "CONTEXT", "SAYS"}, func(t a2a.Task) []string {
		since := ""
		if t.Status.Timestamp != nil {
			since = p.age(t.Status.Timestamp.Time)
		}
		return []string{t.ID, stateText(t.Status.State), since, t.ContextID, short(cleanLine(messageText(t.Status.Message)), 60)}
	})
	if err == nil && more {
		p.remark("there are more: raise --limit")
	}
	return err
}

func taskCancelCommand(p *program) *cobra.Command {
	return &cobra.Command{
		Use: "cancel AGENT TASK", Short: "Ask the agent to give a task up",
		Example: "  parley task cancel billing 0a1b2c",
		Args:    arguments("AGENT", "TASK"),
		RunE: func(cmd *cobra.Command, args []string) error {
			e, err := p.edge(args[0], "")
			if err != nil {
				return err
			}
			task, err := e.CancelTask(cmd.Context(), a2a.CancelTaskRequest{ID: args[1]})
			if err != nil {
				return err
			}
			if p.json() {
				return p.document(wire{task})
			}
			return p.print("%s\n", fmt.Sprintf("task %s is %s", cleanLine(task.ID), stateText(task.Status.State)))
		},
	}
}

func taskSubscribeCommand(p *program) *cobra.Command {
	var timeout span
	cmd := &cobra.Command{
		Use: "subscribe AGENT TASK", Short: "Follow a task until it comes to rest",
		Example: "  parley task subscribe billing 0a1b2c\n  parley task subscribe billing 0a1b2c --output json",
		Args:    arguments("AGENT", "TASK"),
		RunE: func(cmd *cobra.Command, args []string) error {
			e, err := p.edge(args[0], "")
			if err != nil {
				return err
			}
			ctx, cancel := within(cmd.Context(), time.Duration(timeout))
			defer cancel()
			stream, err := e.SubscribeToTask(ctx, a2a.SubscribeToTaskRequest{ID: args[1]})
			if err != nil {
				return err
			}
			v := newViewer(p)
			if err := p.follow(ctx, stream, v); err != nil {
				return err
			}
			return v.end(e)
		},
	}
	cmd.Flags().Var(&timeout, "timeout", "how long to follow, such as 5m; 0 for as long as it takes")
	return cmd
}
