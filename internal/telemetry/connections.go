package telemetry

import (
	"context"
	"fmt"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
)

// Connections counts what the callers of one listener hold open.
type Connections struct {
	open    metric.Int64UpDownCounter
	refused metric.Int64Counter
	labels  metric.MeasurementOption
}

// NewConnections makes the instruments at m, for the listener of that key.
func NewConnections(m metric.Meter, listener string) (*Connections, error) {
	c := &Connections{labels: metric.WithAttributeSet(attribute.NewSet(Listener.String(listener)))}
	var err error
	if c.open, err = m.Int64UpDownCounter(MetricOpenConnections, metric.WithDescription("Connections of callers.")); err != nil {
		return nil, fmt.Errorf("instrument %s: %w", MetricOpenConnections, err)
	}
	if c.refused, err = m.Int64Counter(MetricRefusedConnections, metric.WithDescription("Connections closed because their address holds too many.")); err != nil {
		return nil, fmt.Errorf("instrument %s: %w", MetricRefusedConnections, err)
	}
	return c, nil
}

// Opened counts a connection that opens (+1) or is closed (-1).
func (c *Connections) Opened(delta int64) { c.open.Add(context.Background(), delta, c.labels) }

// Refused counts one that was closed because its address holds too many.
func (c *Connections) Refused() { c.refused.Add(context.Background(), 1, c.labels) }
