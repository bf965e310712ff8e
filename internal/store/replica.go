package store

import (
	"context"
	"errors"
	"maps"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/parley-mesh/parley/internal/call"
	"github.com/parley-mesh/parley/internal/parley"
)

// Heed is what a process does for the other replicas of its store. Without other
// replicas nothing of it is called.
type Heed struct {
	// Changed: owners, principals, keys, agents or their credentials may have
	// changed elsewhere. It returns at once.
	Changed func()
	// Adopted: the process that had these open calls, each with a task, is dead.
	// They are this one's now.
	Adopted func(records []*call.Record)
	// Cancel ends an open call that this process has.
	Cancel func(ctx context.Context, id parley.CallID) error
	// Look takes up what the index says of a task that calls of this process
	// wait for.
	Look func(ctx context.Context, key call.TaskKey)
}

// Heed sets what is done for other replicas. From then on calls of processes
// that have died are adopted.
func (db *DB) Heed(h Heed) {
	if db.pg == nil {
		return
	}
	db.pg.mu.Lock()
	db.pg.heed = h
	db.pg.mu.Unlock()
}

// Shared reports whether other processes may serve the same store: what they
// must know has to be durable before anybody is told.
func (db *DB) Shared() bool { return db.pg != nil }

// Leases, by what their holder does for all replicas.
const (
	// LeaseFeed gives places in the feed.
	LeaseFeed = "feed"
	// LeaseUpkeep removes what is past its time and looks after agents.
	LeaseUpkeep = "upkeep"
)

// lease is one that this process holds.
type lease struct {
	epoch int64
	until time.Time // by this process's clock, and before the database's
}

// Holds reports whether this process is the one to do a job that one replica
// does for all. Without other replicas it always is. Two may hold a lease for a
// moment when one of them was paused: what must not happen twice needs a lock.
func (db *DB) Holds(name string) bool {
	if db.pg == nil {
		return true
	}
	_, held := db.pg.lease(name)
	return held
}

func (p *postgres) lease(name string) (lease, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	l, ok := p.held[name]
	return l, ok && time.Now().Before(l.until)
}

const (
	// pollEvery is how often a replica looks without a hint.
	pollEvery = time.Second
	// beatGap is the least time between two beats, and so between two hints to
	// the others: hints queue on one lock of the whole server.
	beatGap = 10 * time.Millisecond
	// listenRetry is how long the listener waits after a failure.
	listenRetry = time.Second
	// channel is where hints go.
	channel = "parley"
)

// pulse is the connection of the loop and what it knows. Only the loop uses it.
type pulse struct {
	conn    *pgx.Conn
	renewed time.Time
	last    int64 // the last place of the feed that the hub was told of
	changes map[string]int64
	failing bool

	oldest   int64 // the arrival of the oldest beginning without a place; 0 for none
	oldestAt time.Time
}

// begin starts the loops; end ends them.
func (p *postgres) begin() {
	ctx, cancel := context.WithCancel(context.Background())
	p.stop = cancel
	p.remember()
	p.done.Go(func() { p.run(ctx) })
	p.done.Go(func() { p.listen(ctx) })
}

func (p *postgres) end() error {
	p.stop()
	p.done.Wait()
	return nil
}

// committed wakes whoever waits for what the writer has committed.
func (db *DB) committed(seq int64) {
	if db.pg == nil {
		db.opt.Notify(seq)
		return
	}
	db.pg.kick()
}

func (p *postgres) kick() {
	select {
	case p.work <- struct{}{}:
	default: // told already
	}
}

// run is the loop that keeps this replica in step with the others.
func (p *postgres) run(ctx context.Context) {
	poll := time.NewTicker(pollEvery)
	defer poll.Stop()
	gap := time.NewTimer(0)
	defer gap.Stop()
	for {
		select {
		case <-ctx.Done():
			p.leave()
			return
		case <-gap.C:
		}
		work := false
		select {
		case <-ctx.Done():
			p.leave()
			return
		case <-p.work:
			work = true
		case <-p.hint:
		case <-poll.C:
		}
		if err := p.beat(ctx, work); ctx.Err() == nil {
			p.tell(err)
		}
		gap.Reset(beatGap)
	}
}

// tell logs a loop that begins to fail or works again, and wakes whoever waits
// for a beat.
func (p *postgres) tell(err error) {
	log := p.db.opt.Log
	switch {
	case err != nil && !p.pulse.failing:
		log.Warn("this replica is out of step with the others", "err", err, "remedy", p.remedy(err))
	case err == nil && p.pulse.failing:
		log.Info("this replica is in step again")
	}
	p.pulse.failing = err != nil
	p.out.Store(err != nil)
	if err != nil {
		p.hangUp()
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	close(p.beats)
	p.beats = make(chan struct{})
}

func (p *postgres) hangUp() {
	if p.pulse.conn == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), clientGrace)
	defer cancel()
	if err := p.pulse.conn.Close(ctx); err != nil {
		p.db.opt.Log.Debug("connection closed with an error", "err", err)
	}
	p.pulse.conn = nil
}

// beat renews what this replica holds, gives places where that is its job, hints
// to the others where there is news, and takes up theirs.
func (p *postgres) beat(ctx context.Context, work bool) error {
	if p.pulse.conn == nil {
		conn, err := p.dial(ctx)
		if err != nil {
			return err
		}
		p.pulse.conn = conn
		work = true // what was committed while there was none
	}
	ctx, cancel := p.bounded(ctx)
	defer cancel()
	if time.Since(p.pulse.renewed) >= p.opt.Lease/3 {
		if err := p.renew(ctx); err != nil {
			return away(err)
		}
		if err := p.sweep(ctx); err != nil {
			return err
		}
	}
	numbered, err := p.number(ctx)
	if err != nil {
		return away(err)
	}
	if work || numbered {
		if _, err := p.pulse.conn.Exec(ctx, "NOTIFY "+channel); err != nil {
			return away(err)
		}
	}
	return away(p.look(ctx))
}

// renew shows that this replica lives, and keeps or takes the leases that are
// free.
func (p *postgres) renew(ctx context.Context) error {
	begun, id, ttl := time.Now(), p.id.Load(), p.opt.Lease.Microseconds()
	tag, err := p.pulse.conn.Exec(ctx, `UPDATE replicas SET expires_at = `+pgNow+` + $2 WHERE id = $1`, id, ttl)
	if err != nil {
		return err
	}
	if tag.RowsAffected() == 0 { // taken for dead: the writer's next transaction begins anew
		if err := p.db.catchUp(ctx); err != nil {
			return err
		}
		id = p.id.Load()
	}
	for _, name := range []string{LeaseFeed, LeaseUpkeep} {
		var epoch int64
		err := p.pulse.conn.QueryRow(ctx, `INSERT INTO leases (name, holder, epoch, expires_at) VALUES ($1, $2, 1, `+pgNow+` + $3)
			ON CONFLICT (name) DO UPDATE SET holder = excluded.holder, expires_at = excluded.expires_at,
				epoch = leases.epoch + CASE WHEN leases.holder = excluded.holder THEN 0 ELSE 1 END
			WHERE leases.holder = excluded.holder OR leases.expires_at < `+pgNow+` RETURNING epoch`, name, id, ttl).Scan(&epoch)
		p.mu.Lock()
		switch {
		case err == nil:
			p.held[name] = lease{epoch, begun.Add(p.opt.Lease)}
		case errors.Is(err, pgx.ErrNoRows):
			delete(p.held, name)
		}
		p.mu.Unlock()
		if err != nil && !errors.Is(err, pgx.ErrNoRows) {
			return err
		}
	}
	p.pulse.renewed = begun
	return nil
}

// look takes up what has changed: the feed, what is kept in memory, and what
// others ask.
func (p *postgres) look(ctx context.Context) error {
	var b pgx.Batch
	b.Queue(`SELECT last FROM feed`)
	b.Queue(`SELECT domain, n FROM changes`)
	results := p.pulse.conn.SendBatch(ctx, &b)
	defer results.Close()
	var last, n int64
	if err := results.QueryRow().Scan(&last); err != nil {
		return err
	}
	rows, err := results.Query()
	if err != nil {
		return err
	}
	changes := map[string]int64{}
	var domain string
	if _, err := pgx.ForEachRow(rows, []any{&domain, &n}, func() error {
		changes[domain] = n
		return nil
	}); err != nil {
		return err
	}
	if err := results.Close(); err != nil {
		return err
	}
	p.mu.Lock()
	heed := p.heed
	p.mu.Unlock()
	if !maps.Equal(changes, p.pulse.changes) {
		p.pulse.changes = changes
		if heed.Changed != nil {
			heed.Changed()
		}
	}
	if err := p.lookAtJournals(ctx); err != nil {
		return err
	}
	if last > p.pulse.last {
		p.pulse.last = last
		p.db.opt.Notify(last)
	}
	return p.answer(ctx, heed)
}

// leave gives back what this replica holds, at a clean stop.
func (p *postgres) leave() {
	ctx, cancel := context.WithTimeout(context.Background(), p.opt.ConnectTimeout)
	defer cancel()
	if p.pulse.conn == nil || p.pulse.conn.IsClosed() { // the stop has broken off a beat, or there is no server
		conn, err := p.dial(ctx)
		if err != nil {
			return // the leases end by themselves
		}
		p.pulse.conn = conn
	}
	defer p.hangUp()
	if _, err := p.number(ctx); err != nil {
		p.db.opt.Log.Debug("places are left to others", "err", err)
	}
	var b pgx.Batch
	b.Queue(`DELETE FROM leases WHERE holder = $1`, p.id.Load())
	b.Queue(`DELETE FROM replicas WHERE id = $1`, p.id.Load())
	b.Queue("NOTIFY " + channel)
	if err := p.pulse.conn.SendBatch(ctx, &b).Close(); err != nil {
		p.db.opt.Log.Warn("the leases are not given back; they end by themselves", "err", err)
	}
}

// listen turns the others' hints into beats of this replica's loop, over a
// connection of its own. Hints only make haste: the loop also looks by itself.
func (p *postgres) listen(ctx context.Context) {
	for ctx.Err() == nil {
		if err := p.hear(ctx); err != nil && ctx.Err() == nil {
			p.db.opt.Log.Debug("no hints from other replicas", "err", err)
		}
		select {
		case <-ctx.Done():
		case <-time.After(listenRetry):
		}
	}
}

func (p *postgres) hear(ctx context.Context) error {
	conn, err := p.dial(ctx)
	if err != nil {
		return err
	}
	defer func() {
		closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), clientGrace)
		defer cancel()
		if err := conn.Close(closing); err != nil {
			p.db.opt.Log.Debug("connection closed with an error", "err", err)
		}
	}()
	if _, err := conn.Exec(ctx, "LISTEN "+channel); err != nil {
		return err
	}
	for {
		select {
		case p.hint <- struct{}{}: // also for what was missed
		default:
		}
		if _, err := conn.WaitForNotification(ctx); err != nil {
			return err
		}
	}
}

// Flush returns when all that this process has handed over is committed and has
// its place in the feed.
func (db *DB) Flush(ctx context.Context) error {
	const op parley.Op = "store.flush"
	if err := db.catchUp(ctx); err != nil || db.pg == nil {
		return db.fault(op, "", err)
	}
	p := db.pg
	var until int64
	if err := db.read.QueryRowContext(ctx, selectUnplaced).Scan(&until); err != nil {
		return db.fault(op, "", err)
	}
	for left := until; left > 0; {
		p.mu.Lock()
		beat := p.beats
		p.mu.Unlock()
		p.kick()
		select {
		case <-ctx.Done():
			return db.fault(op, "", ctx.Err())
		case <-beat:
		}
		if err := db.read.QueryRowContext(ctx, selectUnplacedUntil, until).Scan(&left); err != nil {
			return db.fault(op, "", err)
		}
	}
	return nil
}
