//go:build !linux

package bench

import (
	"errors"
	"os/exec"
	"syscall"
)

// diesWithUs has no counterpart outside Linux: there a child that does not
// read its standard input outlives a parent that is killed.
func diesWithUs(*exec.Cmd, syscall.Signal) {}

// owner is a user; there is none to be chosen outside Linux.
type owner struct{}

// databaseUser says why PostgreSQL is not measured.
func databaseUser() (*owner, error) {
	return nil, errors.New("the CPU time of its processes is read on Linux only")
}

func asUser(*exec.Cmd, *owner) {}

func giveTo(*owner, string) error { return nil }
