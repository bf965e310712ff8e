package gateway_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/parley-mesh/parley/internal/a2a"
	"github.com/parley-mesh/parley/internal/config"
	"github.com/parley-mesh/parley/internal/parleytest"
	"github.com/parley-mesh/parley/internal/stream"
)

// subscribe opens the stream of a task, behind the event after.
func subscribe(t *testing.T, m *parleytest.Mesh, key, taskID, after string) *parleytest.SSE {
	t.Helper()
	return parleytest.Subscribe(t, m.URL("agent"), key, taskID, after)
}

// chunk is a frame with a piece of an artifact.
func chunk(taskID, text string) a2a.Frame {
	return a2a.StreamFrame(a2a.StreamResponse{ArtifactUpdate: &a2a.TaskArtifactUpdateEvent{
		TaskID: taskID, ContextID: "c", Append: true, Artifact: a2a.Artifact{ArtifactID: "a", Parts: []a2a.Part{a2a.TextPart(text)}},
	}})
}

// sendStream sends a message and reads the stream as a plain HTTP client.
func sendStream(t *testing.T, m *parleytest.Mesh, key string) *parleytest.SSE {
	t.Helper()
	return parleytest.OpenSSE(t, streamRequest(t, m, key))
}

// texts are the pieces that events show, in order, and the state if there is one.
func texts(events []parleytest.Event) (all []string) {
	for _, e := range events {
		var f a2a.StreamResponse
		if err := json.Unmarshal([]byte(e.Data), &f); err != nil {
			all = append(all, "? "+e.Data)
			continue
		}
		switch {
		case f.ArtifactUpdate != nil:
			all = append(all, textOf(f.ArtifactUpdate.Artifact))
		case f.StatusUpdate != nil:
			all = append(all, string(f.StatusUpdate.Status.State))
		case f.Task != nil:
			text := "task " + string(f.Task.Status.State)
			for _, a := range f.Task.Artifacts {
				text += " " + textOf(a)
			}
			all = append(all, text)
		}
	}
	return all
}

func textOf(a a2a.Artifact) (text string) {
	for _, p := range a.Parts {
		if p.Text != nil {
			text += *p.Text
		}
	}
	return text
}

func wantTexts(t *testing.T, what string, events []parleytest.Event, want ...string) {
	t.Helper()
	if got := texts(events); fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("%s: got %q, want %q", what, got, want)
	}
}

// A caller whose connection broke goes on behind the last event it has seen; one
// that knows none begins with the task as it is. The agent has one stream all the
// while.
func TestStreamGoesOn(t *testing.T) {
	m, agent := start(t, func(c *config.Config) { c.Watch.First = time.Hour })
	key := m.Key("alice", "")
	frames := make(chan a2a.Frame, 16)
	var asked atomic.Int64
	agent.Answer(func(ctx context.Context, q *a2a.Request) *a2a.Reply {
		asked.Add(1)
		return streams(frames)(ctx, q)
	})
	id := fresh("t")
	frames <- taskFrame(task(id, "c", a2a.StateWorking))
	frames <- chunk(id, "one")
	first := sendStream(t, m, key)
	first.Must()
	one := first.Must()
	first.Close()
	frames <- chunk(id, "two")
	frames <- chunk(id, "three")

	resumed := subscribe(t, m, key, id, one.ID)
	wantTexts(t, "behind the first piece", []parleytest.Event{resumed.Must(), resumed.Must()}, "two", "three")
	late := subscribe(t, m, key, id, "")
	wantTexts(t, "without an id", []parleytest.Event{late.Must()}, "task TASK_STATE_WORKING onetwothree")
	frames <- chunk(id, "four")
	frames <- status(id, "c", a2a.StateCompleted)
	close(frames)
	wantTexts(t, "the rest of the resumed stream", resumed.Rest(), "four", "TASK_STATE_COMPLETED")
	wantTexts(t, "the rest of the late stream", late.Rest(), "four", "TASK_STATE_COMPLETED")
	if n := asked.Load(); n != 1 {
		t.Errorf("the agent was asked %d times, want once", n)
	}

	over := subscribe(t, m, key, id, one.ID)
	wantTexts(t, "behind the first piece, once the task is over", over.Rest(), "two", "three", "four", "TASK_STATE_COMPLETED")
}

// An id that is none of the task's events is refused, and says nothing of others'.
func TestHostileEventIDs(t *testing.T) {
	m, agent := start(t, func(c *config.Config) { c.Watch.First = time.Hour })
	key := m.Key("alice", "")
	ids := map[string]string{}
	for _, name := range []string{"mine", "other"} {
		frames := make(chan a2a.Frame, 1)
		agent.Answer(streams(frames))
		frames <- taskFrame(task("t-"+name, "c-"+name, a2a.StateWorking))
		ids[name] = sendStream(t, m, key).Must().ID
	}
	for _, id := range []string{"0", "1", "-1", "nonsense", ids["other"], ids["mine"] + "x", strings.Repeat("9", 4000), "%00", "1; DROP TABLE frames"} {
		s := subscribe(t, m, key, "t-mine", id)
		if s.Lines.Scan(); s.Status != http.StatusBadRequest || !strings.Contains(s.Lines.Text(), "Last-Event-ID") {
			t.Errorf("%.40q: status %d, %s", id, s.Status, s.Lines.Text())
		}
		s.Close()
	}
	bob := subscribe(t, m, m.Key("bob", ""), "t-mine", ids["mine"])
	if bob.Status != http.StatusNotFound {
		t.Errorf("somebody else's task: status %d, want 404", bob.Status)
	}
	// One that has not happened yet: the task as it is, and the gap is stated.
	mark, _, _ := strings.Cut(ids["mine"], "-")
	ahead := subscribe(t, m, key, "t-mine", mark+"-1000").Must()
	if !strings.Contains(ahead.Data, stream.GapKey) || ahead.ID != ids["mine"] {
		t.Errorf("an event to come: %+v", ahead)
	}
}

// An agent whose stream breaks is asked again: one Task stands for what was
// missed, and the rest follows.
func TestBrokenStreamIsReconciled(t *testing.T) {
	m, agent := start(t, func(c *config.Config) { c.Watch.First = 10 * time.Millisecond }, a2a.HTTPJSON)
	key := m.Key("alice", "")
	id := fresh("t")
	frames := make(chan a2a.Frame, 4)
	done := task(id, "c", a2a.StateWorking)
	done.Artifacts = []a2a.Artifact{{ArtifactID: "a", Parts: []a2a.Part{a2a.TextPart("onetwo")}}}
	frames <- taskFrame(done)
	frames <- chunk(id, "three")
	frames <- status(id, "c", a2a.StateCompleted)
	close(frames)
	working, _ := json.Marshal(map[string]any{"task": task(id, "c", a2a.StateWorking)})
	var broke atomic.Bool
	resumed := http.Handler(&a2a.Server{Handler: a2a.HandlerFunc(streams(frames))})
	agent.Serve(func(w http.ResponseWriter, r *http.Request) {
		if broke.Swap(true) {
			resumed.ServeHTTP(w, r)
			return
		}
		w.Header().Set("Content-Type", "text/event-stream")
		fmt.Fprintf(w, "data: %s\n\n", working)
		w.(http.Flusher).Flush()
		panic(http.ErrAbortHandler)
	})
	events := sendStream(t, m, key).Rest()
	wantTexts(t, "the broken stream", events, "task TASK_STATE_WORKING", "task TASK_STATE_WORKING onetwo", "three", "TASK_STATE_COMPLETED")
	if len(events) > 1 && !strings.Contains(events[1].Data, stream.ReconciledKey) {
		t.Errorf("the task is not marked as reconciled: %s", events[1].Data)
	}
}
