package main

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/parley-mesh/parley/internal/bench"
)

// The benchmark runs its own executable in other roles; here that is the test
// binary, which this variable turns into the program.
const asProgram = "BENCH_TEST_PROGRAM"

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) == "" {
		os.Exit(m.Run())
	}
	ctx, cancel := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	if err := run(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr); err != nil {
		os.Stderr.WriteString(err.Error() + "\n")
		os.Exit(1)
	}
	cancel()
}

// A mini run of the whole command: processes, files, report.
func TestBenchmark(t *testing.T) {
	t.Setenv(asProgram, "1")
	t.Setenv("GORACE", "atexit_sleep_ms=0") // the race detector lets each process linger for a second
	dir := t.TempDir()
	doc, notes := filepath.Join(dir, "docs", "out.md"), filepath.Join(dir, "notes.md")
	if err := os.WriteFile(notes, []byte("Time goes by."), 0o600); err != nil {
		t.Fatal(err)
	}
	var stdout, stderr bytes.Buffer
	err := run(t.Context(), []string{"-pairs", "1", "-warmup", "1ms", "-duration", "250ms", "-streams", "20", "-settle", "30ms", "-dir", filepath.Join(dir, "tmp"),
		"-parley", filepath.Join(dir, "none"), "-doc", doc, "-notes", notes}, nil, &stdout, &stderr)
	if err != nil {
		t.Fatalf("run: %v\n%s", err, &stderr)
	}
	written, err := os.ReadFile(doc)
	if err != nil || !bytes.Equal(written, stdout.Bytes()) {
		t.Fatalf("%s and what was printed differ: %v", doc, err)
	}
	for _, want := range []string{"Parley was left out", "not measured", "| ReverseProxy |", "## Where the time goes\n\nTime goes by."} {
		if !strings.Contains(stdout.String(), want) {
			t.Errorf("report has no %q:\n%s", want, &stdout)
		}
	}
	if strings.Contains(stdout.String(), dir) {
		t.Errorf("report names a path of this machine:\n%s", &stdout)
	}
	raw, err := os.ReadFile(filepath.Join(dir, "tmp", "benchmarks.json"))
	if err != nil {
		t.Fatal(err)
	}
	var report bench.Report
	if err := json.Unmarshal(raw, &report); err != nil || len(report.Rows) != 10 || report.Rows[0].Pairs[0][0].Result.Requests == 0 {
		t.Errorf("raw figures: %v\n%.2000s", err, raw)
	}
}

func TestFlags(t *testing.T) {
	s, err := parse([]string{"-short", "-third", "http://127.0.0.1:1/", "-third-header", "X-Key: k", "-third-pid", "7"}, &bytes.Buffer{})
	if err != nil {
		t.Fatal(err)
	}
	if s.doc != "" || s.Pairs != shortPairs || s.Duration != shortDuration || s.raw != filepath.Join(".tmp", "benchmarks.json") {
		t.Errorf("short settings: %+v", s)
	}
	if s.Third == nil || s.Third.Message[0] != "http://127.0.0.1:1/" || s.Third.PIDs[0] != 7 || len(s.Third.Header) != 1 {
		t.Errorf("third path: %+v", s.Third)
	}
	for _, args := range [][]string{{"-nonsense"}, {"agents"}, {"-pairs", "x"}} {
		if _, err := parse(args, &bytes.Buffer{}); err == nil {
			t.Errorf("parse(%q) accepted", args)
		}
	}
}
