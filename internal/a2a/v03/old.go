package v03

import "github.com/go-json-experiment/json/jsontext"

// The data model of version 0.3. Each type holds the members of both dialects; the
// conversion says which belong to the one at hand.

type oldMessage struct {
	Kind             string         `json:"kind,omitzero"`
	MessageID        string         `json:"messageId" wire:"required,nonempty,id"`
	ContextID        string         `json:"contextId,omitzero" wire:"id"`
	TaskID           string         `json:"taskId,omitzero" wire:"id"`
	Role             enum           `json:"role" wire:"required"`
	Parts            []oldPart      `json:"parts,omitzero"`   // RPC; Proto from later stubs
	Content          []oldPart      `json:"content,omitzero"` // Proto
	Metadata         jsontext.Value `json:"metadata,omitzero" wire:"object"`
	Extensions       []string       `json:"extensions,omitzero"`
	ReferenceTaskIDs []string       `json:"referenceTaskIds,omitzero"`
}

type oldPart struct {
	Kind     string         `json:"kind,omitzero"` // RPC
	Text     *string        `json:"text,omitzero"`
	File     *oldFile       `json:"file,omitzero"`
	Data     jsontext.Value `json:"data,omitzero"` // RPC: the value; Proto: {"data": the value}
	Metadata jsontext.Value `json:"metadata,omitzero" wire:"object"`
}

type oldFile struct {
	Bytes         *string `json:"bytes,omitzero"`         // RPC
	URI           *string `json:"uri,omitzero"`           // RPC
	FileWithBytes *string `json:"fileWithBytes,omitzero"` // Proto
	FileWithURI   *string `json:"fileWithUri,omitzero"`   // Proto
	MimeType      string  `json:"mimeType,omitzero"`
	Name          string  `json:"name,omitzero"`
}

type oldData struct {
	Data jsontext.Value `json:"data,omitzero"`
}

type oldTask struct {
	Kind      string         `json:"kind,omitzero"`
	ID        string         `json:"id" wire:"required,nonempty,id"`
	ContextID *string        `json:"contextId,omitzero" wire:"id"`
	Status    oldStatus      `json:"status" wire:"required"`
	Artifacts []oldArtifact  `json:"artifacts,omitzero"`
	History   []oldMessage   `json:"history,omitzero"`
	Metadata  jsontext.Value `json:"metadata,omitzero" wire:"object"`
}

type oldStatus struct {
	State     enum        `json:"state" wire:"required"`
	Message   *oldMessage `json:"message,omitzero"`
	Timestamp string      `json:"timestamp,omitzero"`
}

type oldArtifact struct {
	ArtifactID  string         `json:"artifactId" wire:"required,nonempty,id"`
	Name        string         `json:"name,omitzero"`
	Description string         `json:"description,omitzero"`
	Parts       []oldPart      `json:"parts,omitzero"`
	Metadata    jsontext.Value `json:"metadata,omitzero" wire:"object"`
	Extensions  []string       `json:"extensions,omitzero"`
}

type oldStatusEvent struct {
	Kind      string         `json:"kind,omitzero"`
	TaskID    string         `json:"taskId" wire:"required,nonempty,id"`
	ContextID string         `json:"contextId" wire:"id"`
	Status    oldStatus      `json:"status" wire:"required"`
	Final     *bool          `json:"final,omitzero"`
	Metadata  jsontext.Value `json:"metadata,omitzero" wire:"object"`
}

type oldArtifactEvent struct {
	Kind      string         `json:"kind,omitzero"`
	TaskID    string         `json:"taskId" wire:"required,nonempty,id"`
	ContextID string         `json:"contextId" wire:"id"`
	Artifact  oldArtifact    `json:"artifact" wire:"required"`
	Append    bool           `json:"append,omitzero"`
	LastChunk bool           `json:"lastChunk,omitzero"`
	Metadata  jsontext.Value `json:"metadata,omitzero" wire:"object"`
}

// oldEvent is what Proto wraps the result of a send and the elements of a stream in.
type oldEvent struct {
	Task           *oldTask          `json:"task,omitzero" wire:"oneof"`
	Message        *oldMessage       `json:"message,omitzero" wire:"oneof"`
	StatusUpdate   *oldStatusEvent   `json:"statusUpdate,omitzero" wire:"oneof"`
	ArtifactUpdate *oldArtifactEvent `json:"artifactUpdate,omitzero" wire:"oneof"`
}

type oldSend struct {
	Message       oldMessage        `json:"message" wire:"required"`
	Configuration *oldConfiguration `json:"configuration,omitzero"`
	Metadata      jsontext.Value    `json:"metadata,omitzero" wire:"object"`
}

type oldConfiguration struct {
	AcceptedOutputModes []string `json:"acceptedOutputModes,omitzero"`
	PushConfig          *oldPush `json:"pushNotificationConfig,omitzero"` // RPC
	PushNotification    *oldPush `json:"pushNotification,omitzero"`       // Proto
	HistoryLength       *int32   `json:"historyLength,omitzero" wire:"min=0"`
	Blocking            *bool    `json:"blocking,omitzero"`
}

// oldTaskQuery is the params of tasks/get, tasks/cancel and tasks/resubscribe.
type oldTaskQuery struct {
	ID            string         `json:"id" wire:"required,nonempty,id"`
	HistoryLength *int32         `json:"historyLength,omitzero" wire:"min=0"`
	Metadata      jsontext.Value `json:"metadata,omitzero" wire:"object"`
}

type oldPush struct {
	ID             string   `json:"id,omitzero" wire:"id"`
	URL            string   `json:"url" wire:"required,nonempty"`
	Token          string   `json:"token,omitzero"`
	Authentication *oldAuth `json:"authentication,omitzero"`
}

type oldAuth struct {
	Schemes     []string `json:"schemes,omitzero"`
	Credentials string   `json:"credentials,omitzero"`
}

// oldTaskPush binds a configuration to a task: by taskId in RPC, by the name
// tasks/T/pushNotificationConfigs/C in Proto.
type oldTaskPush struct {
	TaskID string  `json:"taskId,omitzero" wire:"id"`
	Name   string  `json:"name,omitzero"`
	Config oldPush `json:"pushNotificationConfig" wire:"required"`
}

// oldPushCreate is the body of a creation in Proto.
type oldPushCreate struct {
	Parent   string      `json:"parent,omitzero"`
	ConfigID string      `json:"configId,omitzero" wire:"id"`
	Config   oldTaskPush `json:"config" wire:"required"`
}

// oldPushQuery is the params of getting, listing and deleting in RPC.
type oldPushQuery struct {
	ID       string         `json:"id" wire:"required,nonempty,id"`
	ConfigID string         `json:"pushNotificationConfigId,omitzero" wire:"id"`
	Metadata jsontext.Value `json:"metadata,omitzero" wire:"object"`
}

type oldPushList struct {
	Configs       []oldTaskPush `json:"configs"`
	NextPageToken string        `json:"nextPageToken,omitzero"`
}

type oldTaskList struct {
	Tasks         []oldTask `json:"tasks"`
	NextPageToken string    `json:"nextPageToken,omitzero"`
}

type oldError struct {
	Code    int            `json:"code" wire:"required"`
	Message string         `json:"message"`
	Data    jsontext.Value `json:"data,omitzero"`
}
