package store

import (
	"cmp"
	"context"
	"database/sql/driver"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/parley-mesh/parley/internal/call"
	"github.com/parley-mesh/parley/internal/parley"
	"github.com/parley-mesh/parley/internal/push"
	"github.com/parley-mesh/parley/internal/vault"
)

// deliverTo makes a subscription one to deliver to, from its cursor on. One that
// was there begins anew, with its new target.
func (t *tx) deliverTo(s *push.Subscription) error {
	_, err := t.run(`INSERT INTO push_deliveries (subscription, agent, instance, task_id, principal, host, due_at, holder, held_until, attempts, error)
		VALUES (?,?,?,?,?,?,?,'',0,0,'')
		ON CONFLICT (subscription) DO UPDATE SET host = excluded.host, due_at = excluded.due_at, attempts = 0, error = '', ended_at = NULL`,
		s.ID, string(s.Task.Agent), s.Task.Instance, s.Task.ID, string(s.Principal), pushHost(s.URL), micros(t.db.opt.Now()))
	return err
}

// pushHost is where a URL's receiver is: host and port.
func pushHost(raw string) string {
	u, err := url.Parse(raw)
	if err != nil {
		return "" // it was checked when it was given; all that cannot be read share one host
	}
	return strings.ToLower(u.Host)
}

// markBatch bounds the tasks that are marked in one transaction.
const markBatch = 256

// MarkPushes implements push.Outbox. It writes every row there is, also those
// that are due: a RestPush under way either sees the event or is waited for. Every
// stream of any task leads here, so that a mesh without subscribers pays for one
// look, whatever the number of tasks.
func (db *DB) MarkPushes(ctx context.Context, tasks []call.TaskKey) error {
	const op parley.Op = "store.mark_pushes"
	var any int
	if err := db.read.QueryRowContext(ctx, `SELECT count(*) FROM (SELECT 1 FROM push_deliveries LIMIT 1) one`).Scan(&any); err != nil || any == 0 {
		return db.fault(op, "", err)
	}
	var told []call.TaskKey
	for _, task := range tasks {
		if err := db.read.QueryRowContext(ctx, `SELECT count(*) FROM push_deliveries WHERE agent = ? AND instance = ? AND task_id = ?`,
			string(task.Agent), task.Instance, task.ID).Scan(&any); err != nil {
			return db.fault(op, parley.Subject(task.ID), err)
		}
		if any > 0 {
			told = append(told, task)
		}
	}
	// In one order, since other replicas mark rows of the same tasks.
	slices.SortFunc(told, func(a, b call.TaskKey) int {
		return cmp.Or(cmp.Compare(a.Agent, b.Agent), cmp.Compare(a.Instance, b.Instance), cmp.Compare(a.ID, b.ID))
	})
	now := micros(db.opt.Now())
	for some := range slices.Chunk(told, markBatch) {
		if err := db.w.do(ctx, statements(func(tx *tx) error {
			for _, task := range some {
				if _, err := tx.run(`UPDATE push_deliveries SET due_at = coalesce(due_at, ?)
					WHERE agent = ? AND instance = ? AND task_id = ? AND ended_at IS NULL`, append([]driver.Value{now}, taskArgs(task)...)...); err != nil {
					return err
				}
			}
			return nil
		})); err != nil {
			return db.fault(op, "", err)
		}
	}
	return nil
}

// behindJournal is true of a row of push_deliveries whose journal has more.
const behindJournal = `EXISTS (SELECT 1 FROM push_subscriptions s
	JOIN journals j ON j.agent = s.agent AND j.instance = s.instance AND j.task = s.task_id
	WHERE s.id = push_deliveries.subscription AND j.last_seq > s.cursor_seq)`

// SweepPushes implements push.Outbox.
func (db *DB) SweepPushes(ctx context.Context) error {
	const op parley.Op = "store.sweep_pushes"
	const idle = ` FROM push_deliveries WHERE due_at IS NULL AND ended_at IS NULL AND ` + behindJournal
	var any int
	if err := db.read.QueryRowContext(ctx, `SELECT count(*)`+idle).Scan(&any); err != nil || any == 0 {
		return db.fault(op, "", err)
	}
	now := db.opt.Now()
	return db.fault(op, "", db.w.do(ctx, statements(func(tx *tx) error {
		_, err := tx.run(`UPDATE push_deliveries SET due_at = ? WHERE due_at IS NULL AND ended_at IS NULL AND `+behindJournal, micros(now))
		return err
	})))
}

// DuePushes implements push.Outbox. What frozen principals have asked for waits.
func (db *DB) DuePushes(ctx context.Context, perHost, perPrincipal, limit int) ([]push.Due, error) {
	due, err := query(ctx, db, func(row scanner) (d push.Due, err error) {
		err = row.Scan(&d.Subscription, &d.Host, &d.Principal)
		return d, err
	}, `SELECT subscription, host, principal FROM (
		SELECT subscription, host, principal, due_at, row_number() OVER (PARTITION BY principal ORDER BY due_at, subscription) AS turn FROM (
		SELECT subscription, host, principal, due_at, row_number() OVER (PARTITION BY host ORDER BY due_at, subscription) AS place
		FROM push_deliveries WHERE due_at <= ? AND held_until < `+db.sql.now+`
		AND NOT EXISTS (SELECT 1 FROM principals p WHERE p.name = push_deliveries.principal AND p.frozen_at IS NOT NULL)) waiting
		WHERE place <= ?) queued WHERE turn <= ? ORDER BY due_at LIMIT ?`, db.opt.Now().UnixMicro(), perHost, perPrincipal, page(limit))
	return due, db.fault("store.due_pushes", "", err)
}

// ClaimPush implements push.Outbox. A lease runs by the database's clock.
func (db *DB) ClaimPush(ctx context.Context, subscription, holder string, lease time.Duration) (*push.Claim, error) {
	const op parley.Op = "store.claim_push"
	var row [1]driver.Value
	claimed, now := false, db.opt.Now()
	err := db.w.do(ctx, statements(func(tx *tx) error {
		n, err := tx.run(`UPDATE push_deliveries SET holder = ?, held_until = `+db.sql.now+` + ?
			WHERE subscription = ? AND due_at <= ? AND held_until < `+db.sql.now, holder, lease.Microseconds(), subscription, micros(now))
		if claimed = n > 0; !claimed || err != nil {
			return err
		}
		_, err = tx.first(row[:], `SELECT attempts FROM push_deliveries WHERE subscription = ?`, subscription)
		return err
	}))
	if err != nil || !claimed {
		return nil, db.fault(op, parley.Subject(subscription), err)
	}
	s, err := db.SubscriptionByID(ctx, subscription)
	if parley.KindOf(err) == parley.NotFound && err != nil {
		return nil, nil // removed meanwhile
	}
	if err != nil {
		return nil, err
	}
	return &push.Claim{Subscription: *s, Holder: holder, Attempts: int(row[0].(int64))}, nil
}

// PushEvents implements push.Outbox.
func (db *DB) PushEvents(ctx context.Context, c *push.Claim, limit int) ([]push.Event, error) {
	found, err := db.After(ctx, c.Task, c.Cursor, limit)
	events := make([]push.Event, 0, len(found))
	for _, e := range found {
		events = append(events, push.Event{Seq: e.Seq, At: e.At, Frame: e.Frame})
	}
	return events, err
}

// claimed changes the row of a claim, and does what belongs to it.
func (db *DB) claimed(ctx context.Context, op parley.Op, c *push.Claim, change string, values []driver.Value, also func(tx *tx) error) error {
	id, holder := c.ID, c.Holder
	lost := false
	err := db.w.do(ctx, statements(func(tx *tx) error {
		n, err := tx.run(`UPDATE push_deliveries SET `+change+` WHERE subscription = ? AND holder = ?`, append(values[:len(values):len(values)], id, holder)...)
		if lost = n == 0; lost || err != nil || also == nil {
			return err
		}
		return also(tx)
	}))
	if err == nil && lost {
		return push.ErrLost
	}
	return db.fault(op, parley.Subject(id), err)
}

const free = `holder = '', held_until = 0`

// moveCursor notes that nothing up to seq is due any more. It never goes back.
func (t *tx) moveCursor(subscription string, seq int64) error {
	_, err := t.run(`UPDATE push_subscriptions SET cursor_seq = ?1 WHERE id = ?2 AND cursor_seq < ?1`, seq, subscription)
	return err
}

// PushDelivered implements push.Outbox.
func (db *DB) PushDelivered(ctx context.Context, c *push.Claim, seq int64, lease time.Duration) error {
	now, id := micros(db.opt.Now()), c.ID
	return db.claimed(ctx, "store.push_delivered", c, `held_until = `+db.sql.now+` + ?, attempts = 0, error = '', attempted_at = ?, delivered_at = ?`,
		[]driver.Value{lease.Microseconds(), now, now}, func(tx *tx) error { return tx.moveCursor(id, seq) })
}

// RetryPush implements push.Outbox.
func (db *DB) RetryPush(ctx context.Context, c *push.Claim, reason string, pause time.Duration) error {
	now := db.opt.Now()
	return db.claimed(ctx, "store.retry_push", c, free+`, attempts = ?, error = ?, attempted_at = ?, due_at = ?`,
		[]driver.Value{int64(c.Attempts), plain(reason), micros(now), micros(now.Add(pause))}, nil)
}

// RestPush implements push.Outbox.
func (db *DB) RestPush(ctx context.Context, c *push.Claim) error {
	return db.claimed(ctx, "store.rest_push", c, free+`, due_at = CASE WHEN `+behindJournal+` THEN CAST(? AS bigint) END`,
		[]driver.Value{micros(db.opt.Now())}, nil)
}

// EndPush implements push.Outbox.
func (db *DB) EndPush(ctx context.Context, c *push.Claim, reason string, event parley.Event) error {
	now := micros(db.opt.Now())
	return db.claimed(ctx, "store.end_push", c, free+`, error = ?, attempted_at = ?, ended_at = ?, due_at = NULL`,
		[]driver.Value{plain(reason), now, now}, func(tx *tx) error { return tx.tell([]parley.Event{event}) })
}

// PushDead implements push.Outbox.
func (db *DB) PushDead(ctx context.Context, c *push.Claim, l push.Letter, lease time.Duration, event parley.Event) error {
	const op parley.Op = "store.push_dead"
	sealed, err := db.vault.Seal(ctx, c.Owner, letterPlace(l.ID), l.Event.Frame)
	if err != nil {
		return db.fault(op, parley.Subject(c.ID), err)
	}
	s, now := c.Subscription, micros(db.opt.Now())
	return db.claimed(ctx, op, c, `held_until = `+db.sql.now+` + ?, attempts = 0, error = ?, attempted_at = ?`,
		[]driver.Value{lease.Microseconds(), plain(l.Reason), now}, func(tx *tx) error {
			if _, err := tx.run(`INSERT INTO push_letters (`+letterColumns+`, frame) VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?) ON CONFLICT (id) DO NOTHING`,
				l.ID, l.Subscription, string(s.Task.Agent), s.Task.Instance, s.Task.ID, string(s.Principal), string(s.Owner), l.Event.Seq,
				micros(l.Event.At), micros(l.DiedAt), int64(l.Attempts), plain(l.Reason), sealed); err != nil {
				return err
			}
			if err := tx.moveCursor(s.ID, l.Event.Seq); err != nil {
				return err
			}
			return tx.tell([]parley.Event{event})
		})
}

// letterPlace is where a dead letter's event rests.
func letterPlace(id string) vault.Place {
	return vault.Place{Table: "push_letters", Row: id, Column: "frame"}
}

// ReleasePushes lets go of what a process of that store held that has ended,
// where there can be no other one.
func (db *DB) ReleasePushes(ctx context.Context) error {
	if db.Shared() {
		return nil // leases end by themselves
	}
	return db.fault("store.release_pushes", "", db.w.do(ctx, statements(func(tx *tx) error {
		_, err := tx.run(`UPDATE push_deliveries SET ` + free + ` WHERE holder <> ''`)
		return err
	})))
}

var _ push.Outbox = (*DB)(nil)
