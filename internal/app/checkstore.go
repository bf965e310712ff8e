package app

import (
	"context"
	"log/slog"

	"github.com/parley-mesh/parley/internal/config"
	"github.com/parley-mesh/parley/internal/parley"
	"github.com/parley-mesh/parley/internal/store"
	"github.com/parley-mesh/parley/internal/vault"
)

// CheckStore looks at the store of a configuration from outside and changes
// nothing; see store.Check and store.CheckPostgres. It is for a mesh that does
// not run: one that does tells by its status.
func CheckStore(ctx context.Context, cfg *config.Config) (store.Checkup, error) {
	if _, ok := cfg.Store.Postgres(); ok {
		return store.CheckPostgres(ctx, postgresOptions(cfg))
	}
	return store.Check(ctx, cfg.Data)
}

// CopyStore copies the SQLite store of a configuration to an empty database of
// PostgreSQL; see store.Copy.
func CopyStore(ctx context.Context, cfg *config.Config, to config.Store, told func(table string, done, of int64)) ([]store.Copied, error) {
	address, ok := to.Postgres()
	if !ok {
		return nil, parley.E("app.copy_store", parley.Invalid, "to", "a store is copied to PostgreSQL: give --to postgres://user:password@host:5432/database", nil)
	}
	target := postgresOptions(cfg)
	target.URL = address
	return store.Copy(ctx, store.Options{
		Dir: cfg.Data, MasterKey: vault.Source(cfg.MasterKey.Reference()), Log: slog.New(slog.DiscardHandler),
	}, target, told)
}

// postgresOptions is how the store on PostgreSQL is reached; without a URL for
// SQLite.
func postgresOptions(cfg *config.Config) store.Postgres {
	address, _ := cfg.Store.Postgres()
	p := cfg.Postgres
	return store.Postgres{
		URL: address, Conns: p.Connections, ConnectTimeout: p.ConnectTimeout, StatementTimeout: p.StatementTimeout,
		Lease: p.Lease, Address: cfg.Listen,
	}
}
