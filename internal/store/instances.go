package store

import (
	"context"
	"database/sql/driver"
	"fmt"

	"github.com/parley-mesh/parley/internal/parley"
	"github.com/parley-mesh/parley/internal/registry"
)

const instanceColumns = `agent, id, url, card_url, status, card, card_etag, agent_version, interfaces, use_interface,
	credential, checked_at, check_err, created_at, updated_at, version`

func scanInstance(row scanner) (*registry.Instance, error) {
	var i registry.Instance
	var credential int64
	err := row.Scan(&i.Agent, &i.ID, &i.URL, &i.CardURL, &i.Status, &i.Card, &i.CardETag, &i.AgentVersion,
		jsonColumn{&i.Interfaces}, &i.Use, &credential, timeColumn{&i.CheckedAt}, &i.CheckErr,
		timeColumn{&i.CreatedAt}, timeColumn{&i.UpdatedAt}, &i.Version)
	i.Credential = credential != 0
	return &i, err
}

// Instances implements registry.Store.
func (db *DB) Instances(ctx context.Context, agent parley.AgentName) ([]*registry.Instance, error) {
	var w where
	if agent != "" {
		w.and("agent = ?", string(agent))
	}
	all, err := query(ctx, db, scanInstance, `SELECT `+instanceColumns+` FROM instances`+w.String()+` ORDER BY agent, id`, w.args...)
	return all, db.fault("store.instances", parley.Subject(agent), err)
}

const insertInstance = `INSERT INTO instances (` + instanceColumns + `) VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)`

const updateInstance = `UPDATE instances SET url = ?, card_url = ?, status = ?, card = ?, card_etag = ?, agent_version = ?,
	interfaces = ?, use_interface = ?, credential = ?, checked_at = ?, check_err = ?, created_at = ?, updated_at = ?, version = ?
	WHERE agent = ? AND id = ? AND version = ?`

// SaveInstance implements registry.Store. An agent that does not exist is
// parley.NotFound.
func (db *DB) SaveInstance(ctx context.Context, i *registry.Instance, events ...parley.Event) error {
	const op parley.Op = "store.save_instance"
	subject := parley.Subject(i.Agent)
	interfaces, err := encode(i.Interfaces)
	if err != nil {
		return db.fault(op, subject, err)
	}
	card, credential := i.Card, int64(0)
	if card == nil {
		card = []byte{}
	}
	if i.Credential {
		credential = 1
	}
	agent, id, version := string(i.Agent), i.ID, i.Version
	values := []driver.Value{
		i.URL, i.CardURL, string(i.Status), card, i.CardETag, i.AgentVersion, interfaces, int64(i.Use),
		credential, micros(i.CheckedAt), i.CheckErr, micros(i.CreatedAt), micros(i.UpdatedAt), version + 1,
	}
	err = db.do(ctx, statements(func(tx *tx) error {
		if version == 0 {
			_, err := tx.run(insertInstance, append([]driver.Value{agent, id}, values...)...)
			if dangling(err) {
				return notFound(op, "agent", agent)
			}
			if err != nil {
				return duplicate(op, subject, "the agent has an instance of that id", err)
			}
			return tx.instancesChanged(events)
		}
		n, err := tx.run(updateInstance, append(values[:len(values):len(values)], agent, id, version)...)
		switch {
		case err != nil:
			return err
		case n == 0:
			return tx.instanceChanged(op, agent, id)
		}
		return tx.instancesChanged(events)
	}))
	if err == nil {
		i.Version = version + 1
	}
	return db.fault(op, subject, err)
}

// instancesChanged tells other replicas, and writes the events.
func (t *tx) instancesChanged(events []parley.Event) error {
	if err := t.note("agents"); err != nil {
		return err
	}
	return t.events(events)
}

// instanceChanged says why a compare-and-set found nothing to set.
func (t *tx) instanceChanged(op parley.Op, agent, id string) error {
	var one [1]driver.Value
	there, err := t.first(one[:], `SELECT 1 FROM instances WHERE agent = ? AND id = ?`, agent, id)
	if err != nil {
		return err
	}
	if !there {
		return parley.E(op, parley.NotFound, parley.Subject(agent), fmt.Sprintf("agent %s has no instance %s", agent, id), nil)
	}
	return parley.E(op, parley.Conflict, parley.Subject(agent), "the instance has changed meanwhile: read it again and repeat the change", nil)
}

// DeleteInstance implements registry.Store. Tasks and records that name
// it stay; what is subscribed to of those tasks goes.
func (db *DB) DeleteInstance(ctx context.Context, agent parley.AgentName, id string, version int64, events ...parley.Event) error {
	const op parley.Op = "store.delete_instance"
	err := db.w.do(ctx, statements(func(tx *tx) error {
		n, err := tx.run(`DELETE FROM instances WHERE agent = ? AND id = ? AND version = ?`, string(agent), id, version)
		switch {
		case err != nil:
			return err
		case n == 0:
			return tx.instanceChanged(op, string(agent), id)
		}
		if _, err := tx.run(`DELETE FROM push_relays WHERE agent = ? AND instance = ?`, string(agent), id); err != nil {
			return err
		}
		return tx.instancesChanged(events)
	}))
	return db.fault(op, parley.Subject(agent), err)
}

// OpenAt implements registry.Store: open calls that have no task yet, and
// unfinished tasks.
func (db *DB) OpenAt(ctx context.Context, agent parley.AgentName, instance string) (int, error) {
	var n int
	err := db.read.QueryRowContext(ctx, `SELECT
		(SELECT COUNT(*) FROM calls WHERE ended_at IS NULL AND agent = ? AND instance = ? AND task_id IS NULL) +
		(SELECT COUNT(*) FROM tasks WHERE agent = ? AND instance = ? AND final = 0)`,
		string(agent), instance, string(agent), instance).Scan(&n)
	return n, db.fault("store.open_at", parley.Subject(agent), err)
}
