package gateway

import (
	"context"
	"strings"

	"github.com/parley-mesh/parley/internal/a2a"
	"github.com/parley-mesh/parley/internal/a2a/a2agrpc"
	"github.com/parley-mesh/parley/internal/parley"
)

// TenantPrefix stands before an agent's name in the tenant of a request, which in
// gRPC says whom it is for: all agents share one address.
const TenantPrefix = "agents."

// ServeGRPC takes a call from the gRPC listener; it is an a2agrpc.Handler.
func (g *Gateway) ServeGRPC(ctx context.Context, in *a2agrpc.Call) *a2a.Reply {
	from := Arrival{Header: in.Request.Header, RemoteAddr: in.RemoteAddr, TLS: in.TLS}
	from.receive = in.Read
	from.whom = func(ctx context.Context) (parley.AgentName, *a2a.Error) {
		tenant, err := in.Tenant(ctx)
		if err != nil {
			return "", err
		}
		return agentOf(tenant)
	}
	c := g.arrive(from, in.Request, in.Early)
	c.record.Method = string(in.Request.Method)
	in.SetHeader(HeaderCallID, c.record.ID.String())
	return g.handle(ctx, c)
}

// agentOf reads the name of an agent from the tenant of a request.
func agentOf(tenant string) (parley.AgentName, *a2a.Error) {
	name, ok := strings.CutPrefix(tenant, TenantPrefix)
	switch {
	case tenant == "":
		return "", a2a.InvalidParams(a2a.FieldViolation{Field: "tenant", Description: "is required: it says which agent is called, as " + TenantPrefix + "NAME; take it from the agent's card"})
	case !ok || name == "":
		return "", a2a.InvalidParams(a2a.FieldViolation{Field: "tenant", Description: "must be " + TenantPrefix + "NAME; take it from the agent's card"})
	}
	return parley.AgentName(name), nil
}
