package store

import (
	"context"

	"github.com/parley-mesh/parley/internal/keyring"
	"github.com/parley-mesh/parley/internal/parley"
	"github.com/parley-mesh/parley/internal/vault"
)

// meshOwner owns what is sealed for the mesh itself. No owner can be called so.
const meshOwner parley.OwnerName = "_mesh"

func meshKeyPlace(id string) vault.Place {
	return vault.Place{Table: "mesh_keys", Row: id, Column: "private_key"}
}

func scanMeshKey(row scanner) (*keyring.Row, error) {
	var k keyring.Row
	err := row.Scan(&k.ID, &k.Purpose, &k.Generation, &k.Public, &k.Private,
		timeColumn{&k.CreatedAt}, timeColumn{&k.ActiveAt}, timeColumn{&k.RevokedAt})
	return &k, err
}

// maxMeshKeys bounds what is read of the keys of the mesh: three purposes for
// more than a century at the shortest sensible period.
const maxMeshKeys = 10_000

// MeshKeys implements keyring.Store.
func (db *DB) MeshKeys(ctx context.Context) ([]*keyring.Row, error) {
	rows, err := query(ctx, db, scanMeshKey, `SELECT id, purpose, generation, public_key, private_key, created_at, active_at, revoked_at
		FROM mesh_keys ORDER BY purpose, generation LIMIT ?`, maxMeshKeys)
	if err != nil {
		return nil, db.fault("store.mesh_keys", "", err)
	}
	for _, k := range rows {
		if len(k.Private) == 0 {
			continue
		}
		if k.Private, err = db.vault.Open(ctx, meshOwner, meshKeyPlace(k.ID), k.Private); err != nil {
			return nil, err
		}
	}
	return rows, nil
}

// AddMeshKey implements keyring.Store.
func (db *DB) AddMeshKey(ctx context.Context, k *keyring.Row, revoke bool, events ...parley.Event) error {
	const op parley.Op = "store.add_mesh_key"
	subject := parley.Subject(k.Purpose)
	sealed, err := db.vault.Seal(ctx, meshOwner, meshKeyPlace(k.ID), k.Private)
	if err != nil {
		return db.fault(op, subject, err)
	}
	row := *k // the writer may read it after ctx is done
	err = db.w.do(ctx, statements(func(tx *tx) error {
		_, err := tx.run(`INSERT INTO mesh_keys (id, purpose, generation, public_key, private_key, created_at, active_at) VALUES (?,?,?,?,?,?,?)`,
			row.ID, string(row.Purpose), row.Generation, string(row.Public), sealed, micros(row.CreatedAt), micros(row.ActiveAt))
		if err != nil {
			return duplicate(op, subject, "the mesh has a key of that purpose and generation", err)
		}
		forgotten := row.Generation - 1 // the one before signs until the new one does
		if revoke {
			forgotten = row.Generation
			if _, err := tx.run(`UPDATE mesh_keys SET revoked_at = ? WHERE purpose = ? AND generation < ? AND revoked_at IS NULL`,
				micros(row.CreatedAt), string(row.Purpose), row.Generation); err != nil {
				return err
			}
		}
		if _, err := tx.run(`UPDATE mesh_keys SET private_key = ? WHERE purpose = ? AND generation < ?`,
			[]byte{}, string(row.Purpose), forgotten); err != nil {
			return err
		}
		return tx.events(events)
	}))
	return db.fault(op, subject, err)
}
