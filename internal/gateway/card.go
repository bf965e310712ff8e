package gateway

import (
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/parley-mesh/parley/internal/a2a"
	"github.com/parley-mesh/parley/internal/jsonwire"
	"github.com/parley-mesh/parley/internal/parley"
	"github.com/parley-mesh/parley/internal/registry"
)

// Cache-Control of cards: short, since an agent's suspension or new version
// must show soon; whoever revalidates gets a 304.
const (
	cardCache        = "public, max-age=60"
	cardCachePrivate = "private, max-age=60"
)

// cards keeps the rewritten card of each agent's newest version.
type cards struct {
	mu sync.Mutex
	by map[parley.AgentName]rewritten // guarded by mu
}

type rewritten struct {
	version int64     // of the agent
	created time.Time // of the agent: one of the same name may have come after another
	raw     []byte
	streams bool // the agent declares that it streams

	signedBy string // id of the key; empty: not signed yet
	signed   []byte
}

// serveCard serves an agent's card with the mesh's address and the mesh's own
// security schemes in the place of the agent's.
func (g *Gateway) serveCard(w http.ResponseWriter, r *http.Request, name parley.AgentName) {
	raw, err := g.cardFor(r, name)
	if err != nil {
		g.refuseCard(w, r, name, err)
		return
	}
	cache := cardCache
	if g.CardsNeedCredential {
		cache = cardCachePrivate
	}
	if err := a2a.ServeDocument(w, r, raw, cache); err != nil {
		g.Log.Debug("card not delivered", "agent", name, "err", err)
	}
}

// cardFor gives the card as this caller may see it.
func (g *Gateway) cardFor(r *http.Request, name parley.AgentName) ([]byte, error) {
	ctx := r.Context()
	from := arrivalOf(r)
	if from.credential().Empty() || !g.CardsNeedCredential || g.anonymous[name] { // one that nobody looks at is none
		if err := g.throttleAddress(ctx, &from); err != nil {
			return nil, err
		}
	}
	if g.CardsNeedCredential && !g.anonymous[name] {
		if _, err := g.Identity.Identify(ctx, from.credential()); err != nil {
			return nil, err
		}
	}
	target, err := g.Agents.Lookup(ctx, name)
	if err != nil {
		return nil, err
	}
	if target.Agent.Status == registry.Suspended {
		return nil, target.Ready()
	}
	return g.signed(ctx, target.Agent)
}

// streamsFrom reports whether the agent's card declares streaming. A card that
// cannot be read says nothing against it.
func (g *Gateway) streamsFrom(agent *registry.Agent) bool {
	card, err := g.rewrite(agent)
	return err != nil || card.streams
}

// rewrite gives the agent's card as the mesh shows it: all bindings at the
// mesh's addresses, whatever the agent itself speaks.
func (g *Gateway) rewrite(agent *registry.Agent) (rewritten, error) {
	g.cards.mu.Lock()
	defer g.cards.mu.Unlock()
	if kept, ok := g.cards.by[agent.Name]; ok && kept.version == agent.Version && kept.created.Equal(agent.CreatedAt) {
		return kept, nil
	}
	address := g.PublicURL + Prefix + string(agent.Name) + "/"
	no := false
	to := a2a.CardRewrite{
		Interfaces: []a2a.AgentInterface{
			{URL: address, ProtocolBinding: a2a.JSONRPC, ProtocolVersion: a2a.V10},
			{URL: address, ProtocolBinding: a2a.HTTPJSON, ProtocolVersion: a2a.V10},
		},
		ExtendedAgentCard: &no,
	}
	if g.CardKey != nil {
		provenance, err := g.provenance(agent)
		if err != nil {
			return rewritten{}, err
		}
		to.Extensions = []a2a.AgentExtension{provenance}
	}
	if g.PublicGRPC != "" {
		to.Interfaces = append(to.Interfaces, a2a.AgentInterface{URL: g.PublicGRPC, ProtocolBinding: a2a.GRPC, ProtocolVersion: a2a.V10, Tenant: TenantPrefix + string(agent.Name)})
	}
	if !g.anonymous[agent.Name] {
		to.SecuritySchemes = g.schemes
	}
	raw, err := a2a.RewriteCard(agent.Card, to)
	if err != nil {
		return rewritten{}, err
	}
	if len(g.cards.by) >= maxCards {
		clear(g.cards.by)
	}
	shown := rewritten{version: agent.Version, created: agent.CreatedAt, raw: raw}
	if flag, ok := jsonwire.Get(raw, "/capabilities/streaming"); ok {
		shown.streams = string(flag) == "true"
	}
	g.cards.by[agent.Name] = shown
	return shown, nil
}

// maxCards bounds the rewritten cards kept in memory; they are made again when
// asked for.
const maxCards = 10_000

// schemesOf are the mesh's own ways to authenticate. No securityRequirements
// stand beside them: the official Go SDK (2.4.0) fails to read a whole card that
// has them in A2A's form, and callers of any SDK must be able to read it.
func schemesOf(openIDs []string, clientCerts bool) map[string]a2a.SecurityScheme {
	schemes := map[string]a2a.SecurityScheme{
		"bearer": {HTTPAuth: &a2a.HTTPAuthScheme{Scheme: "Bearer", Description: "An API key of the mesh: Authorization: Bearer pk_…"}},
		"apiKey": {APIKey: &a2a.APIKeyScheme{Location: "header", Name: "X-API-Key", Description: "An API key of the mesh."}},
	}
	if clientCerts {
		schemes["mtls"] = a2a.SecurityScheme{MutualTLS: &a2a.MutualTLSScheme{Description: "A client certificate whose SPIFFE id or DNS name is linked to a principal of the mesh."}}
	}
	for n, address := range openIDs {
		name := "openId"
		if n > 0 {
			name += strconv.Itoa(n + 1)
		}
		schemes[name] = a2a.SecurityScheme{OpenIDConnect: &a2a.OpenIDConnectScheme{
			URL: address, Description: "An access token for this mesh: Authorization: Bearer …",
		}}
	}
	return schemes
}

// refuseCard says why there is no card, as an HTTP+JSON error.
func (g *Gateway) refuseCard(w http.ResponseWriter, r *http.Request, name parley.AgentName, err error) {
	c := &Call{from: arrivalOf(r)}
	c.record.Agent = name
	reply := g.refuse(c, err)
	q := &a2a.Request{Binding: a2a.HTTPJSON}
	if _, err := a2a.Respond(r.Context(), w, q, reply, g.Server); err != nil {
		g.Log.Debug("answer not delivered whole", "agent", name, "err", err)
	}
}
