package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/parley-mesh/parley/internal/parley"
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

// exitUsage is the exit code of a command line that cannot be understood.
const exitUsage = 2

// usageError marks an error of the command line itself.
type usageError struct{ error }

func (e usageError) Unwrap() error { return e.error }

// Main runs one command line and gives its exit code. The error is printed to
// the error stream as one line; ctx ends a command that waits.
func Main(ctx context.Context, args []string, s Streams) int {
	root := newRoot(s)
	root.SetArgs(args)
	root.SetIn(s.In)
	root.SetOut(s.Out)
	root.SetErr(s.Err)
	err := root.ExecuteContext(ctx)
	if err == nil {
		return 0
	}
	fmt.Fprintln(s.Err, "parley: "+message(err))
	return exitCode(err)
}

// message is what a person reads of err. The command line's own errors have no
// internal half: whoever runs it may know all of it.
func message(err error) string {
	if e, ok := errors.AsType[*parley.Error](err); ok {
		return e.Public()
	}
	return err.Error()
}

func exitCode(err error) int {
	if _, ok := errors.AsType[usageError](err); ok {
		return exitUsage
	}
	if _, ok := errors.AsType[*parley.Error](err); ok {
		return parley.KindOf(err).Info().Exit
	}
	return 1
}

func newRoot(s Streams) *cobra.Command {
	root := &cobra.Command{
		Use:   "parley",
		Short: "A governed mesh for agents: one door, every call identified, recorded and measured",
		Example: `  parley serve
  parley agent add echo http://127.0.0.1:9000
  parley send echo "hello"`,
		SilenceErrors: true,
		SilenceUsage:  true,
		Args:          cobra.NoArgs,
		RunE:          func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return usageError{fmt.Errorf("%w; see %s --help", err, cmd.CommandPath())}
	})
	root.CompletionOptions.HiddenDefaultCmd = true
	root.AddCommand(serveCommand(s), configCommand(s), versionCommand())
	return root
}
