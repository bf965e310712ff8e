package oidc

import (
	"encoding/json"
	"net/http"
	"strings"

	"github.com/parley-mesh/parley/internal/parley"
	"github.com/parley-mesh/parley/internal/signon"
)

// Metadata serves the mesh's description of itself as a protected resource (RFC
// 9728), which needs no credential: what is in it, whoever wants a token has to
// know.
type Metadata struct {
	// PublicURL is the address of the mesh, without a trailing slash.
	PublicURL string
	// AgentsPath is where the agents are, as "/agents/".
	AgentsPath string
	Issuers    []string
	Scopes     []string // that tokens must have
	Logins     []signon.Offer
}

// URL is the address of the description of an agent, or of the mesh where agent
// is empty; empty where no issuer is configured.
func (m *Metadata) URL(agent parley.AgentName) string {
	switch {
	case len(m.Issuers) == 0:
		return ""
	case agent == "":
		return m.PublicURL + signon.MetadataPath
	}
	return m.PublicURL + signon.MetadataPath + m.AgentsPath + string(agent)
}

// ServeHTTP implements http.Handler for signon.MetadataPath and what is below it.
func (m *Metadata) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	resource, ok := m.resource(strings.TrimPrefix(r.URL.Path, signon.MetadataPath))
	if !ok || len(m.Issuers) == 0 {
		http.NotFound(w, r)
		return
	}
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		w.Header().Set("Allow", "GET, HEAD")
		http.Error(w, "use GET", http.StatusMethodNotAllowed)
		return
	}
	body, err := json.Marshal(signon.Resource{
		Resource: resource, ResourceName: "Parley mesh", AuthorizationServers: m.Issuers,
		BearerMethods: []string{"header"}, Scopes: m.Scopes, Logins: m.Logins,
	})
	if err != nil { // texts always encode
		panic(err)
	}
	h := w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("Cache-Control", "public, max-age=300")
	h.Set("X-Content-Type-Options", "nosniff")
	_, _ = w.Write(body) // the reader has left: nobody to tell
}

// resource is what a path behind signon.MetadataPath describes. Agents need not exist:
// else the answers would tell strangers which do.
func (m *Metadata) resource(rest string) (string, bool) {
	if rest == "" || rest == "/" {
		return m.PublicURL + "/", true
	}
	name, below := strings.CutPrefix(rest, m.AgentsPath)
	name = strings.TrimSuffix(name, "/")
	if !below || parley.CheckName("agent", name) != nil {
		return "", false
	}
	return m.PublicURL + m.AgentsPath + name + "/", true
}
