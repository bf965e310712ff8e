// Command agent is the sample agent written with the official Go SDK. It
// behaves as interop/README.md says, like its JavaScript and Python twins, and
// holds no Parley code: it is a stranger that Parley has to get on with.
package main

import (
	"context"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"
	a2agrpc "github.com/a2aproject/a2a-go/v2/a2agrpc/v1"
	"github.com/a2aproject/a2a-go/v2/a2asrv"
	"github.com/a2aproject/a2a-go/v2/a2asrv/taskstore"
	"google.golang.org/grpc"
)

// stopGrace is how long open streams may still finish after SIGTERM.
const stopGrace = 2 * time.Second

type options struct {
	name      string
	port      int
	bindings  string
	readyFile string
	token     string
}

func main() {
	var o options
	flag.StringVar(&o.name, "name", "go-agent", "name on the card")
	flag.IntVar(&o.port, "port", 0, "port on 127.0.0.1, 0 for a free one")
	flag.StringVar(&o.bindings, "bindings", "JSONRPC,HTTP+JSON", "bindings the card declares, in this order; GRPC is one too")
	flag.StringVar(&o.readyFile, "ready-file", "", "file that gets {\"url\": …} once the agent serves")
	flag.StringVar(&o.token, "token", "", "bearer token asked of callers, none if empty")
	flag.Parse()

	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	defer stop()
	if err := run(ctx, o); err != nil {
		fmt.Fprintln(os.Stderr, "agent:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, o options) error {
	listener, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", o.port))
	if err != nil {
		return err
	}
	grpcListener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	base := "http://" + listener.Addr().String()
	card, err := newCard(base, grpcListener.Addr().String(), o)
	if err != nil {
		return err
	}

	handler := newHandler(card)
	server := &http.Server{Handler: routes(card, handler, o.token), ReadHeaderTimeout: 10 * time.Second}
	grpcServer := grpc.NewServer(grpc.UnaryInterceptor(unaryToken(o.token)), grpc.StreamInterceptor(streamToken(o.token)))
	a2agrpc.NewHandler(handler).RegisterWith(grpcServer)
	served := make(chan error, 2)
	go func() { served <- server.Serve(listener) }()
	go func() { served <- grpcServer.Serve(grpcListener) }()
	defer grpcServer.Stop()
	if err := announce(o.readyFile, base+"/"); err != nil {
		return err
	}

	select {
	case err := <-served:
		return err
	case <-ctx.Done():
	}
	grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopGrace)
	defer cancel()
	if err := server.Shutdown(grace); errors.Is(err, context.DeadlineExceeded) {
		return server.Close()
	} else if err != nil {
		return err
	}
	return nil
}

func newHandler(card *a2a.AgentCard) a2asrv.RequestHandler {
	// The SDK's own store refuses ListTasks to callers without a name.
	store := taskstore.NewInMemory(&taskstore.InMemoryStoreConfig{
		Authenticator: func(context.Context) (string, error) { return "anyone", nil },
	})
	return a2asrv.NewHandler(&script{},
		a2asrv.WithTaskStore(store),
		a2asrv.WithCapabilityChecks(&card.Capabilities),
		a2asrv.WithLogger(slog.New(slog.DiscardHandler)))
}

// routes puts the bindings of HTTP behind the token; the card stays open, as it
// must be for a stranger to learn which credential is wanted.
func routes(card *a2a.AgentCard, handler a2asrv.RequestHandler, token string) http.Handler {
	bindings := http.NewServeMux()
	bindings.Handle("/rpc", a2asrv.NewJSONRPCHandler(handler))
	bindings.Handle("/rest/", http.StripPrefix("/rest", a2asrv.NewRESTHandler(handler)))

	mux := http.NewServeMux()
	mux.Handle(a2asrv.WellKnownAgentCardPath, a2asrv.NewStaticAgentCardHandler(card))
	mux.Handle("/", requireToken(token, bindings))
	return mux
}

func requireToken(token string, next http.Handler) http.Handler {
	want := []byte("Bearer " + token)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if token != "" && subtle.ConstantTimeCompare([]byte(r.Header.Get("Authorization")), want) != 1 {
			w.Header().Set("WWW-Authenticate", `Bearer realm="agent"`)
			http.Error(w, "a bearer token is needed", http.StatusUnauthorized)
			return
		}
		next.ServeHTTP(w, r)
	})
}

func newCard(base, grpcAddress string, o options) (*a2a.AgentCard, error) {
	card := &a2a.AgentCard{
		Name:               o.name,
		Description:        "Sample agent on the Go SDK: echoes, works, asks, fails.",
		Version:            "1.0.0",
		Capabilities:       a2a.AgentCapabilities{Streaming: true},
		DefaultInputModes:  []string{"text/plain", "application/json"},
		DefaultOutputModes: []string{"text/plain", "application/json"},
		Skills: []a2a.AgentSkill{{
			ID:          "script",
			Name:        "Script",
			Description: "Does what the first word of the message says: echo, task, slow, ask, fail, reject, data, headers, relay.",
			Tags:        []string{"sample"},
			Examples:    []string{"echo hello", "slow 200 report"},
		}},
	}
	for binding := range strings.SplitSeq(o.bindings, ",") {
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
	if o.token != "" {
		card.SecuritySchemes = a2a.NamedSecuritySchemes{"bearer": a2a.HTTPAuthSecurityScheme{Scheme: "Bearer"}}
		card.SecurityRequirements = a2a.SecurityRequirementsOptions{{"bearer": a2a.SecuritySchemeScopes{}}}
	}
	return card, nil
}

// announce tells whoever started the agent that it serves: a line on standard
// output, and the ready file, which appears whole or not at all.
func announce(file, url string) error {
	fmt.Println("ready", url)
	if file == "" {
		return nil
	}
	body, err := json.Marshal(map[string]string{"url": url})
	if err != nil {
		return err
	}
	partial := filepath.Join(filepath.Dir(file), "."+filepath.Base(file))
	if err := os.WriteFile(partial, body, 0o600); err != nil {
		return err
	}
	return os.Rename(partial, file)
}
