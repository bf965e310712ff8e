// Command agent03 is the sample agent written with the Go SDK of protocol
// version 0.3. It does what its successor in ../agent does, and pushes as well.
package main

import (
	"fmt"
	"log/slog"
	"net/http"
	"strings"

	"github.com/a2aproject/a2a-go/a2a"
	"github.com/a2aproject/a2a-go/a2agrpc"
	"github.com/a2aproject/a2a-go/a2asrv"
	"github.com/a2aproject/a2a-go/a2asrv/push"
	"google.golang.org/grpc"

	"github.com/parley-mesh/parley/interop/go/peer"
)

func main() {
	peer.Main(peer.ParseOptions("go03-agent", "JSONRPC,GRPC"), a2asrv.WellKnownAgentCardPath, build)
}

func build(base, grpcAddress string, o peer.Options, grpcServer *grpc.Server) (http.Handler, http.Handler, error) {
	card, err := newCard(base, grpcAddress, o)
	if err != nil {
		return nil, nil, err
	}
	handler := a2asrv.NewHandler(&script{},
		a2asrv.WithPushNotifications(push.NewInMemoryStore(), push.NewHTTPPushSender(nil)),
		a2asrv.WithLogger(slog.New(slog.DiscardHandler)))
	a2agrpc.NewHandler(handler).RegisterWith(grpcServer)
	bindings := http.NewServeMux()
	bindings.Handle("/rpc", a2asrv.NewJSONRPCHandler(handler))
	return a2asrv.NewStaticAgentCardHandler(card), bindings, nil
}

func newCard(base, grpcAddress string, o peer.Options) (*a2a.AgentCard, error) {
	card := &a2a.AgentCard{
		Name:               o.Name,
		Description:        "Sample agent on the Go SDK of version 0.3: echoes, works, asks, fails.",
		Version:            "1.0.0",
		ProtocolVersion:    string(a2a.Version),
		Capabilities:       a2a.AgentCapabilities{Streaming: true, PushNotifications: true},
		DefaultInputModes:  []string{"text/plain", "application/json"},
		DefaultOutputModes: []string{"text/plain", "application/json"},
		Skills: []a2a.AgentSkill{{
			ID:          "script",
			Name:        "Script",
			Description: "Does what the first word of the message says: echo, task, slow, ask, fail, reject, data, file, headers.",
			Tags:        []string{"sample"},
			Examples:    []string{"echo hello", "slow 200 report"},
		}},
	}
	addresses := map[a2a.TransportProtocol]string{a2a.TransportProtocolJSONRPC: base + "/rpc", a2a.TransportProtocolGRPC: grpcAddress}
	for i, binding := range strings.Split(o.Bindings, ",") {
		transport := a2a.TransportProtocol(binding)
		url, ok := addresses[transport]
		if !ok {
			return nil, fmt.Errorf("--bindings: %q is none of JSONRPC, GRPC", binding)
		}
		if i == 0 {
			card.URL, card.PreferredTransport = url, transport
		} else {
			card.AdditionalInterfaces = append(card.AdditionalInterfaces, a2a.AgentInterface{URL: url, Transport: transport})
		}
	}
	if o.Token != "" {
		card.SecuritySchemes = a2a.NamedSecuritySchemes{"bearer": a2a.HTTPAuthSecurityScheme{Scheme: "Bearer"}}
		card.Security = []a2a.SecurityRequirements{{"bearer": a2a.SecuritySchemeScopes{}}}
	}
	return card, nil
}
