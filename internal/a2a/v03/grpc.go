package v03

import (
	"strings"

	"github.com/parley-mesh/parley/internal/jsonwire"
)

// This file reads and writes the requests of gRPC in their ProtoJSON. They are those
// of Proto, but that they name tasks and push configurations in a member of their own,
// as resources, where REST has a path.

// namedQuery is every request that names a resource.
type namedQuery struct {
	Name          string `json:"name,omitzero"`
	Parent        string `json:"parent,omitzero"`
	HistoryLength *int32 `json:"historyLength,omitzero"`
	PageSize      int32  `json:"pageSize,omitzero"`
	PageToken     string `json:"pageToken,omitzero"`
}

// GRPCRequestToV1 translates a request. method is the one of 1.0; ErrNoMethod says
// that gRPC of 0.3 does not have it.
func GRPCRequestToV1(method string, raw []byte, lim jsonwire.Limits) ([]byte, error) {
	switch method {
	case sendMessage, sendStreamingMessage:
		return RequestToV1(method, Proto, raw, lim)
	case createPushConfig:
		return grpcCreateToV1(raw, lim)
	case getExtendedCard:
		return []byte("{}"), nil
	case listTasks:
		return nil, ErrNoMethod
	}
	var in namedQuery
	if err := (reader{dialect: Proto, limits: lim}).into(raw, &in); err != nil {
		return nil, err
	}
	switch method {
	case listPushConfigs:
		task, ok := taskName(in.Parent)
		if !ok {
			return nil, badName("/parent", taskForm)
		}
		return jsonwire.Marshal(newPushQuery{TaskID: task, PageSize: in.PageSize, PageToken: in.PageToken})
	case getPushConfig, deletePushConfig:
		task, config, ok := pushName(in.Name)
		if !ok || config == "" && method == deletePushConfig {
			return nil, badName("/name", pushForm)
		}
		if config == "" {
			config = task // see createToV1
		}
		return jsonwire.Marshal(newPushQuery{TaskID: task, ID: config})
	}
	task, ok := taskName(in.Name)
	if !ok {
		return nil, badName("/name", taskForm)
	}
	out := newTaskQuery{ID: task}
	if in.HistoryLength != nil && *in.HistoryLength != 0 && method == getTask { // 0 is none given
		out.HistoryLength = in.HistoryLength
	}
	return jsonwire.Marshal(out)
}

// GRPCRequestFromV1 translates a request of 1.0.
func GRPCRequestFromV1(method string, raw []byte, lim jsonwire.Limits) ([]byte, error) {
	r := reader{lax: true, limits: lim}
	switch method {
	case sendMessage, sendStreamingMessage, createPushConfig:
		return RequestFromV1(method, Proto, raw, lim)
	case getExtendedCard:
		return []byte("{}"), nil
	case listTasks:
		return nil, ErrNoMethod
	case getPushConfig, deletePushConfig, listPushConfigs:
		var in newPushQuery
		if err := r.into(raw, &in); err != nil {
			return nil, err
		}
		out := namedQuery{PageSize: in.PageSize, PageToken: in.PageToken}
		if method == listPushConfigs {
			out.Parent = nameOfTask(in.TaskID)
		} else {
			out.Name = nameOfTask(in.TaskID) + "/pushNotificationConfigs/" + nameEscapes.Replace(in.ID)
		}
		if err := noTenant(in.Tenant); err != nil {
			return nil, err
		}
		return jsonwire.Marshal(out)
	}
	var in newTaskQuery
	if err := r.into(raw, &in); err != nil {
		return nil, err
	}
	if err := noTenant(in.Tenant); err != nil {
		return nil, err
	}
	if in.HistoryLength != nil && *in.HistoryLength == 0 {
		in.HistoryLength = nil
	}
	return jsonwire.Marshal(namedQuery{Name: nameOfTask(in.ID), HistoryLength: in.HistoryLength})
}

// grpcCreateToV1 reads the creation of a configuration, which names its task twice
// at most.
func grpcCreateToV1(raw []byte, lim jsonwire.Limits) ([]byte, error) {
	parent, _ := jsonwire.Get(raw, "/parent")
	task, ok := taskName(strings.TrimSuffix(jsonwire.String(parent), "/pushNotificationConfigs"))
	if !ok {
		return nil, badName("/parent", taskForm)
	}
	out, err := (reader{dialect: Proto, limits: lim}).createToV1(raw)
	switch {
	case err != nil:
		return nil, err
	case out.TaskID != "" && out.TaskID != task:
		return nil, problem("/config/name", "names another task than parent", "")
	case out.ID == "":
		out.ID = task // see createToV1
	}
	out.TaskID = task
	return jsonwire.Marshal(out)
}

// Forms of names, for messages.
const (
	taskForm = "tasks/TASK"
	pushForm = "tasks/TASK/pushNotificationConfigs/CONFIG"
)

func badName(path, form string) error {
	return problem(path, "must name a task or its configuration", "write "+form)
}

func nameOfTask(id string) string { return "tasks/" + nameEscapes.Replace(id) }

// taskName reads tasks/T.
func taskName(name string) (id string, ok bool) {
	id, _, ok = pushName(name + "/pushNotificationConfigs/")
	return id, ok
}
