// Command demo shows Parley at work: it starts a mesh in a temporary directory
// on free ports, three agents on three SDKs, and stock clients that call them
// through the mesh; it prints what the mesh recorded of each call. With --keep
// it stays up until it is interrupted.
//
//	go run ./examples/demo
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"github.com/parley-mesh/parley/interop"
)

// keptDir is where --keep has its data, below the working directory, so that
// the commands the demo prints can be typed as they stand.
const keptDir = ".tmp/run"

// settleTime bounds the wait for the record of a call that has been answered:
// its outcome is written with the next batch.
const settleTime = 5 * time.Second

func main() {
	keep := flag.Bool("keep", false, "stay up after the calls, until interrupted")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, *keep); err != nil {
		fmt.Fprintln(os.Stderr, "demo:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, keep bool) (err error) {
	fmt.Println("Building Parley and the sample agents …")
	peers, err := interop.Install(ctx, "bin")
	if err != nil {
		return err
	}
	binary, err := peers.BuildParley(ctx)
	if err != nil {
		return err
	}
	dir, err := workDir(keep)
	if err != nil {
		return err
	}
	if !keep {
		defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	}

	// Processes end one by one below, not all at once with ctx: an agent
	// should not vanish under a mesh that still speaks to it.
	up := context.WithoutCancel(ctx)
	d := &demo{peers: peers}
	defer func() { err = errors.Join(err, d.stop()) }()
	if err := d.start(up, binary, dir); err != nil {
		return err
	}
	if err := d.calls(ctx); err != nil {
		return err
	}
	d.lookFurther()
	if keep {
		fmt.Printf("\nThe mesh is at %s; Ctrl-C ends it.\n", d.mesh.URL)
		<-ctx.Done()
	}
	return nil
}

func workDir(keep bool) (string, error) {
	if !keep {
		return os.MkdirTemp("", "parley-demo")
	}
	if err := os.RemoveAll(keptDir); err != nil {
		return "", err
	}
	if err := os.MkdirAll(keptDir, 0o700); err != nil {
		return "", err
	}
	return filepath.Abs(keptDir)
}

// demo is everything that runs.
type demo struct {
	peers  *interop.Peers
	mesh   *interop.Mesh
	agents []*interop.Agent
	key    string
	seen   []string // ids of the calls that were printed
}

func (d *demo) start(ctx context.Context, binary, dir string) error {
	var err error
	if d.mesh, err = interop.StartMesh(ctx, binary, dir); err != nil {
		return err
	}
	fmt.Printf("Parley serves at %s\n", d.mesh.URL)
	for _, sdk := range []interop.SDK{interop.Go, interop.JavaScript, interop.Python} {
		name := string(sdk) + "-agent"
		agent, err := d.mesh.StartCaller(ctx, d.peers, sdk, name)
		if err != nil {
			return err
		}
		d.agents = append(d.agents, agent)
		fmt.Printf("  %-13s %s is now also at %s\n", name, agent.URL, d.mesh.Agent(name))
	}
	d.key, err = d.mesh.NewCaller(ctx, "visitor")
	return err
}

// stop ends the mesh first, then the agents behind it.
func (d *demo) stop() error {
	var errs []error
	if d.mesh != nil {
		errs = append(errs, d.mesh.Stop())
	}
	for _, agent := range d.agents {
		errs = append(errs, agent.Stop())
	}
	return errors.Join(errs...)
}

// act is one call by a stock client.
type act struct {
	client  interop.SDK
	binding interop.Binding
	agent   string
	words   string
	stream  bool
}

var acts = []act{
	{interop.JavaScript, interop.JSONRPC, "python-agent", "task tea", false},
	{interop.Python, interop.HTTPJSON, "go-agent", "slow 200 report", true},
	{interop.Go, interop.JSONRPC, "js-agent", `data {"cups": 2}`, false},
	{interop.Go, interop.HTTPJSON, "js-agent", "fail no milk", false},
	{interop.JavaScript, interop.JSONRPC, "go-agent", "relay python-agent echo hello from afar", false},
}

func (d *demo) calls(ctx context.Context) error {
	for _, a := range acts {
		documents, err := d.peers.RunClient(ctx, a.client, interop.ClientOptions{
			URL: d.mesh.Agent(a.agent), Key: d.key, Binding: a.binding, Say: a.words, Stream: a.stream,
		})
		if err != nil {
			return err
		}
		told, err := documents[0].Transcript()
		if err != nil {
			return err
		}
		fmt.Printf("\n%s client, %q:\n  %s", a.client, a.words, told)
		if err := d.printNew(ctx); err != nil {
			return err
		}
	}
	return nil
}

// printNew prints the calls that the mesh recorded since the last time.
func (d *demo) printNew(ctx context.Context) error {
	fresh, err := d.settled(ctx)
	if err != nil {
		return err
	}
	for _, c := range fresh {
		d.seen = append(d.seen, c.ID)
		fmt.Printf("  %-20s → %-13s %9s → %-9s %-12s %7.1f ms  %s\n",
			c.Caller, c.Agent, c.CallerBinding, c.AgentBinding, c.Outcome, c.TotalMS, c.ID)
	}
	return nil
}

// settled waits until every new call has its outcome.
func (d *demo) settled(ctx context.Context) ([]interop.Call, error) {
	ctx, cancel := context.WithTimeout(ctx, settleTime)
	defer cancel()
	for {
		calls, err := d.mesh.Calls(ctx)
		if err != nil {
			return nil, err
		}
		fresh := slices.DeleteFunc(calls, func(c interop.Call) bool { return slices.Contains(d.seen, c.ID) })
		open := slices.ContainsFunc(fresh, func(c interop.Call) bool { return c.Outcome == interop.OpenCall })
		if len(fresh) > 0 && !open {
			return fresh, nil
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("the mesh has no outcome yet for a call that was answered: %w", ctx.Err())
		case <-time.After(50 * time.Millisecond):
		}
	}
}

func (d *demo) lookFurther() {
	fmt.Printf(`
Look further: keep all this up with "make run", then in another terminal
  bin/parley calls list --data %[1]s/data
  bin/parley agent show python-agent --data %[1]s/data
  bin/parley send go-agent "slow 3000 report" --stream --data %[1]s/data
`, keptDir)
}
