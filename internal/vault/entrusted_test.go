//go:build unix

package vault

import (
	"io/fs"
	"syscall"
	"testing"
	"time"
)

// file is what is known of a file that need not be there.
type file struct {
	mode fs.FileMode
	uid  uint32
}

func (f file) Name() string       { return "master.key" }
func (f file) Size() int64        { return 45 }
func (f file) Mode() fs.FileMode  { return f.mode }
func (f file) ModTime() time.Time { return time.Time{} }
func (f file) IsDir() bool        { return false }
func (f file) Sys() any           { return &syscall.Stat_t{Uid: f.uid} }

// TestWhatRootHandsOver: a key that root lets a service read by its group is
// taken, and nothing that anybody else could have read or written.
func TestWhatRootHandsOver(t *testing.T) {
	for _, c := range []struct {
		file
		user int
		want bool
	}{
		{file{0o440, 0}, 65532, true},
		{file{0o640, 0}, 65532, true},
		{file{0o444, 0}, 65532, false},   // everybody may read it
		{file{0o460, 0}, 65532, false},   // the group may write it
		{file{0o440, 1000}, 1000, false}, // the user's own, and open to a group
		{file{0o440, 0}, 0, false},       // root's own
	} {
		if got := entrustedTo(c.user, c.file); got != c.want {
			t.Errorf("%v of user %d, read by %d: %v", c.mode, c.uid, c.user, got)
		}
	}
}
