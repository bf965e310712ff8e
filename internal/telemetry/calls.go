package telemetry

import (
	"context"
	"fmt"
	"sync"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/parley-mesh/parley/internal/parley"
)

// maxLabelSets bounds how many (agent, method, outcome) sets are remembered.
// Agents are registered by operators and methods are a closed set, so that the
// bound is only reached where thousands of agents came and went.
const maxLabelSets = 100_000

// Calls measures calls.
type Calls struct {
	calls     metric.Int64Counter
	duration  metric.Float64Histogram
	firstByte metric.Float64Histogram
	streams   metric.Int64UpDownCounter
	limited   metric.Int64Counter

	mu   sync.RWMutex
	sets map[labels]*options // guarded by mu
}

type labels struct {
	agent   parley.AgentName
	place   string // instance; empty for the agent's own address
	method  string
	outcome parley.Outcome
}

// options are the prepared labels of one set: making them costs more than
// counting does.
type options struct {
	count []metric.AddOption
	time  []metric.RecordOption
}

// Gauges are asked at every scrape.
type Gauges struct {
	Open    func() int // calls that are open
	Watched func() int // tasks that the mesh itself watches
}

// NewCalls makes the instruments of calls at m.
func NewCalls(m metric.Meter) (*Calls, error) {
	c := &Calls{sets: map[labels]*options{}}
	var err error
	if c.calls, err = m.Int64Counter(MetricCalls, metric.WithDescription("Ended calls.")); err != nil {
		return nil, fmt.Errorf("instrument %s: %w", MetricCalls, err)
	}
	buckets := metric.WithExplicitBucketBoundaries(0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300)
	if c.duration, err = m.Float64Histogram(MetricCallDuration, metric.WithUnit("s"), buckets, metric.WithDescription("From arrival to the last byte of the answer.")); err != nil {
		return nil, fmt.Errorf("instrument %s: %w", MetricCallDuration, err)
	}
	if c.firstByte, err = m.Float64Histogram(MetricFirstByte, metric.WithUnit("s"), buckets, metric.WithDescription("From arrival to the first byte of the answer.")); err != nil {
		return nil, fmt.Errorf("instrument %s: %w", MetricFirstByte, err)
	}
	if c.streams, err = m.Int64UpDownCounter(MetricOpenStreams, metric.WithDescription("Streams being served.")); err != nil {
		return nil, fmt.Errorf("instrument %s: %w", MetricOpenStreams, err)
	}
	if c.limited, err = m.Int64Counter(MetricLimited, metric.WithDescription("Requests refused because their caller asks too often.")); err != nil {
		return nil, fmt.Errorf("instrument %s: %w", MetricLimited, err)
	}
	return c, nil
}

// Watch makes the gauges at m.
func (g Gauges) Watch(m metric.Meter) error {
	for name, gauge := range map[string]struct {
		about string
		read  func() int
	}{
		MetricOpenCalls:    {"Calls whose task is not final.", g.Open},
		MetricWatchedTasks: {"Tasks that the mesh itself watches.", g.Watched},
	} {
		read := func(_ context.Context, o metric.Int64Observer) error {
			o.Observe(int64(gauge.read()))
			return nil
		}
		if _, err := m.Int64ObservableGauge(name, metric.WithDescription(gauge.about), metric.WithInt64Callback(read)); err != nil {
			return fmt.Errorf("instrument %s: %w", name, err)
		}
	}
	return nil
}

// Stream counts a stream that opens (+1) or ends (-1).
func (c *Calls) Stream(ctx context.Context, delta int64) { c.streams.Add(ctx, delta) }

// Limited counts a request that was refused because its caller asks too often:
// by its allowance as a principal, or by that of its address.
func (c *Calls) Limited(ctx context.Context, by string) {
	c.limited.Add(ctx, 1, metric.WithAttributes(LimitedBy.String(by)))
}

// Ended counts one ended call at an instance of the agent, which is empty for
// its own address. firstByte 0 means that no byte was answered.
func (c *Calls) Ended(ctx context.Context, agent parley.AgentName, instance, method string, outcome parley.Outcome, total, firstByte time.Duration) {
	o := c.options(labels{agent, instance, method, outcome})
	c.calls.Add(ctx, 1, o.count...)
	c.duration.Record(ctx, total.Seconds(), o.time...)
	if firstByte > 0 {
		c.firstByte.Record(ctx, firstByte.Seconds(), o.time...)
	}
}

func (c *Calls) options(l labels) *options {
	c.mu.RLock()
	o, ok := c.sets[l]
	c.mu.RUnlock()
	if ok {
		return o
	}
	common := []attribute.KeyValue{AgentName.String(string(l.agent)), A2AMethod.String(l.method)}
	if l.place != "" {
		common = append(common, AgentInstance.String(l.place))
	}
	o = &options{
		count: []metric.AddOption{metric.WithAttributeSet(attribute.NewSet(append(common[:len(common):len(common)], Outcome.String(string(l.outcome)))...))},
		time:  []metric.RecordOption{metric.WithAttributeSet(attribute.NewSet(common...))},
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.sets) < maxLabelSets {
		c.sets[l] = o
	}
	return o
}
