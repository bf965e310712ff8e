package telemetry

import (
	"context"
	"fmt"
	"time"

	"go.opentelemetry.io/otel/metric"
)

// Pushes measures deliveries.
type Pushes struct {
	attempts metric.Int64Counter
	duration metric.Float64Histogram
	delay    metric.Float64Histogram
	dead     metric.Int64Counter
}

// NewPushes makes the instruments of deliveries at m. pending is asked at every
// scrape: how many subscriptions have something to deliver.
func NewPushes(m metric.Meter, pending func(context.Context) (int64, error)) (*Pushes, error) {
	p := &Pushes{}
	var err error
	if p.attempts, err = m.Int64Counter(MetricPushes, metric.WithDescription("Attempts to deliver an event.")); err != nil {
		return nil, fmt.Errorf("instrument %s: %w", MetricPushes, err)
	}
	if p.dead, err = m.Int64Counter(MetricPushesDead, metric.WithDescription("Events that were given up.")); err != nil {
		return nil, fmt.Errorf("instrument %s: %w", MetricPushesDead, err)
	}
	took := metric.WithExplicitBucketBoundaries(0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)
	if p.duration, err = m.Float64Histogram(MetricPushDuration, metric.WithUnit("s"), took, metric.WithDescription("One attempt.")); err != nil {
		return nil, fmt.Errorf("instrument %s: %w", MetricPushDuration, err)
	}
	age := metric.WithExplicitBucketBoundaries(0.01, 0.05, 0.1, 0.5, 1, 5, 30, 60, 300, 1800, 3600, 21600, 86400)
	if p.delay, err = m.Float64Histogram(MetricPushDelay, metric.WithUnit("s"), age, metric.WithDescription("From an event to its delivery.")); err != nil {
		return nil, fmt.Errorf("instrument %s: %w", MetricPushDelay, err)
	}
	read := func(ctx context.Context, o metric.Int64Observer) error {
		if n, err := pending(ctx); err == nil { // else the other metrics go without it
			o.Observe(n)
		}
		return nil
	}
	if _, err := m.Int64ObservableGauge(MetricPushesPending, metric.WithDescription("Subscriptions with something to deliver."), metric.WithInt64Callback(read)); err != nil {
		return nil, fmt.Errorf("instrument %s: %w", MetricPushesPending, err)
	}
	return p, nil
}

// pushDelivered is the result of an attempt that succeeded, as package push names
// it.
const pushDelivered = "delivered"

// Attempt implements push.Meter.
func (p *Pushes) Attempt(ctx context.Context, result string, took, age time.Duration) {
	labels := metric.WithAttributes(PushResult.String(result))
	p.attempts.Add(ctx, 1, labels)
	p.duration.Record(ctx, took.Seconds(), labels)
	if result == pushDelivered {
		p.delay.Record(ctx, age.Seconds())
	}
}

// Dead implements push.Meter.
func (p *Pushes) Dead(ctx context.Context) { p.dead.Add(ctx, 1) }
