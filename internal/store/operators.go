package store

import (
	"context"

	"github.com/parley-mesh/parley/internal/call"
	"github.com/parley-mesh/parley/internal/parley"
)

// AllTasks gives tasks as Tasks does, but everybody's where the filter names no
// principal. It is for operators: Tasks gives nobody's then, so that a caller
// whose name was lost on the way sees nothing.
func (db *DB) AllTasks(ctx context.Context, f call.TaskFilter) ([]*call.Task, error) {
	const op parley.Op = "store.all_tasks"
	if f.Principal != "" {
		tasks, _, err := db.Tasks(ctx, f)
		return tasks, err
	}
	if err := db.catchUp(ctx); err != nil && ctx.Err() != nil {
		return nil, db.fault(op, "", err)
	}
	var w where
	if f.Agent != "" {
		w.and("agent = ?", string(f.Agent))
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
	if !f.AfterStatusAt.IsZero() {
		at := f.AfterStatusAt.UnixMicro()
		w.and("(status_at < ? OR status_at = ? AND id > ?)", at, at, f.AfterID)
	}
	tasks, err := query(ctx, db, func(row scanner) (*call.Task, error) { return db.scanTask(ctx, row) },
		`SELECT `+taskColumns+` FROM tasks`+w.String()+` ORDER BY status_at DESC, id LIMIT ?`, append(w.args, page(f.Limit))...)
	return tasks, db.fault(op, "", err)
}

// AppendEvents keeps events that belong to no other change of state.
func (db *DB) AppendEvents(ctx context.Context, events ...parley.Event) error {
	const op parley.Op = "store.append_events"
	return db.fault(op, "", db.w.do(ctx, statements(func(t *tx) error { return t.events(events) })))
}
