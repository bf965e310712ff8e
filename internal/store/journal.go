package store

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"strconv"
	"sync"
	"time"

	"github.com/parley-mesh/parley/internal/call"
	"github.com/parley-mesh/parley/internal/parley"
	"github.com/parley-mesh/parley/internal/stream"
	"github.com/parley-mesh/parley/internal/vault"
)

// journalsKnown bounds how many journals are known by heart; the others cost a
// read at their next entry.
const journalsKnown = 16384

// journals is what this process knows of the journals it writes, and who waits
// for news of which.
type journals struct {
	mu       sync.Mutex
	known    map[call.TaskKey]journalEnd                 // guarded by mu
	watchers map[call.TaskKey]map[chan struct{}]struct{} // guarded by mu
	seen     map[call.TaskKey]int64                      // guarded by mu; of watched ones, the last number that was told
}

// journalEnd is where the next frame goes, once what is handed over is written.
type journalEnd struct{ num, last int64 }

func newJournals() *journals {
	return &journals{
		known:    map[call.TaskKey]journalEnd{},
		watchers: map[call.TaskKey]map[chan struct{}]struct{}{}, seen: map[call.TaskKey]int64{},
	}
}

// reserve gives the place of n frames, as far as is known.
func (j *journals) reserve(key call.TaskKey, n int) journalEnd {
	j.mu.Lock()
	defer j.mu.Unlock()
	end, ok := j.known[key]
	if ok {
		j.known[key] = journalEnd{end.num, end.last + int64(n)}
	}
	return end
}

// learn notes where a journal ends; a zero end forgets it.
func (j *journals) learn(key call.TaskKey, end journalEnd) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if end.num == 0 {
		delete(j.known, key)
		return
	}
	if known, ok := j.known[key]; ok && known.num == end.num && known.last >= end.last {
		return // more is handed over
	}
	if len(j.known) >= journalsKnown {
		for other := range j.known {
			delete(j.known, other)
			break
		}
	}
	j.known[key] = end
}

// entry is the work of writing frames.
type entry struct {
	db *DB
	stream.Entry
	at     time.Time
	base   journalEnd // under which the frames are sealed
	sealed [][]byte
	size   int64
	end    journalEnd // once written
}

func framePlace(key call.TaskKey, seq int64) vault.Place {
	return vault.Place{Table: "frames", Row: string(key.Agent) + "\x00" + key.Instance + "\x00" + key.ID + "\x00" + strconv.FormatInt(seq, 10), Column: "frame"}
}

// seal seals the frames for the places behind base.
func (e *entry) seal(ctx context.Context, base journalEnd) error {
	e.base, e.size = base, 0
	e.sealed = e.sealed[:0]
	for i, frame := range e.Frames {
		sealed, err := e.db.vault.Seal(ctx, e.Owner, framePlace(e.Task, base.last+int64(i)+1), frame)
		if err != nil {
			return err
		}
		e.sealed = append(e.sealed, sealed)
		e.size += int64(len(sealed))
	}
	return nil
}

const (
	makeJournal = `INSERT INTO journals (agent, instance, task, first_seq, last_seq, bytes_in, bytes_out, updated_at)
		VALUES (?,?,?,1,0,0,0,?) ON CONFLICT (agent, instance, task) DO NOTHING`
	selectJournal = `SELECT num, first_seq, last_seq, bytes_in, bytes_out, source FROM journals WHERE agent = ? AND instance = ? AND task = ?`
	// extendJournal takes the events and bytes added, the time twice, the new
	// source and its holder, or NULL for the old ones, the row and where it ends.
	extendJournal = `UPDATE journals SET last_seq = last_seq + ?, bytes_in = bytes_in + ?, updated_at = ?,
		first_at = coalesce(first_at, ?), source = coalesce(?, source), holder = coalesce(?, holder) WHERE num = ? AND last_seq = ?`
	insertFrame = `INSERT INTO frames (journal, seq, at, owner, total, frame) VALUES (?,?,?,?,?,?)`
	// insertPipedFrame goes behind extendJournal, which has added the bytes of all
	// frames: it takes the place, the time, the owner, the bytes of the frames
	// behind this one, the frame, the journal, and where that ends now.
	insertPipedFrame = `INSERT INTO frames (journal, seq, at, owner, total, frame)
		SELECT num, CAST(? AS bigint), CAST(? AS bigint), CAST(? AS text), bytes_in - CAST(? AS bigint), CAST(? AS bytea) FROM journals WHERE num = ? AND last_seq = ?`
)

func (e *entry) write(tx *tx) error {
	key := []driver.Value{string(e.Task.Agent), e.Task.Instance, e.Task.ID}
	var row [6]driver.Value
	found, err := tx.first(row[:], tx.db.locking(selectJournal), key...)
	if err == nil && !found {
		if _, err := tx.run(makeJournal, append(key[:3:3], micros(e.at))...); err != nil {
			return err
		}
		_, err = tx.first(row[:], tx.db.locking(selectJournal), key...)
	}
	if err != nil {
		return err
	}
	base := journalEnd{row[0].(int64), row[2].(int64)}
	first, in, out := row[1].(int64), row[3].(int64), row[4].(int64)
	if source, _ := row[5].([]byte); !e.Take && !e.Source.IsZero() && source != nil && string(source) != string(e.Source[:]) {
		return parley.E("store.append", parley.Conflict, parley.Subject(e.Task.ID), "another stream of the task feeds its journal now", nil)
	}
	if base != e.base {
		if err := e.seal(context.Background(), base); err != nil {
			return err
		}
	}
	if _, err := tx.run(extendJournal, e.extension()...); err != nil {
		return err
	}
	for i, sealed := range e.sealed {
		in += int64(len(sealed))
		if _, err := tx.run(insertFrame, base.num, base.last+int64(i)+1, micros(e.at), string(e.Owner), in, sealed); err != nil {
			return err
		}
	}
	e.end = journalEnd{base.num, base.last + int64(len(e.sealed))}
	return tx.trim(e.end, first, in, out, tx.db.opt.Journal)
}

// extension are the values of extendJournal.
func (e *entry) extension() []driver.Value {
	var source, holder driver.Value
	if e.Take {
		source, holder = e.Source[:], e.db.holder()
	}
	return []driver.Value{int64(len(e.sealed)), e.size, micros(e.at), micros(e.at), source, holder, e.base.num, e.base.last}
}

// trim removes the oldest frames of a journal over its limits. It leaves room for
// an eighth, so that it seldom has to.
func (t *tx) trim(end journalEnd, first, in, out int64, limits stream.Limits) error {
	events, size := int64(limits.Events), int64(limits.Bytes)
	if end.last-first+1 <= events && in-out <= size {
		return nil
	}
	from := max(first, end.last-(events-events/8)+1)
	if in-out > size {
		var row [1]driver.Value
		// The frame whose bytes, with all before it, are what has to go.
		if _, err := t.first(row[:], `SELECT coalesce(min(seq), 0) FROM frames WHERE journal = ? AND total >= ?`, end.num, in-(size-size/8)); err != nil {
			return err
		}
		from = max(from, row[0].(int64)+1)
	}
	return t.cut(end.num, min(from, end.last))
}

// cut removes the frames of a journal before the one that is the first then.
func (t *tx) cut(num, first int64) error {
	if _, err := t.run(`DELETE FROM frames WHERE journal = ? AND seq < ?`, num, first); err != nil {
		return err
	}
	_, err := t.run(`UPDATE journals SET first_seq = ?1,
		bytes_out = coalesce((SELECT total - length(frame) FROM frames WHERE journal = ?2 AND seq = ?1), bytes_in),
		first_at = (SELECT at FROM frames WHERE journal = ?2 AND seq = ?1) WHERE num = ?2`, first, num)
	return err
}

// pipe implements piped where the end of the journal is known. What would have to
// be trimmed, or belongs to another source, changes no row and is written alone.
func (e *entry) pipe(q *pipeline) bool {
	if e.base.num == 0 {
		return false
	}
	n, limits := int64(len(e.sealed)), e.db.opt.Journal
	statement, values := extendJournal+` AND last_seq - first_seq + 1 + ? <= ? AND bytes_in - bytes_out + ? <= ?`,
		append(e.extension(), n, int64(limits.Events), e.size, int64(limits.Bytes))
	if !e.Take && !e.Source.IsZero() {
		statement, values = statement+` AND (source IS NULL OR source = ?)`, append(values, e.Source[:])
	}
	q.add(statement, values...)
	behind := e.size
	for i, sealed := range e.sealed {
		behind -= int64(len(sealed))
		q.add(insertPipedFrame, e.base.last+int64(i)+1, micros(e.at), string(e.Owner), behind, sealed, e.base.num, e.base.last+n)
	}
	return true
}

func (e *entry) wasWritten() { e.end = journalEnd{e.base.num, e.base.last + int64(len(e.sealed))} }

func (e *entry) ended(err error) {
	if err != nil {
		e.db.journals.learn(e.Task, journalEnd{})
		e.Done(0, e.db.fault("store.append", parley.Subject(e.Task.ID), err))
		return
	}
	e.db.journals.learn(e.Task, e.end)
	e.Done(e.end.last, nil)
	e.db.journals.wake(e.Task)
	e.db.opt.Journaled(e.Task)
}

// Append adds frames to the journal of a task and gives the number of the last
// one. They are durable when it returns; after an error they may be there or not.
// An empty journal gives its last number as it is. Errors: those of the writer.
func (db *DB) Append(ctx context.Context, key call.TaskKey, owner parley.OwnerName, frames ...[]byte) (last int64, err error) {
	if len(frames) == 0 {
		_, last, err = db.Bounds(ctx, key)
		return last, err
	}
	type outcome struct {
		last int64
		err  error
	}
	done := make(chan outcome, 1)
	db.AppendLater(ctx, stream.Entry{Task: key, Owner: owner, Frames: frames, Done: func(last int64, err error) { done <- outcome{last, err} }})
	select {
	case o := <-done:
		return o.last, o.err
	case <-ctx.Done():
		return 0, ctx.Err()
	}
}

// AppendLater hands an entry over and returns at once. Entries of one task are
// written in the order of handing over, and none after one that failed was told
// of its failure before. Errors, through Done: parley.Conflict where another
// source feeds the journal, those of the writer else.
func (db *DB) AppendLater(ctx context.Context, k stream.Entry) {
	e := &entry{db: db, Entry: k, at: db.opt.Now()}
	// Also for a journal that is not known, where it is sealed once more: the owner's
	// key, which may have to be made, is then there. The writer cannot make it.
	err := e.seal(ctx, db.journals.reserve(k.Task, len(k.Frames)))
	if err == nil {
		err = db.w.add(&job{work: e, done: make(chan error, 1)})
	}
	if err != nil {
		e.ended(err)
	}
}

// afterBytes is about how many bytes of frames one After gives at most. A
// subscriber that is slow holds what it was given until it has taken it, and there
// may be thousands.
const afterBytes = 64 << 10

// After gives the events of a task behind a number, in order: max of them or, where
// those are large, fewer, but at least one if there is one. The first one's number
// tells whether some are missing, which retention has removed.
func (db *DB) After(ctx context.Context, key call.TaskKey, seq int64, max int) (events []stream.Event, err error) {
	const op parley.Op = "store.after"
	rows, err := db.read.QueryContext(ctx, `SELECT f.seq, f.at, f.owner, f.frame FROM journals j JOIN frames f ON f.journal = j.num
		WHERE j.agent = ? AND j.instance = ? AND j.task = ? AND f.seq > ? ORDER BY f.seq LIMIT ?`,
		string(key.Agent), key.Instance, key.ID, seq, page(max))
	if err != nil {
		return nil, db.fault(op, parley.Subject(key.ID), err)
	}
	defer func() { err = db.fault(op, parley.Subject(key.ID), errors.Join(err, rows.Close())) }()
	for size := 0; size < afterBytes && rows.Next(); {
		var e stream.Event
		var owner parley.OwnerName
		var sealed []byte
		if err := rows.Scan(&e.Seq, timeColumn{&e.At}, &owner, &sealed); err != nil {
			return nil, err
		}
		if e.Frame, err = db.vault.Open(ctx, owner, framePlace(key, e.Seq), sealed); err != nil {
			return nil, err
		}
		size += len(e.Frame)
		events = append(events, e)
	}
	return events, rows.Err()
}

// Bounds gives the numbers of the oldest event that is kept of a task and of the
// newest; both are 0 where there never was one. Where all were removed, first is
// last + 1.
func (db *DB) Bounds(ctx context.Context, key call.TaskKey) (first, last int64, err error) {
	err = db.read.QueryRowContext(ctx, `SELECT first_seq, last_seq FROM journals WHERE agent = ? AND instance = ? AND task = ?`,
		string(key.Agent), key.Instance, key.ID).Scan(&first, &last)
	if errors.Is(err, sql.ErrNoRows) {
		return 0, 0, nil
	}
	return first, last, db.fault("store.bounds", parley.Subject(key.ID), err)
}

// holder names this replica in journals; 0 where it is the only one.
func (db *DB) holder() int64 {
	if db.pg == nil {
		return 0
	}
	return db.pg.id.Load()
}

// Release notes that a source feeds a task's journal no more. Nobody waits for it.
func (db *DB) Release(key call.TaskKey, source parley.CallID) error {
	return db.w.later(statements(func(tx *tx) error {
		_, err := tx.run(`UPDATE journals SET source = NULL, holder = NULL WHERE agent = ? AND instance = ? AND task = ? AND source = ?`,
			string(key.Agent), key.Instance, key.ID, source[:])
		return err
	}))
}

// FedElsewhere tells whether another replica that lives has the exchange that feeds
// a task's journal.
func (db *DB) FedElsewhere(ctx context.Context, key call.TaskKey) (bool, error) {
	if db.pg == nil {
		return false, nil
	}
	var n int64
	err := db.read.QueryRowContext(ctx, `SELECT count(*) FROM journals j JOIN replicas r ON r.id = j.holder
		WHERE j.agent = ? AND j.instance = ? AND j.task = ? AND j.source IS NOT NULL AND r.id <> ? AND r.expires_at >= `+pgNow,
		string(key.Agent), key.Instance, key.ID, db.pg.id.Load()).Scan(&n)
	return n > 0, db.fault("store.fed_elsewhere", parley.Subject(key.ID), err)
}
