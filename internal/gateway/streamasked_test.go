package gateway_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/parley-mesh/parley/internal/a2a"
	"github.com/parley-mesh/parley/internal/config"
	"github.com/parley-mesh/parley/internal/control"
	"github.com/parley-mesh/parley/internal/parleytest"
	"github.com/parley-mesh/parley/internal/registry"
	"github.com/parley-mesh/parley/internal/stream"
)

// asks is a frame by which an agent asks for a credential.
func asks(id string) a2a.Frame {
	tk := asking(id)
	return a2a.StreamFrame(a2a.StreamResponse{StatusUpdate: &a2a.TaskStatusUpdateEvent{TaskID: id, ContextID: tk.ContextID, Status: tk.Status}})
}

// TestWhatWasAskedBeforeItWasForbidden is in the journal, and shown to nobody any
// more: neither to who begins with the task nor to who goes on. Once the task has
// gone on, it stands in the place of what was asked.
func TestWhatWasAskedBeforeItWasForbidden(t *testing.T) {
	m, agent := start(t, func(c *config.Config) { c.Watch.First = time.Hour })
	key := m.Key("alice", "")
	frames := make(chan a2a.Frame, 8)
	agent.Answer(streams(frames))
	id := fresh("t")
	frames <- taskFrame(task(id, "c-"+id, a2a.StateWorking))
	frames <- asks(id)
	opened := sendStream(t, m, key)
	begun, asked := opened.Must(), opened.Must()
	if !strings.Contains(asked.Data, "ASKED-FOR") {
		t.Fatalf("while it may ask: %+v", asked)
	}
	if late := subscribe(t, m, key, id, "").Must(); !strings.Contains(late.Data, "ASKED-FOR") {
		t.Fatalf("a late subscriber, while it may ask: %+v", late)
	}
	if _, err := m.Admin.SetAgent(t.Context(), "agent", control.AgentSettings{AuthRequired: registry.AuthForbid}); err != nil {
		t.Fatal(err)
	}

	for what, after := range map[string]string{"without an id": "", "behind the event before": begun.ID} {
		s := subscribe(t, m, key, id, after)
		if s.Lines.Scan(); s.Status != http.StatusForbidden || strings.Contains(s.Lines.Text(), "ASKED-FOR") {
			t.Errorf("%s: status %d, %s", what, s.Status, s.Lines.Text())
		}
	}
	for _, b := range bindings {
		reply, call := m.Caller("agent", b, key).Do(t.Context(), a2a.SubscribeToTask, a2a.SubscribeToTaskRequest{ID: id})
		wantErr(t, "subscribed by "+string(b), reply, a2a.ReasonForbidden)
		wantCall(t, m, call, "denied", "auth_required_forbidden")
	}

	behind := subscribe(t, m, key, id, asked.ID) // has seen it, and goes on
	frames <- status(id, "c-"+id, a2a.StateWorking)
	wantTexts(t, "behind what was asked", []parleytest.Event{behind.Must()}, "TASK_STATE_WORKING")
	for what, after := range map[string]string{"without an id": "", "behind the event before": begun.ID} {
		e := subscribe(t, m, key, id, after).Must()
		if strings.Contains(e.Data, "ASKED-FOR") || after != "" && !strings.Contains(e.Data, stream.GapKey) {
			t.Errorf("%s, once the task went on: %+v", what, e)
		}
		wantTexts(t, what, []parleytest.Event{e}, "task TASK_STATE_WORKING")
	}
	frames <- asks(id)
	if rest := behind.Rest(); len(rest) != 1 || strings.Contains(rest[0].Data, "ASKED-FOR") {
		t.Errorf("what is asked now goes to a subscriber who was there before: %+v", rest)
	}
	frames <- status(id, "c-"+id, a2a.StateCompleted)
	close(frames)
}
