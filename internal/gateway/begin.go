package gateway

import (
	"context"
	"time"

	"github.com/parley-mesh/parley/internal/parley"
)

// begin makes the record of a call with effects durable before anything of it
// leaves. Reads write one row, at their end.
func (g *Gateway) begin(ctx context.Context, c *Call) error {
	c.record.AgentBinding = c.target.Binding
	c.record.Deadline = c.arrived.Add(g.Limits.CallDeadline)
	if c.req.Method.ReadOnly() {
		return nil
	}
	// The caller's going away must not leave it unclear whether a row was
	// written, so that begin ignores it and has a deadline of its own.
	writeCtx, cancel := context.WithTimeout(context.WithoutCancel(ctx), storeTimeout)
	defer cancel()
	row := c.record
	if err := g.Journal.Begin(writeCtx, &row); err != nil {
		switch parley.KindOf(err) {
		case parley.Internal, parley.Unavailable, parley.Timeout: // what is wrong with the store is for operators
			return parley.E("gateway.begin", parley.Unavailable, parley.Subject(c.record.ID.String()), "the call could not be recorded, so it was not made; try again later", err)
		}
		return err
	}
	c.record.Seq = row.Seq
	c.begun = true
	g.lap(c, "begin")
	return nil
}

// storeTimeout bounds one write of the gateway: far above any healthy commit,
// so that reaching it means that the store is stuck.
const storeTimeout = 10 * time.Second
