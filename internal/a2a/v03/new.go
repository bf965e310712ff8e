package v03

import "github.com/go-json-experiment/json/jsontext"

// The data model of version 1.0, as far as it is translated. Package a2a has the
// one that rules what 1.0 may hold; it checks what is read and written here.

type newMessage struct {
	MessageID        string         `json:"messageId" wire:"required"`
	ContextID        string         `json:"contextId,omitzero"`
	TaskID           string         `json:"taskId,omitzero"`
	Role             enum           `json:"role" wire:"required"`
	Parts            []newPart      `json:"parts" wire:"required"`
	Metadata         jsontext.Value `json:"metadata,omitzero" wire:"object"`
	Extensions       []string       `json:"extensions,omitzero"`
	ReferenceTaskIDs []string       `json:"referenceTaskIds,omitzero"`
}

type newPart struct {
	Text      *string        `json:"text,omitzero" wire:"oneof"`
	Raw       *string        `json:"raw,omitzero" wire:"oneof"`
	URL       *string        `json:"url,omitzero" wire:"oneof"`
	Data      jsontext.Value `json:"data,omitzero" wire:"oneof"`
	Metadata  jsontext.Value `json:"metadata,omitzero" wire:"object"`
	Filename  string         `json:"filename,omitzero"`
	MediaType string         `json:"mediaType,omitzero"`
}

type newTask struct {
	ID        string         `json:"id" wire:"required"`
	ContextID string         `json:"contextId,omitzero"`
	Status    newStatus      `json:"status" wire:"required"`
	Artifacts []newArtifact  `json:"artifacts,omitzero"`
	History   []newMessage   `json:"history,omitzero"`
	Metadata  jsontext.Value `json:"metadata,omitzero" wire:"object"`
}

type newStatus struct {
	State     enum        `json:"state" wire:"required"`
	Message   *newMessage `json:"message,omitzero"`
	Timestamp string      `json:"timestamp,omitzero"`
}

type newArtifact struct {
	ArtifactID  string         `json:"artifactId" wire:"required"`
	Name        string         `json:"name,omitzero"`
	Description string         `json:"description,omitzero"`
	Parts       []newPart      `json:"parts" wire:"required"`
	Metadata    jsontext.Value `json:"metadata,omitzero" wire:"object"`
	Extensions  []string       `json:"extensions,omitzero"`
}

type newStatusEvent struct {
	TaskID    string         `json:"taskId" wire:"required"`
	ContextID string         `json:"contextId"`
	Status    newStatus      `json:"status" wire:"required"`
	Metadata  jsontext.Value `json:"metadata,omitzero" wire:"object"`
}

type newArtifactEvent struct {
	TaskID    string         `json:"taskId" wire:"required"`
	ContextID string         `json:"contextId"`
	Artifact  newArtifact    `json:"artifact" wire:"required"`
	Append    bool           `json:"append,omitzero"`
	LastChunk bool           `json:"lastChunk,omitzero"`
	Metadata  jsontext.Value `json:"metadata,omitzero" wire:"object"`
}

// newEvent is an element of a stream; the result of a send has its first two members.
type newEvent struct {
	Task           *newTask          `json:"task,omitzero" wire:"oneof"`
	Message        *newMessage       `json:"message,omitzero" wire:"oneof"`
	StatusUpdate   *newStatusEvent   `json:"statusUpdate,omitzero" wire:"oneof"`
	ArtifactUpdate *newArtifactEvent `json:"artifactUpdate,omitzero" wire:"oneof"`
}

type newSend struct {
	Tenant        string            `json:"tenant,omitzero"`
	Message       newMessage        `json:"message" wire:"required"`
	Configuration *newConfiguration `json:"configuration,omitzero"`
	Metadata      jsontext.Value    `json:"metadata,omitzero" wire:"object"`
}

type newConfiguration struct {
	AcceptedOutputModes []string `json:"acceptedOutputModes,omitzero"`
	PushConfig          *newPush `json:"taskPushNotificationConfig,omitzero"`
	HistoryLength       *int32   `json:"historyLength,omitzero"`
	ReturnImmediately   bool     `json:"returnImmediately,omitzero"`
}

// newTaskQuery is the request of GetTask, CancelTask and SubscribeToTask.
type newTaskQuery struct {
	Tenant        string         `json:"tenant,omitzero"`
	ID            string         `json:"id" wire:"required"`
	HistoryLength *int32         `json:"historyLength,omitzero"`
	Metadata      jsontext.Value `json:"metadata,omitzero" wire:"object"`
}

type newPush struct {
	Tenant         string   `json:"tenant,omitzero"`
	ID             string   `json:"id,omitzero"`
	TaskID         string   `json:"taskId,omitzero"`
	URL            string   `json:"url" wire:"required"`
	Token          string   `json:"token,omitzero"`
	Authentication *newAuth `json:"authentication,omitzero"`
}

type newAuth struct {
	Scheme      string `json:"scheme" wire:"required"`
	Credentials string `json:"credentials,omitzero"`
}

// newPushQuery is the request of getting, listing and deleting configurations.
type newPushQuery struct {
	Tenant    string `json:"tenant,omitzero"`
	TaskID    string `json:"taskId" wire:"required"`
	ID        string `json:"id,omitzero"`
	PageSize  int32  `json:"pageSize,omitzero"`
	PageToken string `json:"pageToken,omitzero"`
}

type newPushList struct {
	Configs       []newPush `json:"configs,omitzero"`
	NextPageToken string    `json:"nextPageToken,omitzero"`
}

type newTaskList struct {
	Tasks         []newTask `json:"tasks" wire:"required"`
	NextPageToken string    `json:"nextPageToken,omitzero"`
}

type newError struct {
	Code    int              `json:"code" wire:"required"`
	Message string           `json:"message"`
	Data    []jsontext.Value `json:"data,omitzero"`
}
