// Command demo shows Parley at work: it starts a mesh on free ports with a
// directory of its own, agents on three SDKs, and stock clients that call them
// through the mesh; it prints what the mesh recorded of each call. Then it ends
// everything and leaves the records, to be looked at with the commands it
// prints. With --keep it stays up until it is interrupted.
//
//	make demo
//	make run
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"

	"github.com/parley-mesh/parley/interop"
)

// keptDir is where --keep has its data, below the working directory, so that
// the commands it prints are short and stay the same.
const keptDir = ".tmp/run"

type options struct {
	keep   bool
	bin    string // directory for the programs that are built
	parley string // the product's binary; built into bin if empty
}

func main() {
	var o options
	flag.BoolVar(&o.keep, "keep", false, "stay up after the calls, until interrupted")
	flag.StringVar(&o.bin, "bin", "bin", "directory for the sample programs that are built")
	flag.StringVar(&o.parley, "parley", "", "binary of Parley; built if empty")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Stdout, o); err != nil {
		fmt.Fprintln(os.Stderr, "demo:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, out *os.File, o options) (err error) {
	d := &demo{screen: newScreen(out)}
	d.heading("Parley between agents and clients of three A2A SDKs")
	d.line("")
	if o.keep && running(keptDir) {
		return fmt.Errorf("a mesh is up already in %s: use it, or end it first", keptDir)
	}
	if err := d.build(ctx, &o); err != nil {
		return err
	}
	dir, err := workDir(o.keep)
	if err != nil {
		return err
	}
	if err := d.play(ctx, dir, o); err != nil {
		if !o.keep {
			err = errors.Join(err, os.RemoveAll(dir))
		}
		return err
	}
	return nil
}

// play starts everything, makes the calls and ends everything.
func (d *demo) play(ctx context.Context, dir string, o options) (err error) {
	defer func() { err = errors.Join(err, d.stop()) }()
	if err := d.start(ctx, o.parley, dir); err != nil {
		return err
	}
	d.introduce()
	if err := d.calls(ctx); err != nil {
		return err
	}
	if err := d.tree(ctx); err != nil {
		return err
	}
	if !o.keep {
		d.leave(o.parley, dir)
		return nil
	}
	d.lookAround(o.parley)
	<-ctx.Done()
	d.line("\nstopping")
	return nil
}

// workDir makes the directory for the mesh's configuration and data.
func workDir(keep bool) (string, error) {
	if !keep {
		return os.MkdirTemp("", "parley-demo-")
	}
	dir, err := filepath.Abs(keptDir)
	if err != nil {
		return "", err
	}
	if err := os.RemoveAll(dir); err != nil {
		return "", err
	}
	return dir, os.MkdirAll(dir, 0o700)
}

// running reports whether a mesh answers on the data in dir.
func running(dir string) bool {
	connection, err := net.Dial("unix", filepath.Join(dir, "data", "parley.sock"))
	if err != nil {
		return false
	}
	_ = connection.Close() // only opened to see whether it can be
	return true
}

// build installs and builds what runs.
func (d *demo) build(ctx context.Context, o *options) error {
	err := d.step("SDKs, sample agents and clients", func() (err error) {
		d.peers, err = interop.Install(ctx, o.bin)
		return err
	})
	if err != nil || o.parley != "" {
		return err
	}
	return d.step("parley", func() (err error) {
		o.parley, err = d.peers.BuildParley(ctx)
		return err
	})
}

// leave says how to look at what the calls left.
func (d *demo) leave(parley, dir string) {
	d.heading("\nLook further: everything has ended, the records are in " + dir)
	d.commands([][2]string{
		{fmt.Sprintf("%s serve --config %s & sleep 1", parley, d.mesh.Config), "the mesh again, without its agents"},
		{fmt.Sprintf("%s --data %s calls list", parley, d.mesh.Data), "every call"},
		{fmt.Sprintf("%s --data %s calls show %s", parley, d.mesh.Data, d.lastRoot()), "all that is known of one"},
	})
	d.line("\n\"make run\" does the same and keeps everything up.")
}

// lookAround says what can be done while everything is up.
func (d *demo) lookAround(parley string) {
	d.heading("\nLook further, in another terminal:")
	data := keptDir + "/data"
	d.commands([][2]string{
		{fmt.Sprintf("%s --data %s calls list", parley, data), "every call"},
		{fmt.Sprintf("%s --data %s calls show %s", parley, data, d.lastRoot()), "all that is known of one"},
		{fmt.Sprintf("%s --data %s send go-agent \"slow 3000 report\" --stream", parley, data), "a call of your own"},
	})
	d.line("\nThe mesh is at %s. Ctrl-C ends it.", d.mesh.URL)
}
