package gateway

import (
	"context"
	"errors"
	"net/http"
	"strings"

	"github.com/parley-mesh/parley/internal/a2a"
	"github.com/parley-mesh/parley/internal/parley"
)

// Prefix is where agents are served: Prefix + name + "/".
const Prefix = "/agents/"

// ServeHTTP serves everything under Prefix: the agents' cards and their
// operations in both bindings of HTTP. Addresses work with and without a trailing
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
	c := g.arriveHTTP(w, r, parley.AgentName(name), path)
	reply := g.handle(r.Context(), c)
	if _, err := a2a.Respond(r.Context(), w, c.req, reply, g.Server); err != nil && !errors.Is(err, r.Context().Err()) {
		g.Log.Debug("answer not delivered whole", "call", c.record.ID, "agent", c.record.Agent, "err", err)
	}
}

// arriveHTTP makes the Call of a request to the agent of that name. path is what
// follows the agent's address, still percent-encoded.
func (g *Gateway) arriveHTTP(w http.ResponseWriter, r *http.Request, name parley.AgentName, path string) *Call {
	req, early := a2a.Open(r, path, g.Server)
	from := arrivalOf(r)
	from.receive = func(context.Context) (int64, *a2a.Error) {
		if limit := g.Server.Limits.Bytes(); r.ContentLength > limit { // not a byte of it is waited for
			return 0, a2a.NewError(a2a.ReasonTooLarge, "the request has more than %d bytes; refer to files by URL", limit)
		}
		body := &countingReader{r: r.Body}
		err := req.ReadBody(body)
		return body.n, err
	}
	c := g.arrive(from, req, early)
	c.to(name)
	w.Header().Set(HeaderCallID, c.record.ID.String())
	return c
}

// arrivalOf is what the headers and the connection of a request tell.
func arrivalOf(r *http.Request) Arrival {
	return Arrival{Header: r.Header, RemoteAddr: r.RemoteAddr, LocalSocket: throughSocket(r), TLS: r.TLS}
}
