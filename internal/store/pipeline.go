package store

import (
	"database/sql/driver"

	"github.com/jackc/pgx/v5"
)

// piped is work whose statements need not be answered one by one. On PostgreSQL
// those of a whole batch go to the server in one message: the way there and back
// costs more than most statements.
type piped interface {
	// pipe adds the statements, each of which must change one row for the work to
	// be done. Where it reports false it has added none, and write does the work.
	pipe(q *pipeline) bool
}

// pipeline is statements to be sent together.
type pipeline struct {
	tx    *tx
	conn  *pgConn
	batch pgx.Batch
	err   error
}

func (q *pipeline) add(statement string, args ...driver.Value) {
	text, values, err := q.conn.prepare(statement, args)
	if err != nil {
		q.err = err
		return
	}
	q.batch.Queue(text, append([]any(nil), values...)...)
}

// pipe sends what can be sent together. done tells which jobs are written; the
// others have changed nothing. It reports false where a job was done by halves,
// or a statement has failed: then the transaction must be begun anew, and job by
// job.
func (t *tx) pipe(jobs []*job) (done []bool, ok bool, err error) {
	done = make([]bool, len(jobs))
	c, pg := t.conn.(*pgConn)
	if !pg || t.single || len(jobs) < 2 {
		return done, true, nil
	}
	q := &pipeline{tx: t, conn: c}
	counts := make([]int, len(jobs)) // statements of each job
	for i, j := range jobs {
		k, can := j.work.(piped)
		if !can {
			continue
		}
		before := q.batch.Len()
		if k.pipe(q) && q.err == nil {
			counts[i] = q.batch.Len() - before
			continue
		}
		q.batch.QueuedQueries = q.batch.QueuedQueries[:before]
		q.err = nil
	}
	if q.batch.Len() == 0 {
		return done, true, nil
	}
	results := c.raw.SendBatch(c.ctx, &q.batch)
	defer results.Close()
	ok = true
	for i := range jobs {
		changed := 0
		for range counts[i] {
			tag, err := results.Exec()
			if err != nil {
				return done, false, t.pipeFailed(err)
			}
			if tag.RowsAffected() == 1 {
				changed++
			}
		}
		done[i] = counts[i] > 0 && changed == counts[i]
		ok = ok && (changed == 0 || done[i])
	}
	if err := results.Close(); err != nil {
		return done, false, t.pipeFailed(err)
	}
	if ok {
		for i, j := range jobs {
			if done[i] {
				j.err = nil
				j.work.(interface{ wasWritten() }).wasWritten()
			}
		}
	}
	return done, ok, nil
}

// pipeFailed gives the errors that every other attempt would run into as well.
// Any other one is of a single job, and told when that is tried by itself.
func (t *tx) pipeFailed(err error) error {
	if err = away(err); surroundings(err) || collided(err) {
		return err
	}
	return nil
}

// claimContext writes that a principal uses a context; it changes no row where
// that belongs to another.
const claimContext = `INSERT INTO contexts (key, principal, used_at) VALUES (?,?,?)
	ON CONFLICT (key) DO UPDATE SET used_at = greatest(contexts.used_at, excluded.used_at)
	WHERE contexts.principal = excluded.principal`

func (b *begin) pipe(q *pipeline) bool {
	r := &b.record
	if b.left.Load() || b.written || b.use.wrote || b.db.uses.wants(r.Agent, r.Begun) {
		return false
	}
	if r.ContextID != "" && b.db.gone[r.Caller] != nil {
		return false
	}
	if r.Sent != nil {
		q.add(claimSent, sentValues(b.sent, r)...)
	}
	if r.ContextID != "" {
		q.add(claimContext, b.context, string(r.Caller), b.now.UnixMicro())
	}
	q.add(b.db.sql.insertCall, append(beginColumns(r), b.db.pg.id.Load())...)
	return true
}

func (b *begin) wasWritten() { b.written = true }

func (k *settlement) pipe(q *pipeline) bool {
	r := k.Record
	claims := k.Task != nil || k.Context != ""
	if k.written || r.Moved || k.Unsent || len(k.Events) > 0 || claims && k.db.gone[r.Caller] != nil {
		return false
	}
	if k.Insert && !k.Refusal && (k.use.wrote || k.db.uses.wants(r.Agent, r.Begun)) {
		return false
	}
	if k.Task != nil {
		q.add(upsertTask, taskValues(k.Task, k.snapshot)...)
	}
	if k.Context != "" {
		q.add(claimContext, k.context, string(r.Caller), k.now.UnixMicro())
	}
	switch {
	case k.Insert && r.Open():
		q.add(k.db.sql.insertCall, append(beginColumns(r), k.db.pg.id.Load())...)
	case k.Insert:
		q.add(k.db.sql.insertEndedCall, append(endColumns(beginColumns(r), r), k.db.pg.id.Load())...)
	default:
		statement, values := k.change()
		q.add(statement, values...)
	}
	return true
}

func (k *settlement) wasWritten() { k.written = true }
