package gateway

import (
	"context"
	"crypto/tls"
	"errors"
	"net/http"
	"time"

	"go.opentelemetry.io/otel/trace"

	"github.com/parley-mesh/parley/internal/a2a"
	"github.com/parley-mesh/parley/internal/call"
	"github.com/parley-mesh/parley/internal/identity"
	"github.com/parley-mesh/parley/internal/parley"
	"github.com/parley-mesh/parley/internal/registry"
)

// HeaderCallID carries the mesh's id of a call to its caller.
const HeaderCallID = "Parley-Call-Id"

// Call is one request on its way through the gateway.
type Call struct {
	req     *a2a.Request
	instead *a2a.Request // goes to the agent in its place; nil for none
	early   *a2a.Error   // what the request line or a header has wrong, told once the caller is known
	badName error        // what is wrong with the agent's name in the address
	from    Arrival

	caller   *identity.Caller // nil until identified
	target   *registry.Target // nil until resolved
	declared declared         // by the agent's card
	declares bool             // the card could be read
	placing  placing
	record   call.Record
	begun    bool              // the record is in the store
	limited  bool              // refused because the caller asks too often
	read     bool              // without effects and let in: its record is written at its end
	incoming trace.SpanContext // the caller's, zero if there is none
	span     trace.Span
	traced   bool // the caller's own trace is sampled

	arrived time.Time
	lapsed  time.Time // end of the last step
	sees    seen
	after   int64                           // the last event of the task that the caller has seen
	resumes bool                            // the caller goes on behind it
	missed  bool                            // it says so, and there is no such event
	free    bool                            // nothing of its message was taken: it may be sent again
	news    bool                            // the agent asks for a credential, and no event tells of it yet
	turnOf  parley.CallID                   // the call that began the task this one names; zero for none
	wants   *a2a.TaskPushNotificationConfig // of the call's own task, until it is kept; nil for none
}

// seen is what the exchange showed of a task.
type seen struct {
	key      call.TaskKey // zero: no task was seen
	state    string
	statusAt time.Time
	owned    bool   // the store knows the task as this caller's
	snapshot []byte // the last whole Task, nil if something came after it
	context  string
	fresh    bool // nobody had the context before
	changed  bool // something was seen that the store does not hold
}

// handle takes one call from arrival to answer. Every way out passes through
// end: a refused, failed or abandoned call is as visible as a served one. A
// stream comes back open; each of its frames is accepted as it passes, and the
// record ends when the stream does.
func (g *Gateway) handle(ctx context.Context, c *Call) (reply *a2a.Reply) {
	defer func() { reply = g.end(ctx, c, reply) }()

	if err := g.identify(ctx, c); err != nil { // who is asking?
		return g.refuse(c, err)
	}
	if err := g.throttle(ctx, c); err != nil { // may they ask so often?
		return g.refuse(c, err)
	}
	if err := g.read(ctx, c); err != nil { // what, and is it well-formed?
		return g.refuse(c, err)
	}
	if c.req.Method.Streaming() { // what waits for events afterwards keeps the stack that it once needed
		a2a.Apart(func() { reply = g.govern(ctx, c) })
		return reply
	}
	return g.govern(ctx, c)
}

// govern is the rest of handle, once it is known what is asked.
func (g *Gateway) govern(ctx context.Context, c *Call) *a2a.Reply {
	if err := g.resolve(ctx, c); err != nil { // whom, and may they?
		return g.refuse(c, err)
	}
	if err := g.negotiate(c); err != nil { // by which extensions?
		return g.refuse(c, err)
	}
	if err := g.own(ctx, c); err != nil { // are the tasks and contexts it names the caller's?
		return g.refuse(c, err)
	}
	if err := g.place(c); err != nil { // at which of its addresses?
		return g.refuse(c, err)
	}
	if err := g.link(ctx, c); err != nil { // inside whose call?
		return g.refuse(c, err)
	}
	if err := g.admit(c); err != nil { // will the record of a read be kept?
		return g.refuse(c, err)
	}
	if own, ok := g.answer(ctx, c); ok { // is it the mesh's own to answer?
		return own
	}
	if err := g.begin(ctx, c); err != nil { // intent, durable in a batch; no record, no call
		if before, ok := errors.AsType[*call.RepeatedError](err); ok {
			return g.repeat(ctx, c, before) // what came of it then?
		}
		return g.refuse(c, err)
	}
	return g.accept(ctx, c, g.forward(ctx, c)) // the agent's answer, checked
}

// Arrival is what a binding's server knows of a request before its body is read:
// what HTTP and gRPC have in common.
type Arrival struct {
	Header      http.Header // metadata, in gRPC
	RemoteAddr  string
	LocalSocket bool                 // it came through the mesh's own socket
	TLS         *tls.ConnectionState // nil without TLS

	// receive takes the body in and completes the request; size is that of the
	// body, as far as it was read.
	receive func(ctx context.Context) (size int64, err *a2a.Error)
	// whom finds out who is called where that stands in the message; nil where
	// the address told.
	whom func(ctx context.Context) (parley.AgentName, *a2a.Error)
}

// arrive makes the Call of a request whose first lines were read.
func (g *Gateway) arrive(from Arrival, req *a2a.Request, early *a2a.Error) *Call {
	now := g.Now()
	c := &Call{req: req, early: early, from: from, arrived: now, lapsed: now}
	c.record.ID = parley.NewCallID()
	c.record.Begun = now
	c.record.CallerBinding = string(req.Binding)
	c.record.Steps = make([]call.Step, 0, 8)
	return c
}

// to notes which agent is called.
func (c *Call) to(name parley.AgentName) {
	c.record.Agent = name
	if c.badName = parley.CheckName("agent", string(name)); c.badName != nil {
		c.record.Agent = "" // such a name is nobody's, and does not go into records
	}
}

// locate finds out who is called, where the message has to tell.
func (c *Call) locate(ctx context.Context) *a2a.Error {
	if c.from.whom == nil {
		return nil
	}
	name, err := c.from.whom(ctx)
	c.from.whom = nil
	if err == nil {
		c.to(name)
	}
	return err
}

// asks is what the agent is asked.
func (c *Call) asks() *a2a.Request {
	if c.instead != nil {
		return c.instead
	}
	return c.req
}

// lap notes that a step is over.
func (g *Gateway) lap(c *Call, step string) {
	now := g.Now()
	c.record.Steps = append(c.record.Steps, call.Step{Name: step, Took: now.Sub(c.lapsed)})
	c.lapsed = now
}
