package gateway

import (
	"context"

	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"github.com/parley-mesh/parley/internal/call"
	"github.com/parley-mesh/parley/internal/parley"
	"github.com/parley-mesh/parley/internal/telemetry"
)

// traceContext reads and writes W3C trace headers.
var traceContext = propagation.TraceContext{}

// link places the call inside the open call that its caller works on, if there
// is one, and continues the caller's trace. Candidates are only the open calls
// whose callee is this caller; what the caller says can pick among them and
// never add one.
func (g *Gateway) link(ctx context.Context, c *Call) error {
	incoming := c.incoming
	var candidates []call.Candidate
	if c.caller.Agent != "" {
		var err error
		if candidates, err = g.Journal.OpenCallsOf(ctx, c.caller.Agent); err != nil {
			return err
		}
	}
	hints := call.Hints{ContextID: c.req.Facts.ContextID, ReferenceTaskIDs: c.req.Facts.ReferenceTaskIDs}
	if incoming.IsValid() {
		hints.ParentSpan = incoming.SpanID().String()
	}
	c.record.Link, c.record.Root = call.Place(c.record.ID, candidates, hints)
	if c.record.Link.Kind == call.LinkRoot && c.req.Method.Sends() && !c.turnOf.IsZero() {
		if err := g.nextTurn(ctx, c); err != nil {
			return err
		}
	}

	if !c.anonymous() { // a stranger's trace is not continued
		ctx = trace.ContextWithRemoteSpanContext(ctx, incoming)
		c.traced = incoming.IsSampled()
	}
	_, c.span = g.Tracer.Start(ctx, "invoke_agent "+string(c.record.Agent), trace.WithSpanKind(trace.SpanKindClient))
	sc := c.span.SpanContext()
	c.record.TraceID, c.record.SpanID = sc.TraceID().String(), sc.SpanID().String()
	if c.span.IsRecording() {
		c.span.SetAttributes(
			telemetry.OperationName.String("invoke_agent"),
			telemetry.AgentName.String(string(c.record.Agent)),
			telemetry.AgentVersion.String(c.target.Agent.AgentVersion),
			telemetry.A2AMethod.String(c.record.Method),
			telemetry.A2AVersion.String(c.record.Version),
			telemetry.A2AMessage.String(c.record.MessageID),
			telemetry.CallID.String(c.record.ID.String()),
			telemetry.CallRoot.String(c.record.Root.String()),
			telemetry.CallDepth.Int(c.record.Link.Depth),
			telemetry.CallerName.String(string(c.record.Caller)),
			telemetry.CallerBinding.String(c.record.CallerBinding),
			telemetry.Environment.String(string(c.record.Environment)),
		)
	}
	g.lap(c, "link")
	return nil
}

// nextTurn puts a follow-up message under the root of the call that began its
// task. Where retention has removed that record, the turn is a root itself.
func (g *Gateway) nextTurn(ctx context.Context, c *Call) error {
	first, err := g.Journal.Call(ctx, c.turnOf)
	switch {
	case err == nil:
		c.record.Link, c.record.Root = call.Turn(first)
	case parley.KindOf(err) != parley.NotFound:
		return err
	}
	return nil
}
