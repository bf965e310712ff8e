package store

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// pgConn is the writer's connection to PostgreSQL. A transaction has one
// deadline for all of its statements.
type pgConn struct {
	raw   *pgx.Conn
	pg    *postgres
	texts map[string]string // statements by what they are written as
	args  []any

	ctx  context.Context // of the transaction; nil outside of one
	done context.CancelFunc
}

// numbered writes a statement's arguments as PostgreSQL does: ? and ?2 become $1
// and $2.
func numbered(statement string) string {
	var b strings.Builder
	next := 0
	for rest := statement; ; {
		i := strings.IndexAny(rest, "?'")
		if i < 0 {
			return b.String() + rest
		}
		b.WriteString(rest[:i])
		if rest[i] == '\'' {
			end := strings.IndexByte(rest[i+1:], '\'')
			if end < 0 {
				return b.String() + rest[i:]
			}
			b.WriteString(rest[i : i+end+2])
			rest = rest[i+end+2:]
			continue
		}
		rest = rest[i+1:]
		digits := len(rest) - len(strings.TrimLeft(rest, "0123456789"))
		if digits > 0 {
			b.WriteString("$" + rest[:digits])
			rest = rest[digits:]
			continue
		}
		next++
		b.WriteString("$" + strconv.Itoa(next))
	}
}

// errUnstorable says that a text cannot be kept.
var errUnstorable = errors.New("a text holds a NUL character or is not UTF-8")

// storable finds arguments that PostgreSQL cannot keep as text.
func storable[T any](args []T) error {
	for _, a := range args {
		if s, ok := any(a).(string); ok && (strings.IndexByte(s, 0) >= 0 || !utf8.ValidString(s)) {
			return errUnstorable
		}
	}
	return nil
}

// within gives the context of a statement.
func (c *pgConn) within() (context.Context, context.CancelFunc) {
	if c.ctx != nil {
		return c.ctx, func() {}
	}
	return c.pg.bounded(context.Background())
}

func (c *pgConn) prepare(statement string, args []driver.Value) (string, []any, error) {
	text, ok := c.texts[statement]
	if !ok {
		text = numbered(statement)
		c.texts[statement] = text
	}
	c.args = c.args[:0]
	for _, a := range args {
		c.args = append(c.args, a)
	}
	return text, c.args, storable(args)
}

func (c *pgConn) run(statement string, args ...driver.Value) (int64, error) {
	text, values, err := c.prepare(statement, args)
	if err != nil {
		return 0, err
	}
	ctx, cancel := c.within()
	defer cancel()
	tag, err := c.raw.Exec(ctx, text, values...)
	return tag.RowsAffected(), away(err)
}

func (c *pgConn) first(dest []driver.Value, statement string, args ...driver.Value) (found bool, err error) {
	text, values, err := c.prepare(statement, args)
	if err != nil {
		return false, err
	}
	ctx, cancel := c.within()
	defer cancel()
	rows, err := c.raw.Query(ctx, text, values...)
	if err != nil {
		return false, away(err)
	}
	defer rows.Close()
	if found = rows.Next(); found {
		row, err := rows.Values()
		if err != nil {
			return false, err
		}
		for i := range dest {
			if dest[i], err = plainValue(row[i]); err != nil {
				return false, err
			}
		}
	}
	rows.Close()
	return found, away(rows.Err())
}

// plainValue is a value as SQLite gives it.
func plainValue(v any) (driver.Value, error) {
	switch v := v.(type) {
	case nil, int64, string, []byte:
		return v, nil
	case int32:
		return int64(v), nil
	case int16:
		return int64(v), nil
	}
	return nil, fmt.Errorf("a column of type %T is none of this store's", v)
}

// begin begins a transaction as a replica that is alive: what it begins belongs
// to a process that nobody takes for dead. One that was taken for dead starts
// anew under another id.
func (c *pgConn) begin() error {
	ctx, cancel := c.pg.bounded(context.Background())
	c.ctx, c.done = ctx, cancel
	for {
		alive, err := c.enter(ctx)
		if err != nil {
			c.leaveTx()
			return away(err)
		}
		if alive {
			return nil
		}
		if _, err := c.raw.Exec(ctx, "ROLLBACK"); err != nil {
			c.leaveTx()
			return away(err)
		}
		if err := c.pg.register(ctx, c.raw); err != nil {
			c.leaveTx()
			return away(err)
		}
	}
}

// enter begins the transaction and learns what it depends on, in one exchange
// with the server: that no principal is being deleted meanwhile, which ones
// were, and that this replica counts as alive until the transaction ends.
func (c *pgConn) enter(ctx context.Context) (alive bool, err error) {
	var b pgx.Batch
	b.Queue("BEGIN")
	b.Queue("SELECT pg_advisory_xact_lock_shared($1)", departureLock)
	b.Queue("SELECT coalesce((SELECT n FROM changes WHERE domain = 'departures'), 0)")
	b.Queue("SELECT 1 FROM replicas WHERE id = $1 AND expires_at > "+pgNow+" FOR KEY SHARE", c.pg.id.Load())
	results := c.raw.SendBatch(ctx, &b)
	defer results.Close()
	for range 2 {
		if _, err := results.Exec(); err != nil {
			return false, err
		}
	}
	var departures int64
	if err := results.QueryRow().Scan(&departures); err != nil {
		return false, err
	}
	tag, err := results.Exec()
	if err != nil {
		return false, err
	}
	if err := results.Close(); err != nil {
		return false, err
	}
	if departures != c.pg.departures {
		if err := c.pg.loadDepartures(ctx, c.raw); err != nil {
			return false, err
		}
		c.pg.departures = departures
	}
	return tag.RowsAffected() == 1, nil
}

func (c *pgConn) leaveTx() {
	if c.done != nil {
		c.done()
	}
	c.ctx, c.done = nil, nil
}

// commit reports an error where the server has rolled back instead.
func (c *pgConn) commit() error {
	tag, err := c.raw.Exec(c.ctx, "COMMIT")
	if err == nil {
		c.leaveTx()
		if tag.String() != "COMMIT" {
			return &outageError{fmt.Errorf("the server answered %s to COMMIT", tag)}
		}
	}
	return away(err)
}

func (c *pgConn) rollback() error {
	defer c.leaveTx()
	if c.raw.IsClosed() || c.raw.PgConn().TxStatus() == 'I' {
		return nil
	}
	ctx, cancel := c.within()
	defer cancel()
	_, err := c.raw.Exec(ctx, "ROLLBACK")
	return away(err)
}

func (c *pgConn) spoiled() bool { return c.raw.IsClosed() || c.raw.PgConn().TxStatus() == 'E' }

func (c *pgConn) close() error {
	c.leaveTx()
	ctx, cancel := c.pg.bounded(context.Background())
	defer cancel()
	return c.raw.Close(ctx)
}

// outageError is an error of the way to the server, or of its state, and not of
// what was asked.
type outageError struct{ err error }

// Error is the cause's text.
func (e *outageError) Error() string { return e.err.Error() }

// Unwrap gives the cause.
func (e *outageError) Unwrap() error { return e.err }

// away marks errors that come without an answer of the server.
func away(err error) error {
	if err == nil {
		return nil
	}
	if _, answered := errors.AsType[*pgconn.PgError](err); answered || errors.Is(err, errUnstorable) {
		return err
	}
	if _, marked := errors.AsType[*outageError](err); marked {
		return err
	}
	return &outageError{err}
}
