package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"

	"github.com/parley-mesh/parley/internal/parley"
)

// code is SQLite's result code in err's chain, and its primary part; 0 if
// there is none.
func code(err error) (extended, primary int) {
	if e, ok := errors.AsType[*sqlite.Error](err); ok {
		return e.Code(), e.Code() & 0xff
	}
	return 0, 0
}

// surroundings reports whether err comes from the disk or the process, and not
// from what was asked: every other operation would fail like it.
func surroundings(err error) bool {
	if outage(err) {
		return true
	}
	switch _, primary := code(err); primary {
	case sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN,
		sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_NOMEM, sqlite3.SQLITE_BUSY,
		sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_PROTOCOL, sqlite3.SQLITE_PERM, sqlite3.SQLITE_MISUSE:
		return true
	}
	return false
}

// damaged reports whether err says that the file itself is broken.
func damaged(err error) bool {
	_, primary := code(err)
	return primary == sqlite3.SQLITE_CORRUPT || primary == sqlite3.SQLITE_NOTADB
}

// fault turns a driver's error into one of ours. Errors that are ours already
// pass.
func (db *DB) fault(op parley.Op, subject parley.Subject, err error) error {
	if err == nil {
		return nil
	}
	if e, ok := errors.AsType[*parley.Error](err); ok {
		return e
	}
	switch {
	case outage(err):
		return parley.E(op, parley.Unavailable, subject, db.remedy(err), err)
	case errors.Is(err, context.Canceled):
		return parley.E(op, parley.Canceled, subject, "whoever asked has left", err)
	case errors.Is(err, context.DeadlineExceeded):
		return parley.E(op, parley.Timeout, subject, "the store did not answer in time", err)
	case errors.Is(err, sql.ErrNoRows):
		return parley.E(op, parley.NotFound, subject, "not found", nil)
	case surroundings(err):
		return parley.E(op, parley.Unavailable, subject, db.remedy(err), err)
	case unstorable(err):
		return parley.E(op, parley.Invalid, subject, "a text is too long for the store, holds a NUL character or is not UTF-8", err)
	}
	return parley.E(op, parley.Internal, subject, "the store failed; the operator's log says more", err)
}

// goesOn ends a remedy after which nothing has to be started anew.
const goesOn = "; the mesh goes on by itself"

// unstarted takes goesOn from a fault that keeps a store from opening: whoever
// wanted it open has to come again.
func unstarted(err error) error {
	e, ok := errors.AsType[*parley.Error](err)
	if !ok || !strings.HasSuffix(e.Message, goesOn) {
		return err
	}
	said := *e
	said.Message = strings.TrimSuffix(e.Message, goesOn)
	return &said
}

// remedy says in one sentence what is wrong with the disk and what to do.
func (db *DB) remedy(err error) string {
	if db.pg != nil {
		return db.pg.remedy(err)
	}
	extended, primary := code(err)
	dir, file := db.opt.Dir, filepath.Join(db.opt.Dir, databaseFile)
	switch {
	case primary == sqlite3.SQLITE_FULL || extended == sqlite3.SQLITE_IOERR_SHMSIZE || noSpace(dir, err):
		return fmt.Sprintf("the disk of the data directory %s is full: make room there"+goesOn, dir)
	case damaged(err):
		return damageRemedy(file)
	case primary == sqlite3.SQLITE_READONLY, primary == sqlite3.SQLITE_PERM, primary == sqlite3.SQLITE_CANTOPEN:
		return fmt.Sprintf("the data directory %s cannot be written: check its permissions and that its file system is not mounted read-only"+goesOn, dir)
	case primary == sqlite3.SQLITE_BUSY || primary == sqlite3.SQLITE_LOCKED:
		return fmt.Sprintf("the database %s is held by another program: end that program"+goesOn, file)
	}
	return fmt.Sprintf("the database %s cannot be read or written: check the disk of the data directory %s"+goesOn, file, dir)
}

func damageRemedy(file string) string {
	return fmt.Sprintf("the database %s is damaged: stop the mesh, run parley doctor, then put a copy of the file back, or move it and its -wal and -shm files away to start empty", file)
}
