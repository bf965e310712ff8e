// Command call sends one message to an agent and prints what comes back:
//
//	PARLEY_KEY=pk_… call http://127.0.0.1:7400/agents/NAME/ "hello there"
package main

import (
	"context"
	"fmt"
	"log"
	"os"

	"github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/a2aproject/a2a-go/v2/a2aclient"
	"github.com/a2aproject/a2a-go/v2/a2aclient/agentcard"
)

func main() {
	if len(os.Args) != 3 {
		log.Fatal("usage: call URL WORDS")
	}
	ctx := context.Background()
	card, err := agentcard.DefaultResolver.Resolve(ctx, os.Args[1])
	if err != nil {
		log.Fatal(err)
	}
	client, err := a2aclient.NewFromCard(ctx, card)
	if err != nil {
		log.Fatal(err)
	}
	if key := os.Getenv("PARLEY_KEY"); key != "" {
		ctx = a2aclient.AttachServiceParams(ctx, a2aclient.ServiceParams{"authorization": {"Bearer " + key}})
	}
	request := &a2a.SendMessageRequest{
		Message: a2a.NewMessage(a2a.MessageRoleUser, a2a.NewTextPart(os.Args[2])),
	}
	for event, err := range client.SendStreamingMessage(ctx, request) {
		if err != nil {
			log.Fatal(err)
		}
		switch e := event.(type) {
		case *a2a.Message:
			show("message", e.Parts)
		case *a2a.Task:
			fmt.Println(e.Status.State)
		case *a2a.TaskStatusUpdateEvent:
			fmt.Println(e.Status.State)
		case *a2a.TaskArtifactUpdateEvent:
			show("artifact", e.Artifact.Parts)
		}
	}
}

func show(what string, parts a2a.ContentParts) {
	for _, part := range parts {
		fmt.Printf("%s: %s\n", what, part.Text())
	}
}
