//go:build linux

package app_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/parley-mesh/parley/internal/a2a"
	"github.com/parley-mesh/parley/internal/control"
	"github.com/parley-mesh/parley/internal/parleytest"
	"github.com/parley-mesh/parley/internal/registry"
	"github.com/parley-mesh/parley/internal/storetest/pgtest"
)

// toldBy is what the frames of a stream say, in order.
func toldBy(t *testing.T, events ...parleytest.Event) (all []string) {
	t.Helper()
	for _, e := range events {
		var f a2a.StreamResponse
		if err := json.Unmarshal([]byte(e.Data), &f); err != nil {
			t.Fatalf("%q: %v", e.Data, err)
		}
		text := ""
		artifacts := []a2a.Artifact{}
		switch {
		case f.Task != nil:
			text, artifacts = "task "+string(f.Task.Status.State), f.Task.Artifacts
		case f.StatusUpdate != nil:
			text = string(f.StatusUpdate.Status.State)
		case f.ArtifactUpdate != nil:
			artifacts = append(artifacts, f.ArtifactUpdate.Artifact)
		}
		for _, a := range artifacts {
			for _, p := range a.Parts {
				text += " " + *p.Text
			}
		}
		all = append(all, text)
	}
	return all
}

func wantTold(t *testing.T, what string, events []parleytest.Event, want ...string) {
	t.Helper()
	if got := toldBy(t, events...); fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("%s: got %q, want %q", what, got, want)
	}
}

func piece(text string) a2a.Frame {
	return a2a.StreamFrame(a2a.StreamResponse{ArtifactUpdate: &a2a.TaskArtifactUpdateEvent{
		TaskID: "t", ContextID: "c", Append: true, Artifact: a2a.Artifact{ArtifactID: "a", Parts: []a2a.Part{a2a.TextPart(text)}},
	}})
}

func stateFrame(s a2a.TaskState) a2a.Frame {
	return a2a.StreamFrame(a2a.StreamResponse{StatusUpdate: &a2a.TaskStatusUpdateEvent{TaskID: "t", ContextID: "c", Status: a2a.TaskStatus{State: s}}})
}

func wholeTask(pieces ...string) a2a.Frame {
	one := a2a.Task{ID: "t", ContextID: "c", Status: a2a.TaskStatus{State: a2a.StateWorking}}
	if len(pieces) > 0 {
		one.Artifacts = []a2a.Artifact{{ArtifactID: "a"}}
	}
	for _, p := range pieces {
		one.Artifacts[0].Parts = append(one.Artifacts[0].Parts, a2a.TextPart(p))
	}
	return a2a.StreamFrame(a2a.StreamResponse{Task: &one})
}

// TestKillBetweenTwoEvents: the mesh is killed while a task streams. Whoever read
// goes on behind the last event it has seen, at the next process of the store:
// nothing that was journaled is lost or comes twice, and one Task stands for what
// the agent did meanwhile.
func TestKillBetweenTwoEvents(t *testing.T) {
	for _, engine := range []string{"SQLite", "PostgreSQL"} {
		t.Run(engine, func(t *testing.T) {
			var env []string
			if engine == "PostgreSQL" {
				env = []string{storeVariable + "=" + pgtest.Database(t)}
			}
			dir := parleytest.Dir(t)
			p := startProcess(t, dir, env...)
			agent, key := taskAgent(t, p)
			before, after := make(chan a2a.Frame, 4), make(chan a2a.Frame, 4)
			var streams atomic.Int64
			agent.Answer(func(_ context.Context, q *a2a.Request) *a2a.Reply {
				if q.Method == a2a.SendStreamingMessage {
					return &a2a.Reply{Stream: a2a.NewChanStream(before)}
				}
				if q.Method == a2a.SubscribeToTask && streams.Add(1) == 1 {
					return &a2a.Reply{Stream: a2a.NewChanStream(after)}
				}
				return a2a.Fail(a2a.UnsupportedOperation("one stream is enough"))
			})
			address := func(p *process) string { return p.ready.Listen + "/agents/agent/" }
			before <- wholeTask()
			before <- piece("one")
			before <- piece("two")
			sent := parleytest.SendStream(t.Context(), t, address(p), key)
			sent.Must()
			one := sent.Must()
			sent.Must() // the last piece is journaled
			if err := p.cmd.Process.Kill(); err != nil {
				t.Fatal(err)
			}
			_ = p.cmd.Wait() // killed, so always an error
			_ = os.Remove(readyFile(dir))
			after <- wholeTask("one", "two", "three")
			after <- piece("four")
			p = startProcess(t, dir, env...)
			resumed := parleytest.Subscribe(t, address(p), key, "t", one.ID)
			events := []parleytest.Event{resumed.Must(), resumed.Must(), resumed.Must()}
			after <- stateFrame(a2a.StateCompleted)
			close(after)
			wantTold(t, "behind the first piece", append(events, resumed.Rest()...),
				" two", "task TASK_STATE_WORKING one two three", " four", "TASK_STATE_COMPLETED")
			if n := streams.Load(); n != 1 {
				t.Errorf("the agent was asked for %d streams, want 1", n)
			}
		})
	}
}

// TestStreamAtAnotherReplica: a stream goes on at another replica than the one
// that has the agent's, behind any event, and the agent has one stream only.
func TestStreamAtAnotherReplica(t *testing.T) {
	one, two := replicas(t, nil)
	agent := one.Agent("agent")
	frames := make(chan a2a.Frame, 8)
	agent.Answer(func(context.Context, *a2a.Request) *a2a.Reply { return &a2a.Reply{Stream: a2a.NewChanStream(frames)} })
	key := one.Key("alice", "")
	frames <- wholeTask()
	frames <- piece("one")
	sent := parleytest.SendStream(t.Context(), t, one.URL("agent"), key)
	first := sent.Must()
	sent.Must()
	resumed := parleytest.Subscribe(t, two.URL("agent"), key, "t", first.ID)
	fresh := parleytest.Subscribe(t, two.URL("agent"), key, "t", "")
	events, whole := []parleytest.Event{resumed.Must()}, []parleytest.Event{fresh.Must()}
	frames <- piece("two")
	frames <- stateFrame(a2a.StateCompleted)
	close(frames)
	wantTold(t, "behind the first event", append(events, resumed.Rest()...), " one", " two", "TASK_STATE_COMPLETED")
	wantTold(t, "without an id", append(whole, fresh.Rest()...), "task TASK_STATE_WORKING one", " two", "TASK_STATE_COMPLETED")
	for _, seen := range agent.Seen() {
		if seen.Method == a2a.SubscribeToTask {
			t.Error("the agent was asked for a second stream")
		}
	}
}

// TestForbiddenAtAnotherReplica: what an agent may not ask any more is shown by no
// replica, whether it reads its own stream or another's journal.
func TestForbiddenAtAnotherReplica(t *testing.T) {
	one, two := replicas(t, nil)
	agent := one.Agent("agent")
	frames := make(chan a2a.Frame, 8)
	agent.Answer(func(context.Context, *a2a.Request) *a2a.Reply { return &a2a.Reply{Stream: a2a.NewChanStream(frames)} })
	key := one.Key("alice", "")
	frames <- wholeTask()
	frames <- stateFrame(a2a.StateAuthRequired)
	sent := parleytest.SendStream(t.Context(), t, one.URL("agent"), key)
	first := sent.Must()
	asked := sent.Must()
	before := parleytest.Subscribe(t, two.URL("agent"), key, "t", first.ID)
	wantTold(t, "while it may ask", []parleytest.Event{before.Must()}, "TASK_STATE_AUTH_REQUIRED")
	if _, err := one.Admin.SetAgent(t.Context(), "agent", control.AgentSettings{AuthRequired: registry.AuthForbid}); err != nil {
		t.Fatal(err)
	}
	for _, after := range []string{"", first.ID} {
		two.Await("the other replica to refuse what was asked", func() bool {
			late := parleytest.Subscribe(t, two.URL("agent"), key, "t", after)
			defer late.Close()
			return late.Status == http.StatusForbidden
		})
	}
	behind := parleytest.Subscribe(t, two.URL("agent"), key, "t", asked.ID)
	frames <- stateFrame(a2a.StateWorking)
	frames <- stateFrame(a2a.StateAuthRequired)
	for _, s := range []*parleytest.SSE{before, behind} {
		wantTold(t, "once it may not", []parleytest.Event{s.Must()}, "TASK_STATE_WORKING")
		if rest := s.Rest(); len(rest) != 1 || strings.Contains(rest[0].Data, "TASK_STATE_AUTH_REQUIRED") {
			t.Errorf("a follower at the other replica was told %+v", rest)
		}
	}
	frames <- stateFrame(a2a.StateCompleted)
	close(frames)
}
