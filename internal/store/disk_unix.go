//go:build unix

package store

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
	sqlite3 "modernc.org/sqlite/lib"

	"github.com/parley-mesh/parley/internal/parley"
)

// noSpace reports whether an I/O error came with a file system that has no
// room left. SQLite calls a full disk an I/O error where it fails to extend
// its shared memory or its log.
func noSpace(dir string, err error) bool {
	if _, primary := code(err); primary != sqlite3.SQLITE_IOERR {
		return false
	}
	var st unix.Statfs_t
	return unix.Statfs(dir, &st) == nil && st.Bavail == 0
}

// holderIn reads who a lock file names.
func holderIn(lock io.Reader) string {
	pid, _ := io.ReadAll(io.LimitReader(lock, 32)) // without it the answer only says less
	if text := strings.TrimSpace(string(pid)); text != "" {
		return "process " + text
	}
	return "another process"
}

// holder tells which process has the data directory; empty for none, or where
// that cannot be seen. A lock that is free is held for as long as the look
// takes.
func holder(dir string) string {
	f, err := os.Open(filepath.Join(dir, lockFile))
	if err != nil {
		return ""
	}
	defer f.Close()
	if errors.Is(unix.Flock(int(f.Fd()), unix.LOCK_SH|unix.LOCK_NB), syscall.EWOULDBLOCK) {
		return holderIn(f)
	}
	return ""
}

// lockDir takes the data directory for this process. The lock ends with the
// process, however it ends; the file stays and names its last holder.
func lockDir(dir string) (*os.File, error) {
	const op parley.Op = "store.open"
	path := filepath.Join(dir, lockFile)
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, parley.E(op, parley.Unavailable, parley.Subject(dir), "the data directory "+dir+" cannot be written: check its permissions, that its file system is not mounted read-only and that its disk has room", err)
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		who := holderIn(f)
		f.Close()
		if !errors.Is(err, syscall.EWOULDBLOCK) {
			return nil, parley.E(op, parley.Unavailable, parley.Subject(dir), "the data directory "+dir+" cannot be locked: it must be on a local file system", err)
		}
		return nil, parley.E(op, parley.Conflict, parley.Subject(dir), "the data directory "+dir+" is in use by "+who+": stop that process, or give this one a directory of its own with --data", nil)
	}
	err = f.Truncate(0)
	if err == nil {
		_, err = f.WriteAt([]byte(strconv.Itoa(os.Getpid())+"\n"), 0)
	}
	if err != nil {
		f.Close()
		return nil, parley.E(op, parley.Unavailable, parley.Subject(dir), fmt.Sprintf("the data directory %s cannot be written: make room on its disk", dir), err)
	}
	return f, nil
}
