// Command agent is the sample agent written with the official Go SDK. It
// behaves as interop/README.md says, like its JavaScript and Python twins, and
// holds no Parley code: it is a stranger that Parley has to get on with.
package main

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"strings"

	"github.com/a2aproject/a2a-go/v2/a2a"
	a2agrpc "github.com/a2aproject/a2a-go/v2/a2agrpc/v1"
	"github.com/a2aproject/a2a-go/v2/a2asrv"
	"github.com/a2aproject/a2a-go/v2/a2asrv/push"
	"github.com/a2aproject/a2a-go/v2/a2asrv/taskstore"
	"google.golang.org/grpc"

	"github.com/parley-mesh/parley/interop/go/peer"
)

func main() {
	peer.Main(peer.ParseOptions("go-agent", "JSONRPC,HTTP+JSON"), a2asrv.WellKnownAgentCardPath, build)
}

func build(base, grpcAddress string, o peer.Options, grpcServer *grpc.Server) (http.Handler, http.Handler, error) {
	card, err := newCard(base, grpcAddress, o)
	if err != nil {
		return nil, nil, err
	}
	handler := newHandler(card)
	a2agrpc.NewHandler(handler).RegisterWith(grpcServer)
	bindings := http.NewServeMux()
	bindings.Handle("/rpc", a2asrv.NewJSONRPCHandler(handler))
	bindings.Handle("/rest/", http.StripPrefix("/rest", a2asrv.NewRESTHandler(handler)))
	return a2asrv.NewStaticAgentCardHandler(card), bindings, nil
}

func newHandler(card *a2a.AgentCard) a2asrv.RequestHandler {
	// The SDK's own store refuses ListTasks to callers without a name.
	store := taskstore.NewInMemory(&taskstore.InMemoryStoreConfig{
		Authenticator: func(context.Context) (string, error) { return "anyone", nil },
	})
	return a2asrv.NewHandler(&script{},
		a2asrv.WithTaskStore(store),
		// Whoever is told lives on this machine, which the SDK refuses by itself.
		a2asrv.WithPushNotifications(push.NewInMemoryStore(), push.NewHTTPPushSender(&push.HTTPSenderConfig{AllowPrivateNetworks: true})),
		a2asrv.WithCapabilityChecks(&card.Capabilities),
		a2asrv.WithLogger(slog.New(slog.DiscardHandler)))
}

func newCard(base, grpcAddress string, o peer.Options) (*a2a.AgentCard, error) {
	card := &a2a.AgentCard{
		Name:               o.Name,
		Description:        "Sample agent on the Go SDK: echoes, works, asks, fails.",
		Version:            "1.0.0",
		Capabilities:       a2a.AgentCapabilities{Streaming: true, PushNotifications: true},
		DefaultInputModes:  []string{"text/plain", "application/json"},
		DefaultOutputModes: []string{"text/plain", "application/json"},
		Skills: []a2a.AgentSkill{{
			ID:          "script",
			Name:        "Script",
			Description: "Does what the first word of the message says: echo, task, slow, ask, fail, reject, data, file, headers, relay.",
			Tags:        []string{"sample"},
			Examples:    []string{"echo hello", "slow 200 report"},
		}},
	}
	for binding := range strings.SplitSeq(o.Bindings, ",") {
		switch protocol := a2a.TransportProtocol(binding); protocol {
		case a2a.TransportProtocolJSONRPC:
			card.SupportedInterfaces = append(card.SupportedInterfaces, a2a.NewAgentInterface(base+"/rpc", protocol))
		case a2a.TransportProtocolHTTPJSON:
			card.SupportedInterfaces = append(card.SupportedInterfaces, a2a.NewAgentInterface(base+"/rest", protocol))
		case a2a.TransportProtocolGRPC:
			card.SupportedInterfaces = append(card.SupportedInterfaces, a2a.NewAgentInterface(grpcAddress, protocol))
		default:
			return nil, fmt.Errorf("--bindings: %q is none of JSONRPC, HTTP+JSON, GRPC", binding)
		}
	}
	if o.Token != "" {
		card.SecuritySchemes = a2a.NamedSecuritySchemes{"bearer": a2a.HTTPAuthSecurityScheme{Scheme: "Bearer"}}
		card.SecurityRequirements = a2a.SecurityRequirementsOptions{{"bearer": a2a.SecuritySchemeScopes{}}}
	}
	return card, nil
}
