package gateway

import (
	"maps"
	"net/http"
	"slices"
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
	version  int64     // of the agent
	created  time.Time // of the agent: one of the same name may have come after another
	raw      []byte
	declared declared
}

// declared is what an agent's card promises and demands, as far as the mesh has
// to know it.
type declared struct {
	streams    bool
	extended   bool     // there is an extended card
	extensions []string // URIs of all extensions
	required   []string // URIs of those that every request has to ask for
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
	card, err := g.rewrite(target.Agent)
	return card.raw, err
}

// declaredBy is what the agent's card says: the extended one where the mesh has
// seen it, which takes the public one's place (A2A 1.0, section 13.3). known is
// false where the card cannot be read, which says nothing against what the agent
// can do.
func (g *Gateway) declaredBy(agent *registry.Agent) (d declared, known bool) {
	if card, ok := g.extended.find(agent); ok {
		return card.declared, true
	}
	card, err := g.rewrite(agent)
	return card.declared, err == nil
}

// rewrite gives the agent's card as the mesh shows it: all bindings at the
// mesh's addresses, whatever the agent itself speaks.
func (g *Gateway) rewrite(agent *registry.Agent) (rewritten, error) {
	g.cards.mu.Lock()
	defer g.cards.mu.Unlock()
	if kept, ok := g.cards.by[agent.Name]; ok && kept.of(agent) {
		return kept, nil
	}
	raw, err := g.served(agent, agent.Card)
	if err != nil {
		return rewritten{}, err
	}
	if len(g.cards.by) >= maxCards {
		clear(g.cards.by)
	}
	shown := rewritten{version: agent.Version, created: agent.CreatedAt, raw: raw, declared: declaredIn(raw)}
	g.cards.by[agent.Name] = shown
	return shown, nil
}

// of reports whether the card was made of this version of this agent.
func (r *rewritten) of(agent *registry.Agent) bool {
	return r.version == agent.Version && r.created.Equal(agent.CreatedAt)
}

// served makes of a card of the agent's, the public or the extended one, what
// callers are shown. Every card that the mesh serves passes here last.
func (g *Gateway) served(agent *registry.Agent, card []byte) ([]byte, error) {
	address := g.PublicURL + Prefix + string(agent.Name) + "/"
	to := a2a.CardRewrite{
		Interfaces:        g.interfaces(agent.Name, address),
		PushNotifications: g.Push != nil, // the mesh sees to it, whatever the agent can do
	}
	if !g.anonymous[agent.Name] {
		to.SecuritySchemes, to.OldSecurity = g.schemes, anyOf(g.schemes)
	}
	return a2a.RewriteCard(card, to)
}

// declaredIn reads a card that was rewritten before, and so is one.
func declaredIn(card []byte) (d declared) {
	flag := func(path string) bool {
		value, ok := jsonwire.Get(card, path)
		return ok && string(value) == "true"
	}
	d.streams, d.extended = flag("/capabilities/streaming"), flag("/capabilities/extendedAgentCard")
	list, _ := jsonwire.Get(card, "/capabilities/extensions")
	for _, one := range jsonwire.Elements(list) {
		uri, _ := jsonwire.Get(one, "/uri")
		name := jsonwire.String(uri)
		if name == "" {
			continue
		}
		d.extensions = append(d.extensions, name)
		if must, ok := jsonwire.Get(one, "/required"); ok && string(must) == "true" {
			d.required = append(d.required, name)
		}
	}
	return d
}

// interfaces are the ways to an agent, in the order in which callers should take
// them: version 1.0 in every binding, then 0.3.
func (g *Gateway) interfaces(name parley.AgentName, address string) (all []a2a.AgentInterface) {
	for _, version := range []a2a.Version{a2a.V10, a2a.V03} {
		all = append(all,
			a2a.AgentInterface{URL: address, ProtocolBinding: a2a.JSONRPC, ProtocolVersion: version},
			a2a.AgentInterface{URL: address, ProtocolBinding: a2a.HTTPJSON, ProtocolVersion: version})
		if i, ok := g.grpcInterface(name, version); ok {
			all = append(all, i)
		}
	}
	return all
}

// maxCards bounds the rewritten cards kept in memory; they are made again when
// asked for.
const maxCards = 10_000

// anyOf are the requirements that any one of the schemes meets.
func anyOf(schemes map[string]a2a.SecurityScheme) (all []a2a.SecurityRequirement) {
	for _, name := range slices.Sorted(maps.Keys(schemes)) {
		all = append(all, a2a.SecurityRequirement{Schemes: map[string]a2a.StringList{name: {}}})
	}
	return all
}

// schemesOf are the mesh's own ways to authenticate. No securityRequirements
// stand beside them: the official Go SDK (2.4.0) fails to read a whole card that
// has them in A2A's form, and callers of any SDK must be able to read it. Readers of
// 0.3 are told of them.
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
