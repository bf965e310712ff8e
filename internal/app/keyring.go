package app

import (
	"context"
	"net/http"

	"github.com/parley-mesh/parley/internal/a2a"
	"github.com/parley-mesh/parley/internal/keyring"
	"github.com/parley-mesh/parley/internal/parley"
	"github.com/parley-mesh/parley/internal/store"
)

// jwksPath is where the public halves of the mesh's keys are (RFC 7517).
const jwksPath = "/.well-known/jwks.json"

// jwksCache is shorter than a new key is published before it signs, so that a
// verifier finds it, and one that is revoked must go soon.
const jwksCache = "public, max-age=45"

func (a *App) openKeyring(context.Context) error {
	a.keyring = keyring.New(keyring.Options{
		Store: a.store, Period: a.cfg.Keys.Rotation, Overlap: a.cfg.Keys.Overlap, Environment: a.cfg.Environment,
		Turn: func() bool { return a.store.Holds(store.LeaseUpkeep) }, Now: a.opts.Now, Log: a.log,
	})
	return nil
}

// serveJWKS serves the keys with which callers verify what the mesh has signed.
func (a *App) serveJWKS(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path != jwksPath {
		http.NotFound(w, r)
		return
	}
	set, err := a.keyring.JWKS(r.Context())
	if err != nil {
		a.log.Warn("the mesh's public keys cannot be served", "err", err)
		http.Error(w, parley.PublicMessage(err), parley.KindOf(err).Info().HTTPStatus)
		return
	}
	if err := a2a.ServeDocument(w, r, set, jwksCache); err != nil {
		a.log.Debug("keys not delivered", "err", err)
	}
}

// cardKey is the key that signs the cards of the mesh.
func (a *App) cardKey(ctx context.Context) (*keyring.Key, error) {
	return a.keyring.Current(ctx, keyring.Card)
}
