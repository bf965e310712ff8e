package v03

import (
	"errors"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/parley-mesh/parley/internal/jsonwire"
)

// Dialect is one of the two JSON forms of version 0.3.
type Dialect string

const (
	RPC   Dialect = "rpc"   // of the JSON-RPC binding
	Proto Dialect = "proto" // ProtoJSON, of the REST binding
)

// Names of the operations in version 1.0.
const (
	sendMessage          = "SendMessage"
	sendStreamingMessage = "SendStreamingMessage"
	getTask              = "GetTask"
	listTasks            = "ListTasks"
	cancelTask           = "CancelTask"
	subscribeToTask      = "SubscribeToTask"
	createPushConfig     = "CreateTaskPushNotificationConfig"
	getPushConfig        = "GetTaskPushNotificationConfig"
	listPushConfigs      = "ListTaskPushNotificationConfigs"
	deletePushConfig     = "DeleteTaskPushNotificationConfig"
	getExtendedCard      = "GetExtendedAgentCard"
)

// rpcNames are the methods of JSON-RPC by their 1.0 names. ListTasks has none.
var rpcNames = map[string]string{
	sendMessage:          "message/send",
	sendStreamingMessage: "message/stream",
	getTask:              "tasks/get",
	cancelTask:           "tasks/cancel",
	subscribeToTask:      "tasks/resubscribe",
	createPushConfig:     "tasks/pushNotificationConfig/set",
	getPushConfig:        "tasks/pushNotificationConfig/get",
	listPushConfigs:      "tasks/pushNotificationConfig/list",
	deletePushConfig:     "tasks/pushNotificationConfig/delete",
	getExtendedCard:      "agent/getAuthenticatedExtendedCard",
}

var v1Names = func() map[string]string {
	names := make(map[string]string, len(rpcNames))
	for v1, old := range rpcNames {
		names[old] = v1
	}
	return names
}()

// RPCMethod is the JSON-RPC method of 0.3 for a method of 1.0; "" where there is
// none, as for ListTasks.
func RPCMethod(v1 string) string { return rpcNames[v1] }

// V1Method is the method of 1.0 for a JSON-RPC method of 0.3; "" where there is none.
func V1Method(rpc string) string { return v1Names[rpc] }

// ErrNoMethod says that version 0.3 does not have the operation in this dialect.
var ErrNoMethod = errors.New("version 0.3 does not have this operation")

// Problems is why a document cannot be translated: what breaks a rule of its
// version, or what the other version cannot say. Paths start at the document.
type Problems []*jsonwire.Error

// Error is the first problem.
func (p Problems) Error() string { return p[0].Error() }

// problem is one Problems about the member at path.
func problem(path, text, fix string) error {
	return Problems{{Kind: jsonwire.KindValue, Path: path, Problem: text, Fix: fix}}
}

// under lets the paths of a problem start one step higher.
func under(step string, err error) error {
	if p, ok := errors.AsType[Problems](err); ok {
		for _, e := range p {
			e.Path = "/" + step + e.Path
		}
	}
	return err
}

// reader reads documents: requests strictly, answers of peers tolerantly.
type reader struct {
	dialect Dialect // of a 0.3 document
	lax     bool
	limits  jsonwire.Limits
}

func (r reader) into(raw []byte, v any) error {
	if found := jsonwire.UnmarshalAll(raw, v, jsonwire.CheckOptions{Limits: r.limits, Lax: r.lax}); found != nil {
		return Problems(found)
	}
	return nil
}

// has tells whether a JSON object has a member, of whatever value but null.
func has(raw []byte, name string) bool {
	v, ok := jsonwire.Get(raw, "/"+jsonwire.EscapePointer(name))
	return ok && string(v) != "null"
}

// given is a free JSON value without a null that stands for absent.
func given(raw jsontext.Value) jsontext.Value {
	if string(raw) == "null" {
		return nil
	}
	return raw
}

// nonNil is a list that is written as [] rather than left out.
func nonNil[T any](list []T) []T {
	if list == nil {
		return []T{}
	}
	return list
}
