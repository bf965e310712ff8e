package store

import (
	"context"
	"database/sql/driver"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/parley-mesh/parley/internal/parley"
)

// work is one operation of the writer. write makes its statements; ended is
// called once, when the outcome is certain and before anybody is told: err is
// nil if it is committed. Work that later does not take is not ended.
type work interface {
	write(tx *tx) error
	ended(err error)
}

// statements is a work without a memory of its own.
type statements func(tx *tx) error

func (s statements) write(tx *tx) error { return s(tx) }
func (s statements) ended(error)        {}

// job is a work in the queue.
type job struct {
	work
	done  chan error // nil where nobody waits
	err   error
	place uint64 // in order of arrival
	next  *job   // in its line
}

// line is jobs in order of arrival.
type line struct {
	first, last *job
	n           int
}

func (l *line) push(j *job) {
	if l.n == 0 {
		l.first = j
	} else {
		l.last.next = j
	}
	l.last = j
	l.n++
}

// unshift puts a job back that was the first.
func (l *line) unshift(j *job) {
	if l.n == 0 {
		l.last = j
	}
	j.next = l.first
	l.first = j
	l.n++
}

// pop takes the first job; there must be one.
func (l *line) pop() *job {
	j := l.first
	l.first, j.next = j.next, nil
	if l.n--; l.n == 0 {
		l.last = nil
	}
	return j
}

// tx is the transaction of one batch, as one operation sees it.
type tx struct {
	conn
	db     *DB
	seq    int64           // the last number given in the feed
	wrote  bool            // the operation at work has changed rows
	single bool            // jobs are written one by one
	told   map[string]bool // the domains whose change is noted for other replicas
}

// run executes a statement and tells how many rows it changed.
func (t *tx) run(sql string, args ...driver.Value) (int64, error) {
	n, err := t.conn.run(sql, args...)
	t.wrote = t.wrote || n > 0
	return n, err
}

// next gives the next place in the feed.
func (t *tx) next() int64 {
	t.seq++
	return t.seq
}

// Limits and times of the writer.
const (
	// defaultBatchMax is how many operations one transaction holds.
	defaultBatchMax = 256
	// defaultQueueMax is how many operations may wait for their commit that
	// somebody waits for. Above it new ones are refused.
	defaultQueueMax = 16384
	// defaultBacklogMax is how many operations may wait for their commit that
	// nobody waits for; a record takes about 2 KiB. Above it the records of
	// refused calls are left out, and reads and calls of durability relaxed are
	// not let in. What is left of calls that were let in is always taken, and
	// so bounded by them.
	defaultBacklogMax = 16384
	// tellDroppedEvery is how often the log tells at most how many records were
	// left out, while the disk works.
	tellDroppedEvery = time.Minute
	// lazyDelay is how long an operation that nobody waits for stays in the
	// queue so that it can join a commit somebody waits for. A crash loses
	// what is younger.
	lazyDelay = 2 * time.Millisecond
	// gatherDelay is how long a busy writer lets work gather before a commit,
	// and gatherFrom the operations of the last commit from which it is busy.
	gatherDelay = time.Millisecond
	gatherFrom  = 12
	// lazyMax is how many such operations start a commit by themselves.
	lazyMax = 64
	// retryMin and retryMax bound the time between attempts while the disk
	// fails; in between, writes are refused without an attempt.
	retryMin = 100 * time.Millisecond
	retryMax = 2 * time.Second
)

// writer is the one goroutine that changes the database.
type writer struct {
	db   *DB
	dsn  string // of SQLite
	conn conn   // nil after it was lost, until it is dialed again
	seq  int64  // the last number of the feed that is committed
	log  *slog.Logger

	wake chan struct{} // holds one token: there may be work
	done chan struct{} // closed when the writer has ended

	mu        sync.Mutex
	waited    line   // jobs that somebody waits for
	unwaited  line   // the others; the two lines are one queue, by place
	places    uint64 // given so far
	dropped   int64  // records left out that the log has not told of
	toldAt    time.Time
	lazy      *time.Timer // wakes the writer for jobs nobody waits for
	armed     bool
	failing   *parley.Error // the last failure of the disk; nil while all is well
	retryAt   time.Time
	backoff   time.Duration
	writing   bool // a batch is taken and its jobs have not been told
	closing   bool
	lastBatch int // operations of the last batch; only run touches it
}

func newWriter(db *DB, dsn string, c conn, seq int64) *writer {
	w := &writer{db: db, dsn: dsn, conn: c, seq: seq, log: db.opt.Log, wake: make(chan struct{}, 1), done: make(chan struct{})}
	w.lazy = time.AfterFunc(time.Hour, w.due)
	w.lazy.Stop()
	return w
}

// due wakes the writer for what nobody waits for.
func (w *writer) due() {
	w.mu.Lock()
	w.armed = false
	w.mu.Unlock()
	w.kick()
}

func (w *writer) kick() {
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

// do hands work over and waits until it is committed or refused. When ctx ends
// first, the work may still be committed.
func (w *writer) do(ctx context.Context, k work) error {
	j := &job{work: k, done: make(chan error, 1)}
	if err := w.add(j); err != nil {
		k.ended(err)
		return err
	}
	select {
	case err := <-j.done:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// outcome writes and gives what f gave. Without certainty it gives nothing: where
// ctx ends first, the writer may be at f still.
func outcome[T any](ctx context.Context, w *writer, f func(tx *tx) (T, error)) (T, error) {
	var given, none T
	err := w.do(ctx, statements(func(tx *tx) (err error) {
		given, err = f(tx)
		return err
	}))
	if err != nil {
		return none, err
	}
	return given, nil
}

// later hands over work that nobody waits for. It is always taken until the
// mesh stops.
func (w *writer) later(k work) error {
	const op parley.Op = "store.write"
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.addLazy(op, &job{work: k})
}

// laterOrNever is later for work that may be left out: it is not taken where
// too much waits already, and counted.
func (w *writer) laterOrNever(k work) (taken bool, err error) {
	const op parley.Op = "store.write"
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.closing && w.unwaited.n >= w.db.opt.BacklogMax {
		w.dropped++
		w.db.stats.dropped.Add(1)
		return false, nil
	}
	err = w.addLazy(op, &job{work: k})
	return err == nil, err
}

// addLazy queues a job that nobody waits for. The caller holds mu.
func (w *writer) addLazy(op parley.Op, j *job) error {
	if w.closing {
		return stopping(op)
	}
	w.enqueue(&w.unwaited, j)
	if w.unwaited.n >= lazyMax && w.failing == nil {
		w.kick()
	} else if !w.armed {
		w.armed = true
		w.lazy.Reset(lazyDelay)
	}
	return nil
}

func stopping(op parley.Op) error {
	return parley.E(op, parley.Unavailable, "", "the mesh is stopping", nil)
}

// add queues a job that somebody waits for.
func (w *writer) add(j *job) error {
	const op parley.Op = "store.write"
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case w.closing:
		return stopping(op)
	case w.failing != nil && time.Now().Before(w.retryAt):
		return w.failing
	case w.waited.n >= w.db.opt.QueueMax:
		return parley.E(op, parley.Exhausted, "", "too many writes wait for the disk: try again later", nil)
	}
	w.enqueue(&w.waited, j)
	if w.waited.n == 1 {
		w.kick()
	}
	return nil
}

// enqueue gives a job its place. The caller holds mu.
func (w *writer) enqueue(l *line, j *job) {
	w.places++
	j.place = w.places
	l.push(j)
}

// behind tells why nothing more may be let in whose record nobody would wait
// for: too many such wait already. Nil while there is room.
func (w *writer) behind(op parley.Op) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case w.closing:
		return stopping(op)
	case w.unwaited.n < w.db.opt.BacklogMax:
		return nil
	case w.failing != nil:
		return w.failing
	}
	return parley.E(op, parley.Unavailable, "", "too many records wait for the disk: try again later", nil)
}

// run writes until close was called and the queue is empty. On a disk that
// fails it gives up what nobody waits for when it is asked to close.
func (w *writer) run() {
	defer close(w.done)
	for range w.wake {
		for {
			w.gather()
			batch, closing := w.take()
			if len(batch) == 0 {
				if closing {
					w.tellDropped(true)
					return
				}
				break
			}
			if !w.commit(batch) && closing {
				w.giveUp()
				return
			}
			if w.resting() {
				break
			}
		}
	}
}

// gather waits a moment for more work where the last commit was a busy one. A
// commit costs about the same for ten operations as for one, so that under load
// fewer, larger ones leave more of the processor to the calls themselves.
func (w *writer) gather() {
	if w.lastBatch >= gatherFrom {
		time.Sleep(gatherDelay)
	}
}

// take gives the next batch, oldest first.
func (w *writer) take() (batch []*job, closing bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	n := min(w.waited.n+w.unwaited.n, w.db.opt.BatchMax)
	w.writing = n > 0
	batch = make([]*job, 0, n)
	for range n {
		l := &w.waited
		if l.n == 0 || w.unwaited.n > 0 && w.unwaited.first.place < l.first.place {
			l = &w.unwaited
		}
		batch = append(batch, l.pop())
	}
	w.lastBatch = n
	if w.waited.n+w.unwaited.n == 0 {
		w.armed = false
	}
	return batch, w.closing
}

// resting reports whether there is nothing to do now: no job that somebody
// waits for and too few others, or a disk that failed a moment ago.
func (w *writer) resting() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.writing = false
	if w.closing {
		return false
	}
	if w.failing != nil {
		return true
	}
	rest := w.waited.n == 0 && w.unwaited.n < lazyMax
	if rest && w.unwaited.n > 0 && !w.armed {
		w.armed = true
		w.lazy.Reset(lazyDelay)
	}
	return rest
}

// commit writes the batch in one transaction, without the jobs that fail. It
// reports false when the disk has failed: then who waits is told so, and what
// nobody waits for is back in the queue.
func (w *writer) commit(batch []*job) bool {
	begun := time.Now()
	left := append([]*job(nil), batch...)
	var failed []*job
	seq, err := w.attempt(&left, &failed)
	if err != nil {
		w.fail(batch, err)
		return false
	}
	w.recovered()
	w.seq = seq
	w.db.stats.committed(len(left), time.Since(begun))
	for _, j := range left {
		j.ended(nil)
	}
	for _, j := range failed {
		j.ended(j.err)
	}
	if len(left) > 0 {
		w.db.committed(seq)
	}
	for _, j := range batch {
		if j.done != nil {
			j.done <- j.err
		}
	}
	return true
}

// attempt runs the jobs of left until a transaction without a failing one is
// committed. Failing ones move to failed. An error is one of the surroundings;
// then nothing was changed.
func (w *writer) attempt(left, failed *[]*job) (seq int64, err error) {
	if err := w.redial(); err != nil {
		return 0, err
	}
	for tries, single := 0, false; ; {
		if len(*left) == 0 {
			return w.seq, nil
		}
		if err := w.conn.begin(); err != nil {
			w.lost(err)
			return 0, err
		}
		t := &tx{conn: w.conn, db: w.db, seq: w.seq, single: single}
		clean, err := t.all(left, failed)
		single = single || t.single
		if err == nil && clean {
			if err = w.conn.commit(); err == nil {
				return t.seq, nil
			}
		}
		w.rollback()
		switch {
		case err == nil:
		case collided(err) && tries < maxCollisions:
			tries++
		default:
			w.lost(err)
			return 0, err
		}
	}
}

// maxCollisions is how often a batch is tried again that met another replica's
// transaction. Each attempt waits for the other one, so that few are needed.
const maxCollisions = 20

// all runs the jobs of left. A job that fails before it changed anything is
// moved to failed and the others go on; one that fails later makes the
// transaction unclean. An error is one of the surroundings.
func (t *tx) all(left, failed *[]*job) (clean bool, err error) {
	jobs := *left
	done, ok, err := t.pipe(jobs)
	if err != nil {
		return false, err
	}
	if !ok {
		t.single = true
		return false, nil
	}
	kept := jobs[:0]
	for i, j := range jobs {
		if done[i] {
			kept = append(kept, j)
			continue
		}
		t.wrote = false
		j.err = j.write(t)
		switch {
		case j.err == nil:
			kept = append(kept, j)
			continue
		case surroundings(j.err) || collided(j.err):
			*left = append(kept, jobs[i:]...) // without those that failed: kept lies over them
			return false, j.err
		}
		*failed = append(*failed, j)
		if t.wrote || t.spoiled() {
			*left = append(kept, jobs[i+1:]...)
			return false, nil
		}
	}
	*left = kept
	return true, nil
}

// rollback ends the transaction without a trace.
func (w *writer) rollback() {
	if err := w.conn.rollback(); err != nil {
		w.log.Debug("no transaction to roll back", "err", err)
	}
}

// lost gives the connection up after an error of the surroundings: a fresh one
// has no state that could be wrong.
func (w *writer) lost(err error) {
	if closeErr := w.conn.close(); closeErr != nil {
		w.log.Debug("write connection closed with an error", "err", closeErr, "cause", err)
	}
	w.conn = nil
}

// redial opens the database again after the connection was lost, and asks it
// for the last place in the feed: a commit that ended with an error may have
// been one all the same, and its places are taken then.
func (w *writer) redial() error {
	if w.conn != nil {
		return nil
	}
	c, err := w.dial()
	if err != nil {
		return err
	}
	var dest [1]driver.Value
	if _, err := c.first(dest[:], w.db.sql.lastSeq); err != nil {
		return errors.Join(err, c.close())
	}
	w.conn, w.seq = c, dest[0].(int64)
	return nil
}

func (w *writer) dial() (conn, error) {
	if w.db.pg != nil {
		return w.db.pg.dialWriter()
	}
	return dialSQLite(w.dsn)
}

// fail tells everybody who waits that the disk has failed, keeps what nobody
// waits for, and sets the time of the next attempt.
func (w *writer) fail(batch []*job, cause error) {
	err := parley.E("store.write", parley.Unavailable, "", w.db.remedy(cause), cause)
	w.mu.Lock()
	first := w.failing == nil
	w.failing = err
	w.backoff = min(max(2*w.backoff, retryMin), retryMax)
	w.retryAt = time.Now().Add(w.backoff)
	var told []*job
	for _, j := range slices.Backward(batch) {
		if j.done == nil {
			w.unwaited.unshift(j)
		}
	}
	for _, j := range batch {
		if j.done != nil {
			told = append(told, j)
		}
	}
	for w.waited.n > 0 {
		told = append(told, w.waited.pop())
	}
	w.armed = true
	w.lazy.Reset(w.backoff)
	w.mu.Unlock()

	w.db.stats.failed()
	if first {
		w.log.Error("the store cannot write", "err", cause, "remedy", err.Message)
	}
	for _, j := range told {
		j.ended(err)
		j.done <- err
	}
}

// recovered notes that the disk works.
func (w *writer) recovered() {
	w.mu.Lock()
	was := w.failing
	w.failing, w.backoff = nil, 0
	w.mu.Unlock()
	if was != nil {
		w.log.Info("the store writes again")
	}
	w.tellDropped(was != nil)
}

// tellDropped logs how many records were left out since it last did; not more
// often than tellDroppedEvery, unless it has to be now.
func (w *writer) tellDropped(now bool) {
	w.mu.Lock()
	n := w.dropped
	if n == 0 || !now && time.Since(w.toldAt) < tellDroppedEvery {
		w.mu.Unlock()
		return
	}
	w.dropped, w.toldAt = 0, time.Now()
	w.mu.Unlock()
	w.log.Warn("records of refused calls were left out because too many waited for the disk", "count", n, "limit", w.db.opt.BacklogMax)
}

// errGivenUp is inside the error of work that was lost at the stop. It is told
// of once for all, and not by each.
var errGivenUp = errors.New("given up at the stop")

// giveUp drops what nobody waits for, loudly: the disk fails and the mesh
// stops.
func (w *writer) giveUp() {
	w.mu.Lock()
	lost, cause := w.unwaited, w.failing
	w.unwaited = line{}
	w.mu.Unlock()
	err := parley.E("store.write", parley.Unavailable, "", cause.Message, errGivenUp)
	attrs := []any{"count", lost.n}
	if lost.n > 0 {
		attrs = append(attrs, ofCall("first", lost.first), ofCall("last", lost.last))
	}
	for lost.n > 0 {
		lost.pop().ended(err)
	}
	if len(attrs) > 2 {
		w.log.Error("writes were lost because the disk failed until the end", append(attrs, "err", cause)...)
	}
	w.tellDropped(true)
}

// ofCall names the call that a job is about.
func ofCall(key string, j *job) slog.Attr {
	switch k := j.work.(type) {
	case *settlement:
		return slog.String(key, k.record.ID.String())
	case *begin:
		return slog.String(key, k.record.ID.String())
	}
	return slog.Attr{}
}

// close refuses new work and waits until the rest is written.
func (w *writer) close(ctx context.Context) error {
	w.mu.Lock()
	w.closing = true
	w.mu.Unlock()
	w.kick()
	select {
	case <-w.done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// idle reports whether everything that was handed over has its outcome.
func (w *writer) idle() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.waited.n+w.unwaited.n == 0 && !w.writing
}

// depth is how many operations wait.
func (w *writer) depth() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.waited.n + w.unwaited.n
}

// trouble is the failure that lasts, or nil.
func (w *writer) trouble() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.failing == nil {
		return nil
	}
	return w.failing
}
