package gateway_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	old "github.com/a2aproject/a2a-go/a2a"
	oldclient "github.com/a2aproject/a2a-go/a2aclient"

	"github.com/parley-mesh/parley/internal/a2a"
	"github.com/parley-mesh/parley/internal/a2a/a2atest"
	"github.com/parley-mesh/parley/internal/control"
	"github.com/parley-mesh/parley/internal/parley"
	"github.com/parley-mesh/parley/internal/parleytest"
	"github.com/parley-mesh/parley/internal/stream"
)

// oldLife is a task of a scripted agent of 0.3, as its methods answer it.
func oldLife(id, state, artifact string) string {
	task := `"result":{"kind":"task","id":"` + id + `","contextId":"c-` + id + `","status":{"state":"` + state + `"}`
	if artifact != "" {
		task += `,"artifacts":[{"artifactId":"a","parts":[{"kind":"text","text":"` + artifact + `"}]}]`
	}
	return task + "}"
}

func oldUpdate(id, state, final string) string {
	return `"result":{"kind":"status-update","taskId":"` + id + `","contextId":"c-` + id + `","final":` + final + `,"status":{"state":"` + state + `"}}`
}

const (
	oldNotFound = `"error":{"code":-32001,"message":"task not found"}`
	oldRefused  = `"error":{"code":-32602,"message":"the task is in a terminal state"}`
)

// TestOldAgentEndsWithoutAWord: an agent of 0.3 that ends its streams without the last
// state, and refuses to follow a task that has ended, as the Python SDK does. All who
// follow the task are told how it ended.
func TestOldAgentEndsWithoutAWord(t *testing.T) {
	m := parleytest.Start(t, parleytest.Options{})
	key := m.Key("alice", "")
	id := fresh("t")
	var state atomic.Value
	state.Store("working")
	ended := make(chan struct{})
	m.Add(control.NewAgent{Name: "agent", URL: a2atest.NewOldScript(t, func(ctx context.Context, method string, params []byte, say func(string)) string {
		now := oldLife(id, state.Load().(string), "")
		switch {
		case method == "message/stream":
			say(now)
			select {
			case <-ended:
			case <-ctx.Done():
			}
			return ""
		case !strings.Contains(string(params), id):
			return oldNotFound
		case method == "tasks/cancel":
			state.Store("canceled")
			close(ended)
			return oldLife(id, "canceled", "")
		case method == "tasks/get":
			return now
		}
		return oldRefused
	})})
	sender := sendStream(t, m, key)
	sender.Must()
	late := subscribe(t, m, key, id, "")
	late.Must()
	if reply, _ := m.Caller("agent", a2a.JSONRPC, key).Do(t.Context(), a2a.CancelTask, a2a.CancelTaskRequest{ID: id}); reply.Err != nil {
		t.Fatal(reply.Err)
	}
	wantTexts(t, "who sent the message", sender.Rest(), "task TASK_STATE_CANCELED")
	wantTexts(t, "who subscribed", late.Rest(), "task TASK_STATE_CANCELED")
	reply, _ := m.Caller("agent", a2a.JSONRPC, key).Do(t.Context(), a2a.SubscribeToTask, a2a.SubscribeToTaskRequest{ID: id})
	wantErr(t, "subscribe to the task once it has ended", reply, a2a.ReasonUnsupportedOperation)
}

// TestOldAgentEndsASubscriptionWithoutAWord: the same where nobody has the stream of
// the message, and the subscription is the only one.
func TestOldAgentEndsASubscriptionWithoutAWord(t *testing.T) {
	m := parleytest.Start(t, parleytest.Options{})
	key := m.Key("alice", "")
	id := fresh("t")
	var state atomic.Value
	state.Store("working")
	ended := make(chan struct{})
	m.Add(control.NewAgent{Name: "agent", URL: a2atest.NewOldScript(t, func(ctx context.Context, method string, params []byte, say func(string)) string {
		now := oldLife(id, state.Load().(string), "")
		switch {
		case method == "message/send":
			return now
		case !strings.Contains(string(params), id):
			return oldNotFound
		case method == "tasks/cancel":
			state.Store("canceled")
			close(ended)
			return oldLife(id, "canceled", "")
		case method == "tasks/get":
			return now
		case state.Load() == "canceled":
			return oldRefused
		}
		say(oldUpdate(id, "working", "false"))
		select {
		case <-ended:
		case <-ctx.Done():
		}
		return ""
	})})
	c := m.Caller("agent", a2a.JSONRPC, key)
	in := parleytest.Message(fresh("m"), "x")
	in.Configuration = &a2a.SendMessageConfiguration{ReturnImmediately: true}
	mustSend(t, c, in)
	follower := subscribe(t, m, key, id, "")
	follower.Must()
	if reply, _ := c.Do(t.Context(), a2a.CancelTask, a2a.CancelTaskRequest{ID: id}); reply.Err != nil {
		t.Fatal(reply.Err)
	}
	got := texts(follower.Rest())
	if len(got) == 0 || got[len(got)-1] != "task TASK_STATE_CANCELED" {
		t.Errorf("got %q, want the task as canceled at last", got)
	}
}

// TestMissedAtAnOldAgent: what happened before the mesh was a subscriber is told by
// the task, which is marked as reconciled.
func TestMissedAtAnOldAgent(t *testing.T) {
	m := parleytest.Start(t, parleytest.Options{})
	key := m.Key("alice", "")
	id := fresh("t")
	var asked atomic.Bool // for a subscription
	m.Add(control.NewAgent{Name: "agent", URL: a2atest.NewOldScript(t, func(_ context.Context, method string, params []byte, say func(string)) string {
		switch {
		case method == "message/send":
			return oldLife(id, "working", "")
		case !strings.Contains(string(params), id):
			return oldNotFound
		case method == "tasks/resubscribe":
			asked.Store(true)
			say(oldUpdate(id, "working", "false"))
			say(oldUpdate(id, "completed", "true"))
			return ""
		case asked.Load():
			return oldLife(id, "working", "missed")
		}
		return oldLife(id, "working", "")
	})})
	c := m.Caller("agent", a2a.HTTPJSON, key)
	in := parleytest.Message(fresh("m"), "x")
	in.Configuration = &a2a.SendMessageConfiguration{ReturnImmediately: true}
	mustSend(t, c, in)
	events := subscribe(t, m, key, id, "").Rest()
	if got := texts(events); len(got) < 3 || got[0] != "task TASK_STATE_WORKING" || got[1] != "task TASK_STATE_WORKING missed" {
		t.Fatalf("got %q, want the task, and the task with what was missed", got)
	}
	if strings.Contains(events[0].Data, stream.ReconciledKey) || !strings.Contains(events[1].Data, stream.ReconciledKey) {
		t.Errorf("the second alone is to be marked as reconciled:\n%s\n%s", events[0].Data, events[1].Data)
	}
}

// TestErrorInsideATranslatedStream reaches the caller as an error in its own version,
// behind the frames before it, and ends the stream.
func TestErrorInsideATranslatedStream(t *testing.T) {
	m := parleytest.Start(t, parleytest.Options{})
	key := m.Key("alice", "")
	m.Add(control.NewAgent{Name: "old", URL: a2atest.NewOldScript(t, func(_ context.Context, method string, _ []byte, say func(string)) string {
		if method != "message/stream" {
			return oldNotFound
		}
		say(oldLife(fresh("t"), "working", ""))
		return `"error":{"code":-32005,"message":"no such content"}`
	})})
	agent := m.Agent("new")
	agent.Answer(func(context.Context, *a2a.Request) *a2a.Reply {
		frames := make(chan a2a.Frame, 2)
		frames <- taskFrame(task(fresh("t"), "c", a2a.StateWorking))
		frames <- a2a.Frame{Err: a2a.NewError(a2a.ReasonContentTypeNotSupported, "no such content")}
		close(frames)
		return &a2a.Reply{Stream: a2a.NewChanStream(frames)}
	})
	for _, b := range bindings {
		opened, err := m.Caller("old", b, key).SendStreamingMessage(t.Context(), parleytest.Message(fresh("m"), "x"))
		if err != nil {
			t.Fatal(err)
		}
		if first, err := opened.Next(t.Context()); err != nil || first.Task == nil {
			t.Errorf("%s: first %+v, %v", b, first, err)
		}
		_, err = opened.Next(t.Context())
		if e, ok := errors.AsType[*a2a.Error](err); !ok || e.Reason != a2a.ReasonContentTypeNotSupported {
			t.Errorf("%s: then %v, want the agent's error", b, err)
		}
		if _, err = opened.Next(t.Context()); err != io.EOF {
			t.Errorf("%s: at last %v, want the end", b, err)
		}
		if err := opened.Close(); err != nil {
			t.Error(err)
		}
	}
	for _, name := range []parley.AgentName{"new", "old"} {
		var seen []old.Event
		var failed error
		for event, err := range oldCaller(t, m.URL(name), key).SendStreamingMessage(t.Context(), oldMessage(fresh("m"))) {
			if failed = err; err == nil {
				seen = append(seen, event)
			}
		}
		if failed == nil || !strings.Contains(failed.Error(), "no such content") || len(seen) != 1 {
			t.Errorf("%s, by a caller of 0.3: %d events, then %v; want one and the agent's error", name, len(seen), failed)
		}
	}
	// Over HTTP+JSON 0.3 has no form for it; ours is the body that a failed call has.
	body := string(oldREST(t, http.MethodPost, m.URL("new")+"v1/message:stream", key, `{"message":{"messageId":"m","role":"ROLE_USER","content":[{"text":"x"}]}}`))
	if !strings.Contains(body, `"code":-32005`) || strings.Count(body, "data:") != 2 {
		t.Errorf("HTTP+JSON of 0.3: %s", body)
	}
}

// TestFinalThatDoesNotFollow: an event of 0.3 says that it is the final one, or does
// not, against its state. Callers of 1.0 read on or stop as the agent does, and what
// it said is carried.
func TestFinalThatDoesNotFollow(t *testing.T) {
	m := parleytest.Start(t, parleytest.Options{})
	key := m.Key("alice", "")
	var id atomic.Value
	m.Add(control.NewAgent{Name: "agent", URL: a2atest.NewOldScript(t, func(_ context.Context, method string, params []byte, say func(string)) string {
		switch {
		case method == "message/stream":
			id.Store(fresh("t"))
			now := id.Load().(string)
			say(oldLife(now, "working", ""))
			say(oldUpdate(now, "working", "true"))
			say(oldUpdate(now, "completed", "false"))
			return ""
		case id.Load() == nil || !strings.Contains(string(params), id.Load().(string)):
			return oldNotFound
		}
		return oldLife(id.Load().(string), "completed", "")
	})})
	opened, err := m.Caller("agent", a2a.JSONRPC, key).SendStreamingMessage(t.Context(), parleytest.Message(fresh("m"), "x"))
	if err != nil {
		t.Fatal(err)
	}
	defer opened.Close()
	var all []string
	for {
		event, err := opened.Next(t.Context())
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatalf("after %q: %v", all, err)
		}
		raw, err := json.Marshal(event)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, string(raw))
	}
	if len(all) != 3 || !strings.Contains(all[1], `"parley_v03":{"final":true}`) || !strings.Contains(all[2], `"parley_v03":{"final":false}`) {
		t.Errorf("got\n%s", strings.Join(all, "\n"))
	}
}

// TestOldStreamEndsWithItsFinalEvent, also where the agent of 1.0 holds its stream
// open: callers of 0.3 wait for no more.
func TestOldStreamEndsWithItsFinalEvent(t *testing.T) {
	m := parleytest.Start(t, parleytest.Options{Configure: wildcard})
	key := m.Key("alice", "")
	m.Agent("agent").Answer(func(_ context.Context, q *a2a.Request) *a2a.Reply {
		if q.Method != a2a.SendStreamingMessage {
			return a2a.Fail(a2a.TaskNotFound(q.Facts.TaskID))
		}
		id, frames := fresh("t"), make(chan a2a.Frame, 2) // which is not closed
		frames <- taskFrame(task(id, "c", a2a.StateWorking))
		frames <- status(id, "c", a2a.StateInputRequired)
		return &a2a.Reply{Stream: a2a.NewChanStream(frames)}
	})
	for by, c := range map[string]*oldclient.Client{
		"JSON-RPC": oldCaller(t, m.URL("agent"), key), "gRPC": oldGRPCCaller(t, m, "agent.mesh.test:443", key),
	} {
		var events []old.Event
		for event, err := range c.SendStreamingMessage(t.Context(), oldMessage(fresh("m"))) {
			if err != nil {
				t.Fatalf("%s: %v", by, err)
			}
			events = append(events, event)
		}
		wantFinal(t, by, events, old.TaskStateInputRequired)
	}
	body := string(oldREST(t, http.MethodPost, m.URL("agent")+"v1/message:stream", key, `{"message":{"messageId":"`+fresh("m")+`","role":"ROLE_USER","content":[{"text":"x"}]}}`))
	if strings.Count(body, "data:") != 2 || !strings.Contains(body, `"final":true`) {
		t.Errorf("HTTP+JSON: %s", body)
	}
}
