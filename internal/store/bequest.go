package store

import (
	"context"
	"database/sql/driver"
	"slices"
	"strconv"
	"time"

	"github.com/parley-mesh/parley/internal/identity"
	"github.com/parley-mesh/parley/internal/parley"
)

// Names are given again; what was owned under one is not. When a principal is
// deleted, its tasks and contexts go to a tombstone in the same transaction.
// Calls of it that are still under way settle later: what they own goes to the
// tombstone as well, even if somebody else has the name by then.

// tombstone is who owns what a deleted principal has left. No principal can
// have such a name (parley.CheckName), so nobody sees it or can claim it.
func tombstone(name parley.PrincipalName, createdAt int64) parley.PrincipalName {
	return "~" + name + "@" + parley.PrincipalName(strconv.FormatInt(createdAt, 10))
}

// departures are the principals that this process has deleted, or tried to, by
// name, with the times at which they were made, in order. On SQLite calls end
// with their process, so that earlier ones do not matter; on PostgreSQL those of
// all replicas are read back. Only the writer touches it.
type departures map[parley.PrincipalName][]int64

// add notes a principal that was deleted; it may be noted already.
func (d departures) add(name parley.PrincipalName, createdAt int64) {
	made := d[name]
	if at, known := slices.BinarySearch(made, createdAt); !known {
		d[name] = slices.Insert(made, at, createdAt)
	}
}

// heir tells who owns what a call of a principal leaves that began at begun.
// For nearly every call that is the principal; the database is asked only about
// names that were taken away since the process started.
func (t *tx) heir(gone departures, name parley.PrincipalName, begun time.Time) (parley.PrincipalName, error) {
	made := gone[name]
	if made == nil {
		return name, nil
	}
	var dest [1]driver.Value
	there, err := t.first(dest[:], `SELECT coalesce(created_at, 0) FROM principals WHERE name = ?`, string(name))
	if err != nil {
		return "", err
	}
	if there && dest[0].(int64) <= begun.UnixMicro() {
		return name, nil
	}
	former := made[0]
	for _, at := range made {
		if at <= begun.UnixMicro() {
			former = at
		}
	}
	return tombstone(name, former), nil
}

// leave hands what the principal owns to its tombstone and takes its keys and
// names and links away.
// The principal's row is left to the caller. It looks at every context: they
// are found by key alone, and principals are deleted too rarely for an index
// that every new context would have to pay for.
func (t *tx) leave(gone departures, name parley.PrincipalName, createdAt int64) error {
	gone.add(name, createdAt)
	if err := t.depart(name, createdAt); err != nil {
		return err
	}
	heir := string(tombstone(name, createdAt))
	for _, sql := range []string{
		`UPDATE tasks SET principal = ?2 WHERE principal = ?1`,
		`UPDATE contexts SET principal = ?2 WHERE principal = ?1`,
	} {
		if _, err := t.run(sql, string(name), heir); err != nil {
			return err
		}
	}
	for _, sql := range []string{
		`DELETE FROM api_keys WHERE principal = ?`, `DELETE FROM principal_names WHERE principal = ?`,
		`DELETE FROM identities WHERE principal = ?`, `DELETE FROM answers WHERE principal = ?`,
		`DELETE FROM push_relays WHERE principal = ?`,
	} {
		if _, err := t.run(sql, string(name)); err != nil {
			return err
		}
	}
	return nil
}

// takeCallingSide deletes the principal under which an agent calls, if it has
// one, and tells of it. It is the agent's and nobody else's: left behind, its
// keys would speak for whoever registers an agent of that name next.
func (t *tx) takeCallingSide(ctx context.Context, gone departures, agent parley.AgentName, now time.Time) error {
	var row [4]driver.Value
	there, err := t.first(row[:], `SELECT owner, environment, description, coalesce(created_at, 0)
		FROM principals WHERE name = ?1 AND agent = ?1`, string(agent))
	if err != nil || !there {
		return err
	}
	p := identity.Principal{
		Name: parley.PrincipalName(agent), Agent: agent, Owner: parley.OwnerName(row[0].(string)),
		Environment: parley.Environment(row[1].(string)), Description: row[2].(string),
	}
	keys, err := t.validKeys(p.Name)
	if err != nil {
		return err
	}
	if err := t.leave(gone, p.Name, row[3].(int64)); err != nil {
		return err
	}
	if _, err := t.run(`DELETE FROM principals WHERE name = ?`, string(p.Name)); err != nil {
		return err
	}
	return t.events(identity.CallingSideRemoved(ctx, now, &p, keys))
}

// validKeys gives the principal's keys that are not revoked.
func (t *tx) validKeys(name parley.PrincipalName) (keys []*identity.Key, err error) {
	for last := ""; ; {
		var row [3]driver.Value
		there, err := t.first(row[:], `SELECT id, note, expires_at FROM api_keys
			WHERE principal = ? AND id > ? AND revoked_at IS NULL ORDER BY id LIMIT 1`, string(name), last)
		if err != nil || !there {
			return keys, err
		}
		last = row[0].(string)
		k := &identity.Key{ID: last, Principal: name, Note: row[1].(string)}
		if at, ok := row[2].(int64); ok {
			k.ExpiresAt = fromMicros(at)
		}
		keys = append(keys, k)
	}
}
