package store

import (
	"context"
	"database/sql/driver"

	"github.com/parley-mesh/parley/internal/parley"
	"github.com/parley-mesh/parley/internal/push"
)

// RetryPushNow makes a subscription due at once. One that has ended is a
// parley.Conflict error.
func (db *DB) RetryPushNow(ctx context.Context, subscription string) error {
	const op parley.Op = "store.retry_push_now"
	subject, now := parley.Subject(subscription), db.opt.Now()
	return db.fault(op, subject, db.w.do(ctx, statements(func(tx *tx) error {
		n, err := tx.run(`UPDATE push_deliveries SET due_at = ? WHERE subscription = ? AND ended_at IS NULL`, micros(now), subscription)
		if err != nil || n > 0 {
			return err
		}
		var one [1]driver.Value
		there, err := tx.first(one[:], `SELECT 1 FROM push_deliveries WHERE subscription = ?`, subscription)
		switch {
		case err != nil:
			return err
		case there:
			return parley.E(op, parley.Conflict, subject, "the receiver has ended the subscription by status 410: its caller can create the config again", nil)
		}
		return parley.E(op, parley.NotFound, subject, "no push subscription has the id "+subscription, nil)
	})))
}

// PushStates gives how the deliveries of subscriptions stand.
func (db *DB) PushStates(ctx context.Context, f push.StateFilter) ([]*push.State, error) {
	var w where
	w.and("s.id > ?", f.After)
	w.equal("s.owner", string(f.Owner))
	w.equal("s.agent", string(f.Agent))
	w.equal("s.task_id", f.Task)
	w.equal("s.id", f.ID)
	states, err := query(ctx, db, func(row scanner) (*push.State, error) {
		var s push.State
		var sealed []byte
		if err := row.Scan(append(subscriptionRow(&s.Subscription, &sealed), &s.Last, timeColumn{&s.DueAt}, &s.Attempts, timeColumn{&s.AttemptedAt},
			timeColumn{&s.DeliveredAt}, &s.Error, timeColumn{&s.EndedAt}, &s.Letters)...); err != nil {
			return nil, err
		}
		return &s, db.openTarget(ctx, &s.Subscription, sealed)
	}, `SELECT s.id, s.agent, s.instance, s.task_id, s.config_id, s.principal, s.owner, s.target, s.version, s.cursor_seq, s.created_at,
		coalesce((SELECT last_seq FROM journals j WHERE j.agent = s.agent AND j.instance = s.instance AND j.task = s.task_id), 0),
		d.due_at, d.attempts, d.attempted_at, d.delivered_at, d.error, d.ended_at,
		(SELECT count(*) FROM push_letters l WHERE l.subscription = s.id)
		FROM push_subscriptions s JOIN push_deliveries d ON d.subscription = s.id`+w.String()+` ORDER BY s.id LIMIT ?`, append(w.args, page(f.Limit))...)
	return states, db.fault("store.push_states", "", err)
}

// PushesWaiting counts the subscriptions that have something to deliver.
func (db *DB) PushesWaiting(ctx context.Context) (n int64, err error) {
	err = db.read.QueryRowContext(ctx, `SELECT count(*) FROM push_deliveries WHERE due_at IS NOT NULL`).Scan(&n)
	return n, db.fault("store.pushes_waiting", "", err)
}

// equal adds a condition on a column, unless the value is empty.
func (w *where) equal(column, value string) {
	if value != "" {
		w.and(column+" = ?", value)
	}
}

const letterColumns = `id, subscription, agent, instance, task_id, principal, owner, seq, happened_at, died_at, attempts, error`

func letterRow(l *push.Letter) []any {
	return []any{&l.ID, &l.Subscription, &l.Task.Agent, &l.Task.Instance, &l.Task.ID, &l.Principal, &l.Owner,
		&l.Event.Seq, timeColumn{&l.Event.At}, timeColumn{&l.DiedAt}, &l.Attempts, &l.Reason}
}

// PushLetters gives dead letters, newest first, without their events.
func (db *DB) PushLetters(ctx context.Context, f push.LetterFilter) ([]*push.Letter, error) {
	var w where
	w.equal("owner", string(f.Owner))
	w.equal("agent", string(f.Agent))
	w.equal("subscription", f.Subscription)
	if f.BeforeID != "" {
		at := f.BeforeAt.UnixMicro()
		w.and("(died_at < ? OR died_at = ? AND id < ?)", at, at, f.BeforeID)
	}
	letters, err := query(ctx, db, func(row scanner) (*push.Letter, error) {
		var l push.Letter
		return &l, row.Scan(letterRow(&l)...)
	}, `SELECT `+letterColumns+` FROM push_letters`+w.String()+` ORDER BY died_at DESC, id DESC LIMIT ?`, append(w.args, page(f.Limit))...)
	return letters, db.fault("store.push_letters", "", err)
}

// PushLetter implements push.Letters.
func (db *DB) PushLetter(ctx context.Context, id string) (*push.Letter, error) {
	var l push.Letter
	var sealed []byte
	err := db.read.QueryRowContext(ctx, `SELECT `+letterColumns+`, frame FROM push_letters WHERE id = ?`, id).Scan(append(letterRow(&l), &sealed)...)
	if err == nil {
		l.Event.Frame, err = db.vault.Open(ctx, l.Owner, letterPlace(id), sealed)
	}
	return found(&l, db.missing("store.push_letter", "dead letter", id, err))
}

// DropPushLetter implements push.Letters.
func (db *DB) DropPushLetter(ctx context.Context, id string) error {
	return db.fault("store.drop_push_letter", parley.Subject(id), db.w.do(ctx, statements(func(tx *tx) error {
		_, err := tx.run(`DELETE FROM push_letters WHERE id = ?`, id)
		return err
	})))
}

var _ push.Letters = (*DB)(nil)
