package v03

import (
	"net/url"
	"strconv"
	"strings"

	"github.com/parley-mesh/parley/internal/jsonwire"
)

// PushToV1 translates a push configuration that is bound to a task, as
// tasks/pushNotificationConfig/set takes and answers it, reading it tolerantly.
func PushToV1(d Dialect, raw []byte, lim jsonwire.Limits) ([]byte, error) {
	r := reader{dialect: d, lax: true, limits: lim}
	out, err := r.taskPushOf(raw)
	if err != nil {
		return nil, err
	}
	return jsonwire.Marshal(out)
}

// PushFromV1 translates a TaskPushNotificationConfig of 1.0 into one of 0.3.
func PushFromV1(d Dialect, raw []byte, lim jsonwire.Limits) ([]byte, error) {
	var in newPush
	if err := (reader{lax: true, limits: lim}).into(raw, &in); err != nil {
		return nil, err
	}
	out, err := taskPushFromV1(&in, d)
	if err != nil {
		return nil, err
	}
	return jsonwire.Marshal(out)
}

func (r reader) taskPushOf(raw []byte) (*newPush, error) {
	var in oldTaskPush
	if err := r.into(raw, &in); err != nil {
		return nil, err
	}
	return r.taskPushToV1(&in)
}

// pushToV1 reads a configuration. A schemes list names alternatives of which the
// sender chooses: the first, since 1.0 has one.
func (r reader) pushToV1(in *oldPush) (*newPush, error) {
	out := &newPush{ID: in.ID, URL: in.URL, Token: in.Token}
	if a := in.Authentication; a != nil {
		switch {
		case len(a.Schemes) > 0 && a.Schemes[0] != "":
			out.Authentication = &newAuth{Scheme: a.Schemes[0], Credentials: a.Credentials}
		case !r.lax || a.Credentials != "":
			return nil, problem("/authentication/schemes", "names no scheme", `name one, as in ["Bearer"]`)
		}
	}
	return out, nil
}

func (r reader) taskPushToV1(in *oldTaskPush) (*newPush, error) {
	out, err := r.pushToV1(&in.Config)
	if err != nil {
		return nil, under("pushNotificationConfig", err)
	}
	out.TaskID = in.TaskID
	if in.Name == "" {
		return out, nil
	}
	task, config, ok := pushName(in.Name)
	switch {
	case !ok:
		return nil, problem("/name", "is no name of a push configuration", "write tasks/TASK/pushNotificationConfigs/CONFIG")
	case in.TaskID != "" && in.TaskID != task, config != "" && out.ID != "" && out.ID != config:
		return nil, problem("/name", "names another task or configuration than the members beside it", "")
	case config != "":
		out.ID = config
	}
	out.TaskID = task
	return out, nil
}

// pushName reads tasks/T/pushNotificationConfigs/C, in which SDKs may leave C
// empty. Ids stand in it as they are; one with a slash cannot, and is escaped.
func pushName(name string) (task, config string, ok bool) {
	s := strings.Split(name, "/")
	if len(s) != 4 || s[0] != "tasks" || s[2] != "pushNotificationConfigs" || s[1] == "" {
		return "", "", false
	}
	task, err1 := url.PathUnescape(s[1])
	config, err2 := url.PathUnescape(s[3])
	return task, config, err1 == nil && err2 == nil
}

// nameEscapes are the bytes that would make a name ambiguous.
var nameEscapes = strings.NewReplacer("%", "%25", "/", "%2F")

func pushFromV1(in *newPush) (*oldPush, error) {
	out := &oldPush{ID: in.ID, URL: in.URL, Token: in.Token}
	if a := in.Authentication; a != nil {
		out.Authentication = &oldAuth{Schemes: []string{a.Scheme}, Credentials: a.Credentials}
	}
	return out, noTenant(in.Tenant)
}

func taskPushFromV1(in *newPush, d Dialect) (*oldTaskPush, error) {
	config, err := pushFromV1(in)
	if err != nil {
		return nil, err
	}
	out := &oldTaskPush{Config: *config}
	if d == RPC {
		out.TaskID = in.TaskID
	} else {
		out.Name = "tasks/" + nameEscapes.Replace(in.TaskID) + "/pushNotificationConfigs/" + nameEscapes.Replace(in.ID)
	}
	return out, nil
}

// createToV1 reads the creation of a configuration. One without an id is the
// task's only one, with the task's id for its own, as 0.3 SDKs have it: they ask
// for it without naming one.
func (r reader) createToV1(raw []byte) (*newPush, error) {
	if r.dialect == RPC {
		out, err := r.taskPushOf(raw)
		if err != nil {
			return nil, err
		}
		if out.TaskID == "" {
			return nil, problem("/taskId", "is required", "")
		}
		if out.ID == "" {
			out.ID = out.TaskID
		}
		return out, nil
	}
	// The text of 0.3 wraps the configuration, its proto file does not.
	if !has(raw, "config") {
		if has(raw, "url") {
			var bare oldPush
			if err := r.into(raw, &bare); err != nil {
				return nil, err
			}
			return r.pushToV1(&bare)
		}
		return r.taskPushOf(raw)
	}
	var in oldPushCreate
	if err := r.into(raw, &in); err != nil {
		return nil, err
	}
	out, err := r.taskPushToV1(&in.Config)
	if err != nil {
		return nil, under("config", err)
	}
	switch {
	case in.ConfigID != "" && out.ID != "" && out.ID != in.ConfigID:
		return nil, problem("/configId", "is not the id in config", "")
	case in.ConfigID != "":
		out.ID = in.ConfigID
	}
	return out, nil
}

func (r reader) createFromV1(d Dialect, raw []byte) (any, error) {
	var in newPush
	if err := r.into(raw, &in); err != nil {
		return nil, err
	}
	out, err := taskPushFromV1(&in, d)
	if err != nil || d == RPC {
		return out, err
	}
	return &oldPushCreate{Parent: "tasks/" + nameEscapes.Replace(in.TaskID), ConfigID: in.ID, Config: *out}, nil
}

func (r reader) pushQueryToV1(method string, raw []byte) (*newPushQuery, error) {
	var in oldPushQuery
	if err := r.into(raw, &in); err != nil {
		return nil, err
	}
	out := &newPushQuery{TaskID: in.ID, ID: in.ConfigID}
	switch {
	case method == listPushConfigs:
		out.ID = ""
	case method == getPushConfig && out.ID == "":
		out.ID = in.ID // see createToV1
	case out.ID == "":
		return nil, problem("/pushNotificationConfigId", "is required", "")
	}
	return out, nil
}

func (r reader) pushQueryFromV1(raw []byte) (*oldPushQuery, error) {
	var in newPushQuery
	if err := r.into(raw, &in); err != nil {
		return nil, err
	}
	if in.PageToken != "" {
		return nil, problem("/pageToken", "does not exist in version 0.3, which lists all at once", "leave it out")
	}
	return &oldPushQuery{ID: in.TaskID, ConfigID: in.ID}, noTenant(in.Tenant)
}

// pushListToV1 reads a list of configurations: an array in RPC, configs in Proto.
func (r reader) pushListToV1(raw []byte) (*newPushList, error) {
	if len(raw) > 0 && raw[0] == '[' {
		raw = append(append([]byte(`{"configs":`), raw...), '}')
	}
	var in oldPushList
	if err := r.into(raw, &in); err != nil {
		return nil, err
	}
	out := &newPushList{NextPageToken: in.NextPageToken}
	for i := range in.Configs {
		config, err := r.taskPushToV1(&in.Configs[i])
		if err != nil {
			return nil, under("configs", under(strconv.Itoa(i), err))
		}
		out.Configs = append(out.Configs, *config)
	}
	return out, nil
}

func (r reader) pushListFromV1(d Dialect, raw []byte) ([]byte, error) {
	var in newPushList
	if err := r.into(raw, &in); err != nil {
		return nil, err
	}
	out := oldPushList{Configs: []oldTaskPush{}, NextPageToken: in.NextPageToken}
	for i := range in.Configs {
		config, err := taskPushFromV1(&in.Configs[i], d)
		if err != nil {
			return nil, under("configs", under(strconv.Itoa(i), err))
		}
		out.Configs = append(out.Configs, *config)
	}
	if d == RPC {
		return jsonwire.Marshal(out.Configs)
	}
	return jsonwire.Marshal(out)
}
