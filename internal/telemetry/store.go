package telemetry

import (
	"context"
	"fmt"
	"time"

	"go.opentelemetry.io/otel/metric"
)

// StoreState is what is read of the store at a scrape.
type StoreState struct {
	Queue   int   // operations that wait for a commit
	Refused int64 // settlements that nobody waited for and that were refused
	Dropped int64 // records of refused calls that were left out
}

// Store measures the store's writer.
type Store struct {
	commit   metric.Float64Histogram
	batch    metric.Int64Histogram
	failures metric.Int64Counter
}

// NewStore makes the instruments at m; state is asked at every scrape.
func NewStore(m metric.Meter, state func() StoreState) (*Store, error) {
	s := &Store{}
	var err error
	if s.commit, err = m.Float64Histogram(MetricCommit, metric.WithUnit("s"),
		metric.WithExplicitBucketBoundaries(0.0001, 0.0002, 0.0005, 0.001, 0.002, 0.005, 0.01, 0.05, 0.25, 1),
		metric.WithDescription("From a transaction's first statement until it was durable.")); err != nil {
		return nil, fmt.Errorf("instrument %s: %w", MetricCommit, err)
	}
	if s.batch, err = m.Int64Histogram(MetricBatch, metric.WithExplicitBucketBoundaries(1, 2, 4, 8, 16, 32, 64, 128, 256),
		metric.WithDescription("Operations in one transaction.")); err != nil {
		return nil, fmt.Errorf("instrument %s: %w", MetricBatch, err)
	}
	if s.failures, err = m.Int64Counter(MetricStoreFailures, metric.WithDescription("Attempts to write that failed because of the disk.")); err != nil {
		return nil, fmt.Errorf("instrument %s: %w", MetricStoreFailures, err)
	}
	queue, err := m.Int64ObservableGauge(MetricQueue, metric.WithDescription("Operations that wait for a commit."))
	if err != nil {
		return nil, fmt.Errorf("instrument %s: %w", MetricQueue, err)
	}
	refused, err := m.Int64ObservableCounter(MetricSettleRefused, metric.WithDescription("Settlements that nobody waited for and that were refused."))
	if err != nil {
		return nil, fmt.Errorf("instrument %s: %w", MetricSettleRefused, err)
	}
	dropped, err := m.Int64ObservableCounter(MetricDropped, metric.WithDescription("Records of refused calls that were left out because too many waited for the disk."))
	if err != nil {
		return nil, fmt.Errorf("instrument %s: %w", MetricDropped, err)
	}
	_, err = m.RegisterCallback(func(_ context.Context, o metric.Observer) error {
		now := state()
		o.ObserveInt64(queue, int64(now.Queue))
		o.ObserveInt64(refused, now.Refused)
		o.ObserveInt64(dropped, now.Dropped)
		return nil
	}, queue, refused, dropped)
	return s, err
}

// Committed counts one transaction.
func (s *Store) Committed(operations int, took time.Duration) {
	s.commit.Record(context.Background(), took.Seconds())
	s.batch.Record(context.Background(), int64(operations))
}

// Failed counts one attempt to write that failed because of the disk.
func (s *Store) Failed() { s.failures.Add(context.Background(), 1) }

// Refused is counted by the store itself; see StoreState.
func (s *Store) Refused() {}
