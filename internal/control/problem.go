package control

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/http"
	"reflect"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/validation"

	"github.com/parley-mesh/parley/internal/identity"
	"github.com/parley-mesh/parley/internal/nearest"
	"github.com/parley-mesh/parley/internal/parley"
)

// ProblemType is the content type of failures.
const ProblemType = "application/problem+json"

// maxFields is how many wrong fields a problem names.
const maxFields = 32

// Problem is a failure as the API tells it: RFC 9457 with a stable code.
type Problem struct {
	Title  string         `json:"title" doc:"The HTTP status in words."`
	Status int            `json:"status"`
	Code   string         `json:"code" doc:"What kind of failure: stable, for programs." enum:"internal,invalid,not_found,conflict,unauthorized,denied,exhausted,unavailable,timeout,canceled,agent_failed,unsupported,principal_frozen"`
	Detail string         `json:"detail" doc:"What happened and what to do, for people."`
	Fields []parley.Field `json:"fields,omitempty" doc:"Wrong parts of the request: a JSON pointer into the body, or the name of a parameter."`
	// RetryAfterMs is how long to wait before trying again, in milliseconds.
	RetryAfterMs int64 `json:"retryAfterMs,omitempty"`
	// Report is what a look at an agent found, where one was taken.
	Report *Report `json:"report,omitempty"`

	header http.Header
	cause  error // what it was made of, for the operator's log; nil for none
}

// problemOf is err as others may see it; causes stay behind.
func problemOf(err error) *Problem {
	if p, ok := errors.AsType[*Problem](err); ok {
		return p
	}
	kind := parley.KindOf(err)
	p := &Problem{Code: kind.String(), Detail: parley.PublicMessage(err), header: http.Header{}, cause: err}
	if e, ok := errors.AsType[*parley.Error](err); ok {
		p.Detail = e.Message
		if p.Detail == "" {
			p.Detail = kind.String()
		}
		for _, f := range e.Fields[:min(len(e.Fields), maxFields)] {
			f.Path = pointer(f.Path)
			p.Fields = append(p.Fields, f)
		}
	}
	p.setStatus(kind.Info().HTTPStatus)
	if errors.Is(err, identity.ErrStale) {
		p.setStatus(http.StatusPreconditionFailed)
	}
	if wait := identity.RetryAfter(err); wait > 0 {
		p.RetryAfterMs = wait.Milliseconds()
		p.header.Set("Retry-After", strconv.Itoa(int(math.Ceil(wait.Seconds()))))
	}
	return p
}

// pointer makes a JSON pointer of the bare member names that domains use.
func pointer(path string) string {
	if path == "" || path[0] == '/' {
		return path
	}
	return "/" + path
}

func (p *Problem) setStatus(status int) {
	p.Status = status
	p.Title = http.StatusText(status)
	if p.Title == "" {
		p.Title = "Client Closed Request" // 499, which net/http does not name
	}
}

// Error is the detail; a Problem is the error that huma writes.
func (p *Problem) Error() string { return p.Detail }

// GetStatus implements huma.StatusError.
func (p *Problem) GetStatus() int { return p.Status }

// GetHeaders implements huma.HeadersError.
func (p *Problem) GetHeaders() http.Header { return p.header }

// ContentType implements huma.ContentTypeFilter.
func (p *Problem) ContentType(string) string { return ProblemType }

// write answers with p outside of huma.
func (p *Problem) write(w http.ResponseWriter) {
	body, err := json.Marshal(p)
	if err != nil { // strings and numbers always encode
		panic(err)
	}
	for name, values := range p.header {
		w.Header()[name] = values
	}
	w.Header().Set("Content-Type", ProblemType)
	w.WriteHeader(p.Status)
	_, _ = w.Write(body) // the reader has left: nobody to tell
}

// ownErrors makes huma word its own refusals as Problems. huma keeps this in
// package variables; they are set once, before the first server answers.
var ownErrors = sync.OnceFunc(func() {
	huma.NewErrorWithContext = func(ctx huma.Context, status int, message string, causes ...error) huma.StatusError {
		var input reflect.Type
		if op := ctx.Operation(); op != nil {
			input, _ = op.Metadata[metaInput].(reflect.Type)
		}
		return refusedInput(input, status, message, causes)
	}
	huma.NewError = func(status int, message string, causes ...error) huma.StatusError {
		return refusedInput(nil, status, message, causes)
	}
})

// metaInput is where an operation keeps the reflect.Type of its input.
const metaInput = "input"

// refused words a request that was refused before any operation saw it.
func refused(status int, message string) *Problem { return refusedInput(nil, status, message, nil) }

// refusedInput words what huma found wrong with a request. The values it was
// given are left out: they may be secrets.
func refusedInput(input reflect.Type, status int, message string, causes []error) *Problem {
	p := &Problem{Code: kindOfStatus(status).String(), Detail: message, header: http.Header{}}
	switch status {
	case http.StatusUnsupportedMediaType:
		p.Detail, causes = "the request body must be application/json: set Content-Type", nil
	case http.StatusBadRequest, http.StatusUnprocessableEntity:
		status, p.Detail = http.StatusBadRequest, "the request is not valid"
		if message == "request body is required" {
			p.Fields = []parley.Field{{Problem: "the request body is missing", Fix: "send a JSON object"}}
		}
	case http.StatusInternalServerError:
		p.Detail, causes = "internal error; the operator's log says more", nil
	}
	p.setStatus(status)
	for _, cause := range causes[:min(len(causes), maxFields)] {
		p.Fields = append(p.Fields, fieldOf(input, cause))
	}
	return p
}

// kindOfStatus is the kind of a refusal by huma.
func kindOfStatus(status int) parley.Kind {
	switch status {
	case http.StatusRequestTimeout:
		return parley.Timeout
	case http.StatusInternalServerError, 0:
		return parley.Internal
	}
	return parley.Invalid
}

// fieldOf words one of huma's findings: where, what, and what to do.
func fieldOf(input reflect.Type, cause error) parley.Field {
	if e, ok := errors.AsType[*syntaxError](cause); ok {
		return e.field(input)
	}
	d, ok := errors.AsType[*huma.ErrorDetail](cause)
	if !ok {
		return parley.Field{Problem: "cannot be read", Fix: "see " + OpenAPIPath}
	}
	place, rest, _ := strings.Cut(d.Location, ".")
	if place != "body" {
		return paramField(input, rest, d.Message)
	}
	if e, ok := syntaxIn(d.Message); ok {
		return e.field(input)
	}
	if d.Message == validation.MsgUnexpectedProperty {
		return unknownMember(input, rest)
	}
	return parley.Field{Path: bodyPointer(rest), Problem: d.Message, Fix: "see " + OpenAPIPath}
}

// unknownMember words a member that nothing has, at a huma path in the body.
func unknownMember(input reflect.Type, path string) parley.Field {
	parent, name := cutLast(path)
	return parley.Field{
		Path: bodyPointer(path), Problem: fmt.Sprintf("there is no member %.64q here", name),
		Fix: knownNames(name, membersAt(input, parent)),
	}
}

// paramField words what is wrong with a path, query or header parameter.
func paramField(input reflect.Type, name, problem string) parley.Field {
	f := parley.Field{Path: name, Problem: problem, Fix: "see " + OpenAPIPath}
	if problem == "unknown query parameter" {
		f.Problem = fmt.Sprintf("there is no query parameter %.64q here", name)
		f.Fix = knownNames(name, queryNames(input))
	}
	return f
}

// knownNames advises on a name that nothing has.
func knownNames(name string, known []string) string {
	if near := nearest.Of(name, known); near != "" {
		return fmt.Sprintf("did you mean %q?", near)
	}
	if len(known) == 0 {
		return "leave it out"
	}
	return "leave it out; known are " + strings.Join(known, ", ")
}

// cutLast splits a huma path at its last member.
func cutLast(path string) (parent, name string) {
	if i := strings.LastIndexByte(path, '.'); i >= 0 {
		return path[:i], path[i+1:]
	}
	return "", path
}

// bodyPointer turns huma's a.b[0].c into /a/b/0/c.
func bodyPointer(path string) string {
	if path == "" {
		return ""
	}
	return "/" + strings.NewReplacer("~", "~0", "/", "~1", ".", "/", "[", "/", "]", "").Replace(path)
}

// membersAt lists the JSON names of the object at a huma path in the body.
func membersAt(input reflect.Type, path string) []string {
	if input == nil {
		return nil
	}
	body, ok := input.FieldByName("Body")
	if !ok {
		return nil
	}
	t := body.Type
	for _, name := range strings.FieldsFunc(path, func(r rune) bool { return r == '.' || r == '[' || r == ']' }) {
		if t = elem(t); t.Kind() == reflect.Slice {
			t = t.Elem()
			continue
		}
		next, ok := memberOf(t, name)
		if !ok {
			return nil
		}
		t = next
	}
	t = elem(t)
	if t.Kind() != reflect.Struct {
		return nil
	}
	return tagNames(t, "json")
}

func elem(t reflect.Type) reflect.Type {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	return t
}

func memberOf(t reflect.Type, name string) (reflect.Type, bool) {
	if t.Kind() != reflect.Struct {
		return nil, false
	}
	for f := range t.Fields() {
		if tagName(f, "json") == name {
			return f.Type, true
		}
	}
	return nil, false
}

// queryNames lists the query parameters of an input.
func queryNames(input reflect.Type) []string {
	if input == nil {
		return nil
	}
	return tagNames(input, "query")
}

func tagNames(t reflect.Type, key string) (names []string) {
	for _, f := range reflect.VisibleFields(t) {
		if name := tagName(f, key); name != "" {
			names = append(names, name)
		}
	}
	return names
}

func tagName(f reflect.StructField, key string) string {
	name, _, _ := strings.Cut(f.Tag.Get(key), ",")
	return name
}

// contextError words the end of ctx as an error of op.
func contextError(op parley.Op, ctx context.Context) error {
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return parley.E(op, parley.Timeout, "", "the deadline passed", ctx.Err())
	}
	return parley.E(op, parley.Canceled, "", "canceled", ctx.Err())
}

// millis is d in milliseconds, to the microsecond.
func millis(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
