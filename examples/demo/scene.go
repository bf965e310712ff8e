package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/parley-mesh/parley/interop"
)

// settleTime bounds the wait for the record of a call that has been answered:
// its outcome is written with the next batch.
const settleTime = 5 * time.Second

// settlePoll is the pause between two looks at the records.
const settlePoll = 50 * time.Millisecond

// demo is everything that runs.
type demo struct {
	*screen
	peers  *interop.Peers
	mesh   *interop.Mesh
	agents [len(cast)]*interop.Agent
	keys   map[interop.SDK]string
	seen   []string       // ids of the calls that were printed, in that order
	depth  map[string]int // of a call that was printed
}

// cast are the agents, and the binding that each of them speaks.
var cast = [...]struct {
	sdk     interop.SDK
	name    string
	binding interop.Binding
	written string // what it is written with
}{
	{interop.Go, "go-agent", interop.JSONRPC, "a2a-go"},
	{interop.JavaScript, "js-agent", interop.JSONRPC, "@a2a-js/sdk"},
	{interop.Python, "python-agent", interop.HTTPJSON, "a2a-sdk"},
}

// act is something that a stock client does.
type act struct {
	client   interop.SDK
	binding  interop.Binding
	agent    string
	what     string
	say      string // one message, or
	scenario string // a scenario of several calls
	stream   bool
}

var acts = []act{
	{client: interop.JavaScript, binding: interop.JSONRPC, agent: "python-agent", what: "asks for a task", say: "task tea"},
	{client: interop.Python, binding: interop.HTTPJSON, agent: "go-agent", what: "streams a task", say: "slow 200 report", stream: true},
	{client: interop.Go, binding: interop.JSONRPC, agent: "js-agent", what: "gets data back", say: `data {"cups": 2}`},
	{client: interop.Go, binding: interop.HTTPJSON, agent: "js-agent", what: "sees a task fail", say: "fail no milk"},
	{client: interop.Python, binding: interop.JSONRPC, agent: "js-agent", what: "is asked back, sending and streaming", scenario: "input"},
	{client: interop.JavaScript, binding: interop.JSONRPC, agent: "go-agent", what: "starts a chain of agents",
		say: "relay python-agent relay js-agent echo hello"},
}

// title is what happens in an act.
func (a act) title() string {
	if a.say == "" {
		return clientName(a.client) + " " + a.what
	}
	return fmt.Sprintf("%s %s: “%s”", clientName(a.client), a.what, a.say)
}

// clientName is the principal that the SDK's client calls as.
func clientName(sdk interop.SDK) string { return string(sdk) + "-client" }

// start starts the mesh and the agents and makes the clients known. What it
// started runs until stop: processes end one by one there and not all at once
// with ctx, for an agent should not vanish under a mesh that speaks to it.
func (d *demo) start(ctx context.Context, parley, dir string) error {
	up := context.WithoutCancel(ctx)
	err := d.step("mesh", func() (err error) {
		d.mesh, err = interop.StartMesh(up, parley, dir)
		return err
	})
	if err != nil {
		return err
	}
	return d.step("agents, and keys for the clients", func() error {
		var starts errgroup.Group
		for i, member := range cast {
			starts.Go(func() (err error) {
				d.agents[i], err = d.mesh.StartCaller(up, d.peers, member.sdk, interop.AgentOptions{
					Name: member.name, Bindings: []interop.Binding{member.binding},
				})
				return err
			})
		}
		return errors.Join(d.admit(ctx), starts.Wait())
	})
}

// admit makes a principal with a key for every client.
func (d *demo) admit(ctx context.Context) error {
	d.keys, d.depth = map[interop.SDK]string{}, map[string]int{}
	for _, member := range cast {
		key, err := d.mesh.NewCaller(ctx, clientName(member.sdk))
		if err != nil {
			return err
		}
		d.keys[member.sdk] = key
	}
	return nil
}

// stop ends the mesh first, then the agents behind it.
func (d *demo) stop() error {
	var errs []error
	if d.mesh != nil {
		errs = append(errs, d.mesh.Stop())
	}
	for _, agent := range d.agents {
		if agent != nil {
			errs = append(errs, agent.Stop())
		}
	}
	return errors.Join(errs...)
}

func (d *demo) introduce() {
	d.line("")
	for i, member := range cast {
		d.line("%-*s  %-11s  %-9s  %-23s  now also %s", agentWidth, member.name, member.written, member.binding,
			d.agents[i].URL, d.mesh.Agent(member.name))
	}
	d.line("")
	d.callsHeader()
}

// calls plays the acts and prints, of each, what the mesh recorded and what
// came back.
func (d *demo) calls(ctx context.Context) error {
	for _, a := range acts {
		o := interop.ClientOptions{URL: d.mesh.Agent(a.agent), Key: d.keys[a.client], Binding: a.binding, Say: a.say, Stream: a.stream}
		if a.scenario != "" {
			o.Scenarios = []string{a.scenario}
		}
		d.line("\n%s", a.title())
		documents, err := d.peers.RunClient(ctx, a.client, o)
		if err != nil {
			return err
		}
		if err := d.printNew(ctx); err != nil {
			return err
		}
		transcript, err := documents[0].Transcript()
		if err != nil {
			return err
		}
		for told := range strings.Lines(transcript) {
			d.answer(strings.TrimPrefix(strings.TrimSpace(told), "say: "))
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
		if above, ok := d.depth[c.Parent]; ok {
			d.depth[c.ID] = above + 1
		} else {
			d.depth[c.ID] = 0
		}
		d.seen = append(d.seen, c.ID)
		d.call(c, d.depth[c.ID])
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
		case <-time.After(settlePoll):
		}
	}
}

// tree prints the chain of the last act, as the command line draws it.
func (d *demo) tree(ctx context.Context) error {
	drawn, err := d.mesh.Tree(ctx, d.lastRoot())
	if err != nil {
		return err
	}
	d.heading("\nThe chain, as \"parley calls tree\" draws it")
	d.line("%s", strings.TrimRight(drawn, "\n"))
	return nil
}

// lastRoot is the newest call that was not made inside another.
func (d *demo) lastRoot() string {
	for _, id := range slices.Backward(d.seen) {
		if d.depth[id] == 0 {
			return id
		}
	}
	return ""
}
