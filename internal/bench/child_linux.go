package bench

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"strconv"
	"syscall"
)

// diesWithUs lets the kernel send sig to the process of cmd when this one ends,
// however that comes about.
func diesWithUs(cmd *exec.Cmd, sig syscall.Signal) {
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	cmd.SysProcAttr.Pdeathsig = sig
}

// databaseUser is whom a database server runs as: it refuses to run as root.
// nil means as this process.
func databaseUser() (*syscall.Credential, error) {
	if os.Geteuid() != 0 {
		return nil, nil
	}
	u, err := user.Lookup("postgres")
	if err != nil {
		return nil, fmt.Errorf("a database server cannot run as root: %w", err)
	}
	uid, uidErr := strconv.ParseUint(u.Uid, 10, 32)
	gid, gidErr := strconv.ParseUint(u.Gid, 10, 32)
	if err := errors.Join(uidErr, gidErr); err != nil {
		return nil, fmt.Errorf("user postgres: %w", err)
	}
	return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}, nil
}

// asUser makes cmd run as a user, nil for this process's.
func asUser(cmd *exec.Cmd, who *syscall.Credential) {
	if who == nil {
		return
	}
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	cmd.SysProcAttr.Credential = who
}

// giveTo makes file the user's, nil for nothing to be done.
func giveTo(who *syscall.Credential, file string) error {
	if who == nil {
		return nil
	}
	return os.Chown(file, int(who.Uid), int(who.Gid))
}
