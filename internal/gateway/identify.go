package gateway

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"strings"

	"github.com/parley-mesh/parley/internal/a2a"
	"github.com/parley-mesh/parley/internal/identity"
	"github.com/parley-mesh/parley/internal/parley"
)

// throughSocket reports whether a connection was accepted on the mesh's own
// Unix socket. The listener's address says so, not anything the caller sends.
func throughSocket(r *http.Request) bool {
	addr, ok := r.Context().Value(http.LocalAddrContextKey).(net.Addr)
	return ok && addr.Network() == "unix"
}

// credential is what a request presents.
func (a *Arrival) credential() identity.Credential {
	return identity.Credential{
		// Several lines are no credential: others may read another one of them.
		Authorization: strings.Join(a.Header["Authorization"], ", "),
		XAPIKey:       strings.Join(a.Header["X-Api-Key"], ", "),
		RemoteAddr:    a.RemoteAddr,
		LocalSocket:   a.LocalSocket,
		Certificates:  identity.PeerCertificates(a.TLS),
	}
}

// identify says who calls. It fails closed: without a valid credential only an
// agent that the configuration opens by name can be reached.
func (g *Gateway) identify(ctx context.Context, c *Call) error {
	credential := c.from.credential()
	shown := !credential.Empty() || credential.LocalSocket
	if credential.Empty() {
		if err := g.throttleAddress(ctx, &c.from); err != nil {
			return err
		}
	}
	if !shown && len(g.anonymous) > 0 {
		// Only now does it matter whom the call is for; the message of a caller
		// with a wrong credential is not even received.
		if err := c.locate(ctx); err != nil {
			return err
		}
	}
	caller := identity.AnonymousCaller(g.Environment)
	if shown || !g.anonymous[c.record.Agent] {
		var err error
		if caller, err = g.Identity.Identify(ctx, credential); err != nil {
			if frozen := identity.FrozenCaller(err); frozen != nil {
				c.comesFrom(frozen) // it is known, so the refusal is recorded, as often as it may ask
				if limited := g.throttle(ctx, c); limited != nil {
					return limited
				}
			}
			return err
		}
	}
	c.comesFrom(caller)
	g.lap(c, "identify")
	return nil
}

// comesFrom notes who calls.
func (c *Call) comesFrom(caller *identity.Caller) {
	c.caller = caller
	c.record.Caller = caller.Name
	c.record.CallerOwner = caller.Owner
	c.record.CallerAgent = caller.Agent
	c.record.Environment = caller.Environment
}

// resolve finds the agent and checks that this caller may call it.
func (g *Gateway) resolve(ctx context.Context, c *Call) error {
	name := c.record.Agent
	if c.badName != nil {
		return parley.E("gateway.resolve", parley.NotFound, "", c.badName.Error(), nil)
	}
	// Where the address names the agent, a tenant that names anything else
	// contradicts it: whoever sent it meant another one.
	if tenant := c.req.Tenant; tenant != "" && tenant != TenantPrefix+string(name) {
		return a2a.InvalidParams(a2a.FieldViolation{Field: "tenant", Description: "must be " + TenantPrefix + string(name) + " here, or left out; take it from the agent's card"})
	}
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
	if len(target.Instances) == 0 {
		return target.Ready()
	}
	c.placing.home = target
	return target.Callable()
}

// anonymous reports whether the caller showed no credential and needs none.
func (c *Call) anonymous() bool { return c.caller.Name == parley.Anonymous }
