package store

import (
	"context"
	"database/sql/driver"
	"strconv"
	"time"

	"github.com/parley-mesh/parley/internal/parley"
)

// pruneBatch is how many rows one transaction deletes, so that calls go on in
// between.
const pruneBatch = 500

// Cutoffs say what is too old to be kept; a zero time keeps all.
type Cutoffs struct {
	Calls  time.Time // ended calls begun before; open ones stay
	Events time.Time // events before, but the newest of each subject stays
	// Tasks: final tasks not updated since, and contexts not used since. A
	// context may stay a day longer, and stays as long as a task in it that is
	// not final.
	Tasks      time.Time
	Unfinished time.Time // tasks that are not final and not updated since; journals without events likewise
	Journal    time.Time // events of tasks before
	Messages   time.Time // ids of messages sent before, but those of open calls stay
	Letters    time.Time // pushes given up before
}

// Pruned counts what a Prune deleted.
type Pruned struct{ Calls, Events, Tasks, Contexts, Frames, Messages int64 }

// Prune deletes what is older than the cutoffs, a few hundred rows at a time.
// Places in the feed are never given again, and the newest event of a subject
// stays so that its sequence goes on. What is deleted leaves the file's pages
// for new rows; the file does not shrink.
func (db *DB) Prune(ctx context.Context, c Cutoffs) (p Pruned, err error) {
	if p.Messages, err = db.pruneSent(ctx, c.Messages); err != nil {
		return p, err
	}
	if p.Calls, err = db.pruneFeed(ctx, oldCalls, c.Calls); err != nil {
		return p, err
	}
	if p.Events, err = db.pruneFeed(ctx, oldEvents, c.Events); err != nil {
		return p, err
	}
	if _, err = db.pruneAll(ctx, oldLetters, c.Letters); err != nil {
		return p, err
	}
	if p.Frames, err = db.pruneFrames(ctx, c.Journal); err != nil {
		return p, err
	}
	if _, err = db.pruneAll(ctx, oldJournals, c.Unfinished); err != nil {
		return p, err
	}
	if p.Tasks, err = db.pruneAll(ctx, oldTasks, c.Tasks); err != nil {
		return p, err
	}
	unfinished, err := db.pruneAll(ctx, oldUnfinishedTasks, c.Unfinished)
	p.Tasks += unfinished
	if err != nil || c.Tasks.IsZero() {
		return p, err
	}
	if err := db.keepContexts(ctx, c.Tasks); err != nil {
		return p, err
	}
	p.Contexts, err = db.pruneAll(ctx, oldContexts, c.Tasks.Add(-contextUse))
	return p, err
}

const (
	oldTasks           = `DELETE FROM tasks WHERE num IN (SELECT num FROM tasks WHERE final = 1 AND updated_at < ? LIMIT ?)`
	oldUnfinishedTasks = `DELETE FROM tasks WHERE num IN (SELECT num FROM tasks WHERE final = 0 AND updated_at < ? LIMIT ?)`
	oldLetters         = `DELETE FROM push_letters WHERE id IN (SELECT id FROM push_letters WHERE died_at < ? LIMIT ?)`
	oldJournals        = `DELETE FROM journals WHERE num IN (SELECT num FROM journals WHERE first_at IS NULL AND updated_at < ? LIMIT ?)`
	oldContexts        = `DELETE FROM contexts WHERE key IN (SELECT key FROM contexts WHERE used_at < ? LIMIT ?)`
)

// taskContext is the context of a task.
type taskContext struct {
	num       int64
	key       contextKey
	principal parley.PrincipalName
}

// keepContexts notes a use, at the cutoff, of the contexts of tasks that are
// not final: whoever may go on with a task must still be the one who owns its
// context. Those of other tasks were used when their task was.
func (db *DB) keepContexts(ctx context.Context, before time.Time) error {
	const op parley.Op = "store.prune"
	for last := int64(0); ; {
		found, err := query(ctx, db, func(row scanner) (c taskContext, err error) {
			err = row.Scan(&c.num, &c.key.agent, &c.key.instance, &c.key.id, &c.principal)
			return c, err
		}, `SELECT num, agent, instance, context_id, principal FROM tasks
			WHERE num > ? AND final = 0 AND context_id <> '' AND updated_at < ? ORDER BY num LIMIT ?`, last, before.UnixMicro(), pruneBatch)
		if err != nil {
			return db.fault(op, "", err)
		}
		if len(found) == 0 {
			return nil
		}
		last = found[len(found)-1].num
		if err := db.w.do(ctx, statements(func(tx *tx) error {
			for _, c := range found {
				if _, err := tx.run(`UPDATE contexts SET used_at = ?1 WHERE key = ?2 AND principal = ?3 AND used_at < ?1`,
					before.UnixMicro(), db.contextHash(c.key), string(c.principal)); err != nil {
					return err
				}
			}
			return nil
		})); err != nil {
			return db.fault(op, "", err)
		}
	}
}

// feedPrune are the statements that prune a table of the feed. Both take the
// cutoff, the size of a window and the place behind which it begins.
type feedPrune struct {
	window string // gives: rows of the window that are old, place of its last row
	delete string
}

var oldCalls = feedPrune{
	window: `SELECT coalesce(sum(CASE WHEN begun_at < ?1 THEN 1 ELSE 0 END), 0), coalesce(max(seq), 0)
		FROM (SELECT seq, begun_at FROM calls WHERE seq > ?3 ORDER BY seq LIMIT ?2) page`,
	delete: `DELETE FROM calls WHERE seq IN (
		SELECT seq FROM (SELECT seq, begun_at, ended_at FROM calls WHERE seq > ?3 ORDER BY seq LIMIT ?2) c
		WHERE begun_at < ?1 AND ended_at IS NOT NULL)`,
}

var oldEvents = feedPrune{
	window: `SELECT coalesce(sum(CASE WHEN time < ?1 THEN 1 ELSE 0 END), 0), coalesce(max(seq), 0)
		FROM (SELECT seq, time FROM events WHERE seq > ?3 ORDER BY seq LIMIT ?2) page`,
	delete: `DELETE FROM events WHERE seq IN (
		SELECT seq FROM (SELECT seq, time, subject, subject_seq FROM events WHERE seq > ?3 ORDER BY seq LIMIT ?2) e
		WHERE time < ?1 AND EXISTS (SELECT 1 FROM events n WHERE n.subject = e.subject AND n.subject_seq > e.subject_seq))`,
}

// pruneFeed walks a table of the feed from its oldest row, in windows, and
// stops at the first window that holds nothing old: places lie in order of
// time.
func (db *DB) pruneFeed(ctx context.Context, s feedPrune, before time.Time) (deleted int64, err error) {
	const op parley.Op = "store.prune"
	if before.IsZero() {
		return 0, nil
	}
	for from := int64(0); ; {
		var old, last, n int64
		if err := db.read.QueryRowContext(ctx, s.window, before.UnixMicro(), pruneBatch, from).Scan(&old, &last); err != nil {
			return deleted, db.fault(op, "", err)
		}
		if old == 0 {
			return deleted, nil
		}
		if err := db.w.do(ctx, statements(func(tx *tx) (err error) {
			if n, err = tx.run(s.delete, before.UnixMicro(), int64(pruneBatch), from); err != nil || n == 0 {
				return err
			}
			return tx.rememberSeq()
		})); err != nil {
			return deleted, db.fault(op, "", err)
		}
		deleted += n
		from = last
	}
}

// pruneAll deletes in batches until nothing is left to delete.
func (db *DB) pruneAll(ctx context.Context, sql string, before time.Time) (deleted int64, err error) {
	if before.IsZero() {
		return 0, nil
	}
	for {
		var n int64
		if err := db.w.do(ctx, statements(func(tx *tx) (err error) {
			n, err = tx.run(sql, before.UnixMicro(), int64(pruneBatch))
			return err
		})); err != nil {
			return deleted, db.fault("store.prune", "", err)
		}
		if deleted += n; n < pruneBatch {
			return deleted, nil
		}
	}
}

// rememberSeq keeps the last place of the feed, in case the row that has it is
// deleted.
func (t *tx) rememberSeq() error {
	if t.db.pg != nil {
		return nil // the feed's row has it
	}
	_, err := t.run(`INSERT INTO meta (name, value) VALUES ('last_seq', ?)
		ON CONFLICT (name) DO UPDATE SET value = excluded.value`, driver.Value(strconv.FormatInt(t.seq, 10)))
	return err
}

// pruneFrames removes old events of tasks, from the oldest of each journal on.
func (db *DB) pruneFrames(ctx context.Context, before time.Time) (deleted int64, err error) {
	const op parley.Op = "store.prune"
	if before.IsZero() {
		return 0, nil
	}
	for {
		nums, err := query(ctx, db, func(row scanner) (num int64, err error) {
			err = row.Scan(&num)
			return num, err
		}, `SELECT num FROM journals WHERE first_at < ? LIMIT ?`, before.UnixMicro(), pruneBatch)
		if err != nil || len(nums) == 0 {
			return deleted, db.fault(op, "", err)
		}
		round := int64(0)
		for _, num := range nums {
			var n int64
			if err := db.w.do(ctx, statements(func(tx *tx) (err error) {
				n, err = tx.pruneJournal(num, before)
				return err
			})); err != nil {
				return deleted, db.fault(op, "", err)
			}
			round += n
		}
		if deleted += round; round == 0 {
			return deleted, nil // what is left says that it is old, and is not
		}
	}
}

// pruneJournal removes a few hundred of a journal's oldest events, those before.
func (t *tx) pruneJournal(num int64, before time.Time) (int64, error) {
	var row [1]driver.Value
	found, err := t.first(row[:], t.db.locking(`SELECT first_seq FROM journals WHERE num = ?`), num)
	if err != nil || !found {
		return 0, err
	}
	first := row[0].(int64)
	if _, err := t.first(row[:], `SELECT coalesce(max(seq), 0) FROM (SELECT seq, at FROM frames WHERE journal = ? ORDER BY seq LIMIT ?) page WHERE at < ?`,
		num, int64(pruneBatch), before.UnixMicro()); err != nil {
		return 0, err
	}
	keep := row[0].(int64) + 1
	if keep <= first {
		return 0, nil
	}
	return keep - first, t.cut(num, keep)
}
