package store

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"slices"
	"time"

	"github.com/parley-mesh/parley/internal/call"
	"github.com/parley-mesh/parley/internal/parley"
)

// requestsFor is how long a request of one replica to another is kept.
const requestsFor = 10 * time.Minute

// adopt makes the open calls of processes that are dead this one's. A replica is
// dead once its time has passed, or when it has left; nobody else gets the same
// calls. A replica inside a transaction is not dead, and is looked at again.
func (db *DB) adopt(ctx context.Context) (records []*call.Record, err error) {
	ctx, l := db.read.look(ctx)
	defer l.end()
	tx, err := db.read.BeginTx(ctx, nil)
	if err != nil {
		return nil, l.fault(err)
	}
	defer func() {
		if err != nil {
			err = errors.Join(l.fault(err), tx.Rollback())
		}
	}()
	if _, err := tx.ExecContext(ctx, `DELETE FROM replicas WHERE id IN (
		SELECT id FROM replicas WHERE expires_at < `+pgNow+` ORDER BY id FOR UPDATE SKIP LOCKED)`); err != nil {
		return nil, err
	}
	found, err := tx.QueryContext(ctx, `UPDATE calls SET replica = $1 WHERE ended_at IS NULL AND replica <> $1
		AND NOT EXISTS (SELECT 1 FROM replicas r WHERE r.id = calls.replica) RETURNING `+callColumns, db.pg.id.Load())
	if err != nil {
		return nil, err
	}
	if records, err = adopted(found); err != nil {
		return nil, err
	}
	if records, err = db.doubted(ctx, tx, records); err != nil {
		return nil, err
	}
	if err := tx.Commit(); err != nil {
		// It may have been one all the same: then these are this replica's, and
		// nobody has them in memory.
		for _, r := range records {
			db.pg.doubtful = append(db.pg.doubtful, r.ID)
		}
		return nil, err
	}
	db.pg.doubtful = nil
	for _, r := range records {
		db.live.begun(r, byID)
	}
	return records, nil
}

// doubted adds the calls of an adoption whose commit ended with an error and has
// been one.
func (db *DB) doubted(ctx context.Context, tx *sql.Tx, records []*call.Record) ([]*call.Record, error) {
	for _, id := range db.pg.doubtful {
		if slices.ContainsFunc(records, func(r *call.Record) bool { return r.ID == id }) {
			continue
		}
		r, err := scanCall(tx.QueryRowContext(ctx, `SELECT `+callColumns+` FROM calls WHERE id = $1 AND replica = $2 AND ended_at IS NULL`, id[:], db.pg.id.Load()))
		switch {
		case errors.Is(err, sql.ErrNoRows): // it ended, or another replica has it
		case err != nil:
			return nil, err
		default:
			records = append(records, r)
		}
	}
	return records, nil
}

func adopted(found *sql.Rows) (records []*call.Record, err error) {
	defer func() { err = errors.Join(err, found.Close()) }()
	for found.Next() {
		r, err := scanCall(found)
		if err != nil {
			return nil, err
		}
		records = append(records, r)
	}
	return records, found.Err()
}

// sweep adopts what dead replicas left, once somebody takes it, and forgets
// requests that nobody answered.
func (p *postgres) sweep(ctx context.Context) error {
	p.mu.Lock()
	heed := p.heed
	p.mu.Unlock()
	if heed.Adopted == nil {
		return nil
	}
	if _, err := p.pulse.conn.Exec(ctx, `DELETE FROM requests WHERE asked_at < `+pgNow+` - $1`, requestsFor.Microseconds()); err != nil {
		return away(err)
	}
	records, err := p.db.adopt(ctx)
	if err != nil || len(records) == 0 {
		return err
	}
	unknown, err := p.db.endUnknown(ctx, records, p.db.opt.Now())
	p.db.opt.Log.Warn("open calls of a replica that is gone are this one's now", "count", len(records), "unknown", unknown)
	var tasks []*call.Record
	for _, r := range records {
		if r.TaskID != "" {
			tasks = append(tasks, r)
		}
	}
	if len(tasks) > 0 {
		heed.Adopted(tasks)
	}
	return err
}

// Kinds of requests.
const (
	askCancel = "cancel"
	askLook   = "look"
)

// CancelElsewhere asks the replica that has an open call to cancel it, and waits
// for its answer. Errors: parley.NotFound where no replica has it open, that of
// the other's Cancel, or parley.Timeout where it does not answer before ctx ends.
func (db *DB) CancelElsewhere(ctx context.Context, id parley.CallID) error {
	const op parley.Op = "store.cancel_elsewhere"
	subject := parley.Subject(id.String())
	notOpen := parley.E(op, parley.NotFound, subject, "call "+id.String()+" is not open", nil)
	if db.pg == nil {
		return notOpen
	}
	var num int64
	err := db.w.do(ctx, statements(func(tx *tx) error {
		var dest [1]driver.Value
		found, err := tx.first(dest[:], `INSERT INTO requests (replica, kind, call, agent, instance, task, asked_at, done, problem)
		SELECT replica, '`+askCancel+`', id, '', '', '', `+pgNow+`, 0, '' FROM calls
		WHERE id = ? AND ended_at IS NULL AND replica IS NOT NULL RETURNING num`, id[:])
		if err == nil && !found {
			err = notOpen
		}
		num, _ = dest[0].(int64)
		return err
	}))
	if err != nil {
		return db.fault(op, subject, err)
	}
	p := db.pg
	for {
		p.mu.Lock()
		beat := p.beats
		p.mu.Unlock()
		p.kick()
		var done int64
		var problem string
		if err := db.read.QueryRowContext(ctx, `SELECT done, problem FROM requests WHERE num = ?`, num).Scan(&done, &problem); err != nil {
			return db.fault(op, subject, err)
		}
		switch {
		case done == answered && problem == "":
			return nil
		case done == answered:
			return parley.E(op, parley.AgentFailed, subject, problem, nil)
		}
		select {
		case <-ctx.Done():
			return parley.E(op, parley.Timeout, subject, "the replica that has the call did not answer in time", ctx.Err())
		case <-beat:
		}
	}
}

// LookElsewhere tells the other replicas whose open calls wait for a task that
// the index has its final state. What was settled before is in the same
// transaction or an earlier one: whoever is told finds it. Nobody waits for it,
// and a hint that is lost costs a look at the agent.
func (db *DB) LookElsewhere(key call.TaskKey) error {
	if db.pg == nil || storable([]any{key.ID}) != nil { // no row has such an id
		return nil
	}
	err := db.w.later(statements(func(tx *tx) error {
		_, err := tx.run(`INSERT INTO requests (replica, kind, agent, instance, task, asked_at, done, problem)
			SELECT DISTINCT replica, '`+askLook+`', agent, coalesce(instance, ''), task_id, `+pgNow+`, 0, '' FROM calls
			WHERE task_id = ? AND agent = ? AND coalesce(instance, '') = ? AND ended_at IS NULL AND replica <> ?`,
			key.ID, string(key.Agent), key.Instance, db.pg.id.Load())
		return err
	}))
	return db.fault("store.look_elsewhere", parley.Subject(key.ID), err)
}

// States of a request.
const (
	answered = 1
	taken    = 2
)

// maxAnswers is how many requests are taken up at once.
const maxAnswers = 64

// answer takes up what other replicas ask of this one.
// life is that of the loops: what is taken up ends with them.
func (p *postgres) answer(ctx, life context.Context, heed Heed) error {
	if heed.Cancel == nil || heed.Look == nil {
		return nil
	}
	rows, err := p.pulse.conn.Query(ctx, `UPDATE requests SET done = $2 WHERE num IN (
		SELECT num FROM requests WHERE replica = $1 AND done = 0 ORDER BY num LIMIT $3)
		RETURNING num, kind, call, agent, instance, task`, p.id.Load(), taken, maxAnswers)
	if err != nil {
		return err
	}
	type request struct {
		num  int64
		kind string
		id   parley.CallID
		key  call.TaskKey
	}
	var asked []request
	for rows.Next() {
		var r request
		var id []byte
		if err := rows.Scan(&r.num, &r.kind, &id, &r.key.Agent, &r.key.Instance, &r.key.ID); err != nil {
			rows.Close()
			return err
		}
		copy(r.id[:], id)
		asked = append(asked, r)
	}
	if err := rows.Err(); err != nil {
		return err
	}
	for _, r := range asked {
		p.done.Go(func() { // ends with its own deadline, or with the loops
			ctx, cancel := context.WithTimeout(life, answerTimeout)
			defer cancel()
			if r.kind == askLook {
				heed.Look(ctx, r.key)
				return
			}
			problem := ""
			if err := heed.Cancel(ctx, r.id); err != nil {
				problem = parley.PublicMessage(err)
			}
			if _, err := p.db.read.ExecContext(ctx, `UPDATE requests SET done = $2, problem = $3 WHERE num = $1`, r.num, answered, plain(problem)); err != nil {
				p.db.opt.Log.Warn("another replica's request is not answered", "call", r.id, "err", err)
				return
			}
			p.kick()
		})
	}
	return nil
}

// answerTimeout bounds what one replica does for another at once.
const answerTimeout = 30 * time.Second
