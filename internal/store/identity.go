package store

import (
	"context"
	"database/sql/driver"
	"time"

	"github.com/parley-mesh/parley/internal/identity"
	"github.com/parley-mesh/parley/internal/parley"
)

const (
	existsOwner     = `SELECT 1 FROM owners WHERE name = ?`
	existsPrincipal = `SELECT 1 FROM principals WHERE name = ?`
)

const ownerColumns = `name, description, created_at, version`

func scanOwner(row scanner) (*identity.Owner, error) {
	var o identity.Owner
	err := row.Scan(&o.Name, &o.Description, timeColumn{&o.CreatedAt}, &o.Version)
	return &o, err
}

// Owner implements identity.Store.
func (db *DB) Owner(ctx context.Context, name parley.OwnerName) (*identity.Owner, error) {
	o, err := scanOwner(db.read.QueryRowContext(ctx, `SELECT `+ownerColumns+` FROM owners WHERE name = ?`, string(name)))
	return found(o, db.missing("store.owner", "owner", string(name), err))
}

// Owners implements identity.Store.
func (db *DB) Owners(ctx context.Context, after parley.OwnerName, limit int) ([]*identity.Owner, error) {
	owners, err := query(ctx, db, scanOwner, `SELECT `+ownerColumns+` FROM owners WHERE name > ? ORDER BY name LIMIT ?`,
		string(after), page(limit))
	return owners, db.fault("store.owners", "", err)
}

// SaveOwner implements identity.Store. It sets o.Version.
func (db *DB) SaveOwner(ctx context.Context, o *identity.Owner, events ...parley.Event) error {
	return db.save(ctx, saving{
		op: "store.save_owner", what: "owner", name: string(o.Name), version: &o.Version,
		exists: existsOwner,
		insert: `INSERT INTO owners (name, description, created_at, version) VALUES (?1, ?2, ?3, ?4)`,
		update: `UPDATE owners SET description = ?2, created_at = ?3, version = ?4 WHERE name = ?1 AND version = ?4 - 1`,
		values: []driver.Value{string(o.Name), o.Description, micros(o.CreatedAt)},
	}, events)
}

// DeleteOwner implements identity.Store. An owner that principals or agents
// still have is a parley.Conflict.
func (db *DB) DeleteOwner(ctx context.Context, name parley.OwnerName, version int64, events ...parley.Event) error {
	return db.remove(ctx, removal{
		op: "store.delete_owner", what: "owner", name: string(name), version: version,
		exists:    existsOwner,
		statement: `DELETE FROM owners WHERE name = ? AND version = ?`,
		inUse:     "the owner still has principals or agents: remove those first",
	}, events)
}

const principalColumns = `p.name, p.owner, p.environment, p.agent, p.roles, p.description, p.created_at, p.version, p.frozen_at, p.frozen_reason`

// principalDest are the destinations of principalColumns.
func principalDest(p *identity.Principal) []any {
	return []any{&p.Name, &p.Owner, &p.Environment, &p.Agent, jsonColumn{&p.Roles}, &p.Description, timeColumn{&p.CreatedAt}, &p.Version, timeColumn{&p.FrozenAt}, &p.FrozenReason}
}

func scanPrincipal(row scanner) (*identity.Principal, error) {
	var p identity.Principal
	err := row.Scan(principalDest(&p)...)
	return &p, err
}

// Principal implements identity.Store.
func (db *DB) Principal(ctx context.Context, name parley.PrincipalName) (*identity.Principal, error) {
	p, err := scanPrincipal(db.read.QueryRowContext(ctx, `SELECT `+principalColumns+` FROM principals p WHERE name = ?`, string(name)))
	return found(p, db.missing("store.principal", "principal", string(name), err))
}

// Principals implements identity.Store. An empty owner means all.
func (db *DB) Principals(ctx context.Context, owner parley.OwnerName, after parley.PrincipalName, limit int) ([]*identity.Principal, error) {
	var w where
	w.and("name > ?", string(after))
	if owner != "" {
		w.and("owner = ?", string(owner))
	}
	all, err := query(ctx, db, scanPrincipal, `SELECT `+principalColumns+` FROM principals p`+w.String()+` ORDER BY name LIMIT ?`,
		append(w.args, page(limit))...)
	return all, db.fault("store.principals", "", err)
}

// SavePrincipal implements identity.Store. It sets p.Version. An owner that
// does not exist is parley.Invalid, as is the calling side of an agent that
// does not exist, or is another owner's or of another environment. What a
// frozen one has subscribed to ends.
func (db *DB) SavePrincipal(ctx context.Context, p *identity.Principal, events ...parley.Event) error {
	roles, err := encode(p.Roles)
	if err != nil {
		return db.fault("store.save_principal", parley.Subject(p.Name), err)
	}
	agent, name, frozen := p.Agent, p.Name, !p.FrozenAt.IsZero() // the writer may come to it after ctx is done
	return db.save(ctx, saving{
		op: "store.save_principal", what: "principal", name: string(p.Name), version: &p.Version, owner: string(p.Owner),
		exists: existsPrincipal,
		insert: `INSERT INTO principals (name, owner, environment, agent, roles, description, created_at, frozen_at, frozen_reason, version)
			SELECT ?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10
			WHERE ?4 = '' OR EXISTS (SELECT 1 FROM agents WHERE name = ?4 AND owner = ?2 AND environment = ?3)`,
		holds: func(tx *tx) error { return tx.holdAgent(agent) },
		needs: "no agent " + string(p.Agent) + " of this owner and environment is registered: add it first",
		update: `UPDATE principals SET owner = ?2, environment = ?3, agent = ?4, roles = ?5, description = ?6, created_at = ?7, frozen_at = ?8, frozen_reason = ?9, version = ?10
			WHERE name = ?1 AND version = ?10 - 1`,
		values: []driver.Value{string(p.Name), string(p.Owner), string(p.Environment), string(p.Agent), roles, p.Description, micros(p.CreatedAt), micros(p.FrozenAt), p.FrozenReason},
		after: func(tx *tx) error {
			if !frozen {
				return nil
			}
			return tx.endSubscriptions(name)
		},
	}, events)
}

// DeletePrincipal implements identity.Store. Its keys go with it; its tasks
// and contexts stay, and belong to nobody from then on, whoever has the name
// next.
func (db *DB) DeletePrincipal(ctx context.Context, name parley.PrincipalName, version int64, events ...parley.Event) error {
	return db.remove(ctx, removal{
		op: "store.delete_principal", what: "principal", name: string(name), version: version,
		exists: existsPrincipal,
		before: func(tx *tx) error {
			var made [1]driver.Value
			if _, err := tx.first(made[:], `SELECT coalesce(created_at, 0) FROM principals WHERE name = ?`, string(name)); err != nil {
				return err
			}
			return tx.leave(db.gone, name, made[0].(int64))
		},
		statement: `DELETE FROM principals WHERE name = ? AND version = ?`,
	}, events)
}

const keyColumns = `k.id, k.principal, k.hash, k.note, k.created_at, k.expires_at, k.revoked_at`

// hashColumn reads a SHA-256.
type hashColumn struct{ into *[32]byte }

func (c hashColumn) Scan(v any) error {
	b, ok := v.([]byte)
	if !ok || copy(c.into[:], b) != len(c.into) {
		return parley.E("store.key", parley.Internal, "", "a key's hash is damaged", nil)
	}
	return nil
}

func keyDest(k *identity.Key) []any {
	return []any{&k.ID, &k.Principal, hashColumn{&k.Hash}, &k.Note, timeColumn{&k.CreatedAt}, timeColumn{&k.ExpiresAt}, timeColumn{&k.RevokedAt}}
}

func scanKey(row scanner) (*identity.Key, error) {
	var k identity.Key
	err := row.Scan(keyDest(&k)...)
	return &k, err
}

// KeyByID implements identity.Store.
func (db *DB) KeyByID(ctx context.Context, id string) (*identity.Key, *identity.Principal, error) {
	var (
		k identity.Key
		p identity.Principal
	)
	err := db.read.QueryRowContext(ctx, `SELECT `+keyColumns+`, `+principalColumns+`
		FROM api_keys k JOIN principals p ON p.name = k.principal WHERE k.id = ?`, id).Scan(append(keyDest(&k), principalDest(&p)...)...)
	if err != nil {
		return nil, nil, db.missing("store.key", "key", id, err)
	}
	return &k, &p, nil
}

// Keys implements identity.Store. An empty principal means all.
func (db *DB) Keys(ctx context.Context, principal parley.PrincipalName, after string, limit int) ([]*identity.Key, error) {
	var w where
	w.and("id > ?", after)
	if principal != "" {
		w.and("principal = ?", string(principal))
	}
	keys, err := query(ctx, db, scanKey, `SELECT `+keyColumns+` FROM api_keys k`+w.String()+` ORDER BY id LIMIT ?`, append(w.args, page(limit))...)
	return keys, db.fault("store.keys", "", err)
}

// CreateKey implements identity.Store. A principal that does not exist is
// parley.Invalid.
func (db *DB) CreateKey(ctx context.Context, k *identity.Key, events ...parley.Event) error {
	const op parley.Op = "store.create_key"
	subject := parley.Subject(k.ID)
	row := *k // the writer may read it after ctx is done
	err := db.w.do(ctx, statements(func(tx *tx) error {
		_, err := tx.run(`INSERT INTO api_keys (id, principal, hash, note, created_at, expires_at, revoked_at) VALUES (?,?,?,?,?,?,?)`,
			row.ID, string(row.Principal), row.Hash[:], row.Note, micros(row.CreatedAt), micros(row.ExpiresAt), micros(row.RevokedAt))
		if dangling(err) {
			return parley.E(op, parley.Invalid, subject, "no principal is called "+string(row.Principal)+": make it first", nil)
		}
		if err = duplicate(op, subject, "a key of this id exists", err); err != nil {
			return err
		}
		return tx.events(events)
	}))
	return db.fault(op, subject, err)
}

// RevokeKey implements identity.Store. A key that was revoked before stays
// revoked from that time on, without a new event.
func (db *DB) RevokeKey(ctx context.Context, id string, at time.Time, events ...parley.Event) error {
	const op parley.Op = "store.revoke_key"
	err := db.w.do(ctx, statements(func(tx *tx) error {
		n, err := tx.run(`UPDATE api_keys SET revoked_at = ? WHERE id = ? AND revoked_at IS NULL`, micros(at), id)
		if err != nil {
			return err
		}
		if n > 0 {
			if err := tx.note("keys"); err != nil {
				return err
			}
			return tx.events(events)
		}
		var one [1]driver.Value
		exists, err := tx.first(one[:], `SELECT 1 FROM api_keys WHERE id = ?`, id)
		if err == nil && !exists {
			err = notFound(op, "key", id)
		}
		return err
	}))
	return db.fault(op, parley.Subject(id), err)
}
