package a2atest

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/parley-mesh/parley/internal/a2a"
)

// connect makes a client of an agent over a network.
func connect(t *testing.T, opt Options) (*Agent, *a2a.Conn) {
	a, url := Start(t, opt)
	tr := &http.Transport{}
	t.Cleanup(tr.CloseIdleConnections)
	return a, &a2a.Conn{Client: &a2a.Client{Transport: tr}, Endpoint: a2a.Endpoint{URL: url, Binding: a2a.HTTPJSON, Version: a2a.V10}}
}

func say(id string) a2a.SendMessageRequest {
	return a2a.SendMessageRequest{Message: a2a.Message{MessageID: id, Role: a2a.RoleUser, Parts: []a2a.Part{a2a.TextPart("hello")}}}
}

func send(t *testing.T, c *a2a.Conn, in a2a.SendMessageRequest) *a2a.Task {
	t.Helper()
	out, err := c.SendMessage(t.Context(), in)
	if err != nil {
		t.Fatal(err)
	}
	return out.Task
}

func wantReason(t *testing.T, err error, want a2a.Reason) {
	t.Helper()
	var e *a2a.Error
	if !errors.As(err, &e) || e.Reason != want {
		t.Errorf("got %v, want %s", err, want)
	}
}

// Whoever subscribes, whenever, sees every chunk exactly once: those before in the
// task, those after as events.
func TestSubscribersMissNothing(t *testing.T) {
	const chunks, followers = 200, 16
	a, c := connect(t, Options{})
	in := say("ref-hold-1")
	in.Configuration = &a2a.SendMessageConfiguration{ReturnImmediately: true}
	id := send(t, c, in).ID
	var all sync.WaitGroup
	opened := make(chan struct{}, followers)
	for range followers {
		all.Go(func() {
			stream, err := c.SubscribeToTask(t.Context(), a2a.SubscribeToTaskRequest{ID: id})
			if err != nil {
				t.Errorf("subscribe: %v", err)
				opened <- struct{}{}
				return
			}
			defer stream.Close()
			opened <- struct{}{}
			if got, err := read(t, stream); got != chunks || err != io.EOF {
				t.Errorf("read %d chunks in order, %v; want all %d", got, err, chunks)
			}
		})
	}
	for i := range chunks {
		if i%10 == 0 && i/10 < followers {
			<-opened // subscriptions and chunks take turns
		}
		part := a2a.Artifact{ArtifactID: "a1", Parts: []a2a.Part{a2a.TextPart(strconv.Itoa(i))}}
		if err := a.AddArtifact(id, part, i > 0, i == chunks-1); err != nil {
			t.Fatal(err)
		}
	}
	if err := a.SetStatus(id, a2a.StateCompleted, ""); err != nil {
		t.Fatal(err)
	}
	all.Wait()
}

// read counts the chunks of a stream as long as they come in order.
func read(t *testing.T, stream *a2a.EventStream) (next int, err error) {
	for {
		event, err := stream.Next(t.Context())
		if err != nil {
			return next, err
		}
		var parts []a2a.Part
		switch {
		case event.Task != nil && len(event.Task.Artifacts) > 0:
			parts = event.Task.Artifacts[0].Parts
		case event.ArtifactUpdate != nil:
			parts = event.ArtifactUpdate.Artifact.Parts
		}
		for _, p := range parts {
			if *p.Text != strconv.Itoa(next) {
				return next, fmt.Errorf("chunk %s in place of %d", *p.Text, next)
			}
			next++
		}
	}
}

// One who does not keep up is told so and cut; the task and others go on.
func TestSlowSubscriberIsCut(t *testing.T) {
	a, c := connect(t, Options{MaxLag: 10})
	stream, err := c.SendStreamingMessage(t.Context(), say("ref-stream-50-1"))
	if err != nil {
		t.Fatal(err)
	}
	defer stream.Close()
	first, err := stream.Next(t.Context())
	if err != nil || first.Task == nil {
		t.Fatalf("got %+v, %v, want the task", first, err)
	}
	_, err = stream.Next(t.Context())
	wantReason(t, err, a2a.ReasonUnavailable)
	if got := a.Task(first.Task.ID); got.Status.State != a2a.StateCompleted || len(got.Artifacts[0].Parts) != 50 {
		t.Errorf("the task is %+v, want it complete", got.Status)
	}
}

// What has ended makes room for what is new, the oldest first; what is at work
// does not.
func TestRoomIsBounded(t *testing.T) {
	a, c := connect(t, Options{MaxTasks: 2})
	old, kept := send(t, c, say("tck-complete-task-1")), send(t, c, say("tck-input-required-2"))
	send(t, c, say("tck-complete-task-3"))
	if a.Task(old.ID) != nil || a.Task(kept.ID) == nil {
		t.Error("the task that ended first is still there, or the one at work is not")
	}
	// Its context went with it, and may be anybody's.
	c.Header = http.Header{"Authorization": {"Bearer bob"}}
	again := say("tck-input-required-4")
	again.Message.ContextID = old.ContextID
	send(t, c, again)
	_, err := c.SendMessage(t.Context(), say("tck-complete-task-5"))
	wantReason(t, err, a2a.ReasonUnavailable)
}

func TestBytesAreBounded(t *testing.T) {
	_, c := connect(t, Options{MaxBytes: 1000})
	first := send(t, c, say("tck-input-required-1"))
	in := say("tck-input-required-2")
	in.Message.TaskID = first.ID
	in.Message.Parts = []a2a.Part{a2a.TextPart(strings.Repeat("x", 1000))}
	_, err := c.SendMessage(t.Context(), in)
	wantReason(t, err, a2a.ReasonUnavailable)
}

// The delay is real time, and a task that is canceled meanwhile stays so.
func TestDelayedCompletion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := New(Options{Delay: time.Hour})
		begun := time.Now()
		if got := post(a, `{"message":{"messageId":"tck-delayed-complete-1","role":"ROLE_USER","parts":[{"text":"hello"}]}}`); !strings.Contains(got, "TASK_STATE_COMPLETED") {
			t.Errorf("got %s, want the task completed", got)
		}
		if took := time.Since(begun); took != time.Hour {
			t.Errorf("it took %v, want 1h", took)
		}
		post(a, `{"message":{"messageId":"tck-delayed-complete-2","role":"ROLE_USER","parts":[{"text":"hello"}]},"configuration":{"returnImmediately":true}}`)
		id, err := a.Arrived(t.Context(), "tck-delayed-complete-2")
		if err == nil {
			err = a.SetStatus(id, a2a.StateCanceled, "")
		}
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * time.Hour) // of the bubble's time: the timer has run
		if got := a.Task(id); got.Status.State != a2a.StateCanceled || len(got.Artifacts) > 0 {
			t.Errorf("the task is %s with %d artifacts, want it canceled and empty", got.Status.State, len(got.Artifacts))
		}
	})
}

// post sends a message without a network.
func post(a *Agent, body string) string {
	r := httptest.NewRequest(http.MethodPost, "/message:send", strings.NewReader(body))
	r.Header.Set(a2a.HeaderVersion, string(a2a.V10))
	r.Header.Set("Content-Type", "application/json")
	w := httptest.NewRecorder()
	a.ServeHTTP(w, r)
	return w.Body.String()
}
