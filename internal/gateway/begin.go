package gateway

import (
	"context"
	"errors"
	"time"

	"github.com/parley-mesh/parley/internal/a2a"
	"github.com/parley-mesh/parley/internal/call"
	"github.com/parley-mesh/parley/internal/parley"
)

// admit refuses reads while the store does not keep up: they have no Begin that
// would, and a record that waits in memory must have a bound.
func (g *Gateway) admit(c *Call) error {
	if !c.req.Method.ReadOnly() {
		return nil
	}
	if err := g.Journal.CanRecord(); err != nil {
		return notRecorded(c, err)
	}
	c.read = true
	return nil
}

// notRecorded refuses a call of which there would be no record. What is wrong
// with the store is for operators.
func notRecorded(c *Call, err error) error {
	return parley.E("gateway.begin", parley.Unavailable, parley.Subject(c.record.ID.String()), "the call could not be recorded, so it was not made; try again later", err)
}

// begin makes the record of a call with effects durable before anything of it
// leaves. Reads write one row, at their end.
func (g *Gateway) begin(ctx context.Context, c *Call) error {
	c.record.AgentBinding = c.target.Binding
	c.record.Deadline = c.arrived.Add(g.limits().CallDeadline)
	if c.req.Method.ReadOnly() {
		return nil
	}
	// The caller's going away must not leave it unclear whether a row was
	// written, so that begin ignores it and has a deadline of its own.
	writeCtx, cancel := context.WithTimeout(context.WithoutCancel(ctx), storeTimeout)
	defer cancel()
	row := c.record
	if err := g.Journal.Begin(writeCtx, &row); err != nil {
		_, before := errors.AsType[*call.RepeatedError](err)
		c.free = c.record.Sent != nil && !before // where the row was written all the same
		c.record.Sent = nil
		switch parley.KindOf(err) {
		case parley.Internal, parley.Unavailable, parley.Timeout:
			return notRecorded(c, err)
		case parley.Denied: // somebody else took the context since own looked
			return noContext(c)
		}
		return err
	}
	c.record.Seq = row.Seq
	c.begun, c.sees.fresh = true, false // a context that the request names is the caller's by now
	g.lap(c, "begin")
	return nil
}

// noContext is the answer to a call in somebody else's context, which reads
// like one that does not exist. The call is no use of it.
func noContext(c *Call) error {
	c.sees.context, c.sees.changed = "", false
	return a2a.NewError(a2a.ReasonTaskNotFound, "there is no such context").With("contextId", c.record.ContextID)
}

// storeTimeout bounds one write of the gateway: far above any healthy commit,
// so that reaching it means that the store is stuck.
const storeTimeout = 10 * time.Second
