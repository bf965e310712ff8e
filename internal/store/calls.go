package store

import (
	"context"
	"database/sql/driver"
	"errors"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"github.com/parley-mesh/parley/internal/call"
	"github.com/parley-mesh/parley/internal/parley"
)

// beginColumns are the values of callStart.
func beginColumns(r *call.Record) []driver.Value {
	var root, parent, candidates driver.Value
	if r.Root != r.ID && !r.Root.IsZero() {
		root = r.Root[:]
	}
	if !r.Link.Parent.IsZero() {
		parent = r.Link.Parent[:]
	}
	// A call inside its only candidate says so by its parent alone.
	if r.Link.Kind != call.LinkParent || r.Link.Count > 1 {
		candidates = text(r.Link.EncodeCandidates())
	}
	v := make([]driver.Value, 0, 38)
	return append(v,
		r.ID[:], root, string(r.Link.Kind), parent, int64(r.Link.Depth), candidates,
		string(r.Caller), string(r.CallerOwner), text(r.CallerAgent), string(r.Environment),
		string(r.Agent), string(r.AgentOwner), text(r.Instance), plain(r.Method),
		text(r.CallerBinding), text(r.AgentBinding), text(r.Version), text(r.MessageID), text(r.Reference),
		text(r.TraceID), text(r.SpanID), micros(r.Begun), micros(r.Deadline),
		text(r.ContextID), text(r.TaskID), text(r.TaskState))
}

// endColumns are the values of callOver.
func endColumns(v []driver.Value, r *call.Record) []driver.Value {
	return append(v, micros(r.Ended), string(r.Outcome), text(r.Reason), text(r.Detail), int64(r.Status),
		r.BytesIn, r.BytesOut, int64(r.FirstByte), int64(r.Total), text(encodeSteps(r.Steps)))
}

// plain is s as a column of text can keep it in any database: a record that says
// what a caller sent must not fail because of what that was.
func plain(s string) string {
	if strings.IndexByte(s, 0) < 0 && utf8.ValidString(s) {
		return s
	}
	return strings.ReplaceAll(strings.ToValidUTF8(s, "\uFFFD"), "\x00", "\uFFFD")
}

// encodeSteps writes steps as name:nanoseconds, separated by blanks. Names are
// the gateway's own words and hold neither.
func encodeSteps(steps []call.Step) string {
	if len(steps) == 0 {
		return ""
	}
	b := make([]byte, 0, 24*len(steps))
	for i, s := range steps {
		if i > 0 {
			b = append(b, ' ')
		}
		b = append(b, s.Name...)
		b = append(b, ':')
		b = strconv.AppendInt(b, int64(s.Took), 10)
	}
	return string(b)
}

// decodeSteps reads what encodeSteps wrote.
func decodeSteps(s string) []call.Step {
	var steps []call.Step
	for part := range strings.FieldsSeq(s) {
		name, took, _ := strings.Cut(part, ":")
		ns, err := strconv.ParseInt(took, 10, 64)
		if err != nil {
			continue // a step that cannot be read is not worth a record that cannot be
		}
		steps = append(steps, call.Step{Name: name, Took: time.Duration(ns)})
	}
	return steps
}

// begin is the work of Begin.
type begin struct {
	db     *DB
	record call.Record
	seq    int64
	waited bool
	left   atomic.Bool // who waited has given up: the call will not be made
	// written tells of an attempt, which may not have been committed.
	written bool
	// context is the key of the row of record.ContextID, where it has one, and
	// now the time of its use.
	context int64
	now     time.Time
	use     useMark
	sent    int64 // the key of the row of record.Sent, where it has one
}

// errLeft is how a begin ends that nobody waits for any more.
var errLeft = errors.New("whoever began the call has left")

func (b *begin) write(tx *tx) error {
	if b.left.Load() {
		return errLeft
	}
	if err := b.send(tx); err != nil {
		return err
	}
	if err := b.claim(tx); err != nil {
		return err
	}
	if err := b.use.write(tx, &b.db.uses, b.record.Agent, b.record.Begun); err != nil {
		return err
	}
	if b.written { // by an attempt whose commit failed, or seemed to
		var err error
		if b.seq, err = tx.callSeq(b.record.ID); err != nil || b.seq != 0 {
			return err
		}
	}
	v := beginColumns(&b.record)
	if b.db.pg != nil {
		v = append(v, b.db.pg.id.Load())
	} else {
		b.seq = tx.next()
		v = append(v, b.seq)
	}
	err := tx.insertCall(b.db.sql.insertCall, v, "store.begin", b.record.ID)
	b.written = err == nil
	return err
}

// insertCall writes a call's row, or gives a parley.Conflict error where it has
// one.
func (t *tx) insertCall(sql string, values []driver.Value, op parley.Op, id parley.CallID) error {
	n, err := t.run(sql, values...)
	if err == nil && n == 0 {
		return parley.E(op, parley.Conflict, parley.Subject(id.String()), "a call of this id exists", nil)
	}
	return err
}

// row is what live keeps as the call's row, which is not 0.
func (b *begin) row() int64 {
	if b.db.pg != nil {
		return byID
	}
	return b.seq
}

// byID stands for a row that is found by the call's id.
const byID = -1

// claim makes the call's context its caller's, who keeps it while the agent
// works: a rival that asks meanwhile is refused, and not only at the end.
func (b *begin) claim(tx *tx) error {
	r := &b.record
	if r.ContextID == "" {
		return nil
	}
	owner, err := tx.heir(b.db.gone, r.Caller, r.Begun)
	if err != nil {
		return err
	}
	ok, err := tx.useContext(b.context, owner, b.now)
	if err == nil && !ok {
		err = parley.E("store.begin", parley.Denied, parley.Subject(r.ID.String()), "the context belongs to another principal", nil)
	}
	return err
}

func (b *begin) ended(err error) {
	b.use.ended(&b.db.uses, err)
	switch {
	case err != nil && b.waited:
	case errors.Is(err, errGivenUp):
		b.db.live.drop(b.record.ID)
	case err != nil:
		b.db.live.drop(b.record.ID)
		b.db.stats.refused()
		b.db.opt.Log.Error("a call was begun without a record", "call", b.record.ID, "agent", b.record.Agent, "err", err)
	case b.waited:
		b.db.live.begun(&b.record, b.row())
	default:
		b.db.live.place(b.record.ID, b.row())
	}
}

// Begin writes what is known of a call before its request leaves. When it
// returns nil the record is durable, under durability relaxed merely accepted;
// r.Seq is set under strict. The record is copied. After an error the request
// must not leave; the record may still exist, and Settle ends it either way.
//
// The record's ContextID, where it has one, is the caller's from then on, as
// that of a settlement is. Only the commit tells whether it can be, so that
// such a Begin waits for it under durability relaxed as well, and sets r.Seq.
//
// The same goes for a message that the record says to look for, unless it is
// certain that this process alone could have sent it, and has not.
//
// Errors: parley.Unavailable and parley.Exhausted as the package says,
// parley.Conflict where the id is taken, or with a *call.RepeatedError where the
// message was sent before, parley.Denied where the context belongs to another
// principal; then nothing was written.
func (db *DB) Begin(ctx context.Context, r *call.Record) error {
	const op parley.Op = "store.begin"
	b := &begin{db: db, record: *r}
	if r.ContextID != "" {
		b.context, b.now = db.contextHash(contextKey{r.Agent, r.Instance, r.ContextID}), db.opt.Now()
		db.contexts.add(b.context)
	}
	fresh := true
	if r.Sent != nil {
		b.sent = db.sentKey(r)
		fresh = db.sent.first(b.sent)
	}
	b.waited = db.opt.Durability == Strict || r.ContextID != "" || !fresh || db.w.trouble() != nil || db.w.behind(op) != nil
	if !b.waited {
		// The call is open from here on: what it causes may arrive before the
		// commit.
		db.live.begun(&b.record, 0)
		err := db.w.later(b)
		if err != nil {
			db.live.drop(r.ID)
		}
		return db.fault(op, parley.Subject(r.ID.String()), err)
	}
	if err := db.w.do(ctx, b); err != nil {
		b.left.Store(true)
		return db.fault(op, parley.Subject(r.ID.String()), err)
	}
	r.Seq = b.seq
	return nil
}

// settlement is the work of Settle.
type settlement struct {
	db *DB
	call.Settlement
	record   call.Record // a copy, which Settlement.Record points at
	snapshot []byte      // sealed
	waited   bool
	written  bool  // by an attempt, which may not have been committed
	seq      int64 // the record's place as it was handed over, 0 where unknown
	context  int64 // key of Settlement.Context's row
	now      time.Time
	use      useMark
}

// Settle writes what a call leaves behind, in one transaction. With wait it
// returns when that is durable. Without, it joins the next commit, within
// milliseconds, and r.Seq and r.EndSeq stay as they are; the record and the
// task are copied, but what they point at must not be changed afterwards.
//
// Reads of this store see a settlement as soon as Settle was called. A call
// that has no row, because its Begin failed, gets one; the row of a Begin that
// was written after it was given up on is ended, with Insert too. A call that
// has ended stays as it is: parley.Conflict.
//
// A settlement of a refused call, which nobody waits for, is left out where too
// many wait already; that is counted (Stats.Dropped), and no error.
//
// A settlement without a record is what the mesh itself learnt of a task; it is
// always waited for.
//
// A task or context belongs to the principal that first used it. A settlement
// that says otherwise is refused with parley.Denied and changes nothing. Where
// nobody waits for the refusal, the call is ended as a crash with the reason
// foreign_id, since an agent that answers with somebody else's id is one, and
// task, context and events are left out.
func (db *DB) Settle(ctx context.Context, s call.Settlement, wait bool) error {
	const op parley.Op = "store.settle"
	if s.Record == nil {
		return db.saw(ctx, s.Task)
	}
	k := &settlement{db: db, Settlement: s, record: *s.Record, seq: s.Record.Seq, waited: wait, now: db.opt.Now()}
	k.Record = &k.record
	r := k.Record
	subject := parley.Subject(r.ID.String())
	if s.Context != "" {
		k.context = db.contextHash(contextOf(&s))
		db.contexts.add(k.context)
	}
	if s.Task != nil {
		task := *s.Task
		k.Task = &task
		if task.Snapshot != nil {
			// An owner's first seal needs a write. If that fails, the end of
			// the call counts more than the snapshot, which the agent has too.
			sealed, err := db.vault.Seal(ctx, task.Owner, snapshotPlace(task.Key()), task.Snapshot)
			if err != nil {
				db.opt.Log.Warn("a task is kept without its snapshot", "call", r.ID, "agent", r.Agent, "err", err)
			}
			k.snapshot = sealed
		}
	}
	if !db.live.take(&k.Settlement) {
		return foreign(s)
	}
	switch {
	case !wait && s.Refusal:
		taken, err := db.w.laterOrNever(k)
		if !taken {
			db.live.settled(&k.Settlement, errNotTaken)
		}
		return err
	case !wait:
		err := db.w.later(k)
		if err != nil {
			db.live.settled(&k.Settlement, err)
		}
		return err
	}
	if err := db.w.do(ctx, k); err != nil {
		return db.fault(op, subject, err)
	}
	s.Record.Seq, s.Record.EndSeq = k.record.Seq, k.record.EndSeq
	return nil
}

// errNotTaken is how a settlement ends that the writer did not take.
var errNotTaken = errors.New("not taken")

// CanRecord tells whether the record of one more call would be kept of which
// nothing is written before its end: a read. It is nil, or a parley.Unavailable
// error, while too many records wait for the disk.
func (db *DB) CanRecord() error { return db.w.behind("store.can_record") }

func foreign(s call.Settlement) error {
	return foreignTo(parley.Subject(s.Record.ID.String()))
}

func foreignTo(subject parley.Subject) error {
	return parley.E("store.settle", parley.Denied, subject, "the task or context belongs to another principal", nil)
}

// saw writes a task's newest state, as the mesh itself learnt it. It returns
// when that is durable.
func (db *DB) saw(ctx context.Context, t *call.Task) error {
	const op parley.Op = "store.settle"
	subject := parley.Subject(t.ID)
	var sealed []byte
	if t.Snapshot != nil {
		var err error
		if sealed, err = db.vault.Seal(ctx, t.Owner, snapshotPlace(t.Key()), t.Snapshot); err != nil {
			return db.fault(op, subject, err)
		}
	}
	key, now := db.contextHash(contextKey{t.Agent, t.Instance, t.ContextID}), db.opt.Now()
	if t.ContextID != "" {
		db.contexts.add(key)
	}
	return db.fault(op, subject, db.w.do(ctx, statements(func(tx *tx) error {
		ok, err := tx.saveTask(t, sealed)
		if err == nil && !ok {
			err = foreignTo(subject)
		}
		if err == nil && t.ContextID != "" {
			// A context that went to somebody else meanwhile stays there: the
			// task is its owner's all the same.
			_, err = tx.useContext(key, t.Principal, now)
		}
		return err
	})))
}

func (k *settlement) write(tx *tx) error {
	if stands, err := k.stands(tx); stands || err != nil {
		return err
	}
	if err := k.claims(tx); err != nil {
		return err
	}
	if err := k.end(tx); err != nil {
		return err
	}
	if k.Insert && !k.Refusal { // else its begin has left a mark, or it was no use of the agent
		if err := k.use.write(tx, &k.db.uses, k.Record.Agent, k.Record.Begun); err != nil {
			return err
		}
	}
	if k.Unsent {
		if _, err := tx.run(freeSent, k.db.sentKey(k.Record), k.Record.ID[:]); err != nil {
			return err
		}
	}
	k.written = true
	return tx.tell(k.Events)
}

// claims writes the task and the context, where they are the caller's.
func (k *settlement) claims(tx *tx) error {
	if k.Task == nil && k.Context == "" {
		return nil
	}
	owner, err := tx.heir(k.db.gone, k.Record.Caller, k.Record.Begun)
	if err != nil {
		return err
	}
	if k.Task != nil {
		task := *k.Task
		if task.Principal == k.Record.Caller {
			task.Principal = owner
		}
		ok, err := tx.saveTask(&task, k.snapshot)
		if err != nil {
			return err
		}
		if !ok {
			return foreign(k.Settlement)
		}
	}
	if k.Context != "" {
		ok, err := tx.useContext(k.context, owner, k.now)
		if err != nil {
			return err
		}
		if !ok {
			return foreign(k.Settlement)
		}
	}
	return nil
}

// end writes the record: an update of its row, or a row where there is none. A
// row may be there although Begin failed: who waited for it left while it was
// being written.
func (k *settlement) end(tx *tx) error {
	if k.db.pg != nil {
		return k.endByID(tx)
	}
	if !k.Insert {
		seq, err := k.row(tx)
		if err != nil {
			return err
		}
		if seq != 0 {
			return k.update(tx, seq)
		}
	}
	err := k.insert(tx)
	if parley.KindOf(err) != parley.Conflict {
		return err
	}
	seq, findErr := tx.callSeq(k.Record.ID)
	switch {
	case findErr != nil:
		return findErr
	case seq == 0:
		return err
	}
	return k.update(tx, seq)
}

// insert writes the record as a row of its own.
func (k *settlement) insert(tx *tx) error {
	const op parley.Op = "store.settle"
	r := k.Record
	v := beginColumns(r)
	sql := k.db.sql.insertCall
	if !r.Open() {
		v, sql = endColumns(v, r), k.db.sql.insertEndedCall
	}
	if k.db.pg != nil {
		return tx.insertCall(sql, append(v, k.db.pg.id.Load()), op, r.ID)
	}
	r.Seq = tx.next()
	v = append(v, r.Seq)
	if !r.Open() {
		r.EndSeq = tx.next()
		v = append(v, r.EndSeq)
	}
	return tx.insertCall(sql, v, op, r.ID)
}

// endByID is end where rows are found by the call's id and get their places in
// the feed later.
func (k *settlement) endByID(tx *tx) error {
	r := k.Record
	update := func() (int64, error) {
		statement, values := k.change()
		n, err := tx.run(statement, values...)
		if n > 0 && err == nil {
			err = tx.moved(r)
		}
		return n, err
	}
	if !k.Insert {
		if n, err := update(); n > 0 || err != nil {
			return err
		}
	}
	err := k.insert(tx)
	if parley.KindOf(err) != parley.Conflict || err == nil {
		return err
	}
	if n, err := update(); n > 0 || err != nil {
		return err
	}
	return endedBefore(r)
}

// change ends the call's row, or binds it to a task where it goes on, found by the
// call's id.
func (k *settlement) change() (statement string, values []driver.Value) {
	r := k.Record
	v := append(make([]driver.Value, 0, 16), text(r.ContextID), text(r.TaskID), text(r.TaskState))
	if r.Open() {
		return k.db.sql.bindCall, append(v, r.ID[:])
	}
	return k.db.sql.endCall, append(endColumns(v, r), r.ID[:])
}

func endedBefore(r *call.Record) error {
	return parley.E("store.settle", parley.Conflict, parley.Subject(r.ID.String()), "the call has ended before", nil)
}

// row gives the place of the call's row, 0 where it has none. What an earlier
// attempt wrote into the record does not count: it may have been rolled back.
func (k *settlement) row(tx *tx) (int64, error) {
	if k.seq != 0 {
		return k.seq, nil
	}
	if seq := k.db.live.seq(k.Record.ID); seq != 0 {
		return seq, nil
	}
	return tx.callSeq(k.Record.ID) // begun in this very batch, or by nobody
}

// callSeq asks the database for the place of a call's row, 0 where it has none.
func (t *tx) callSeq(id parley.CallID) (int64, error) {
	var dest [1]driver.Value
	found, err := t.first(dest[:], t.db.sql.callKey, id[:])
	if err != nil || !found {
		return 0, err
	}
	return dest[0].(int64), nil
}

// stands reports whether an attempt whose commit ended with an error has ended
// the call all the same.
func (k *settlement) stands(tx *tx) (bool, error) {
	r := k.Record
	if !k.written || r.Open() {
		return false, nil
	}
	var dest [2]driver.Value
	found, err := tx.first(dest[:], `SELECT seq, end_seq FROM calls WHERE id = ? AND ended_at = ? AND outcome = ?`,
		r.ID[:], micros(r.Ended), string(r.Outcome))
	if found && err == nil {
		r.Seq, _ = dest[0].(int64) // NULL where places come later
		r.EndSeq, _ = dest[1].(int64)
	}
	return found, err
}

// update ends the call's row, or binds it to a task where it goes on.
func (k *settlement) update(tx *tx, seq int64) error {
	r := k.Record
	r.Seq = seq
	v := make([]driver.Value, 0, 16)
	v = append(v, text(r.ContextID), text(r.TaskID), text(r.TaskState))
	sql := k.db.sql.bindCall
	if !r.Open() {
		r.EndSeq = tx.next()
		v, sql = append(endColumns(v, r), r.EndSeq), k.db.sql.endCall
	}
	n, err := tx.run(sql, append(v, r.Seq)...)
	if err == nil && n == 0 {
		return endedBefore(r)
	}
	if err == nil {
		err = tx.moved(r)
	}
	return err
}

// moved writes where a call went that was begun for another instance.
func (t *tx) moved(r *call.Record) error {
	if !r.Moved {
		return nil
	}
	_, err := t.run(`UPDATE calls SET instance = ?, agent_binding = ? WHERE id = ?`, text(r.Instance), text(r.AgentBinding), r.ID[:])
	return err
}

func (k *settlement) ended(err error) {
	k.use.ended(&k.db.uses, err)
	k.db.live.settled(&k.Settlement, err)
	if err == nil {
		if k.Record.Open() && k.db.live.seq(k.Record.ID) == 0 {
			row := k.Record.Seq
			if k.db.pg != nil {
				row = byID
			}
			k.db.live.begun(k.Record, row)
		}
		return
	}
	if k.waited || errors.Is(err, errGivenUp) {
		return
	}
	if k.db.pg != nil && parley.KindOf(err) == parley.Conflict {
		// Another replica was first: it saw the same end, or took this one for
		// dead. The record stands.
		k.db.live.drop(k.Record.ID)
		k.db.opt.Log.Debug("a call was ended by another replica", "call", k.Record.ID)
		return
	}
	k.db.opt.Log.Error("a settlement was refused", "call", k.Record.ID, "agent", k.Record.Agent, "err", err)
	k.db.stats.refused()
	if parley.KindOf(err) == parley.Denied {
		k.db.endForeign(k)
	}
}

// endForeign ends the call of a settlement that was refused because of its
// task or context, without them.
func (db *DB) endForeign(k *settlement) {
	verdict := parley.Judge(parley.ShapeForeignID)
	alone := &settlement{db: db, record: k.record, seq: k.seq, now: k.now}
	alone.Settlement = call.Settlement{Record: &alone.record, Insert: k.Insert}
	r := &alone.record
	if r.Ended.IsZero() {
		r.Ended = k.now
	}
	r.TaskID, r.TaskState, r.ContextID = "", "", ""
	r.Outcome, r.Reason = verdict.Outcome, string(parley.ShapeForeignID)
	r.Detail = "the agent answered with a task or context that belongs to another principal"
	db.live.take(&alone.Settlement)
	if err := db.w.later(alone); err != nil {
		alone.ended(err)
	}
}

// Recover ends the calls of which nobody will learn the end: begun by a
// process that died, without a task to ask for. It is called once, before any
// call is served, and tells how many there were. What such a process left with a
// task is this one's from then on (OpenCalls).
func (db *DB) Recover(ctx context.Context, now time.Time) (unknown int, err error) {
	const op parley.Op = "store.recover"
	var records []*call.Record
	if db.pg != nil {
		records, err = db.adopt(ctx)
	} else {
		records, err = db.OpenCalls(ctx)
	}
	if err != nil {
		return 0, db.fault(op, "", err)
	}
	if unknown, err = db.endUnknown(ctx, records, now); err != nil {
		return unknown, err
	}
	return unknown, db.fault(op, "", db.catchUp(ctx))
}

// endUnknown ends those of another process's calls that have no task.
func (db *DB) endUnknown(ctx context.Context, records []*call.Record, now time.Time) (unknown int, err error) {
	verdict := parley.Judge(parley.ShapeMeshDied)
	for _, r := range records {
		if r.TaskID != "" {
			continue
		}
		r.End = call.End{
			Ended: now, Outcome: verdict.Outcome, Reason: string(parley.ShapeMeshDied),
			Detail: "the mesh ended before the call did", Total: max(0, now.Sub(r.Begun)),
		}
		if err := db.Settle(ctx, call.Settlement{Record: r}, false); err != nil {
			return unknown, err
		}
		unknown++
	}
	return unknown, nil
}
