package store

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"

	"github.com/parley-mesh/parley/internal/parley"
)

// Copied is a table that Copy has copied.
type Copied struct {
	Table string
	Rows  int64
	Hash  string // of all its rows, in whatever order; the same on both sides
}

// copyProgressEvery is after how many rows of a table Copy tells how far it is.
const copyProgressEvery = 10_000

// Copy copies a store on SQLite, which no process may serve meanwhile, to an
// empty database of PostgreSQL: every table, what is sealed as it is, and the
// places in the feed. It is one transaction there, committed only once counts
// and hashes of every table agree; a copy that was broken off leaves nothing and
// is begun anew. told is called as it goes on; nil for nobody.
//
// Errors: those of Open, parley.NotFound where from has no store, and
// parley.Conflict where the database has a mesh already.
func Copy(ctx context.Context, from Options, to Postgres, told func(table string, done, of int64)) (_ []Copied, err error) {
	const op parley.Op = "store.copy"
	if told == nil {
		told = func(string, int64, int64) {}
	}
	from.Postgres = Postgres{}
	// Opening would make a mesh there, and the copy would be an empty one.
	if _, err := os.Stat(filepath.Join(from.Dir, databaseFile)); errors.Is(err, fs.ErrNotExist) {
		return nil, parley.E(op, parley.NotFound, parley.Subject(from.Dir), "there is no database in "+from.Dir+": name the data directory of the mesh to copy with --data", nil)
	}
	source, err := Open(ctx, from)
	if err != nil {
		return nil, err
	}
	target := &DB{opt: source.opt}
	if target.pg, err = parsePostgres(target, to); err != nil {
		return nil, errors.Join(err, source.Close(context.WithoutCancel(ctx)))
	}
	defer func() {
		cause := err
		if err = unstarted(target.fault(op, parley.Subject(target.pg.where), err)); err != nil && parley.KindOf(err) == parley.Internal {
			err = parley.E(op, parley.Internal, parley.Subject(target.pg.where), "nothing was copied: "+cause.Error(), cause)
		}
		err = errors.Join(err, source.Close(context.WithoutCancel(ctx)))
	}()
	target.pg.cfg.RuntimeParams["statement_timeout"], target.pg.cfg.RuntimeParams["idle_in_transaction_session_timeout"] = "0", "0"
	conn, err := target.pg.dial(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, away(conn.Close(context.WithoutCancel(ctx)))) }()
	if _, err := conn.Exec(ctx, `SELECT pg_advisory_lock($1)`, startLock); err != nil {
		return nil, away(err)
	}
	if err := target.pg.migrate(ctx, conn); err != nil {
		return nil, err
	}
	look, err := source.read.begin(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, look.end()) }()
	tx, err := conn.Begin(ctx)
	if err != nil {
		return nil, away(err)
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, away(ignoreClosed(tx.Rollback(context.WithoutCancel(ctx)))))
		}
	}()
	c := &copying{from: look, to: tx, told: told, where: target.pg.where}
	copied, err := c.all(ctx)
	if err != nil {
		return nil, err
	}
	return copied, away(tx.Commit(ctx))
}

func ignoreClosed(err error) error {
	if errors.Is(err, pgx.ErrTxClosed) {
		return nil
	}
	return err
}

// copying is a copy under way.
type copying struct {
	from  *snapshot
	to    pgx.Tx
	told  func(table string, done, of int64)
	where string
}

// derived are the columns that PostgreSQL has and SQLite has not, by table, with
// what they are made of: arrivals are in the order of places, and open calls
// are those of a replica that is gone, so that the first one to start adopts
// them.
var derived = map[string]map[string]string{
	"calls":  {"num": "seq", "end_num": "end_seq", "replica": "CASE WHEN ended_at IS NULL THEN 0 END"},
	"events": {"num": "seq"},
}

func (c *copying) all(ctx context.Context) ([]Copied, error) {
	var meshes int64
	if err := c.to.QueryRow(ctx, `SELECT count(*) FROM meta`).Scan(&meshes); err != nil {
		return nil, err
	}
	if meshes > 0 {
		return nil, parley.E("store.copy", parley.Conflict, parley.Subject(c.where), "the database "+c.where+" holds a mesh already: copy to an empty one", nil)
	}
	tables, err := c.tables(ctx)
	if err != nil {
		return nil, err
	}
	var copied []Copied
	for _, table := range tables {
		one, err := c.table(ctx, table)
		if err != nil {
			return nil, fmt.Errorf("copy the table %s: %w", table, err)
		}
		copied = append(copied, one)
	}
	for _, statement := range []string{
		`UPDATE feed SET last = greatest(
			coalesce((SELECT max(seq) FROM events), 0), coalesce((SELECT max(seq) FROM calls), 0),
			coalesce((SELECT max(end_seq) FROM calls), 0), coalesce((SELECT value::bigint FROM meta WHERE name = 'last_seq'), 0))`,
		`SELECT setval('feed_arrival', (SELECT last + 1 FROM feed))`,
	} {
		if _, err := c.to.Exec(ctx, statement); err != nil {
			return nil, err
		}
	}
	return copied, c.counters(ctx)
}

// counters lets the columns that number rows by themselves go on behind what was
// copied.
func (c *copying) counters(ctx context.Context) error {
	rows, err := c.to.Query(ctx, `SELECT table_name, column_name FROM information_schema.columns
		WHERE table_schema = current_schema() AND is_identity = 'YES'`)
	if err != nil {
		return err
	}
	var statements []string
	var table, column string
	if _, err := pgx.ForEachRow(rows, []any{&table, &column}, func() error {
		statements = append(statements, fmt.Sprintf(`SELECT setval(pg_get_serial_sequence('%s', '%s'), (SELECT coalesce(max(%s), 0) + 1 FROM %s))`, table, column, column, table))
		return nil
	}); err != nil {
		return err
	}
	for _, statement := range statements {
		if _, err := c.to.Exec(ctx, statement); err != nil {
			return err
		}
	}
	return nil
}

// tables are the tables of SQLite, each behind those it refers to.
func (c *copying) tables(ctx context.Context) ([]string, error) {
	names, err := queryOn(ctx, c.from, scanText,
		`SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite_%' AND name <> 'goose_db_version' ORDER BY name`)
	if err != nil {
		return nil, err
	}
	rows, err := c.to.Query(ctx, `SELECT conrelid::regclass::text, confrelid::regclass::text FROM pg_constraint
		WHERE contype = 'f' AND connamespace = current_schema()::regnamespace`)
	if err != nil {
		return nil, err
	}
	needs := map[string][]string{}
	var table, on string
	if _, err := pgx.ForEachRow(rows, []any{&table, &on}, func() error {
		needs[table] = append(needs[table], on)
		return nil
	}); err != nil {
		return nil, err
	}
	var ordered []string
	var visit func(name string)
	visit = func(name string) {
		if slices.Contains(ordered, name) || !slices.Contains(names, name) {
			return
		}
		for _, on := range needs[name] {
			if on != name {
				visit(on)
			}
		}
		ordered = append(ordered, name)
	}
	for _, name := range names {
		visit(name)
	}
	return ordered, nil
}

func scanText(row scanner) (text string, err error) {
	err = row.Scan(&text)
	return text, err
}

// table copies one table and compares what has arrived.
func (c *copying) table(ctx context.Context, table string) (Copied, error) {
	rows, err := c.to.Query(ctx, `SELECT column_name, data_type FROM information_schema.columns
		WHERE table_schema = current_schema() AND table_name = $1 ORDER BY ordinal_position`, table)
	if err != nil {
		return Copied{}, err
	}
	types := map[string]string{}
	var columns []string
	var name, kind string
	if _, err := pgx.ForEachRow(rows, []any{&name, &kind}, func() error {
		types[name] = kind
		if derived[table][name] == "" {
			columns = append(columns, name)
		}
		return nil
	}); err != nil {
		return Copied{}, err
	}
	if len(columns) == 0 {
		return Copied{}, errors.New("the other database has no such table")
	}
	added := slices.Sorted(maps.Keys(derived[table]))
	source := slices.Clone(columns)
	for _, a := range added {
		source = append(source, derived[table][a])
	}
	var total int64
	if err := c.from.QueryRowContext(ctx, `SELECT count(*) FROM `+table).Scan(&total); err != nil {
		return Copied{}, err
	}
	found, err := c.from.QueryContext(ctx, `SELECT `+strings.Join(source, ", ")+` FROM `+table)
	if err != nil {
		return Copied{}, err
	}
	from := &copySource{rows: found, types: append(kinds(types, columns), kinds(types, added)...), compared: len(columns),
		told: func(done int64) { c.told(table, done, total) }}
	defer found.Close()
	n, err := c.to.CopyFrom(ctx, pgx.Identifier{table}, append(slices.Clone(columns), added...), from)
	if err != nil {
		return Copied{}, err
	}
	arrived, err := c.arrived(ctx, table, columns, kinds(types, columns))
	if err != nil {
		return Copied{}, err
	}
	if n != total || arrived.rows != total || arrived.sum != from.hash.sum {
		return Copied{}, fmt.Errorf("%d rows were read and %d have arrived, and their hashes are %x and %x: nothing is kept", total, arrived.rows, from.hash.sum, arrived.sum)
	}
	c.told(table, total, total)
	return Copied{Table: table, Rows: total, Hash: fmt.Sprintf("%x", arrived.sum)}, nil
}

func kinds(types map[string]string, columns []string) []string {
	found := make([]string, len(columns))
	for i, c := range columns {
		found[i] = types[c]
	}
	return found
}

// arrived reads back what a table holds.
func (c *copying) arrived(ctx context.Context, table string, columns, types []string) (h rowsHash, err error) {
	rows, err := c.to.Query(ctx, `SELECT `+strings.Join(columns, ", ")+` FROM `+table)
	if err != nil {
		return h, err
	}
	defer rows.Close()
	for rows.Next() {
		values, err := rows.Values()
		if err != nil {
			return h, err
		}
		for i, v := range values {
			if values[i], err = plainValue(v); err != nil {
				return h, err
			}
		}
		h.add(values)
	}
	return h, rows.Err()
}

// copySource gives the rows of a table to COPY, and hashes what it gives.
type copySource struct {
	rows     *rows
	types    []string
	compared int // columns that are in the hash; the others are made
	hash     rowsHash
	values   []any
	err      error
	told     func(done int64)
}

// Next implements pgx.CopyFromSource.
func (s *copySource) Next() bool {
	if s.err != nil || !s.rows.Next() {
		return false
	}
	s.values = make([]any, len(s.types))
	dest := make([]any, len(s.types))
	for i := range dest {
		dest[i] = &s.values[i]
	}
	if s.err = s.rows.Scan(dest...); s.err != nil {
		return false
	}
	for i, v := range s.values {
		s.values[i] = asType(v, s.types[i])
	}
	s.hash.add(s.values[:s.compared])
	if s.hash.rows%copyProgressEvery == 0 {
		s.told(s.hash.rows)
	}
	return true
}

// Values implements pgx.CopyFromSource.
func (s *copySource) Values() ([]any, error) { return s.values, nil }

// Err implements pgx.CopyFromSource.
func (s *copySource) Err() error { return errors.Join(s.err, s.rows.Err()) }

// asType is a value of SQLite as a column of PostgreSQL takes it.
func asType(v any, kind string) any {
	switch v := v.(type) {
	case []byte:
		switch {
		case kind == "text":
			return plain(string(v))
		case v == nil: // an empty one, which is not NULL
			return []byte{}
		}
	case string:
		if kind == "bytea" {
			return []byte(v)
		}
		return plain(v)
	}
	return v
}

// rowsHash is the sum of the hashes of rows, which does not depend on their
// order.
type rowsHash struct {
	rows int64
	sum  [sha256.Size]byte
}

func (h *rowsHash) add(values []any) {
	d := sha256.New()
	field := func(kind byte, b []byte) {
		var head [9]byte
		head[0] = kind
		binary.BigEndian.PutUint64(head[1:], uint64(len(b)))
		d.Write(head[:])
		d.Write(b)
	}
	for _, v := range values {
		switch v := v.(type) {
		case nil:
			field('0', nil)
		case int64:
			field('i', binary.BigEndian.AppendUint64(nil, uint64(v)))
		case string:
			field('t', []byte(v))
		case []byte:
			field('b', v)
		default:
			field('?', fmt.Append(nil, v))
		}
	}
	h.rows++
	carry := 0
	one := d.Sum(nil)
	for i := len(h.sum) - 1; i >= 0; i-- {
		carry += int(h.sum[i]) + int(one[i])
		h.sum[i] = byte(carry)
		carry >>= 8
	}
}
