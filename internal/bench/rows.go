package bench

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Path is a way from the load generator to the agent.
type Path string

// The paths of a run, in the order in which reports show them.
const (
	Direct       Path = "direct"
	ReverseProxy Path = "ReverseProxy"
	GRPCProxy    Path = "gRPC proxy"
	Parley       Path = "Parley"
	Third        Path = "third"

	ParleyPostgres Path = "Parley, PostgreSQL"
	TwoReplicas    Path = "Parley, PostgreSQL, two replicas"

	OldToNew Path = "Parley, 0.3 → 1.0" // caller and agent speak different versions
	NewToOld Path = "Parley, 1.0 → 0.3"
	OldToOld Path = "Parley, 0.3 → 0.3"
)

var allPaths = []Path{Direct, ReverseProxy, GRPCProxy, Parley, ParleyPostgres, TwoReplicas, OldToNew, NewToOld, OldToOld, Third}

// Target is one path as the load generator sees it.
type Target struct {
	Path Path
	// Message and Task are the addresses of the agents behind it, one for each
	// process that leads to them; a path without leaves out the rows that need
	// one.
	Message, Task []string
	// Header holds further lines "Name: value" of every request.
	Header []string
	// Tenant names the agent in gRPC requests, empty where the address does.
	Tenant string
	// Old makes the requests those of A2A 0.3.
	Old bool
	// PIDs are the processes in the middle, none on the direct path.
	PIDs []int
	// Database is the database server behind them, 0 when they have none.
	Database int
}

// kindOfLoad is what distinguishes one row from another.
type kindOfLoad struct {
	id     string // as it stands in the raw figures
	title  string
	conns  int
	stream bool
	grpc   bool
	task   bool    // of the agent that answers with tasks
	rate   float64 // started per second; 0: as fast as answers come
	halves string  // paced at half of what the slowest path reached in the row of this id
	idle   bool    // streams that are open and carry nothing
	fan    bool    // streams of one task
}

// held tells whether streams that stay open are measured, not requests.
func (k kindOfLoad) held() bool { return k.idle || k.fan }

// Ids of the rows that are asked for by name.
const (
	unary64  = "unary-64"
	halfLoad = "half-load"
	idleSSE  = "idle-sse"
	fanOut   = "fan-out"
)

// group is a set of rows that are measured on the same processes.
type group struct {
	id    string
	title string // heads its part of the report
	// yardstick is the path that the others are compared with.
	yardstick Path
	open      func(context.Context, *Options) (*bed, error)
	kinds     []kindOfLoad // in the order of measuring: a row that halves another comes after it
}

// groups are all rows. Streams are paced far below saturation, because the
// time to the first event would else be the length of a queue.
var groups = []group{
	{id: "http", title: "JSON-RPC", yardstick: ReverseProxy, open: openHTTP, kinds: []kindOfLoad{
		{id: "unary-1", title: "SendMessage, message reply, 1 connection", conns: 1},
		{id: unary64, title: "SendMessage, message reply, 64 connections", conns: 64},
		{id: "task-64", title: "SendMessage, completed task, 64 connections", conns: 64, task: true},
		{id: "sse", title: "SendStreamingMessage, time to first event", conns: 16, stream: true, rate: 200},
		{id: halfLoad, title: "SendMessage, message reply, half load", conns: 64, halves: unary64},
	}},
	{id: "postgres", title: "JSON-RPC, PostgreSQL beside SQLite", yardstick: ReverseProxy, open: openPostgres, kinds: []kindOfLoad{
		{id: "pg-unary-1", title: "SendMessage, message reply, 1 connection", conns: 1},
		{id: "pg-unary-64", title: "SendMessage, message reply, 64 connections", conns: 64},
		{id: "pg-task-64", title: "SendMessage, completed task, 64 connections", conns: 64, task: true},
		{id: "pg-sse", title: "SendStreamingMessage, time to first event", conns: 16, stream: true, rate: 200},
		{id: "pg-half-load", title: "SendMessage, message reply, half load", conns: 64, halves: "pg-unary-64"},
	}},
	{id: "replicas", title: "JSON-RPC, two replicas against one", yardstick: ParleyPostgres, open: openReplicas, kinds: []kindOfLoad{
		{id: "replicas-64", title: "SendMessage, message reply, 64 connections", conns: 64},
	}},
	{id: "versions", title: "JSON-RPC, versions 0.3 and 1.0 beside 1.0 alone", yardstick: Parley, open: openVersions, kinds: []kindOfLoad{
		{id: "versions-64", title: "SendMessage, message reply, 64 connections", conns: 64},
		{id: "versions-task-64", title: "SendMessage, completed task, 64 connections", conns: 64, task: true},
	}},
	{id: "grpc", title: "gRPC", yardstick: GRPCProxy, open: openGRPC, kinds: []kindOfLoad{
		{id: "grpc-1", title: "SendMessage, message reply, 1 connection", grpc: true, conns: 1},
		{id: "grpc-64", title: "SendMessage, message reply, 64 connections", grpc: true, conns: 64},
		{id: "grpc-stream", title: "SendStreamingMessage, time to first event", grpc: true, conns: 16, stream: true, rate: 200},
	}},
	{id: "idle", title: "Idle streams", yardstick: ReverseProxy, open: openIdle, kinds: []kindOfLoad{
		{id: idleSSE, title: "SendStreamingMessage, silent after the first event", idle: true},
	}},
	{id: fanOut, title: "Fan-out", yardstick: ReverseProxy, open: openFanOut, kinds: []kindOfLoad{
		{id: fanOut, title: "SubscribeToTask, all of one task", fan: true},
	}},
}

// Rows returns the ids of all rows in the order of measuring.
func Rows() []string {
	var ids []string
	for _, g := range groups {
		for _, k := range g.kinds {
			ids = append(ids, k.id)
		}
	}
	return ids
}

// kindOf returns the kind of load with this id.
func kindOf(id string) (kindOfLoad, bool) {
	for _, g := range groups {
		if i := slices.IndexFunc(g.kinds, func(k kindOfLoad) bool { return k.id == id }); i >= 0 {
			return g.kinds[i], true
		}
	}
	return kindOfLoad{}, false
}

// checkRows returns an error unless ids name rows that can be measured
// together.
func checkRows(ids []string) error {
	for _, id := range ids {
		kind, ok := kindOf(id)
		if !ok {
			return fmt.Errorf("bench: there is no row %q, only %s", id, strings.Join(Rows(), ", "))
		}
		if kind.halves != "" && !slices.Contains(ids, kind.halves) {
			return fmt.Errorf("bench: row %s needs row %s, whose rate it halves", id, kind.halves)
		}
	}
	return nil
}

// asked returns the rows of the group that ids name, all when ids is empty.
func (g group) asked(ids []string) []kindOfLoad {
	if len(ids) == 0 {
		return g.kinds
	}
	return slices.DeleteFunc(slices.Clone(g.kinds), func(k kindOfLoad) bool { return !slices.Contains(ids, k.id) })
}

// measurable tells whether the path leads to the agent that the row needs.
func (k kindOfLoad) measurable(t Target) bool {
	return k.held() || len(k.addresses(t)) > 0
}

func (k kindOfLoad) addresses(t Target) []string {
	if k.task {
		return t.Task
	}
	return t.Message
}

// spec says how to make this kind of load on the target.
func (k kindOfLoad) spec(t Target, opts Options) Spec {
	return Spec{URLs: k.addresses(t), Header: t.Header, GRPC: k.grpc, Tenant: t.Tenant, Old: t.Old, Stream: k.stream, Conns: k.conns, Rate: k.rate, Warmup: opts.Warmup, Duration: opts.Duration, Watch: t.PIDs, Database: t.Database}
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
	// Streams is how many streams were held at once, Settle how long before their
	// memory was read.
	Streams int           `json:"idle_streams"`
	Settle  time.Duration `json:"idle_settle_ns"`
	// LeftOut says what was not measured and why.
	LeftOut []string `json:"left_out,omitempty"`
}

// Row is one kind of load with all its measurements.
type Row struct {
	ID    string  `json:"id"`
	Group string  `json:"group"`
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
	// Foreign is the share of the machine's CPU time, 0 to 1, that went to
	// programs outside the benchmark or to the hypervisor meanwhile.
	Foreign float64 `json:"foreign_cpu_share"`
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

// Foreign returns the spread of the foreign CPU shares of all measurements.
func (r *Report) Foreign() Spread {
	var shares []float64
	for _, row := range r.Rows {
		for _, pair := range row.Pairs {
			for _, m := range pair {
				shares = append(shares, m.Foreign)
			}
		}
	}
	return spreadOf(shares)
}

// figure reads one number from a result.
type figure func(Result) float64

func perSecond(r Result) float64 { return r.PerSecond }
func p50(r Result) float64       { return float64(r.P50) }
func p99(r Result) float64       { return float64(r.P99) }
func cpuEach(r Result) float64   { return float64(r.CPU) }
func dbCPUEach(r Result) float64 { return float64(r.DatabaseCPU) }
func rssEach(r Result) float64   { return r.RSS }
func pssEach(r Result) float64   { return r.PSS }
func anonEach(r Result) float64  { return r.Anonymous }
func atAgent(r Result) float64   { return float64(r.AgentStreams) }

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
	for _, path := range allPaths {
		if rates := row.of(path, perSecond); len(rates) > 0 {
			if median := spreadOf(rates).Median; least == 0 || median < least {
				least = median
			}
		}
	}
	return least
}
