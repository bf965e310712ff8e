package store

import (
	"context"
	"database/sql/driver"
	"time"

	"github.com/parley-mesh/parley/internal/parley"
	"github.com/parley-mesh/parley/internal/vault"
)

// answersMax is how many answers of one principal are kept; the oldest go first.
const answersMax = 1000

func answerPlace(principal parley.PrincipalName, key string) vault.Place {
	return vault.Place{Table: "answers", Row: string(principal) + "\x00" + key, Column: "answer"}
}

// ClaimAnswer begins a write of the principal under a key of its own. Where
// nobody has, or what was kept is older than now, it is the caller's until the
// time until, at all replicas, and claimed is true. Else it gives the hash of the
// request that had the key first, and its answer; nil while that is under way.
func (db *DB) ClaimAnswer(ctx context.Context, principal parley.PrincipalName, owner parley.OwnerName, key string, request [32]byte, now, until time.Time) (claimed bool, first [32]byte, answer []byte, err error) {
	const op parley.Op = "store.claim_answer"
	subject := parley.Subject(principal)
	type claim struct {
		claimed bool
		owner   parley.OwnerName
		request [32]byte
		sealed  []byte
	}
	known, err := outcome(ctx, db.w, func(tx *tx) (c claim, err error) {
		if _, err := tx.run(`DELETE FROM answers WHERE until_at < ?`, micros(now)); err != nil {
			return c, err
		}
		if _, err := tx.run(`DELETE FROM answers WHERE principal = ? AND until_at <= coalesce((
			SELECT until_at FROM answers WHERE principal = ? ORDER BY until_at DESC LIMIT 1 OFFSET ?), 0)`,
			string(principal), string(principal), int64(answersMax)); err != nil {
			return c, err
		}
		n, err := tx.run(`INSERT INTO answers (principal, key, owner, request, until_at) VALUES (?,?,?,?,?)
			ON CONFLICT (principal, key) DO NOTHING`, string(principal), key, string(owner), request[:], micros(until))
		if c.claimed = n > 0; c.claimed || err != nil {
			return c, err
		}
		var row [3]driver.Value
		if _, err := tx.first(row[:], `SELECT owner, request, answer FROM answers WHERE principal = ? AND key = ?`, string(principal), key); err != nil {
			return c, err
		}
		text, _ := row[0].(string)
		hash, _ := row[1].([]byte)
		c.owner = parley.OwnerName(text)
		c.sealed, _ = row[2].([]byte)
		copy(c.request[:], hash)
		return c, nil
	})
	if known.sealed != nil {
		answer, err = db.vault.Open(ctx, known.owner, answerPlace(principal, key), known.sealed)
	}
	return known.claimed, known.request, answer, db.fault(op, subject, err)
}

// KeepAnswer keeps the answer to a claimed write, sealed, until that time.
func (db *DB) KeepAnswer(ctx context.Context, principal parley.PrincipalName, owner parley.OwnerName, key string, answer []byte, until time.Time) error {
	const op parley.Op = "store.keep_answer"
	sealed, err := db.vault.Seal(ctx, owner, answerPlace(principal, key), answer)
	if err == nil {
		err = db.w.do(ctx, statements(func(tx *tx) error {
			_, err := tx.run(`UPDATE answers SET answer = ?, until_at = ? WHERE principal = ? AND key = ?`, sealed, micros(until), string(principal), key)
			return err
		}))
	}
	return db.fault(op, parley.Subject(principal), err)
}

// DropAnswer gives a claim back: the write may be tried again under its key.
func (db *DB) DropAnswer(ctx context.Context, principal parley.PrincipalName, key string) error {
	return db.fault("store.drop_answer", parley.Subject(principal), db.w.do(ctx, statements(func(tx *tx) error {
		_, err := tx.run(`DELETE FROM answers WHERE principal = ? AND key = ? AND answer IS NULL`, string(principal), key)
		return err
	})))
}
