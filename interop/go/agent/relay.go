package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/a2aproject/a2a-go/v2/a2aclient"
	"github.com/a2aproject/a2a-go/v2/a2aclient/agentcard"
)

// relay hands "NAME WORDS" on: it sends WORDS to the agent NAME at the mesh and
// answers with what that agent said.
func (t *turn) relay(rest string) {
	name, words, _ := strings.Cut(rest, " ")
	trace, _ := t.in.ServiceParams.Get("traceparent")
	answer, err := askAgent(t.ctx, name, words, strings.Join(trace, ","))
	if err != nil {
		t.end(a2a.TaskStateFailed, "relay: "+err.Error())
		return
	}
	t.reply(a2a.NewTextPart(name + " said: " + answer))
}

// docs: call another agent
// askAgent sends words to another agent at the mesh. PARLEY_URL is the mesh's
// address, PARLEY_KEY this agent's own key, made by
// `parley key create --for agent:NAME`. With the key the mesh knows that the
// new call belongs to the one this agent is working on; the traceparent of the
// incoming request keeps both in one trace and settles which one it is when
// the agent works on several at once.
func askAgent(ctx context.Context, name, words, traceparent string) (string, error) {
	mesh, key := os.Getenv("PARLEY_URL"), os.Getenv("PARLEY_KEY")
	if mesh == "" || key == "" {
		return "", errors.New("set PARLEY_URL and PARLEY_KEY")
	}
	card, err := agentcard.DefaultResolver.Resolve(ctx, strings.TrimSuffix(mesh, "/")+"/agents/"+name+"/")
	if err != nil {
		return "", err
	}
	client, err := a2aclient.NewFromCard(ctx, card)
	if err != nil {
		return "", err
	}
	params := a2aclient.ServiceParams{"authorization": {"Bearer " + key}}
	if traceparent != "" {
		params["traceparent"] = []string{traceparent}
	}
	result, err := client.SendMessage(a2aclient.AttachServiceParams(ctx, params), &a2a.SendMessageRequest{
		Message: a2a.NewMessage(a2a.MessageRoleUser, a2a.NewTextPart(words)),
	})
	if err != nil {
		return "", err
	}
	switch answer := result.(type) {
	case *a2a.Message:
		return text(answer), nil
	case *a2a.Task:
		return artifactText(answer), nil
	default:
		return "", fmt.Errorf("unexpected answer %T", answer)
	}
}

// docs: end

func artifactText(task *a2a.Task) string {
	var words []string
	for _, artifact := range task.Artifacts {
		for _, part := range artifact.Parts {
			words = append(words, part.Text())
		}
	}
	return strings.Join(words, " ")
}
