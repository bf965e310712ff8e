package cli

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/parley-mesh/parley/internal/control"
)

// managing makes what a management verb does of a function that has the
// control API at hand.
func (p *program) managing(do func(ctx context.Context, c *control.Client, args []string) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		c, err := p.client()
		if err != nil {
			return err
		}
		defer c.Close()
		return do(cmd.Context(), c, args)
	}
}

// collect reads a list to its end, or to limit items where that is above 0;
// more says that there are further ones.
func collect[T any](ctx context.Context, limit int, get func(context.Context, control.List) (control.Page[T], error)) (items []T, more bool, _ error) {
	for item, err := range control.All(ctx, control.List{Limit: pageOf(limit)}, get) {
		if err != nil {
			return nil, false, err
		}
		if limit > 0 && len(items) == limit {
			return items, true, nil
		}
		items = append(items, item)
	}
	return items, false, nil
}

// maxPage is the largest page of the control API.
const maxPage = 200

// pageOf is the size of pages that reads limit items and sees whether there
// is one more.
func pageOf(limit int) int {
	if limit <= 0 {
		return maxPage
	}
	return min(limit+1, maxPage)
}

// done tells that something was changed, or prints it as JSON.
func (p *program) done(v any, format string, args ...any) error {
	if p.json() {
		return p.document(v)
	}
	if p.flags.quiet {
		return nil
	}
	return p.print("%s\n", cleanLine(fmt.Sprintf(format, args...)))
}

// removed is what is printed of something that is gone.
type removed struct {
	Removed string `json:"removed"` // kind/name
}

// show prints one thing: as one JSON document, or as facts.
func (p *program) show(v any, fill func(*facts)) error {
	if p.json() {
		return p.document(v)
	}
	var f facts
	fill(&f)
	return f.write(p.Out)
}

// span is a duration as people write it: 90s, 12h, 30d.
type span time.Duration

// String, Set and Type implement pflag.Value.
func (s *span) String() string {
	if *s == 0 {
		return ""
	}
	return time.Duration(*s).String()
}

func (s *span) Set(text string) error {
	d, err := parseSpan(text)
	*s = span(d)
	return err
}

func (s *span) Type() string { return "duration" }

// maxDays keeps a number of days inside of what a duration holds.
const maxDays = 100_000

func parseSpan(text string) (time.Duration, error) {
	if days, ok := strings.CutSuffix(text, "d"); ok {
		n, err := strconv.Atoi(days)
		if err != nil || n < 0 || n > maxDays {
			return 0, usagef("%q is no duration: write it as 90s, 15m, 12h or 30d", text)
		}
		return time.Duration(n) * 24 * time.Hour, nil
	}
	d, err := time.ParseDuration(text)
	if err != nil || d < 0 {
		return 0, usagef("%q is no duration: write it as 90s, 15m, 12h or 30d", text)
	}
	return d, nil
}

// parseTime reads a time: how long ago (2h, 7d), a day or RFC 3339.
func (p *program) parseTime(flag, text string) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	if d, err := parseSpan(text); err == nil {
		return p.now().Add(-d), nil
	}
	if t, err := time.Parse(time.RFC3339, text); err == nil {
		return t, nil
	}
	if t, err := time.ParseInLocation(time.DateOnly, text, time.Local); err == nil {
		return t, nil
	}
	return time.Time{}, usagef("--%s %q is no time: write how long ago (2h, 7d), a day (2026-03-01) or 2026-03-01T12:00:00Z", flag, text)
}

// texts are names as text.
func texts[T ~string](names []T) []string {
	out := make([]string, 0, len(names))
	for _, n := range names {
		out = append(out, string(n))
	}
	return out
}

func joined[T ~string](names []T) string { return strings.Join(texts(names), ", ") }

// named are texts as names.
func named[T ~string](texts []string) []T {
	var out []T
	for _, t := range texts {
		out = append(out, T(t))
	}
	return out
}
