package telemetry

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	otelprom "go.opentelemetry.io/otel/exporters/prometheus"
	"go.opentelemetry.io/otel/metric"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
)

// Options say where spans go.
type Options struct {
	// Spans takes ended spans; nil keeps trace ids alive without recording.
	Spans sdktrace.SpanProcessor
}

// Provider makes instruments and spans, and serves the metrics.
type Provider struct {
	metrics  *sdkmetric.MeterProvider
	traces   *sdktrace.TracerProvider
	registry *prometheus.Registry
}

// New makes a provider. Shutdown must be called.
func New(o Options) (*Provider, error) {
	registry := prometheus.NewRegistry()
	registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	exporter, err := otelprom.New(otelprom.WithRegisterer(registry), otelprom.WithoutScopeInfo())
	if err != nil {
		return nil, fmt.Errorf("prometheus exporter: %w", err)
	}
	// Without a taker not even a caller's sampled flag makes spans: ids only.
	traceOptions := []sdktrace.TracerProviderOption{sdktrace.WithSampler(sdktrace.NeverSample())}
	if o.Spans != nil {
		traceOptions = []sdktrace.TracerProviderOption{
			sdktrace.WithSampler(sdktrace.ParentBased(sdktrace.AlwaysSample())), sdktrace.WithSpanProcessor(o.Spans),
		}
	}
	return &Provider{
		metrics:  sdkmetric.NewMeterProvider(sdkmetric.WithReader(exporter)),
		traces:   sdktrace.NewTracerProvider(traceOptions...),
		registry: registry,
	}, nil
}

// Meter makes the mesh's instruments.
func (p *Provider) Meter() metric.Meter { return p.metrics.Meter(Scope) }

// Tracer makes the mesh's spans.
func (p *Provider) Tracer() trace.Tracer { return p.traces.Tracer(Scope) }

// Handler serves the metrics in Prometheus' format.
func (p *Provider) Handler() http.Handler {
	return promhttp.HandlerFor(p.registry, promhttp.HandlerOpts{Registry: p.registry})
}

// Shutdown hands on what was not exported yet.
func (p *Provider) Shutdown(ctx context.Context) error {
	return errors.Join(p.traces.Shutdown(ctx), p.metrics.Shutdown(ctx))
}
