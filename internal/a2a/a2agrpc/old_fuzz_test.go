package a2agrpc

import (
	"testing"

	oldpb "github.com/a2aproject/a2a-go/a2apb"
	"google.golang.org/protobuf/proto"

	"github.com/parley-mesh/parley/internal/a2a"
	"github.com/parley-mesh/parley/internal/jsonwire"
)

// FuzzOldRequest gives arbitrary bytes to every method of 0.3: what is taken is
// JSON.
func FuzzOldRequest(f *testing.F) {
	for _, m := range []proto.Message{
		&oldpb.GetTaskRequest{Name: "tasks/t", HistoryLength: 1}, &oldpb.GetTaskPushNotificationConfigRequest{Name: "tasks/t/pushNotificationConfigs/c"},
		&oldpb.SendMessageRequest{Request: &oldpb.Message{MessageId: "m", Role: oldpb.Role_ROLE_USER, Parts: []*oldpb.Part{{Part: &oldpb.Part_File{File: &oldpb.FilePart{File: &oldpb.FilePart_FileWithBytes{FileWithBytes: []byte("aGk=")}}}}}}},
		&oldpb.CreateTaskPushNotificationConfigRequest{Parent: "tasks/t", Config: &oldpb.TaskPushNotificationConfig{PushNotificationConfig: &oldpb.PushNotificationConfig{Url: "https://a.example"}}},
	} {
		f.Add(marshal(f, m))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		for _, m := range a2a.Methods() {
			if m != a2a.ListTasks {
				params, err := oldRequestJSON(m, raw, jsonwire.Limits{})
				if err == nil && !params.IsValid() {
					t.Errorf("%s is read as %s", m, params)
				}
			}
		}
	})
}
