package a2a

import "github.com/go-json-experiment/json/jsontext"

// The data model. Member names, order and rules are those of the protocol's
// proto file; the wire tags say what is required and what Facts report (see
// jsonwire.Shape). Unknown holds members this version does not know, so that
// decoding and encoding a message loses nothing. A jsontext.Value marked object
// is a free JSON object (Struct). Fields without omitzero are always written.

// Task is the unit of work an agent keeps.
type Task struct {
	ID        string         `json:"id" wire:"required,nonempty,id,fact=taskId"`
	ContextID string         `json:"contextId,omitzero" wire:"id,fact=contextId"`
	Status    TaskStatus     `json:"status" wire:"required"`
	Artifacts []Artifact     `json:"artifacts,omitzero" wire:"quiet"`
	History   []Message      `json:"history,omitzero" wire:"quiet"`
	Metadata  jsontext.Value `json:"metadata,omitzero" wire:"object"`
	Unknown   jsontext.Value `json:",embed"`
}

// TaskStatus is a task's state at a time.
type TaskStatus struct {
	State     TaskState      `json:"state" wire:"required,fact=state"`
	Message   *Message       `json:"message,omitzero" wire:"quiet"`
	Timestamp *Timestamp     `json:"timestamp,omitzero" wire:"fact=timestamp"`
	Unknown   jsontext.Value `json:",embed"`
}

// Message is one turn of a conversation.
type Message struct {
	MessageID        string         `json:"messageId" wire:"required,nonempty,id,fact=messageId"`
	ContextID        string         `json:"contextId,omitzero" wire:"id,fact=contextId"`
	TaskID           string         `json:"taskId,omitzero" wire:"id,fact=taskId"`
	Role             Role           `json:"role" wire:"required,fact=role"`
	Parts            []Part         `json:"parts" wire:"required,nonempty"`
	Metadata         jsontext.Value `json:"metadata,omitzero" wire:"object"`
	Extensions       []string       `json:"extensions,omitzero"`
	ReferenceTaskIDs []string       `json:"referenceTaskIds,omitzero" wire:"fact=referenceTaskIds"`
	Unknown          jsontext.Value `json:",embed"`
}

// Part is one piece of content: exactly one of Text, Raw, URL and Data is set.
// Data holds any JSON value, null included.
type Part struct {
	Text      *string        `json:"text,omitzero" wire:"oneof"`
	Raw       Bytes          `json:"raw,omitzero" wire:"oneof"`
	URL       *string        `json:"url,omitzero" wire:"oneof"`
	Data      jsontext.Value `json:"data,omitzero" wire:"oneof"`
	Metadata  jsontext.Value `json:"metadata,omitzero" wire:"object"`
	Filename  string         `json:"filename,omitzero"`
	MediaType string         `json:"mediaType,omitzero"`
	Unknown   jsontext.Value `json:",embed"`
}

// TextPart is a part that holds text.
func TextPart(text string) Part { return Part{Text: &text} }

// DataPart is a part that holds a JSON value.
func DataPart(value jsontext.Value) Part { return Part{Data: value} }

// FilePart is a part that holds a file's content.
func FilePart(name, mediaType string, content []byte) Part {
	if content == nil {
		content = []byte{}
	}
	return Part{Raw: content, Filename: name, MediaType: mediaType}
}

// LinkPart is a part that refers to a file.
func LinkPart(url, mediaType string) Part { return Part{URL: &url, MediaType: mediaType} }

// Artifact is something a task produced.
type Artifact struct {
	ArtifactID  string         `json:"artifactId" wire:"required,nonempty,id"`
	Name        string         `json:"name,omitzero"`
	Description string         `json:"description,omitzero"`
	Parts       []Part         `json:"parts" wire:"required,nonempty"`
	Metadata    jsontext.Value `json:"metadata,omitzero" wire:"object"`
	Extensions  []string       `json:"extensions,omitzero"`
	Unknown     jsontext.Value `json:",embed"`
}

// TaskStatusUpdateEvent tells that a task's status changed.
type TaskStatusUpdateEvent struct {
	TaskID    string         `json:"taskId" wire:"required,nonempty,id,fact=taskId"`
	ContextID string         `json:"contextId" wire:"required,id,fact=contextId"`
	Status    TaskStatus     `json:"status" wire:"required"`
	Metadata  jsontext.Value `json:"metadata,omitzero" wire:"object"`
	Unknown   jsontext.Value `json:",embed"`
}

// TaskArtifactUpdateEvent brings an artifact or, with Append, more parts of one.
type TaskArtifactUpdateEvent struct {
	TaskID    string         `json:"taskId" wire:"required,nonempty,id,fact=taskId"`
	ContextID string         `json:"contextId" wire:"required,id,fact=contextId"`
	Artifact  Artifact       `json:"artifact" wire:"required,quiet"`
	Append    bool           `json:"append,omitzero"`
	LastChunk bool           `json:"lastChunk,omitzero"`
	Metadata  jsontext.Value `json:"metadata,omitzero" wire:"object"`
	Unknown   jsontext.Value `json:",embed"`
}

// StreamResponse is one frame of a stream, and the body of a push notification:
// exactly one member is set.
type StreamResponse struct {
	Task           *Task                    `json:"task,omitzero" wire:"oneof,fact=task"`
	Message        *Message                 `json:"message,omitzero" wire:"oneof,fact=message"`
	StatusUpdate   *TaskStatusUpdateEvent   `json:"statusUpdate,omitzero" wire:"oneof,fact=statusUpdate"`
	ArtifactUpdate *TaskArtifactUpdateEvent `json:"artifactUpdate,omitzero" wire:"oneof,fact=artifactUpdate"`
	Unknown        jsontext.Value           `json:",embed"`
}

// SendMessageResponse answers SendMessage: exactly one member is set.
type SendMessageResponse struct {
	Task    *Task          `json:"task,omitzero" wire:"oneof,fact=task"`
	Message *Message       `json:"message,omitzero" wire:"oneof,fact=message"`
	Unknown jsontext.Value `json:",embed"`
}

// SendMessageRequest asks for SendMessage and SendStreamingMessage.
type SendMessageRequest struct {
	Tenant        string                    `json:"tenant,omitzero" wire:"fact=tenant"`
	Message       Message                   `json:"message" wire:"required"`
	Configuration *SendMessageConfiguration `json:"configuration,omitzero"`
	Metadata      jsontext.Value            `json:"metadata,omitzero" wire:"object"`
	Unknown       jsontext.Value            `json:",embed"`
}

// SendMessageConfiguration says how a message is to be answered.
type SendMessageConfiguration struct {
	AcceptedOutputModes []string                    `json:"acceptedOutputModes,omitzero" wire:"fact=acceptedOutputModes"`
	PushConfig          *TaskPushNotificationConfig `json:"taskPushNotificationConfig,omitzero" wire:"quiet,fact=pushConfig"`
	HistoryLength       *int32                      `json:"historyLength,omitzero" wire:"min=0,fact=historyLength"`
	ReturnImmediately   bool                        `json:"returnImmediately,omitzero" wire:"fact=returnImmediately"`
	Unknown             jsontext.Value              `json:",embed"`
}

// GetTaskRequest asks for GetTask.
type GetTaskRequest struct {
	Tenant        string         `json:"tenant,omitzero" wire:"fact=tenant"`
	ID            string         `json:"id" wire:"required,nonempty,id,fact=taskId"`
	HistoryLength *int32         `json:"historyLength,omitzero" wire:"min=0,fact=historyLength"`
	Unknown       jsontext.Value `json:",embed"`
}

// Page sizes of ListTasks.
const (
	DefaultPageSize = 50
	MaxPageSize     = 100
)

// ListTasksRequest asks for ListTasks. Filters narrow together;
// StatusTimestampAfter includes the very time.
type ListTasksRequest struct {
	Tenant               string         `json:"tenant,omitzero" wire:"fact=tenant"`
	ContextID            string         `json:"contextId,omitzero" wire:"id,fact=contextId"`
	Status               TaskState      `json:"status,omitzero"`
	PageSize             *int32         `json:"pageSize,omitzero" wire:"min=1,max=100"`
	PageToken            string         `json:"pageToken,omitzero"`
	HistoryLength        *int32         `json:"historyLength,omitzero" wire:"min=0,fact=historyLength"`
	StatusTimestampAfter *Timestamp     `json:"statusTimestampAfter,omitzero"`
	IncludeArtifacts     *bool          `json:"includeArtifacts,omitzero"`
	Unknown              jsontext.Value `json:",embed"`
}

// ListTasksResponse is one page of tasks. An empty NextPageToken ends the walk;
// TotalSize counts the matches of all pages.
type ListTasksResponse struct {
	Tasks         []Task         `json:"tasks" wire:"required,quiet"`
	NextPageToken string         `json:"nextPageToken" wire:"required"`
	PageSize      int32          `json:"pageSize" wire:"required"`
	TotalSize     int32          `json:"totalSize" wire:"required"`
	Unknown       jsontext.Value `json:",embed"`
}

// CancelTaskRequest asks for CancelTask.
type CancelTaskRequest struct {
	Tenant   string         `json:"tenant,omitzero" wire:"fact=tenant"`
	ID       string         `json:"id" wire:"required,nonempty,id,fact=taskId"`
	Metadata jsontext.Value `json:"metadata,omitzero" wire:"object"`
	Unknown  jsontext.Value `json:",embed"`
}

// SubscribeToTaskRequest asks for SubscribeToTask.
type SubscribeToTaskRequest struct {
	Tenant  string         `json:"tenant,omitzero" wire:"fact=tenant"`
	ID      string         `json:"id" wire:"required,nonempty,id,fact=taskId"`
	Unknown jsontext.Value `json:",embed"`
}

// TaskPushNotificationConfig says where an agent reports a task's progress. It
// is request and response of CreateTaskPushNotificationConfig.
type TaskPushNotificationConfig struct {
	Tenant         string              `json:"tenant,omitzero" wire:"fact=tenant"`
	ID             string              `json:"id,omitzero" wire:"id,fact=configId"`
	TaskID         string              `json:"taskId,omitzero" wire:"id,fact=taskId"`
	URL            string              `json:"url" wire:"required,nonempty"`
	Token          string              `json:"token,omitzero"`
	Authentication *AuthenticationInfo `json:"authentication,omitzero"`
	Unknown        jsontext.Value      `json:",embed"`
}

// AuthenticationInfo is what an agent authenticates a push notification with.
type AuthenticationInfo struct {
	Scheme      string         `json:"scheme" wire:"required,nonempty"`
	Credentials string         `json:"credentials,omitzero"`
	Unknown     jsontext.Value `json:",embed"`
}

// PushConfigRequest asks for the Get and the Delete of one configuration.
type PushConfigRequest struct {
	Tenant  string         `json:"tenant,omitzero" wire:"fact=tenant"`
	TaskID  string         `json:"taskId" wire:"required,nonempty,id,fact=taskId"`
	ID      string         `json:"id" wire:"required,nonempty,id,fact=configId"`
	Unknown jsontext.Value `json:",embed"`
}

// ListPushConfigsRequest asks for ListTaskPushNotificationConfigs.
type ListPushConfigsRequest struct {
	Tenant    string         `json:"tenant,omitzero" wire:"fact=tenant"`
	TaskID    string         `json:"taskId" wire:"required,nonempty,id,fact=taskId"`
	PageSize  int32          `json:"pageSize,omitzero" wire:"min=0"`
	PageToken string         `json:"pageToken,omitzero"`
	Unknown   jsontext.Value `json:",embed"`
}

// ListPushConfigsResponse is one page of configurations.
type ListPushConfigsResponse struct {
	Configs       []TaskPushNotificationConfig `json:"configs,omitzero" wire:"quiet"`
	NextPageToken string                       `json:"nextPageToken,omitzero"`
	Unknown       jsontext.Value               `json:",embed"`
}

// GetExtendedCardRequest asks for GetExtendedAgentCard.
type GetExtendedCardRequest struct {
	Tenant  string         `json:"tenant,omitzero" wire:"fact=tenant"`
	Unknown jsontext.Value `json:",embed"`
}

// Empty is the result of DeleteTaskPushNotificationConfig.
type Empty struct {
	Unknown jsontext.Value `json:",embed"`
}
