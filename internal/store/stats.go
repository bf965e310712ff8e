package store

import (
	"sync/atomic"
	"time"
)

// Meter is told what the writer does. Its methods are called by the writer and
// must return at once.
type Meter interface {
	// Committed: one transaction of that many operations took so long, from
	// its first statement until it was durable.
	Committed(operations int, took time.Duration)
	// Failed: an attempt to write failed because of the disk.
	Failed()
	// Refused: something that nobody waited for could not be written as it
	// was, because of what it said and not because of the disk.
	Refused()
}

// Stats are counts since Open.
type Stats struct {
	Queue      int           // operations that wait now
	Open       int           // calls that are open now
	Commits    int64         // transactions
	Operations int64         // operations in them
	CommitTime time.Duration // all transactions together
	Failures   int64         // attempts that failed because of the disk
	Refused    int64         // operations nobody waited for that were refused
	Dropped    int64         // records of refused calls that were left out
}

type stats struct {
	commits, operations, nanos, failures, refusals, dropped atomic.Int64

	meter atomic.Pointer[Meter]
}

func (s *stats) committed(operations int, took time.Duration) {
	s.commits.Add(1)
	s.operations.Add(int64(operations))
	s.nanos.Add(int64(took))
	if m := s.meter.Load(); m != nil {
		(*m).Committed(operations, took)
	}
}

func (s *stats) failed() {
	s.failures.Add(1)
	if m := s.meter.Load(); m != nil {
		(*m).Failed()
	}
}

func (s *stats) refused() {
	s.refusals.Add(1)
	if m := s.meter.Load(); m != nil {
		(*m).Refused()
	}
}

// Measure sets who is told what the writer does.
func (db *DB) Measure(m Meter) { db.stats.meter.Store(&m) }

// Stats gives the counts of this moment.
func (db *DB) Stats() Stats {
	return Stats{
		Queue: db.w.depth(), Open: db.live.count(),
		Commits: db.stats.commits.Load(), Operations: db.stats.operations.Load(),
		CommitTime: time.Duration(db.stats.nanos.Load()),
		Failures:   db.stats.failures.Load(), Refused: db.stats.refusals.Load(), Dropped: db.stats.dropped.Load(),
	}
}
