package cli

import (
	"io"
	"os"
)

// Streams are where a command reads and writes, and the environment it sees.
type Streams struct {
	In       io.Reader
	Out, Err io.Writer
	Env      []string // as os.Environ gives it
}

// Process is the process's own streams.
func Process() Streams {
	return Streams{In: os.Stdin, Out: os.Stdout, Err: os.Stderr, Env: os.Environ()}
}
