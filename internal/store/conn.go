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

// conn is the writer's connection. It works below database/sql, whose locks
// and conversions cost as much as the statements themselves. It belongs to the
// writer's goroutine.
type conn struct {
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

func dial(dsn string) (*conn, error) {
	connector, err := sqlite.NewConnector(dsn)
	if err != nil {
		return nil, err
	}
	raw, err := connector.Connect(context.Background())
	if err != nil {
		return nil, err
	}
	return &conn{raw: raw, stmts: map[string]*stmt{}}, nil
}

func (c *conn) close() error {
	var errs []error
	for _, s := range c.stmts {
		errs = append(errs, s.Close())
	}
	return errors.Join(append(errs, c.raw.Close())...)
}

// prepared gives the statement for sql, which must be a constant: statements
// are kept as long as the connection.
func (c *conn) prepared(sql string, args []driver.Value) (*stmt, error) {
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

// run executes a statement and tells how many rows it changed.
func (c *conn) run(sql string, args ...driver.Value) (int64, error) {
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

// first reads the first row of a query; found is false where there is none.
func (c *conn) first(dest []driver.Value, sql string, args ...driver.Value) (found bool, err error) {
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

// text is s as it is stored in a column where NULL stands for empty.
func text[S ~string](s S) driver.Value {
	if s == "" {
		return nil
	}
	return string(s)
}

// fromMicros reads what micros wrote.
func fromMicros(us int64) time.Time { return time.UnixMicro(us).UTC() }
