package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"github.com/pressly/goose/v3"
	sqlite3 "modernc.org/sqlite/lib"
)

// maxFlaws is how many flaws of a database a checkup tells.
const maxFlaws = 3

// Checkup is what a look at the database of a data directory found.
type Checkup struct {
	File   string // or servers and database of PostgreSQL
	Server bool   // it is PostgreSQL's
	Size   int64  // bytes; 0 where there is no database yet
	Schema int64  // version of the schema; 0 where none was read
	Holder string // which process has the directory, such as "process 4711"; empty for none
	// Problem is what is wrong, Advice what to do about it; both empty where
	// nothing is.
	Problem, Advice string
}

// Check looks at the database in dir from outside, and changes nothing in it:
// whether it is whole, whether this program knows its schema, and whether a
// process has it. While one has it, nothing is read: that process knows better.
// The error is ctx's where that ended the look.
func Check(ctx context.Context, dir string) (Checkup, error) {
	c := Checkup{File: filepath.Join(dir, databaseFile), Holder: holder(dir)}
	info, err := os.Stat(c.File)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return c, nil
	case err != nil:
		c.Problem, c.Advice = err.Error(), "run as the user that serves the mesh"
		return c, nil
	}
	c.Size = info.Size()
	if c.Holder != "" || c.Size == 0 {
		return c, nil
	}
	if err := c.read(ctx); err != nil {
		if ctx.Err() != nil {
			return c, ctx.Err()
		}
		c.unreadable(err)
	}
	return c, nil
}

// read checks the file and the version of its schema.
func (c *Checkup) read(ctx context.Context) error {
	known, err := newestSchema("sqlite")
	if err != nil {
		return err
	}
	db, err := sql.Open("sqlite", readOnly(c.File))
	if err != nil {
		return err
	}
	defer db.Close()
	db.SetMaxOpenConns(1)
	flaws, err := quickCheck(ctx, db)
	switch {
	case err != nil:
		return err
	case len(flaws) > 0:
		c.damaged(strings.Join(flaws, "; "))
		return nil
	}
	if err := db.QueryRowContext(ctx, `SELECT max(version_id) FROM goose_db_version`).Scan(&c.Schema); err != nil {
		return err
	}
	if c.Schema > known {
		c.Problem = fmt.Sprintf("its schema has version %d and this program knows versions up to %d", c.Schema, known)
		c.Advice = "use the newer program that made it"
	}
	return nil
}

// readOnly opens a file without writing beside it. A database that was closed
// well has no log, and nobody has the directory: it does not change.
func readOnly(file string) string {
	q := url.Values{"mode": {"ro"}, "_pragma": {"query_only(1)"}}
	if _, err := os.Stat(file + "-wal"); errors.Is(err, fs.ErrNotExist) {
		q.Set("immutable", "1")
	}
	path := url.URL{Path: file}
	return "file:" + path.EscapedPath() + "?" + q.Encode()
}

// quickCheck lists what is wrong with the file, some of it where it is much.
func quickCheck(ctx context.Context, db *sql.DB) (flaws []string, err error) {
	rows, err := db.QueryContext(ctx, fmt.Sprintf("PRAGMA quick_check(%d)", maxFlaws))
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var line string
		if err := rows.Scan(&line); err != nil {
			return nil, err
		}
		if line != "ok" {
			flaws = append(flaws, line)
		}
	}
	return flaws, rows.Err()
}

// newestSchema is the version of the schema that this program makes.
func newestSchema(of string) (int64, error) {
	dir, err := fs.Sub(migrations, "migrations/"+of)
	if err != nil {
		return 0, err
	}
	names, err := fs.Glob(dir, "*.sql")
	if err != nil {
		return 0, err
	}
	var newest int64
	for _, name := range names {
		version, err := goose.NumericComponent(name)
		if err != nil {
			return 0, err
		}
		newest = max(newest, version)
	}
	return newest, nil
}

func (c *Checkup) damaged(how string) {
	c.Problem = "it is damaged: " + how
	c.Advice = "keep a copy of what is there; then put a backup of the file back, or move it and its -wal and -shm files away to start empty"
}

// unreadable says why the file could not be read.
func (c *Checkup) unreadable(err error) {
	switch _, primary := code(err); {
	case damaged(err):
		c.damaged(err.Error())
	case primary == sqlite3.SQLITE_CANTOPEN, primary == sqlite3.SQLITE_PERM, primary == sqlite3.SQLITE_READONLY:
		c.Problem, c.Advice = "it cannot be opened: "+err.Error(), "run as the user that serves the mesh, and see that the file system is mounted writable"
	default:
		c.Problem, c.Advice = "it cannot be read: "+err.Error(), "check the disk"
	}
}
