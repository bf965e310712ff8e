package a2a

import "github.com/parley-mesh/parley/internal/jsonwire"

// operation is what the bindings must know of a method.
type operation struct {
	request *jsonwire.Shape
	result  *jsonwire.Shape // of the result, or of each frame
}

var operations = map[Method]operation{
	SendMessage:          {shape[SendMessageRequest](), shape[SendMessageResponse]()},
	SendStreamingMessage: {shape[SendMessageRequest](), shape[StreamResponse]()},
	GetTask:              {shape[GetTaskRequest](), shape[Task]()},
	ListTasks:            {shape[ListTasksRequest](), shape[ListTasksResponse]()},
	CancelTask:           {shape[CancelTaskRequest](), shape[Task]()},
	SubscribeToTask:      {shape[SubscribeToTaskRequest](), shape[StreamResponse]()},
	CreatePushConfig:     {shape[TaskPushNotificationConfig](), shape[TaskPushNotificationConfig]()},
	GetPushConfig:        {shape[PushConfigRequest](), shape[TaskPushNotificationConfig]()},
	ListPushConfigs:      {shape[ListPushConfigsRequest](), shape[ListPushConfigsResponse]()},
	DeletePushConfig:     {shape[PushConfigRequest](), nil},
	GetExtendedCard:      {shape[GetExtendedCardRequest](), shape[Empty]()},
}

func shape[T any]() *jsonwire.Shape { return jsonwire.ShapeOf[T]() }

// requestShape is nil for what is no method.
func requestShape(method string) *jsonwire.Shape { return operations[Method(method)].request }
