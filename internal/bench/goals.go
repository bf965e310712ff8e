package bench

import (
	"fmt"
	"time"
)

// What a governed call may cost beside the reverse proxy of the same run.
const (
	maxCPURatio      = 2.0                  // CPU per request, 64 connections
	minRateRatio     = 0.6                  // requests per second, 64 connections
	commitsPerCall   = 4.0                  // latency added at half load, in median commits of the run, ...
	fixedAddedAtHalf = 1 * time.Millisecond // ... plus this
	maxMemoryRatio   = 1.3                  // memory of each idle stream
)

// Goal is one figure to reach and what the run says of it.
type Goal struct {
	Text     string `json:"text"`
	Measured string `json:"measured"`
	// Verdict is "reached", "missed" or "not measured".
	Verdict string `json:"verdict"`
}

// Goals judges the run. Only ratios and the latency goal, which is set in
// commits of the run itself, are judged.
func (r *Report) Goals() []Goal {
	goals := []Goal{
		{Text: fmt.Sprintf("CPU per request at 64 connections at most %.1f × ReverseProxy's", maxCPURatio)},
		{Text: fmt.Sprintf("requests per second at 64 connections at least %.1f of ReverseProxy's", minRateRatio)},
		{Text: fmt.Sprintf("latency added at half load (median, against direct) at most %.0f × median commit + %s", commitsPerCall, fixedAddedAtHalf)},
		{Text: fmt.Sprintf("memory of each idle stream at most %.1f × ReverseProxy's", maxMemoryRatio)},
	}
	if full := r.row(unary64); full != nil {
		cpu := spreadOf(full.compare(Parley, ReverseProxy, cpuEach, ratio))
		goals[0].judge(cpu, cpu.Median <= maxCPURatio, showRatio(cpu))
		rate := spreadOf(full.compare(Parley, ReverseProxy, perSecond, ratio))
		goals[1].judge(rate, rate.Median >= minRateRatio, showRatio(rate))
	}
	if half := r.row(halfLoad); half != nil {
		added := spreadOf(half.compare(Parley, Direct, p50, difference))
		commit := r.Commit()
		limit := commitsPerCall*commit.Median + float64(fixedAddedAtHalf)
		goals[2].judge(added, added.Median <= limit,
			fmt.Sprintf("%s; limit %s (median commit %s)", showTimes(added), showTime(limit), showTime(commit.Median)))
	}
	if idle := r.row(idleSSE); idle != nil {
		each := spreadOf(idle.compare(Parley, ReverseProxy, rssEach, ratio))
		goals[3].judge(each, each.Median <= maxMemoryRatio, showRatio(each))
	}
	return goals
}

func (g *Goal) judge(s Spread, reached bool, measured string) {
	switch {
	case s.N == 0:
		return
	case reached:
		g.Verdict = "reached"
	default:
		g.Verdict = "missed"
	}
	g.Measured = measured
}

// quietShare is how much of the machine others may take before the report
// warns of it.
const quietShare = 0.05

// Commit returns the spread of the commit probe's medians, in nanoseconds.
func (r *Report) Commit() Spread {
	times := make([]float64, len(r.Commits))
	for i, t := range r.Commits {
		times[i] = float64(t)
	}
	return spreadOf(times)
}
