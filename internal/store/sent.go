package store

import (
	"context"
	"crypto/sha256"
	"database/sql/driver"
	"encoding/binary"
	"sync"
	"time"

	"github.com/parley-mesh/parley/internal/call"
	"github.com/parley-mesh/parley/internal/parley"
)

// claimSent writes which call sends a message. It changes no row where another
// call has sent it within the window, or still is open. Beside the row, it takes
// the beginning of the window.
const claimSent = `INSERT INTO sent (key, call, digest, at) VALUES (?,?,?,?)
	ON CONFLICT (key) DO UPDATE SET call = excluded.call, digest = excluded.digest, at = excluded.at
	WHERE sent.call = excluded.call OR sent.at < ?
		AND NOT EXISTS (SELECT 1 FROM calls c WHERE c.id = sent.call AND c.ended_at IS NULL)`

// freeSent lets a message be sent again of which nothing was taken.
const freeSent = `DELETE FROM sent WHERE key = ? AND call = ?`

const oldSent = `DELETE FROM sent WHERE key IN (SELECT key FROM sent WHERE at < ?
	AND NOT EXISTS (SELECT 1 FROM calls c WHERE c.id = sent.call AND c.ended_at IS NULL) LIMIT ?)`

// sentKey is the key of a message's row: 64 bits of a keyed hash, as of a
// context's. Where two meet by chance, the second one reads as another message
// under the first one's id, and is refused.
func (db *DB) sentKey(r *call.Record) int64 {
	b := append(make([]byte, 0, 256), db.contextSecret...)
	for _, part := range [...]string{"sent", string(r.Caller), string(r.Agent), r.MessageID} {
		b = binary.BigEndian.AppendUint32(b, uint32(len(part)))
		b = append(b, part...)
	}
	sum := sha256.Sum256(b)
	return int64(binary.BigEndian.Uint64(sum[:]))
}

// sentValues are the values of claimSent.
func sentValues(key int64, r *call.Record) []driver.Value {
	return []driver.Value{key, r.ID[:], r.Sent.Digest[:], r.Begun.UnixMicro(), r.Begun.Add(-r.Sent.Window).UnixMicro()}
}

// send notes that the call sends its message; a *call.RepeatedError where it was
// sent before.
func (b *begin) send(tx *tx) error {
	r := &b.record
	if r.Sent == nil {
		return nil
	}
	for {
		if n, err := tx.run(claimSent, sentValues(b.sent, r)...); err != nil || n > 0 {
			return err
		}
		var dest [2]driver.Value
		found, err := tx.first(dest[:], `SELECT call, digest FROM sent WHERE key = ?`, b.sent)
		switch {
		case err != nil:
			return err
		case !found: // it was set free in between
			continue
		}
		repeated := &call.RepeatedError{}
		first, _ := dest[0].([]byte)
		digest, _ := dest[1].([]byte)
		copy(repeated.First[:], first)
		repeated.Same = string(digest) == string(r.Sent.Digest[:])
		return parley.E("store.begin", parley.Conflict, parley.Subject(r.ID.String()), "the message was sent before", repeated)
	}
}

// sentFilter knows which messages were certainly not sent before, where one
// process alone begins calls: under durability relaxed a begin that it vouches
// for need not wait. The zero value vouches for none.
type sentFilter struct {
	mu     sync.Mutex
	filter contextFilter
}

// first notes a message, and reports whether it is certainly sent for the first
// time.
func (f *sentFilter) first(key int64) bool {
	if f.filter.words == nil {
		return false
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	fresh := !f.filter.mayHold(key)
	f.filter.add(key)
	return fresh
}

// loadSent notes every message of the table.
func (db *DB) loadSent(ctx context.Context) error {
	if db.opt.Durability != Relaxed {
		return nil
	}
	db.sent.filter = newContextFilter()
	rows, err := db.read.QueryContext(ctx, `SELECT key FROM sent`)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		var key int64
		if err := rows.Scan(&key); err != nil {
			return err
		}
		db.sent.filter.add(key)
	}
	return rows.Err()
}

// pruneSent forgets messages that were sent before.
func (db *DB) pruneSent(ctx context.Context, before time.Time) (int64, error) {
	return db.pruneAll(ctx, oldSent, before)
}
