package gateway_test

import (
	"encoding/json"
	"net/http"
	"testing"

	old "github.com/a2aproject/a2a-go/a2a"
	oldpb "github.com/a2aproject/a2a-go/a2apb"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"

	"github.com/parley-mesh/parley/internal/a2a/a2atest"
	"github.com/parley-mesh/parley/internal/control"
	"github.com/parley-mesh/parley/internal/parley"
	"github.com/parley-mesh/parley/internal/parleytest"
)

// TestOldInlinePush: what a caller of 0.3 gives with a message is the task's only
// configuration, and found without an id, over each binding and of agents of either
// version.
func TestOldInlinePush(t *testing.T) {
	m := parleytest.Start(t, parleytest.Options{Configure: wildcard})
	key := m.Key("alice", "")
	_, url := a2atest.Start(t, a2atest.Options{})
	m.Add(control.NewAgent{Name: "new", URL: url})
	m.Add(control.NewAgent{Name: "old", URL: a2atest.NewOldAgent(t).URL})
	conn, err := grpc.NewClient("passthrough:///"+m.Ready.GRPCListen, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	raw := oldpb.NewA2AServiceClient(conn)
	for _, name := range []parley.AgentName{"new", "old"} {
		rpc, over := oldCaller(t, m.URL(name), key), oldGRPCCaller(t, m, string(name)+".mesh.test:443", key)
		wants := func(by, taskID, url string, get func() (*old.TaskPushConfig, error)) {
			t.Helper()
			got, err := get()
			if err != nil || got.TaskID != old.TaskID(taskID) || got.Config.URL != url || got.Config.ID != taskID {
				t.Errorf("%s, by %s: got %+v, %v; want the configuration of task %s with its id", name, by, got, err, taskID)
			}
		}

		in := oldMessage(fresh("m"))
		in.Config = &old.MessageSendConfig{PushConfig: &old.PushConfig{URL: hook + "/rpc", Token: "tok"}}
		task := oldTask(t, rpc, in)
		wants("JSON-RPC", string(task.ID), hook+"/rpc", func() (*old.TaskPushConfig, error) {
			return rpc.GetTaskPushConfig(t.Context(), &old.GetTaskPushConfigParams{TaskID: task.ID})
		})

		ctx := metadata.AppendToOutgoingContext(t.Context(), "authorization", "Bearer "+key, "parley-agent", string(name))
		sent, err := raw.SendMessage(ctx, &oldpb.SendMessageRequest{
			Request:       &oldpb.Message{MessageId: fresh("m"), Role: oldpb.Role_ROLE_USER, Parts: []*oldpb.Part{{Part: &oldpb.Part_Text{Text: "hi"}}}},
			Configuration: &oldpb.SendMessageConfiguration{Blocking: true, PushNotification: &oldpb.PushNotificationConfig{Url: hook + "/grpc"}},
		})
		if err != nil || sent.GetTask() == nil {
			t.Fatalf("%s, by gRPC: %v, %v", name, sent, err)
		}
		wants("gRPC", sent.GetTask().GetId(), hook+"/grpc", func() (*old.TaskPushConfig, error) {
			return over.GetTaskPushConfig(t.Context(), &old.GetTaskPushConfigParams{TaskID: old.TaskID(sent.GetTask().GetId())})
		})

		var answer struct{ Task struct{ ID string } }
		body := oldREST(t, http.MethodPost, m.URL(name)+"v1/message:send", key, `{"message":{"messageId":"`+fresh("m")+`","role":"ROLE_USER","content":[{"text":"hi"}]},"configuration":{"blocking":true,"pushNotification":{"url":"`+hook+`/rest"}}}`)
		if err := json.Unmarshal(body, &answer); err != nil || answer.Task.ID == "" {
			t.Fatalf("%s, by HTTP+JSON: %s", name, body)
		}
		wants("HTTP+JSON", answer.Task.ID, hook+"/rest", func() (*old.TaskPushConfig, error) {
			return rpc.GetTaskPushConfig(t.Context(), &old.GetTaskPushConfigParams{TaskID: old.TaskID(answer.Task.ID)})
		})
		// The next one without an id takes its place.
		if _, err := rpc.SetTaskPushConfig(t.Context(), &old.TaskPushConfig{TaskID: task.ID, Config: old.PushConfig{URL: hook + "/again"}}); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if all, err := rpc.ListTaskPushConfig(t.Context(), &old.ListTaskPushConfigParams{TaskID: task.ID}); err != nil || len(all) != 1 || all[0].Config.URL != hook+"/again" {
			t.Errorf("%s: %+v, %v; want the second configuration alone", name, all, err)
		}
	}
}
