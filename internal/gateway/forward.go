package gateway

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"github.com/parley-mesh/parley/internal/a2a"
	"github.com/parley-mesh/parley/internal/parley"
	"github.com/parley-mesh/parley/internal/registry"
)

// passed are the request headers that go on to the agent as they came. All
// others stay behind: a caller must not be able to reach an agent's internals
// by headers that the agent trusts from its own surroundings.
var passed = []string{"Accept-Language"}

// forward talks to the agent: the only step that does. What it gives back is
// the agent's answer or, as an error reply, why there is none.
//
// A request with effects is not given up when its caller leaves: the task's
// life does not hang on the connection (A2A 1.0, section 3.5.2), and the
// record tells how it ended.
func (g *Gateway) forward(ctx context.Context, c *Call) *a2a.Reply {
	streaming := c.asks().Method.Streaming()
	if streaming && !g.streams.take(c.record.Caller, g.limits()) {
		return g.refuse(c, tooManyStreams(c))
	}
	limit := g.limits().Unary
	if streaming {
		limit = g.limits().FirstByte
	}
	if !c.asks().Method.ReadOnly() || streaming {
		ctx = context.WithoutCancel(ctx)
	}
	ctx, cancel := context.WithCancelCause(ctx)
	timer := time.AfterFunc(limit, func() { cancel(errDeadline) })
	g.open.start(&c.record, cancel)
	if c.asks().Method.Sends() && c.sees.owned { // a further turn of a task
		g.open.follow(c.record.ID, c.sees.key)
	}
	done := func() {
		timer.Stop()
		cancel(nil)
		if c.placing.home != nil {
			g.standings.leave(placeOf(c.target))
		}
	}
	if c.placing.home != nil {
		g.standings.enter(placeOf(c.target))
	}
	streams := false
	defer func() { // also where sending panics
		if !streams {
			done()
			if streaming {
				g.streams.give(c.record.Caller)
			}
		}
	}()
	reply, err := g.sendPlaced(ctx, c)
	g.lap(c, "forward")
	if err != nil {
		reply = g.unanswered(ctx, c, err)
	}
	c.echo(reply)
	if reply.Stream == nil {
		return reply
	}
	streams = true
	timer.Reset(g.limits().CallDeadline)
	reply.Stream = &openedStream{g: g, call: c, inner: reply.Stream, exchange: ctx, cancel: cancel, done: done}
	return reply
}

func tooManyStreams(c *Call) error {
	return parley.E("gateway.forward", parley.Exhausted, parley.Subject(c.record.Caller),
		"too many streams are open; close some, or ask for more (limits.streams, limits.streams_per_principal)", nil)
}

// send asks the target, and once more where it answered 401 to a token of which
// the mesh can have another: an agent that says so has not done the work, and
// the body is in memory whole.
func (g *Gateway) send(ctx context.Context, c *Call) (*a2a.Reply, error) {
	shown, err := g.shown(ctx, c.target)
	if err != nil {
		return nil, err
	}
	header := g.outgoing(c)
	return g.exchange(ctx, c.target, shown, c.asks(), header)
}

// exchange sends a request with the credential as it is shown now, and once
// more after a 401.
func (g *Gateway) exchange(ctx context.Context, t *registry.Target, shown registry.Presented, q *a2a.Request, header http.Header) (*a2a.Reply, error) {
	client := g.client(t)
	reply, err := client.Do(ctx, endpoint(t, shown), q, present(header, shown))
	if err != nil || reply.Err == nil || reply.Err.HTTP != http.StatusUnauthorized {
		return reply, err
	}
	again, ok, tokenErr := g.again(ctx, t, shown)
	if tokenErr != nil {
		g.Log.Warn("agent refused a token, and there is no other", "agent", t.Agent.Name, "err", tokenErr)
	}
	if !ok {
		return reply, nil
	}
	return client.Do(ctx, endpoint(t, again), q, present(header, again))
}

// errNoToken says that nothing was sent for want of an access token.
var errNoToken = errors.New("no access token")

// shown is the target's credential as it stands in a request now.
func (g *Gateway) shown(ctx context.Context, t *registry.Target) (registry.Presented, error) {
	if t.Credential == nil || g.Tokens == nil {
		return t.Presented, nil
	}
	p, err := g.Tokens.Present(ctx, t.Credential)
	if err != nil {
		return p, fmt.Errorf("%w: %w", errNoToken, err)
	}
	return p, nil
}

func (g *Gateway) again(ctx context.Context, t *registry.Target, refused registry.Presented) (registry.Presented, bool, error) {
	if t.Credential == nil || g.Tokens == nil {
		return registry.Presented{}, false, nil
	}
	return g.Tokens.Again(ctx, t.Credential, refused)
}

// outgoing are the headers towards the agent: what may pass, and the trace.
func (g *Gateway) outgoing(c *Call) http.Header {
	h := make(http.Header, 6)
	for _, name := range passed {
		if v := c.from.Header.Values(name); len(v) > 0 {
			h[name] = v
		}
	}
	if !c.anonymous() {
		// It belongs to the trace, and a stranger's trace is not continued.
		if v := c.from.Header.Values("Tracestate"); len(v) > 0 {
			h["Tracestate"] = v
		}
	}
	// A mesh that keeps no traces itself must not end its caller's.
	span := c.span.SpanContext()
	span = span.WithTraceFlags(span.TraceFlags().WithSampled(span.IsSampled() || c.traced))
	traceContext.Inject(trace.ContextWithSpanContext(context.Background(), span), propagation.HeaderCarrier(h))
	return h
}

// present is h with the credential that the agent asks for, where it goes into
// a header: it replaces what was shown before.
func present(h http.Header, p registry.Presented) http.Header {
	if p.Header != "" {
		h.Set(p.Header, p.Value)
	}
	return h
}

// endpoint is where the target's interface is reached, with the credential
// where it goes into the query.
func endpoint(t *registry.Target, p registry.Presented) a2a.Endpoint {
	ep := a2a.Endpoint{URL: t.Interface.URL, Binding: a2a.Binding(t.Binding), Version: a2a.Version(t.Version), Tenant: t.Interface.Tenant}
	if p.Query != "" && ep.Binding != a2a.GRPC { // which has no place for it
		separator := "?"
		if strings.Contains(ep.URL, "?") {
			separator = "&"
		}
		ep.URL += separator + url.Values{p.Query: {p.Value}}.Encode()
	}
	return ep
}

// unanswered notes why the agent gave no answer and says it to the caller
// without naming the agent's address or the cause.
func (g *Gateway) unanswered(ctx context.Context, c *Call, err error) *a2a.Reply {
	shape := shapeOf(ctx, err)
	message, ok := unansweredMessages[shape]
	if !ok {
		message = unansweredMessages[parley.ShapeNonsense]
	}
	if shape == parley.ShapeDial && c.placing.pinned && c.placing.home != nil {
		message = "the instance of the agent that has this task or context cannot be reached"
	}
	reason := a2a.ReasonUnavailable
	switch shape {
	case parley.ShapeDeadline:
		reason = a2a.ReasonTimeout
	case parley.ShapeFrozen:
		reason = a2a.ReasonForbidden
	case parley.ShapeNonsense, parley.ShapeTooLarge, parley.ShapeForeignID:
		reason = a2a.ReasonInvalidAgentResponse
	}
	// A task outlives the mesh's own stop, and its caller's freeze: it goes on
	// being watched.
	if shape != parley.ShapeStopped && shape != parley.ShapeFrozen || !c.sees.owned {
		detail := message
		if what := flaw(err); what != "" && shape == parley.ShapeNonsense {
			detail += ": " + what
		}
		c.ends(parley.Judge(shape).Outcome, string(shape), detail)
	}
	g.Log.Warn("agent gave no usable answer", "agent", c.record.Agent, "call", c.record.ID, "kind", shape, "err", err)
	e := a2a.NewError(reason, "%s", message)
	if shape == parley.ShapeFrozen {
		e.Reason = ReasonFrozen
	}
	return &a2a.Reply{Err: e}
}

// unansweredMessages say to a caller what happened, by failure shape.
var unansweredMessages = map[parley.Shape]string{
	parley.ShapeDial:       "the agent cannot be reached",
	parley.ShapeCut:        "the connection to the agent broke before its answer was whole; the agent may have done the work",
	parley.ShapeDeadline:   "the agent did not answer in time; it may still be working",
	parley.ShapeCallerGone: "the caller left before the agent answered",
	parley.ShapeCanceled:   "an operator canceled the call",
	parley.ShapeFrozen:     "the caller was frozen; the agent may still be working",
	parley.ShapeStopped:    "the mesh is stopping; the agent may still be working",
	parley.ShapeTooLarge:   "the agent's answer is larger than this mesh passes on",
	parley.ShapeForeignID:  "the agent answered with a task or context that is not this caller's",
	parley.ShapeNonsense:   "the agent's answer is not A2A 1.0",
	parley.ShapeToken:      "the mesh cannot get the token that the agent asks for; nothing was sent to it",
}

// shapeOf is the failure shape of an exchange that gave no answer.
func shapeOf(ctx context.Context, err error) parley.Shape {
	if shape, ended := gone(ctx); ended {
		return shape
	}
	failure, ok := errors.AsType[*a2a.TransportError](err)
	switch {
	case errors.Is(err, errNoToken):
		return parley.ShapeToken
	case errors.Is(err, errForeign):
		return parley.ShapeForeignID
	case errors.Is(err, a2a.ErrTooLarge):
		return parley.ShapeTooLarge
	case ok && failure.Stage == a2a.StageDial: // also one that took too long
		return parley.ShapeDial
	case errors.Is(err, context.DeadlineExceeded):
		return parley.ShapeDeadline
	case !ok, errors.Is(err, a2a.ErrNotA2A), errors.Is(err, a2a.ErrWrongID):
		return parley.ShapeNonsense
	}
	return parley.ShapeCut
}
