package store

import (
	"context"
	"database/sql"
	"errors"

	"github.com/parley-mesh/parley/internal/parley"
	"github.com/parley-mesh/parley/internal/vault"
)

// DataKey gives the owner's wrapped data key, or a parley.NotFound error.
func (db *DB) DataKey(ctx context.Context, owner parley.OwnerName) (*vault.DataKey, error) {
	k := vault.DataKey{Owner: owner}
	err := db.read.QueryRowContext(ctx, `SELECT master, wrapped, created_at FROM data_keys WHERE owner = ?`,
		string(owner)).Scan(&k.Master, &k.Wrapped, timeColumn{&k.CreatedAt})
	if errors.Is(err, sql.ErrNoRows) {
		return nil, parley.E("store.data_key", parley.NotFound, parley.Subject(owner), "the owner's data key is gone, and what it sealed with it", nil)
	}
	return &k, db.fault("store.data_key", parley.Subject(owner), err)
}

// CreateDataKey stores a wrapped data key, or gives a parley.Conflict error
// where the owner has one.
func (db *DB) CreateDataKey(ctx context.Context, k *vault.DataKey) error {
	const op parley.Op = "store.create_data_key"
	err := db.w.do(ctx, statements(func(tx *tx) error {
		_, err := tx.run(`INSERT INTO data_keys (owner, master, wrapped, created_at) VALUES (?,?,?,?)`,
			string(k.Owner), k.Master, k.Wrapped, micros(k.CreatedAt))
		return duplicate(op, parley.Subject(k.Owner), "the owner has a data key", err)
	}))
	return db.fault(op, parley.Subject(k.Owner), err)
}
