package bench

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// idleBefore streams are open before the first reading of memory, so that what
// a process needs once is not counted for each stream.
const idleBefore = 8

// memory is what a process occupies, in bytes.
type memory struct {
	RSS       float64 // pages in main memory
	PSS       float64 // the same, shared pages divided among those who share them
	Anonymous float64 // pages of heap and stacks, not of files
}

// each returns the growth from before for each of n streams.
func (m memory) each(before memory, n int) memory {
	return memory{
		RSS:       (m.RSS - before.RSS) / float64(n),
		PSS:       (m.PSS - before.PSS) / float64(n),
		Anonymous: (m.Anonymous - before.Anonymous) / float64(n),
	}
}

// openIdle returns a bed without processes: every measurement starts its own,
// so that no heap is inherited from an earlier one.
func openIdle(_ context.Context, opts *Options) (*bed, error) { return openAnew(opts, measureIdle) }

// openAnew returns a bed with a target for each path that is measured by processes
// of the measurement's own.
func openAnew(opts *Options, measure func(context.Context, *Options, Path) (Result, error)) (*bed, error) {
	b, err := newBed(opts)
	if err != nil {
		return nil, err
	}
	b.targets = []Target{{Path: Direct}, {Path: ReverseProxy}}
	if b.hasParley() {
		b.targets = append(b.targets, Target{Path: Parley})
	}
	b.measure = func(ctx context.Context, _ kindOfLoad, t Target) (Result, error) {
		return measure(ctx, opts, t.Path)
	}
	return b, nil
}

// measureIdle opens opts.Streams streams that idle on one path and returns how
// much the process in the middle grew for each. On the direct path it is the
// agent that is watched: what a plain HTTP server needs for its half.
func measureIdle(ctx context.Context, opts *Options, path Path) (_ Result, err error) {
	b, err := newBed(opts)
	if err != nil {
		return Result{}, err
	}
	defer func() { err = errors.Join(err, b.close()) }()
	target, err := b.anewTarget(ctx, path, silentBase, idleBefore+opts.Streams)
	if err != nil {
		return Result{}, err
	}
	before, err := b.heldMemory(ctx, target, idleBefore, opts.Settle/3)
	if err != nil {
		return Result{}, err
	}
	after, err := b.heldMemory(ctx, target, opts.Streams, opts.Settle)
	if err != nil {
		return Result{}, err
	}
	each := after.each(before, opts.Streams)
	if each.RSS <= 0 {
		return Result{}, fmt.Errorf("memory shrank from %.0f to %.0f bytes while %d streams were opened: open more of them", before.RSS, after.RSS, opts.Streams)
	}
	return Result{Requests: opts.Streams, RSS: each.RSS, PSS: each.PSS, Anonymous: each.Anonymous}, nil
}

// Places of agents among the addresses of the agent's process.
const (
	silentBase  = 2
	tickingBase = 5
)

// anewTarget starts what the path needs to the agent at one of the addresses, with
// so many streams open at once. Its one PID is the process whose memory counts.
func (b *bed) anewTarget(ctx context.Context, path Path, base, streams int) (Target, error) {
	agent, err := b.start(ctx, nil, "agent")
	if err != nil {
		return Target{}, err
	}
	address := agent.Bases[base]
	switch path {
	case Direct:
		return Target{Path: path, Message: []string{address}, PIDs: []int{agent.pid()}}, nil
	case ReverseProxy:
		proxy, err := b.start(ctx, nil, "proxy", address)
		if err != nil {
			return Target{}, err
		}
		return Target{Path: path, Message: proxy.Bases, PIDs: []int{proxy.pid()}}, nil
	}
	mesh, err := b.startParley(ctx, meshSettings{streams: streams})
	if err != nil {
		return Target{}, err
	}
	if err := mesh.register(ctx, address); err != nil {
		return Target{}, err
	}
	return mesh.target(), nil
}

// heldMemory opens n streams, lets them idle and returns the memory of the
// process in the middle. The streams stay open until the bed is closed.
func (b *bed) heldMemory(ctx context.Context, t Target, n int, settle time.Duration) (memory, error) {
	spec := Spec{URLs: t.Message, Header: t.Header, Conns: n}
	if _, err := b.start(ctx, &spec, "hold"); err != nil {
		return memory{}, err
	}
	return settled(ctx, t, settle)
}
