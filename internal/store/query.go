package store

import (
	"context"
	"database/sql/driver"
	"encoding/json"
	"errors"
	"time"

	sqlite3 "modernc.org/sqlite/lib"

	"github.com/parley-mesh/parley/internal/parley"
)

// scanner is a row to read.
type scanner interface{ Scan(dest ...any) error }

// query reads all rows of a query into memory; it must have a LIMIT. The one
// exception is OpenCalls, whose rows are in memory as live calls anyway.
func query[T any](ctx context.Context, db *DB, scan func(scanner) (T, error), text string, args ...any) ([]T, error) {
	return queryOn(ctx, db.read, scan, text, args...)
}

// querier is a pool or a transaction.
type querier interface {
	QueryContext(ctx context.Context, query string, args ...any) (*rows, error)
}

func queryOn[T any](ctx context.Context, q querier, scan func(scanner) (T, error), text string, args ...any) (_ []T, err error) {
	rows, err := q.QueryContext(ctx, text, args...)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	var found []T
	for rows.Next() {
		v, err := scan(rows)
		if err != nil {
			return nil, err
		}
		found = append(found, v)
	}
	return found, rows.Err()
}

// firstValues is first with plain destinations.
func (t *tx) firstValues(dest []any, sql string, args ...driver.Value) (bool, error) {
	values := make([]driver.Value, len(dest))
	found, err := t.first(values, sql, args...)
	for i, v := range values {
		dest[i] = v
	}
	return found, err
}

// timeColumn reads a column that micros wrote.
type timeColumn struct{ *time.Time }

func (c timeColumn) Scan(v any) error {
	*c.Time = time.Time{}
	if us, ok := v.(int64); ok {
		*c.Time = fromMicros(us)
	}
	return nil
}

// textColumn reads a column that text wrote.
type textColumn[S ~string] struct{ into *S }

func (c textColumn[S]) Scan(v any) error {
	switch s := v.(type) {
	case string:
		*c.into = S(s)
	case []byte:
		*c.into = S(s)
	}
	return nil
}

func optional[S ~string](s *S) textColumn[S] { return textColumn[S]{s} }

// jsonColumn reads a column that encode wrote; NULL leaves the zero value.
type jsonColumn struct{ into any }

func (c jsonColumn) Scan(v any) error {
	switch s := v.(type) {
	case string:
		return json.Unmarshal([]byte(s), c.into)
	case []byte:
		return json.Unmarshal(s, c.into)
	}
	return nil
}

// encode writes one of our own values as JSON for a column.
func encode(v any) (string, error) {
	b, err := json.Marshal(v)
	return string(b), err
}

// duplicate turns the violation of a key into parley.Conflict.
func duplicate(op parley.Op, subject parley.Subject, message string, err error) error {
	if state(err) == pgUniqueViolation {
		return parley.E(op, parley.Conflict, subject, message, nil)
	}
	switch extended, _ := code(err); extended {
	case sqlite3.SQLITE_CONSTRAINT_PRIMARYKEY, sqlite3.SQLITE_CONSTRAINT_UNIQUE, sqlite3.SQLITE_CONSTRAINT_ROWID:
		return parley.E(op, parley.Conflict, subject, message, nil)
	}
	return err
}

// dangling reports whether err says that a row refers to one that is not
// there, or is still referred to.
func dangling(err error) bool {
	extended, _ := code(err)
	return state(err) == pgForeignKeyViolation || extended == sqlite3.SQLITE_CONSTRAINT_FOREIGNKEY
}
