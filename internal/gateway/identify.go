package gateway

import (
	"context"
	"fmt"
	"net/http"

	"github.com/parley-mesh/parley/internal/identity"
	"github.com/parley-mesh/parley/internal/parley"
)

// localKey marks the context of connections through the mesh's own socket.
type localKey struct{}

// WithLocal marks a connection's context as one through the mesh's own socket:
// whoever can open that file is the local admin.
func WithLocal(ctx context.Context) context.Context {
	return context.WithValue(ctx, localKey{}, true)
}

func isLocal(ctx context.Context) bool {
	local, ok := ctx.Value(localKey{}).(bool)
	return ok && local
}

// CredentialOf is what a request presents.
func CredentialOf(r *http.Request) identity.Credential {
	return identity.Credential{
		Authorization: r.Header.Get("Authorization"),
		XAPIKey:       r.Header.Get("X-Api-Key"),
		RemoteAddr:    r.RemoteAddr,
		LocalSocket:   isLocal(r.Context()),
	}
}

// identify says who calls. It fails closed: without a valid credential only an
// agent that the configuration opens by name can be reached.
func (g *Gateway) identify(ctx context.Context, c *Call) error {
	credential := CredentialOf(c.http)
	switch {
	case credential.Empty() && !credential.LocalSocket && g.anonymous[c.record.Agent]:
		c.caller = identity.AnonymousCaller(g.Environment)
	default:
		caller, err := g.Identity.Identify(ctx, credential)
		if err != nil {
			return err
		}
		c.caller = caller
	}
	c.record.Caller = c.caller.Name
	c.record.CallerOwner = c.caller.Owner
	c.record.CallerAgent = c.caller.Agent
	c.record.Environment = c.caller.Environment
	g.lap(c, "identify")
	return nil
}

// resolve finds the agent and checks that this caller may call it.
func (g *Gateway) resolve(ctx context.Context, c *Call) error {
	name := c.record.Agent
	target, err := g.Agents.Lookup(ctx, name)
	if err != nil {
		return err
	}
	c.target = target
	c.record.AgentOwner = target.Agent.Owner
	if !c.anonymous() && !c.caller.Has(parley.RoleAdmin) && !target.Agent.MayCall(c.caller.Owner, c.caller.Environment) {
		return parley.E("gateway.resolve", parley.Denied, parley.Subject(name), fmt.Sprintf(
			"%s (owner %s, environment %s) may not call agent %s (owner %s, environment %s); to allow it: parley agent allow %s --owner %s",
			c.caller.Name, c.caller.Owner, c.caller.Environment, name, target.Agent.Owner, target.Agent.Environment, name, c.caller.Owner), nil)
	}
	return target.Ready()
}

// anonymous reports whether the caller showed no credential and needs none.
func (c *Call) anonymous() bool { return c.caller.Name == parley.Anonymous }
