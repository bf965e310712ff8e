package app

import (
	"context"

	"github.com/parley-mesh/parley/internal/config"
	"github.com/parley-mesh/parley/internal/gateway"
	"github.com/parley-mesh/parley/internal/identity"
	"github.com/parley-mesh/parley/internal/netguard"
	"github.com/parley-mesh/parley/internal/oidc"
	"github.com/parley-mesh/parley/internal/signon"
)

// openSignOn makes what verifies tokens of the configured issuers. Nothing is
// fetched yet: an issuer that is away must not keep the mesh from starting.
func (a *App) openSignOn(context.Context) error {
	a.metadata = &oidc.Metadata{PublicURL: a.ready.Public, AgentsPath: gateway.Prefix}
	if len(a.cfg.Auth.Issuers) == 0 {
		return nil
	}
	o := oidc.Options{
		Fetch: a.guard().FetchClient(netguard.FetchOptions{}), Environment: a.cfg.Environment, Log: a.log, Now: a.opts.Now,
	}
	for _, one := range a.cfg.Auth.Issuers {
		o.Issuers = append(o.Issuers, issuerOf(one))
		describe(a.metadata, one)
	}
	a.issuers = oidc.New(o)
	return nil
}

// verifier is what identity asks about tokens; nil where none are taken.
func (a *App) verifier() identity.Tokens {
	if a.issuers == nil {
		return nil
	}
	return a.issuers
}

// watchIssuers keeps the issuers' keys fresh.
func (a *App) watchIssuers(ctx context.Context) error {
	if a.issuers == nil {
		return nil
	}
	return a.issuers.Run(ctx)
}

// openIDs are the addresses by which cards name the issuers.
func (a *App) openIDs() (all []string) {
	for _, one := range a.cfg.Auth.Issuers {
		all = append(all, signon.MetadataURLs(one.Issuer, one.MetadataURL)[0])
	}
	return all
}

func issuerOf(one config.Issuer) oidc.Issuer {
	return oidc.Issuer{
		ID: one.Issuer, MetadataURL: one.MetadataURL, Audience: one.Audience, Algorithms: one.Algorithms, Types: one.AcceptTyp,
		Scopes: one.RequiredScopes, ClockSkew: one.ClockSkew, Refresh: one.JWKSRefresh,
		Create: one.Principals == config.AdmitCreate, Owner: one.Owner, Environment: one.Environment, Roles: one.Roles,
		Claims: oidc.Claims(one.Claims),
	}
}

// describe adds an issuer to what the mesh tells of itself.
func describe(m *oidc.Metadata, one config.Issuer) {
	m.Issuers = append(m.Issuers, one.Issuer)
	m.Scopes = append(m.Scopes, one.RequiredScopes...)
	if login := one.Login; login.ClientID != "" {
		m.Logins = append(m.Logins, signon.Offer{
			Issuer: one.Issuer, MetadataURL: one.MetadataURL, ClientID: login.ClientID, Scopes: login.Scopes, Resource: login.Resource,
		})
	}
}
