package gateway

import (
	"errors"
	"net/http"
	"strings"

	"github.com/parley-mesh/parley/internal/a2a"
	"github.com/parley-mesh/parley/internal/parley"
)

// Prefix is where agents are served: Prefix + name + "/".
const Prefix = "/agents/"

// ServeHTTP serves everything under Prefix: the agents' cards and their
// operations in both bindings. Addresses work with and without a trailing
// slash, and nothing is redirected.
func (g *Gateway) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	rest, ok := strings.CutPrefix(r.URL.EscapedPath(), Prefix)
	if !ok {
		http.NotFound(w, r)
		return
	}
	name, path := rest, ""
	if i := strings.IndexByte(rest, '/'); i >= 0 {
		name, path = rest[:i], rest[i:]
	}
	if path == "/.well-known/agent-card.json" || path == "/.well-known/agent.json" {
		g.serveCard(w, r, parley.AgentName(name))
		return
	}
	c := g.arrive(w, r, parley.AgentName(name), path)
	reply := g.handle(r.Context(), c)
	if _, err := a2a.Respond(r.Context(), w, c.req, reply, g.Server); err != nil && !errors.Is(err, r.Context().Err()) {
		g.Log.Debug("answer not delivered whole", "call", c.record.ID, "agent", c.record.Agent, "err", err)
	}
}
