package gateway_test

import (
	"context"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/parley-mesh/parley/internal/a2a"
	"github.com/parley-mesh/parley/internal/parleytest"
)

// TestHistoryOfAnAgentThatIgnoresItsLength: what an agent answers passes as it
// came; the mesh's own answer, the list, never holds more than was asked for.
func TestHistoryOfAnAgentThatIgnoresItsLength(t *testing.T) {
	m, agent := start(t, nil)
	tk := task("t-long-history", "c", a2a.StateCompleted)
	for i := range 5 {
		tk.History = append(tk.History, a2a.Message{MessageID: fmt.Sprint("h", i), Role: a2a.RoleUser, Parts: []a2a.Part{a2a.TextPart("x")}})
	}
	agent.Answer(answersTask(tk))
	key := m.Key("alice", "")
	for _, b := range bindings {
		c := m.Caller("agent", b, key)
		for _, n := range []int32{0, 1, 3, 5, 6, math.MaxInt32} {
			in := parleytest.Message("", "x")
			in.Configuration = &a2a.SendMessageConfiguration{HistoryLength: &n}
			if got := mustSend(t, c, in); len(got.History) != 5 {
				t.Errorf("%s: send with %d gives %d messages, want the agent's 5", b, n, len(got.History))
			}
			got, err := c.GetTask(t.Context(), a2a.GetTaskRequest{ID: tk.ID, HistoryLength: &n})
			if err != nil || len(got.History) != 5 {
				t.Errorf("%s: get with %d gives %+v, %v; want the agent's 5 messages", b, n, got, err)
			}
			list, err := c.ListTasks(t.Context(), a2a.ListTasksRequest{HistoryLength: &n})
			if err != nil || len(list.Tasks) != 1 || len(list.Tasks[0].History) != int(min(n, 5)) {
				t.Fatalf("%s: list with %d gives %+v, %v", b, n, list, err)
			}
			if h := list.Tasks[0].History; len(h) > 0 && h[len(h)-1].MessageID != "h4" {
				t.Errorf("%s: list with %d ends with %s, want the newest message", b, n, h[len(h)-1].MessageID)
			}
		}
		if list, err := c.ListTasks(t.Context(), a2a.ListTasksRequest{}); err != nil || len(list.Tasks[0].History) != 5 {
			t.Errorf("%s: without a length: %+v, %v", b, list, err)
		}
	}
}

// TestHistoryLengthsThatAreNone are refused, and nobody is asked.
func TestHistoryLengthsThatAreNone(t *testing.T) {
	m, agent := start(t, nil)
	agent.Answer(answersTask(task("t1", "c", a2a.StateCompleted)))
	key := m.Key("alice", "")
	mustSend(t, m.Caller("agent", a2a.JSONRPC, key), parleytest.Message("", "x"))
	before := len(agent.Seen())
	for _, bad := range []string{"-1", "2147483648", "99999999999999999999", "1.5", `"x"`, "true"} {
		for method, params := range map[string]string{
			"SendMessage": `{"message":{"messageId":"` + fresh("m") + `","role":"ROLE_USER","parts":[{"text":"x"}]},"configuration":{"historyLength":` + bad + `}}`,
			"GetTask":     `{"id":"t1","historyLength":` + bad + `}`, "ListTasks": `{"historyLength":` + bad + `}`,
		} {
			_, raw := post(t, m.URL("agent"), key, `{"jsonrpc":"2.0","id":1,"method":"`+method+`","params":`+params+`}`, nil)
			if !strings.Contains(string(raw), `"code":-32602`) {
				t.Errorf("%s with %s: %s, want -32602", method, bad, raw)
			}
		}
	}
	if len(agent.Seen()) != before {
		t.Error("the agent was asked")
	}
}

// TestTurnsOfTwoCallersAtOnce: an agent that takes one turn of two leaves the
// other's caller with the agent's own words, and the task with one record each.
func TestTurnsOfTwoCallersAtOnce(t *testing.T) {
	m, agent := start(t, nil)
	agent.Answer(answersTask(task("t-turns", "c", a2a.StateInputRequired)))
	alice := m.Key("alice", "")
	mustSend(t, m.Caller("agent", a2a.JSONRPC, alice), parleytest.Message("", "x"))
	busy := make(chan struct{}, 1)
	arrived, release := make(chan struct{}), make(chan struct{})
	agent.Answer(func(ctx context.Context, q *a2a.Request) *a2a.Reply {
		if q.Method == a2a.SendMessage {
			select {
			case busy <- struct{}{}:
				close(arrived)
				<-release
			default:
				return a2a.Fail(a2a.UnsupportedOperation("one turn at a time"))
			}
		}
		return answersTask(task("t-turns", "c", a2a.StateCompleted))(ctx, q)
	})
	turn := func() a2a.SendMessageRequest {
		in := parleytest.Message("", "the answer")
		in.Message.TaskID = "t-turns"
		return in
	}
	first := make(chan string, 1)
	go func() {
		reply, id := m.Caller("agent", a2a.HTTPJSON, alice).Do(context.Background(), a2a.SendMessage, turn())
		if reply.Err != nil {
			t.Error(reply.Err)
		}
		first <- id
	}()
	<-arrived
	reply, second := m.Caller("agent", a2a.GRPC, alice).Do(t.Context(), a2a.SendMessage, turn())
	wantErr(t, "the second turn", reply, a2a.ReasonUnsupportedOperation)
	wantCall(t, m, second, "agent_error", "UNSUPPORTED_OPERATION")
	close(release)
	wantCall(t, m, <-first, "ok", "")
}
