package backup

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/parley-mesh/parley/internal/parley"
	"github.com/parley-mesh/parley/internal/store"
	"github.com/parley-mesh/parley/internal/vault"
)

// Restored is a data directory made of an archive.
type Restored struct {
	Manifest Manifest `json:"manifest"`
	Data     string   `json:"data"`
	// KeyNeeded says that the master key is not in Data: the mesh starts only
	// once it is put there, or named in the configuration.
	KeyNeeded bool `json:"keyNeeded"`
}

// Restore makes the data directory dir of an archive. keys is a file with the
// master key, which is put into the directory; empty leaves it out. Nothing is
// ever replaced: a directory that holds something, or that a mesh runs on, is a
// parley.Conflict error. After any error dir is as it was.
func Restore(ctx context.Context, archive io.Reader, dir, keys string) (_ *Restored, err error) {
	dir = filepath.Clean(dir)
	if err := free(dir); err != nil {
		return nil, err
	}
	parent := filepath.Dir(dir)
	if err := os.MkdirAll(parent, 0o700); err != nil {
		return nil, unwritable(parent, err)
	}
	made, err := os.MkdirTemp(parent, ".parley-restore-*") // 0700 by its contract
	if err != nil {
		return nil, unwritable(parent, err)
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.RemoveAll(made))
		}
	}()
	m, err := Read(ctx, archive, func(_ *Manifest, f File) (io.WriteCloser, error) {
		return newFile(filepath.Join(made, f.Name))
	})
	if err != nil {
		return nil, err
	}
	if err := whole(ctx, made); err != nil {
		return nil, err
	}
	r := &Restored{Manifest: *m, Data: dir, KeyNeeded: m.MasterKey != "" && keys == ""}
	if keys != "" {
		if err := placeKey(m, keys, made); err != nil {
			return nil, err
		}
	}
	return r, publish(made, dir)
}

// free refuses a directory that is in use.
func free(dir string) error {
	const op parley.Op = "backup.restore"
	if who := store.Holder(dir); who != "" {
		return parley.E(op, parley.Conflict, parley.Subject(dir), fmt.Sprintf("a mesh runs on %s (%s): stop it, or restore to another directory", dir, who), nil)
	}
	entries, err := os.ReadDir(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return parley.E(op, parley.Unavailable, parley.Subject(dir), "the data directory "+dir+" cannot be read: "+err.Error(), err)
	case len(entries) > 0:
		return parley.E(op, parley.Conflict, parley.Subject(dir), fmt.Sprintf("%s is not empty, and nothing is ever replaced: move it away, or restore to another directory", dir), nil)
	}
	return nil
}

// whole looks into the restored database.
func whole(ctx context.Context, dir string) error {
	c, err := store.Check(ctx, dir)
	if err != nil {
		return err
	}
	if c.Problem != "" {
		return unusable("its database: "+c.Problem, nil)
	}
	return nil
}

// placeKey puts the master key where the mesh looks for it, if it is the one
// that sealed the database.
func placeKey(m *Manifest, keys, dir string) error {
	const op parley.Op = "backup.restore"
	key, err := vault.Source("file:" + keys).Load("")
	if err != nil {
		return err
	}
	if m.MasterKey != "" && key.ID() != m.MasterKey {
		return parley.E(op, parley.Invalid, parley.Subject(keys), fmt.Sprintf("the key in %s has the id %s, and the backup is sealed under %s: give that one", keys, key.ID(), m.MasterKey), nil)
	}
	return CopyKey(keys, filepath.Join(dir, vault.MasterFile))
}

// CopyKey copies a master key to a new file that nobody else may read.
func CopyKey(from, to string) error {
	raw, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	f, err := newFile(to)
	if err != nil {
		return err
	}
	_, err = f.Write(raw)
	return errors.Join(err, f.Close())
}

// durable is a file that is on the disk once it is closed.
type durable struct{ *os.File }

func newFile(path string) (io.WriteCloser, error) {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	return durable{f}, err
}

// Close implements io.Closer.
func (d durable) Close() error { return errors.Join(d.Sync(), d.File.Close()) }

// publish gives the directory its name, durably.
func publish(made, dir string) error {
	if err := syncDir(made); err != nil {
		return err
	}
	// One that is there is empty: removing it fails where it is not any more.
	if err := os.Remove(dir); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return parley.E("backup.restore", parley.Conflict, parley.Subject(dir), dir+" is in use, and nothing is ever replaced: restore to another directory", err)
	}
	if err := os.Rename(made, dir); err != nil {
		return unwritable(dir, err)
	}
	return syncDir(filepath.Dir(dir))
}

func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

func unwritable(dir string, err error) error {
	return parley.E("backup.restore", parley.Unavailable, parley.Subject(dir), dir+" cannot be written: check its permissions and that its disk has room", err)
}
