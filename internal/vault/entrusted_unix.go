//go:build unix

package vault

import (
	"io/fs"
	"os"
	"syscall"
)

// entrusted reports whether a file that a group may read was put there for this
// process by the machine's own administrator: credentials of service managers
// and mounted secrets belong to root, and this process reads them by a group or
// an access list, which shows in the bits of the group. Others may not read
// them, and nobody but root may write.
func entrusted(st fs.FileInfo) bool { return entrustedTo(os.Geteuid(), st) }

func entrustedTo(user int, st fs.FileInfo) bool {
	owner, ok := st.Sys().(*syscall.Stat_t)
	return ok && owner.Uid == 0 && user != 0 && st.Mode().Perm()&0o037 == 0
}
