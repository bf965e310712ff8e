package cli

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/parley-mesh/parley/internal/app"
	"github.com/parley-mesh/parley/internal/config"
	"github.com/parley-mesh/parley/internal/control"
)

// checkData looks at the data directory and the keys in it. A directory that
// is not there is no failure: the first start makes it.
func (d *diagnosis) checkData(cfg *config.Config) {
	info, err := os.Stat(cfg.Data)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		d.ok("data", "%s is not there yet; the first start makes it", cfg.Data)
		d.checkDisk(existing(cfg.Data))
		return
	case err != nil:
		d.fail("data", "run as the user that serves the mesh", "%s: %v", cfg.Data, innermost(err))
		return
	case !info.IsDir():
		d.fail("data", "choose a directory with --data", "%s is no directory", cfg.Data)
		return
	case unix.Access(cfg.Data, unix.W_OK) != nil:
		d.fail("data", "run as the user that serves the mesh, or mount it writable", "%s cannot be written to: %v", cfg.Data, unix.Access(cfg.Data, unix.W_OK))
	case info.Mode().Perm()&0o077 != 0:
		d.warn("data", "take it from others: chmod 700 "+shellWord(cfg.Data), "%s is open to other users (%s)", cfg.Data, info.Mode().Perm())
	default:
		d.ok("data", "%s", cfg.Data)
	}
	d.checkKeys(cfg)
	d.checkDisk(cfg.Data)
}

// checkDatabase looks at the database that no running mesh tells of.
func (d *diagnosis) checkDatabase(ctx context.Context, cfg *config.Config) {
	stop := d.p.progress("reading the database through")
	c, err := app.CheckStore(ctx, cfg)
	stop()
	switch {
	case err != nil:
		return // called off, which the command says
	case c.Holder != "":
		d.fail("store", "wait if it is a mesh that starts or stops, else end it", "%s has the data directory and does not answer", c.Holder)
	case c.Problem != "":
		d.fail("store", c.Advice, "%s: %s", c.File, c.Problem)
	case c.Size == 0:
		d.ok("store", "no database yet; the first start makes it")
	case c.Server:
		d.ok("store", "%s answers, %s, schema %d", c.File, sizeText(c.Size), c.Schema)
	default:
		d.ok("store", "%s is whole, %s, schema %d", c.File, sizeText(c.Size), c.Schema)
	}
}

// checkKeys looks at the key files of a data directory that was used before.
func (d *diagnosis) checkKeys(cfg *config.Config) {
	if !cfg.MasterKey.IsSet() {
		d.checkKeyFile("master.key", filepath.Join(cfg.Data, "master.key"), "bring it back from a backup: what was sealed with it cannot be read without")
	} else {
		d.ok("master key", "from %s", cfg.MasterKey.Reference())
	}
	path := filepath.Join(cfg.Data, control.AdminKeyFile)
	if !d.checkKeyFile("admin.key", path, "parley serve writes it anew at its next start") {
		return
	}
	if _, err := control.ReadAdminKey(path); err != nil {
		d.fail("admin.key", "remove it; parley serve writes it anew at its next start", "%v", err)
	}
}

// checkKeyFile reports whether a key file is there and its owner's alone.
func (d *diagnosis) checkKeyFile(check, path, ifGone string) bool {
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		d.warn(check, ifGone, "%s is not there", path)
		return false
	case err != nil:
		d.fail(check, "run as the user that serves the mesh", "%s: %v", path, innermost(err))
		return false
	case info.Mode().Perm()&0o077 != 0:
		d.fail(check, "take it from others: chmod 600 "+shellWord(path), "%s can be read by other users (%s)", path, info.Mode().Perm())
		return false
	}
	d.ok(check, "%s", path)
	return true
}

// existing is dir or the nearest directory above it that is there.
func existing(dir string) string {
	for {
		if _, err := os.Stat(dir); err == nil || dir == filepath.Dir(dir) {
			return dir
		}
		dir = filepath.Dir(dir)
	}
}

// checkDisk looks how much room there is for what the mesh keeps.
func (d *diagnosis) checkDisk(dir string) {
	var fs unix.Statfs_t
	if err := unix.Statfs(dir, &fs); err != nil {
		d.warn("disk", "", "the free space of %s is not known: %v", dir, err)
		return
	}
	d.checkFree(int64(fs.Bavail) * int64(fs.Bsize))
}
