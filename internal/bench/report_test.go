package bench

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "rewrite golden files")

// sample returns a report of two pairs in which Parley has the given CPU,
// rate and median latency at half load; the proxy has 60 µs and 10000/s, the
// direct path 0.2 ms.
//
// Its idle streams cost 60 KiB in the proxy and the given number in Parley.
func sample(cpu time.Duration, rate float64, half time.Duration, idle float64) *Report {
	row := func(id string, perSecond, latency float64) Row {
		kind, _ := kindOf(id)
		w := Row{ID: id, Group: "http", Title: kind.title}
		for n := range 2 {
			step := time.Duration(n) * 10 * time.Microsecond
			result := func(rate float64, latency, cpu time.Duration) Result {
				return Result{Requests: 1000, Elapsed: time.Second, PerSecond: rate, P50: latency + step, P99: 3 * latency, CPU: cpu}
			}
			w.Pairs = append(w.Pairs, Pair{
				{Direct, result(3*perSecond, 200*time.Microsecond, 0), 0.01},
				{ReverseProxy, result(perSecond, 400*time.Microsecond, 60*time.Microsecond), 0.02},
				{Parley, result(rate/10000*perSecond, time.Duration(latency), cpu), 0.04},
			})
		}
		return w
	}
	paced := row(halfLoad, 3000, float64(half))
	paced.Rate = 3000
	stored := Row{ID: "replicas-64", Group: "replicas", Title: "SendMessage, message reply, 64 connections"}
	for range 2 {
		result := func(rate float64) Result {
			return Result{Requests: 1000, PerSecond: rate, P50: 20 * ms, P99: 50 * ms, CPU: 200 * time.Microsecond, DatabaseCPU: 300 * time.Microsecond}
		}
		stored.Pairs = append(stored.Pairs, Pair{{ParleyPostgres, result(2000), 0.01}, {TwoReplicas, result(3000), 0.01}})
	}
	silent := Row{ID: idleSSE, Group: "idle", Title: "Idle streams"}
	for range 2 {
		held := func(kib float64) Result {
			return Result{Requests: 1000, RSS: kib * 1024, PSS: kib * 1024, Anonymous: (kib - 1) * 1024}
		}
		silent.Pairs = append(silent.Pairs, Pair{{Direct, held(30), 0.01}, {ReverseProxy, held(60), 0.01}, {Parley, held(idle), 0.01}})
	}
	fanned := Row{ID: fanOut, Group: fanOut, Title: "Fan-out"}
	for range 2 {
		read := func(streams int, late time.Duration, kib float64) Result {
			return Result{Requests: 25000, P50: late / 2, P99: late, CPU: 20 * time.Microsecond, RSS: kib * 1024, AgentStreams: streams}
		}
		fanned.Pairs = append(fanned.Pairs, Pair{{Direct, read(1009, 20*ms, 30), 0.01}, {ReverseProxy, read(1009, 60*ms, 60), 0.01}, {Parley, read(1, 30*ms, 72), 0.01}})
	}
	return &Report{
		Machine: Machine{CPU: "a processor", Cores: 2, Memory: "8 GB", OS: "linux/amd64", Kernel: "6.1", Go: "go1.26.0",
			Commit: "0123456789ab", Date: time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)},
		Pairs: 2, Warmup: DefaultWarmup, Duration: DefaultDuration, Streams: DefaultStreams, Settle: DefaultSettle,
		Rows:    []Row{row(unary64, 10000, 6e6), paced, stored, silent, fanned},
		Commits: []time.Duration{200 * time.Microsecond, 300 * time.Microsecond},
	}
}

func TestGoals(t *testing.T) {
	const limit = 2 * time.Millisecond // 4 × 250 µs + 1 ms
	tests := []struct {
		name   string
		report *Report
		want   [4]string
	}{
		{"just reached", sample(120*time.Microsecond, 6000, 200*time.Microsecond+limit, 78), [4]string{"reached", "reached", "reached", "reached"}},
		{"just missed", sample(121*time.Microsecond, 5990, 201*time.Microsecond+limit, 79), [4]string{"missed", "missed", "missed", "missed"}},
		{"one missed", sample(60*time.Microsecond, 5000, 300*time.Microsecond, 30), [4]string{"reached", "missed", "reached", "reached"}},
		{"nothing measured", &Report{}, [4]string{}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var got [4]string
			for i, goal := range tt.report.Goals() {
				got[i] = goal.Verdict
			}
			if got != tt.want {
				t.Errorf("verdicts %q, want %q\n%+v", got, tt.want, tt.report.Goals())
			}
		})
	}
}

func TestGoalsWithoutParley(t *testing.T) {
	report := sample(1, 1, 1, 1)
	for i := range report.Rows {
		for n := range report.Rows[i].Pairs {
			report.Rows[i].Pairs[n] = report.Rows[i].Pairs[n][:2]
		}
	}
	for _, goal := range report.Goals() {
		if goal.Verdict != "" {
			t.Errorf("%s: %s, want no verdict without Parley", goal.Text, goal.Verdict)
		}
	}
}

// Ratios are taken within a pair and then their median, so a slow minute that
// hits a whole pair changes nothing.
func TestComparePairs(t *testing.T) {
	row := Row{}
	for _, drift := range []float64{1, 4, 0.5} {
		row.Pairs = append(row.Pairs, Pair{
			{Parley, Result{PerSecond: 600 * drift}, 0},
			{ReverseProxy, Result{PerSecond: 1000 * drift}, 0},
		})
	}
	want := Spread{Median: 0.6, Min: 0.6, Max: 0.6, N: 3}
	if got := spreadOf(row.compare(Parley, ReverseProxy, perSecond, ratio)); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
	if got := row.compare(Third, ReverseProxy, perSecond, ratio); got != nil {
		t.Errorf("comparison with a path that was not measured: %v", got)
	}
}

func TestReportWarnsOfANoisyMachine(t *testing.T) {
	for share, want := range map[float64]bool{0.05: false, 0.06: true} {
		report := &Report{Rows: []Row{{Pairs: []Pair{{{Direct, Result{}, share}}}}}}
		var got bytes.Buffer
		if err := report.Markdown(&got, ""); err != nil {
			t.Fatal(err)
		}
		if strings.Contains(got.String(), "not quiet") != want {
			t.Errorf("foreign share %g: warning wanted: %t\n%s", share, want, &got)
		}
	}
}

func TestMarkdown(t *testing.T) {
	var got bytes.Buffer
	if err := sample(110*time.Microsecond, 6500, 1200*time.Microsecond, 72).Markdown(&got, "Mostly in the kernel.\n"); err != nil {
		t.Fatal(err)
	}
	golden := filepath.Join("testdata", "report.md")
	if *update {
		if err := os.WriteFile(golden, got.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got.String()); diff != "" {
		t.Errorf("report differs from %s (run with -update): want - got +\n%s", golden, diff)
	}
}
