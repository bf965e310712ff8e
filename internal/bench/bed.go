package bench

import (
	"context"
	"errors"
	"fmt"
	"os"
)

// bed is the set of processes a run measures, and its directory.
type bed struct {
	dir     string
	agent   *child
	proxy   *child
	mesh    *parleyMesh // nil when there is no binary
	leftOut string
	targets []Target
}

// newBed completes opts and starts everything.
func newBed(ctx context.Context, opts *Options) (_ *bed, err error) {
	if err := opts.fill(); err != nil {
		return nil, err
	}
	b := &bed{}
	defer func() {
		if err != nil {
			err = errors.Join(err, b.close())
		}
	}()
	if b.dir, err = os.MkdirTemp(opts.Dir, "b"); err != nil { // short: a socket's path has about 100 characters
		return nil, fmt.Errorf("bench: %w", err)
	}
	if b.agent, err = startChild(ctx, opts.Program, "agent"); err != nil {
		return nil, err
	}
	message, task := b.agent.Bases[0], b.agent.Bases[1]
	if b.proxy, err = startChild(ctx, opts.Program, "proxy", message, task); err != nil {
		return nil, err
	}
	b.targets = []Target{
		{Path: Direct, Message: message, Task: task},
		{Path: ReverseProxy, Message: b.proxy.Bases[0], Task: b.proxy.Bases[1], PID: b.proxy.cmd.Process.Pid},
	}
	if _, err := os.Stat(opts.Binary); err != nil {
		b.leftOut = "Parley was left out: there is no binary at the path given for it; build it first"
	} else {
		if b.mesh, err = startParley(ctx, opts.Binary, b.dir, message, task); err != nil {
			return nil, err
		}
		b.targets = append(b.targets, b.mesh.target())
	}
	if opts.Third != nil {
		third := *opts.Third
		third.Path = Third
		b.targets = append(b.targets, third)
	}
	return b, nil
}

// pids returns the processes of the run that live as long as it does.
func (b *bed) pids() []int {
	pids := []int{b.agent.cmd.Process.Pid}
	for _, target := range b.targets {
		if target.PID != 0 {
			pids = append(pids, target.PID)
		}
	}
	return pids
}

// close stops what was started, the last first.
func (b *bed) close() error {
	var errs []error
	if b.mesh != nil {
		errs = append(errs, b.mesh.stop())
	}
	for _, c := range []*child{b.proxy, b.agent} {
		if c != nil {
			errs = append(errs, c.stop())
		}
	}
	if b.dir != "" {
		errs = append(errs, os.RemoveAll(b.dir))
	}
	return errors.Join(errs...)
}
