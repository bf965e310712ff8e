package v03

import (
	"github.com/parley-mesh/parley/internal/jsonwire"
)

// RequestToV1 translates the params of a request into those of 1.0: in RPC the
// params of the method, in Proto the body of a send or of the creation of a push
// configuration, whose task the path names. Others have no body in REST, and give
// ErrNoMethod. method is the one of 1.0. An empty raw means no params.
func RequestToV1(method string, d Dialect, raw []byte, lim jsonwire.Limits) ([]byte, error) {
	r := reader{dialect: d, limits: lim}
	if len(raw) == 0 {
		raw = []byte("{}")
	}
	var out any
	var err error
	switch {
	case method == sendMessage || method == sendStreamingMessage:
		out, err = r.sendToV1(raw)
	case method == createPushConfig:
		out, err = r.createToV1(raw)
	case d == Proto || RPCMethod(method) == "":
		return nil, ErrNoMethod
	case method == getExtendedCard:
		return []byte("{}"), nil
	case method == getTask || method == cancelTask || method == subscribeToTask:
		out, err = r.taskQueryToV1(method, raw)
	default:
		out, err = r.pushQueryToV1(method, raw)
	}
	if err != nil {
		return nil, err
	}
	return jsonwire.Marshal(out)
}

// RequestFromV1 translates the params of a 1.0 request. Its result is nil where a
// method has none in 0.3, and ErrNoMethod says what RequestToV1 says with it.
func RequestFromV1(method string, d Dialect, raw []byte, lim jsonwire.Limits) ([]byte, error) {
	r := reader{lax: true, limits: lim} // what a member of 1.0 may be, package a2a has checked
	var out any
	var err error
	switch {
	case method == sendMessage || method == sendStreamingMessage:
		out, err = r.sendFromV1(method, d, raw)
	case method == createPushConfig:
		out, err = r.createFromV1(d, raw)
	case d == Proto || RPCMethod(method) == "":
		return nil, ErrNoMethod
	case method == getExtendedCard:
		return nil, nil
	case method == getTask || method == cancelTask || method == subscribeToTask:
		out, err = r.taskQueryFromV1(raw)
	default:
		out, err = r.pushQueryFromV1(raw)
	}
	if err != nil {
		return nil, err
	}
	return jsonwire.Marshal(out)
}

// noTenant refuses what 0.3 has no place for and nothing could carry: it routes.
func noTenant(tenant string) error {
	if tenant != "" {
		return problem("/tenant", "does not exist in version 0.3", "leave it out")
	}
	return nil
}

func (r reader) sendToV1(raw []byte) (*newSend, error) {
	var in oldSend
	if err := r.into(raw, &in); err != nil {
		return nil, err
	}
	if err := unreserved(in.Metadata, KeyV03); err != nil {
		return nil, err
	}
	message, err := r.messageToV1(&in.Message)
	if err != nil {
		return nil, under("message", err)
	}
	out := &newSend{Message: *message}
	var carried carriedV1
	if out.Metadata, err = r.unpack(in.Metadata, KeyV1, &carried); err != nil {
		return nil, err
	}
	if out.Configuration, err = r.configurationToV1(in.Configuration, &carried); err != nil {
		return nil, under("configuration", err)
	}
	return out, nil
}

// configurationToV1 reads the configuration of a send. Not blocking is what
// ProtoJSON means by a configuration that does not speak of it; JSON-RPC leaves it
// to the agent, and SDKs block.
func (r reader) configurationToV1(in *oldConfiguration, carried *carriedV1) (*newConfiguration, error) {
	if in == nil {
		if carried.HistoryLength == nil {
			return nil, nil
		}
		return &newConfiguration{HistoryLength: carried.HistoryLength}, nil
	}
	out := newConfiguration{AcceptedOutputModes: in.AcceptedOutputModes, HistoryLength: in.HistoryLength}
	out.ReturnImmediately = in.Blocking != nil && !*in.Blocking || in.Blocking == nil && r.dialect == Proto
	if r.dialect == Proto && in.HistoryLength != nil && *in.HistoryLength == 0 {
		out.HistoryLength = nil // ProtoJSON does not tell 0 from absent
	}
	if carried.HistoryLength != nil {
		out.HistoryLength = carried.HistoryLength
	}
	name, push := "pushNotificationConfig", in.PushConfig
	if r.dialect == Proto {
		name, push = "pushNotification", in.PushNotification
	}
	if push == nil && (in.PushConfig != nil || in.PushNotification != nil) {
		return nil, problem("/"+name, "is the name of the push configuration in this binding", "rename it")
	}
	if push != nil {
		config, err := r.pushToV1(push)
		if err != nil {
			return nil, under(name, err)
		}
		out.PushConfig = config
	}
	if out.AcceptedOutputModes == nil && out.PushConfig == nil && out.HistoryLength == nil && !out.ReturnImmediately {
		return nil, nil
	}
	return &out, nil
}

func (r reader) sendFromV1(method string, d Dialect, raw []byte) (*oldSend, error) {
	var in newSend
	if err := r.into(raw, &in); err != nil {
		return nil, err
	}
	if err := noTenant(in.Tenant); err != nil {
		return nil, err
	}
	if err := unreserved(in.Metadata, KeyV1); err != nil {
		return nil, err
	}
	message, err := r.messageFromV1(&in.Message, d)
	if err != nil {
		return nil, under("message", err)
	}
	out := &oldSend{Message: *message, Metadata: given(in.Metadata)}
	c := in.Configuration
	if c == nil {
		c = &newConfiguration{}
	}
	blocking := !c.ReturnImmediately
	out.Configuration = &oldConfiguration{AcceptedOutputModes: c.AcceptedOutputModes, HistoryLength: c.HistoryLength, Blocking: &blocking}
	if d == Proto && c.HistoryLength != nil && *c.HistoryLength == 0 {
		out.Configuration.HistoryLength = nil
		if out.Metadata, err = pack(out.Metadata, KeyV1, carriedV1{HistoryLength: c.HistoryLength}); err != nil {
			return nil, err
		}
	}
	if c.PushConfig != nil {
		push, err := inlinePush(c.PushConfig)
		if err != nil {
			return nil, under("configuration", under("taskPushNotificationConfig", err))
		}
		if d == RPC {
			out.Configuration.PushConfig = push
		} else {
			out.Configuration.PushNotification = push
		}
	}
	return out, nil
}

func inlinePush(in *newPush) (*oldPush, error) {
	if in.TaskID != "" {
		return nil, problem("/taskId", "has no place in a send of version 0.3", "leave it out: the configuration is for the task of the message")
	}
	return pushFromV1(in)
}

func (r reader) taskQueryToV1(method string, raw []byte) (*newTaskQuery, error) {
	var in oldTaskQuery
	if err := r.into(raw, &in); err != nil {
		return nil, err
	}
	out := &newTaskQuery{ID: in.ID}
	switch method {
	case getTask:
		out.HistoryLength = in.HistoryLength
	case cancelTask:
		out.Metadata = given(in.Metadata)
	}
	return out, nil
}

func (r reader) taskQueryFromV1(raw []byte) (*oldTaskQuery, error) {
	var in newTaskQuery
	if err := r.into(raw, &in); err != nil {
		return nil, err
	}
	return &oldTaskQuery{ID: in.ID, HistoryLength: in.HistoryLength, Metadata: given(in.Metadata)}, noTenant(in.Tenant)
}
