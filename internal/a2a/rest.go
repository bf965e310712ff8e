package a2a

import (
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/parley-mesh/parley/internal/a2a/v03"
	"github.com/parley-mesh/parley/internal/jsonwire"
)

// restMember is a member of the request object that came by path or query.
type restMember struct {
	name  string
	value jsontext.Value
}

// restRoute is what a REST path means: the methods by HTTP verb, and the request
// members it carries.
type restRoute struct {
	verbs   map[string]Method
	members []restMember
}

var (
	verbsSend      = map[string]Method{http.MethodPost: SendMessage}
	verbsStream    = map[string]Method{http.MethodPost: SendStreamingMessage}
	verbsTasks     = map[string]Method{http.MethodGet: ListTasks}
	verbsTask      = map[string]Method{http.MethodGet: GetTask}
	verbsCancel    = map[string]Method{http.MethodPost: CancelTask}
	verbsSubscribe = map[string]Method{http.MethodGet: SubscribeToTask, http.MethodPost: SubscribeToTask}
	verbsConfigs   = map[string]Method{http.MethodGet: ListPushConfigs, http.MethodPost: CreatePushConfig}
	verbsConfig    = map[string]Method{http.MethodGet: GetPushConfig, http.MethodDelete: DeletePushConfig}
	verbsCard      = map[string]Method{http.MethodGet: GetExtendedCard}
)

// route finds the method of a REST call and the members its path gives.
func (q *Request) route(r *http.Request, path string) *Error {
	segments := strings.Split(strings.TrimPrefix(path, "/"), "/")
	var found restRoute
	var ok bool
	if q.old {
		found, ok = matchOldREST(segments, r.Method)
	} else {
		found, ok = matchREST(segments, r.Method)
	}
	if !ok && len(segments) > 1 && !q.old {
		if tenant, err := url.PathUnescape(segments[0]); err == nil && tenant != "" {
			found, ok = matchREST(segments[1:], r.Method)
			found.members = append(found.members, restMember{"tenant", jsonwire.Quote(tenant)})
		}
	}
	if !ok {
		return NewError(ReasonMethodNotFound, "there is no operation at %s", clip(path))
	}
	m, ok := found.verbs[r.Method]
	if !ok {
		var allowed []string
		for _, verb := range []string{http.MethodGet, http.MethodPost, http.MethodDelete} {
			if _, ok := found.verbs[verb]; ok {
				allowed = append(allowed, verb)
			}
		}
		return methodNotAllowed(r.Method, strings.Join(allowed, ", "))
	}
	q.Method, q.hasBody = m, r.Method == http.MethodPost
	err := q.readQuery(r.URL.RawQuery)
	q.query = append(q.query, found.members...)
	q.preview()
	return err
}

// preview tells what the path already says, for a caller that decides before the
// body is read.
func (q *Request) preview() {
	for _, m := range q.query {
		switch m.name {
		case "tenant":
			q.Tenant = jsonwire.String(m.value)
		case "taskId":
			q.Facts.TaskID = jsonwire.String(m.value)
		case "id":
			if !q.Method.Push() {
				q.Facts.TaskID = jsonwire.String(m.value)
			}
		}
	}
}

// matchREST matches a path without tenant. A segment is decoded once, after the
// verb behind its last colon was split off.
func matchREST(segments []string, verb string) (restRoute, bool) {
	head, err := url.PathUnescape(segments[0])
	if err != nil {
		return restRoute{}, false
	}
	if len(segments) == 1 {
		switch head {
		case "message:send":
			return restRoute{verbs: verbsSend}, true
		case "message:stream":
			return restRoute{verbs: verbsStream}, true
		case "tasks":
			return restRoute{verbs: verbsTasks}, true
		case "extendedAgentCard":
			return restRoute{verbs: verbsCard}, true
		}
		return restRoute{}, false
	}
	if head != "tasks" || segments[1] == "" {
		return restRoute{}, false
	}
	if len(segments) == 2 {
		return matchTask(segments[1], verb)
	}
	if segments[2] != "pushNotificationConfigs" {
		return restRoute{}, false
	}
	task, ok := pathMember("taskId", segments[1])
	if !ok {
		return restRoute{}, false
	}
	switch {
	case len(segments) == 3:
		return restRoute{verbsConfigs, []restMember{task}}, true
	case len(segments) == 4 && segments[3] != "":
		config, ok := pathMember("id", segments[3])
		return restRoute{verbsConfig, []restMember{task, config}}, ok
	}
	return restRoute{}, false
}

// matchTask matches {id}, {id}:cancel and {id}:subscribe. An id may hold colons
// itself; and a client may have escaped the one before the verb with the rest,
// which shows where a POST names no verb.
func matchTask(segment, verb string) (restRoute, bool) {
	if route, ok := matchVerb(segment, true); ok {
		return route, true
	}
	plain, err := url.PathUnescape(segment)
	if err != nil {
		return restRoute{}, false
	}
	if verb == http.MethodPost {
		if route, ok := matchVerb(plain, false); ok {
			return route, true
		}
	}
	return restRoute{verbsTask, []restMember{{"id", jsonwire.Quote(plain)}}}, true
}

func matchVerb(segment string, escaped bool) (restRoute, bool) {
	i := strings.LastIndexByte(segment, ':')
	if i <= 0 {
		return restRoute{}, false
	}
	verbs := map[string]map[string]Method{"cancel": verbsCancel, "subscribe": verbsSubscribe}[segment[i+1:]]
	if verbs == nil {
		return restRoute{}, false
	}
	id := restMember{"id", jsonwire.Quote(segment[:i])}
	if escaped {
		var ok bool
		if id, ok = pathMember("id", segment[:i]); !ok {
			return restRoute{}, false
		}
	}
	return restRoute{verbs, []restMember{id}}, true
}

func pathMember(name, segment string) (restMember, bool) {
	plain, err := url.PathUnescape(segment)
	return restMember{name, jsonwire.Quote(plain)}, err == nil && plain != ""
}

// queryMembers are the request members that may come by query, with what their
// text becomes in JSON: s a string, n a number, b a boolean.
var queryMembers = map[Method]map[string]byte{
	GetTask: {"historyLength": 'n'},
	ListTasks: {"contextId": 's', "status": 's', "pageSize": 'n', "pageToken": 's', "historyLength": 'n',
		"statusTimestampAfter": 's', "includeArtifacts": 'b'},
	ListPushConfigs: {"pageSize": 'n', "pageToken": 's'},
}

// readQuery turns the query into members. Names that belong to nobody are left
// alone: other layers use the query too.
func (q *Request) readQuery(raw string) *Error {
	if raw == "" {
		return nil
	}
	values, err := url.ParseQuery(raw)
	if err != nil {
		return InvalidParams(FieldViolation{"query", "cannot be decoded; percent-encode it"})
	}
	if q.old {
		oldQuery(values)
	}
	var wrong []FieldViolation
	for _, name := range slices.Sorted(maps.Keys(values)) {
		texts := values[name]
		form, key := queryForm(q.Method, name)
		switch {
		case form == 0:
		case key != name:
			wrong = append(wrong, FieldViolation{clip(name), "unknown parameter; write " + key})
		case len(texts) > 1:
			wrong = append(wrong, FieldViolation{name, "is given more than once"})
		case texts[0] == "":
		default:
			q.query = append(q.query, restMember{name, queryValue(form, texts[0])})
		}
	}
	if wrong != nil {
		return InvalidParams(wrong...)
	}
	return nil
}

// queryForm finds a parameter by its name, or by a misspelling of it.
func queryForm(m Method, name string) (form byte, key string) {
	if name == "tenant" {
		return 's', name
	}
	if form, ok := queryMembers[m][name]; ok {
		return form, name
	}
	plain := strings.ReplaceAll(name, "_", "")
	for key, form := range queryMembers[m] {
		if strings.EqualFold(key, plain) {
			return form, key
		}
	}
	return 0, ""
}

// queryValue writes a parameter as JSON. What does not look like its type becomes
// a string, which the check of the request then refuses by name.
func queryValue(form byte, text string) jsontext.Value {
	digits := strings.TrimPrefix(text, "-")
	switch {
	case form == 'b' && (text == "true" || text == "false"):
		return jsontext.Value(text)
	case form == 'n' && isIndex(digits) && (digits == "0" || digits[0] != '0'):
		return jsontext.Value(text)
	}
	return jsonwire.Quote(text)
}

// readREST reads the body where the verb has one and merges path and query in.
func (q *Request) readREST(body io.Reader) *Error {
	if q.hasBody {
		raw, err := q.readAll(body)
		if err != nil {
			return err
		}
		q.Raw = raw
		if len(raw) > 0 && !isJSON(q.contentType, mediaA2A, mediaJSON) {
			return NewError(ReasonContentTypeNotSupported, "Content-Type %q is not supported; send %s", clip(q.contentType), mediaA2A)
		}
	}
	q.Params = q.Raw
	if q.old {
		if err := q.readOldBody(); err != nil {
			return err
		}
	} else if len(q.Raw) == 0 {
		q.Params = jsontext.Value("{}")
	}
	for _, m := range q.query {
		params, err := jsonwire.Set(q.Params, "/"+m.name, m.value)
		if err != nil {
			break // no valid object; the check below says so
		}
		q.Params = params
	}
	var sink factSink
	sink.reset()
	limits := q.opt.Limits
	if q.old {
		limits = roomier(limits)
	}
	problems := operations[q.Method].request.Check(q.Params, jsonwire.CheckOptions{Limits: limits, Sink: &sink})
	if problems != nil {
		return fromProblems(problems)
	}
	return q.take(&sink)
}

// restCall is a Request as HTTP+JSON puts it.
type restCall struct {
	verb, path string
	query      url.Values
	body       []byte // nil for none
}

// restFor writes the request for an endpoint. The body is the request object
// without what the path says; a call that came as REST of the same version keeps
// its body byte for byte.
func (q *Request) restFor(ep Endpoint) (restCall, error) {
	call := restCall{verb: http.MethodGet}
	tenant := ep.Tenant
	for _, name := range []string{tenant, q.member("id"), q.member("taskId")} {
		if name == "." || name == ".." {
			return call, fmt.Errorf("%q cannot stand in a path, where it means another one", name)
		}
	}
	prefix := ""
	if tenant != "" {
		prefix = "/" + url.PathEscape(tenant)
	}
	if ep.old() {
		prefix = "/v1"
	}
	task, config := "", ""
	switch {
	case q.Method.Push():
		task = prefix + "/tasks/" + q.pathMember("taskId")
		config = task + "/pushNotificationConfigs"
	case q.Method.NamesTask():
		task = prefix + "/tasks/" + q.pathMember("id")
	}
	var drop []string
	if q.Tenant != "" {
		drop = append(drop, "/tenant")
	}
	switch q.Method {
	case SendMessage:
		call.verb, call.path = http.MethodPost, prefix+"/message:send"
	case SendStreamingMessage:
		call.verb, call.path = http.MethodPost, prefix+"/message:stream"
	case GetTask:
		call.path = task
	case ListTasks:
		if ep.old() {
			return call, v03.ErrNoMethod // its answer is left open
		}
		call.path = prefix + "/tasks"
	case CancelTask:
		call.verb, call.path, drop = http.MethodPost, task+":cancel", append(drop, "/id")
	case SubscribeToTask:
		call.verb, call.path, drop = http.MethodPost, task+":subscribe", append(drop, "/id")
	case CreatePushConfig:
		call.verb, call.path, drop = http.MethodPost, config, append(drop, "/taskId")
	case ListPushConfigs:
		call.path = config
	case GetPushConfig, DeletePushConfig:
		call.path = config + "/" + q.pathMember("id")
		if q.Method == DeletePushConfig {
			call.verb = http.MethodDelete
		}
	case GetExtendedCard:
		call.path = prefix + "/extendedAgentCard"
		if ep.old() {
			call.path = prefix + "/card"
		}
	}
	switch {
	case call.verb != http.MethodPost:
		call.query = queryOf(q.Method, q.Params)
		return call, nil
	case ep.old():
		var err error
		call.body, err = q.oldBody()
		return call, err
	}
	return call, call.takeBody(q, drop)
}

func (c *restCall) takeBody(q *Request, drop []string) error {
	body := []byte(q.Params)
	raw := q.Binding == HTTPJSON && !q.old
	if raw {
		body = q.Raw
	}
	for _, path := range drop {
		if len(body) == 0 {
			break
		}
		var err error
		if body, err = jsonwire.Delete(body, path); err != nil {
			return err
		}
	}
	if q.Method == SubscribeToTask || q.Method == CancelTask && !raw && string(body) == "{}" {
		return nil
	}
	c.body = body
	return nil
}

// pathMember escapes a member of the request for one path segment; the colon too,
// so that no id can end in what looks like a verb.
func (q *Request) pathMember(name string) string {
	return strings.ReplaceAll(url.PathEscape(q.member(name)), ":", "%3A")
}

// member is a text of the request object, "" where there is none.
func (q *Request) member(name string) string {
	raw, _ := jsonwire.Get(q.Params, "/"+name)
	return jsonwire.String(raw)
}

// queryOf writes the members that a GET or DELETE carries in its query.
func queryOf(m Method, params jsontext.Value) url.Values {
	values := url.Values{}
	for name := range queryMembers[m] {
		raw, ok := jsonwire.Get(params, "/"+name)
		if !ok || string(raw) == "null" {
			continue
		}
		if raw[0] == '"' {
			values.Set(name, jsonwire.String(raw))
		} else {
			values.Set(name, string(raw))
		}
	}
	return values
}
