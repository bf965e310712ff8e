package cli

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"github.com/parley-mesh/parley/internal/control"
)

func eventsCommand(p *program) *cobra.Command {
	return parent(&cobra.Command{Use: "events", Short: "Read the mesh's feed of events"}, eventsTailCommand(p))
}

func eventsTailCommand(p *program) *cobra.Command {
	var from int64
	var follow bool
	cmd := &cobra.Command{
		Use: "tail", Short: "Print events in order, and with --follow go on as they happen",
		Long: `Print events in order. Without --follow the command ends at the newest; with it,
it goes on until Ctrl-C, also over a restart of the mesh, and loses and repeats
none. --from begins at a place in the feed, the first column; without it --follow
begins with what happens from now on.`,
		Example: `  parley events tail
  parley events tail --follow
  parley events tail --from 1 --follow --output json`,
		Args: arguments(),
	}
	cmd.RunE = func(c *cobra.Command, args []string) error {
		after := int64(control.FromNow)
		switch {
		case c.Flags().Changed("from") && from < 1:
			return usagef("--from %d: places in the feed begin at 1", from)
		case c.Flags().Changed("from"):
			after = from - 1
		case !follow:
			after = 0
		}
		api, err := p.client()
		if err != nil {
			return err
		}
		defer api.Close()
		if follow {
			return api.FollowEvents(c.Context(), after, p.event)
		}
		return p.pastEvents(c.Context(), api, after)
	}
	cmd.Flags().Int64Var(&from, "from", 0, "place in the feed to begin at")
	cmd.Flags().BoolVarP(&follow, "follow", "f", false, "go on with what happens next")
	return cmd
}

// pastEvents prints what has happened, from a place on.
func (p *program) pastEvents(ctx context.Context, c *control.Client, after int64) error {
	get := func(ctx context.Context, l control.List) (control.Page[control.Event], error) {
		return c.Events(ctx, after, l)
	}
	for e, err := range control.All(ctx, control.List{Limit: maxPage}, get) {
		if err == nil {
			err = p.event(e)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// maxEventText is how much of an event's data a line shows, in characters.
const maxEventText = 120

// event prints one event in one line.
func (p *program) event(e control.Event) error {
	if p.json() {
		return p.line(e)
	}
	return p.print("%6s  %s  %-18s  %-42s  %s\n", cleanLine(e.Sequence), e.Time.Local().Format(time.DateTime),
		cleanLine(e.Type), cleanLine(e.Subject), short(cleanLine(string(e.Data)), maxEventText))
}
