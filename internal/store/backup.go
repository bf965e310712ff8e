package store

import (
	"context"
	"database/sql"
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/parley-mesh/parley/internal/parley"
)

// DatabaseFile is the name of the database in a data directory.
const DatabaseFile = databaseFile

// copyPattern names the files in the data directory that a copy is made in.
const copyPattern = "backup-*.tmp"

// Snapshot is a copy of a database and what must be known to use it.
type Snapshot struct {
	File   string // whoever asked for the copy removes it
	Mesh   string // id of the mesh
	Master string // id of the master key that sealed what is in it
	Schema int64  // version of the schema
}

// Snapshot makes a copy of the database as it is at one moment not before the call:
// everything that was acknowledged before is in it, and no half of anything. It
// works while the mesh does, and needs as much room in the data directory as
// the database itself. The copy is on the disk when it returns.
func (db *DB) Snapshot(ctx context.Context) (*Snapshot, error) {
	const op parley.Op = "store.snapshot"
	if db.pg != nil {
		return nil, parley.E(op, parley.Unsupported, "", "the state of this mesh is in PostgreSQL: take the backup with its own tools (pg_dump --format=custom), and keep a copy of the master key", nil)
	}
	if err := db.catchUp(ctx); err != nil {
		return nil, err
	}
	c, err := copyOf(ctx, db.opt.Dir)
	if err != nil {
		return nil, db.fault(op, parley.Subject(db.opt.Dir), err)
	}
	return c, nil
}

// SnapshotDir is DB.Snapshot for a mesh that does not run. A mesh that does is a
// parley.Conflict error, a directory without a database parley.NotFound.
func SnapshotDir(ctx context.Context, dir string) (_ *Snapshot, err error) {
	const op parley.Op = "store.snapshot"
	path := filepath.Join(dir, databaseFile)
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		return nil, parley.E(op, parley.NotFound, parley.Subject(dir), "there is no database in "+dir+": name the data directory with --data; the state of a mesh that keeps it in PostgreSQL is backed up with pg_dump", nil)
	}
	lock, err := lockDir(dir)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, lock.Close()) }()
	c, err := copyOf(ctx, dir)
	db := &DB{opt: Options{Dir: dir}}
	return c, db.fault(op, parley.Subject(dir), err)
}

// copyOf copies inside of one read transaction: VACUUM INTO is one statement,
// and a statement sees one state.
func copyOf(ctx context.Context, dir string) (_ *Snapshot, err error) {
	into, err := os.CreateTemp(dir, copyPattern) // 0600 by its contract
	if err != nil {
		return nil, err
	}
	c := &Snapshot{File: into.Name()}
	defer func() {
		err = errors.Join(err, into.Close())
		if err != nil {
			err = errors.Join(err, os.Remove(c.File))
		}
	}()
	from, err := sql.Open("sqlite", (&DB{opt: Options{Dir: dir}}).dsn())
	if err != nil {
		return nil, err
	}
	defer from.Close()
	from.SetMaxOpenConns(1)
	if _, err := from.ExecContext(ctx, `VACUUM INTO ?`, c.File); err != nil {
		return nil, err
	}
	if err := into.Sync(); err != nil { // the same file, whoever wrote it
		return nil, err
	}
	return c, c.describe(ctx)
}

// describe reads from the copy itself what must be known of it.
func (c *Snapshot) describe(ctx context.Context) error {
	db, err := sql.Open("sqlite", readOnly(c.File))
	if err != nil {
		return err
	}
	defer db.Close()
	return db.QueryRowContext(ctx, `SELECT
		(SELECT value FROM meta WHERE name = 'mesh'),
		coalesce((SELECT value FROM meta WHERE name = 'master'), ''),
		(SELECT max(version_id) FROM goose_db_version)`).Scan(&c.Mesh, &c.Master, &c.Schema)
}

// removeCopies takes away what copies left behind that a crash ended.
func removeCopies(dir string) error {
	left, err := filepath.Glob(filepath.Join(dir, copyPattern))
	for _, path := range left {
		err = errors.Join(err, os.Remove(path))
	}
	return err
}

// Holder tells which process has a data directory, such as "process 4711";
// empty for none.
func Holder(dir string) string { return holder(dir) }

// NewestSchema is the newest version of the schema that this program knows
// of the database in a data directory.
func NewestSchema() (int64, error) { return newestSchema("sqlite") }
