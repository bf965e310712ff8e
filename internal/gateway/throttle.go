package gateway

import (
	"context"
	"encoding/json"
	"fmt"
	"net/netip"

	"github.com/parley-mesh/parley/internal/limit"
	"github.com/parley-mesh/parley/internal/parley"
)

// Events keeps events that belong to no change of state.
type Events interface {
	AppendEvents(ctx context.Context, events ...parley.Event) error
}

// Bounds of the tables of allowances: principals are made by operators,
// addresses by anybody.
const (
	maxPrincipals = 100_000
	maxAddresses  = 8_192
)

// rates are the allowances of those who call.
type rates struct {
	principals *limit.Buckets[parley.PrincipalName]
	addresses  *limit.Buckets[netip.Addr]
}

func newRates(l Limits) rates {
	return rates{
		principals: limit.NewBuckets[parley.PrincipalName](l.PerPrincipal, maxPrincipals),
		addresses:  limit.NewBuckets[netip.Addr](l.PerAddress, maxAddresses),
	}
}

// By what a request was limited, in metrics.
const (
	byPrincipal = "principal"
	byAddress   = "address"
)

// throttle refuses a principal that asks too often. Such requests are counted
// and told of once a minute, not recorded one by one: a flood must not turn
// into one of records.
func (g *Gateway) throttle(ctx context.Context, c *Call) error {
	if c.anonymous() {
		return nil // its address was asked
	}
	exceeded, tell := g.rates.principals.Take(c.caller.Name, c.arrived)
	if exceeded == nil {
		return nil
	}
	c.limited = true
	g.Calls.Limited(ctx, byPrincipal)
	if tell {
		g.Log.Warn("a caller asks too often", "caller", c.caller.Name, "limit", g.Limits.PerPrincipal.PerSecond)
		g.tellLimited(ctx, c)
	}
	return parley.E("gateway.throttle", parley.Exhausted, parley.Subject(c.caller.Name), fmt.Sprintf(
		"%s asks more than %d times a second; ask less often, or ask the mesh's operator for more (limits.rate_per_principal)",
		c.caller.Name, g.Limits.PerPrincipal.PerSecond), exceeded)
}

// throttleAddress refuses a host that sends too many requests without a
// credential. The mesh's own socket has no address.
func (g *Gateway) throttleAddress(ctx context.Context, from *Arrival) error {
	if from.LocalSocket {
		return nil
	}
	host := limit.HostOf(from.RemoteAddr)
	exceeded, tell := g.rates.addresses.Take(host, g.Now())
	if exceeded == nil {
		return nil
	}
	g.Calls.Limited(ctx, byAddress)
	if tell {
		g.Log.Warn("an address without a credential asks too often", "address", host, "limit", g.Limits.PerAddress.PerSecond)
	}
	return parley.E("gateway.throttle", parley.Exhausted, "", fmt.Sprintf(
		"more than %d requests a second come from this address without a credential; ask less often, or send one (limits.rate_per_address)",
		g.Limits.PerAddress.PerSecond), exceeded)
}

// tellLimited leaves an event of a principal that asks too often.
func (g *Gateway) tellLimited(ctx context.Context, c *Call) {
	body, err := json.Marshal(limitedEvent{PerSecond: g.Limits.PerPrincipal.PerSecond, Burst: g.Limits.PerPrincipal.Burst})
	if err == nil {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), storeTimeout)
		defer cancel()
		err = g.Events.AppendEvents(ctx, parley.Event{
			Subject: "principals/" + string(c.caller.Name), Type: "principal.limited", Time: c.arrived,
			Owner: c.caller.Owner, Environment: c.caller.Environment, Data: body,
		})
	}
	if err != nil {
		g.Log.Warn("event not kept", "caller", c.caller.Name, "err", err)
	}
}

// limitedEvent is the data of principal.limited: the allowance that was used up.
type limitedEvent struct {
	PerSecond int `json:"perSecond"`
	Burst     int `json:"burst"`
}
