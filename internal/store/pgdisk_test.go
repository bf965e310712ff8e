//go:build linux

package store

import (
	"os"
	"path/filepath"
	"runtime"
	"syscall"
	"testing"

	"github.com/parley-mesh/parley/internal/storetest/pgtest"
)

// The disk of the server is full: its tables are on one of their own, so that
// the server itself lives. The mount is in a namespace of this test's thread,
// which the server inherits.
func TestServerDiskFull(t *testing.T) {
	runtime.LockOSThread() // for good: the thread ends with the test's goroutine
	if err := syscall.Unshare(syscall.CLONE_NEWNS); err != nil {
		t.Skipf("a mount namespace needs privileges that this process has not: %v", err)
	}
	dir := t.TempDir()
	for p := dir; p != "/"; p = filepath.Dir(p) { // the server runs as another user
		if info, err := os.Stat(p); err == nil && info.Mode().Perm()&0o001 == 0 {
			if err := os.Chmod(p, info.Mode().Perm()|0o011); err != nil {
				t.Skipf("the server cannot be let in: %v", err)
			}
		}
	}
	if err := syscall.Mount("", "/", "", syscall.MS_REC|syscall.MS_PRIVATE, ""); err != nil {
		t.Skipf("this process may not mount: %v", err)
	}
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=40m,mode=0777"); err != nil {
		t.Skipf("this process may not mount: %v", err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, syscall.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	s := pgtest.New(t)
	s.Exec(t, "postgres", "CREATE TABLESPACE small LOCATION '"+s.Folder(t, dir)+"'", "CREATE DATABASE mesh TABLESPACE small")
	db := replicaOf(t, s.URL("mesh"), nil)
	ballast := filepath.Join(dir, "ballast")
	survives(t, s, db, func() {
		f, err := os.Create(ballast)
		must(t, err)
		block := make([]byte, 64<<10)
		for err == nil {
			_, err = f.Write(block)
		}
		must(t, f.Close())
	}, func() { must(t, os.Remove(ballast)) }, "the disk of the database server of mesh", "full", "goes on by itself")
}
