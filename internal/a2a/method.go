package a2a

// Binding is a way to carry A2A, named as in an agent card.
type Binding string

const (
	JSONRPC  Binding = "JSONRPC"
	HTTPJSON Binding = "HTTP+JSON"
	GRPC     Binding = "GRPC" // its messages are read and written by package a2agrpc
)

// Version is a protocol version, major and minor only.
type Version string

const (
	V10 Version = "1.0"
	V03 Version = "0.3" // translated to and from 1.0 by package v03
)

// Names of the protocol's headers.
const (
	HeaderVersion    = "A2A-Version"
	HeaderExtensions = "A2A-Extensions"
)

// HeaderOldExtensions is HeaderExtensions in version 0.3.
const HeaderOldExtensions = "X-A2A-Extensions"

// The same as net/http keeps them, so that a lookup allocates nothing.
const (
	keyVersion    = "A2a-Version"
	keyExtensions = "A2a-Extensions"

	keyOldExtensions = "X-A2a-Extensions"
)

// Media types of the bindings.
const (
	mediaJSON = "application/json"
	mediaA2A  = "application/a2a+json"
	mediaSSE  = "text/event-stream"
)

// Method is one of the eleven operations, named as in JSON-RPC and gRPC.
type Method string

const (
	SendMessage          Method = "SendMessage"
	SendStreamingMessage Method = "SendStreamingMessage"
	GetTask              Method = "GetTask"
	ListTasks            Method = "ListTasks"
	CancelTask           Method = "CancelTask"
	SubscribeToTask      Method = "SubscribeToTask"
	CreatePushConfig     Method = "CreateTaskPushNotificationConfig"
	GetPushConfig        Method = "GetTaskPushNotificationConfig"
	ListPushConfigs      Method = "ListTaskPushNotificationConfigs"
	DeletePushConfig     Method = "DeleteTaskPushNotificationConfig"
	GetExtendedCard      Method = "GetExtendedAgentCard"
)

// Methods lists the operations in the order of the specification.
func Methods() []Method {
	return []Method{SendMessage, SendStreamingMessage, GetTask, ListTasks, CancelTask, SubscribeToTask,
		CreatePushConfig, GetPushConfig, ListPushConfigs, DeletePushConfig, GetExtendedCard}
}

// Streaming tells whether the method is answered by a stream of StreamResponse.
func (m Method) Streaming() bool { return m == SendStreamingMessage || m == SubscribeToTask }

// Sends tells whether the method carries a message to the agent.
func (m Method) Sends() bool { return m == SendMessage || m == SendStreamingMessage }

// Push tells whether the method is about push notification configurations.
func (m Method) Push() bool {
	return m == CreatePushConfig || m == GetPushConfig || m == ListPushConfigs || m == DeletePushConfig
}

// ReadOnly tells whether the method changes nothing at the agent.
func (m Method) ReadOnly() bool {
	switch m {
	case GetTask, ListTasks, SubscribeToTask, GetPushConfig, ListPushConfigs, GetExtendedCard:
		return true
	}
	return false
}

// NamesTask tells whether the method is about one existing task, which the
// request names.
func (m Method) NamesTask() bool {
	switch m {
	case GetTask, CancelTask, SubscribeToTask:
		return true
	}
	return m.Push()
}
