package bench

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"slices"
	"time"

	"github.com/google/pprof/profile"
)

// Options say what a run measures. The zero value is the full run.
type Options struct {
	// Program is the benchmark's own binary, run again in its other roles.
	Program string
	// Binary is the parley binary. When there is no such file, the paths
	// without it are measured and the report says so.
	Binary string
	// Dir is where the run makes its directory for data, on the file system
	// whose commits count. It must exist.
	Dir string
	// Third is one more path, for comparisons by hand; its Path is ignored.
	Third *Target
	// Pairs is how often each path is measured, 7 when zero.
	Pairs int
	// Rows are the ids of the rows to measure, all when empty.
	Rows []string
	// Warmup and Duration are those of one measurement, 0.5 s and 2.5 s when zero.
	Warmup, Duration time.Duration
	// Streams is how many streams are held at once, 1,000 when zero, and Settle how
	// long they do before memory is read, 6 s when zero.
	Streams int
	Settle  time.Duration
	// Progress receives a line for each measurement; nil for silence.
	Progress io.Writer
}

// Defaults of Options.
const (
	DefaultPairs    = 7
	DefaultWarmup   = 500 * time.Millisecond
	DefaultDuration = 2500 * time.Millisecond
	DefaultStreams  = 1000
	// DefaultSettle is longer than the pause after which a mesh writes its first
	// keep-alive comments.
	DefaultSettle = 6 * time.Second
)

func (o *Options) fill() error {
	if o.Pairs == 0 {
		o.Pairs = DefaultPairs
	}
	if o.Warmup == 0 {
		o.Warmup = DefaultWarmup
	}
	if o.Duration == 0 {
		o.Duration = DefaultDuration
	}
	if o.Streams == 0 {
		o.Streams = DefaultStreams
	}
	if o.Settle == 0 {
		o.Settle = DefaultSettle
	}
	if o.Progress == nil {
		o.Progress = io.Discard
	}
	if o.Pairs < 1 || o.Warmup < 0 || o.Duration < 0 || o.Streams < 1 || o.Settle < 0 {
		return errors.New("bench: pairs, warmup, duration, streams and settle must be positive")
	}
	return checkRows(o.Rows)
}

// Run measures every row, group by group, each on processes of its own. An
// error means that there is no result, never that a goal was missed.
func Run(ctx context.Context, opts Options) (*Report, error) {
	if err := opts.fill(); err != nil {
		return nil, err
	}
	report := &Report{Pairs: opts.Pairs, Warmup: opts.Warmup, Duration: opts.Duration, Streams: opts.Streams, Settle: opts.Settle}
	for _, g := range groups {
		if err := report.add(ctx, &opts, g); err != nil {
			return nil, err
		}
	}
	report.Machine = thisMachine(ctx)
	return report, nil
}

// add measures the rows of one group that are asked for.
func (r *Report) add(ctx context.Context, opts *Options, g group) (err error) {
	kinds := g.asked(opts.Rows)
	if len(kinds) == 0 {
		return nil
	}
	bed, err := g.open(ctx, opts)
	if err != nil {
		return fmt.Errorf("%s: %w", g.id, err)
	}
	defer func() { err = errors.Join(err, bed.close()) }()
	for _, why := range bed.leftOut {
		if !slices.Contains(r.LeftOut, why) {
			r.LeftOut = append(r.LeftOut, why)
		}
	}
	if len(bed.targets) == 0 {
		return nil
	}
	return (&runner{bed: bed, Options: *opts, report: r}).run(ctx, g.id, kinds)
}

// Profile starts the processes, loads Parley on 64 connections for the given
// time and writes its CPU profile to out. Nothing is judged.
func Profile(ctx context.Context, opts Options, out io.Writer) (err error) {
	if err := opts.fill(); err != nil {
		return err
	}
	bed, err := openHTTP(ctx, &opts)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, bed.close()) }()
	if bed.mesh == nil {
		return fmt.Errorf("profile: %s", noBinary)
	}
	kind, _ := kindOf(unary64) // one of ours
	spec := kind.spec(bed.mesh.target(), opts)
	seconds := max(int(opts.Duration/time.Second), 1)
	spec.Duration = time.Duration(seconds+1) * time.Second // the profile begins and ends inside the load
	loaded := make(chan error, 1)
	go func() { // ends with the load, which is bounded; received below
		result, err := loadInChild(opts.Program)(ctx, spec)
		if err == nil {
			fmt.Fprintf(opts.Progress, "profiled under %.0f requests/s, %s CPU each\n", result.PerSecond, result.CPU)
		}
		loaded <- err
	}()
	if err := pause(ctx, spec.Warmup); err != nil {
		return errors.Join(err, <-loaded)
	}
	var raw bytes.Buffer
	if err := errors.Join(bed.mesh.profile(ctx, &raw, seconds), <-loaded); err != nil {
		return err
	}
	return portable(&raw, out)
}

// portable writes a profile without the path of the binary it was taken from,
// so that it can guide builds on other machines.
func portable(raw io.Reader, out io.Writer) error {
	p, err := profile.Parse(raw)
	if err != nil {
		return fmt.Errorf("read the profile: %w", err)
	}
	for _, m := range p.Mapping {
		m.File = "parley"
	}
	return p.Write(out)
}

// runner measures rows on a bed.
type runner struct {
	*bed
	Options
	report *Report
}

func (r *runner) run(ctx context.Context, group string, kinds []kindOfLoad) error {
	for _, kind := range kinds {
		if kind.halves != "" {
			kind.rate = slowest(r.report.row(kind.halves)) / 2
		}
		row := Row{ID: kind.id, Group: group, Title: kind.title, Rate: kind.rate}
		for n := range r.Pairs {
			if kind.id == halfLoad { // the goal that is set in commits
				commit, err := commitTime(ctx, r.dir)
				if err != nil {
					return err
				}
				r.report.Commits = append(r.report.Commits, commit)
			}
			pair, err := r.pair(ctx, kind, n)
			if err != nil {
				return fmt.Errorf("%s, pair %d: %w", kind.id, n+1, err)
			}
			row.Pairs = append(row.Pairs, pair)
		}
		r.report.Rows = append(r.report.Rows, row)
	}
	return nil
}

// pair measures every path once. Each pair reverses the order of the one
// before, so that a drift of the machine favours nobody.
func (r *runner) pair(ctx context.Context, kind kindOfLoad, n int) (Pair, error) {
	order := slices.Clone(r.targets)
	if n%2 == 1 {
		slices.Reverse(order)
	}
	var pair Pair
	for _, target := range order {
		if !kind.measurable(target) {
			continue
		}
		result, foreign, err := r.one(ctx, kind, target)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", target.Path, err)
		}
		fmt.Fprintf(r.Progress, "%-10s pair %d/%d  %-12s %s  foreign %.0f %%\n", kind.id, n+1, r.Pairs, target.Path, kind.show(result), 100*foreign)
		pair = append(pair, Measurement{Path: target.Path, Result: result, Foreign: foreign})
	}
	return pair, nil
}

// show is a result in a line of progress.
func (k kindOfLoad) show(r Result) string {
	if k.idle {
		return fmt.Sprintf("%d streams  each %s  anonymous %s", r.Requests, showBytes(r.RSS), showBytes(r.Anonymous))
	}
	if k.fan {
		return fmt.Sprintf("%d streams at the agent  each %s  p50 %s  p99 %s  cpu %s", r.AgentStreams, showBytes(r.RSS), r.P50, r.P99, r.CPU)
	}
	return fmt.Sprintf("%8.0f/s  p50 %s  p99 %s  cpu %s", r.PerSecond, r.P50, r.P99, r.CPU)
}

// one makes one measurement and returns the share of CPU time that went to
// others during it.
func (r *runner) one(ctx context.Context, kind kindOfLoad, target Target) (Result, float64, error) {
	before, err := r.foreign()
	if err != nil {
		return Result{}, 0, err
	}
	begin := time.Now()
	result, err := r.measure(ctx, kind, target)
	if err != nil {
		return Result{}, 0, err
	}
	capacity := time.Since(begin) * time.Duration(runtime.NumCPU())
	after, err := r.foreign()
	if err != nil {
		return Result{}, 0, err
	}
	// The two sources round differently: a quiet machine may come out below 0.
	return result, max(0, float64(after-before)/float64(capacity)), nil
}
