package gateway_test

import (
	"context"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/parley-mesh/parley/internal/a2a"
	"github.com/parley-mesh/parley/internal/a2a/a2atest"
	"github.com/parley-mesh/parley/internal/config"
	"github.com/parley-mesh/parley/internal/control"
	"github.com/parley-mesh/parley/internal/parley"
	"github.com/parley-mesh/parley/internal/parleytest"
	"github.com/parley-mesh/parley/internal/storetest/pgtest"
)

// onBothStores runs a test on a mesh with each store.
func onBothStores(t *testing.T, test func(t *testing.T, m *parleytest.Mesh)) {
	t.Run("sqlite", func(t *testing.T) { test(t, parleytest.Start(t, parleytest.Options{})) })
	t.Run("postgres", func(t *testing.T) {
		test(t, parleytest.Start(t, parleytest.Options{Configure: func(c *config.Config) { c.Store = config.PostgresStore(pgtest.Database(t)) }}))
	})
}

// sends counts the messages of that id that reached the agent.
func sends(ref *a2atest.Agent, id string) (n int) {
	for _, s := range ref.Seen() {
		if s.MessageID == id && s.Method.Sends() {
			n++
		}
	}
	return n
}

// TestRepeatedMessageIsNotWorkedOnTwice: by any pair of bindings, as a unary
// call or a stream, what comes back is the task of the first.
func TestRepeatedMessageIsNotWorkedOnTwice(t *testing.T) {
	onBothStores(t, func(t *testing.T, m *parleytest.Mesh) {
		ref, url := a2atest.Start(t, a2atest.Options{})
		m.Add(control.NewAgent{Name: "agent", URL: url})
		alice, bob := m.Key("alice", ""), m.Key("bob", "")
		for _, kind := range []string{"tck-complete-task", "tck-input-required", "ref-hold"} {
			for _, b := range bindings {
				in := parleytest.Message(fresh(kind), "work")
				in.Configuration = &a2a.SendMessageConfiguration{ReturnImmediately: kind == "ref-hold"}
				first := mustSend(t, m.Caller("agent", b, alice), in)
				for _, again := range bindings {
					c := m.Caller("agent", again, alice)
					reply, id := c.Do(t.Context(), a2a.SendMessage, in)
					if reply.Err != nil || reply.Facts.TaskID != first.ID || reply.Facts.State != first.Status.State {
						t.Errorf("%s by %s and %s: got %s %+v, want task %s in %s", kind, b, again, reply.Result, reply.Err, first.ID, first.Status.State)
					}
					if got := wantCall(t, m, id, "ok", "repeated"); got.TaskID != first.ID {
						t.Errorf("the record names task %q", got.TaskID)
					}
					stream, err := c.SendStreamingMessage(t.Context(), in)
					if err != nil {
						t.Fatal(err)
					}
					event, err := stream.Next(t.Context())
					if err != nil || event.Task == nil || event.Task.ID != first.ID {
						t.Errorf("%s by %s and %s: the stream begins with %+v, %v", kind, b, again, event, err)
					}
					if kind != "ref-hold" {
						if _, err := stream.Next(t.Context()); err != io.EOF {
							t.Errorf("%s: the stream goes on with %v, want its end", kind, err)
						}
					}
					stream.Close()
				}
				if n := sends(ref, in.Message.MessageID); n != 1 {
					t.Errorf("%s by %s: the agent was sent the message %d times", kind, b, n)
				}
				// The id is the principal's own.
				theirs := mustSend(t, m.Caller("agent", b, bob), in)
				if theirs.ID == first.ID {
					t.Errorf("%s: bob was given alice's task", kind)
				}
			}
		}
	})
}

// TestRepeatedStreamFollowsTheTask until its end.
func TestRepeatedStreamFollowsTheTask(t *testing.T) {
	m := parleytest.Start(t, parleytest.Options{})
	ref, url := a2atest.Start(t, a2atest.Options{})
	m.Add(control.NewAgent{Name: "agent", URL: url})
	key := m.Key("alice", "")
	for _, b := range bindings {
		in := parleytest.Message(fresh("ref-hold"), "work")
		one, err := m.Caller("agent", b, key).SendStreamingMessage(t.Context(), in)
		if err != nil {
			t.Fatal(err)
		}
		defer one.Close()
		event, err := one.Next(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		id := event.Task.ID
		two, err := m.Caller("agent", b, key).SendStreamingMessage(t.Context(), in)
		if err != nil {
			t.Fatal(err)
		}
		defer two.Close()
		if event, err = two.Next(t.Context()); err != nil || event.Task == nil || event.Task.ID != id {
			t.Fatalf("%s: the second stream begins with %+v, %v", b, event, err)
		}
		if err := ref.SetStatus(id, a2a.StateCompleted, "done"); err != nil {
			t.Fatal(err)
		}
		for name, s := range map[string]*a2a.EventStream{"first": one, "second": two} {
			if last, err := drain(t.Context(), s); err != io.EOF || last == nil || last.StatusUpdate == nil || last.StatusUpdate.Status.State != a2a.StateCompleted {
				t.Errorf("%s: the %s stream ended with %+v, %v", b, name, last, err)
			}
		}
		if n := sends(ref, in.Message.MessageID); n != 1 {
			t.Errorf("%s: the agent was sent the message %d times", b, n)
		}
	}
}

// TestRepeatWhileTheFirstRuns: many at once are one for the agent, and all learn
// what came of it; at one replica as at two.
func TestRepeatWhileTheFirstRuns(t *testing.T) {
	for name, meshes := range map[string]func(*testing.T) []*parleytest.Mesh{
		"one": func(t *testing.T) []*parleytest.Mesh {
			return []*parleytest.Mesh{parleytest.Start(t, parleytest.Options{})}
		},
		"two replicas": func(t *testing.T) []*parleytest.Mesh {
			dsn := pgtest.Database(t)
			first := parleytest.Start(t, parleytest.Options{Configure: func(c *config.Config) { c.Store = config.PostgresStore(dsn) }})
			second := parleytest.Start(t, parleytest.Options{Configure: func(c *config.Config) {
				c.Store = config.PostgresStore(dsn)
				key, err := os.ReadFile(filepath.Join(first.Config.Data, "master.key"))
				if err == nil {
					err = os.WriteFile(filepath.Join(c.Data, "master.key"), key, 0o600)
				}
				if err != nil {
					t.Fatal(err)
				}
			}})
			return []*parleytest.Mesh{first, second}
		},
	} {
		t.Run(name, func(t *testing.T) {
			all := meshes(t)
			ref, url := a2atest.Start(t, a2atest.Options{})
			all[0].Add(control.NewAgent{Name: "agent", URL: url})
			key := all[0].Key("alice", "")
			in := parleytest.Message(fresh("ref-hold"), "work")
			var done sync.WaitGroup
			results := make(chan string, 12)
			for i := range cap(results) {
				c := all[i%len(all)].Caller("agent", bindings[i%len(bindings)], key)
				done.Go(func() {
					out, err := c.SendMessage(t.Context(), in)
					if err != nil || out.Task == nil {
						t.Errorf("number %d: %+v, %v", i, out, err)
						return
					}
					results <- out.Task.ID + " " + string(out.Task.Status.State)
				})
			}
			id, err := ref.Arrived(t.Context(), in.Message.MessageID)
			if err != nil {
				t.Fatal(err)
			}
			if err := ref.SetStatus(id, a2a.StateCompleted, "done"); err != nil {
				t.Fatal(err)
			}
			done.Wait()
			close(results)
			for got := range results {
				if want := id + " " + string(a2a.StateCompleted); got != want {
					t.Errorf("a caller was told %s, want %s", got, want)
				}
			}
			if n := sends(ref, in.Message.MessageID); n != 1 {
				t.Errorf("the agent was sent the message %d times", n)
			}
		})
	}
}

// TestOtherMessageUnderTheSameID is refused, whatever it differs in.
func TestOtherMessageUnderTheSameID(t *testing.T) {
	onBothStores(t, func(t *testing.T, m *parleytest.Mesh) {
		ref, url := a2atest.Start(t, a2atest.Options{})
		m.Add(control.NewAgent{Name: "agent", URL: url})
		c := m.Caller("agent", a2a.JSONRPC, m.Key("alice", ""))
		in := parleytest.Message(fresh("tck-complete-task"), "work")
		mustSend(t, c, in)
		other := parleytest.Message(in.Message.MessageID, "other work")
		for _, method := range []a2a.Method{a2a.SendMessage, a2a.SendStreamingMessage} {
			reply, id := c.Do(t.Context(), method, other)
			wantErr(t, string(method), reply, a2a.ReasonInvalidParams)
			wantCall(t, m, id, "caller_error", "")
		}
		// What is beside the message may differ.
		in.Configuration = &a2a.SendMessageConfiguration{ReturnImmediately: true}
		if reply, _ := c.Do(t.Context(), a2a.SendMessage, in); reply.Err != nil {
			t.Errorf("with another configuration: %v", reply.Err)
		}
		if n := sends(ref, in.Message.MessageID); n != 1 {
			t.Errorf("the agent was sent the message %d times", n)
		}
	})
}

// TestRepeatAfterNoTask: what came of the first is told, and the agent is asked
// again only where it has certainly taken nothing.
func TestRepeatAfterNoTask(t *testing.T) {
	onBothStores(t, func(t *testing.T, m *parleytest.Mesh) {
		agent := m.Agent("agent")
		c := m.Caller("agent", a2a.JSONRPC, m.Key("alice", ""))
		said := a2a.Message{MessageID: "a", Role: a2a.RoleAgent, Parts: []a2a.Part{a2a.TextPart("hi")}}
		busy := a2a.NewError(a2a.ReasonUnavailable, "come later")
		for name, tc := range map[string]struct {
			first *a2a.Reply
			want  a2a.Reason // of the repeat; empty where it runs
		}{
			"a message":         {a2a.Answer(a2a.SendMessage, a2a.SendMessageResponse{Message: &said}), a2a.ReasonInvalidParams},
			"a refusal":         {a2a.Fail(a2a.NewError(a2a.ReasonContentTypeNotSupported, "no")), a2a.ReasonContentTypeNotSupported},
			"an internal error": {a2a.Fail(a2a.Internal("oops")), a2a.ReasonInternal},
			"busy":              {a2a.Fail(busy), ""},
		} {
			in := parleytest.Message(fresh("m"), "work")
			agent.Answer(func(context.Context, *a2a.Request) *a2a.Reply { return tc.first })
			c.Do(t.Context(), a2a.SendMessage, in)
			before := len(agent.Seen())
			agent.Answer(answersTask(task(fresh("t"), fresh("c"), a2a.StateCompleted)))
			reply, _ := c.Do(t.Context(), a2a.SendMessage, in)
			if tc.want == "" {
				if reply.Err != nil {
					t.Errorf("after %s: %v, want it sent again", name, reply.Err)
				}
				continue
			}
			wantErr(t, "after "+name, reply, tc.want)
			if reply.Err != nil && !strings.Contains(string(reply.Err.RPC()), "sent before, in call ") {
				t.Errorf("after %s: %s does not say why", name, reply.Err.RPC())
			}
			if n := len(agent.Seen()) - before; n != 0 {
				t.Errorf("after %s the agent was asked again", name)
			}
		}
		in := parleytest.Message(fresh("m"), "work")
		agent.Serve(func(w http.ResponseWriter, _ *http.Request) { panic(http.ErrAbortHandler) })
		c.Do(t.Context(), a2a.SendMessage, in)
		agent.Answer(answersTask(task(fresh("t"), fresh("c"), a2a.StateCompleted)))
		reply, id := c.Do(t.Context(), a2a.SendMessage, in)
		wantErr(t, "after a broken connection", reply, a2a.ReasonInternal)
		wantCall(t, m, id, "denied", "repeated")
	})
}

// TestRepeatedTurn waits for what the first brings about: the state from before
// it is no answer.
func TestRepeatedTurn(t *testing.T) {
	m := parleytest.Start(t, parleytest.Options{})
	ref, url := a2atest.Start(t, a2atest.Options{})
	m.Add(control.NewAgent{Name: "agent", URL: url})
	c := m.Caller("agent", a2a.JSONRPC, m.Key("alice", ""))
	asked := mustSend(t, c, parleytest.Message(fresh("tck-input-required"), "work"))
	turn := parleytest.Message(fresh("ref-hold"), "the answer")
	turn.Message.TaskID = asked.ID
	states := make(chan a2a.TaskState, 2)
	var done sync.WaitGroup
	for range cap(states) {
		done.Go(func() {
			out, err := c.SendMessage(t.Context(), turn)
			if err != nil || out.Task == nil {
				t.Errorf("got %+v, %v", out, err)
				return
			}
			states <- out.Task.Status.State
		})
	}
	if _, err := ref.Arrived(t.Context(), turn.Message.MessageID); err != nil {
		t.Fatal(err)
	}
	if err := ref.SetStatus(asked.ID, a2a.StateCompleted, ""); err != nil {
		t.Fatal(err)
	}
	done.Wait()
	close(states)
	for s := range states {
		if s != a2a.StateCompleted {
			t.Errorf("a caller was told %s", s)
		}
	}
	if n := sends(ref, turn.Message.MessageID); n != 1 {
		t.Errorf("the agent was sent the turn %d times", n)
	}
}

// TestAnonymousMessagesAreNotCompared: anonymous callers are many people, who
// may choose the same id.
func TestAnonymousMessagesAreNotCompared(t *testing.T) {
	m := parleytest.Start(t, parleytest.Options{Configure: func(c *config.Config) { c.Auth.Anonymous = []parley.AgentName{"agent"} }})
	_, url := a2atest.Start(t, a2atest.Options{})
	m.Add(control.NewAgent{Name: "agent", URL: url})
	c := m.Caller("agent", a2a.JSONRPC, "")
	in := parleytest.Message(fresh("tck-complete-task"), "work")
	if one, two := mustSend(t, c, in), mustSend(t, c, in); one.ID == two.ID {
		t.Error("a stranger was given another stranger's task")
	}
}

// TestRepeatAfterARestart: what is remembered is on disk.
func TestRepeatAfterARestart(t *testing.T) {
	m := parleytest.Start(t, parleytest.Options{Configure: func(c *config.Config) { c.Durability = config.DurabilityRelaxed }})
	ref, url := a2atest.Start(t, a2atest.Options{})
	m.Add(control.NewAgent{Name: "agent", URL: url})
	key := m.Key("alice", "")
	in := parleytest.Message(fresh("tck-complete-task"), "work")
	first := mustSend(t, m.Caller("agent", a2a.JSONRPC, key), in)
	m.Restart()
	if again := mustSend(t, m.Caller("agent", a2a.JSONRPC, key), in); again.ID != first.ID {
		t.Errorf("got task %s, want %s", again.ID, first.ID)
	}
	if n := sends(ref, in.Message.MessageID); n != 1 {
		t.Errorf("the agent was sent the message %d times", n)
	}
}
