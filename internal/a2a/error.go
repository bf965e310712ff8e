package a2a

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/parley-mesh/parley/internal/jsonwire"
)

// Domains of ErrorInfo.
const (
	DomainA2A    = "a2a-protocol.org"
	DomainParley = "parley" // reasons the protocol does not define
)

// Reason is a stable word for why a call failed. The first nine are A2A's own.
type Reason string

const (
	ReasonTaskNotFound            Reason = "TASK_NOT_FOUND"
	ReasonTaskNotCancelable       Reason = "TASK_NOT_CANCELABLE"
	ReasonPushNotSupported        Reason = "PUSH_NOTIFICATION_NOT_SUPPORTED"
	ReasonUnsupportedOperation    Reason = "UNSUPPORTED_OPERATION"
	ReasonContentTypeNotSupported Reason = "CONTENT_TYPE_NOT_SUPPORTED"
	ReasonInvalidAgentResponse    Reason = "INVALID_AGENT_RESPONSE"
	ReasonExtendedCardMissing     Reason = "EXTENDED_AGENT_CARD_NOT_CONFIGURED"
	ReasonExtensionRequired       Reason = "EXTENSION_SUPPORT_REQUIRED"
	ReasonVersionNotSupported     Reason = "VERSION_NOT_SUPPORTED"

	ReasonParse            Reason = "PARSE_ERROR"
	ReasonInvalidRequest   Reason = "INVALID_REQUEST"
	ReasonMethodNotFound   Reason = "METHOD_NOT_FOUND"
	ReasonMethodNotAllowed Reason = "METHOD_NOT_ALLOWED" // the HTTP verb, not the operation
	ReasonInvalidParams    Reason = "INVALID_PARAMS"
	ReasonTooLarge         Reason = "REQUEST_TOO_LARGE"
	ReasonEncoding         Reason = "CONTENT_ENCODING_NOT_SUPPORTED"
	ReasonInternal         Reason = "INTERNAL_ERROR"
	ReasonUnauthenticated  Reason = "UNAUTHENTICATED"
	ReasonForbidden        Reason = "PERMISSION_DENIED"
	ReasonRateLimited      Reason = "RATE_LIMITED"
	ReasonUnavailable      Reason = "UNAVAILABLE"
	ReasonTimeout          Reason = "TIMEOUT"
)

// category is a row of the protocol's error table.
type category struct {
	reason Reason
	code   int    // JSON-RPC
	http   int    // HTTP status
	status string // gRPC code name
}

// The A2A rows are those of v1.0.1. JSON-RPC codes of the rest: the standard ones,
// and -31nnn for an HTTP status nnn that JSON-RPC has no code for, as the official
// SDKs do for 401 and 403. Too many requests are UNAVAILABLE, where the protocol
// files them (section 3.3.2).
var categories = []category{
	{ReasonTaskNotFound, -32001, 404, "NOT_FOUND"},
	{ReasonTaskNotCancelable, -32002, 400, "FAILED_PRECONDITION"},
	{ReasonPushNotSupported, -32003, 400, "FAILED_PRECONDITION"},
	{ReasonUnsupportedOperation, -32004, 400, "FAILED_PRECONDITION"},
	{ReasonContentTypeNotSupported, -32005, 400, "INVALID_ARGUMENT"},
	{ReasonInvalidAgentResponse, -32006, 500, "INTERNAL"},
	{ReasonExtendedCardMissing, -32007, 400, "FAILED_PRECONDITION"},
	{ReasonExtensionRequired, -32008, 400, "FAILED_PRECONDITION"},
	{ReasonVersionNotSupported, -32009, 400, "FAILED_PRECONDITION"},

	{ReasonParse, jsonwire.CodeParse, 400, "INVALID_ARGUMENT"},
	{ReasonInvalidRequest, jsonwire.CodeInvalidRequest, 400, "INVALID_ARGUMENT"},
	{ReasonMethodNotFound, jsonwire.CodeMethodNotFound, 404, "UNIMPLEMENTED"},
	{ReasonMethodNotAllowed, jsonwire.CodeInvalidRequest, 405, "UNIMPLEMENTED"},
	{ReasonInvalidParams, jsonwire.CodeInvalidParams, 400, "INVALID_ARGUMENT"},
	{ReasonTooLarge, jsonwire.CodeInvalidRequest, 413, "INVALID_ARGUMENT"},
	{ReasonEncoding, jsonwire.CodeInvalidRequest, 415, "INVALID_ARGUMENT"},
	{ReasonInternal, jsonwire.CodeInternal, 500, "INTERNAL"},
	{ReasonUnauthenticated, -31401, 401, "UNAUTHENTICATED"},
	{ReasonForbidden, -31403, 403, "PERMISSION_DENIED"},
	{ReasonRateLimited, -31429, 429, "UNAVAILABLE"},
	{ReasonUnavailable, -31503, 503, "UNAVAILABLE"},
	{ReasonTimeout, -31504, 504, "DEADLINE_EXCEEDED"},
}

// ours counts the rows that A2A defines.
const ours = 9

func categoryOf(r Reason) (category, bool) {
	for _, c := range categories {
		if c.reason == r {
			return c, true
		}
	}
	return category{}, false
}

// InA2A tells whether the reason is one of the nine the protocol defines.
func (r Reason) InA2A() bool {
	for _, c := range categories[:ours] {
		if c.reason == r {
			return true
		}
	}
	return false
}

// Error is a failure in the terms of the protocol, free of its binding. Message
// and everything else in it goes to the caller; internal causes do not belong
// here.
type Error struct {
	Reason   Reason
	Domain   string // of the reason; empty means DomainA2A for the nine, else DomainParley
	RPCCode  int    // JSON-RPC error code
	HTTP     int    // HTTP status
	Status   string // gRPC code name
	Message  string
	Metadata map[string]string // of ErrorInfo

	Violations []FieldViolation // what is wrong with the request, field by field
	Details    []jsontext.Value // further typed details, as they came
	RetryAfter time.Duration    // 0 if unknown
	Challenge  string           // WWW-Authenticate; in JSON-RPC too the header of a real 401 or 403
	Allow      string           // the verbs allowed, of a 405
	Bare       bool             // decoded from an HTTP status alone: the body was no A2A error
}

// FieldViolation names one field of the request and what is wrong with it.
type FieldViolation struct {
	Field       string `json:"field"`
	Description string `json:"description"`
}

// NewError makes an error of a known reason. A reason the table does not hold
// takes the codes of ReasonInternal; set others afterwards.
func NewError(reason Reason, format string, args ...any) *Error {
	c, ok := categoryOf(reason)
	if !ok {
		c, _ = categoryOf(ReasonInternal)
	}
	return &Error{Reason: reason, RPCCode: c.code, HTTP: c.http, Status: c.status, Message: fmt.Sprintf(format, args...)}
}

// TaskNotFound is the answer for a task that does not exist or is not the
// caller's; both read alike.
func TaskNotFound(taskID string) *Error {
	return NewError(ReasonTaskNotFound, "there is no such task").With("taskId", taskID)
}

// VersionNotSupported answers a call of another protocol version.
func VersionNotSupported(version Version) *Error {
	e := NewError(ReasonVersionNotSupported, "A2A version %q is not supported; send the header A2A-Version: %s", clip(string(version)), V10)
	return e.With("supportedVersions", supported)
}

// supported are the versions spoken here, the newest first.
const supported = string(V10) + ", " + string(V03)

// UnsupportedOperation answers a method that the agent does not offer, or not for
// this task.
func UnsupportedOperation(format string, args ...any) *Error {
	return NewError(ReasonUnsupportedOperation, format, args...)
}

// Internal is a failure of this side. The text must tell the caller nothing of
// its cause.
func Internal(format string, args ...any) *Error { return NewError(ReasonInternal, format, args...) }

// InvalidParams names what is wrong with a request, field by field.
func InvalidParams(violations ...FieldViolation) *Error {
	message := "the request is invalid"
	if len(violations) > 0 {
		message = violations[0].Field + ": " + violations[0].Description
	}
	e := NewError(ReasonInvalidParams, "%s", message)
	e.Violations = violations
	return e
}

// With adds metadata and returns the error.
func (e *Error) With(key, value string) *Error {
	if e.Metadata == nil {
		e.Metadata = map[string]string{}
	}
	e.Metadata[key] = value
	return e
}

// Error is the message, with the reason before it.
func (e *Error) Error() string {
	if e.Reason == "" {
		return e.Message
	}
	return string(e.Reason) + ": " + e.Message
}

func (e *Error) domain() string {
	switch {
	case e.Domain != "":
		return e.Domain
	case e.Reason.InA2A():
		return DomainA2A
	}
	return DomainParley
}

// fromProblems names every problem of a request's fields.
func fromProblems(problems []*jsonwire.Error) *Error {
	if len(problems) > 0 && problems[0].Kind == jsonwire.KindLimit {
		return NewError(ReasonInvalidRequest, "%s", problemText(problems[0]))
	}
	if n := len(problems); n > 0 && problems[n-1].Kind == jsonwire.KindSyntax {
		return NewError(ReasonParse, "%s", problemText(problems[n-1]))
	}
	violations := make([]FieldViolation, 0, len(problems))
	for _, p := range problems {
		text := p.Problem
		if p.Fix != "" {
			text += "; " + p.Fix
		}
		violations = append(violations, FieldViolation{Field: fieldPath(p.Path), Description: text})
	}
	return InvalidParams(violations...)
}

// problemText is a problem in one line, the place written as fieldPath does.
func problemText(p *jsonwire.Error) string {
	shown := *p
	if p.Path != "" {
		shown.Path = fieldPath(p.Path)
	}
	return shown.Error()
}

// fieldPath writes a JSON pointer the way google.rpc.BadRequest does:
// message.parts[0].text.
func fieldPath(pointer string) string {
	var b strings.Builder
	for i, name := range strings.Split(pointer, "/") {
		name = strings.ReplaceAll(strings.ReplaceAll(name, "~1", "/"), "~0", "~")
		switch {
		case i == 0:
		case isIndex(name) && b.Len() > 0:
			b.WriteString("[" + name + "]")
		default:
			if b.Len() > 0 {
				b.WriteByte('.')
			}
			b.WriteString(clip(name))
		}
	}
	if b.Len() == 0 {
		return "params"
	}
	return b.String()
}

func isIndex(name string) bool {
	return name != "" && strings.Trim(name, "0123456789") == ""
}

// clip shortens foreign text that goes into a message.
func clip(text string) string {
	const most = 80
	if len(text) <= most {
		return text
	}
	return strings.ToValidUTF8(text[:most], "") + "…"
}

// Types of the typed details.
const (
	typeErrorInfo  = "type.googleapis.com/google.rpc.ErrorInfo"
	typeBadRequest = "type.googleapis.com/google.rpc.BadRequest"
	typeRetryInfo  = "type.googleapis.com/google.rpc.RetryInfo"
)

type errorInfo struct {
	Type     string            `json:"@type"`
	Reason   string            `json:"reason"`
	Domain   string            `json:"domain"`
	Metadata map[string]string `json:"metadata,omitempty"`
}

type badRequest struct {
	Type       string           `json:"@type"`
	Violations []FieldViolation `json:"fieldViolations"`
}

type retryInfo struct {
	Type  string `json:"@type"`
	Delay string `json:"retryDelay"`
}

// details are the typed details of the error, in both bindings alike.
func (e *Error) details() ([]jsontext.Value, error) {
	var list []jsontext.Value
	add := func(v any) error {
		raw, err := jsonwire.Marshal(v)
		list = append(list, raw)
		return err
	}
	if e.Reason != "" {
		if err := add(errorInfo{typeErrorInfo, string(e.Reason), e.domain(), e.Metadata}); err != nil {
			return nil, err
		}
	}
	if len(e.Violations) > 0 {
		if err := add(badRequest{typeBadRequest, e.Violations}); err != nil {
			return nil, err
		}
	}
	if e.RetryAfter > 0 {
		if err := add(retryInfo{typeRetryInfo, fmt.Sprintf("%.3fs", e.RetryAfter.Seconds())}); err != nil {
			return nil, err
		}
	}
	return append(list, e.Details...), nil
}

// rpcObject is the error member of a JSON-RPC response.
type rpcObject struct {
	Code    int              `json:"code"`
	Message string           `json:"message"`
	Data    []jsontext.Value `json:"data,omitempty"`
}

// restStatus is the body of an HTTP+JSON error.
type restStatus struct {
	Error restError `json:"error"`
}

type restError struct {
	Code    int              `json:"code"`
	Status  string           `json:"status"`
	Message string           `json:"message"`
	Details []jsontext.Value `json:"details,omitempty"`
}

// RPC returns the error as the error object of a JSON-RPC response.
func (e *Error) RPC() jsontext.Value {
	c := e.clean()
	details, err := c.details()
	if err == nil {
		var raw jsontext.Value
		if raw, err = jsonwire.Marshal(rpcObject{c.RPCCode, c.Message, details}); err == nil {
			return raw
		}
	}
	return jsontext.Value(`{"code":-32603,"message":"the error could not be written"}`)
}

// REST returns the error as the body of an HTTP+JSON response.
func (e *Error) REST() jsontext.Value {
	c := e.clean()
	details, err := c.details()
	if err == nil {
		var raw jsontext.Value
		if raw, err = jsonwire.Marshal(restStatus{restError{c.HTTP, c.Status, c.Message, details}}); err == nil {
			return raw
		}
	}
	return jsontext.Value(`{"error":{"code":500,"status":"INTERNAL","message":"the error could not be written"}}`)
}

// clean is a copy in which all text is valid UTF-8: messages may quote foreign
// bytes.
func (e *Error) clean() Error {
	c := *e
	c.Message = validText(c.Message)
	c.Violations = slices.Clone(c.Violations)
	for i, v := range c.Violations {
		c.Violations[i] = FieldViolation{validText(v.Field), validText(v.Description)}
	}
	c.Metadata = maps.Clone(c.Metadata)
	for k, v := range c.Metadata {
		c.Metadata[k] = validText(v)
	}
	return c
}

func validText(text string) string { return strings.ToValidUTF8(text, "\uFFFD") }
