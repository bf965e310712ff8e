package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/pressly/goose/v3"

	"github.com/parley-mesh/parley/internal/parley"
)

// Postgres says how a store on PostgreSQL is reached. Several processes may
// serve one: each is a replica, with a data directory of its own and the same
// master key. The zero value means SQLite.
type Postgres struct {
	// URL is postgres://user:password@host:port,host:port/database?options, as
	// libpq takes it. It is never printed.
	URL            string
	Conns          int           // connections that read at once; zero: 8. The writer and upkeep have 4 more
	ConnectTimeout time.Duration // for one server; zero: 5 s
	// StatementTimeout bounds a read, and a transaction of the writer; zero: 10 s.
	StatementTimeout time.Duration
	// Lease is after how long without a sign of life a replica counts as dead;
	// zero: 15 s.
	Lease   time.Duration
	Address string // where this replica answers, for operators
}

// Locks of the database, which all processes that serve it know.
const (
	startLock     int64 = 0x7061726c65790001 // held while one starts
	departureLock int64 = 0x7061726c65790002 // shared by writers, alone by who deletes a principal
)

// pgNow is the time of the database in microseconds: replicas have clocks of
// their own.
const pgNow = `(extract(epoch FROM clock_timestamp()) * 1000000)::bigint`

const (
	defaultPostgresConns    = 8
	defaultConnectTimeout   = 5 * time.Second
	defaultStatementTimeout = 10 * time.Second
	defaultLease            = 15 * time.Second
	// startTimeout bounds the wait for another replica that starts, and the
	// migrations.
	startTimeout = 10 * time.Minute
	// clientGrace is how much longer than the server this side waits, so that
	// the server's own time-out keeps the connection.
	clientGrace = time.Second
	// readIdle and readLife bound the age of connections: a server that comes
	// back, or a new primary, is found again.
	readIdle = 5 * time.Minute
	readLife = 30 * time.Minute
)

func (o *Postgres) withDefaults() {
	if o.Conns <= 0 {
		o.Conns = defaultPostgresConns
	}
	for _, d := range []struct {
		value *time.Duration
		or    time.Duration
	}{{&o.ConnectTimeout, defaultConnectTimeout}, {&o.StatementTimeout, defaultStatementTimeout}, {&o.Lease, defaultLease}} {
		if *d.value <= 0 {
			*d.value = d.or
		}
	}
}

// postgres is what a store on PostgreSQL has beside the common parts.
type postgres struct {
	db         *DB
	opt        Postgres
	cfg        *pgx.ConnConfig
	where      string       // servers and database, for people
	id         atomic.Int64 // of this replica; the writer changes it
	departures int64        // how often principals were deleted, as the writer knows it

	work chan struct{} // holds one token: something was committed here
	hint chan struct{} // holds one token: something was committed somewhere
	stop context.CancelFunc
	done sync.WaitGroup // the loops
	// doubtful are calls of adoptions of which it is not known whether they were
	// committed. Only the adopting one uses it, which is one at a time.
	doubtful []parley.CallID

	pulse pulse
	out   atomic.Bool // the loop's last beat has failed

	mu    sync.Mutex
	heed  Heed
	held  map[string]lease
	beats chan struct{} // closed at the end of the next beat
}

// parsePostgres reads an address. The error does not repeat it.
func parsePostgres(db *DB, opt Postgres) (*postgres, error) {
	opt.withDefaults()
	cfg, err := pgx.ParseConfig(opt.URL)
	if err != nil {
		return nil, parley.E("store.open", parley.Invalid, "store", "the address in store is not one of PostgreSQL: write postgres://user:password@host:5432/database", nil)
	}
	cfg.ConnectTimeout = opt.ConnectTimeout
	if cfg.ValidateConnect == nil {
		cfg.ValidateConnect = pgconn.ValidateConnectTargetSessionAttrsReadWrite
	}
	defaults := map[string]string{
		"application_name":                    "parley",
		"statement_timeout":                   strconv.FormatInt(opt.StatementTimeout.Milliseconds(), 10),
		"idle_in_transaction_session_timeout": strconv.FormatInt(opt.StatementTimeout.Milliseconds(), 10),
	}
	if db.opt.Durability == Relaxed {
		defaults["synchronous_commit"] = "off"
	}
	for name, value := range defaults {
		if _, given := cfg.RuntimeParams[name]; !given {
			cfg.RuntimeParams[name] = value
		}
	}
	return &postgres{
		db: db, opt: opt, cfg: cfg, where: serversOf(&cfg.Config), held: map[string]lease{}, beats: make(chan struct{}),
		work: make(chan struct{}, 1), hint: make(chan struct{}, 1),
	}, nil
}

// serversOf names servers and database.
func serversOf(cfg *pgconn.Config) string {
	var hosts []string
	add := func(host string, port uint16) {
		at := net.JoinHostPort(host, strconv.Itoa(int(port)))
		if strings.HasPrefix(host, "/") {
			at = host
		}
		if !slices.Contains(hosts, at) { // with and without TLS are two entries
			hosts = append(hosts, at)
		}
	}
	add(cfg.Host, cfg.Port)
	for _, f := range cfg.Fallbacks {
		add(f.Host, f.Port)
	}
	return cfg.Database + " at " + strings.Join(hosts, ", ")
}

// bounded is ctx for one statement or transaction.
func (p *postgres) bounded(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, p.opt.StatementTimeout+clientGrace)
}

// dial opens a connection of its own.
func (p *postgres) dial(ctx context.Context) (*pgx.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, p.opt.ConnectTimeout*time.Duration(1+len(p.cfg.Fallbacks))+clientGrace)
	defer cancel()
	raw, err := pgx.ConnectConfig(ctx, p.cfg.Copy())
	return raw, away(err)
}

func (p *postgres) dialWriter() (conn, error) {
	raw, err := p.dial(context.Background())
	if err != nil {
		return nil, err
	}
	return &pgConn{raw: raw, pg: p, texts: map[string]string{}}, nil
}

// openPostgres opens the store on PostgreSQL. One process starts at a time, so
// that one migrates and one makes what a new mesh has.
func (db *DB) openPostgres(ctx context.Context) (err error) {
	p, err := parsePostgres(db, db.opt.Postgres)
	if err != nil {
		return err
	}
	db.pg, db.sql = p, &postgresDialect
	db.read = &reads{DB: sql.OpenDB(stdlib.GetConnector(*p.cfg)), pg: true, timeout: p.opt.StatementTimeout + clientGrace, conns: p.opt.Conns}
	db.undo(db.read.Close)
	db.read.SetMaxOpenConns(p.opt.Conns)
	db.read.SetMaxIdleConns(p.opt.Conns)
	db.read.SetConnMaxIdleTime(readIdle)
	db.read.SetConnMaxLifetime(readLife)

	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	gate, err := p.dial(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, away(gate.Close(context.WithoutCancel(ctx)))) }()
	for _, statement := range []string{`SET statement_timeout = 0`, `SELECT pg_advisory_lock(` + strconv.FormatInt(startLock, 10) + `)`} {
		if _, err := gate.Exec(ctx, statement); err != nil {
			return away(err)
		}
	}
	if err := p.migrate(ctx, gate); err != nil {
		return err
	}
	if err := p.takeOver(ctx, gate); err != nil {
		return err
	}
	c, err := p.dialWriter()
	if err != nil {
		return err
	}
	db.start(newWriter(db, "", c, 0))
	if err := db.w.do(ctx, statements(db.firstStart)); err != nil {
		return err
	}
	if db.mesh, _, err = db.meta(ctx, "mesh"); err != nil {
		return err
	}
	if err := db.openVault(ctx); err != nil {
		return err
	}
	p.begin()
	db.undo(p.end)
	return nil
}

// migrate brings the schema up to date. The caller holds startLock.
func (p *postgres) migrate(ctx context.Context, gate *pgx.Conn) error {
	cfg := p.cfg.Copy()
	cfg.RuntimeParams["statement_timeout"] = "0"
	conn := sql.OpenDB(stdlib.GetConnector(*cfg))
	defer conn.Close()
	dir, err := fs.Sub(migrations, "migrations/postgres")
	if err != nil {
		return err
	}
	provider, err := goose.NewProvider(goose.DialectPostgres, conn, dir)
	if err != nil {
		return err
	}
	if err := upgrade(ctx, provider, "the database "+p.where); err != nil {
		return away(err)
	}
	return p.collate(ctx, gate)
}

// collate makes all text compare by its bytes, as SQLite does: order and pages
// must not depend on the language of the database.
func (p *postgres) collate(ctx context.Context, gate *pgx.Conn) error {
	rows, err := gate.Query(ctx, `SELECT table_name, column_name FROM information_schema.columns
		WHERE table_schema = current_schema() AND data_type = 'text' AND collation_name IS DISTINCT FROM 'C'
		AND table_name IN (SELECT table_name FROM information_schema.tables WHERE table_schema = current_schema() AND table_type = 'BASE TABLE')
		AND table_name <> 'goose_db_version' ORDER BY 1, 2`)
	if err != nil {
		return away(err)
	}
	changes := map[string][]string{}
	var table, column string
	if _, err := pgx.ForEachRow(rows, []any{&table, &column}, func() error {
		name := pgx.Identifier{column}.Sanitize()
		changes[table] = append(changes[table], `ALTER COLUMN `+name+` TYPE text COLLATE "C"`)
		return nil
	}); err != nil {
		return away(err)
	}
	if len(changes) == 0 {
		return nil
	}
	// In one transaction: columns that refer to each other change together.
	tx, err := gate.Begin(ctx)
	if err != nil {
		return away(err)
	}
	for table, columns := range changes {
		if _, err := tx.Exec(ctx, `ALTER TABLE `+pgx.Identifier{table}.Sanitize()+` `+strings.Join(columns, ", ")); err != nil {
			return errors.Join(away(err), away(tx.Rollback(ctx)))
		}
	}
	return away(tx.Commit(ctx))
}

// replicaFile keeps this process's number in the data directory: whoever has the
// directory next knows that the process which had the number is dead.
const replicaFile = "replica"

// takeOver registers this process, and forgets the one that had the data
// directory before.
func (p *postgres) takeOver(ctx context.Context, gate *pgx.Conn) error {
	raw, err := os.ReadFile(filepath.Join(p.db.opt.Dir, replicaFile))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err == nil {
		mesh, number, _ := strings.Cut(strings.TrimSpace(string(raw)), " ")
		id, err := strconv.ParseInt(number, 10, 64)
		if err == nil {
			if _, err := gate.Exec(ctx, `DELETE FROM replicas WHERE id = $1 AND EXISTS (SELECT 1 FROM meta WHERE name = 'mesh' AND value = $2)`, id, mesh); err != nil {
				return away(err)
			}
		}
	}
	return p.register(ctx, gate)
}

// register makes this process a replica of its own, with what it has open.
func (p *postgres) register(ctx context.Context, on *pgx.Conn) error {
	var id int64
	err := on.QueryRow(ctx, `INSERT INTO replicas (started_at, address, expires_at)
		VALUES (`+pgNow+`, $1, `+pgNow+` + $2) RETURNING id`, p.opt.Address, p.opt.Lease.Microseconds()).Scan(&id)
	if err != nil {
		return err
	}
	if old := p.id.Load(); old != 0 {
		p.db.opt.Log.Warn("this process was taken for dead: it goes on as another replica", "was", old, "replica", id)
		if _, err := on.Exec(ctx, `UPDATE calls SET replica = $1 WHERE replica = $2 AND ended_at IS NULL`, id, old); err != nil {
			return err
		}
	}
	p.id.Store(id)
	if p.db.mesh != "" {
		p.remember()
	}
	return nil
}

// remember writes replicaFile. Without it the next start only waits longer.
func (p *postgres) remember() {
	path := filepath.Join(p.db.opt.Dir, replicaFile)
	if err := os.WriteFile(path, fmt.Appendf(nil, "%s %d\n", p.db.mesh, p.id.Load()), 0o600); err != nil {
		p.db.opt.Log.Warn("the replica's number is not kept", "err", err)
	}
}

// loadDepartures learns which principals were deleted, by whichever replica. The
// writer calls it.
func (p *postgres) loadDepartures(ctx context.Context, on *pgx.Conn) error {
	rows, err := on.Query(ctx, `SELECT name, made_at FROM departures ORDER BY made_at`)
	if err != nil {
		return err
	}
	var name string
	var at int64
	_, err = pgx.ForEachRow(rows, []any{&name, &at}, func() error {
		p.db.gone.add(parley.PrincipalName(name), at)
		return nil
	})
	return err
}

// depart tells every replica that a principal is deleted, and waits until no
// transaction is under way that does not know: what such a one wrote is there to
// be handed on, and what comes later goes to the tombstone.
func (t *tx) depart(name parley.PrincipalName, createdAt int64) error {
	if t.db.pg == nil {
		return nil
	}
	if _, err := t.run(`SELECT pg_advisory_xact_lock(?)`, departureLock); err != nil {
		return err
	}
	if _, err := t.run(`INSERT INTO departures (name, made_at) VALUES (?, ?) ON CONFLICT DO NOTHING`, string(name), createdAt); err != nil {
		return err
	}
	return t.note("departures")
}

// note tells other replicas that something has changed which they may keep in
// memory. On SQLite there are none.
func (t *tx) note(domain string) error {
	if t.db.pg == nil || t.told[domain] {
		return nil
	}
	if t.told == nil {
		t.told = map[string]bool{}
	}
	t.told[domain] = true
	_, err := t.run(`INSERT INTO changes (domain, n) VALUES (?, 1) ON CONFLICT (domain) DO UPDATE SET n = changes.n + 1`, domain)
	return err
}

// locking makes a SELECT keep the row it finds until the transaction ends. On
// SQLite there is one writer.
func (db *DB) locking(statement string) string {
	if db.pg == nil {
		return statement
	}
	return statement + ` FOR UPDATE`
}

// holdAgent keeps an agent as it is until the transaction ends.
func (t *tx) holdAgent(name parley.AgentName) error {
	if t.db.pg == nil || name == "" {
		return nil
	}
	_, err := t.run(`SELECT 1 FROM agents WHERE name = ? FOR SHARE`, string(name))
	return err
}
