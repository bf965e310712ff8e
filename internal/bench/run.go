package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"time"
)

// Path is a way from the load generator to the agent.
type Path string

// The paths of a run, in the order in which reports show them.
const (
	Direct       Path = "direct"
	ReverseProxy Path = "ReverseProxy"
	Parley       Path = "Parley"
	Third        Path = "third"
)

// Target is one path as the load generator sees it.
type Target struct {
	Path Path
	// Message and Task are the addresses of the agents behind it; an empty one
	// leaves the path out of the rows that need it.
	Message, Task string
	// Header holds further lines "Name: value" of every request.
	Header []string
	// PID is the process in the middle, 0 when there is none.
	PID int
}

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
	// Warmup and Duration are those of one measurement, 0.5 s and 3 s when zero.
	Warmup, Duration time.Duration
	// Progress receives a line for each measurement; nil for silence.
	Progress io.Writer
}

// Defaults of Options.
const (
	DefaultPairs    = 7
	DefaultWarmup   = 500 * time.Millisecond
	DefaultDuration = 3 * time.Second
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
	if o.Progress == nil {
		o.Progress = io.Discard
	}
	if o.Pairs < 1 || o.Warmup < 0 || o.Duration < 0 {
		return errors.New("bench: pairs, warmup and duration must be positive")
	}
	return nil
}

// Report is everything a run found.
type Report struct {
	Machine  Machine       `json:"machine"`
	Pairs    int           `json:"pairs"`
	Warmup   time.Duration `json:"warmup_ns"`
	Duration time.Duration `json:"duration_ns"`
	Rows     []Row         `json:"rows"`
	// Commits are the medians of the commit probe, one before each pair at
	// half load.
	Commits []time.Duration `json:"commit_medians_ns"`
	// LeftOut says why Parley was not measured; empty when it was.
	LeftOut string `json:"left_out,omitempty"`
}

// Row is one kind of load with all its measurements.
type Row struct {
	ID    string  `json:"id"`
	Title string  `json:"title"`
	Rate  float64 `json:"rate,omitempty"` // requests started per second where paced
	Pairs []Pair  `json:"pairs"`
}

// Pair is one measurement of each path, made one right after the other.
type Pair []Measurement

// Measurement is one path's Result; the order within a Pair is the order in
// time.
type Measurement struct {
	Path   Path   `json:"path"`
	Result Result `json:"result"`
}

// Run starts the processes, measures every row and stops them again. An error
// means that there is no result, never that a goal was missed.
func Run(ctx context.Context, opts Options) (_ *Report, err error) {
	bed, err := newBed(ctx, &opts)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, bed.close()) }()
	r := &runner{Options: opts, targets: bed.targets, measure: loadInChild(opts.Program), commits: func() (time.Duration, error) { return commitTime(ctx, bed.dir) }}
	report, err := r.run(ctx)
	if err != nil {
		return nil, err
	}
	report.LeftOut = bed.leftOut
	report.Machine = thisMachine(ctx)
	return report, nil
}

// Profile starts the processes, loads Parley on 64 connections for the given
// time and writes its CPU profile to out. Nothing is judged.
func Profile(ctx context.Context, opts Options, out io.Writer) (err error) {
	bed, err := newBed(ctx, &opts)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, bed.close()) }()
	if bed.mesh == nil {
		return fmt.Errorf("profile: %s", bed.leftOut)
	}
	spec := bed.mesh.target().spec(rows[unary64], opts)
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
	return errors.Join(bed.mesh.profile(ctx, out, seconds), <-loaded)
}

// bed is the set of processes a run measures, and its directory.
type bed struct {
	dir     string
	agent   *child
	proxy   *child
	mesh    *parleyMesh // nil when there is no binary
	leftOut string
	targets []Target
}

// newBed completes opts and starts everything.
func newBed(ctx context.Context, opts *Options) (_ *bed, err error) {
	if err := opts.fill(); err != nil {
		return nil, err
	}
	b := &bed{}
	defer func() {
		if err != nil {
			err = errors.Join(err, b.close())
		}
	}()
	if b.dir, err = os.MkdirTemp(opts.Dir, "b"); err != nil { // short: a socket's path has about 100 characters
		return nil, fmt.Errorf("bench: %w", err)
	}
	if b.agent, err = startChild(ctx, opts.Program, "agent"); err != nil {
		return nil, err
	}
	message, task := b.agent.Bases[0], b.agent.Bases[1]
	if b.proxy, err = startChild(ctx, opts.Program, "proxy", message, task); err != nil {
		return nil, err
	}
	b.targets = []Target{
		{Path: Direct, Message: message, Task: task},
		{Path: ReverseProxy, Message: b.proxy.Bases[0], Task: b.proxy.Bases[1], PID: b.proxy.cmd.Process.Pid},
	}
	if _, err := os.Stat(opts.Binary); err != nil {
		b.leftOut = "Parley was left out: there is no binary at the path given for it; build it first"
	} else {
		if b.mesh, err = startParley(ctx, opts.Binary, b.dir, message, task); err != nil {
			return nil, err
		}
		b.targets = append(b.targets, b.mesh.target())
	}
	if opts.Third != nil {
		third := *opts.Third
		third.Path = Third
		b.targets = append(b.targets, third)
	}
	return b, nil
}

// close stops what was started, the last first.
func (b *bed) close() error {
	var errs []error
	if b.mesh != nil {
		errs = append(errs, b.mesh.stop())
	}
	for _, c := range []*child{b.proxy, b.agent} {
		if c != nil {
			errs = append(errs, c.stop())
		}
	}
	if b.dir != "" {
		errs = append(errs, os.RemoveAll(b.dir))
	}
	return errors.Join(errs...)
}

// kindOfLoad is what distinguishes one row from another.
type kindOfLoad struct {
	title  string
	conns  int
	stream bool
	task   bool // of the agent that answers with tasks
	paced  bool // at half the rate of the slowest path in row unary-64
}

// Ids of the rows, as they stand in the raw figures.
const (
	unary1   = "unary-1"
	unary64  = "unary-64"
	task64   = "task-64"
	sse      = "sse-4"
	halfLoad = "half-load"
)

// rowOrder is the order of measuring; half load needs the saturation of
// unary64 first.
var rowOrder = []string{unary1, unary64, task64, sse, halfLoad}

var rows = map[string]kindOfLoad{
	unary1:   {title: "SendMessage, message reply, 1 connection", conns: 1},
	unary64:  {title: "SendMessage, message reply, 64 connections", conns: 64},
	task64:   {title: "SendMessage, completed task, 64 connections", conns: 64, task: true},
	sse:      {title: "SendStreamingMessage, 4 connections: time to first event", conns: 4, stream: true},
	halfLoad: {title: "SendMessage, message reply, paced at half load", conns: 64, paced: true},
}

// spec says how to make this kind of load on the target.
func (t Target) spec(kind kindOfLoad, opts Options) Spec {
	to := t.Message
	if kind.task {
		to = t.Task
	}
	return Spec{URL: to, Header: t.Header, Stream: kind.stream, Conns: kind.conns, Warmup: opts.Warmup, Duration: opts.Duration, WatchPID: t.PID}
}

// runner measures rows on targets that already serve.
type runner struct {
	Options
	targets []Target
	measure func(context.Context, Spec) (Result, error)
	commits func() (time.Duration, error)
}

func (r *runner) run(ctx context.Context) (*Report, error) {
	report := &Report{Pairs: r.Pairs, Warmup: r.Warmup, Duration: r.Duration}
	for _, id := range rowOrder {
		kind := rows[id]
		row := Row{ID: id, Title: kind.title}
		if kind.paced {
			row.Rate = slowest(report.row(unary64)) / 2
		}
		for n := range r.Pairs {
			if kind.paced {
				commit, err := r.commits()
				if err != nil {
					return nil, err
				}
				report.Commits = append(report.Commits, commit)
			}
			pair, err := r.pair(ctx, row, n)
			if err != nil {
				return nil, fmt.Errorf("%s, pair %d: %w", id, n+1, err)
			}
			row.Pairs = append(row.Pairs, pair)
		}
		report.Rows = append(report.Rows, row)
	}
	return report, nil
}

// pair measures every path once. Each pair reverses the order of the one
// before, so that a drift of the machine favours nobody.
func (r *runner) pair(ctx context.Context, row Row, n int) (Pair, error) {
	order := slices.Clone(r.targets)
	if n%2 == 1 {
		slices.Reverse(order)
	}
	var pair Pair
	for _, target := range order {
		spec := target.spec(rows[row.ID], r.Options)
		spec.Rate = row.Rate
		if spec.URL == "" {
			continue
		}
		result, err := r.measure(ctx, spec)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", target.Path, err)
		}
		fmt.Fprintf(r.Progress, "%-10s pair %d/%d  %-12s %8.0f/s  p50 %s  p99 %s  cpu %s\n", row.ID, n+1, r.Pairs, target.Path,
			result.PerSecond, result.P50, result.P99, result.CPU)
		pair = append(pair, Measurement{Path: target.Path, Result: result})
	}
	return pair, nil
}

// row returns the row with this id, nil when it was not measured.
func (r *Report) row(id string) *Row {
	for i := range r.Rows {
		if r.Rows[i].ID == id {
			return &r.Rows[i]
		}
	}
	return nil
}

// figure reads one number from a result.
type figure func(Result) float64

func perSecond(r Result) float64 { return r.PerSecond }
func p50(r Result) float64       { return float64(r.P50) }
func p99(r Result) float64       { return float64(r.P99) }
func cpuEach(r Result) float64   { return float64(r.CPU) }

// of returns the figure of one path in every pair that has it.
func (w *Row) of(path Path, f figure) []float64 {
	var all []float64
	for _, pair := range w.Pairs {
		for _, m := range pair {
			if m.Path == path {
				all = append(all, f(m.Result))
			}
		}
	}
	return all
}

// compare combines the figures of two paths pair by pair.
func (w *Row) compare(path, with Path, f figure, combine func(a, b float64) float64) []float64 {
	ours, theirs := w.of(path, f), w.of(with, f)
	if len(ours) != len(theirs) {
		return nil // one of the two was not measured
	}
	combined := make([]float64, len(ours))
	for i := range ours {
		combined[i] = combine(ours[i], theirs[i])
	}
	return combined
}

func ratio(a, b float64) float64      { return a / b }
func difference(a, b float64) float64 { return a - b }

// slowest returns the smallest median rate among the paths of a row.
func slowest(row *Row) float64 {
	least := 0.0
	for _, path := range []Path{Direct, ReverseProxy, Parley, Third} {
		if rates := row.of(path, perSecond); len(rates) > 0 {
			if median := spreadOf(rates).Median; least == 0 || median < least {
				least = median
			}
		}
	}
	return least
}
