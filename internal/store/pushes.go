package store

import (
	"context"
	"database/sql/driver"
	"encoding/json"
	"fmt"
	"time"

	"github.com/parley-mesh/parley/internal/call"
	"github.com/parley-mesh/parley/internal/parley"
	"github.com/parley-mesh/parley/internal/push"
	"github.com/parley-mesh/parley/internal/vault"
)

// pushTarget is what of a subscription rests sealed.
type pushTarget struct {
	URL         string `json:"url"`
	Token       string `json:"token,omitempty"`
	Scheme      string `json:"scheme,omitempty"`
	Credentials string `json:"credentials,omitempty"`
}

func targetPlace(k call.TaskKey, configID string) vault.Place {
	return vault.Place{Table: "push_subscriptions", Row: string(k.Agent) + "\x00" + k.Instance + "\x00" + k.ID + "\x00" + configID, Column: "target"}
}

func (db *DB) sealTarget(ctx context.Context, s *push.Subscription) ([]byte, error) {
	plain, err := json.Marshal(pushTarget{s.URL, s.Token, s.AuthScheme, s.AuthCredentials})
	if err != nil {
		return nil, err
	}
	return db.vault.Seal(ctx, s.Owner, targetPlace(s.Task, s.ConfigID), plain)
}

// Subscribe implements push.Store. Frozen principals get parley.Frozen.
func (db *DB) Subscribe(ctx context.Context, s *push.Subscription, r *push.Relay, most push.Limits) error {
	const op parley.Op = "store.subscribe"
	subject := parley.Subject(s.Task.ID)
	sealed, err := db.sealTarget(ctx, s)
	if err != nil {
		return db.fault(op, subject, err)
	}
	row, relay := *s, *r // the writer may read them after ctx is done
	var kept push.Subscription
	err = db.w.do(ctx, statements(func(tx *tx) error {
		kept = row
		if err := tx.maySubscribe(op, &row); err != nil {
			return err
		}
		var known [3]driver.Value
		there, err := tx.first(known[:], `SELECT id, cursor_seq, created_at FROM push_subscriptions
			WHERE agent = ? AND instance = ? AND task_id = ? AND config_id = ?`, append(taskArgs(row.Task), row.ConfigID)...)
		if err != nil {
			return err
		}
		if there {
			kept.ID, kept.Cursor, kept.Created = known[0].(string), known[1].(int64), fromMicros(known[2].(int64))
			_, err := tx.run(`UPDATE push_subscriptions SET target = ?, owner = ?, version = ? WHERE id = ?`, sealed, string(row.Owner), row.Version, kept.ID)
			if err != nil {
				return err
			}
			return tx.deliverTo(&kept)
		}
		if err := tx.roomForSubscription(op, &row, most); err != nil {
			return err
		}
		if _, err := tx.run(insertRelay, relayValues(&relay)...); err != nil {
			return err
		}
		_, err = tx.run(`INSERT INTO push_subscriptions (`+subscriptionColumns+`) VALUES (?,?,?,?,?,?,?,?,?,?,?)`,
			row.ID, string(row.Task.Agent), row.Task.Instance, row.Task.ID, row.ConfigID, string(row.Principal), string(row.Owner),
			sealed, row.Version, row.Cursor, micros(row.Created))
		if err != nil {
			return err
		}
		return tx.deliverTo(&row)
	}))
	if err == nil {
		*s = kept
	}
	return db.fault(op, subject, err)
}

// maySubscribe refuses who does not have the task, or is frozen.
func (t *tx) maySubscribe(op parley.Op, s *push.Subscription) error {
	var one [1]driver.Value
	there, err := t.first(one[:], `SELECT principal FROM tasks WHERE agent = ? AND instance = ? AND id = ?`, taskArgs(s.Task)...)
	switch {
	case err != nil:
		return err
	case !there || one[0] != string(s.Principal):
		return parley.E(op, parley.NotFound, parley.Subject(s.Task.ID), "the principal has no such task", nil)
	}
	frozen, err := t.first(one[:], `SELECT 1 FROM principals WHERE name = ? AND frozen_at IS NOT NULL`, string(s.Principal))
	if err == nil && frozen {
		err = parley.E(op, parley.Frozen, parley.Subject(s.Principal), "the principal is frozen", nil)
	}
	return err
}

// roomForSubscription counts. Replicas that subscribe at the same moment may
// exceed a limit by one each.
func (t *tx) roomForSubscription(op parley.Op, s *push.Subscription, most push.Limits) error {
	var n [1]driver.Value
	if most.PerTask > 0 {
		if _, err := t.first(n[:], `SELECT count(*) FROM push_subscriptions WHERE agent = ? AND instance = ? AND task_id = ?`, taskArgs(s.Task)...); err != nil {
			return err
		}
		if n[0].(int64) >= int64(most.PerTask) {
			return parley.E(op, parley.Exhausted, parley.Subject(s.Task.ID), fmt.Sprintf("the task has %d push notification configs, which is the limit: delete one first", most.PerTask), nil)
		}
	}
	if most.PerPrincipal <= 0 {
		return nil
	}
	if _, err := t.first(n[:], countSubscriptions, string(s.Principal)); err != nil {
		return err
	}
	return roomFor(op, s.Principal, n[0].(int64), most)
}

const countSubscriptions = `SELECT count(*) FROM push_subscriptions s JOIN push_relays r
	ON r.agent = s.agent AND r.instance = s.instance AND r.task_id = s.task_id
	WHERE s.principal = ? AND r.ended_at IS NULL`

func roomFor(op parley.Op, principal parley.PrincipalName, n int64, most push.Limits) error {
	if most.PerPrincipal <= 0 || n < int64(most.PerPrincipal) {
		return nil
	}
	return parley.E(op, parley.Exhausted, parley.Subject(principal), fmt.Sprintf("there are %d push notification configs for unfinished tasks, which is the limit of a principal: delete some first", most.PerPrincipal), nil)
}

// RoomForSubscription gives a parley.Exhausted error where the principal has as
// many subscriptions as it may have.
func (db *DB) RoomForSubscription(ctx context.Context, principal parley.PrincipalName, most push.Limits) error {
	const op parley.Op = "store.room_for_subscription"
	var n int64
	if err := db.read.QueryRowContext(ctx, countSubscriptions, string(principal)).Scan(&n); err != nil {
		return db.fault(op, parley.Subject(principal), err)
	}
	return roomFor(op, principal, n, most)
}

func taskArgs(k call.TaskKey) []driver.Value {
	return []driver.Value{string(k.Agent), k.Instance, k.ID}
}

// Unsubscribe implements push.Store.
func (db *DB) Unsubscribe(ctx context.Context, task call.TaskKey, configID string) error {
	err := db.w.do(ctx, statements(func(tx *tx) error {
		_, err := tx.run(`DELETE FROM push_subscriptions WHERE agent = ? AND instance = ? AND task_id = ? AND config_id = ?`, append(taskArgs(task), configID)...)
		return err
	}))
	return db.fault("store.unsubscribe", parley.Subject(task.ID), err)
}

const subscriptionColumns = `id, agent, instance, task_id, config_id, principal, owner, target, version, cursor_seq, created_at`

const selectSubscriptions = `SELECT ` + subscriptionColumns + ` FROM push_subscriptions`

func (db *DB) scanSubscription(ctx context.Context, row scanner) (*push.Subscription, error) {
	var s push.Subscription
	var sealed []byte
	if err := row.Scan(subscriptionRow(&s, &sealed)...); err != nil {
		return nil, err
	}
	return &s, db.openTarget(ctx, &s, sealed)
}

// subscriptionRow is where the columns of a subscription go.
func subscriptionRow(s *push.Subscription, sealed *[]byte) []any {
	return []any{&s.ID, &s.Task.Agent, &s.Task.Instance, &s.Task.ID, &s.ConfigID, &s.Principal, &s.Owner,
		sealed, &s.Version, &s.Cursor, timeColumn{&s.Created}}
}

// openTarget fills in what rests sealed.
func (db *DB) openTarget(ctx context.Context, s *push.Subscription, sealed []byte) error {
	plain, err := db.vault.Open(ctx, s.Owner, targetPlace(s.Task, s.ConfigID), sealed)
	if err != nil {
		return err
	}
	var target pushTarget
	if err := json.Unmarshal(plain, &target); err != nil {
		return err
	}
	s.URL, s.Token, s.AuthScheme, s.AuthCredentials = target.URL, target.Token, target.Scheme, target.Credentials
	return nil
}

func (db *DB) subscription(ctx context.Context, op parley.Op, subject string, where string, args ...any) (*push.Subscription, error) {
	s, err := db.scanSubscription(ctx, db.read.QueryRowContext(ctx, selectSubscriptions+where, args...))
	return found(s, db.missing(op, "push notification config", subject, err))
}

// Subscription implements push.Store.
func (db *DB) Subscription(ctx context.Context, task call.TaskKey, configID string) (*push.Subscription, error) {
	return db.subscription(ctx, "store.subscription", configID, ` WHERE agent = ? AND instance = ? AND task_id = ? AND config_id = ?`,
		string(task.Agent), task.Instance, task.ID, configID)
}

// SubscriptionByID implements push.Store.
func (db *DB) SubscriptionByID(ctx context.Context, id string) (*push.Subscription, error) {
	return db.subscription(ctx, "store.subscription_by_id", id, ` WHERE id = ?`, id)
}

// TaskSubscriptions implements push.Store.
func (db *DB) TaskSubscriptions(ctx context.Context, task call.TaskKey, after string, limit int) ([]*push.Subscription, error) {
	all, err := db.subscriptions(ctx, ` WHERE agent = ? AND instance = ? AND task_id = ? AND config_id > ? ORDER BY config_id LIMIT ?`,
		string(task.Agent), task.Instance, task.ID, after, page(limit))
	return all, db.fault("store.task_subscriptions", parley.Subject(task.ID), err)
}

// Subscriptions implements push.Store.
func (db *DB) Subscriptions(ctx context.Context, after string, limit int) ([]*push.Subscription, error) {
	all, err := db.subscriptions(ctx, ` WHERE id > ? ORDER BY id LIMIT ?`, after, page(limit))
	return all, db.fault("store.subscriptions", "", err)
}

func (db *DB) subscriptions(ctx context.Context, where string, args ...any) ([]*push.Subscription, error) {
	return query(ctx, db, func(row scanner) (*push.Subscription, error) { return db.scanSubscription(ctx, row) }, selectSubscriptions+where, args...)
}

// endSubscriptions takes away everything that a principal has subscribed to.
func (t *tx) endSubscriptions(principal parley.PrincipalName) error {
	_, err := t.run(`DELETE FROM push_relays WHERE principal = ?`, string(principal))
	return err
}

const relayColumns = `agent, instance, task_id, principal, owner, callback, token_hash, upstream, seen, seen_seq, look_at, busy_until, delay, lost, ended_at, created_at`

// One more subscription looks at once, where its relay is there already.
const insertRelay = `INSERT INTO push_relays (` + relayColumns + `) VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)
	ON CONFLICT (agent, instance, task_id) DO UPDATE SET look_at = excluded.look_at
	WHERE push_relays.look_at > excluded.look_at`

func relayValues(r *push.Relay) []driver.Value {
	return []driver.Value{string(r.Task.Agent), r.Task.Instance, r.Task.ID, string(r.Principal), string(r.Owner), r.Callback, relayHash(r),
		string(r.Upstream), r.Seen, r.SeenSeq, micros(r.LookAt), micros(r.Busy), int64(r.Delay), int64(r.Lost), micros(r.Ended), micros(r.Created)}
}

func scanRelay(row scanner) (*push.Relay, error) {
	var r push.Relay
	err := row.Scan(&r.Task.Agent, &r.Task.Instance, &r.Task.ID, &r.Principal, &r.Owner, &r.Callback, &r.TokenHash, &r.Upstream,
		&r.Seen, &r.SeenSeq, timeColumn{&r.LookAt}, timeColumn{&r.Busy}, &r.Delay, &r.Lost, timeColumn{&r.Ended}, timeColumn{&r.Created})
	return &r, err
}

const selectRelays = `SELECT ` + relayColumns + ` FROM push_relays`

// Relay gives the relay of a task, or a parley.NotFound error.
func (db *DB) Relay(ctx context.Context, task call.TaskKey) (*push.Relay, error) {
	r, err := scanRelay(db.read.QueryRowContext(ctx, selectRelays+` WHERE agent = ? AND instance = ? AND task_id = ?`, string(task.Agent), task.Instance, task.ID))
	return found(r, db.missing("store.relay", "push relay", task.ID, err))
}

// RelayByCallback gives the relay with that callback, or a parley.NotFound error.
func (db *DB) RelayByCallback(ctx context.Context, callback string) (*push.Relay, error) {
	r, err := scanRelay(db.read.QueryRowContext(ctx, selectRelays+` WHERE callback = ?`, callback))
	return found(r, db.missing("store.relay_by_callback", "push relay", callback, err))
}

// DueRelays gives relays whose look is due and which nobody has to itself, the
// longest due first.
func (db *DB) DueRelays(ctx context.Context, now time.Time, limit int) ([]*push.Relay, error) {
	due, err := query(ctx, db, scanRelay, selectRelays+` WHERE look_at IS NOT NULL AND look_at <= ?1 AND (busy_until IS NULL OR busy_until <= ?1) ORDER BY look_at LIMIT ?2`,
		now.UnixMicro(), page(limit))
	return due, db.fault("store.due_relays", "", err)
}

// Relays gives those whose task goes on, in the order of their callbacks, behind
// after.
func (db *DB) Relays(ctx context.Context, after string, limit int) ([]*push.Relay, error) {
	all, err := query(ctx, db, scanRelay, selectRelays+` WHERE callback > ? AND look_at IS NOT NULL ORDER BY callback LIMIT ?`, after, page(limit))
	return all, db.fault("store.relays", "", err)
}

// ClaimRelay takes a due look for the caller, who has the relay to itself until
// that time; if nothing is heard of it by then, the look is due again. claimed is
// false where another process was first, or the relay is gone.
func (db *DB) ClaimRelay(ctx context.Context, r *push.Relay, until time.Time) (claimed bool, err error) {
	task, at, busy := r.Task, r.LookAt, r.Busy
	claimed, err = outcome(ctx, db.w, func(tx *tx) (bool, error) {
		statement, values := `UPDATE push_relays SET look_at = ?, busy_until = ? WHERE agent = ? AND instance = ? AND task_id = ? AND look_at = ? AND busy_until IS NULL`,
			append(append([]driver.Value{micros(until), micros(until)}, taskArgs(task)...), micros(at))
		if !busy.IsZero() { // whoever had it has died
			statement = `UPDATE push_relays SET look_at = ?, busy_until = ? WHERE agent = ? AND instance = ? AND task_id = ? AND look_at = ? AND busy_until = ?`
			values = append(values, micros(busy))
		}
		n, err := tx.run(statement, values...)
		return n > 0, err
	})
	if claimed {
		r.LookAt, r.Busy = until, until
	}
	return claimed, db.fault("store.claim_relay", parley.Subject(task.ID), err)
}

// relayHash is what is stored of a token's hash.
func relayHash(r *push.Relay) driver.Value {
	if r.TokenHash == nil {
		return nil
	}
	return r.TokenHash
}

// SaveUpstream writes how the agent was asked to push, of a relay that the caller
// has to itself. saved is false where it has not any more.
func (db *DB) SaveUpstream(ctx context.Context, r *push.Relay) (saved bool, err error) {
	row := *r
	saved, err = outcome(ctx, db.w, func(tx *tx) (bool, error) {
		n, err := tx.run(`UPDATE push_relays SET token_hash = ?, upstream = ? WHERE agent = ? AND instance = ? AND task_id = ? AND busy_until = ?`,
			append(append([]driver.Value{relayHash(&row), string(row.Upstream)}, taskArgs(row.Task)...), micros(row.Busy))...)
		return n > 0, err
	})
	return saved, db.fault("store.save_upstream", parley.Subject(row.Task.ID), err)
}

// SaveRelay writes what was learnt at a look, and lets go of the relay. A look
// that somebody asked for meanwhile stays due. Where the caller has the relay no
// more to itself, nothing is written.
func (db *DB) SaveRelay(ctx context.Context, r *push.Relay) error {
	row := *r
	err := db.w.do(ctx, statements(func(tx *tx) error {
		n, err := tx.run(`UPDATE push_relays SET token_hash = ?, upstream = ?, seen = ?, seen_seq = ?, delay = ?, lost = ?, ended_at = ?, busy_until = NULL
			WHERE agent = ? AND instance = ? AND task_id = ? AND busy_until = ?`,
			append(append([]driver.Value{relayHash(&row), string(row.Upstream), row.Seen, row.SeenSeq, int64(row.Delay), int64(row.Lost), micros(row.Ended)},
				taskArgs(row.Task)...), micros(row.Busy))...)
		if err != nil || n == 0 {
			return err
		}
		if row.LookAt.IsZero() {
			_, err = tx.run(`UPDATE push_relays SET look_at = NULL WHERE agent = ? AND instance = ? AND task_id = ?`, taskArgs(row.Task)...)
			return err
		}
		_, err = tx.run(`UPDATE push_relays SET look_at = ? WHERE agent = ? AND instance = ? AND task_id = ? AND look_at = ?`,
			append(append([]driver.Value{row.LookAt.UnixMicro()}, taskArgs(row.Task)...), micros(row.Busy))...)
		return err
	}))
	if err == nil {
		r.Busy = time.Time{}
	}
	return db.fault("store.save_relay", parley.Subject(row.Task.ID), err)
}

// NudgeRelay makes the look at a task due at that time, where it is not due
// earlier.
func (db *DB) NudgeRelay(ctx context.Context, task call.TaskKey, at time.Time) error {
	err := db.w.do(ctx, statements(func(tx *tx) error {
		_, err := tx.run(`UPDATE push_relays SET look_at = ?1 WHERE agent = ?2 AND instance = ?3 AND task_id = ?4 AND look_at > ?1`,
			at.UnixMicro(), string(task.Agent), task.Instance, task.ID)
		return err
	}))
	return db.fault("store.nudge_relay", parley.Subject(task.ID), err)
}

// DropRelay takes a relay away that nobody subscribes to any more; dropped is
// false where somebody does.
func (db *DB) DropRelay(ctx context.Context, task call.TaskKey) (dropped bool, err error) {
	dropped, err = outcome(ctx, db.w, func(tx *tx) (bool, error) {
		n, err := tx.run(`DELETE FROM push_relays WHERE agent = ?1 AND instance = ?2 AND task_id = ?3 AND NOT EXISTS (
			SELECT 1 FROM push_subscriptions WHERE agent = ?1 AND instance = ?2 AND task_id = ?3)`, taskArgs(task)...)
		return n > 0, err
	})
	return dropped, db.fault("store.drop_relay", parley.Subject(task.ID), err)
}

const endedRelays = `DELETE FROM push_relays WHERE callback IN (SELECT callback FROM push_relays r WHERE ended_at < ?
	AND NOT EXISTS (SELECT 1 FROM push_subscriptions s WHERE s.agent = r.agent AND s.instance = r.instance AND s.task_id = r.task_id
		AND s.cursor_seq < r.seen_seq AND NOT EXISTS (SELECT 1 FROM push_deliveries d WHERE d.subscription = s.id AND d.ended_at IS NOT NULL)) LIMIT ?)`

// EndRelays takes away the relays, with their subscriptions, of tasks whose last
// event came before then and went to every subscriber.
func (db *DB) EndRelays(ctx context.Context, before time.Time) (int64, error) {
	return db.pruneAll(ctx, endedRelays, before)
}

var _ push.Store = (*DB)(nil)
