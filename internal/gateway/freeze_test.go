package gateway_test

import (
	"context"
	"testing"
	"time"

	"github.com/parley-mesh/parley/internal/a2a"
	"github.com/parley-mesh/parley/internal/config"
	"github.com/parley-mesh/parley/internal/control"
	"github.com/parley-mesh/parley/internal/gateway"
	"github.com/parley-mesh/parley/internal/parleytest"
)

// TestFreezeEndsWhatIsUnderWay: streams and exchanges of the principal end with
// an error of its own, what is others' goes on, and tasks are watched to their
// end.
func TestFreezeEndsWhatIsUnderWay(t *testing.T) {
	m, agent := start(t, func(c *config.Config) { c.Watch.First, c.Watch.Max = 10*time.Millisecond, 20*time.Millisecond })
	alice, bob := m.Key("alice", ""), m.Key("bob", "")
	working := task("t-frozen", "c", a2a.StateWorking)
	arrived := make(chan struct{}, 1)
	agent.Answer(func(ctx context.Context, q *a2a.Request) *a2a.Reply {
		switch q.Method {
		case a2a.SendStreamingMessage:
			frames := make(chan a2a.Frame, 1)
			if q.Facts.MessageID == "bobs" {
				frames <- taskFrame(task("t-bob", "c-bob", a2a.StateWorking))
			} else {
				frames <- taskFrame(working)
			}
			return &a2a.Reply{Stream: a2a.NewChanStream(frames)} // and no more
		case a2a.SendMessage:
			arrived <- struct{}{}
			<-ctx.Done()
			return a2a.Fail(a2a.Internal("given up"))
		}
		return answersTask(working)(ctx, q)
	})
	open := func(key, message string) (*a2a.Reply, string) {
		t.Helper()
		reply, id := m.Caller("agent", a2a.JSONRPC, key).Do(t.Context(), a2a.SendStreamingMessage, parleytest.Message(message, "x"))
		t.Cleanup(func() { reply.Stream.Close() })
		if frame, err := reply.Stream.Next(t.Context()); err != nil || frame.Err != nil {
			t.Fatalf("first frame: %v %v", err, frame.Err)
		}
		return reply, id
	}
	hers, streamed := open(alice, fresh("m"))
	his, _ := open(bob, "bobs")
	blocked := make(chan *a2a.Reply, 1)
	go func() {
		reply, _ := m.Caller("agent", a2a.HTTPJSON, alice).Do(t.Context(), a2a.SendMessage, parleytest.Message(fresh("m"), "x"))
		blocked <- reply
	}()
	<-arrived
	if _, err := m.Admin.FreezePrincipal(t.Context(), "alice", "leaked"); err != nil {
		t.Fatal(err)
	}
	frame, err := hers.Stream.Next(t.Context())
	if err != nil || frame.Err == nil || frame.Err.Reason != gateway.ReasonFrozen {
		t.Errorf("her stream goes on with %+v, %v", frame, err)
	}
	wantErr(t, "her exchange", <-blocked, gateway.ReasonFrozen)
	ended := m.WaitCall(control.CallFilter{Caller: "alice", Method: "SendMessage"}, parleytest.Ended)
	if ended.Outcome != "canceled" || ended.Reason != "frozen" {
		t.Errorf("her exchange is recorded as %s %s", ended.Outcome, ended.Reason)
	}
	for _, binding := range append(bindings[:2:2], a2a.GRPC) {
		reply, id := m.Caller("agent", binding, alice).Do(t.Context(), a2a.GetTask, a2a.GetTaskRequest{ID: "t-frozen"})
		wantErr(t, "a call of hers", reply, gateway.ReasonFrozen)
		wantCall(t, m, id, "denied", "principal_frozen")
	}
	if got := m.Call(streamed); got.Ended != nil {
		t.Errorf("the freeze ended the call of a task that goes on: %+v", got)
	}

	short, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if frame, err := his.Stream.Next(short); err == nil {
		t.Errorf("his stream ended as well: %+v", frame)
	}
	agent.Answer(answersTask(task("t-frozen", "c", a2a.StateCompleted)))
	wantCall(t, m, streamed, "ok", "")
}

// An agent whose calling side is frozen is called as before.
func TestFrozenAgentsAreStillCalled(t *testing.T) {
	m, agent := start(t, nil)
	agent.Answer(answersTask(task("t", "c", a2a.StateCompleted)))
	own := m.AgentKey("agent")
	if _, err := m.Admin.FreezePrincipal(t.Context(), "agent", "calls too much"); err != nil {
		t.Fatal(err)
	}
	c := m.Caller("agent", a2a.JSONRPC, m.Key("alice", ""))
	mustSend(t, c, parleytest.Message(fresh("m"), "x"))
	reply, _ := m.Caller("agent", a2a.JSONRPC, own).Do(t.Context(), a2a.SendMessage, parleytest.Message(fresh("m"), "x"))
	wantErr(t, "a call by the agent", reply, gateway.ReasonFrozen)
}

// TestFloodOfTheFrozen: refusals of a frozen caller are recorded, but no more
// often than its calls would be served.
func TestFloodOfTheFrozen(t *testing.T) {
	const burst = 5
	m, _ := start(t, func(c *config.Config) { c.Limits.RatePerPrincipal, c.Limits.BurstPerPrincipal = 1, burst })
	alice := m.Key("alice", "")
	if _, err := m.Admin.FreezePrincipal(t.Context(), "alice", "leaked"); err != nil {
		t.Fatal(err)
	}
	began, limited := time.Now(), 0
	for range 10 * burst {
		reply, _ := m.Caller("agent", a2a.JSONRPC, alice).Do(t.Context(), a2a.SendMessage, parleytest.Message(fresh("m"), "x"))
		switch {
		case reply.Err == nil:
			t.Fatalf("a frozen caller is served: %s", reply.Result)
		case reply.Err.Reason == a2a.ReasonRateLimited:
			limited++
		case reply.Err.Reason != gateway.ReasonFrozen:
			t.Errorf("refused with %v", reply.Err)
		}
	}
	most := burst + int(time.Since(began)/time.Second) + 1
	if n := len(m.Calls(control.CallFilter{Caller: "alice"})); n > most || limited < 10*burst-most {
		t.Errorf("%d of %d refusals are recorded and %d are for their rate, want at most %d recorded", n, 10*burst, limited, most)
	}
}
