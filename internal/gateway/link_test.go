package gateway_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/parley-mesh/parley/internal/a2a"
	"github.com/parley-mesh/parley/internal/config"
	"github.com/parley-mesh/parley/internal/control"
	"github.com/parley-mesh/parley/internal/parleytest"
)

// TestCallInsideACall: an agent that calls another with a key of its own, and
// links nothing, is found to stand inside the call it works on.
func TestCallInsideACall(t *testing.T) {
	m, outer := start(t, nil)
	inner := m.Agent("inner")
	inner.Answer(says("inner"))
	inside := m.Caller("inner", a2a.HTTPJSON, m.AgentKey("agent"))
	children := make(chan string, 1)
	outer.Answer(func(ctx context.Context, q *a2a.Request) *a2a.Reply {
		_, id := inside.Do(ctx, a2a.SendMessage, parleytest.Message(fresh("m"), "x"))
		children <- id
		return says("outer")(ctx, q)
	})
	alice := m.Caller("agent", a2a.JSONRPC, m.Key("alice", ""))
	_, root := alice.Do(t.Context(), a2a.SendMessage, parleytest.Message(fresh("m"), "x"))
	child := m.Call(<-children)
	if child.Parent != root || child.Root != root || child.Depth != 1 || child.Link != "parent" || child.CallerAgent != "agent" {
		t.Errorf("the call inside %s is recorded as %+v", root, child)
	}
	tree, err := m.Admin.CallTree(t.Context(), child.ID)
	if err != nil || tree.Root != root || len(tree.Calls) != 2 {
		t.Errorf("the tree is %+v, %v", tree, err)
	}
	_, id := inside.Do(t.Context(), a2a.SendMessage, parleytest.Message(fresh("m"), "x"))
	if got := m.Call(id); got.Root != id || got.Depth != 0 || got.Link != "root" {
		t.Errorf("a call of an agent outside any call is recorded as %+v", got)
	}
}

// TestAmbiguousParent: with two open calls nobody is guessed, the trace picks,
// and a trace of nobody's adds none.
func TestAmbiguousParent(t *testing.T) {
	m, outer := start(t, func(c *config.Config) { c.Watch.First = time.Hour })
	inner := m.Agent("inner")
	inner.Answer(says("inner"))
	alice := m.Caller("agent", a2a.JSONRPC, m.Key("alice", ""))
	var open []string
	var traces []string
	for _, id := range []string{"t-1", "t-2"} {
		outer.Answer(answersTask(task(id, "c-"+id, a2a.StateWorking)))
		_, call := alice.Do(t.Context(), a2a.SendMessage, parleytest.Message(fresh("m"), "x"))
		open = append(open, call)
		traces = append(traces, outer.Last().Header.Get("Traceparent"))
	}
	inside := m.Caller("inner", a2a.JSONRPC, m.AgentKey("agent"))
	send := func(c *parleytest.Caller, in a2a.SendMessageRequest) control.Call {
		reply, id := c.Do(t.Context(), a2a.SendMessage, in)
		if reply.Err != nil {
			t.Fatal(reply.Err)
		}
		return m.Call(id)
	}
	plain := send(inside, parleytest.Message(fresh("m"), "x"))
	slices.Sort(plain.Candidates)
	if plain.Link != "ambiguous" || plain.Parent != "" || plain.CandidateCount != 2 || !slices.Equal(plain.Candidates, open) || plain.Depth != 1 {
		t.Errorf("without a hint: %+v, want ambiguous among %v", plain, open)
	}
	for i, trace := range traces {
		if got := send(inside.With("Traceparent", trace), parleytest.Message(fresh("m"), "x")); got.Parent != open[i] || got.Link != "parent" || got.Root != open[i] {
			t.Errorf("with the trace of %s: %+v", open[i], got)
		}
	}
	forged := inside.With("Traceparent", "00-0123456789abcdef0123456789abcdef-0123456789abcdef-01")
	if got := send(forged, parleytest.Message(fresh("m"), "x")); got.Link != "ambiguous" {
		t.Errorf("with a trace of nobody's: %+v", got)
	}
	stranger := m.Caller("inner", a2a.JSONRPC, m.Key("bob", ""))
	if got := send(stranger.With("Traceparent", traces[0]), parleytest.Message(fresh("m"), "x")); got.Link != "root" || got.Root != got.ID {
		t.Errorf("a stranger with the trace of somebody's call: %+v, want a root", got)
	}
}

// TestFollowUpTurn: the next message of a task is a call beside the first,
// under the same root, and both end with the task.
func TestFollowUpTurn(t *testing.T) {
	m, agent := start(t, func(c *config.Config) { c.Watch.First = time.Hour })
	c := m.Caller("agent", a2a.JSONRPC, m.Key("alice", ""))
	agent.Answer(answersTask(task("t-turn", "c", a2a.StateInputRequired)))
	_, first := c.Do(t.Context(), a2a.SendMessage, parleytest.Message(fresh("m"), "x"))
	agent.Answer(answersTask(task("t-turn", "c", a2a.StateCompleted)))
	turn := parleytest.Message(fresh("m"), "42")
	turn.Message.TaskID = "t-turn"
	_, second := c.Do(t.Context(), a2a.SendMessage, turn)
	got := m.Call(second)
	if got.Root != first || got.Depth != 0 || got.Link != "turn" || got.Outcome != "ok" {
		t.Errorf("the turn is recorded as %+v, want under the root %s", got, first)
	}
	if got := m.Call(first); got.Outcome != "ok" || got.TaskState != string(a2a.StateCompleted) {
		t.Errorf("the first call is recorded as %+v, want ended with its task", got)
	}
}

// TestTraceContext: an authenticated caller's trace is continued; a stranger's
// is not.
func TestTraceContext(t *testing.T) {
	const trace = "4bf92f3577b34da6a3ce929d0e0e4736"
	m, agent := start(t, nil)
	agent.Answer(says("yes"))
	c := m.Caller("agent", a2a.JSONRPC, m.Key("alice", "")).With("Traceparent", "00-"+trace+"-00f067aa0ba902b7-01").With("Tracestate", "vendor=1")
	_, id := c.Do(t.Context(), a2a.SendMessage, parleytest.Message(fresh("m"), "x"))
	got := m.Call(id)
	sent := agent.Last().Header
	if want := "00-" + trace + "-" + got.SpanID + "-01"; got.TraceID != trace || sent.Get("Traceparent") != want || sent.Get("Tracestate") != "vendor=1" {
		t.Errorf("the agent was sent %q %q and the record says %s %s; want %q", sent.Get("Traceparent"), sent.Get("Tracestate"), got.TraceID, got.SpanID, want)
	}
}

// TestReferenceIsKeptAsText whatever bytes a caller sends for it.
func TestReferenceIsKeptAsText(t *testing.T) {
	m, agent := start(t, nil)
	agent.Answer(says("yes"))
	key := m.Key("alice", "")
	for _, tc := range []struct{ sent, want string }{
		{"order-17", "order-17"},
		{"caf\xc3\xa9", "café"},
		{"\xff\xfe", "\uFFFD"},
		{string(make199()) + "\xc3\xa9", string(make199())}, // 201 bytes: not cut inside a character
	} {
		c := m.Caller("agent", a2a.JSONRPC, key).With("Parley-Reference", tc.sent)
		_, id := c.Do(t.Context(), a2a.SendMessage, parleytest.Message(fresh("m"), "x"))
		if got := m.Call(id); got.Reference != tc.want {
			t.Errorf("reference %q is recorded as %q, want %q", tc.sent, got.Reference, tc.want)
		}
	}
}

func make199() []byte {
	b := make([]byte, 199)
	for i := range b {
		b[i] = 'x'
	}
	return b
}
