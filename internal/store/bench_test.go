package store

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/parley-mesh/parley/internal/call"
	"github.com/parley-mesh/parley/internal/parley"
	"github.com/parley-mesh/parley/internal/storetest/pgtest"
)

// sample is a record as the gateway makes it.
func sample(i int) *call.Record {
	id := parley.NewCallID()
	return &call.Record{
		ID: id, Root: id, Link: call.Link{Kind: call.LinkRoot},
		Caller: "alpha-client", CallerOwner: "alpha", Environment: parley.Dev,
		Agent: "echo", AgentOwner: "beta", Method: "SendMessage", CallerBinding: "JSONRPC", AgentBinding: "JSONRPC", Version: "1.0",
		MessageID: fmt.Sprintf("0b6c1c5e-5a7b-4a6e-9d5e-%012d", i), TraceID: "4bf92f3577b34da6a3ce929d0e0e4736", SpanID: "00f067aa0ba902b7",
		Begun: time.Now().UTC().Truncate(time.Microsecond), Deadline: time.Now().Add(24 * time.Hour).UTC().Truncate(time.Microsecond),
	}
}

func end(r *call.Record) {
	r.End = call.End{
		Ended: time.Now().UTC().Truncate(time.Microsecond), Outcome: parley.OutcomeOK, Status: 200, BytesIn: 1060, BytesOut: 812,
		FirstByte: 2 * time.Millisecond, Total: 3 * time.Millisecond,
		Steps: []call.Step{{Name: "identify", Took: 3111}, {Name: "link", Took: 900}, {Name: "begin", Took: 1200345},
			{Name: "forward", Took: 1500345}, {Name: "accept", Took: 4567}, {Name: "settle", Took: 1234}},
	}
}

func cpu() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		panic(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// BenchmarkCall writes whole calls as 64 callers do: Begin waited for, Settle
// not. It reports processor time, which is what the gateway's budget is in.
func BenchmarkCall(b *testing.B) {
	benchmarkCall(b, func() Options { return Options{Dir: b.TempDir()} })
}

// BenchmarkCallPostgres is the same on PostgreSQL. The processor time is that of
// this process alone.
func BenchmarkCallPostgres(b *testing.B) {
	benchmarkCall(b, func() Options {
		return Options{Dir: b.TempDir(), Postgres: Postgres{URL: pgtest.Database(b)}}
	})
}

func benchmarkCall(b *testing.B, options func() Options) {
	for _, bench := range []struct {
		name    string
		callers int
		task    bool
		context bool          // a fresh context per call, as agents that answer with messages make
		think   time.Duration // between Begin and Settle, and between calls
	}{{"1", 1, false, false, 0}, {"64", 64, false, false, 0}, {"64context", 64, false, true, 0}, {"64task", 64, true, true, 0}, {"64paced", 64, false, true, 4 * time.Millisecond}} {
		b.Run(bench.name, func(b *testing.B) {
			ctx := b.Context()
			db, err := Open(ctx, options())
			if err != nil {
				b.Fatal(err)
			}
			defer func() {
				if err := db.Close(context.Background()); err != nil {
					b.Error(err)
				}
			}()
			var left atomic.Int64
			left.Store(int64(b.N))
			snapshot := make([]byte, 900)
			before, used := db.Stats(), cpu()
			b.ResetTimer()
			var wg sync.WaitGroup
			for range bench.callers {
				wg.Go(func() {
					for i := left.Add(-1); i >= 0; i = left.Add(-1) {
						r := sample(int(i))
						if err := db.Begin(ctx, r); err != nil {
							b.Error(err)
							return
						}
						if bench.think > 0 {
							time.Sleep(bench.think)
						}
						s := call.Settlement{Record: r}
						if bench.context {
							r.ContextID = uuid.NewString()
							s.Context = r.ContextID
						}
						if bench.task {
							r.TaskID, r.TaskState = r.MessageID, "TASK_STATE_COMPLETED"
							s.Task = &call.Task{Agent: r.Agent, ID: r.TaskID, Principal: r.Caller, Owner: r.CallerOwner, ContextID: r.ContextID,
								State: r.TaskState, Final: true, StatusAt: time.Now(), UpdatedAt: time.Now(), Call: r.ID, Snapshot: snapshot}
						}
						end(r)
						if err := db.Settle(ctx, s, false); err != nil {
							b.Error(err)
							return
						}
						if bench.think > 0 {
							time.Sleep(bench.think)
						}
					}
				})
			}
			wg.Wait()
			b.StopTimer()
			if err := db.catchUp(ctx); err != nil {
				b.Fatal(err)
			}
			after := db.Stats()
			b.ReportMetric(float64((cpu()-used).Microseconds())/float64(b.N), "cpu-µs/call")
			b.ReportMetric(float64(after.Operations-before.Operations)/float64(after.Commits-before.Commits), "ops/commit")
			b.ReportMetric(float64((after.CommitTime-before.CommitTime).Microseconds())/float64(after.Commits-before.Commits), "µs/commit")
		})
	}
}
