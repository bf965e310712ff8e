package store

import (
	"context"
	"database/sql/driver"
	"time"

	"github.com/parley-mesh/parley/internal/identity"
	"github.com/parley-mesh/parley/internal/parley"
)

const linkColumns = `i.issuer, i.subject, i.principal, i.made, i.created_at, i.seen_at`

// linkDest are the destinations of linkColumns.
func linkDest(l *identity.Link, made *int64) []any {
	return []any{&l.Issuer, &l.Subject, &l.Principal, made, timeColumn{&l.CreatedAt}, timeColumn{&l.SeenAt}}
}

func scanLink(row scanner) (*identity.Link, error) {
	var l identity.Link
	var made int64
	err := row.Scan(linkDest(&l, &made)...)
	l.Made = made != 0
	return &l, err
}

// Linked implements identity.Store.
func (db *DB) Linked(ctx context.Context, issuer, subject string) (*identity.Link, *identity.Principal, error) {
	var (
		l    identity.Link
		p    identity.Principal
		made int64
	)
	err := db.read.QueryRowContext(ctx, `SELECT `+linkColumns+`, `+principalColumns+`
		FROM identities i JOIN principals p ON p.name = i.principal WHERE i.issuer = ? AND i.subject = ?`, issuer, subject).
		Scan(append(linkDest(&l, &made), principalDest(&p)...)...)
	if err != nil {
		return nil, nil, db.missing("store.linked", "subject", subject, err)
	}
	l.Made = made != 0
	return &l, &p, nil
}

// Links implements identity.Store.
func (db *DB) Links(ctx context.Context, principal parley.PrincipalName, limit int) ([]*identity.Link, error) {
	all, err := query(ctx, db, scanLink, `SELECT `+linkColumns+` FROM identities i WHERE principal = ? ORDER BY issuer, subject LIMIT ?`,
		string(principal), page(limit))
	return all, db.fault("store.links", "", err)
}

func (t *tx) addLink(op parley.Op, l identity.Link) error {
	made := int64(0)
	if l.Made {
		made = 1
	}
	_, err := t.run(`INSERT INTO identities (issuer, subject, principal, made, created_at, seen_at) VALUES (?,?,?,?,?,?)`,
		l.Issuer, l.Subject, string(l.Principal), made, micros(l.CreatedAt), micros(l.SeenAt))
	if dangling(err) {
		return notFound(op, "principal", string(l.Principal))
	}
	return duplicate(op, parley.Subject(l.Principal), "this subject of the issuer is linked already", err)
}

// AddLink implements identity.Store. A subject that is linked is a
// parley.Conflict, a principal that does not exist parley.NotFound.
func (db *DB) AddLink(ctx context.Context, l *identity.Link, events ...parley.Event) error {
	const op parley.Op = "store.add_link"
	row := *l // the writer may read it after ctx is done
	err := db.do(ctx, statements(func(tx *tx) error {
		if err := tx.addLink(op, row); err != nil {
			return err
		}
		return tx.events(events)
	}))
	return db.fault(op, parley.Subject(row.Principal), err)
}

// AdmitPrincipal implements identity.Store. It sets p.Version.
func (db *DB) AdmitPrincipal(ctx context.Context, p *identity.Principal, l *identity.Link, events ...parley.Event) error {
	const op parley.Op = "store.admit_principal"
	subject := parley.Subject(p.Name)
	roles, err := encode(p.Roles)
	if err != nil {
		return db.fault(op, subject, err)
	}
	who, row := *p, *l
	err = db.w.do(ctx, statements(func(tx *tx) error {
		_, err := tx.run(`INSERT INTO principals (name, owner, environment, agent, roles, description, created_at, version) VALUES (?,?,?,'',?,?,?,1)`,
			string(who.Name), string(who.Owner), string(who.Environment), roles, who.Description, micros(who.CreatedAt))
		if dangling(err) {
			return parley.E(op, parley.Invalid, subject, "no owner is called "+string(who.Owner)+": make it first", nil)
		}
		if err = duplicate(op, subject, "a principal of that name exists", err); err != nil {
			return err
		}
		if err := tx.addLink(op, row); err != nil {
			return err
		}
		return tx.events(events)
	}))
	if err == nil {
		p.Version = 1
	}
	return db.fault(op, subject, err)
}

// TouchLink implements identity.Store. A link that is gone stays so.
func (db *DB) TouchLink(ctx context.Context, issuer, subject string, at time.Time) error {
	err := db.w.do(ctx, statements(func(tx *tx) error {
		_, err := tx.run(`UPDATE identities SET seen_at = ? WHERE issuer = ? AND subject = ?`, micros(at), issuer, subject)
		return err
	}))
	return db.fault("store.touch_link", "", err)
}

// RemoveLink implements identity.Store. A link that is gone, or leads to
// another principal by now, is parley.NotFound.
func (db *DB) RemoveLink(ctx context.Context, l *identity.Link, events ...parley.Event) error {
	const op parley.Op = "store.remove_link"
	args := []driver.Value{l.Issuer, l.Subject, string(l.Principal)}
	subject := parley.Subject(l.Principal)
	err := db.do(ctx, statements(func(tx *tx) error {
		n, err := tx.run(`DELETE FROM identities WHERE issuer = ? AND subject = ? AND principal = ?`, args...)
		if err != nil {
			return err
		}
		if n == 0 {
			return notFound(op, "link", string(subject))
		}
		return tx.events(events)
	}))
	return db.fault(op, subject, err)
}
