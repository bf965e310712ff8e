package v03

import (
	"github.com/parley-mesh/parley/internal/jsonwire"
)

// ResultToV1 translates the result of a unary method, reading it tolerantly. That
// of a send may be bare or wrapped, and that of a deletion anything. method is the
// one of 1.0.
func ResultToV1(method string, d Dialect, raw []byte, lim jsonwire.Limits) ([]byte, error) {
	r := reader{dialect: d, lax: true, limits: lim}
	var out any
	var err error
	switch method {
	case sendMessage:
		event, e := r.eventToV1(raw)
		if e == nil && event.Task == nil && event.Message == nil {
			e = problem("", "is neither a task nor a message", "")
		}
		out, err = event, e
	case getTask, cancelTask:
		var in oldTask
		if err = r.into(raw, &in); err == nil {
			out, err = r.taskToV1(&in)
		}
	case createPushConfig, getPushConfig:
		out, err = r.taskPushOf(raw)
	case listPushConfigs:
		out, err = r.pushListToV1(raw)
	case deletePushConfig:
		return []byte("{}"), nil
	default:
		return nil, ErrNoMethod
	}
	if err != nil {
		return nil, err
	}
	return jsonwire.Marshal(out)
}

// ResultFromV1 translates the result of a unary method of 1.0. A list of tasks
// exists in Proto only.
func ResultFromV1(method string, d Dialect, raw []byte, lim jsonwire.Limits) ([]byte, error) {
	r := reader{lax: true, limits: lim}
	switch method {
	case sendMessage:
		var in newEvent
		if err := r.into(raw, &in); err != nil {
			return nil, err
		}
		return r.eventFromV1(&in, d)
	case getTask, cancelTask:
		var in newTask
		if err := r.into(raw, &in); err != nil {
			return nil, err
		}
		out, err := r.taskFromV1(&in, d)
		if err != nil {
			return nil, err
		}
		return jsonwire.Marshal(out)
	case listTasks:
		if d == Proto {
			return r.taskListFromV1(raw)
		}
	case createPushConfig, getPushConfig:
		return PushFromV1(d, raw, lim)
	case listPushConfigs:
		return r.pushListFromV1(d, raw)
	case deletePushConfig:
		if d == RPC {
			return []byte("null"), nil
		}
		return []byte("{}"), nil
	}
	return nil, ErrNoMethod
}

func (r reader) taskListFromV1(raw []byte) ([]byte, error) {
	var in newTaskList
	if err := r.into(raw, &in); err != nil {
		return nil, err
	}
	out := oldTaskList{Tasks: []oldTask{}, NextPageToken: in.NextPageToken}
	for i := range in.Tasks {
		task, err := r.taskFromV1(&in.Tasks[i], Proto)
		if err != nil {
			return nil, under("tasks", err)
		}
		out.Tasks = append(out.Tasks, *task)
	}
	return jsonwire.Marshal(out)
}
