// Command client drives one agent with the official Go SDK through named
// scenarios and prints, per scenario, one line of JSON with what came back. It
// has twins in JavaScript and Python; interop/README.md says what they share.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/a2aproject/a2a-go/v2/a2aclient"
	"github.com/a2aproject/a2a-go/v2/a2aclient/agentcard"
	a2agrpc "github.com/a2aproject/a2a-go/v2/a2agrpc/v1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/parley-mesh/parley/interop/go/peer"
)

// scenarioTimeout ends a scenario that got stuck.
const scenarioTimeout = 30 * time.Second

type options struct {
	base, key, binding, scenario, say, push string
	stream                                  bool
}

func main() {
	var o options
	flag.StringVar(&o.base, "url", "", "base address of the agent, with a trailing slash")
	flag.StringVar(&o.key, "key", os.Getenv("PARLEY_KEY"), "API key, sent as a bearer token")
	flag.StringVar(&o.binding, "binding", "", "JSONRPC, HTTP+JSON or GRPC; what the card lists first if empty")
	flag.StringVar(&o.scenario, "scenario", "all", "comma-separated names, or all")
	flag.StringVar(&o.say, "say", "", "send this one message instead of playing scenarios")
	flag.StringVar(&o.push, "push", "", "address to have told of a task, in the scenario push instead of others")
	flag.BoolVar(&o.stream, "stream", false, "stream the answer to --say")
	flag.Parse()
	if err := run(o); err != nil {
		fmt.Fprintln(os.Stderr, "client:", err)
		os.Exit(1)
	}
}

func run(o options) error {
	client, err := connect(context.Background(), o.base, o.binding)
	if err != nil {
		return err
	}
	if o.say != "" {
		return play(o.key, "say", client, sayOne(o.say, o.stream))
	}
	if o.push != "" {
		return play(o.key, "push", client, push(o.push))
	}
	if o.scenario == "all" {
		o.scenario = strings.Join(scenarioNames, ",")
	}
	for name := range strings.SplitSeq(o.scenario, ",") {
		scene, ok := scenarios[name]
		if !ok {
			return fmt.Errorf("--scenario: %q is none of %s", name, strings.Join(scenarioNames, ", "))
		}
		if err := play(o.key, name, client, scene); err != nil {
			return err
		}
	}
	return nil
}

// play runs one scenario and prints its document.
func play(key, name string, client *a2aclient.Client, scene scenario) error {
	ctx, cancel := context.WithTimeout(context.Background(), scenarioTimeout)
	defer cancel()
	r := peer.NewRecorder(name, sdk)
	scene(withKey(ctx, key), client, r)
	return json.NewEncoder(os.Stdout).Encode(r.Doc)
}

// connect reads the card at the agent's address, which ends in a slash, and
// makes a client for it.
func connect(ctx context.Context, base, binding string) (*a2aclient.Client, error) {
	card, err := agentcard.DefaultResolver.Resolve(ctx, base)
	if err != nil {
		return nil, err
	}
	var config a2aclient.Config
	if binding != "" {
		config.PreferredTransports = []a2a.TransportProtocol{a2a.TransportProtocol(binding)}
	}
	options := []a2aclient.FactoryOption{a2aclient.WithConfig(config)}
	if binding == string(a2a.TransportProtocolGRPC) { // in development there is no TLS
		options = append(options, a2agrpc.WithGRPCTransport(grpc.WithTransportCredentials(insecure.NewCredentials())))
	}
	return a2aclient.NewFromCard(ctx, card, options...)
}

// withKey makes every call with the returned context carry the API key.
func withKey(ctx context.Context, key string) context.Context {
	if key == "" {
		return ctx
	}
	return a2aclient.AttachServiceParams(ctx, a2aclient.ServiceParams{"authorization": {"Bearer " + key}})
}
