// Command client03 drives one agent with the Go SDK of protocol version 0.3
// through the scenarios of its successor in ../client, except those that 0.3
// has no operation for.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"net"
	"os"
	"strings"
	"time"

	"github.com/a2aproject/a2a-go/a2a"
	"github.com/a2aproject/a2a-go/a2aclient"
	"github.com/a2aproject/a2a-go/a2aclient/agentcard"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/resolver"
	"google.golang.org/grpc/resolver/manual"

	"github.com/parley-mesh/parley/interop/go/peer"
)

// scenarioTimeout ends a scenario that got stuck.
const scenarioTimeout = 30 * time.Second

type options struct{ base, key, binding, scenario, say, push string }

func main() {
	var o options
	flag.StringVar(&o.base, "url", "", "base address of the agent, with a trailing slash")
	flag.StringVar(&o.key, "key", os.Getenv("PARLEY_KEY"), "API key, sent as a bearer token")
	flag.StringVar(&o.binding, "binding", "", "JSONRPC or GRPC; JSONRPC if empty")
	flag.StringVar(&o.scenario, "scenario", "all", "comma-separated names, or all")
	flag.StringVar(&o.say, "say", "", "send this one message instead of playing scenarios")
	flag.StringVar(&o.push, "push", "", "address to have told of a task, in the scenario push instead of others")
	flag.Parse()
	if err := run(o); err != nil {
		fmt.Fprintln(os.Stderr, "client:", err)
		os.Exit(1)
	}
}

func run(o options) error {
	client, err := connect(context.Background(), o)
	if err != nil {
		return err
	}
	if o.say != "" {
		return play("say", client, sayOne(o.say))
	}
	if o.push != "" {
		return play("push", client, push(o.push))
	}
	if o.scenario == "all" {
		o.scenario = strings.Join(scenarioNames, ",")
	}
	for name := range strings.SplitSeq(o.scenario, ",") {
		scene, ok := scenarios[name]
		if !ok {
			return fmt.Errorf("--scenario: %q is none of %s", name, strings.Join(scenarioNames, ", "))
		}
		if err := play(name, client, scene); err != nil {
			return err
		}
	}
	return nil
}

// play runs one scenario and prints its document.
func play(name string, client *a2aclient.Client, scene scenario) error {
	ctx, cancel := context.WithTimeout(context.Background(), scenarioTimeout)
	defer cancel()
	r := peer.NewRecorder(name, sdk)
	scene(ctx, client, r)
	return json.NewEncoder(os.Stdout).Encode(r.Doc)
}

// connect reads the card at the agent's address and makes a client for it.
func connect(ctx context.Context, o options) (*a2aclient.Client, error) {
	card, err := agentcard.DefaultResolver.Resolve(ctx, o.base)
	if err != nil {
		return nil, err
	}
	options := []a2aclient.FactoryOption{a2aclient.WithDefaultsDisabled(), a2aclient.WithJSONRPCTransport(nil)}
	if o.binding == string(a2a.TransportProtocolGRPC) { // in development there is no TLS
		options[1] = a2aclient.WithGRPCTransport(grpc.WithTransportCredentials(insecure.NewCredentials()), belowLocalhost(card))
	}
	client, err := a2aclient.NewFromCard(ctx, card, options...)
	if err != nil {
		return nil, err
	}
	if o.key != "" {
		client.AddCallInterceptor(a2aclient.NewStaticCallMetaInjector(a2aclient.CallMeta{"authorization": {"Bearer " + o.key}}))
	}
	return client, nil
}

// belowLocalhost leads names below localhost to this machine, as RFC 6761 has it
// and not every system does.
func belowLocalhost(card *a2a.AgentCard) grpc.DialOption {
	for _, i := range append(card.AdditionalInterfaces, a2a.AgentInterface{Transport: card.PreferredTransport, URL: card.URL}) {
		host, port, err := net.SplitHostPort(i.URL)
		if i.Transport == a2a.TransportProtocolGRPC && err == nil && strings.HasSuffix(host, ".localhost") {
			here := manual.NewBuilderWithScheme("dns")
			here.InitialState(resolver.State{Addresses: []resolver.Address{{Addr: net.JoinHostPort("127.0.0.1", port)}}})
			return grpc.WithResolvers(here)
		}
	}
	return grpc.EmptyDialOption{}
}

// sdk is how this SDK shows its values.
var sdk = peer.SDK{
	Client: "go03",
	Wire:   func(value any) any { return value },
	Reason: reason,
	Open: func(value any) (string, string, bool) {
		task, ok := value.(*a2a.Task)
		if !ok || task == nil || task.Status.State.Terminal() {
			return "", "", false
		}
		return string(task.ID), task.ContextID, true
	},
}

// reasons are the errors of 0.3 by the names that 1.0 gave them.
var reasons = map[error]string{
	a2a.ErrTaskNotFound:                 "TASK_NOT_FOUND",
	a2a.ErrTaskNotCancelable:            "TASK_NOT_CANCELABLE",
	a2a.ErrPushNotificationNotSupported: "PUSH_NOTIFICATION_NOT_SUPPORTED",
	a2a.ErrUnsupportedOperation:         "UNSUPPORTED_OPERATION",
	a2a.ErrUnsupportedContentType:       "CONTENT_TYPE_NOT_SUPPORTED",
	a2a.ErrInvalidAgentResponse:         "INVALID_AGENT_RESPONSE",
	a2a.ErrInvalidParams:                "INVALID_PARAMS",
	a2a.ErrInvalidRequest:               "INVALID_REQUEST",
	a2a.ErrMethodNotFound:               "METHOD_NOT_FOUND",
	a2a.ErrInternalError:                "INTERNAL_ERROR",
}

func reason(err error) string {
	for known, name := range reasons {
		if errors.Is(err, known) {
			return name
		}
	}
	return "UNKNOWN"
}
