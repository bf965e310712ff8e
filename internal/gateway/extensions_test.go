package gateway_test

import (
	"context"
	"slices"
	"testing"

	"github.com/parley-mesh/parley/internal/a2a"
	"github.com/parley-mesh/parley/internal/a2a/a2atest"
	"github.com/parley-mesh/parley/internal/control"
	"github.com/parley-mesh/parley/internal/parleytest"
)

const (
	shout   = "https://ext.example.com/shout/v1"
	shoutV2 = "https://ext.example.com/shout/v2"
	whisper = "https://ext.example.com/whisper/v1"
)

// TestOnlyDeclaredExtensionsAreNegotiated: the agent is asked for what its card
// declares and nothing else, and the caller is told of nothing else, on every
// pair of bindings.
func TestOnlyDeclaredExtensionsAreNegotiated(t *testing.T) {
	m := parleytest.Start(t, parleytest.Options{})
	key := m.Key("alice", "")
	for _, behind := range bindings {
		agent := parleytest.NewAgent(t, behind)
		card := parleytest.Card(agent.URL, behind)
		if behind == a2a.GRPC {
			card.SupportedInterfaces[0].URL = agent.GRPC
		}
		card.Capabilities.Extensions = []a2a.AgentExtension{{URI: shout}, {URI: whisper}}
		agent.SetCard(card)
		name := agentName(behind)
		m.Add(control.NewAgent{Name: name, URL: agent.URL})
		agent.Answer(func(_ context.Context, q *a2a.Request) *a2a.Reply {
			done := task(fresh("t"), fresh("c"), a2a.StateCompleted)
			reply := a2a.Answer(q.Method, a2a.SendMessageResponse{Task: &done})
			if q.Method == a2a.SendStreamingMessage {
				frames := make(chan a2a.Frame, 1)
				frames <- taskFrame(done)
				close(frames)
				reply = &a2a.Reply{Stream: a2a.NewChanStream(frames)}
			}
			// whisper was not asked for, nothing-of-the-kind is not even declared
			reply.Header = map[string][]string{"A2a-Extensions": {shout + ", " + whisper + ", https://ext.example.com/nothing/v1"}}
			return reply
		})
		for _, b := range bindings {
			for _, method := range []a2a.Method{a2a.SendMessage, a2a.SendStreamingMessage} {
				c := m.Caller(name, b, key).With(a2a.HeaderExtensions, shoutV2+", "+shout+",https://ext.example.com/other/v1")
				reply, _ := c.Do(t.Context(), method, parleytest.Message(fresh("m"), "hi"))
				if reply.Err != nil {
					t.Fatalf("%s to %s: %v", b, behind, reply.Err)
				}
				if reply.Stream != nil {
					reply.Stream.Close()
				}
				if got := a2a.ExtensionsOf(agent.Last().Header.Values(a2a.HeaderExtensions)); !slices.Equal(got, []string{shout}) {
					t.Errorf("%s to %s, %s: the agent was asked for %q, want %s alone", b, behind, method, got, shout)
				}
				if got := a2a.ExtensionsOf(reply.Header.Values(a2a.HeaderExtensions)); !slices.Equal(got, []string{shout}) {
					t.Errorf("%s to %s, %s: the caller was told of %q, want %s alone", b, behind, method, got, shout)
				}
			}
		}
	}
}

// TestRequiredExtensionIsDemandedByTheMesh: also for agents that do not check,
// for another version of it, and for operations that the mesh answers by itself.
func TestRequiredExtensionIsDemandedByTheMesh(t *testing.T) {
	m := parleytest.Start(t, parleytest.Options{})
	key := m.Key("alice", "")
	agent := parleytest.NewAgent(t)
	card := parleytest.Card(agent.URL)
	card.Capabilities.Extensions = []a2a.AgentExtension{{URI: shout, Required: true}, {URI: whisper}}
	agent.SetCard(card)
	m.Add(control.NewAgent{Name: "agent", URL: agent.URL})
	agent.Answer(answersTask(task("t1", "c1", a2a.StateWorking)))
	for _, b := range bindings {
		c := m.Caller("agent", b, key)
		before := len(agent.Seen())
		for _, asks := range []string{"", shoutV2, whisper, shout + "/"} {
			for method, params := range map[a2a.Method]any{
				a2a.SendMessage: parleytest.Message(fresh("m"), "x"), a2a.SendStreamingMessage: parleytest.Message(fresh("m"), "x"),
				a2a.GetTask: a2a.GetTaskRequest{ID: "t1"}, a2a.ListTasks: a2a.ListTasksRequest{}, a2a.CancelTask: a2a.CancelTaskRequest{ID: "t1"},
				a2a.SubscribeToTask: a2a.SubscribeToTaskRequest{ID: "t1"}, a2a.GetExtendedCard: a2a.GetExtendedCardRequest{},
			} {
				with := c
				if asks != "" {
					with = c.With(a2a.HeaderExtensions, asks)
				}
				reply, id := with.Do(t.Context(), method, params)
				wantErr(t, string(method)+" asking for "+asks, reply, a2a.ReasonExtensionRequired)
				wantCall(t, m, id, "caller_error", string(a2a.ReasonExtensionRequired))
			}
		}
		if n := len(agent.Seen()) - before; n != 0 {
			t.Errorf("%s: the agent was asked %d times without the extension it requires", b, n)
		}
		with := c.With(a2a.HeaderExtensions, shout)
		mustSend(t, with, parleytest.Message(fresh("m"), "x"))
	}
}

// TestMeshAsksForRequiredExtensions: when it looks at a task by itself, too.
func TestMeshAsksForRequiredExtensions(t *testing.T) {
	m := parleytest.Start(t, parleytest.Options{})
	ref, url := a2atest.Start(t, a2atest.Options{Extensions: []a2a.AgentExtension{{URI: shout, Required: true}}})
	m.Add(control.NewAgent{Name: "agent", URL: url})
	c := m.Caller("agent", a2a.JSONRPC, m.Key("alice", "")).With(a2a.HeaderExtensions, shout)
	held := parleytest.Message(fresh("ref-hold"), "x")
	held.Configuration = &a2a.SendMessageConfiguration{ReturnImmediately: true}
	reply, id := c.Do(t.Context(), a2a.SendMessage, held)
	if reply.Err != nil {
		t.Fatal(reply.Err)
	}
	if err := ref.SetStatus(reply.Facts.TaskID, a2a.StateCompleted, ""); err != nil {
		t.Fatal(err)
	}
	wantCall(t, m, id, "ok", "") // nobody but the mesh looks
}
