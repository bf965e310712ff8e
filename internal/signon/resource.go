package signon

import (
	"net/url"
	"strings"
)

// MetadataPath is where a mesh describes itself as a protected resource (RFC
// 9728). Behind it may stand the path of an agent.
const MetadataPath = "/.well-known/oauth-protected-resource"

// Resource is that description.
type Resource struct {
	Resource             string   `json:"resource"`
	ResourceName         string   `json:"resource_name,omitempty"`
	AuthorizationServers []string `json:"authorization_servers"`
	BearerMethods        []string `json:"bearer_methods_supported"`
	Scopes               []string `json:"scopes_supported,omitempty"`
	Logins               []Offer  `json:"parley_logins,omitempty"` // this project's own member
}

// Offer is what an interactive client has to know about one issuer.
type Offer struct {
	Issuer      string   `json:"issuer"`
	MetadataURL string   `json:"metadata_url,omitempty"`
	ClientID    string   `json:"client_id"`
	Scopes      []string `json:"scopes,omitempty"`
	Resource    string   `json:"resource,omitempty"`
}

// MetadataURLs are the places of an issuer's metadata, in the order they are
// looked at: the one given; else that of OpenID Connect Discovery and that of
// RFC 8414.
func MetadataURLs(issuer, given string) []string {
	if given != "" {
		return []string{given}
	}
	places := []string{strings.TrimSuffix(issuer, "/") + "/.well-known/openid-configuration"}
	if u, err := url.Parse(issuer); err == nil {
		path := strings.TrimSuffix(u.EscapedPath(), "/")
		places = append(places, u.Scheme+"://"+u.Host+"/.well-known/oauth-authorization-server"+path)
	}
	return places
}
