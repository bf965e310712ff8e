package oidc

import (
	"encoding/json"
	"net/http"
	"strings"

	"github.com/parley-mesh/parley/internal/parley"
)

// MetadataPath is where the mesh describes itself as a protected resource (RFC
// 9728). Behind it may stand the path of an agent.
const MetadataPath = "/.well-known/oauth-protected-resource"

// Metadata serves that description, which needs no credential: what is in it,
// whoever wants a token has to know.
type Metadata struct {
	// PublicURL is the address of the mesh, without a trailing slash.
	PublicURL string
	// AgentsPath is where the agents are, as "/agents/".
	AgentsPath string
	Issuers    []string
	Scopes     []string // that tokens must have
	Logins     []Login
}

// Login is what an interactive client has to know about one issuer. It is this
// project's own member of the document.
type Login struct {
	Issuer      string   `json:"issuer"`
	MetadataURL string   `json:"metadata_url,omitempty"`
	ClientID    string   `json:"client_id"`
	Scopes      []string `json:"scopes,omitempty"`
	Resource    string   `json:"resource,omitempty"`
}

// Resource is the document.
type Resource struct {
	Resource             string   `json:"resource"`
	ResourceName         string   `json:"resource_name,omitempty"`
	AuthorizationServers []string `json:"authorization_servers"`
	BearerMethods        []string `json:"bearer_methods_supported"`
	Scopes               []string `json:"scopes_supported,omitempty"`
	Logins               []Login  `json:"parley_logins,omitempty"`
}

// URL is the address of the description of an agent, or of the mesh where agent
// is empty; empty where no issuer is configured.
func (m *Metadata) URL(agent parley.AgentName) string {
	switch {
	case len(m.Issuers) == 0:
		return ""
	case agent == "":
		return m.PublicURL + MetadataPath
	}
	return m.PublicURL + MetadataPath + m.AgentsPath + string(agent)
}

// ServeHTTP implements http.Handler for MetadataPath and what is below it.
func (m *Metadata) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	resource, ok := m.resource(strings.TrimPrefix(r.URL.Path, MetadataPath))
	if !ok || len(m.Issuers) == 0 {
		http.NotFound(w, r)
		return
	}
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		w.Header().Set("Allow", "GET, HEAD")
		http.Error(w, "use GET", http.StatusMethodNotAllowed)
		return
	}
	body, err := json.Marshal(Resource{
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

// resource is what a path behind MetadataPath describes. Agents need not exist:
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
