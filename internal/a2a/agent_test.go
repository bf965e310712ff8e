package a2a

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
)

// echoAgent answers every method with something that shows what arrived.
func echoAgent(_ context.Context, q *Request) *Reply {
	task := func(state TaskState) *Task {
		now := Now()
		return &Task{ID: orElse(q.Facts.TaskID, "t1"), ContextID: "c1", Status: TaskStatus{State: state, Timestamp: &now},
			Metadata: jsontext.Value(fmt.Sprintf(`{"tenant":%q,"method":%q}`, q.Tenant, q.Method))}
	}
	switch q.Method {
	case SendMessage:
		var in SendMessageRequest
		if err := q.Decode(&in); err != nil {
			return Fail(Internal("%v", err))
		}
		if strings.HasPrefix(in.Message.MessageID, "fail-") {
			return Fail(NewError(Reason(strings.TrimPrefix(in.Message.MessageID, "fail-")), "as asked").With("taskId", "t9"))
		}
		return Answer(q.Method, SendMessageResponse{Message: &Message{MessageID: "r-" + in.Message.MessageID, ContextID: "c1", Role: RoleAgent, Parts: in.Message.Parts}})
	case SendStreamingMessage, SubscribeToTask:
		if q.Facts.TaskID == "missing" {
			return Fail(TaskNotFound("missing"))
		}
		frames := make(chan Frame, 3)
		frames <- StreamFrame(StreamResponse{Task: task(StateWorking)})
		frames <- StreamFrame(StreamResponse{ArtifactUpdate: &TaskArtifactUpdateEvent{TaskID: "t1", ContextID: "c1", Artifact: Artifact{ArtifactID: "a1", Parts: []Part{TextPart("hi")}}}})
		if q.Facts.MessageID == "broken" {
			frames <- Frame{Err: NewError(ReasonInternal, "gave up")}
		} else if q.Facts.MessageID != "short" {
			frames <- StreamFrame(StreamResponse{StatusUpdate: &TaskStatusUpdateEvent{TaskID: "t1", ContextID: "c1", Status: TaskStatus{State: StateCompleted}}})
		}
		close(frames)
		return &Reply{Stream: NewChanStream(frames)}
	case GetTask:
		if q.Facts.TaskID == "missing" {
			return Fail(TaskNotFound("missing"))
		}
		return Answer(q.Method, task(StateWorking))
	case CancelTask:
		return Answer(q.Method, task(StateCanceled))
	case ListTasks:
		return Answer(q.Method, ListTasksResponse{PageSize: 50})
	case CreatePushConfig, GetPushConfig:
		return Answer(q.Method, TaskPushNotificationConfig{ID: orElse(q.Facts.ConfigID, "p1"), TaskID: q.Facts.TaskID, URL: "https://hooks.example.com/x"})
	case ListPushConfigs:
		return Answer(q.Method, ListPushConfigsResponse{})
	case DeletePushConfig:
		return Answer(q.Method, Empty{})
	}
	return Fail(NewError(ReasonExtendedCardMissing, "no extended card"))
}

func orElse(a, b string) string {
	if a == "" {
		return b
	}
	return a
}

// startAgent serves a handler and returns its address.
func startAgent(t testing.TB, h Handler) string {
	t.Helper()
	return startServer(t, &Server{Handler: h})
}

func startServer(t testing.TB, server *Server) string {
	t.Helper()
	s := httptest.NewServer(server)
	t.Cleanup(s.Close)
	return s.URL
}

func testTransport(t testing.TB) *http.Transport {
	tr := &http.Transport{DisableCompression: true, MaxIdleConnsPerHost: 64}
	t.Cleanup(tr.CloseIdleConnections)
	return tr
}

func TestConnAllMethods(t *testing.T) {
	url := startAgent(t, HandlerFunc(echoAgent))
	for _, b := range []Binding{JSONRPC, HTTPJSON} {
		for _, tenant := range []string{"", "agents.x"} {
			t.Run(fmt.Sprintf("%s/tenant=%q", b, tenant), func(t *testing.T) {
				c := &Conn{Client: &Client{Transport: testTransport(t)}, Endpoint: Endpoint{URL: url, Binding: b, Version: V10, Tenant: tenant}}
				ctx := t.Context()
				msg := SendMessageRequest{Message: Message{MessageID: "m1", Role: RoleUser, Parts: []Part{TextPart("hello"), DataPart(jsontext.Value("null"))}}}
				got, err := c.SendMessage(ctx, msg)
				if err != nil || got.Message == nil || got.Message.MessageID != "r-m1" || len(got.Message.Parts) != 2 || string(got.Message.Parts[1].Data) != "null" {
					t.Fatalf("SendMessage: %+v, %v", got, err)
				}
				task, err := c.GetTask(ctx, GetTaskRequest{ID: "a/b:cancel"})
				if err != nil || task.ID != "a/b:cancel" {
					t.Fatalf("GetTask: %+v, %v", task, err)
				}
				if want := fmt.Sprintf(`{"tenant":%q,"method":"GetTask"}`, tenant); string(task.Metadata) != want {
					t.Errorf("GetTask metadata = %s, want %s", task.Metadata, want)
				}
				if _, err := c.GetTask(ctx, GetTaskRequest{ID: "missing"}); !hasReason(err, ReasonTaskNotFound) {
					t.Errorf("GetTask missing: %v, want TASK_NOT_FOUND", err)
				}
				if got, err := c.CancelTask(ctx, CancelTaskRequest{ID: "t7", Metadata: jsontext.Value(`{"why":1}`)}); err != nil || got.ID != "t7" || got.Status.State != StateCanceled {
					t.Errorf("CancelTask: %+v, %v", got, err)
				}
				if got, err := c.ListTasks(ctx, ListTasksRequest{Status: StateWorking}); err != nil || got.PageSize != 50 || got.Tasks == nil {
					t.Errorf("ListTasks: %+v, %v", got, err)
				}
				if got, err := c.CreatePushConfig(ctx, TaskPushNotificationConfig{TaskID: "t1", URL: "https://hooks.example.com/x"}); err != nil || got.TaskID != "t1" {
					t.Errorf("CreatePushConfig: %+v, %v", got, err)
				}
				if got, err := c.GetPushConfig(ctx, PushConfigRequest{TaskID: "t1", ID: "p/2"}); err != nil || got.ID != "p/2" {
					t.Errorf("GetPushConfig: %+v, %v", got, err)
				}
				if _, err := c.ListPushConfigs(ctx, ListPushConfigsRequest{TaskID: "t1"}); err != nil {
					t.Errorf("ListPushConfigs: %v", err)
				}
				if err := c.DeletePushConfig(ctx, PushConfigRequest{TaskID: "t1", ID: "p1"}); err != nil {
					t.Errorf("DeletePushConfig: %v", err)
				}
				if _, err := c.GetExtendedCard(ctx); !hasReason(err, ReasonExtendedCardMissing) {
					t.Errorf("GetExtendedCard: %v", err)
				}
				s, err := c.SendStreamingMessage(ctx, msg)
				if err != nil {
					t.Fatalf("SendStreamingMessage: %v", err)
				}
				if kinds, err := drain(ctx, s); kinds != "task artifactUpdate statusUpdate" || err != io.EOF {
					t.Errorf("SendStreamingMessage: %q, %v", kinds, err)
				}
				// In JSON-RPC the error is the stream's only frame.
				s, err = c.SubscribeToTask(ctx, SubscribeToTaskRequest{ID: "missing"})
				if err == nil {
					_, err = drain(ctx, s)
				}
				if !hasReason(err, ReasonTaskNotFound) {
					t.Errorf("SubscribeToTask missing: %v", err)
				}
				msg.Message.MessageID = "broken"
				s, err = c.SendStreamingMessage(ctx, msg)
				if err != nil {
					t.Fatalf("SendStreamingMessage: %v", err)
				}
				if kinds, err := drain(ctx, s); kinds != "task artifactUpdate" || !hasReason(err, ReasonInternal) {
					t.Errorf("broken stream: %q, %v", kinds, err)
				}
			})
		}
	}
}

func hasReason(err error, r Reason) bool {
	e, ok := errors.AsType[*Error](err)
	return ok && e.Reason == r
}

func drain(ctx context.Context, s *EventStream) (string, error) {
	defer s.Close()
	var kinds []string
	for {
		ev, err := s.Next(ctx)
		if err != nil {
			return strings.Join(kinds, " "), err
		}
		switch {
		case ev.Task != nil:
			kinds = append(kinds, "task")
		case ev.Message != nil:
			kinds = append(kinds, "message")
		case ev.StatusUpdate != nil:
			kinds = append(kinds, "statusUpdate")
		case ev.ArtifactUpdate != nil:
			kinds = append(kinds, "artifactUpdate")
		}
	}
}
