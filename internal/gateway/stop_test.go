package gateway_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/parley-mesh/parley/internal/a2a"
	"github.com/parley-mesh/parley/internal/config"
	"github.com/parley-mesh/parley/internal/parleytest"
)

// A mesh that stops tells subscribers so before it closes their connection.
func TestStopTellsSubscribers(t *testing.T) {
	for _, b := range bindings {
		t.Run(string(b), func(t *testing.T) { stopTells(t, b) })
	}
}

func stopTells(t *testing.T, binding a2a.Binding) {
	m, agent := start(t, func(c *config.Config) { c.Limits.ShutdownTimeout, c.Watch.First = 2*time.Second, time.Hour })
	tk := task("t-watched", "c", a2a.StateWorking)
	agent.Answer(func(ctx context.Context, q *a2a.Request) *a2a.Reply {
		if q.Method != a2a.SubscribeToTask {
			return answersTask(tk)(ctx, q)
		}
		frames := make(chan a2a.Frame, 1)
		frames <- taskFrame(tk)
		return &a2a.Reply{Stream: a2a.NewChanStream(frames)} // and no more
	})
	c := m.Caller("agent", binding, m.Key("alice", ""))
	c.Do(t.Context(), a2a.SendMessage, parleytest.Message(fresh("m"), "x"))
	s, err := c.SubscribeToTask(t.Context(), a2a.SubscribeToTaskRequest{ID: "t-watched"})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if _, err := s.Next(t.Context()); err != nil {
		t.Fatalf("first frame: %v", err)
	}
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		m.Stop()
	}()
	_, err = s.Next(t.Context())
	if _, ok := errors.AsType[*a2a.Error](err); !ok {
		t.Errorf("the subscription ended with %v, want an error frame", err)
	}
	<-stopped
}
