package a2atest

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	old "github.com/a2aproject/a2a-go/a2a"
	oldgrpc "github.com/a2aproject/a2a-go/a2agrpc"
	oldsrv "github.com/a2aproject/a2a-go/a2asrv"
	"github.com/a2aproject/a2a-go/a2asrv/eventqueue"
	"github.com/a2aproject/a2a-go/a2asrv/push"
	"google.golang.org/grpc"

	"github.com/parley-mesh/parley/internal/a2a"
)

// OldAgent is an agent of A2A 0.3, built on the official Go SDK of that version,
// over JSON-RPC and gRPC. It says again what it is told, in a task that goes through
// working and an artifact; a text of "ask" makes it ask back, "wait" work until it is
// canceled, and "message" answer with a message instead of a task.
type OldAgent struct {
	// URL is its address, without a trailing slash: JSON-RPC is at /rpc.
	URL string
	// Address is the host:port of gRPC.
	Address string

	mu       sync.Mutex
	card     *old.AgentCard // guarded by mu
	cardPath string         // guarded by mu
}

// NewOldAgent serves an agent until the test ends. Its card names both bindings,
// JSON-RPC first.
func NewOldAgent(t testing.TB) *OldAgent {
	t.Helper()
	a := &OldAgent{cardPath: a2a.CardPath}
	handler := oldsrv.NewHandler(oldEcho{}, oldsrv.WithPushNotifications(push.NewInMemoryStore(), push.NewHTTPPushSender(nil)),
		oldsrv.WithExtendedAgentCardProducer(oldsrv.AgentCardProducerFn(a.extended)))

	mux := http.NewServeMux()
	mux.Handle("/rpc", oldsrv.NewJSONRPCHandler(handler))
	mux.HandleFunc("/.well-known/", func(w http.ResponseWriter, r *http.Request) {
		card, path := a.shown()
		if r.URL.Path != path {
			http.NotFound(w, r)
			return
		}
		oldsrv.NewStaticAgentCardHandler(card).ServeHTTP(w, r)
	})
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	a.URL = server.URL

	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	over := grpc.NewServer()
	oldgrpc.NewHandler(handler).RegisterWith(over)
	done := make(chan error, 1)
	go func() { done <- over.Serve(listener) }()
	t.Cleanup(func() {
		over.Stop()
		if err := <-done; err != nil && !errors.Is(err, grpc.ErrServerStopped) {
			t.Error(err)
		}
	})
	a.Address = listener.Addr().String()

	a.card = &old.AgentCard{
		Name: "Old echo", Description: "Says it again.", Version: "1.0.0", ProtocolVersion: "0.3.0",
		URL: a.URL + "/rpc", PreferredTransport: old.TransportProtocolJSONRPC,
		AdditionalInterfaces: []old.AgentInterface{{Transport: old.TransportProtocolGRPC, URL: a.Address}},
		Capabilities:         old.AgentCapabilities{Streaming: true, PushNotifications: true, StateTransitionHistory: true},
		DefaultInputModes:    []string{"text/plain"}, DefaultOutputModes: []string{"text/plain"},
		Skills: []old.AgentSkill{{ID: "echo", Name: "Echo", Description: "Says it again.", Tags: []string{"echo"}}},
	}
	return a
}

func (a *OldAgent) shown() (*old.AgentCard, string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.card, a.cardPath
}

// extended is the card with one more skill, "more", where it declares that there is
// such a card.
func (a *OldAgent) extended(context.Context) (*old.AgentCard, error) {
	card, _ := a.shown()
	if !card.SupportsAuthenticatedExtendedCard {
		return nil, old.ErrAuthenticatedExtendedCardNotConfigured
	}
	full := *card
	full.Skills = append(slices.Clone(card.Skills), old.AgentSkill{ID: "more", Name: "More", Description: "Not for everyone.", Tags: []string{"more"}})
	return &full, nil
}

// Show changes the card and where it is served; a nil change or an empty path
// leaves it.
func (a *OldAgent) Show(path string, change func(*old.AgentCard)) {
	a.mu.Lock()
	defer a.mu.Unlock()
	card := *a.card
	if change != nil {
		change(&card)
	}
	a.card = &card
	if path != "" {
		a.cardPath = path
	}
}

// oldEcho is what the agent does.
type oldEcho struct{}

// Execute implements a2asrv.AgentExecutor.
func (oldEcho) Execute(ctx context.Context, c *oldsrv.RequestContext, q eventqueue.Queue) error {
	var text strings.Builder
	for _, p := range c.Message.Parts {
		if t, ok := p.(old.TextPart); ok {
			text.WriteString(t.Text)
		}
	}
	if text.String() == "message" {
		return q.Write(ctx, old.NewMessage(old.MessageRoleAgent, old.TextPart{Text: "message"}))
	}
	events := []old.Event{old.NewStatusUpdateEvent(c, old.TaskStateWorking, nil)}
	if c.StoredTask == nil {
		events = append([]old.Event{old.NewSubmittedTask(c, c.Message)}, events...)
	}
	final := func(state old.TaskState, words string) old.Event {
		e := old.NewStatusUpdateEvent(c, state, old.NewMessageForTask(old.MessageRoleAgent, c, old.TextPart{Text: words}))
		e.Final = true
		return e
	}
	switch text.String() {
	case "wait":
	case "ask":
		events = append(events, final(old.TaskStateInputRequired, "what?"))
	default:
		events = append(events, old.NewArtifactEvent(c, old.TextPart{Text: text.String()}), final(old.TaskStateCompleted, "done"))
	}
	for _, e := range events {
		if err := q.Write(ctx, e); err != nil {
			return err
		}
	}
	if text.String() == "wait" {
		<-ctx.Done()
	}
	return nil
}

// Cancel implements a2asrv.AgentExecutor.
func (oldEcho) Cancel(ctx context.Context, c *oldsrv.RequestContext, q eventqueue.Queue) error {
	e := old.NewStatusUpdateEvent(c, old.TaskStateCanceled, nil)
	e.Final = true
	return q.Write(ctx, e)
}
