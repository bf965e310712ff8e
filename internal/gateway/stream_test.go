package gateway_test

import (
	"context"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/parley-mesh/parley/internal/a2a"
	"github.com/parley-mesh/parley/internal/config"
	"github.com/parley-mesh/parley/internal/control"
	"github.com/parley-mesh/parley/internal/parleytest"
)

// sseAgent answers every stream with the bytes given, and then as end says:
// with a clean end, or with a cut connection.
func sseAgent(agent *parleytest.Agent, body string, cut bool) {
	agent.Serve(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(w, body)
		w.(http.Flusher).Flush()
		if cut {
			panic(http.ErrAbortHandler)
		}
	})
}

const workingFrame = `data: {"task":{"id":"@id","contextId":"c","status":{"state":"TASK_STATE_WORKING"}}}` + "\n\n"

// TestStreamThatEndsEarly: whatever way an agent breaks its stream off, the
// caller is told by an error, and nothing reads as completed.
func TestStreamThatEndsEarly(t *testing.T) {
	m, agent := start(t, func(c *config.Config) {
		c.Watch.First, c.Limits.StreamRecovery = time.Hour, 50*time.Millisecond
	}, a2a.HTTPJSON)
	key := m.Key("alice", "")
	for what, tc := range map[string]struct {
		body   string
		cut    bool
		reason string
	}{
		"no frame at all":            {"", false, "cut"},
		"cut before a frame":         {": hello\n\n", true, "cut"},
		"clean end while working":    {workingFrame, false, "cut"},
		"cut while working":          {workingFrame, true, "cut"},
		"half a frame":               {workingFrame + `data: {"statusUpdate":{"taskId":"@id","cont`, true, "cut"},
		"half a frame, clean end":    {workingFrame + `data: {"statusUpdate":{"taskId":"@id","cont`, false, "cut"},
		"a frame that is no A2A":     {workingFrame + "data: {\"surprise\":1}\n\n", false, "nonsense"},
		"a frame that is no JSON":    {workingFrame + "data: <html>\n\n", false, "nonsense"},
		"another stream's next task": {workingFrame + strings.ReplaceAll(workingFrame, "@id", "other"), false, "foreign_id"},
	} {
		for _, b := range bindings {
			t.Run(what+" by "+string(b), func(t *testing.T) {
				id := fresh("t")
				sseAgent(agent, strings.ReplaceAll(tc.body, "@id", id), tc.cut)
				c := m.Caller("agent", b, key)
				reply, call := c.Do(t.Context(), a2a.SendStreamingMessage, parleytest.Message(fresh("m"), "x"))
				if last := lastFrame(t, reply); last.Err == nil || last.Facts.Final() {
					t.Errorf("the caller's last frame is %s, want an error", last.Result)
				}
				got := m.WaitCall(control.CallFilter{Agent: "agent"}, func(x control.Call) bool { return x.ID == call && parleytest.Ended(x) })
				if got.Outcome != "crash" || got.Reason != tc.reason {
					t.Errorf("the call is recorded as %s %s (%s), want crash %s", got.Outcome, got.Reason, got.Detail, tc.reason)
				}
				if !strings.Contains(tc.body, "@id") || tc.reason == "foreign_id" {
					return
				}
				agent.Serve(func(w http.ResponseWriter, r *http.Request) { http.Error(w, "gone", http.StatusServiceUnavailable) })
				list, err := c.ListTasks(t.Context(), a2a.ListTasksRequest{Status: a2a.StateCompleted})
				if err != nil || len(list.Tasks) != 0 {
					t.Errorf("completed tasks: %+v, %v", list, err)
				}
			})
		}
	}
}

// lastFrame reads a streamed answer to its end.
func lastFrame(t *testing.T, reply *a2a.Reply) (last a2a.Frame) {
	t.Helper()
	if reply.Stream == nil {
		return a2a.Frame{Err: reply.Err, Result: reply.Result}
	}
	defer reply.Stream.Close()
	for {
		frame, err := reply.Stream.Next(t.Context())
		if err == io.EOF {
			return last
		}
		if err != nil {
			t.Fatalf("the caller's stream broke: %v", err)
		}
		last = frame
	}
}

// TestCallerWhoLeavesAStream has ended neither the call nor the stream of the
// agent's: the mesh reads on, and the record tells how the task ended.
func TestCallerWhoLeavesAStream(t *testing.T) {
	m, agent := start(t, func(c *config.Config) { c.Watch.First = time.Hour })
	c := m.Caller("agent", a2a.JSONRPC, m.Key("alice", ""))
	frames := make(chan a2a.Frame, 1)
	agent.Answer(streams(frames))
	frames <- taskFrame(task("t-left", "c", a2a.StateWorking))
	ctx, leave := context.WithCancel(t.Context())
	reply, id := c.Do(ctx, a2a.SendStreamingMessage, parleytest.Message(fresh("m"), "x"))
	if frame, err := reply.Stream.Next(ctx); err != nil || frame.Facts.TaskID != "t-left" {
		t.Fatalf("first frame %s, %v", frame.Result, err)
	}
	leave()
	reply.Stream.Close()
	if got := m.Call(id); got.Ended != nil {
		t.Fatalf("the call ended with its caller: %+v", got)
	}
	frames <- status("t-left", "c", a2a.StateCompleted)
	close(frames)
	got := m.WaitCall(control.CallFilter{Task: "t-left"}, parleytest.Ended)
	if got.ID != id || got.Outcome != "ok" || got.TaskState != string(a2a.StateCompleted) {
		t.Errorf("the call is recorded as %+v, want ok and completed", got)
	}
}

// TestStreamsForNobodyAreBounded: over the limit the agent's stream ends with its
// last reader, and the task is watched instead.
func TestStreamsForNobodyAreBounded(t *testing.T) {
	m, agent := start(t, func(c *config.Config) {
		c.Limits.StreamsDetached, c.Watch.First, c.Watch.Max = 0, 10*time.Millisecond, 20*time.Millisecond
	})
	c := m.Caller("agent", a2a.JSONRPC, m.Key("alice", ""))
	gone := make(chan struct{})
	agent.Answer(func(ctx context.Context, q *a2a.Request) *a2a.Reply {
		if q.Method == a2a.GetTask {
			one := task("t-nobody", "c", a2a.StateWorking)
			return a2a.Answer(q.Method, &one)
		}
		frames := make(chan a2a.Frame, 1)
		frames <- taskFrame(task("t-nobody", "c", a2a.StateWorking))
		s := a2a.NewChanStream(frames)
		go func() { <-s.Done(); close(gone) }()
		return &a2a.Reply{Stream: s}
	})
	ctx, leave := context.WithCancel(t.Context())
	reply, id := c.Do(ctx, a2a.SendStreamingMessage, parleytest.Message(fresh("m"), "x"))
	if _, err := reply.Stream.Next(ctx); err != nil {
		t.Fatal(err)
	}
	leave()
	reply.Stream.Close()
	select {
	case <-gone:
	case <-time.After(parleytest.Patience):
		t.Fatal("the exchange with the agent goes on for nobody")
	}
	agent.Answer(answersTask(task("t-nobody", "c", a2a.StateCompleted)))
	got := m.WaitCall(control.CallFilter{Task: "t-nobody"}, parleytest.Ended)
	if got.ID != id || got.Outcome != "ok" {
		t.Errorf("the call is recorded as %+v, want ok", got)
	}
}

// TestCallerWhoLeavesBeforeTheTaskIsNamed leaves nothing that could be watched.
func TestCallerWhoLeavesBeforeTheTaskIsNamed(t *testing.T) {
	m, agent := start(t, nil)
	c := m.Caller("agent", a2a.HTTPJSON, m.Key("alice", ""))
	arrived := make(chan struct{})
	agent.Answer(func(ctx context.Context, q *a2a.Request) *a2a.Reply {
		close(arrived)
		return &a2a.Reply{Stream: a2a.NewChanStream(make(chan a2a.Frame))}
	})
	ctx, leave := context.WithCancel(t.Context())
	go func() { <-arrived; leave() }()
	q, err := a2a.NewRequest(a2a.SendStreamingMessage, parleytest.Message(fresh("m"), "x"))
	if err != nil {
		t.Fatal(err)
	}
	if reply, err := c.Client.Do(ctx, c.Endpoint, q, c.Header); err == nil && reply.Stream != nil {
		_, _ = reply.Stream.Next(ctx)
		reply.Stream.Close()
	}
	if got := m.WaitCall(control.CallFilter{Agent: "agent"}, parleytest.Ended); got.Outcome != "canceled" || got.Reason != "caller_gone" {
		t.Errorf("the call is recorded as %s %s, want canceled caller_gone", got.Outcome, got.Reason)
	}
}

// TestStreamAfterTheEnd: an agent that does not end its stream after the final
// state holds neither its caller nor the record.
func TestStreamAfterTheEnd(t *testing.T) {
	m, agent := start(t, nil)
	c := m.Caller("agent", a2a.JSONRPC, m.Key("alice", ""))
	frames := make(chan a2a.Frame, 2)
	agent.Answer(streams(frames))
	frames <- taskFrame(task("t-final", "c", a2a.StateWorking))
	frames <- status("t-final", "c", a2a.StateCompleted)
	reply, id := c.Do(t.Context(), a2a.SendStreamingMessage, parleytest.Message(fresh("m"), "x"))
	if last := lastFrame(t, reply); last.Err != nil || !last.Facts.Final() {
		t.Errorf("the last frame is %s %v", last.Result, last.Err)
	}
	wantCall(t, m, id, "ok", "")
}

// TestInterruptedStreamMayEnd: at a question the agent may end its stream, and
// the call stays open.
func TestInterruptedStreamMayEnd(t *testing.T) {
	m, agent := start(t, func(c *config.Config) { c.Watch.First = time.Hour })
	c := m.Caller("agent", a2a.HTTPJSON, m.Key("alice", ""))
	frames := make(chan a2a.Frame, 2)
	frames <- taskFrame(task("t-asks", "c", a2a.StateWorking))
	frames <- status("t-asks", "c", a2a.StateInputRequired)
	close(frames)
	agent.Answer(streams(frames))
	reply, id := c.Do(t.Context(), a2a.SendStreamingMessage, parleytest.Message(fresh("m"), "x"))
	if last := lastFrame(t, reply); last.Err != nil || last.Facts.State != a2a.StateInputRequired {
		t.Errorf("the last frame is %s %v", last.Result, last.Err)
	}
	if got := m.Call(id); got.Ended != nil || got.TaskState != string(a2a.StateInputRequired) {
		t.Errorf("the call is recorded as %+v, want open", got)
	}
}

// TestSilentStreamIsKeptAwake: a stream without frames carries comments.
func TestSilentStreamIsKeptAwake(t *testing.T) {
	m, agent := start(t, func(c *config.Config) { c.Limits.StreamKeepalive = 20 * time.Millisecond })
	frames := make(chan a2a.Frame, 1)
	agent.Answer(streams(frames))
	frames <- taskFrame(task("t-silent", "c", a2a.StateWorking))
	req := streamRequest(t, m, m.Key("alice", ""))
	resp, err := http.DefaultTransport.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	var got strings.Builder
	buf := make([]byte, 4096)
	for strings.Count(got.String(), "\n: keep-alive\n") < 3 {
		n, err := resp.Body.Read(buf)
		if err != nil {
			t.Fatalf("the stream ended with %v after %q", err, &got)
		}
		got.Write(buf[:n])
	}
	frames <- status("t-silent", "c", a2a.StateCompleted)
	close(frames)
	rest, err := io.ReadAll(resp.Body)
	if err != nil || !strings.Contains(string(rest), "TASK_STATE_COMPLETED") {
		t.Errorf("after the silence came %q, %v", rest, err)
	}
}

// streamRequest is a REST request for a stream.
func streamRequest(t *testing.T, m *parleytest.Mesh, key string) *http.Request {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, m.URL("agent")+"message:stream",
		strings.NewReader(`{"message":{"messageId":"`+fresh("m")+`","role":"ROLE_USER","parts":[{"text":"x"}]}}`))
	if err != nil {
		t.Fatal(err)
	}
	req.Header = http.Header{"Authorization": {"Bearer " + key}, "Content-Type": {"application/a2a+json"}, "A2a-Version": {"1.0"}}
	return req
}

// TestSlowReaderIsCut: a caller who stops reading holds its stream for no
// longer than one write may take. Where no stream may go on for nobody, that of
// the agent's ends with it; the call goes on.
func TestSlowReaderIsCut(t *testing.T) {
	m, agent := start(t, func(c *config.Config) {
		c.Limits.StreamWriteTimeout, c.Limits.StreamsDetached, c.Watch.First = 200*time.Millisecond, 0, time.Hour
	})
	gone := make(chan struct{})
	big := strings.Repeat("x", 1<<20)
	agent.Answer(func(ctx context.Context, q *a2a.Request) *a2a.Reply {
		if q.Method != a2a.SendStreamingMessage {
			return a2a.Fail(a2a.TaskNotFound("none"))
		}
		frames := make(chan a2a.Frame)
		s := a2a.NewChanStream(frames)
		go func() {
			defer close(gone)
			next := taskFrame(task("t-slow", "c", a2a.StateWorking))
			for {
				select {
				case frames <- next:
				case <-s.Done():
					return
				}
				next = a2a.StreamFrame(a2a.StreamResponse{ArtifactUpdate: &a2a.TaskArtifactUpdateEvent{
					TaskID: "t-slow", ContextID: "c", Artifact: a2a.Artifact{ArtifactID: "a", Parts: []a2a.Part{a2a.TextPart(big)}},
				}})
			}
		}()
		return &a2a.Reply{Stream: s}
	})
	conn, err := net.Dial("tcp", m.Config.Listen)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if err := streamRequest(t, m, m.Key("alice", "")).Write(conn); err != nil {
		t.Fatal(err)
	}
	select { // nothing is read
	case <-gone:
	case <-time.After(parleytest.Patience):
		t.Fatal("the stream goes on although nobody reads")
	}
	got := m.WaitCall(control.CallFilter{Agent: "agent"}, func(c control.Call) bool { return c.TaskID == "t-slow" })
	if got.Ended != nil {
		t.Errorf("the call is recorded as %+v, want it open: the task goes on, and the agent did nothing wrong", got)
	}
}

// TestStreamLimits: over its limit a principal gets an error at once, and a
// stream that ended makes room.
func TestStreamLimits(t *testing.T) {
	m, agent := start(t, func(c *config.Config) {
		c.Limits.StreamsPerPrincipal, c.Limits.Streams, c.Watch.First = 2, 3, time.Hour
	})
	agent.Answer(func(_ context.Context, q *a2a.Request) *a2a.Reply {
		frames := make(chan a2a.Frame, 1)
		frames <- taskFrame(task(fresh("t"), "c-"+q.Facts.MessageID, a2a.StateWorking))
		return &a2a.Reply{Stream: a2a.NewChanStream(frames)}
	})
	alice := m.Caller("agent", a2a.JSONRPC, m.Key("alice", ""))
	bob := m.Caller("agent", a2a.HTTPJSON, m.Key("bob", ""))
	open := func(c *parleytest.Caller) *a2a.Reply {
		reply, _ := c.Do(t.Context(), a2a.SendStreamingMessage, parleytest.Message(fresh("m"), "x"))
		if reply.Stream == nil {
			t.Fatalf("no stream: %v", reply.Err)
		}
		if frame, err := reply.Stream.Next(t.Context()); err != nil || frame.Err != nil {
			t.Fatalf("first frame: %v, %v", frame.Err, err)
		}
		return reply
	}
	first := open(alice)
	defer open(alice).Stream.Close()
	reply, id := alice.Do(t.Context(), a2a.SendStreamingMessage, parleytest.Message(fresh("m"), "x"))
	wantErr(t, "a third stream of alice's", reply, a2a.ReasonRateLimited)
	wantCall(t, m, id, "denied", "exhausted")
	defer open(bob).Stream.Close()
	reply, _ = bob.Do(t.Context(), a2a.SendStreamingMessage, parleytest.Message(fresh("m"), "x"))
	wantErr(t, "a fourth stream in all", reply, a2a.ReasonRateLimited)

	first.Stream.Close()
	deadline := time.Now().Add(parleytest.Patience)
	for { // the mesh notices the closed connection in its own time
		reply, _ := alice.Do(t.Context(), a2a.SendStreamingMessage, parleytest.Message(fresh("m"), "x"))
		if reply.Stream != nil {
			frame, err := reply.Stream.Next(t.Context())
			reply.Stream.Close()
			if err == nil && frame.Err == nil {
				break
			}
		}
		if time.Now().After(deadline) {
			t.Fatal("a stream that ended makes no room")
		}
	}
}
