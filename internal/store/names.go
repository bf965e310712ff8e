package store

import (
	"context"

	"github.com/parley-mesh/parley/internal/identity"
	"github.com/parley-mesh/parley/internal/parley"
)

// FrozenPrincipals implements identity.Store.
func (db *DB) FrozenPrincipals(ctx context.Context) ([]parley.PrincipalName, error) {
	rows, err := query(ctx, db, func(row scanner) (*parley.PrincipalName, error) {
		var name parley.PrincipalName
		err := row.Scan(&name)
		return &name, err
	}, `SELECT name FROM principals WHERE frozen_at IS NOT NULL ORDER BY name`)
	names := make([]parley.PrincipalName, len(rows))
	for i, name := range rows {
		names[i] = *name
	}
	return names, db.fault("store.frozen_principals", "", err)
}

const nameColumns = `kind, name, principal, created_at`

func scanName(row scanner) (*identity.CertName, error) {
	var n identity.CertName
	err := row.Scan(&n.Kind, &n.Name, &n.Principal, timeColumn{&n.CreatedAt})
	return &n, err
}

// PrincipalByName implements identity.NameStore.
func (db *DB) PrincipalByName(ctx context.Context, kind identity.NameKind, name string) (*identity.Principal, error) {
	p, err := scanPrincipal(db.read.QueryRowContext(ctx, `SELECT `+principalColumns+`
		FROM principal_names n JOIN principals p ON p.name = n.principal WHERE n.kind = ? AND n.name = ?`, string(kind), name))
	return found(p, db.missing("store.principal_by_name", "principal", name, err))
}

// Names implements identity.NameStore.
func (db *DB) Names(ctx context.Context, principal parley.PrincipalName) ([]*identity.CertName, error) {
	names, err := query(ctx, db, scanName, `SELECT `+nameColumns+` FROM principal_names WHERE principal = ? ORDER BY kind, name`, string(principal))
	return names, db.fault("store.names", parley.Subject(principal), err)
}

// LinkName implements identity.NameStore.
func (db *DB) LinkName(ctx context.Context, n *identity.CertName, events ...parley.Event) error {
	const op parley.Op = "store.link_name"
	row, subject := *n, parley.Subject(n.Name)
	err := db.do(ctx, statements(func(tx *tx) error {
		_, err := tx.run(`INSERT INTO principal_names (kind, name, principal, created_at) VALUES (?,?,?,?)`,
			string(row.Kind), row.Name, string(row.Principal), micros(row.CreatedAt))
		if dangling(err) {
			return parley.E(op, parley.NotFound, subject, "no principal is called "+string(row.Principal), nil)
		}
		if err = duplicate(op, subject, "the name is linked already", err); err != nil {
			return err
		}
		return tx.events(events)
	}))
	return db.fault(op, subject, err)
}

// UnlinkName implements identity.NameStore.
func (db *DB) UnlinkName(ctx context.Context, n *identity.CertName, events ...parley.Event) error {
	const op parley.Op = "store.unlink_name"
	row, subject := *n, parley.Subject(n.Name)
	err := db.do(ctx, statements(func(tx *tx) error {
		gone, err := tx.run(`DELETE FROM principal_names WHERE kind = ? AND name = ? AND principal = ?`, string(row.Kind), row.Name, string(row.Principal))
		switch {
		case err != nil:
			return err
		case gone == 0:
			return notFound(op, "name", row.Name)
		}
		return tx.events(events)
	}))
	return db.fault(op, subject, err)
}
