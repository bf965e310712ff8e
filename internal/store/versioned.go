package store

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"

	"github.com/parley-mesh/parley/internal/parley"
)

// saving is the save of a row with a version: version 0 creates, any other
// replaces exactly that version.
type saving struct {
	op             parley.Op
	what, name     string
	owner          string // the owner the row refers to, for the message
	version        *int64
	insert, update string             // with one parameter behind the values: the new version
	exists         string             // takes the name
	values         []driver.Value     // without the version
	holds          func(*tx) error    // keeps what the row depends on as it is; nil for nothing
	after          func(tx *tx) error // what is written with it; nil for nothing
	needs          string             // what an insert lacks that inserts nothing; empty where it always inserts
}

func (db *DB) save(ctx context.Context, s saving, events []parley.Event) error {
	next := *s.version + 1
	subject := parley.Subject(s.name)
	values := append(s.values, next)
	err := db.do(ctx, statements(func(tx *tx) error {
		if s.holds != nil {
			if err := s.holds(tx); err != nil {
				return err
			}
		}
		statement := s.update
		if next == 1 {
			statement = s.insert
		}
		n, err := tx.run(statement, values...)
		switch {
		case dangling(err):
			return &parley.Error{Op: s.op, Kind: parley.Invalid, Subject: subject, Message: "the " + s.what + " cannot be saved", Fields: []parley.Field{
				{Path: "owner", Problem: "no owner is called " + s.owner, Fix: "make it first: parley owner create " + s.owner},
			}}
		case err != nil:
			return duplicate(s.op, subject, "a "+s.what+" of that name exists", err)
		case n == 0 && next == 1:
			return parley.E(s.op, parley.Invalid, subject, s.needs, nil)
		case n == 0:
			return tx.changed(s.op, s.what, s.name, s.exists)
		}
		if s.after != nil {
			if err := s.after(tx); err != nil {
				return err
			}
		}
		if err := tx.note(s.what + "s"); err != nil {
			return err
		}
		return tx.events(events)
	}))
	if err == nil {
		*s.version = next
	}
	return db.fault(s.op, subject, err)
}

// removal is the deletion of a row with a version.
type removal struct {
	op         parley.Op
	what, name string
	version    int64
	// before takes away what goes with the row; nil for nothing. It runs only
	// where the row has the version.
	before    func(tx *tx) error
	statement string // takes name and version
	exists    string // takes the name
	inUse     string // message where rows still refer to it
}

func (db *DB) remove(ctx context.Context, r removal, events []parley.Event) error {
	subject := parley.Subject(r.name)
	err := db.do(ctx, statements(func(tx *tx) error {
		if r.before != nil {
			var one [1]driver.Value
			current, err := tx.first(one[:], db.locking(r.exists+` AND version = ?`), r.name, r.version)
			switch {
			case err != nil:
				return err
			case !current:
				return tx.changed(r.op, r.what, r.name, r.exists)
			}
			if err := r.before(tx); err != nil {
				return err
			}
		}
		n, err := tx.run(r.statement, r.name, r.version)
		switch {
		case dangling(err):
			return parley.E(r.op, parley.Conflict, subject, r.inUse, nil)
		case err != nil:
			return err
		case n == 0:
			return tx.changed(r.op, r.what, r.name, r.exists)
		}
		if err := tx.note(r.what + "s"); err != nil {
			return err
		}
		return tx.events(events)
	}))
	return db.fault(r.op, subject, err)
}

// changed says why a compare-and-set found nothing to set.
func (t *tx) changed(op parley.Op, what, name, exists string) error {
	var one [1]driver.Value
	there, err := t.first(one[:], exists, name)
	if err != nil {
		return err
	}
	if !there {
		return notFound(op, what, name)
	}
	return parley.E(op, parley.Conflict, parley.Subject(name), "the "+what+" has changed meanwhile: read it again and repeat the change", nil)
}

func notFound(op parley.Op, what, name string) error {
	return parley.E(op, parley.NotFound, parley.Subject(name), "no "+what+" is called "+name, nil)
}

// missing is fault with the name of what was looked for.
func (db *DB) missing(op parley.Op, what, name string, err error) error {
	if errors.Is(err, sql.ErrNoRows) {
		return notFound(op, what, name)
	}
	return db.fault(op, parley.Subject(name), err)
}

// found gives v only where there was no error.
func found[T any](v *T, err error) (*T, error) {
	if err != nil {
		return nil, err
	}
	return v, nil
}
