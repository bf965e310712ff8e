package a2agrpc

import (
	"bytes"
	"math"
	"strings"
	"testing"

	"github.com/a2aproject/a2a-go/v2/a2apb/v1"
	"github.com/go-json-experiment/json/jsontext"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/parley-mesh/parley/internal/a2a"
	"github.com/parley-mesh/parley/internal/jsonwire"
)

// TestResultsKeepTheirMeaning: JSON that becomes a message and JSON again is the
// same, but for what protobuf cannot say.
func TestResultsKeepTheirMeaning(t *testing.T) {
	const message = `{"messageId":"m","role":"ROLE_AGENT","parts":[`
	for name, test := range map[string]struct {
		method   a2a.Method
		in, want string // want empty: the same
	}{
		"text":              {a2a.SendMessage, `{"message":` + message + `{"text":""},{"text":"é\u2028\n\""}]}}`, `{"message":` + message + `{"text":""},{"text":"é` + "\u2028" + `\n\""}]}}`},
		"bytes":             {a2a.SendMessage, `{"message":` + message + `{"raw":"","filename":"a"},{"raw":"-_8"}]}}`, `{"message":` + message + `{"raw":"","filename":"a"},{"raw":"+/8="}]}}`},
		"values":            {a2a.SendMessage, `{"message":` + message + `{"data":null},{"data":false},{"data":[1,-0.5,"x",null,{"b":{"c":[]}}]},{"data":{}}]}}`, ""},
		"numbers":           {a2a.SendMessage, `{"message":` + message + `{"data":[9007199254740993,1e3,123456789012345680000,1e-7,1.50]}]}}`, `{"message":` + message + `{"data":[9007199254740992,1000,123456789012345680000,1e-07,1.5]}]}}`},
		"unknown members":   {a2a.SendMessage, `{"message":{"messageId":"m","role":"ROLE_AGENT","parts":[{"text":"a","x":{"y":[1]}}],"x-mood":1},"later":[{}]}`, `{"message":` + message + `{"text":"a"}]}}`},
		"nulls":             {a2a.GetTask, `{"id":"t","contextId":null,"status":{"state":"TASK_STATE_WORKING","message":null},"artifacts":null,"metadata":null}`, `{"id":"t","status":{"state":"TASK_STATE_WORKING"}}`},
		"enums by number":   {a2a.GetTask, `{"id":"t","status":{"state":3}}`, `{"id":"t","status":{"state":"TASK_STATE_COMPLETED"}}`},
		"times":             {a2a.GetTask, `{"id":"t","status":{"state":"TASK_STATE_WORKING","timestamp":"2026-01-02T03:04:05.123456789+01:00"}}`, `{"id":"t","status":{"state":"TASK_STATE_WORKING","timestamp":"2026-01-02T02:04:05.123456789Z"}}`},
		"an empty page":     {a2a.ListTasks, `{"tasks":[],"nextPageToken":"","pageSize":50,"totalSize":0}`, ""},
		"an event":          {a2a.SubscribeToTask, `{"artifactUpdate":{"taskId":"t","contextId":"","artifact":{"artifactId":"a","parts":[{"text":"x"}]},"append":true}}`, ""},
		"explicit false":    {a2a.GetExtendedCard, `{"name":"n","description":"","supportedInterfaces":[],"version":"1","capabilities":{"streaming":false},"securitySchemes":{"k":{"httpAuthSecurityScheme":{"scheme":"Bearer"}}},"securityRequirements":[{"schemes":{"k":{"list":["a"]}}}],"defaultInputModes":[],"defaultOutputModes":[],"skills":[]}`, ""},
		"a deletion":        {a2a.DeletePushConfig, `{}`, ""},
		"metadata in order": {a2a.GetTask, `{"id":"t","status":{"state":"TASK_STATE_WORKING"},"metadata":{"b":1,"a":{"z":true}}}`, `{"id":"t","status":{"state":"TASK_STATE_WORKING"},"metadata":{"a":{"z":true},"b":1}}`},
	} {
		t.Run(name, func(t *testing.T) {
			raw, err := resultMessage(test.method, jsontext.Value(test.in), jsonwire.Limits{})
			if err != nil {
				t.Fatal(err)
			}
			got, err := resultJSON(test.method, raw, jsonwire.Limits{})
			if err != nil {
				t.Fatal(err)
			}
			want := test.want
			if want == "" {
				want = test.in
			}
			if string(got) != want {
				t.Errorf("in   %s\ngot  %s\nwant %s", test.in, got, want)
			}
		})
	}
}

func marshal(t testing.TB, m proto.Message) []byte {
	t.Helper()
	raw, err := proto.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

// TestMessagesBecomeJSON: what only protobuf can say.
func TestMessagesBecomeJSON(t *testing.T) {
	part := func(v *structpb.Value) *a2apb.SendMessageRequest {
		return &a2apb.SendMessageRequest{Message: &a2apb.Message{MessageId: "m", Role: a2apb.Role_ROLE_USER, Parts: []*a2apb.Part{{Content: &a2apb.Part_Data{Data: v}}}}}
	}
	zero, seven := int32(0), int32(7)
	for name, test := range map[string]struct {
		method a2a.Method
		m      proto.Message
		want   string
		err    string
	}{
		"a value that holds nothing": {a2a.SendMessage, part(&structpb.Value{}), `{"message":{"messageId":"m","role":"ROLE_USER","parts":[{"data":null}]}}`, ""},
		"not a number":               {a2a.SendMessage, part(structpb.NewNumberValue(math.NaN())), "", "message.parts[0].data is no number"},
		"a strange role":             {a2a.SendMessage, &a2apb.SendMessageRequest{Message: &a2apb.Message{Role: 9}}, `{"message":{"role":9}}`, ""},
		"an empty message":           {a2a.SendMessage, &a2apb.SendMessageRequest{}, `{}`, ""},
		"no history":                 {a2a.GetTask, &a2apb.GetTaskRequest{Id: "t", HistoryLength: &zero}, `{"id":"t","historyLength":0}`, ""},
		"a page size of 0":           {a2a.ListTasks, &a2apb.ListTasksRequest{PageSize: &zero}, `{}`, ""},
		"a page size":                {a2a.ListTasks, &a2apb.ListTasksRequest{PageSize: &seven}, `{"pageSize":7}`, ""},
		"a time out of bounds":       {a2a.ListTasks, &a2apb.ListTasksRequest{StatusTimestampAfter: &timestamppb.Timestamp{Seconds: 1 << 40}}, "", "statusTimestampAfter is no time of the years 1 to 9999"},
		"a tenant elsewhere":         {a2a.ListPushConfigs, &a2apb.ListTaskPushNotificationConfigsRequest{TaskId: "t", Tenant: "x"}, `{"tenant":"x","taskId":"t"}`, ""},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := requestJSON(test.method, marshal(t, test.m), jsonwire.Limits{})
			if string(got) != test.want || (err != nil) != (test.err != "") || err != nil && !strings.Contains(err.Error(), test.err) {
				t.Errorf("got %s, %v\nwant %s, %s", got, err, test.want, test.err)
			}
		})
	}
	for name, raw := range map[string][]byte{
		"cut short": {0x12, 0x10, 0x00}, "no UTF-8": {0x0a, 0x01, 0xff}, "a broken tag": {0xff, 0xff},
		"nested too deeply": deep(400),
	} {
		if got, err := requestJSON(a2a.SendMessage, raw, jsonwire.Limits{}); err == nil {
			t.Errorf("%s was read as %s", name, got)
		}
	}
}

// deep is a message whose metadata nests values n times.
func deep(n int) []byte {
	value := structpb.NewNullValue()
	for range n {
		value = structpb.NewListValue(&structpb.ListValue{Values: []*structpb.Value{value}})
	}
	raw, err := proto.Marshal(&a2apb.SendMessageRequest{Metadata: &structpb.Struct{Fields: map[string]*structpb.Value{"a": value}}})
	if err != nil {
		panic(err)
	}
	return raw
}

// strange is a field that no version of the protocol has.
func strange(text string) []byte {
	return protowire.AppendString(protowire.AppendTag(nil, 1999, protowire.BytesType), text)
}

// TestEditsLeaveTheRest: what an edit is not about stays byte for byte, at any depth.
func TestEditsLeaveTheRest(t *testing.T) {
	message := append(marshal(t, &a2apb.Message{MessageId: "m", Role: a2apb.Role_ROLE_USER, ReferenceTaskIds: []string{"a", "b"}}), strange("inside")...)
	request := append(strange("before"), protowire.AppendBytes(protowire.AppendTag(nil, 2, protowire.BytesType), message)...)
	request = append(append(request, strange("after")...), marshal(t, &a2apb.SendMessageRequest{Tenant: "old"})...)
	read := func(raw []byte) *a2apb.SendMessageRequest {
		t.Helper()
		m := new(a2apb.SendMessageRequest)
		if err := proto.Unmarshal(raw, m); err != nil {
			t.Fatal(err)
		}
		if want := append(strange("before"), strange("after")...); !bytes.Equal(m.ProtoReflect().GetUnknown(), want) ||
			!bytes.Equal(m.Message.ProtoReflect().GetUnknown(), strange("inside")) {
			t.Errorf("fields were lost: %q and inside %q", m.ProtoReflect().GetUnknown(), m.Message.ProtoReflect().GetUnknown())
		}
		return m
	}
	for _, test := range []struct {
		path, value, tenant, references string
	}{
		{"/tenant", `"new"`, "new", "a b"},
		{"/tenant", "", "", "a b"},
		{"/message/referenceTaskIds", `["b"]`, "old", "b"},
		{"/message/referenceTaskIds", "", "old", ""},
		{"/message/contextId", "", "old", "a b"},
	} {
		var value jsontext.Value
		if test.value != "" {
			value = jsontext.Value(test.value)
		}
		raw, err := editRequest(a2a.SendMessage, request, test.path, value)
		if err != nil {
			t.Fatal(err)
		}
		m := read(raw)
		if m.Tenant != test.tenant || strings.Join(m.Message.ReferenceTaskIds, " ") != test.references || m.Message.MessageId != "m" {
			t.Errorf("%s = %s gave %v", test.path, test.value, m)
		}
		if got, ok := tenantOf(a2a.SendMessage, raw); !ok || got != test.tenant {
			t.Errorf("%s = %s: tenant %q", test.path, test.value, got)
		}
	}
	raw, err := editRequest(a2a.ListPushConfigs, marshal(t, &a2apb.ListTaskPushNotificationConfigsRequest{TaskId: "t"}), "/tenant", jsontext.Value(`"x"`))
	if got, ok := tenantOf(a2a.ListPushConfigs, raw); err != nil || !ok || got != "x" || !bytes.Contains(raw, []byte{4<<3 | 2, 1, 'x'}) {
		t.Errorf("the tenant in its own field: %x, %v", raw, err)
	}
	if _, err := editRequest(a2a.SendMessage, nil, "/message/contextId", jsontext.Value(`"c"`)); err == nil {
		t.Error("a member was set in a message that is not there")
	}
}

func FuzzRequest(f *testing.F) {
	f.Add(marshal(f, &a2apb.SendMessageRequest{Tenant: "agents.x", Message: &a2apb.Message{MessageId: "m", Parts: []*a2apb.Part{{Content: &a2apb.Part_Text{Text: "a"}}}}}))
	f.Add(deep(5))
	f.Add(append(strange("x"), 0x0a, 0x01, 'a'))
	f.Fuzz(func(t *testing.T, raw []byte) {
		for _, m := range a2a.Methods() {
			tenant, readable := tenantOf(m, raw)
			first, err := requestJSON(m, raw, jsonwire.Limits{})
			if err != nil {
				continue
			}
			if !readable {
				t.Fatalf("%s: decoded, and no tenant could be read", m)
			}
			if e := jsonwire.Valid(first, jsonwire.Limits{MaxBytes: 1 << 30, MaxDepth: 1000}); e != nil {
				t.Fatalf("%s: not JSON: %v: %s", m, e, first)
			}
			again, err := requestMessage(m, first, jsonwire.Limits{})
			if err != nil {
				t.Fatalf("%s: %s does not go back: %v", m, first, err)
			}
			if second, err := requestJSON(m, again, jsonwire.Limits{}); err != nil || !bytes.Equal(first, second) {
				t.Fatalf("%s: %s became %s, %v", m, first, second, err)
			}
			moved, err := editRequest(m, raw, "/tenant", jsontext.Value(`"agents.y"`))
			if now, _ := tenantOf(m, moved); err != nil || now != "agents.y" {
				t.Fatalf("%s: tenant %q became %q, %v", m, tenant, now, err)
			}
		}
	})
}
