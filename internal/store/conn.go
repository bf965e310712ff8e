package store

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"time"

	"modernc.org/sqlite"
)

// conn is the writer's connection, which belongs to its goroutine. Statements
// are constants in the common subset of both databases, with ? or ?1 for their
// arguments.
type conn interface {
	// run executes a statement and tells how many rows it changed.
	run(sql string, args ...driver.Value) (int64, error)
	// first reads the first row of a query; found is false where there is none.
	// Numbers are int64, text is string.
	first(dest []driver.Value, sql string, args ...driver.Value) (found bool, err error)
	begin() error
	commit() error
	rollback() error
	// spoiled reports whether a statement that failed has ended the transaction:
	// nothing that follows can succeed.
	spoiled() bool
	close() error
}

// sqliteConn works below database/sql, whose locks and conversions cost as much
// as the statements themselves.
type sqliteConn struct {
	raw   driver.Conn
	stmts map[string]*stmt
}

// stmt is a prepared statement with room for its arguments.
type stmt struct {
	driver.Stmt
	exec  driver.StmtExecContext
	query driver.StmtQueryContext
	args  []driver.NamedValue
}

func dialSQLite(dsn string) (*sqliteConn, error) {
	connector, err := sqlite.NewConnector(dsn)
	if err != nil {
		return nil, err
	}
	raw, err := connector.Connect(context.Background())
	if err != nil {
		return nil, err
	}
	return &sqliteConn{raw: raw, stmts: map[string]*stmt{}}, nil
}

func (c *sqliteConn) close() error {
	var errs []error
	for _, s := range c.stmts {
		errs = append(errs, s.Close())
	}
	return errors.Join(append(errs, c.raw.Close())...)
}

// prepared gives the statement for sql, which must be a constant: statements
// are kept as long as the connection.
func (c *sqliteConn) prepared(sql string, args []driver.Value) (*stmt, error) {
	s := c.stmts[sql]
	if s == nil {
		p, err := c.raw.Prepare(sql)
		if err != nil {
			return nil, err
		}
		s = &stmt{Stmt: p}
		var execs, queries bool
		s.exec, execs = p.(driver.StmtExecContext)
		s.query, queries = p.(driver.StmtQueryContext)
		if !execs || !queries {
			return nil, errors.Join(fmt.Errorf("driver statement %T has no contexts", p), p.Close())
		}
		c.stmts[sql] = s
	}
	for len(s.args) < len(args) {
		s.args = append(s.args, driver.NamedValue{Ordinal: len(s.args) + 1})
	}
	for i, a := range args {
		s.args[i].Value = a
	}
	return s, nil
}

func (c *sqliteConn) begin() error {
	_, err := c.run("BEGIN IMMEDIATE")
	return err
}

func (c *sqliteConn) commit() error {
	_, err := c.run("COMMIT")
	return err
}

// rollback ends the transaction. SQLite has ended it by itself after some
// errors; then there is nothing to roll back and the error says so.
func (c *sqliteConn) rollback() error {
	_, err := c.run("ROLLBACK")
	return err
}

// spoiled is false: a failed statement leaves the others of its transaction as
// they are.
func (c *sqliteConn) spoiled() bool { return false }

func (c *sqliteConn) run(sql string, args ...driver.Value) (int64, error) {
	s, err := c.prepared(sql, args)
	if err != nil {
		return 0, err
	}
	res, err := s.exec.ExecContext(context.Background(), s.args[:len(args)])
	if err != nil {
		return 0, err
	}
	return res.RowsAffected()
}

func (c *sqliteConn) first(dest []driver.Value, sql string, args ...driver.Value) (found bool, err error) {
	s, err := c.prepared(sql, args)
	if err != nil {
		return false, err
	}
	rows, err := s.query.QueryContext(context.Background(), s.args[:len(args)])
	if err != nil {
		return false, err
	}
	err = rows.Next(dest)
	if found = err == nil; err == io.EOF {
		err = nil
	}
	return found, errors.Join(err, rows.Close())
}

// micros is t as it is stored; NULL for the zero time.
func micros(t time.Time) driver.Value {
	if t.IsZero() {
		return nil
	}
	return t.UnixMicro()
}

// text is s as it is stored in a column where NULL stands for empty, and as any
// database can keep it.
func text[S ~string](s S) driver.Value {
	if s == "" {
		return nil
	}
	return plain(string(s))
}

// fromMicros reads what micros wrote.
func fromMicros(us int64) time.Time { return time.UnixMicro(us).UTC() }
