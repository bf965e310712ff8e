package a2a

import (
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/parley-mesh/parley/internal/jsonwire"
)

// DecodeRPC reads the error object of a JSON-RPC response from a peer. It never
// fails: what cannot be read is left out. Reason is found in ErrorInfo, else from
// the code.
func DecodeRPC(object jsontext.Value) *Error {
	var in jsonwire.ErrorObject
	if problems := jsonwire.UnmarshalAll(object, &in, jsonwire.CheckOptions{Lax: true}); problems != nil {
		return NewError(ReasonInternal, "the agent reported an error that cannot be read")
	}
	e := &Error{RPCCode: in.Code, Message: in.Message}
	e.readDetails(in.Data)
	c, ok := categoryOf(e.Reason)
	if !ok {
		c, ok = categoryByCode(in.Code)
	}
	e.fill(c, ok)
	return e
}

// DecodeREST reads the body of an HTTP error from a peer: google.rpc.Status in
// the protocol's form, else problem+json, else the status alone (Bare). It never
// fails. status is the HTTP status it came with.
func DecodeREST(status int, header http.Header, body []byte) *Error {
	e := &Error{HTTP: status}
	if !e.readStatus(body) && !e.readRPC(body) && !e.readProblem(body) {
		e.Bare = true
		e.Message = "the agent answered HTTP " + strconv.Itoa(status)
		if text := http.StatusText(status); text != "" {
			e.Message += " (" + text + ")"
		}
	}
	c, ok := categoryOf(e.Reason)
	if !ok {
		c, ok = categoryByHTTP(status, e.Status)
		if e.Bare && status == http.StatusNotFound {
			c, ok = categoryOf(ReasonMethodNotFound) // nothing of A2A is there
		}
	}
	e.fill(c, ok)
	e.HTTP = status
	e.readHeader(header)
	return e
}

// DecodeStatus reads a google.rpc.Status that a peer sent in gRPC: the name of its
// code, its message, and its typed details in their JSON form. It never fails.
// The reason is found in ErrorInfo, else from the code; codes moved between
// v1.0.0 and v1.0.1, so that a reason always wins.
func DecodeStatus(code, message string, details []jsontext.Value) *Error {
	e := &Error{Status: code, Message: message}
	e.readDetail(details)
	c, ok := categoryOf(e.Reason)
	if !ok {
		c, ok = categoryByStatus(code)
	}
	e.fill(c, ok)
	return e
}

// categoryByStatus reads a bare gRPC code, as categoryByHTTP does a status.
func categoryByStatus(code string) (category, bool) {
	reason := ReasonInternal
	switch code {
	case "NOT_FOUND":
		reason = ReasonTaskNotFound
	case "UNIMPLEMENTED":
		reason = ReasonMethodNotFound
	case "FAILED_PRECONDITION":
		reason = ReasonUnsupportedOperation
	case "INVALID_ARGUMENT", "OUT_OF_RANGE", "ALREADY_EXISTS":
		reason = ReasonInvalidParams
	case "UNAUTHENTICATED":
		reason = ReasonUnauthenticated
	case "PERMISSION_DENIED":
		reason = ReasonForbidden
	case "RESOURCE_EXHAUSTED":
		reason = ReasonRateLimited
	case "UNAVAILABLE":
		reason = ReasonUnavailable
	case "DEADLINE_EXCEEDED":
		reason = ReasonTimeout
	}
	return categoryOf(reason)
}

// fill completes the codes that the peer's binding does not carry. The codes that
// came stay: an older peer's status must not change its meaning, nor its number.
func (e *Error) fill(c category, known bool) {
	if !known {
		c, _ = categoryOf(ReasonInternal)
	}
	if e.Reason == "" {
		e.Reason = c.reason
	}
	if e.RPCCode == 0 {
		e.RPCCode = c.code
	}
	if e.HTTP == 0 {
		e.HTTP = c.http
	}
	if e.Status == "" {
		e.Status = c.status
	}
	if e.Message == "" {
		e.Message = strings.ToLower(strings.ReplaceAll(string(e.Reason), "_", " "))
	}
}

func categoryByCode(code int) (category, bool) {
	for _, c := range categories {
		if c.code == code {
			return c, true
		}
	}
	return category{}, false
}

// categoryByHTTP reads a bare status. Several A2A errors share one status, so it
// yields the generic category, except for the statuses which only one error of
// v1.0.0 had.
func categoryByHTTP(status int, grpc string) (category, bool) {
	reason := ReasonInternal
	switch {
	case status == 404 && grpc == "UNIMPLEMENTED":
		reason = ReasonMethodNotFound
	case status == 404:
		reason = ReasonTaskNotFound
	case status == 409:
		reason = ReasonTaskNotCancelable
	case status == 415:
		reason = ReasonContentTypeNotSupported
	case status == 401:
		reason = ReasonUnauthenticated
	case status == 403:
		reason = ReasonForbidden
	case status == 405, status == 501:
		reason = ReasonMethodNotFound
	case status == 408, status == 504:
		reason = ReasonTimeout
	case status == 413:
		reason = ReasonTooLarge
	case status == 429:
		reason = ReasonRateLimited
	case status == 502, status == 503:
		reason = ReasonUnavailable
	case status >= 400 && status < 500:
		reason = ReasonInvalidParams
	}
	return categoryOf(reason)
}

// readStatus reads {"error":{"code","status","message","details"}}.
func (e *Error) readStatus(body []byte) bool {
	var in struct {
		Error *struct {
			Code    jsontext.Value `json:"code,omitzero"`
			Status  string         `json:"status,omitzero"`
			Message string         `json:"message,omitzero"`
			Details jsontext.Value `json:"details,omitzero"`
		} `json:"error" wire:"required"`
		JSONRPC jsontext.Value `json:"jsonrpc,omitzero"`
	}
	if jsonwire.Unmarshal(body, &in, jsonwire.Limits{}) != nil || in.Error == nil || in.JSONRPC != nil {
		return false
	}
	e.Status, e.Message = in.Error.Status, in.Error.Message
	if n, err := strconv.Atoi(string(in.Error.Code)); err == nil && e.HTTP == 0 && n >= 400 && n <= 599 {
		e.HTTP = n
	}
	e.readDetails(in.Error.Details)
	return true
}

// readRPC reads a JSON-RPC error that came with an HTTP error status.
func (e *Error) readRPC(body []byte) bool {
	answer, problems := jsonwire.ParseAnswer(body, nil, jsonwire.CheckOptions{Lax: true})
	if problems != nil || answer.Error == nil {
		return false
	}
	in := DecodeRPC(answer.Error)
	in.HTTP = e.HTTP
	*e = *in
	return true
}

// readProblem reads application/problem+json (RFC 9457), which samples of the
// specification still show.
func (e *Error) readProblem(body []byte) bool {
	var in struct {
		Type   string `json:"type,omitzero"`
		Title  string `json:"title,omitzero"`
		Detail string `json:"detail,omitzero"`
		Reason string `json:"reason,omitzero"`
		Domain string `json:"domain,omitzero"`
	}
	if jsonwire.Unmarshal(body, &in, jsonwire.Limits{}) != nil || in.Type == "" && in.Title == "" {
		return false
	}
	e.Message = in.Detail
	if e.Message == "" {
		e.Message = in.Title
	}
	if in.Domain == "" || in.Domain == DomainA2A {
		e.setReason(in.Reason, in.Domain)
	}
	// The type of A2A's samples ends in the error's name: …/task-not-found.
	name := in.Type[strings.LastIndexAny(in.Type, "/#:")+1:]
	if e.Reason == "" {
		e.setReason(strings.ToUpper(strings.ReplaceAll(name, "-", "_")), DomainA2A)
	}
	return true
}

// readDetails takes ErrorInfo, BadRequest and RetryInfo out of the typed details
// and keeps the others as they are, reasons of other domains among them: they mean
// what their domain says. Data that is no list of objects is dropped:
// v1.0 knows none.
func (e *Error) readDetails(list jsontext.Value) {
	if len(list) > 0 && list[0] == '[' {
		e.readDetail(jsonwire.Elements(list))
	}
}

func (e *Error) readDetail(details []jsontext.Value) {
	for _, raw := range details {
		var d struct {
			Type       string            `json:"@type" wire:"required"`
			Reason     string            `json:"reason,omitzero"`
			Domain     string            `json:"domain,omitzero"`
			Metadata   map[string]string `json:"metadata,omitzero"`
			Violations []FieldViolation  `json:"fieldViolations,omitzero"`
			RetryDelay string            `json:"retryDelay,omitzero"`
		}
		if jsonwire.Unmarshal(raw, &d, jsonwire.Limits{}) != nil {
			continue
		}
		switch {
		case d.Type == typeErrorInfo && e.Reason == "" && trusted(d.Reason, d.Domain):
			e.setReason(d.Reason, d.Domain)
			e.Metadata = d.Metadata
		case d.Type == typeBadRequest && e.Violations == nil:
			e.Violations = d.Violations
		case d.Type == typeRetryInfo && e.RetryAfter == 0:
			if delay, err := time.ParseDuration(d.RetryDelay); err == nil && delay > 0 {
				e.RetryAfter = delay
			}
		default:
			e.Details = append(e.Details, raw.Clone())
		}
	}
}

// trusted tells whether a reason means what our table says. A2A's nine count in
// A2A's domain only; SDKs put other words there too, some of which are ours.
func trusted(reason, domain string) bool {
	return reason != "" && (domain == DomainA2A || domain == DomainParley && !Reason(reason).InA2A())
}

// setReason takes a peer's reason over, where it is one: text that stands on a
// line, in records and in terminals. The domain is kept where it does not follow
// from the reason.
func (e *Error) setReason(reason, domain string) {
	if reason == "" || strings.ContainsFunc(reason, func(r rune) bool { return r < ' ' || r > '~' }) {
		return
	}
	e.Reason, e.Domain = Reason(clip(reason)), domain
	if e.Reason.InA2A() == (domain == DomainA2A) {
		e.Domain = ""
	}
}

// readHeader takes over what HTTP says beside the body.
func (e *Error) readHeader(h http.Header) {
	e.Challenge = strings.Join(h.Values("WWW-Authenticate"), ", ")
	if e.RetryAfter == 0 {
		e.RetryAfter = retryAfter(h.Get("Retry-After"), time.Now())
	}
}

// retryAfter reads seconds or a date; 0 means none, or one in the past.
func retryAfter(text string, now time.Time) time.Duration {
	if n, err := strconv.Atoi(text); err == nil && n > 0 && n < 1<<31 {
		return time.Duration(n) * time.Second
	}
	if t, err := http.ParseTime(text); err == nil && t.After(now) {
		return t.Sub(now)
	}
	return 0
}
