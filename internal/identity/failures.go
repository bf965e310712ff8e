package identity

import (
	"cmp"
	"context"
	"encoding/json"
	"log/slog"
	"math"
	"net/netip"
	"slices"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/parley-mesh/parley/internal/limit"
	"github.com/parley-mesh/parley/internal/parley"
)

// maxSources is how many remote addresses a summary names.
const maxSources = 10

// sweepEvery is how often a full table of addresses is searched for entries to
// drop, so that a flood of addresses does not make each attempt expensive.
const sweepEvery = time.Second

// flushTimeout bounds the last summary, written while the mesh stops.
const flushTimeout = 5 * time.Second

// Sink keeps events that belong to no other change of state.
type Sink interface {
	AppendEvents(ctx context.Context, events ...parley.Event) error
}

// Failures is what failed in a stretch of time.
type Failures struct {
	Since   time.Time        `json:"since"`
	Until   time.Time        `json:"until"`
	Total   int64            `json:"total"`
	Reasons map[Reason]int64 `json:"reasons"`
	// Sources are the addresses with the most failures, at most 10; IPv6 by
	// its /64.
	Sources []Source `json:"sources,omitempty"`
}

// Source is one remote address that failed.
type Source struct {
	Address string `json:"address"`
	Count   int64  `json:"count"`
}

// Sorted lists the reasons that occurred, always in the same order.
func (f *Failures) Sorted() []Reason {
	return slices.DeleteFunc(slices.Clone(reasons), func(r Reason) bool { return f.Reasons[r] == 0 })
}

// failures counts failed attempts and limits them per remote address.
type failures struct {
	limit     rate.Limit
	burst     int
	addresses int

	mu       sync.Mutex
	started  time.Time
	since    time.Time // start of the stretch being counted
	recent   map[Reason]int64
	total    map[Reason]int64
	byAddr   map[netip.Addr]*attempts
	overflow *rate.Limiter // shared by addresses that found no place
	swept    time.Time
}

type attempts struct {
	bucket *rate.Limiter
	recent int64
}

func newFailures(o Options) failures {
	now, perSecond := o.Now(), rate.Limit(float64(o.FailuresPerMinute)/60)
	return failures{
		limit: perSecond, burst: o.FailureBurst, addresses: o.Addresses,
		started: now, since: now,
		recent: make(map[Reason]int64), total: make(map[Reason]int64),
		byAddr: make(map[netip.Addr]*attempts), overflow: rate.NewLimiter(perSecond, o.FailureBurst),
	}
}

func (f *failures) count(reason Reason) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.recent[reason]++
	f.total[reason]++
}

// wait is how long the address must wait before its next attempt; 0 for none.
func (f *failures) wait(remote string, now time.Time) time.Duration {
	addr := limit.HostOf(remote)
	f.mu.Lock()
	defer f.mu.Unlock()
	bucket := f.overflow
	if a, ok := f.byAddr[addr]; ok {
		bucket = a.bucket
	} else if len(f.byAddr) < f.addresses {
		return 0
	}
	return waitFor(bucket, now)
}

// waitFor is how long until the bucket holds a token.
func waitFor(bucket *rate.Limiter, now time.Time) time.Duration {
	missing := 1 - bucket.TokensAt(now)
	if missing <= 0 {
		return 0
	}
	return time.Duration(math.Ceil(missing / float64(bucket.Limit()) * float64(time.Second)))
}

// charge takes one failure from the address's allowance. Where nothing is left
// it says how long to wait.
func (f *failures) charge(remote string, now time.Time) time.Duration {
	addr := limit.HostOf(remote)
	f.mu.Lock()
	defer f.mu.Unlock()
	bucket := f.overflow
	if a := f.place(addr, now); a != nil {
		a.recent++
		bucket = a.bucket
	}
	if bucket.AllowN(now, 1) {
		return 0
	}
	return waitFor(bucket, now)
}

// place is the entry of addr, made if there is room.
func (f *failures) place(addr netip.Addr, now time.Time) *attempts {
	if a, ok := f.byAddr[addr]; ok {
		return a
	}
	if len(f.byAddr) >= f.addresses {
		f.sweep(now)
	}
	if len(f.byAddr) >= f.addresses {
		return nil
	}
	a := &attempts{bucket: rate.NewLimiter(f.limit, f.burst)}
	f.byAddr[addr] = a
	return a
}

// sweep drops the addresses whose allowance is whole again: an entry made anew
// would be the same.
func (f *failures) sweep(now time.Time) {
	if now.Sub(f.swept) < sweepEvery {
		return
	}
	f.swept = now
	for addr, a := range f.byAddr {
		if a.bucket.TokensAt(now) >= float64(f.burst) {
			delete(f.byAddr, addr)
		}
	}
}

// take gives what failed since the last take and starts a new stretch.
func (f *failures) take(now time.Time) Failures {
	f.mu.Lock()
	defer f.mu.Unlock()
	out := Failures{Since: f.since, Until: now, Reasons: f.recent}
	for _, n := range f.recent {
		out.Total += n
	}
	for addr, a := range f.byAddr {
		if a.recent == 0 {
			continue
		}
		name := "unknown"
		if addr.IsValid() {
			name = addr.String()
		}
		out.Sources = append(out.Sources, Source{Address: name, Count: a.recent})
		a.recent = 0
	}
	slices.SortFunc(out.Sources, func(a, b Source) int {
		return cmp.Or(cmp.Compare(b.Count, a.Count), cmp.Compare(a.Address, b.Address))
	})
	out.Sources = out.Sources[:min(len(out.Sources), maxSources)]
	f.since, f.recent = now, make(map[Reason]int64)
	return out
}

// Failures tells what failed since the directory was made, without sources.
func (d *Directory) Failures() Failures {
	f := &d.failures
	now := d.opts.Now()
	f.mu.Lock()
	defer f.mu.Unlock()
	out := Failures{Since: f.started, Until: now, Reasons: make(map[Reason]int64, len(f.total))}
	for _, reason := range reasons {
		if n := f.total[reason]; n > 0 {
			out.Reasons[reason] = n
			out.Total += n
		}
	}
	return out
}

// Run summarises failures, at every Options.SummaryEvery in which there were
// any and once more at the end, until ctx is done. It gives nil.
func (d *Directory) Run(ctx context.Context) error {
	tick := time.NewTicker(d.opts.SummaryEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			d.summarise(ctx)
		case <-ctx.Done():
			last, cancel := context.WithTimeout(context.WithoutCancel(ctx), flushTimeout)
			defer cancel()
			d.summarise(last)
			return nil
		}
	}
}

// summarise tells of the failures since the last time, as one log line and one
// event. The log line comes first: it is there if the sink is not.
func (d *Directory) summarise(ctx context.Context) {
	f := d.failures.take(d.opts.Now())
	if f.Total == 0 {
		return
	}
	attrs := []slog.Attr{slog.Int64("total", f.Total)}
	for _, reason := range f.Sorted() {
		attrs = append(attrs, slog.Int64(string(reason), f.Reasons[reason]))
	}
	if len(f.Sources) > 0 {
		attrs = append(attrs, slog.String("source", f.Sources[0].Address))
	}
	d.opts.Log.LogAttrs(ctx, slog.LevelWarn, "callers could not be identified", attrs...)
	if d.opts.Sink == nil {
		return
	}
	body, err := json.Marshal(f)
	if err == nil {
		err = d.opts.Sink.AppendEvents(ctx, parley.Event{
			Subject: "auth/failures", Type: "auth.failed", Time: f.Until,
			Owner: parley.DefaultOwner, Environment: d.opts.Environment, Data: body,
		})
	}
	if err != nil {
		d.opts.Log.LogAttrs(ctx, slog.LevelWarn, "failure summary not kept", slog.Any("err", err))
	}
}
