package telemetry

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlpmetric/otlpmetrichttp"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	otelprom "go.opentelemetry.io/otel/exporters/prometheus"
	"go.opentelemetry.io/otel/metric"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
)

// Options say where spans and metrics go. The zero value keeps trace ids alive
// without recording anything, and metrics for whoever fetches them.
type Options struct {
	Traces  Collector
	Sample  float64 // share of new roots that are recorded, 0 to 1
	Metrics Collector
	Every   time.Duration // pause between two deliveries of metrics
	Version string        // of the program
	// Spans takes ended spans too; nil for none.
	Spans sdktrace.SpanProcessor
}

// Collector takes OTLP over HTTP. The zero value is none.
type Collector struct {
	Endpoint string // base address
	Headers  map[string]string
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
	program := resource.NewSchemaless(
		attribute.String("service.name", "parley"), attribute.String("service.version", o.Version))
	traces, err := traceOptions(o, program)
	if err != nil {
		return nil, err
	}
	metrics := []sdkmetric.Option{sdkmetric.WithReader(exporter), sdkmetric.WithResource(program)}
	if o.Metrics.Endpoint != "" {
		push, err := otlpmetrichttp.New(context.Background(),
			otlpmetrichttp.WithEndpointURL(o.Metrics.at("/v1/metrics")), otlpmetrichttp.WithHeaders(o.Metrics.Headers))
		if err != nil {
			return nil, fmt.Errorf("metric exporter: %w", err)
		}
		metrics = append(metrics, sdkmetric.WithReader(sdkmetric.NewPeriodicReader(push, sdkmetric.WithInterval(o.Every))))
	}
	return &Provider{
		metrics:  sdkmetric.NewMeterProvider(metrics...),
		traces:   sdktrace.NewTracerProvider(traces...),
		registry: registry,
	}, nil
}

// traceOptions sets up where spans go. Without a taker not even a caller's
// sampled flag makes spans: ids only.
func traceOptions(o Options, program *resource.Resource) ([]sdktrace.TracerProviderOption, error) {
	if o.Traces.Endpoint == "" && o.Spans == nil {
		return []sdktrace.TracerProviderOption{sdktrace.WithSampler(sdktrace.NeverSample())}, nil
	}
	options := []sdktrace.TracerProviderOption{
		sdktrace.WithSampler(sdktrace.ParentBased(sdktrace.TraceIDRatioBased(o.Sample))),
		sdktrace.WithResource(program),
	}
	if o.Spans != nil {
		options = append(options, sdktrace.WithSpanProcessor(o.Spans))
	}
	if o.Traces.Endpoint != "" {
		exporter, err := otlptracehttp.New(context.Background(),
			otlptracehttp.WithEndpointURL(o.Traces.at("/v1/traces")), otlptracehttp.WithHeaders(o.Traces.Headers))
		if err != nil {
			return nil, fmt.Errorf("trace exporter: %w", err)
		}
		options = append(options, sdktrace.WithBatcher(exporter))
	}
	return options, nil
}

// at is the address for one kind of signal.
func (c Collector) at(path string) string { return strings.TrimSuffix(c.Endpoint, "/") + path }

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
