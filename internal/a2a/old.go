package a2a

import (
	"errors"
	"net/http"
	"net/url"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/parley-mesh/parley/internal/a2a/v03"
	"github.com/parley-mesh/parley/internal/jsonwire"
)

// This file reads requests of version 0.3: Params, Method and Facts become those
// of 1.0, and Raw stays what came.

// methodVersion is the version that has a JSON-RPC method; "" where none has it.
func methodVersion(method string) Version {
	switch {
	case strings.Contains(method, "/"):
		return V03 // also one that it does not have
	case requestShape(method) != nil:
		return V10
	}
	return ""
}

// callShape is what ParseCall checks params by. Those of 0.3 may be any object
// here: the translation checks them.
func callShape(method string) *jsonwire.Shape {
	if v03.V1Method(method) != "" {
		return anyObject
	}
	return requestShape(method)
}

var anyObject = shape[Empty]()

// dialectOf is the JSON dialect of 0.3 in a binding.
func dialectOf(b Binding) v03.Dialect {
	if b == JSONRPC {
		return v03.RPC
	}
	return v03.Proto
}

// readOldCall translates the params of a JSON-RPC call.
func (q *Request) readOldCall() *Error {
	q.paramsOffset = 0 // edits go by Params alone
	params, err := v03.RequestToV1(string(q.Method), v03.RPC, q.Params, q.opt.Limits)
	if err != nil {
		return fromTranslation(err)
	}
	q.Params = params
	return q.checkParams()
}

// readOldBody translates a REST body, where the method has one. All else comes by
// path and query.
func (q *Request) readOldBody() *Error {
	q.Params = jsontext.Value("{}")
	if !q.Method.Sends() && q.Method != CreatePushConfig {
		return nil
	}
	params, err := v03.RequestToV1(string(q.Method), v03.Proto, q.Raw, q.opt.Limits)
	if err != nil {
		return fromTranslation(err)
	}
	q.Params = params
	if q.Method != CreatePushConfig {
		return nil
	}
	return q.nameConfig()
}

// nameConfig gives a push configuration without an id that of its task, as 0.3
// SDKs do, and refuses one that names another task than the path.
func (q *Request) nameConfig() *Error {
	task := q.Facts.TaskID // from the path
	if named := q.member("taskId"); named != "" && named != task {
		return InvalidParams(FieldViolation{"name", "names another task than the path"})
	}
	if q.member("id") != "" {
		return nil
	}
	params, err := jsonwire.Set(q.Params, "/id", jsonwire.Quote(task))
	if err != nil {
		return Internal("the request could not be translated")
	}
	q.Params = params
	return nil
}

// checkParams checks translated params by the rules of 1.0 and takes their facts.
// What is no 1.0 was no 0.3 either, so that the names are those of both.
func (q *Request) checkParams() *Error {
	var sink factSink
	sink.reset()
	if problems := operations[q.Method].request.Check(q.Params, jsonwire.CheckOptions{Limits: q.translated(), Sink: &sink}); problems != nil {
		return fromProblems(problems)
	}
	return q.take(&sink)
}

// translated are the limits of a translated document, which may be somewhat larger
// than the one that came.
func (q *Request) translated() jsonwire.Limits { return roomier(q.opt.Limits) }

func roomier(l jsonwire.Limits) jsonwire.Limits {
	l.MaxBytes, l.MaxDepth = l.Bytes()*grown, l.Depth()+translatedDepth
	return l
}

// translatedDepth is by how much a translation may nest a document deeper: an
// event around a task, an object around a value.
const translatedDepth = 4

// fromTranslation tells a caller what of its 0.3 request is wrong.
func fromTranslation(err error) *Error {
	if problems, ok := errors.AsType[v03.Problems](err); ok {
		return fromProblems(problems)
	}
	return NewError(ReasonMethodNotFound, "%s", err)
}

// versionOf is the version whose operation a REST path names; "" where it names none.
func (q *Request) versionOf(path string, found bool) Version {
	switch {
	case q.Version == V10:
		return "" // what looks like 0.3 is a tenant
	case looksOld(path):
		return V03
	case found, q.Version == V03:
		return V10
	}
	return ""
}

// matchOldREST matches a path of 0.3, which has no tenant. Its proto file writes
// task where its text writes tasks.
func matchOldREST(segments []string, verb string) (restRoute, bool) {
	if segments[0] != "v1" || len(segments) < 2 {
		return restRoute{}, false
	}
	segments = segments[1:]
	switch {
	case len(segments) == 1 && segments[0] == "card":
		return restRoute{verbs: verbsCard}, true
	case len(segments) == 1 && segments[0] == "extendedAgentCard":
		return restRoute{}, false
	case len(segments) > 2 && segments[0] == "task":
		segments[0] = "tasks"
	}
	return matchREST(segments, verb)
}

// oldQuery gives query parameters their names and words of 1.0.
func oldQuery(values url.Values) {
	delete(values, "tenant")
	if after, ok := values["lastUpdatedAfter"]; ok {
		delete(values, "lastUpdatedAfter")
		values["statusTimestampAfter"] = after
	}
	for i, state := range values["status"] {
		values["status"][i] = v03.StateToV1(state)
	}
}

// oldForms rewrites what a reply's headers say in the words of 0.3.
func oldForms(h http.Header) {
	if echo, ok := h[keyExtensions]; ok {
		delete(h, keyExtensions)
		h[keyOldExtensions] = echo
	}
}
