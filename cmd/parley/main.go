// Command parley is the governed mesh for agents: one binary that serves and
// the command line that manages it.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"github.com/parley-mesh/parley/internal/cli"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := cli.Main(ctx, os.Args[1:], cli.Process())
	stop()
	os.Exit(code)
}
