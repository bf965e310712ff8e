package store

import (
	"context"
	"database/sql/driver"
	"encoding/json"
	"errors"
	"time"

	"github.com/parley-mesh/parley/internal/identity"
	"github.com/parley-mesh/parley/internal/manifest"
	"github.com/parley-mesh/parley/internal/parley"
	"github.com/parley-mesh/parley/internal/registry"
)

// Batch gathers changes of owners, principals with what proves them, agents with
// instances and credentials, marks and limits, and writes them in one transaction: all of them with their events, or
// none. Changes are made in the order in which they were added. It belongs to
// one goroutine.
//
// Each change is refused for the same reasons as alone; a lost compare-and-set
// is a parley.Conflict of the whole batch.
type Batch struct {
	view  *DB // gathers instead of writing
	db    *DB
	steps []work
	err   error // what could not be added
}

// Batch begins an empty batch.
func (db *DB) Batch() *Batch {
	b := &Batch{db: db}
	b.view = &DB{opt: db.opt, sql: db.sql, read: db.read, w: db.w, pg: db.pg, vault: db.vault, mesh: db.mesh, gone: db.gone, gather: func(k work) { b.steps = append(b.steps, k) }}
	return b
}

// do writes through the writer, or hands over to the batch that gathers.
func (db *DB) do(ctx context.Context, k work) error {
	if db.gather != nil {
		db.gather(k)
		return nil
	}
	return db.w.do(ctx, k)
}

// note keeps the first error.
func (b *Batch) note(err error) {
	if b.err == nil {
		b.err = err
	}
}

// SaveOwner adds what DB.SaveOwner does.
func (b *Batch) SaveOwner(ctx context.Context, o *identity.Owner, events ...parley.Event) {
	b.note(b.view.SaveOwner(ctx, o, events...))
}

// DeleteOwner adds what DB.DeleteOwner does.
func (b *Batch) DeleteOwner(ctx context.Context, name parley.OwnerName, version int64, events ...parley.Event) {
	b.note(b.view.DeleteOwner(ctx, name, version, events...))
}

// SavePrincipal adds what DB.SavePrincipal does.
func (b *Batch) SavePrincipal(ctx context.Context, p *identity.Principal, events ...parley.Event) {
	b.note(b.view.SavePrincipal(ctx, p, events...))
}

// DeletePrincipal adds what DB.DeletePrincipal does.
func (b *Batch) DeletePrincipal(ctx context.Context, name parley.PrincipalName, version int64, events ...parley.Event) {
	b.note(b.view.DeletePrincipal(ctx, name, version, events...))
}

// SaveAgent adds what DB.SaveAgent does.
func (b *Batch) SaveAgent(ctx context.Context, a *registry.Agent, events ...parley.Event) {
	b.note(b.view.SaveAgent(ctx, a, events...))
}

// DeleteAgent adds what DB.DeleteAgent does.
func (b *Batch) DeleteAgent(ctx context.Context, name parley.AgentName, version int64, events ...parley.Event) {
	b.note(b.view.DeleteAgent(ctx, name, version, events...))
}

// ReplaceCredential adds what DB.SaveCredential does, where the credential is
// the one that was stored at before, or there is none and before is zero.
func (b *Batch) ReplaceCredential(ctx context.Context, before time.Time, c *registry.Credential, events ...parley.Event) {
	b.sameCredential(c.Agent, before)
	b.note(b.view.SaveCredential(ctx, c, events...))
}

// DeleteCredential adds what DB.DeleteCredential does, where the credential is
// the one that was stored at before.
func (b *Batch) DeleteCredential(ctx context.Context, agent parley.AgentName, before time.Time, events ...parley.Event) {
	b.sameCredential(agent, before)
	b.note(b.view.DeleteCredential(ctx, agent, events...))
}

// SaveInstance adds what DB.SaveInstance does.
func (b *Batch) SaveInstance(ctx context.Context, i *registry.Instance, events ...parley.Event) {
	b.note(b.view.SaveInstance(ctx, i, events...))
}

// LinkName adds what DB.LinkName does.
func (b *Batch) LinkName(ctx context.Context, n *identity.CertName, events ...parley.Event) {
	b.note(b.view.LinkName(ctx, n, events...))
}

// UnlinkName adds what DB.UnlinkName does; one that is gone is a conflict.
func (b *Batch) UnlinkName(ctx context.Context, n *identity.CertName, events ...parley.Event) {
	b.expect(func() { b.note(b.view.UnlinkName(ctx, n, events...)) })
}

// AddLink adds what DB.AddLink does.
func (b *Batch) AddLink(ctx context.Context, l *identity.Link, events ...parley.Event) {
	b.note(b.view.AddLink(ctx, l, events...))
}

// RemoveLink adds what DB.RemoveLink does; one that is gone is a conflict.
func (b *Batch) RemoveLink(ctx context.Context, l *identity.Link, events ...parley.Event) {
	b.expect(func() { b.note(b.view.RemoveLink(ctx, l, events...)) })
}

// expect makes what add adds a parley.Conflict where it finds nothing: it was
// there when the batch was decided.
func (b *Batch) expect(add func()) {
	first := len(b.steps)
	add()
	for i, step := range b.steps[first:] {
		b.steps[first+i] = statements(func(tx *tx) error {
			err := step.write(tx)
			if err != nil && parley.KindOf(err) == parley.NotFound {
				return parley.E("store.batch", parley.Conflict, "", "it has changed meanwhile: read it again and repeat the change", err)
			}
			return err
		})
	}
}

// sameCredential adds a compare-and-set: credentials have no version.
func (b *Batch) sameCredential(agent parley.AgentName, before time.Time) {
	b.steps = append(b.steps, statements(func(tx *tx) error {
		var dest [1]driver.Value
		there, err := tx.first(dest[:], `SELECT created_at FROM credentials WHERE agent = ?`, string(agent))
		if err != nil {
			return err
		}
		at, _ := dest[0].(int64)
		if there == before.IsZero() || there && at != before.UnixMicro() {
			return parley.E("store.credential", parley.Conflict, parley.Subject(agent), "the agent's credential has changed meanwhile: read it again and repeat the change", nil)
		}
		return nil
	}))
}

// Mark notes which set has created a thing that was made at madeAt.
func (b *Batch) Mark(m manifest.Mark) {
	b.steps = append(b.steps, statements(func(tx *tx) error {
		_, err := tx.run(`INSERT INTO marks (kind, name, set_name, made_at) VALUES (?,?,?,?)
			ON CONFLICT (kind, name) DO UPDATE SET set_name = excluded.set_name, made_at = excluded.made_at`,
			string(m.Kind), m.Name, m.Set, m.MadeAt.UnixMicro())
		return err
	}))
}

// Unmark forgets which set has created a thing.
func (b *Batch) Unmark(kind manifest.Kind, name string) {
	b.steps = append(b.steps, statements(func(tx *tx) error {
		_, err := tx.run(`DELETE FROM marks WHERE kind = ? AND name = ?`, string(kind), name)
		return err
	}))
}

// SaveLimits adds the limits that differ from the configuration, decided on a
// version of them; 0 where there were none.
func (b *Batch) SaveLimits(ctx context.Context, values map[string]string, madeAt time.Time, version int64, events ...parley.Event) {
	body, err := json.Marshal(values)
	b.note(err)
	b.note(b.view.save(ctx, saving{
		op: "store.save_limits", what: "set of limits", name: manifest.LimitsName, version: &version,
		exists: existsLimits,
		insert: `INSERT INTO limit_overrides (name, body, created_at, version) VALUES (?1, ?2, ?3, ?4)`,
		update: `UPDATE limit_overrides SET body = ?2, created_at = ?3, version = ?4 WHERE name = ?1 AND version = ?4 - 1`,
		values: []driver.Value{manifest.LimitsName, string(body), madeAt.UnixMicro()},
	}, events))
}

// DeleteLimits adds that nothing differs from the configuration any more.
func (b *Batch) DeleteLimits(ctx context.Context, version int64, events ...parley.Event) {
	b.note(b.view.remove(ctx, removal{
		op: "store.delete_limits", what: "set of limits", name: manifest.LimitsName, version: version,
		exists: existsLimits, statement: `DELETE FROM limit_overrides WHERE name = ? AND version = ?`,
	}, events))
}

// Commit writes everything or nothing.
func (b *Batch) Commit(ctx context.Context) error {
	if b.err != nil || len(b.steps) == 0 {
		return b.err
	}
	steps := b.steps
	err := b.db.w.do(ctx, statements(func(tx *tx) error {
		for _, step := range steps {
			if err := step.write(tx); err != nil {
				return err
			}
		}
		return nil
	}))
	return b.db.fault("store.batch", "", err)
}

const existsLimits = `SELECT 1 FROM limit_overrides WHERE name = ?`

// LimitOverrides gives the limits that differ from the configuration, when
// they were first set and their version; version 0 where there are none.
func (db *DB) LimitOverrides(ctx context.Context) (values map[string]string, madeAt time.Time, version int64, err error) {
	err = db.read.QueryRowContext(ctx, `SELECT body, created_at, version FROM limit_overrides WHERE name = ?`, manifest.LimitsName).
		Scan(jsonColumn{&values}, timeColumn{&madeAt}, &version)
	err = db.missing("store.limits", "set of limits", manifest.LimitsName, err)
	if e, ok := errors.AsType[*parley.Error](err); ok && e.Kind == parley.NotFound {
		return nil, time.Time{}, 0, nil
	}
	return values, madeAt, version, err
}

// Marks gives every mark.
func (db *DB) Marks(ctx context.Context) ([]manifest.Mark, error) {
	marks, err := query(ctx, db, func(row scanner) (m manifest.Mark, err error) {
		err = row.Scan(&m.Kind, &m.Name, &m.Set, timeColumn{&m.MadeAt})
		return m, err
	}, `SELECT kind, name, set_name, made_at FROM marks ORDER BY kind, name LIMIT ?`, maxMarks)
	return marks, db.fault("store.marks", "", err)
}

// maxMarks bounds what is read; sets together hold less.
const maxMarks = 1_000_000
