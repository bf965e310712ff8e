package gateway

import (
	"context"
	"net"
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
		if in.Request.Old() {
			return g.oldAgentOf(in)
		}
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

// HeaderAgent is the metadata in which a gRPC call of version 0.3 may name the agent
// it is for.
const HeaderAgent = "Parley-Agent"

// grpcHosts are the host that stands behind the names of agents where each has an
// address of its own, which callers of version 0.3 need: their messages have no
// tenant. ok is false where all agents share one address.
func (g *Gateway) grpcHosts() (behind string, ok bool) { return strings.CutPrefix(g.PublicGRPC, "*.") }

// grpcInterface is the agent's interface in gRPC; of version 0.3 there is one only
// where the address names the agent.
func (g *Gateway) grpcInterface(name parley.AgentName, v a2a.Version) (i a2a.AgentInterface, ok bool) {
	i = a2a.AgentInterface{URL: g.PublicGRPC, ProtocolBinding: a2a.GRPC, ProtocolVersion: v}
	behind, own := g.grpcHosts()
	if own {
		i.URL = string(name) + "." + behind
	}
	if v == a2a.V10 {
		i.Tenant = TenantPrefix + string(name)
	}
	return i, g.PublicGRPC != "" && (own || v == a2a.V10)
}

// oldAgentOf reads the name of an agent from the metadata of a call of version 0.3,
// or from the address it was sent to.
func (g *Gateway) oldAgentOf(in *a2agrpc.Call) (parley.AgentName, *a2a.Error) {
	said := strings.Join(in.Request.Header.Values(HeaderAgent), ",")
	addressed := ""
	if behind, ok := g.grpcHosts(); ok {
		addressed, ok = strings.CutSuffix(hostname(in.Authority), "."+hostname(behind))
		if !ok || strings.Contains(addressed, ".") {
			addressed = ""
		}
	}
	switch {
	case said != "" && addressed != "" && said != addressed:
		return "", a2a.InvalidParams(a2a.FieldViolation{Field: strings.ToLower(HeaderAgent), Description: "names another agent than the address"})
	case said != "":
		return parley.AgentName(said), nil
	case addressed != "":
		return parley.AgentName(addressed), nil
	}
	return "", a2a.InvalidParams(a2a.FieldViolation{Field: strings.ToLower(HeaderAgent), Description: "is required in the metadata of a call of A2A 0.3, whose messages do not say which agent they are for"})
}

// hostname is an address without its port, in lower case.
func hostname(address string) string {
	if host, _, err := net.SplitHostPort(address); err == nil {
		address = host
	}
	return strings.ToLower(address)
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
