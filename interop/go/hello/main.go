// Command hello is a small agent. It greets back:
//
//	hello 127.0.0.1:8101
package main

import (
	"context"
	"iter"
	"log"
	"net/http"
	"os"

	"github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/a2aproject/a2a-go/v2/a2asrv"
)

type hello struct{}

func (hello) Execute(_ context.Context, in *a2asrv.ExecutorContext) iter.Seq2[a2a.Event, error] {
	return func(yield func(a2a.Event, error) bool) {
		words := in.Message.Parts[0].Text()
		yield(a2a.NewMessage(a2a.MessageRoleAgent, a2a.NewTextPart("hello, you said: "+words)), nil)
	}
}

func (hello) Cancel(_ context.Context, in *a2asrv.ExecutorContext) iter.Seq2[a2a.Event, error] {
	return func(yield func(a2a.Event, error) bool) {
		yield(a2a.NewStatusUpdateEvent(in, a2a.TaskStateCanceled, nil), nil)
	}
}

func main() {
	if len(os.Args) != 2 {
		log.Fatal("usage: hello HOST:PORT")
	}
	card := &a2a.AgentCard{
		Name:        "hello",
		Description: "Greets back.",
		Version:     "1.0.0",
		// The address at which Parley reaches the agent.
		SupportedInterfaces: []*a2a.AgentInterface{
			a2a.NewAgentInterface("http://"+os.Args[1]+"/rpc", a2a.TransportProtocolJSONRPC),
		},
		Capabilities:       a2a.AgentCapabilities{Streaming: true},
		DefaultInputModes:  []string{"text/plain"},
		DefaultOutputModes: []string{"text/plain"},
		Skills:             []a2a.AgentSkill{{ID: "greet", Name: "Greet", Description: "Greets back.", Tags: []string{"greeting"}}},
	}
	mux := http.NewServeMux()
	mux.Handle(a2asrv.WellKnownAgentCardPath, a2asrv.NewStaticAgentCardHandler(card))
	mux.Handle("/rpc", a2asrv.NewJSONRPCHandler(a2asrv.NewHandler(hello{})))
	log.Fatal(http.ListenAndServe(os.Args[1], mux))
}
