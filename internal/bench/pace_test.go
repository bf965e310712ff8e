package bench

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

const ms = time.Millisecond

// answersIn returns an exchange that takes what took says for its n-th request.
func answersIn(took func(n int) time.Duration) exchange {
	n := 0
	return func() (time.Time, error) {
		time.Sleep(took(n))
		n++
		return time.Now(), nil
	}
}

func always(d time.Duration) func(int) time.Duration { return func(int) time.Duration { return d } }

func noCPU() (usage, error) { return usage{}, nil }

func sleepTo(t time.Time) { time.Sleep(time.Until(t)) }

// A stall must be felt by every request that was due during it, not only by
// the one that met it.
func TestPacedCountsWaitingTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		stall := func(n int) time.Duration {
			if n == 10 {
				return 100 * ms
			}
			return ms
		}
		spec := Spec{Conns: 1, Rate: 100, Duration: time.Second}
		got, err := paced(t.Context(), spec, []exchange{answersIn(stall)}, noCPU, sleepTo)
		if err != nil {
			t.Fatal(err)
		}
		if got.Requests != 100 || got.PerSecond != 100 {
			t.Errorf("%d requests, %g/s, want 100 and 100/s", got.Requests, got.PerSecond)
		}
		// Due every 10 ms. The stall from 100 ms to 200 ms lets those due at
		// 110, 120, ... leave 90, 81, ... ms late; each then takes 1 ms. The
		// stalled one itself left in time.
		if want := 91 * ms; got.P99 != want {
			t.Errorf("p99 = %s, want %s: the request behind the stalled one waited too", got.P99, want)
		}
		if got.P50 != ms || got.LagP50 != 0 || got.LagP99 != 81*ms {
			t.Errorf("p50 = %s, lag p50 = %s, lag p99 = %s, want 1ms, 0s, 81ms", got.P50, got.LagP50, got.LagP99)
		}
	})
}

func TestPacedUsesFreeConnections(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slow, fast := answersIn(always(30*ms)), answersIn(always(30*ms))
		spec := Spec{Conns: 2, Rate: 50, Warmup: 100 * ms, Duration: time.Second}
		got, err := paced(t.Context(), spec, []exchange{slow, fast}, noCPU, sleepTo)
		if err != nil {
			t.Fatal(err)
		}
		if got.Requests != 50 || got.P99 != 30*ms {
			t.Errorf("%d requests, p99 %s, want the 50 after the warm-up, none of them waiting", got.Requests, got.P99)
		}
	})
}

func TestSaturatedCountsItsWindowOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		coldStart := func(n int) time.Duration {
			if n == 0 {
				return 95 * ms // inside the warm-up
			}
			return 10 * ms
		}
		var used usage
		cpu := func() (usage, error) { used.watched += 20 * ms; used.database += 2 * ms; return used, nil }
		spec := Spec{Conns: 2, Warmup: 100 * ms, Duration: time.Second}
		got, err := saturated(t.Context(), spec, []exchange{answersIn(coldStart), answersIn(coldStart)}, cpu)
		if err != nil {
			t.Fatal(err)
		}
		want := Result{Requests: 200, Elapsed: time.Second, PerSecond: 200, P50: 10 * ms, P99: 10 * ms, CPU: 100 * time.Microsecond, DatabaseCPU: 10 * time.Microsecond}
		if got != want {
			t.Errorf("got  %+v\nwant %+v", got, want)
		}
	})
}

func TestLoadEndsAtTheFirstError(t *testing.T) {
	broken := errors.New("broken answer")
	fails := func() (time.Time, error) { time.Sleep(ms); return time.Time{}, broken }
	spec := Spec{Conns: 2, Rate: 100, Duration: time.Hour}
	for name, load := range map[string]func(context.Context, []exchange) (Result, error){
		"saturated": func(ctx context.Context, all []exchange) (Result, error) { return saturated(ctx, spec, all, noCPU) },
		"paced": func(ctx context.Context, all []exchange) (Result, error) {
			return paced(ctx, spec, all, noCPU, sleepTo)
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				begin := time.Now()
				_, err := load(t.Context(), []exchange{answersIn(always(ms)), fails})
				if !errors.Is(err, broken) {
					t.Errorf("err = %v, want %v", err, broken)
				}
				if took := time.Since(begin); took > time.Second {
					t.Errorf("ended after %s", took)
				}
			})
		})
	}
}

func TestLoadWithoutAnAnswerIsNoResult(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, err := saturated(t.Context(), Spec{Conns: 1, Duration: ms}, []exchange{answersIn(always(time.Second))}, noCPU)
		if err == nil {
			t.Error("a window without an answer gave a result")
		}
	})
}
