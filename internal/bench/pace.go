package bench

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
)

// exchange is one request and its answer on one connection. It returns the
// moment that ends the latency.
type exchange func() (time.Time, error)

// Where a measurement stands.
const (
	warming int32 = iota
	counting
	finished
)

// window is the counted part of a measurement.
type window struct {
	elapsed time.Duration
	cpu     usage
}

// saturated runs every exchange in a loop and counts those that end inside the
// window.
func saturated(ctx context.Context, spec Spec, exchanges []exchange, cpu func() (usage, error)) (Result, error) {
	var now atomic.Int32
	latencies := make([][]time.Duration, len(exchanges))
	group, ctx := errgroup.WithContext(ctx)
	for i, exchange := range exchanges {
		group.Go(func() error {
			for now.Load() != finished {
				sent := time.Now()
				answered, err := exchange()
				if err != nil {
					return err
				}
				if now.Load() == counting {
					latencies[i] = append(latencies[i], answered.Sub(sent))
				}
			}
			return nil
		})
	}
	counted, watchErr := watch(ctx, spec, &now, cpu)
	if err := group.Wait(); err != nil {
		return Result{}, err
	}
	if watchErr != nil {
		return Result{}, watchErr
	}
	return summarise(counted, slices.Concat(latencies...), nil)
}

// paced starts exchanges at fixed moments, whether or not earlier ones have
// been answered, on whichever connection is free first. Latency counts from
// the moment a request was due, so that a stall costs every request that
// should have been sent meanwhile (coordinated omission).
func paced(ctx context.Context, spec Spec, exchanges []exchange, cpu func() (usage, error), sleepUntil func(time.Time)) (Result, error) {
	var now atomic.Int32
	interval := time.Duration(float64(time.Second) / spec.Rate)
	arrivals := int((spec.Warmup + spec.Duration) / interval)
	if arrivals < 1 {
		return Result{}, fmt.Errorf("load: rate %g starts no request within %s", spec.Rate, spec.Warmup+spec.Duration)
	}
	start := time.Now()
	counted := start.Add(spec.Warmup)
	due := make(chan time.Time, arrivals) // the pacer must never wait for a free connection
	latencies, lags := make([][]time.Duration, len(exchanges)), make([][]time.Duration, len(exchanges))

	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error {
		defer close(due)
		for i := range arrivals {
			at := start.Add(time.Duration(i) * interval)
			sleepUntil(at)
			if ctx.Err() != nil {
				return ctx.Err()
			}
			due <- at
		}
		return nil
	})
	for i, exchange := range exchanges {
		group.Go(func() error {
			for at := range due {
				lag := time.Since(at)
				answered, err := exchange()
				if err != nil {
					return err
				}
				if !at.Before(counted) {
					latencies[i] = append(latencies[i], answered.Sub(at))
					lags[i] = append(lags[i], lag)
				}
			}
			return nil
		})
	}
	seen, watchErr := watch(ctx, spec, &now, cpu)
	if err := group.Wait(); err != nil {
		return Result{}, err
	}
	if watchErr != nil {
		return Result{}, watchErr
	}
	return summarise(seen, slices.Concat(latencies...), slices.Concat(lags...))
}

// watch moves now through the phases and reads the CPU time at both ends of
// the window. When ctx ends early it finishes at once.
func watch(ctx context.Context, spec Spec, now *atomic.Int32, cpu func() (usage, error)) (window, error) {
	defer now.Store(finished)
	if err := pause(ctx, spec.Warmup); err != nil {
		return window{}, err
	}
	before, err := cpu()
	if err != nil {
		return window{}, err
	}
	begin := time.Now()
	now.Store(counting)
	if err := pause(ctx, spec.Duration); err != nil {
		return window{}, err
	}
	now.Store(finished)
	elapsed := time.Since(begin)
	after, err := cpu()
	if err != nil {
		return window{}, err
	}
	return window{elapsed: elapsed, cpu: usage{after.watched - before.watched, after.database - before.database}}, nil
}

// pause waits for d or until ctx ends.
func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// summarise makes a Result of the samples of one window; it sorts them.
func summarise(w window, latencies, lags []time.Duration) (Result, error) {
	if len(latencies) == 0 {
		return Result{}, fmt.Errorf("load: no request was answered within %s", w.elapsed)
	}
	slices.Sort(latencies)
	slices.Sort(lags)
	n := len(latencies)
	return Result{
		Requests:  n,
		Elapsed:   w.elapsed,
		PerSecond: float64(n) / w.elapsed.Seconds(),
		P50:       quantile(latencies, 0.50),
		P99:       quantile(latencies, 0.99),
		CPU:       w.cpu.watched / time.Duration(n),

		DatabaseCPU: w.cpu.database / time.Duration(n),

		LagP50: quantile(lags, 0.50),
		LagP99: quantile(lags, 0.99),
	}, nil
}
