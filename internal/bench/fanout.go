package bench

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"
)

// openFanOut returns a bed whose measurements start processes of their own.
func openFanOut(_ context.Context, opts *Options) (*bed, error) { return openAnew(opts, measureFanOut) }

// measureFanOut lets opts.Streams callers follow one task and returns how long
// its events take to them and how much the process in the middle grew for each.
func measureFanOut(ctx context.Context, opts *Options, path Path) (_ Result, err error) {
	b, err := newBed(opts)
	if err != nil {
		return Result{}, err
	}
	defer func() { err = errors.Join(err, b.close()) }()
	target, err := b.anewTarget(ctx, path, tickingBase, 1+idleBefore+opts.Streams)
	if err != nil {
		return Result{}, err
	}
	spec := Spec{URLs: target.Message, Header: target.Header, Stream: true, Conns: idleBefore, Warmup: opts.Warmup, Duration: opts.Duration, Watch: target.PIDs}
	spec.Task, _, err = b.follow(ctx, spec)
	if err != nil {
		return Result{}, err
	}
	before, err := settled(ctx, target, opts.Settle/3)
	if err != nil {
		return Result{}, err
	}
	spec.Conns = opts.Streams
	_, result, err := b.follow(ctx, spec)
	if err != nil {
		return Result{}, err
	}
	after, err := settled(ctx, target, opts.Settle)
	if err != nil {
		return Result{}, err
	}
	each := after.each(before, opts.Streams)
	result.RSS, result.PSS, result.Anonymous = each.RSS, each.PSS, each.Anonymous
	return result, nil
}

// follow opens the streams of spec and returns their task and what they
// measured. They stay open until the bed is closed.
func (b *bed) follow(ctx context.Context, spec Spec) (task string, result Result, err error) {
	c, err := b.start(ctx, &spec, "follow")
	if err != nil {
		return "", Result{}, err
	}
	line, err := c.out.ReadBytes('\n')
	if err == nil {
		err = json.Unmarshal(line, &result)
	}
	if err != nil {
		return "", Result{}, fmt.Errorf("follow: read its result: %w", err)
	}
	return c.Task, result, nil
}

// settled returns the memory of the process in the middle after a while.
func settled(ctx context.Context, t Target, settle time.Duration) (memory, error) {
	if err := pause(ctx, settle); err != nil {
		return memory{}, err
	}
	return processMemory(t.PIDs[0])
}

// writeFanOut writes what it takes to tell many callers of one task.
func (r *Report) writeFanOut(b *strings.Builder) {
	row := r.row(fanOut)
	if row == nil {
		return
	}
	fmt.Fprintf(b, "## Fan-out\n\n%d callers subscribe to one task, whose agent writes an event each %s. Delay is from the making of an event to each\n"+
		"caller's reading of it. CPU for each event read and growth for each caller are of the process in the middle; on the direct path, of the agent.\n\n", r.Streams, tickInterval)
	b.WriteString("| path | streams at the agent | delay p50 | delay p99 | p99 ÷ ReverseProxy's | CPU/event read | resident | resident ÷ ReverseProxy's |\n" +
		"|---|---|---|---|---|---|---|---|\n")
	for _, path := range []Path{Direct, ReverseProxy, Parley} {
		each := row.of(path, rssEach)
		if len(each) == 0 {
			continue
		}
		late, large := "–", "–"
		if path != ReverseProxy {
			late = showRatio(spreadOf(row.compare(path, ReverseProxy, p99, ratio)))
			large = showRatio(spreadOf(row.compare(path, ReverseProxy, rssEach, ratio)))
		}
		fmt.Fprintf(b, "| %s | %.0f | %s | %s | %s | %s | %s | %s |\n", path, spreadOf(row.of(path, atAgent)).Max, showTimes(spreadOf(row.of(path, p50))),
			showTimes(spreadOf(row.of(path, p99))), late, showUsage(row.of(path, cpuEach)), showSizes(spreadOf(each)), large)
	}
	b.WriteString("\n")
}

// writeMethodOfFanOut writes how fan-out is measured, where it was.
func (r *Report) writeMethodOfFanOut(b *strings.Builder) {
	if r.row(fanOut) == nil {
		return
	}
	fmt.Fprintf(b, "* Fan-out: every measurement starts its processes anew. One caller makes the task and keeps its stream; %d subscribers are there before the\n"+
		"  first reading of memory, %d more before the second, which comes %s after the measured window. Each event carries its number, the time at\n"+
		"  which the agent made it, once for all its streams, and how many of them it has. A subscriber that misses an event ends the run. Beside\n"+
		"  Parley each subscriber has a stream of the agent's own, so the delay holds the agent's writing of them all.\n", idleBefore, r.Streams, r.Settle)
}
