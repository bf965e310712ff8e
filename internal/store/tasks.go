package store

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"database/sql/driver"
	"encoding/binary"
	"errors"
	"strings"
	"time"

	"github.com/parley-mesh/parley/internal/call"
	"github.com/parley-mesh/parley/internal/parley"
	"github.com/parley-mesh/parley/internal/vault"
)

// pageMax is how many rows one read gives at most.
const pageMax = 500

// contextUse is how old used_at may get while a context is in use; a context
// is written once per that time and not at every call, and kept that much
// longer than its retention.
const contextUse = 24 * time.Hour

// A final task keeps its first final state, and when that came about; it may
// still be seen whole in that state. What is not final and older than what is
// known is late and changes nothing. A newer state without a snapshot drops the
// old snapshot, which tells of an older one. See replaces for the same rule.
const upsertTask = `INSERT INTO tasks (
	agent, instance, id, principal, owner, context_id, state, status_at, final, call, updated_at, snapshot)
	VALUES (?,?,?,?,?,?,?,?,?,?,?,?)
	ON CONFLICT (agent, instance, id) DO UPDATE SET
		owner = excluded.owner,
		context_id = CASE WHEN excluded.context_id = '' THEN tasks.context_id ELSE excluded.context_id END,
		state = excluded.state, final = excluded.final,
		status_at = CASE WHEN tasks.final = 1 THEN tasks.status_at ELSE excluded.status_at END,
		call = coalesce(tasks.call, excluded.call), updated_at = excluded.updated_at,
		snapshot = excluded.snapshot
	WHERE tasks.principal = excluded.principal AND CASE
		WHEN tasks.final = 1 THEN excluded.final = 1 AND excluded.state = tasks.state AND excluded.snapshot IS NOT NULL
		WHEN excluded.final = 1 THEN 1 = 1
		ELSE excluded.status_at >= tasks.status_at END`

// replaces reports whether a task's state that was handed over will take the
// place of the one that is known.
func replaces(known, fresh *call.Task) bool {
	switch {
	case known.Final:
		return fresh.Final && fresh.State == known.State && fresh.Snapshot != nil
	case fresh.Final:
		return true
	}
	return !fresh.StatusAt.Before(known.StatusAt)
}

// saveTask writes a task's newest state; ok is false where it belongs to
// another principal.
func (t *tx) saveTask(k *call.Task, snapshot []byte) (ok bool, err error) {
	n, err := t.run(upsertTask, taskValues(k, snapshot)...)
	if err != nil || n > 0 {
		return true, err
	}
	var dest [1]any
	found, err := t.firstValues(dest[:], `SELECT principal FROM tasks WHERE agent = ? AND instance = ? AND id = ?`,
		string(k.Agent), k.Instance, k.ID)
	return found && dest[0] == string(k.Principal), err
}

// taskValues are the values of upsertTask.
func taskValues(k *call.Task, snapshot []byte) []driver.Value {
	var sealed, made driver.Value
	if snapshot != nil {
		sealed = snapshot
	}
	if !k.Call.IsZero() {
		made = k.Call[:]
	}
	final := int64(0)
	if k.Final {
		final = 1
	}
	return []driver.Value{string(k.Agent), k.Instance, k.ID, string(k.Principal), string(k.Owner), k.ContextID,
		k.State, k.StatusAt.UnixMicro(), final, made, k.UpdatedAt.UnixMicro(), sealed}
}

// useContext writes that the principal uses a context; ok is false where it
// belongs to another.
func (t *tx) useContext(key int64, principal parley.PrincipalName, now time.Time) (ok bool, err error) {
	n, err := t.run(`INSERT INTO contexts (key, principal, used_at) VALUES (?,?,?)
		ON CONFLICT (key) DO UPDATE SET used_at = excluded.used_at
		WHERE contexts.principal = excluded.principal AND contexts.used_at < ?`,
		key, string(principal), now.UnixMicro(), now.Add(-contextUse).UnixMicro())
	if err != nil || n > 0 {
		return true, err
	}
	var dest [1]any
	found, err := t.firstValues(dest[:], `SELECT principal FROM contexts WHERE key = ?`, key)
	return found && dest[0] == string(principal), err
}

// contextHash is the key of a context's row: 64 bits of a keyed hash, so that
// nobody outside can find two contexts of one key. Where two meet by chance,
// which among ten million happens once in 300,000 meshes, the second principal
// is refused its context: it fails closed.
func (db *DB) contextHash(k contextKey) int64 {
	b := append(make([]byte, 0, 256), db.contextSecret...)
	for _, part := range [...]string{string(k.agent), k.instance, k.id} {
		b = binary.BigEndian.AppendUint32(b, uint32(len(part)))
		b = append(b, part...)
	}
	sum := sha256.Sum256(b)
	return int64(binary.BigEndian.Uint64(sum[:]))
}

// snapshotPlace is where a task's snapshot rests.
func snapshotPlace(k call.TaskKey) vault.Place {
	return vault.Place{Table: "tasks", Row: string(k.Agent) + "\x00" + k.Instance + "\x00" + k.ID, Column: "snapshot"}
}

const taskColumns = `agent, instance, id, principal, owner, context_id, state, status_at, final, call, updated_at, snapshot`

func (db *DB) scanTask(ctx context.Context, row scanner) (*call.Task, error) {
	var (
		t                   call.Task
		statusAt, updatedAt int64
		made, sealed        []byte
	)
	if err := row.Scan(&t.Agent, &t.Instance, &t.ID, &t.Principal, &t.Owner, &t.ContextID, &t.State,
		&statusAt, &t.Final, &made, &updatedAt, &sealed); err != nil {
		return nil, err
	}
	t.StatusAt, t.UpdatedAt = fromMicros(statusAt), fromMicros(updatedAt)
	copy(t.Call[:], made)
	if sealed == nil {
		return &t, nil
	}
	var err error
	t.Snapshot, err = db.vault.Open(ctx, t.Owner, snapshotPlace(t.Key()), sealed)
	return &t, err
}

// Task gives a task of the index, or a parley.NotFound error. It does not ask
// whose it is: compare Principal.
func (db *DB) Task(ctx context.Context, key call.TaskKey) (*call.Task, error) {
	const op parley.Op = "store.task"
	pending := db.live.pendingTask(key)
	if pending != nil && db.catchUp(ctx) == nil {
		pending = nil // committed, or refused: the table says which
	}
	t, err := db.scanTask(ctx, db.read.QueryRowContext(ctx, `SELECT `+taskColumns+` FROM tasks
		WHERE agent = ? AND instance = ? AND id = ?`, string(key.Agent), key.Instance, key.ID))
	if pending != nil && (err == nil || errors.Is(err, sql.ErrNoRows)) {
		return ahead(pending, t), nil
	}
	return t, db.fault(op, parley.Subject(key.ID), err)
}

// ahead is a task as it will be once the disk works again.
func ahead(pending, stored *call.Task) *call.Task {
	if stored != nil && (stored.Principal != pending.Principal || !replaces(stored, pending)) {
		return stored
	}
	t := *pending
	return &t
}

// ContextOwner tells whose a context is, or gives a parley.NotFound error.
func (db *DB) ContextOwner(ctx context.Context, agent parley.AgentName, instance, contextID string) (parley.PrincipalName, error) {
	key := db.contextHash(contextKey{agent, instance, contextID})
	if !db.contexts.mayHold(key) {
		return "", noContext(contextID)
	}
	if p, ok := db.live.pendingContext(contextKey{agent, instance, contextID}); ok && db.catchUp(ctx) != nil {
		return p, nil
	}
	var p parley.PrincipalName
	err := db.read.QueryRowContext(ctx, `SELECT principal FROM contexts WHERE key = ?`, key).Scan(&p)
	return p, db.fault("store.context", parley.Subject(contextID), err)
}

// Tasks gives the tasks that match, newest status first, ties by id upwards,
// and how many match without the page's place.
func (db *DB) Tasks(ctx context.Context, f call.TaskFilter) (tasks []*call.Task, total int, err error) {
	const op parley.Op = "store.tasks"
	if db.live.anyTask(f.Principal) {
		if err := db.catchUp(ctx); err != nil && ctx.Err() != nil {
			return nil, 0, db.fault(op, "", err)
		}
	}
	var w where
	w.and("principal = ?", string(f.Principal))
	w.tasks(f)
	if err := db.read.QueryRowContext(ctx, `SELECT count(*) FROM tasks`+w.String(), w.args...).Scan(&total); err != nil {
		return nil, 0, db.fault(op, "", err)
	}
	tasks, err = db.taskPage(ctx, w, f)
	return tasks, total, db.fault(op, "", err)
}

// AllTasks gives tasks as Tasks does, but everybody's where the filter names no
// principal. It is for operators: Tasks gives nobody's then, so that a caller
// whose name was lost on the way sees nothing.
func (db *DB) AllTasks(ctx context.Context, f call.TaskFilter) ([]*call.Task, error) {
	const op parley.Op = "store.all_tasks"
	if f.Principal != "" {
		tasks, _, err := db.Tasks(ctx, f)
		return tasks, err
	}
	if err := db.fresh(ctx); err != nil {
		return nil, db.fault(op, "", err)
	}
	var w where
	w.tasks(f)
	tasks, err := db.taskPage(ctx, w, f)
	return tasks, db.fault(op, "", err)
}

// tasks adds the filter's conditions, but for the principal and the page.
func (w *where) tasks(f call.TaskFilter) {
	if f.Agent != "" {
		w.and("agent = ?", string(f.Agent))
	}
	if f.Owner != "" {
		w.and("owner = ?", string(f.Owner))
	}
	if f.ContextID != "" {
		w.and("context_id = ?", f.ContextID)
	}
	if f.State != "" {
		w.and("state = ?", f.State)
	}
	if !f.StatusAfter.IsZero() {
		w.and("status_at >= ?", f.StatusAfter.UnixMicro())
	}
}

// taskPage reads the filter's page of the tasks that w selects.
func (db *DB) taskPage(ctx context.Context, w where, f call.TaskFilter) ([]*call.Task, error) {
	if !f.AfterStatusAt.IsZero() {
		at := f.AfterStatusAt.UnixMicro()
		w.and("(status_at < ? OR status_at = ? AND id > ?)", at, at, f.AfterID)
	}
	return query(ctx, db, func(row scanner) (*call.Task, error) { return db.scanTask(ctx, row) },
		`SELECT `+taskColumns+` FROM tasks`+w.String()+` ORDER BY status_at DESC, id LIMIT ?`, append(w.args, page(f.Limit))...)
}

// anyTask reports whether a task of the principal is handed over and not yet
// committed.
func (l *live) anyTask(p parley.PrincipalName) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, h := range l.tasks {
		if h.principal == p {
			return true
		}
	}
	return false
}

// where collects the conditions of a query. Conditions are constants; values
// are arguments.
type where struct {
	conditions []string
	args       []any
}

func (w *where) and(condition string, args ...any) {
	w.conditions = append(w.conditions, condition)
	w.args = append(w.args, args...)
}

func (w *where) String() string {
	if len(w.conditions) == 0 {
		return ""
	}
	return " WHERE " + strings.Join(w.conditions, " AND ")
}

// page bounds how many rows are asked for.
func page(limit int) int {
	if limit <= 0 || limit > pageMax {
		return pageMax
	}
	return limit
}
