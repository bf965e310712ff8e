package gateway

import (
	"slices"
	"strings"

	"github.com/parley-mesh/parley/internal/a2a"
)

// negotiate settles which extensions the call is made with: those that the
// caller asks for and the agent declares. An agent that requires one is not
// bothered with a request that does not ask for it, whatever the operation and
// whoever would answer it; its own SDK may not check (A2A 1.0, section 3.3.4).
// URIs are compared as a whole: another version is another extension.
func (g *Gateway) negotiate(c *Call) error {
	c.declared, c.declares = g.declaredBy(c.target.Agent)
	if !c.declares {
		return nil // the agent has to judge by itself
	}
	for _, uri := range c.declared.required {
		if !slices.Contains(c.req.Extensions, uri) {
			return a2a.NewError(a2a.ReasonExtensionRequired, "the agent requires the extension %s; ask for it in %s", uri, a2a.HeaderExtensions).With("uri", uri)
		}
	}
	c.req.Extensions = slices.DeleteFunc(slices.Clone(c.req.Extensions), func(uri string) bool {
		return !slices.Contains(c.declared.extensions, uri)
	})
	return nil
}

// echo leaves in the answer only extensions that the call is made with: an
// activation that was not asked for is none.
func (c *Call) echo(reply *a2a.Reply) {
	active := reply.Header.Values(a2a.HeaderExtensions)
	if len(active) == 0 || !c.declares {
		return
	}
	kept := slices.DeleteFunc(a2a.ExtensionsOf(active), func(uri string) bool { return !slices.Contains(c.req.Extensions, uri) })
	if len(kept) == 0 {
		reply.Header.Del(a2a.HeaderExtensions)
		return
	}
	reply.Header.Set(a2a.HeaderExtensions, strings.Join(kept, ", "))
}
