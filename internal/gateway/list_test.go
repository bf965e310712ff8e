package gateway_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/parley-mesh/parley/internal/a2a"
	"github.com/parley-mesh/parley/internal/a2a/a2atest"
	"github.com/parley-mesh/parley/internal/config"
	"github.com/parley-mesh/parley/internal/control"
	"github.com/parley-mesh/parley/internal/parleytest"
)

func int32p(n int32) *int32 { return &n }
func boolp(b bool) *bool    { return &b }

// walk reads all pages of a list and gives the ids in the order they came.
func walk(t *testing.T, c *parleytest.Caller, in a2a.ListTasksRequest) (ids []string, pages int) {
	t.Helper()
	for {
		page, err := c.ListTasks(t.Context(), in)
		if err != nil {
			t.Fatalf("page %d: %v", pages, err)
		}
		pages++
		for _, one := range page.Tasks {
			ids = append(ids, one.ID)
		}
		if page.NextPageToken == "" {
			return ids, pages
		}
		if pages > 100 {
			t.Fatal("the walk does not end")
		}
		in.PageToken = page.NextPageToken
	}
}

// TestListTasksWalk: a walk over the pages gives each of the caller's tasks
// once, newest first, and nobody else's.
func TestListTasksWalk(t *testing.T) {
	m, agent := start(t, nil)
	aliceKey := m.Key("alice", "")
	alice := m.Caller("agent", a2a.JSONRPC, aliceKey)
	bob := m.Caller("agent", a2a.JSONRPC, m.Key("bob", ""))
	begin := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	want := []string{"t-08", "t-09", "t-10", "t-11", "t-04", "t-05", "t-06", "t-07", "t-00", "t-01", "t-02", "t-03"}
	for i := range 12 {
		one := task(fmt.Sprintf("t-%02d", i), fmt.Sprintf("c-%d", i%3), a2a.StateCompleted)
		// Several share a time: the order among them must hold over pages too.
		one.Status.Timestamp = &a2a.Timestamp{Time: begin.Add(time.Duration(i/4) * time.Second)}
		agent.Answer(answersTask(one))
		mustSend(t, alice, parleytest.Message(fresh("m"), "x"))
	}
	agent.Answer(answersTask(task("t-bob", "c-bob", a2a.StateCompleted)))
	mustSend(t, bob, parleytest.Message(fresh("m"), "x"))

	for _, b := range bindings {
		alice := m.Caller("agent", b, aliceKey)
		for _, size := range []int32{1, 3, 4, 5, 12, 13, 100} {
			got, pages := walk(t, alice, a2a.ListTasksRequest{PageSize: int32p(size)})
			if !slices.Equal(got, want) {
				t.Errorf("%s, pages of %d: the walk gave %v, want %v", b, size, got, want)
			}
			if need := (12 + int(size) - 1) / int(size); pages != need {
				t.Errorf("%s, pages of %d: %d pages, want %d", b, size, pages, need)
			}
		}
		page, err := alice.ListTasks(t.Context(), a2a.ListTasksRequest{PageSize: int32p(5), ContextID: "c-1"})
		if err != nil || page.TotalSize != 4 || len(page.Tasks) != 4 || page.PageSize != 5 || page.NextPageToken != "" {
			t.Errorf("one context: %+v, %v", page, err)
		}
		page, err = alice.ListTasks(t.Context(), a2a.ListTasksRequest{StatusTimestampAfter: &a2a.Timestamp{Time: begin.Add(2 * time.Second)}})
		if err != nil || page.TotalSize != 4 || page.PageSize != 50 {
			t.Errorf("since a time: %+v, %v", page, err)
		}
		if page, err = alice.ListTasks(t.Context(), a2a.ListTasksRequest{Status: a2a.StateFailed}); err != nil || page.TotalSize != 0 || page.Tasks == nil {
			t.Errorf("failed ones: %+v, %v; want an empty list", page, err)
		}
		first, err := alice.ListTasks(t.Context(), a2a.ListTasksRequest{PageSize: int32p(5)})
		if err != nil {
			t.Fatal(err)
		}
		for what, in := range map[string]a2a.ListTasksRequest{
			"forged":           {PageToken: "AAAA"},
			"another filter's": {PageToken: first.NextPageToken, Status: a2a.StateFailed},
		} {
			reply, _ := alice.Do(t.Context(), a2a.ListTasks, in)
			wantErr(t, what+" token", reply, a2a.ReasonInvalidParams)
		}
		reply, _ := bob.Do(t.Context(), a2a.ListTasks, a2a.ListTasksRequest{PageSize: int32p(5), PageToken: first.NextPageToken})
		wantErr(t, "another caller's token", reply, a2a.ReasonInvalidParams)
	}
}

// TestListTasksFutureStatus: an agent whose clock is wrong does not keep a task
// in front of all others, and the caller sees what the agent said.
func TestListTasksFutureStatus(t *testing.T) {
	m, agent := start(t, nil)
	c := m.Caller("agent", a2a.JSONRPC, m.Key("alice", ""))
	future := &a2a.Timestamp{Time: time.Date(9999, 12, 31, 23, 59, 59, 0, time.UTC)}
	wrong := task("t-wrong", "c", a2a.StateWorking)
	wrong.Status.Timestamp = future
	agent.Answer(answersTask(wrong))
	mustSend(t, c, parleytest.Message(fresh("m"), "x"))
	late := task("t-late", "c", a2a.StateCompleted)
	late.Status.Timestamp = &a2a.Timestamp{Time: time.Now()}
	agent.Answer(answersTask(late))
	mustSend(t, c, parleytest.Message(fresh("m"), "x"))
	agent.Answer(answersTask(wrong)) // asked for again by every list
	for range 2 {
		page, err := c.ListTasks(t.Context(), a2a.ListTasksRequest{})
		if err != nil || len(page.Tasks) != 2 {
			t.Fatalf("%+v, %v", page, err)
		}
		if page.Tasks[0].ID != "t-late" || page.Tasks[1].ID != "t-wrong" {
			t.Errorf("the list begins with %s", page.Tasks[0].ID)
		}
		for _, one := range page.Tasks {
			if one.ID == "t-wrong" && !one.Status.Timestamp.Equal(future.Time) {
				t.Errorf("the caller sees the time %v, want what the agent said", one.Status.Timestamp)
			}
		}
	}
}

// TestListTasksShowsAsMuchAsAsked: artifacts and history.
func TestListTasksShowsAsMuchAsAsked(t *testing.T) {
	m, agent := start(t, nil)
	c := m.Caller("agent", a2a.HTTPJSON, m.Key("alice", ""))
	one := task("t-1", "c-1", a2a.StateCompleted)
	one.Artifacts = []a2a.Artifact{{ArtifactID: "a", Parts: []a2a.Part{a2a.TextPart("made")}}}
	for i := range 3 {
		one.History = append(one.History, a2a.Message{MessageID: fmt.Sprintf("h-%d", i), Role: a2a.RoleUser, Parts: []a2a.Part{a2a.TextPart("said")}})
	}
	agent.Answer(answersTask(one))
	mustSend(t, c, parleytest.Message(fresh("m"), "x"))
	for _, tc := range []struct {
		in                 a2a.ListTasksRequest
		artifacts, history int
		newest             string
	}{
		{a2a.ListTasksRequest{}, 0, 3, "h-2"},
		{a2a.ListTasksRequest{IncludeArtifacts: boolp(true)}, 1, 3, "h-2"},
		{a2a.ListTasksRequest{IncludeArtifacts: boolp(false), HistoryLength: int32p(2)}, 0, 2, "h-2"},
		{a2a.ListTasksRequest{HistoryLength: int32p(0)}, 0, 0, ""},
		{a2a.ListTasksRequest{HistoryLength: int32p(9)}, 0, 3, "h-2"},
	} {
		page, err := c.ListTasks(t.Context(), tc.in)
		if err != nil || len(page.Tasks) != 1 {
			t.Fatalf("%+v: %+v, %v", tc.in, page, err)
		}
		got := page.Tasks[0]
		if len(got.Artifacts) != tc.artifacts || len(got.History) != tc.history || tc.newest != "" && got.History[len(got.History)-1].MessageID != tc.newest {
			t.Errorf("%+v: got %d artifacts and history %+v", tc.in, len(got.Artifacts), got.History)
		}
	}
}

// TestListTasksRefreshesUnfinishedOnes: the list shows what the agent says now,
// without asking for what can no longer change, and what it said last where it
// does not answer.
func TestListTasksRefreshesUnfinishedOnes(t *testing.T) {
	m := parleytest.Start(t, parleytest.Options{Configure: func(c *config.Config) {
		c.Watch.First = time.Hour // no looks but the list's
		c.Limits.ListRefreshTimeout = 200 * time.Millisecond
	}})
	ref, url := a2atest.Start(t, a2atest.Options{})
	m.Add(control.NewAgent{Name: "agent", URL: url})
	c := m.Caller("agent", a2a.JSONRPC, m.Key("alice", ""))
	mustSend(t, c, parleytest.Message(fresh("tck-complete"), "x"))
	held := parleytest.Message(fresh("ref-hold"), "x")
	held.Configuration = &a2a.SendMessageConfiguration{ReturnImmediately: true}
	open := mustSend(t, c, held)
	before := len(ref.Seen())
	if err := ref.SetStatus(open.ID, a2a.StateCompleted, "done behind the mesh's back"); err != nil {
		t.Fatal(err)
	}
	list, err := c.ListTasks(t.Context(), a2a.ListTasksRequest{})
	if err != nil || len(list.Tasks) != 2 {
		t.Fatalf("%+v, %v", list, err)
	}
	for _, one := range list.Tasks {
		if one.Status.State != a2a.StateCompleted {
			t.Errorf("task %s is listed as %s", one.ID, one.Status.State)
		}
	}
	if asked := ref.Seen()[before:]; len(asked) != 1 || asked[0].TaskID != open.ID {
		t.Errorf("for the list the agent was asked %+v, want one look at %s", asked, open.ID)
	}
	m.WaitCall(control.CallFilter{Task: open.ID, Method: "SendMessage"}, parleytest.Ended) // the list's look ended the call that waited
}

// TestListTasksDoesNotWaitForAnAgent that hangs.
func TestListTasksDoesNotWaitForAnAgent(t *testing.T) {
	m, agent := start(t, func(c *config.Config) {
		c.Watch.First, c.Limits.ListRefreshTimeout = time.Hour, 50*time.Millisecond
	})
	c := m.Caller("agent", a2a.JSONRPC, m.Key("alice", ""))
	agent.Answer(answersTask(task("t-1", "c-1", a2a.StateWorking)))
	mustSend(t, c, parleytest.Message(fresh("m"), "x"))
	agent.Answer(func(ctx context.Context, q *a2a.Request) *a2a.Reply {
		<-ctx.Done()
		return a2a.Fail(a2a.Internal("late"))
	})
	list, err := c.ListTasks(t.Context(), a2a.ListTasksRequest{})
	if err != nil || len(list.Tasks) != 1 || list.Tasks[0].Status.State != a2a.StateWorking {
		t.Errorf("%+v, %v; want the task as last seen", list, err)
	}
}
