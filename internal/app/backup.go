package app

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/parley-mesh/parley/internal/backup"
	"github.com/parley-mesh/parley/internal/parley"
	"github.com/parley-mesh/parley/internal/store"
	"github.com/parley-mesh/parley/internal/vault"
)

// PrepareBackup implements control.Backups.
func (a *App) PrepareBackup(ctx context.Context) (write func(context.Context, io.Writer) error, discard func() error, err error) {
	copied, err := a.store.Snapshot(ctx)
	if err != nil {
		return nil, nil, err
	}
	write = func(ctx context.Context, w io.Writer) error {
		_, err := backup.Write(ctx, w, copied, a.opts.Version, a.opts.Now())
		return err
	}
	return write, func() error { return os.Remove(copied.File) }, nil
}

// BackupStopped writes the backup of a mesh that does not run. One that does is
// a parley.Conflict error.
func BackupStopped(ctx context.Context, dir, version string, now time.Time, w io.Writer) (err error) {
	copied, err := store.SnapshotDir(ctx, dir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.Remove(copied.File)) }()
	_, err = backup.Write(ctx, w, copied, version, now)
	return err
}

// CheckBackup reads an archive through and tells what is in it.
func CheckBackup(ctx context.Context, archive io.Reader) (*backup.Manifest, error) {
	return backup.Read(ctx, archive, nil)
}

// Restore makes a data directory of an archive; see backup.Restore.
func Restore(ctx context.Context, archive io.Reader, dir, keys string) (*backup.Restored, error) {
	return backup.Restore(ctx, archive, dir, keys)
}

// BackupKey copies the master key of a data directory to a new file and gives
// its id. A mesh whose key is elsewhere has none there: a parley.NotFound error
// says so.
func BackupKey(dir, to string) (id string, err error) {
	key, err := vault.Source("").Load(dir)
	if err != nil {
		if parley.KindOf(err) == parley.NotFound {
			return "", parley.E("app.backup_key", parley.NotFound, parley.Subject(dir), fmt.Sprintf("there is no %s in %s: where the configuration names another place (master_key), keep a copy of that", vault.MasterFile, dir), err)
		}
		return "", err
	}
	if err := backup.CopyKey(filepath.Join(dir, vault.MasterFile), to); err != nil {
		if errors.Is(err, fs.ErrExist) {
			return "", parley.E("app.backup_key", parley.Conflict, parley.Subject(to), to+" is there already: name another file", err)
		}
		return "", parley.E("app.backup_key", parley.Unavailable, parley.Subject(to), "the key cannot be written to "+to, err)
	}
	return key.ID(), nil
}
