package gateway_test

import (
	"context"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/parley-mesh/parley/internal/a2a"
	"github.com/parley-mesh/parley/internal/config"
	"github.com/parley-mesh/parley/internal/control"
	"github.com/parley-mesh/parley/internal/parleytest"
)

// An agent of a name that another had before is another agent: it shows its
// own card, and is neither asked nor blamed for the other's tasks.
func TestSuccessorOfARemovedAgent(t *testing.T) {
	m, old := start(t, func(c *config.Config) { c.Watch.First, c.Watch.Max = 10*time.Millisecond, 20*time.Millisecond })
	key := m.Key("alice", "")
	old.Answer(answersTask(task("t-old", "c", a2a.StateWorking)))
	m.Caller("agent", a2a.JSONRPC, key).Do(t.Context(), a2a.SendMessage, parleytest.Message(fresh("m"), "x"))
	card := func() string {
		t.Helper()
		resp, err := http.Get(m.URL("agent") + ".well-known/agent-card.json")
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		body, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		return string(body)
	}
	if !strings.Contains(card(), `"scripted"`) {
		t.Fatalf("the first card is %s", card())
	}
	if err := m.Admin.RemoveAgent(t.Context(), "agent", 0); err != nil {
		t.Fatal(err)
	}
	next := parleytest.NewAgent(t)
	shown := parleytest.Card(next.URL)
	shown.Name = "successor"
	next.SetCard(shown)
	m.Add(control.NewAgent{Name: "agent", URL: next.URL})
	if got := card(); !strings.Contains(got, `"successor"`) {
		t.Errorf("the successor's card is %s", got)
	}
	got := m.WaitCall(control.CallFilter{Task: "t-old"}, parleytest.Ended)
	if got.Outcome != "unknown" || got.Reason != "agent_removed" {
		t.Errorf("the removed agent's call is recorded as %+v, want unknown, agent_removed", got)
	}
	for _, s := range next.Seen() {
		if strings.Contains(string(s.Params), "t-old") {
			t.Errorf("the successor was asked for the old task: %s", s.Params)
		}
	}
}

// Canceling a further turn cancels its task, as canceling the first does.
func TestCancelAFurtherTurn(t *testing.T) {
	m, agent := start(t, func(c *config.Config) { c.Watch.First = time.Hour })
	c := m.Caller("agent", a2a.JSONRPC, m.Key("alice", ""))
	agent.Answer(answersTask(task("t-turn", "c", a2a.StateInputRequired)))
	c.Do(t.Context(), a2a.SendMessage, parleytest.Message(fresh("m"), "x"))

	arrived, release := make(chan struct{}, 1), make(chan struct{})
	waiting := hangs(arrived, release, func(q *a2a.Request) *a2a.Reply {
		return answersTask(task("t-turn", "c", a2a.StateCanceled))(t.Context(), q)
	})
	canceled := answersTask(task("t-turn", "c", a2a.StateCanceled))
	agent.Answer(func(ctx context.Context, q *a2a.Request) *a2a.Reply {
		if q.Method == a2a.SendMessage {
			return waiting(ctx, q)
		}
		return canceled(ctx, q)
	})
	turn := parleytest.Message(fresh("m"), "go on")
	turn.Message.TaskID = "t-turn"
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, err := c.SendMessage(t.Context(), turn)
		if err != nil {
			t.Error(err)
		}
	}()
	<-arrived
	open := m.WaitCall(control.CallFilter{Outcome: "open"}, func(x control.Call) bool { return x.MessageID == turn.Message.MessageID })
	if _, err := m.Admin.CancelCall(t.Context(), open.ID); err != nil {
		t.Errorf("cancel: %v", err)
	}
	close(release)
	<-done
	asked := false
	for _, s := range agent.Seen() {
		asked = asked || s.Method == a2a.CancelTask
	}
	if !asked {
		t.Error("the agent was not asked to cancel the task")
	}
	if got := m.WaitCall(control.CallFilter{Agent: "agent"}, func(x control.Call) bool { return x.ID == open.ID && parleytest.Ended(x) }); got.Outcome != "canceled" {
		t.Errorf("the turn is recorded as %+v, want canceled", got)
	}
}

// A call that is refused is recorded with all that its request said.
func TestRefusedCallIsRecordedWhole(t *testing.T) {
	m := parleytest.Start(t, parleytest.Options{})
	const trace = "4bf92f3577b34da6a3ce929d0e0e4736"
	c := m.Caller("nobody", a2a.JSONRPC, m.Key("alice", "")).With("Parley-Reference", "order-7").With("Traceparent", "00-"+trace+"-00f067aa0ba902b7-01")
	reply, id := c.Do(t.Context(), a2a.SendMessage, parleytest.Message("m-refused", "x"))
	if reply.Err == nil {
		t.Fatal("a call to an unknown agent was answered")
	}
	got := m.Call(id)
	if got.Method != "SendMessage" || got.MessageID != "m-refused" || got.Reference != "order-7" || got.TraceID != trace || got.BytesIn == 0 {
		t.Errorf("recorded as %+v", got)
	}
}
