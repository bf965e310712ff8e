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
)

// scenarioTimeout ends a scenario that got stuck.
const scenarioTimeout = 30 * time.Second

func main() {
	var (
		base     = flag.String("url", "", "base address of the agent, with a trailing slash")
		key      = flag.String("key", os.Getenv("PARLEY_KEY"), "API key, sent as a bearer token")
		binding  = flag.String("binding", "", "JSONRPC or HTTP+JSON; what the card lists first if empty")
		scenario = flag.String("scenario", "all", "comma-separated names, or all")
	)
	flag.Parse()
	if err := run(*base, *key, *binding, *scenario); err != nil {
		fmt.Fprintln(os.Stderr, "client:", err)
		os.Exit(1)
	}
}

func run(base, key, binding, names string) error {
	client, err := connect(context.Background(), base, binding)
	if err != nil {
		return err
	}
	if names == "all" {
		names = strings.Join(scenarioNames, ",")
	}
	out := json.NewEncoder(os.Stdout)
	for name := range strings.SplitSeq(names, ",") {
		play, ok := scenarios[name]
		if !ok {
			return fmt.Errorf("--scenario: %q is none of %s", name, strings.Join(scenarioNames, ", "))
		}
		ctx, cancel := context.WithTimeout(context.Background(), scenarioTimeout)
		r := newRecorder(name)
		play(withKey(ctx, key), client, r)
		cancel()
		if err := out.Encode(r.doc); err != nil {
			return err
		}
	}
	return nil
}

// docs: call through Parley
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
	return a2aclient.NewFromCard(ctx, card, a2aclient.WithConfig(config))
}

// withKey makes every call with the returned context carry the API key.
func withKey(ctx context.Context, key string) context.Context {
	if key == "" {
		return ctx
	}
	return a2aclient.AttachServiceParams(ctx, a2aclient.ServiceParams{"authorization": {"Bearer " + key}})
}

// docs: end
