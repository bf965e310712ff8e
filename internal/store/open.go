package store

import (
	"context"
	"crypto/rand"
	"database/sql"
	"embed"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"github.com/pressly/goose/v3"
	"modernc.org/sqlite"

	"github.com/parley-mesh/parley/internal/call"
	"github.com/parley-mesh/parley/internal/identity"
	"github.com/parley-mesh/parley/internal/parley"
	"github.com/parley-mesh/parley/internal/registry"
	"github.com/parley-mesh/parley/internal/stream"
	"github.com/parley-mesh/parley/internal/vault"
)

// Files of the data directory.
const (
	databaseFile = "parley.db"
	lockFile     = "lock"
)

const (
	// quickCheckMax is the size in bytes up to which the whole database is
	// checked when it is opened; that takes about a second per GiB. Larger
	// ones are checked by parley doctor.
	quickCheckMax = 256 << 20
	// checkpointPages is how many pages of 4 KiB the log holds before they are
	// moved to the database.
	checkpointPages = 2000
	// writeCacheKiB is how much memory the writer's page cache may take: the
	// leaves of the indexes whose entries come in no order.
	writeCacheKiB = 32 << 10
	// defaultReadConns is how many reads run at once.
	defaultReadConns = 4
	// busyTimeout is how long a statement waits for a lock of another process,
	// such as a backup tool's.
	busyTimeout = 5 * time.Second
)

//go:embed migrations/*/*.sql
var migrations embed.FS

// Durability says what a Begin waits for.
type Durability string

// The durabilities. The zero value is Strict.
const (
	// Strict: what is acknowledged has reached the disk.
	Strict Durability = "strict"
	// Relaxed: nothing waits for the disk, and a power cut takes back what was
	// written since the last checkpoint. A crash of the process alone loses
	// only what was not yet handed to the system.
	Relaxed Durability = "relaxed"
)

// Options say how to open a store. Dir is required.
type Options struct {
	Dir        string       // data directory; made where it is missing
	Durability Durability   // zero: Strict
	MasterKey  vault.Source // zero: a file in Dir, made at first start
	Log        *slog.Logger // nil: nothing is logged
	Now        func() time.Time
	// Notify is told of every commit, with the last place in the feed that is
	// taken. It is called by the writer and must return at once.
	Notify    func(seq int64)
	ReadConns int      // reads at once on SQLite; zero: 4
	Postgres  Postgres // zero: SQLite in Dir
	BatchMax  int      // operations in one transaction; zero: 256
	QueueMax  int      // operations that callers may wait for; zero: 16384
	// BacklogMax is how many operations may wait for a commit that nobody waits
	// for, before refusals go without a record and reads are not let in; zero:
	// 16384.
	BacklogMax int
	Journal    stream.Limits // of one task
	// Journaled is told of every task whose journal this process made longer. It
	// is called by the writer and must return at once.
	Journaled func(task call.TaskKey)
}

func (o *Options) check() error {
	switch o.Durability {
	case "":
		o.Durability = Strict
	case Strict, Relaxed:
	default:
		return parley.E("store.open", parley.Invalid, "durability", fmt.Sprintf("durability %q is unknown: use strict or relaxed", o.Durability), nil)
	}
	if o.Dir == "" {
		return parley.E("store.open", parley.Invalid, "data", "no data directory is given", nil)
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Notify == nil {
		o.Notify = func(int64) {}
	}
	if o.Journaled == nil {
		o.Journaled = func(call.TaskKey) {}
	}
	defaults := func(n *int, value int) {
		if *n <= 0 {
			*n = value
		}
	}
	defaults(&o.ReadConns, defaultReadConns)
	defaults(&o.BatchMax, defaultBatchMax)
	defaults(&o.QueueMax, defaultQueueMax)
	defaults(&o.BacklogMax, defaultBacklogMax)
	o.Journal = o.Journal.WithDefaults()
	return nil
}

// DB is the store.
type DB struct {
	opt   Options
	lock  *os.File
	sql   *dialect
	read  *reads
	w     *writer
	pg    *postgres // nil on SQLite
	vault *vault.Vault
	mesh  string

	contextSecret []byte        // keys the hashes of contexts
	contexts      contextFilter // of SQLite
	sent          sentFilter    // of SQLite
	live          *live
	journals      *journals
	gone          departures
	uses          uses
	stats         stats
	gather        func(work) // takes what would be written; nil but in a Batch's view

	undoing []func() error // closes what is open, the last first
	closed  bool           // the writer was told to end
}

var (
	_ identity.Store = (*DB)(nil)
	_ registry.Store = (*DB)(nil)
	_ call.Reader    = (*DB)(nil)
	_ vault.Keys     = (*DB)(nil)
)

// Open opens the store in opt.Dir, making it at first start, and brings an
// older one up to date. Errors: parley.Conflict where another process has the
// directory, parley.Unavailable where it cannot be used or its database is
// damaged, parley.Invalid where the master key is missing or not the one that
// sealed what is there.
func Open(ctx context.Context, opt Options) (_ *DB, err error) {
	const op parley.Op = "store.open"
	if err := opt.check(); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(opt.Dir, 0o700); err != nil {
		return nil, parley.E(op, parley.Unavailable, parley.Subject(opt.Dir), "the data directory "+opt.Dir+" cannot be made: check the permissions of its parent", err)
	}
	db := &DB{opt: opt, live: newLive(), journals: newJournals(), gone: departures{}}
	defer func() {
		if err != nil {
			err = errors.Join(unstarted(db.fault(op, parley.Subject(opt.Dir), err)), db.unwind())
		}
	}()
	if db.lock, err = lockDir(opt.Dir); err != nil {
		return nil, err
	}
	db.undo(db.lock.Close)
	if err := removeCopies(opt.Dir); err != nil {
		opt.Log.Warn("what a backup left behind cannot be removed", "err", err)
	}
	if opt.Postgres.URL != "" {
		err = db.openPostgres(ctx)
	} else {
		err = db.openSQLite(ctx)
	}
	if err != nil {
		return nil, err
	}
	return db, nil
}

// undo notes how something that was opened is closed.
func (db *DB) undo(closing func() error) { db.undoing = append(db.undoing, closing) }

// unwind closes what was opened, the last first.
func (db *DB) unwind() error {
	var errs []error
	for _, closing := range slices.Backward(db.undoing) {
		errs = append(errs, closing())
	}
	db.undoing = nil
	return errors.Join(errs...)
}

// start lets the writer run; it ends with the store.
func (db *DB) start(w *writer) {
	db.w = w
	go w.run() // ended by closeWriter
	db.undo(func() error { return db.closeWriter(context.Background()) })
}

// openSQLite opens the store in its data directory.
func (db *DB) openSQLite(ctx context.Context) error {
	db.sql, db.contexts = &sqliteDialect, newContextFilter()
	// A commit then waits for the data and not for timestamps as well; where
	// the system cannot tell them apart nothing changes.
	if _, err := sqlite.Fdatasync(true); err != nil && !errors.Is(err, sqlite.ErrFdatasyncUnavailable) {
		return err
	}
	pool, err := sql.Open("sqlite", db.dsn("query_only(1)"))
	if err != nil {
		return err
	}
	db.read = &reads{DB: pool}
	db.undo(db.read.Close)
	db.read.SetMaxOpenConns(db.opt.ReadConns)
	db.read.SetMaxIdleConns(db.opt.ReadConns)

	w, err := db.prepare(ctx)
	if err != nil {
		return err
	}
	db.start(w)
	if err := db.loadLive(ctx); err != nil {
		return err
	}
	if err := db.loadFilter(ctx); err != nil {
		return err
	}
	if err := db.loadSent(ctx); err != nil {
		return err
	}
	return db.openVault(ctx)
}

// dsn is how a connection to the database is opened.
func (db *DB) dsn(pragmas ...string) string {
	q := url.Values{"_pragma": append([]string{
		"busy_timeout(" + strconv.FormatInt(busyTimeout.Milliseconds(), 10) + ")",
		"foreign_keys(1)", "page_size(2048)",
	}, pragmas...)}
	path := url.URL{Path: filepath.Join(db.opt.Dir, databaseFile)}
	return "file:" + path.EscapedPath() + "?" + q.Encode()
}

// prepare checks the file, migrates it and gives the writer, not yet running.
func (db *DB) prepare(ctx context.Context) (*writer, error) {
	path := filepath.Join(db.opt.Dir, databaseFile)
	fresh, err := db.checkFile(ctx, path)
	if err != nil {
		return nil, err
	}
	if err := db.migrate(ctx); err != nil {
		return nil, err
	}
	if fresh {
		if err := os.Chmod(path, 0o600); err != nil {
			return nil, fmt.Errorf("close the database to others: %w", err)
		}
	}
	level := "FULL"
	if db.opt.Durability == Relaxed {
		level = "NORMAL"
	}
	dsn := db.dsn("synchronous("+level+")", "wal_autocheckpoint("+strconv.Itoa(checkpointPages)+")",
		"cache_size(-"+strconv.Itoa(writeCacheKiB)+")")
	c, err := dialSQLite(dsn)
	if err != nil {
		return nil, err
	}
	w := newWriter(db, dsn, c, 0)
	if err := db.firstStart(&tx{conn: c, db: db}); err != nil {
		return nil, errors.Join(err, c.close())
	}
	if db.mesh, _, err = db.meta(ctx, "mesh"); err != nil {
		return nil, errors.Join(err, c.close())
	}
	if w.seq, err = db.LastSeq(ctx); err != nil {
		return nil, errors.Join(err, c.close())
	}
	return w, nil
}

// checkFile finds damage before anything is served.
func (db *DB) checkFile(ctx context.Context, path string) (fresh bool, err error) {
	st, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return true, nil
	}
	if err != nil {
		return false, err
	}
	if st.Size() == 0 {
		return true, nil
	}
	check := "PRAGMA quick_check(1)"
	if st.Size() > quickCheckMax {
		check = "SELECT count(*) FROM sqlite_schema"
	}
	var answer string
	if err := db.read.QueryRowContext(ctx, check).Scan(&answer); err != nil {
		return false, err
	}
	if st.Size() <= quickCheckMax && answer != "ok" {
		return false, db.damage(errors.New(answer))
	}
	return false, nil
}

func (db *DB) damage(cause error) error {
	file := filepath.Join(db.opt.Dir, databaseFile)
	return parley.E("store.open", parley.Unavailable, parley.Subject(file), damageRemedy(file), cause)
}

// migrate brings the schema up to date, each step in a transaction.
func (db *DB) migrate(ctx context.Context) error {
	conn, err := sql.Open("sqlite", db.dsn("journal_mode(WAL)", "synchronous(FULL)"))
	if err != nil {
		return err
	}
	defer conn.Close()
	dir, err := fs.Sub(migrations, "migrations/sqlite")
	if err != nil {
		return err
	}
	p, err := goose.NewProvider(goose.DialectSQLite3, conn, dir)
	if err != nil {
		return err
	}
	return upgrade(ctx, p, "the data directory "+db.opt.Dir)
}

// upgrade brings a schema up to date. One that a newer program made is refused.
func upgrade(ctx context.Context, p *goose.Provider, where string) error {
	current, target, err := p.GetVersions(ctx)
	if err != nil {
		return err
	}
	if current > target {
		return parley.E("store.open", parley.Invalid, parley.Subject(where), fmt.Sprintf("the schema of %s has version %d and this program knows versions up to %d: use the newer program that made it", where, current, target), nil)
	}
	_, err = p.Up(ctx)
	return err
}

// firstStart gives a new mesh its id and the owner of whatever has none.
func (db *DB) firstStart(t *tx) error {
	id := make([]byte, 16)
	if _, err := rand.Read(id); err != nil {
		return err
	}
	if _, err := t.run(`INSERT INTO meta (name, value) VALUES ('mesh', ?) ON CONFLICT DO NOTHING`, hex.EncodeToString(id)); err != nil {
		return err
	}
	_, err := t.run(`INSERT INTO owners (name, description, created_at, version)
		SELECT ?, 'answers for whatever is registered without an owner', ?, 1
		WHERE NOT EXISTS (SELECT 1 FROM owners)`, string(parley.DefaultOwner), micros(db.opt.Now()))
	return err
}

// openVault loads the master key and checks that it is the one which sealed
// what the database holds. At first start it is made.
func (db *DB) openVault(ctx context.Context) error {
	const op parley.Op = "store.open"
	sealedBy, sealed, err := db.meta(ctx, "master")
	if err != nil {
		return err
	}
	master, err := db.opt.MasterKey.Load(db.opt.Dir)
	switch {
	case err == nil:
	case parley.KindOf(err) != parley.NotFound:
		return err
	case sealed:
		return parley.E(op, parley.Invalid, parley.Subject(db.opt.Dir), parley.PublicMessage(err)+", and the database holds data sealed under it (id "+sealedBy+"): put the key back from its backup; without it stored credentials and task snapshots cannot be read by anybody"+db.sameKey(), err)
	default:
		if master, err = db.opt.MasterKey.Create(db.opt.Dir); err != nil {
			return err
		}
	}
	if sealed && sealedBy != master.ID() {
		return parley.E(op, parley.Invalid, parley.Subject(db.opt.Dir), "the master key has the id "+master.ID()+", but the data is sealed under "+sealedBy+": put the right key back from its backup"+db.sameKey(), nil)
	}
	if !sealed {
		if err := db.w.do(ctx, statements(func(tx *tx) error {
			_, err := tx.run(`INSERT INTO meta (name, value) VALUES ('master', ?)`, master.ID())
			return err
		})); err != nil {
			return err
		}
	}
	db.vault = vault.New(master, db, db.opt.Now)
	db.contextSecret = db.vault.Derive("context hashes")
	return nil
}

// sameKey says what a replica needs that has another master key, or none.
func (db *DB) sameKey() string {
	if db.pg == nil {
		return ""
	}
	return ". All replicas need the same one: copy master.key from the data directory of another replica to " + db.opt.Dir + ", or set master_key for all of them"
}

// meta reads one fact about the database.
func (db *DB) meta(ctx context.Context, name string) (value string, found bool, err error) {
	err = db.read.QueryRowContext(ctx, `SELECT value FROM meta WHERE name = ?`, name).Scan(&value)
	if errors.Is(err, sql.ErrNoRows) {
		return "", false, nil
	}
	return value, err == nil, err
}

// MeshID is the id the mesh got at its first start, 32 hex digits.
func (db *DB) MeshID() string { return db.mesh }

// Dir is the data directory.
func (db *DB) Dir() string { return db.opt.Dir }

// Vault seals and opens under the mesh's master key.
func (db *DB) Vault() *vault.Vault { return db.vault }

// Health is nil while the store can write. After a failure it tries, so that
// it turns healthy without traffic.
func (db *DB) Health(ctx context.Context) error {
	if db.w.trouble() == nil && (db.pg == nil || !db.pg.out.Load()) {
		return nil
	}
	return db.fault("store.health", "", db.w.do(ctx, statements(func(tx *tx) error {
		_, err := tx.run(`INSERT INTO meta (name, value) VALUES ('probed', ?)
			ON CONFLICT (name) DO UPDATE SET value = excluded.value`, strconv.FormatInt(db.opt.Now().UnixMicro(), 10))
		return err
	})))
}

// Close writes what is left, moves the log into the database and gives the
// directory back. No other method may be called afterwards.
func (db *DB) Close(ctx context.Context) error {
	err := db.closeWriter(ctx)
	return errors.Join(err, db.fault("store.close", parley.Subject(db.opt.Dir), db.unwind()))
}

func (db *DB) closeWriter(ctx context.Context) error {
	if db.closed {
		return nil
	}
	db.closed = true
	if err := db.w.close(ctx); err != nil {
		// The writer still works and owns the connection: ending the process
		// is all that is left, and loses nothing that was acknowledged.
		return db.fault("store.close", parley.Subject(db.opt.Dir), err)
	}
	c := db.w.conn
	if c == nil {
		return nil
	}
	if db.pg == nil {
		if _, err := c.run("PRAGMA wal_checkpoint(TRUNCATE)"); err != nil {
			db.opt.Log.Warn("the log is not moved into the database; the next start will", "err", err)
		}
	}
	return db.fault("store.close", parley.Subject(db.opt.Dir), c.close())
}
