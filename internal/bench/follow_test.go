package bench

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"testing"
	"time"
)

// follow runs FollowTask and returns the task, the result and how it ended
// once it was released.
func follow(t *testing.T, spec Spec) (task string, result Result, err error) {
	t.Helper()
	in, release := io.Pipe()
	out, lines := io.Pipe()
	text, err := json.Marshal(spec)
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() {
		err := FollowTask(t.Context(), io.MultiReader(bytes.NewReader(text), in), lines)
		lines.Close()
		ended <- err
	}()
	var told started
	decoder := json.NewDecoder(bufio.NewReader(out))
	if decoder.Decode(&told) == nil && decoder.Decode(&result) == nil {
		release.Close()
	}
	return told.Task, result, <-ended
}

func TestFollowTask(t *testing.T) {
	agent := serveAgent(t, Ticks)
	spec := Spec{URLs: []string{serveProxy(t, agent)}, Stream: true, Conns: 3, Duration: 5 * tickInterval}
	task, got, err := follow(t, spec)
	if err != nil {
		t.Fatal(err)
	}
	if got.Requests == 0 || got.Requests%spec.Conns != 0 || got.P50 <= 0 || got.P99 < got.P50 || got.AgentStreams != 4 {
		t.Errorf("got %+v, want as many events of each stream, and the maker's beside them", got)
	}
	spec.Task = task
	if _, got, err = follow(t, spec); err != nil || got.Requests == 0 || got.AgentStreams < spec.Conns {
		t.Errorf("streams of a task that is there: %+v, %v", got, err)
	}
	spec.Task = "t-of-somebody"
	if _, _, err = follow(t, spec); err == nil || !strings.Contains(err.Error(), "status 200 (closes the connection: false, event stream: false)") {
		t.Errorf("streams of no task: err = %v", err)
	}
}

// A stream that loses an event, or carries others, makes the measurement void.
func TestFollowTaskWantsEveryEvent(t *testing.T) {
	event := func(text string) []byte {
		return []byte(`{"result":{"artifactUpdate":{"parts":[{"text":"` + text + `"}]}}}`)
	}
	time0 := time.Unix(0, 0)
	f := &following{readers: make([]reader, 1), done: make(chan struct{})}
	for i, text := range []string{"tick 7 1 5 x", "tick 8 1 6 x"} {
		if err := f.event(0, 1+i, time0, event(text)); err != nil {
			t.Fatalf("%s: %v", text, err)
		}
	}
	if err := f.event(0, 3, time0, event("tick 10 1 7 x")); err == nil {
		t.Error("event 10 behind event 8 was taken")
	}
	for _, text := range []string{"", "tick", "tick 9 1 x", "tick 9 one 7 x", "tick -9 1 7 x", "tick 9 1 now x"} {
		if err := f.event(0, 3, time0, event(text)); !errors.Is(err, errNoTick) {
			t.Errorf("%q: err = %v", text, err)
		}
	}
	if err := f.event(0, 0, time0, event("tick 9 1 7 x")); err == nil {
		t.Error("a stream that does not begin with its task was taken")
	}
}

// An agent whose streams end has no task to follow.
func TestFollowTaskRefusesWhatEnds(t *testing.T) {
	spec := Spec{URLs: []string{serveAgent(t, RepliesTask)}, Stream: true, Conns: 1, Duration: tickInterval}
	if _, _, err := follow(t, spec); err == nil {
		t.Error("an agent without subscriptions was followed")
	}
	spec.Conns = 0
	if _, _, err := follow(t, spec); err == nil || !strings.Contains(err.Error(), "conns") {
		t.Errorf("no connection: err = %v", err)
	}
}
