// Command parley-bench measures what a call through Parley costs beside the
// same call made directly and through a plain reverse proxy; `make bench` runs
// it. It is a tool of the repository and no part of the product.
//
// The program runs itself again as agent, proxy and load generator, each in a
// process of its own. See package bench for what is measured and how.
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/parley-mesh/parley/internal/bench"
)

func main() {
	ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer cancel()
	if err := run(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr); err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "parley-bench:", err)
		os.Exit(1)
	}
}

// run does what the first argument names: one of the roles that the program
// plays for itself, else the benchmark.
func run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) error {
	role := ""
	if len(args) > 0 {
		role = args[0]
	}
	switch role {
	case "agent":
		return bench.Serve(untilEOF(ctx, stdin), stdout, agent(bench.RepliesMessage), agent(bench.RepliesTask), agent(bench.HoldsStreams),
			agent(bench.RepliesOldMessage), agent(bench.RepliesOldTask), agent(bench.Ticks))
	case "proxy":
		var handlers []func(string) (http.Handler, error)
		for _, upstream := range args[1:] {
			handlers = append(handlers, func(string) (http.Handler, error) { return bench.NewProxy(upstream) })
		}
		return bench.Serve(untilEOF(ctx, stdin), stdout, handlers...)
	case "grpc-agent":
		return bench.ServeGRPCAgent(untilEOF(ctx, stdin), stdout)
	case "grpc-proxy":
		if len(args) != 2 {
			return errors.New("grpc-proxy: want the address of the agent")
		}
		return bench.ServeGRPCProxy(untilEOF(ctx, stdin), stdout, args[1])
	case "load":
		return bench.ServeLoad(ctx, stdin, stdout)
	case "hold":
		return bench.HoldStreams(ctx, stdin, stdout)
	case "follow":
		return bench.FollowTask(ctx, stdin, stdout)
	}
	return benchmark(ctx, args, stdout, stderr)
}

func agent(kind bench.Kind) func(string) (http.Handler, error) {
	return func(base string) (http.Handler, error) { return bench.NewAgent(kind, base) }
}

// untilEOF returns a context that ends with in: a role must not outlive the
// process that started it.
func untilEOF(ctx context.Context, in io.Reader) context.Context {
	ctx, cancel := context.WithCancel(ctx)
	go func() { // ends with in, at the latest with the process
		defer cancel()
		io.Copy(io.Discard, in) // its error means the same as its end
	}()
	return ctx
}

// Measurements of the short mode: about half a minute in all, for development.
const (
	shortPairs    = 3
	shortWarmup   = 150 * time.Millisecond
	shortDuration = 450 * time.Millisecond
	shortStreams  = 100
	shortSettle   = 500 * time.Millisecond
)

// settings are the flags of the benchmark itself.
type settings struct {
	bench.Options
	short              bool
	doc, raw, notes    string
	profile            string
	third, thirdHeader string
	only               string
	thirdPID           int
}

func parse(args []string, stderr io.Writer) (settings, error) {
	var s settings
	flags := flag.NewFlagSet("parley-bench", flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.StringVar(&s.Binary, "parley", "bin/parley", "the parley `binary` to measure; without it the other paths are measured alone")
	flags.StringVar(&s.Dir, "dir", ".tmp", "`directory` for data and raw figures, on the file system whose commits count")
	flags.StringVar(&s.doc, "doc", "docs/benchmarks.md", "the `file` to write the report to; empty, and always with -short or -only: only printed")
	flags.StringVar(&s.raw, "raw", "", "the `file` for the raw figures as JSON (default DIR/benchmarks.json)")
	flags.StringVar(&s.notes, "notes", "docs/benchmarks-notes.md", "hand-kept `file` with the section on where the time goes")
	flags.BoolVar(&s.short, "short", false, "few and short measurements, for development")
	flags.StringVar(&s.only, "only", "", fmt.Sprintf("comma-separated `rows` to measure (%s); empty for all", strings.Join(bench.Rows(), ", ")))
	flags.IntVar(&s.Pairs, "pairs", 0, fmt.Sprintf("how often each path is measured (default %d)", bench.DefaultPairs))
	flags.DurationVar(&s.Warmup, "warmup", 0, fmt.Sprintf("uncounted beginning of a measurement (default %s)", bench.DefaultWarmup))
	flags.DurationVar(&s.Duration, "duration", 0, fmt.Sprintf("counted part of a measurement (default %s)", bench.DefaultDuration))
	flags.IntVar(&s.Streams, "streams", 0, fmt.Sprintf("how many streams are held at once (default %d)", bench.DefaultStreams))
	flags.DurationVar(&s.Settle, "settle", 0, fmt.Sprintf("how long they stay open before memory is read (default %s)", bench.DefaultSettle))
	flags.StringVar(&s.profile, "profile", "", "measure nothing; write a CPU profile of Parley under load to this `file`")
	flags.StringVar(&s.third, "third", "", "`URL` of one more path to an agent of this program, for comparisons by hand")
	flags.StringVar(&s.thirdHeader, "third-header", "", "header `line` for it, \"Name: value\"")
	flags.IntVar(&s.thirdPID, "third-pid", 0, "process `id` whose CPU time counts for it")
	if err := flags.Parse(args); err != nil {
		return s, err
	}
	if flags.NArg() > 0 {
		return s, fmt.Errorf("unknown argument %q: see parley-bench -help", flags.Arg(0))
	}
	s.complete()
	return s, nil
}

// complete derives what the flags leave open.
func (s *settings) complete() {
	if s.short || s.only != "" {
		s.doc = "" // what is published is always the whole run
	}
	if s.short {
		if s.Pairs == 0 {
			s.Pairs = shortPairs
		}
		if s.Warmup == 0 {
			s.Warmup = shortWarmup
		}
		if s.Duration == 0 {
			s.Duration = shortDuration
		}
		if s.Streams == 0 {
			s.Streams = shortStreams
		}
		if s.Settle == 0 {
			s.Settle = shortSettle
		}
	}
	if s.raw == "" {
		s.raw = filepath.Join(s.Dir, "benchmarks.json")
	}
	if s.only != "" {
		s.Rows = strings.Split(s.only, ",")
	}
	if s.third != "" {
		s.Third = &bench.Target{Message: []string{s.third}}
		if s.thirdPID != 0 {
			s.Third.PIDs = []int{s.thirdPID}
		}
		if s.thirdHeader != "" {
			s.Third.Header = []string{s.thirdHeader}
		}
	}
}

// benchmark runs the whole measurement, or the profile, and writes its files.
func benchmark(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	s, err := parse(args, stderr)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(s.Dir, 0o755); err != nil {
		return err
	}
	if s.Program, err = os.Executable(); err != nil {
		return err
	}
	s.Progress = stderr
	if s.profile != "" {
		return profile(ctx, s)
	}
	notes, err := os.ReadFile(s.notes)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	report, err := bench.Run(ctx, s.Options)
	if err != nil {
		return err
	}
	raw, err := json.MarshalIndent(report, "", "  ")
	if err != nil {
		return fmt.Errorf("encode raw figures: %w", err)
	}
	if err := os.WriteFile(s.raw, append(raw, '\n'), 0o644); err != nil {
		return err
	}
	var doc bytes.Buffer
	if err := report.Markdown(&doc, string(notes)); err != nil {
		return err
	}
	if s.doc != "" {
		if err := os.MkdirAll(filepath.Dir(s.doc), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(s.doc, doc.Bytes(), 0o644); err != nil {
			return err
		}
	}
	_, err = doc.WriteTo(stdout)
	return err
}

// profile writes the CPU profile to its file.
func profile(ctx context.Context, s settings) (err error) {
	file, err := os.Create(s.profile)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	return bench.Profile(ctx, s.Options, file)
}
