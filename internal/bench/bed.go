package bench

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"
)

// bed is a set of processes that rows are measured on, and its directory.
type bed struct {
	opts    *Options
	dir     string
	stops   []func() error // of what was started, in that order
	pids    []int          // of what was started
	servers []int          // of what was started and has children
	agent   *child
	mesh    *parleyMesh // the first one, nil where there is none
	targets []Target    // none where there is nothing to be compared
	leftOut []string
	measure func(context.Context, kindOfLoad, Target) (Result, error)
}

// newBed makes a bed without processes, which measures by load generators in
// processes of their own.
func newBed(opts *Options) (*bed, error) {
	b := &bed{opts: opts}
	load := loadInChild(opts.Program)
	b.measure = func(ctx context.Context, kind kindOfLoad, t Target) (Result, error) {
		return load(ctx, kind.spec(t, *opts))
	}
	var err error
	if b.dir, err = os.MkdirTemp(opts.Dir, "b"); err != nil { // short: a socket's path has about 100 characters
		return nil, fmt.Errorf("bench: %w", err)
	}
	return b, nil
}

// noBinary says why Parley is missing from a report.
const noBinary = "Parley was left out: there is no binary at the path given for it; build it first"

// hasParley tells whether there is a binary to measure, and notes it for the
// report where there is none.
func (b *bed) hasParley() bool {
	if _, err := os.Stat(b.opts.Binary); err != nil {
		b.leftOut = append(b.leftOut, noBinary)
		return false
	}
	return true
}

// openHTTP starts an agent and the paths to it that everybody has.
func openHTTP(ctx context.Context, opts *Options) (*bed, error) {
	b, err := newBed(opts)
	if err != nil {
		return nil, err
	}
	if err := b.startHTTP(ctx); err != nil {
		return nil, errors.Join(err, b.close())
	}
	if opts.Third != nil {
		third := *opts.Third
		third.Path = Third
		b.targets = append(b.targets, third)
	}
	return b, nil
}

// startHTTP starts agent, reverse proxy and Parley with its default store.
func (b *bed) startHTTP(ctx context.Context) (err error) {
	if b.agent, err = b.start(ctx, nil, "agent"); err != nil {
		return err
	}
	message, task := b.agent.Bases[0], b.agent.Bases[1]
	proxy, err := b.start(ctx, nil, "proxy", message, task)
	if err != nil {
		return err
	}
	b.targets = []Target{
		{Path: Direct, Message: []string{message}, Task: []string{task}},
		{Path: ReverseProxy, Message: proxy.Bases[:1], Task: proxy.Bases[1:], PIDs: []int{proxy.pid()}},
	}
	if !b.hasParley() {
		return nil
	}
	if b.mesh, err = b.startParley(ctx, meshSettings{}); err != nil {
		return err
	}
	if err := b.mesh.register(ctx, message, task); err != nil {
		return err
	}
	b.targets = append(b.targets, b.mesh.target())
	return nil
}

// openPostgres starts what openHTTP starts and, beside it, Parley on
// PostgreSQL.
func openPostgres(ctx context.Context, opts *Options) (*bed, error) {
	b, err := newBed(opts)
	if err != nil {
		return nil, err
	}
	if err := b.startPostgresMesh(ctx); err != nil {
		return nil, errors.Join(err, b.close())
	}
	return b, nil
}

func (b *bed) startPostgresMesh(ctx context.Context) error {
	if !b.hasParley() {
		return nil
	}
	server, err := b.database(ctx)
	if server == nil {
		return err
	}
	if err := b.startHTTP(ctx); err != nil {
		return err
	}
	mesh, err := b.startParley(ctx, meshSettings{store: server.url()})
	if err != nil {
		return err
	}
	if err := mesh.register(ctx, b.agent.Bases[0], b.agent.Bases[1]); err != nil {
		return err
	}
	target := mesh.target()
	target.Path, target.Database = ParleyPostgres, server.pid()
	b.targets = append(b.targets, target)
	return nil
}

// database starts PostgreSQL; nil without an error means that it is not
// installed, which the report will say.
func (b *bed) database(ctx context.Context) (*postgres, error) {
	server, err := b.startPostgres(ctx)
	if errors.Is(err, errNoPostgres) {
		b.leftOut = append(b.leftOut, errNoPostgres.Error())
		return nil, nil
	}
	return server, err
}

// openReplicas starts two replicas of Parley on one database, and two paths:
// through the first of them, and through both.
func openReplicas(ctx context.Context, opts *Options) (*bed, error) {
	b, err := newBed(opts)
	if err != nil {
		return nil, err
	}
	if err := b.startReplicas(ctx); err != nil {
		return nil, errors.Join(err, b.close())
	}
	return b, nil
}

func (b *bed) startReplicas(ctx context.Context) (err error) {
	if !b.hasParley() {
		return nil
	}
	server, err := b.database(ctx)
	if server == nil {
		return err
	}
	if b.agent, err = b.start(ctx, nil, "agent"); err != nil {
		return err
	}
	if b.mesh, err = b.startParley(ctx, meshSettings{store: server.url()}); err != nil {
		return err
	}
	key, err := b.mesh.masterKey()
	if err != nil {
		return err
	}
	second, err := b.startParley(ctx, meshSettings{store: server.url(), masterKey: key})
	if err != nil {
		return err
	}
	if err := b.mesh.register(ctx, b.agent.Bases[0]); err != nil {
		return err
	}
	one := b.mesh.target()
	one.Path, one.Database = ParleyPostgres, server.pid()
	both := one
	both.Path = TwoReplicas
	second.agents = b.mesh.agents
	both.Message = append(slices.Clone(one.Message), second.target().Message...)
	both.PIDs = append(slices.Clone(one.PIDs), second.target().PIDs...)
	b.targets = []Target{one, both}
	return b.awaitAnswers(ctx, both)
}

// awaitAnswers waits until every process of the target knows what was
// registered with one of them.
func (b *bed) awaitAnswers(ctx context.Context, t Target) error {
	ctx, cancel := context.WithTimeout(ctx, replicaTime)
	defer cancel()
	load := loadInChild(b.opts.Program)
	for {
		_, err := load(ctx, Spec{URLs: t.Message, Header: t.Header, Conns: len(t.Message), Duration: replicaTry})
		if err == nil {
			return nil
		}
		if ctx.Err() != nil {
			return fmt.Errorf("replicas: not all of them answer: %w", err)
		}
	}
}

// How long a replica may take to learn of a registration, and one try.
const (
	replicaTime = 20 * time.Second
	replicaTry  = 100 * time.Millisecond
)

// openVersions starts agents of both versions behind one mesh, and a path to them
// for each version of the caller.
func openVersions(ctx context.Context, opts *Options) (*bed, error) {
	b, err := newBed(opts)
	if err != nil {
		return nil, err
	}
	if err := b.startVersions(ctx); err != nil {
		return nil, errors.Join(err, b.close())
	}
	return b, nil
}

func (b *bed) startVersions(ctx context.Context) (err error) {
	if !b.hasParley() {
		return nil
	}
	if b.agent, err = b.start(ctx, nil, "agent"); err != nil {
		return err
	}
	if b.mesh, err = b.startParley(ctx, meshSettings{}); err != nil {
		return err
	}
	bases := b.agent.Bases
	if err := b.mesh.register(ctx, bases[0], bases[1], bases[3], bases[4]); err != nil {
		return err
	}
	agents := b.mesh.agents
	b.targets = []Target{{Path: Direct, Message: bases[:1], Task: bases[1:2]}}
	for _, path := range []Path{Parley, OldToNew, NewToOld, OldToOld} {
		b.mesh.agents = agents[:2]
		if path == NewToOld || path == OldToOld {
			b.mesh.agents = agents[2:]
		}
		target := b.mesh.target()
		target.Path, target.Old = path, path == OldToNew || path == OldToOld
		b.targets = append(b.targets, target)
	}
	b.mesh.agents = agents
	return nil
}

// openGRPC starts a gRPC agent and the paths to it.
func openGRPC(ctx context.Context, opts *Options) (*bed, error) {
	b, err := newBed(opts)
	if err != nil {
		return nil, err
	}
	if err := b.startGRPC(ctx); err != nil {
		return nil, errors.Join(err, b.close())
	}
	return b, nil
}

func (b *bed) startGRPC(ctx context.Context) (err error) {
	if b.agent, err = b.start(ctx, nil, "grpc-agent"); err != nil {
		return err
	}
	card, address := b.agent.Bases[0], b.agent.Bases[1]
	proxy, err := b.start(ctx, nil, "grpc-proxy", address)
	if err != nil {
		return err
	}
	b.targets = []Target{
		{Path: Direct, Message: []string{address}},
		{Path: GRPCProxy, Message: proxy.Bases, PIDs: []int{proxy.pid()}},
	}
	if !b.hasParley() {
		return nil
	}
	if b.mesh, err = b.startParley(ctx, meshSettings{}); err != nil {
		return err
	}
	if err := b.mesh.register(ctx, card); err != nil {
		return err
	}
	b.targets = append(b.targets, b.mesh.grpcTarget())
	return nil
}

// start runs the benchmark's own program in one of its roles until the bed is
// closed.
func (b *bed) start(ctx context.Context, spec *Spec, args ...string) (*child, error) {
	c, err := startChild(ctx, b.opts.Program, spec, args...)
	if err != nil {
		return nil, err
	}
	b.stops, b.pids = append(b.stops, c.stop), append(b.pids, c.pid())
	return c, nil
}

// foreign returns the CPU time that others than the benchmark have used.
func (b *bed) foreign() (time.Duration, error) { return foreignCPU(b.pids, b.servers) }

// close stops what was started, the last first.
func (b *bed) close() error {
	var errs []error
	for len(b.stops) > 0 {
		last := len(b.stops) - 1
		errs = append(errs, b.stops[last]())
		b.stops = b.stops[:last]
	}
	return errors.Join(append(errs, os.RemoveAll(b.dir))...)
}
