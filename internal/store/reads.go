package store

import (
	"context"
	"database/sql"
	"errors"
	"sync"
	"time"
)

// reads is the pool of connections that only read. Statements are those of conn.
// On PostgreSQL every statement has a deadline: a server that hangs must not hang
// whoever asks.
type reads struct {
	*sql.DB
	pg      bool
	timeout time.Duration // of PostgreSQL
	texts   sync.Map      // of PostgreSQL: statements by what they are written as
}

// row is a row to read.
type row struct {
	*sql.Row
	look *look
	err  error
}

// Scan implements scanner.
func (r *row) Scan(dest ...any) error {
	if r.err != nil {
		return r.err
	}
	defer r.look.end()
	return r.look.fault(r.Row.Scan(dest...))
}

// rows are rows to read.
type rows struct {
	*sql.Rows
	look *look
}

// Close ends the reading.
func (r *rows) Close() error {
	defer r.look.end()
	return r.look.fault(r.Rows.Close())
}

// Err is why there are no more rows; nil where all were read.
func (r *rows) Err() error { return r.look.fault(r.Rows.Err()) }

// look is one statement under way, or one transaction of them.
type look struct {
	asked context.Context // of whoever asks
	end   context.CancelFunc
	pg    bool
}

// look bounds a look. On PostgreSQL it is not broken off because whoever asked
// has left: that would cost the connection, and callers that come and go could
// keep the pool busy with connecting.
func (r *reads) look(ctx context.Context) (context.Context, *look) {
	if !r.pg {
		return ctx, &look{ctx, func() {}, false}
	}
	until := time.Now().Add(r.timeout)
	if deadline, ok := ctx.Deadline(); ok && deadline.Before(until) {
		until = deadline
	}
	bounded, cancel := context.WithDeadline(context.WithoutCancel(ctx), until)
	return bounded, &look{ctx, cancel, true}
}

// fault tells a server that is away from somebody who has left.
func (l *look) fault(err error) error {
	if !l.pg || err == nil || errors.Is(err, sql.ErrNoRows) || l.asked.Err() != nil {
		return err
	}
	return away(err)
}

func (r *reads) text(statement string) string {
	if !r.pg {
		return statement
	}
	if known, ok := r.texts.Load(statement); ok {
		return known.(string)
	}
	text := numbered(statement)
	r.texts.Store(statement, text) // statements are constants, or a few put together
	return text
}

// QueryRowContext reads one row. A text that no row can hold finds none.
func (r *reads) QueryRowContext(ctx context.Context, statement string, args ...any) *row {
	if r.pg && storable(args) != nil {
		return &row{err: sql.ErrNoRows}
	}
	ctx, l := r.look(ctx)
	return &row{Row: r.DB.QueryRowContext(ctx, r.text(statement), args...), look: l}
}

// QueryContext reads rows. They must be closed.
func (r *reads) QueryContext(ctx context.Context, statement string, args ...any) (*rows, error) {
	return r.rows(ctx, r.DB, statement, args)
}

type asker interface {
	QueryContext(ctx context.Context, statement string, args ...any) (*sql.Rows, error)
}

func (r *reads) rows(ctx context.Context, from asker, statement string, args []any) (*rows, error) {
	if r.pg {
		if err := storable(args); err != nil {
			return nil, err
		}
	}
	ctx, l := r.look(ctx)
	found, err := from.QueryContext(ctx, r.text(statement), args...) //nolint:rowserrcheck rows.Err checks it
	if err != nil {
		err = l.fault(err)
		l.end()
		return nil, err
	}
	return &rows{found, l}, nil
}

// snapshot reads as of one moment.
type snapshot struct {
	*sql.Tx
	reads *reads
	look  *look
}

// begin begins to read as of one moment; end ends it.
func (r *reads) begin(ctx context.Context) (*snapshot, error) {
	ctx, l := r.look(ctx)
	opt := &sql.TxOptions{ReadOnly: true}
	if r.pg {
		opt.Isolation = sql.LevelRepeatableRead
	}
	tx, err := r.BeginTx(ctx, opt)
	if err != nil {
		err = l.fault(err)
		l.end()
		return nil, err
	}
	return &snapshot{tx, r, l}, nil
}

func (s *snapshot) end() error {
	defer s.look.end()
	return s.look.fault(s.Rollback())
}

// QueryRowContext reads one row.
func (s *snapshot) QueryRowContext(ctx context.Context, statement string, args ...any) *row {
	ctx, l := s.reads.look(ctx)
	return &row{Row: s.Tx.QueryRowContext(ctx, s.reads.text(statement), args...), look: l}
}

// QueryContext reads rows. They must be closed.
func (s *snapshot) QueryContext(ctx context.Context, statement string, args ...any) (*rows, error) {
	return s.reads.rows(ctx, s.Tx, statement, args)
}
