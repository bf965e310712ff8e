package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/spf13/pflag"

	"github.com/parley-mesh/parley/internal/a2a"
	"github.com/parley-mesh/parley/internal/parley"
)

// exitUsage is the exit code of a command line that cannot be understood; the
// other codes are those of parley.Kind.
const exitUsage = 2

func exitCode(err error) int {
	if isUsage(err) {
		return exitUsage
	}
	return kindOf(err).Info().Exit
}

// isUsage reports whether err is about the command line itself. Errors of
// flags before the verb come from the parser as they are.
func isUsage(err error) bool {
	var (
		unknown *pflag.NotExistError
		missing *pflag.ValueRequiredError
		value   *pflag.InvalidValueError
		syntax  *pflag.InvalidSyntaxError
	)
	_, ok := errors.AsType[usageError](err)
	return ok || errors.As(err, &unknown) || errors.As(err, &missing) || errors.As(err, &value) || errors.As(err, &syntax)
}

// failure is an error as JSON.
type failure struct {
	Code    string         `json:"code"` // of parley.Kind, or usage, or checks_failed
	Message string         `json:"message"`
	Fields  []parley.Field `json:"fields,omitempty"`
	Call    string         `json:"call,omitempty"` // id of the call that failed
}

// failJSON prints the error that ends a command as one JSON document in a line.
func (p *program) failJSON(ctx context.Context, err error) {
	f := failure{Code: kindOf(err).String(), Message: message(ctx, err), Call: p.failed}
	if isUsage(err) {
		f.Code = "usage"
	}
	if _, ok := errors.AsType[checksFailed](err); ok {
		f.Code = "checks_failed"
	}
	if _, ok := errors.AsType[differs](err); ok {
		f.Code = "differs"
	}
	if e, ok := errors.AsType[*parley.Error](err); ok && e.Message != "" && len(e.Fields) > 0 {
		f.Message, f.Fields = e.Message, e.Fields
	}
	if e, ok := errors.AsType[*a2a.Error](err); ok && len(e.Violations) > 0 {
		f.Message = e.Message
		for _, v := range e.Violations {
			f.Fields = append(f.Fields, parley.Field{Path: v.Field, Problem: v.Description})
		}
	}
	raw, err := json.Marshal(map[string]failure{"error": f})
	if err != nil { // texts always encode
		panic(err)
	}
	fmt.Fprintln(p.Err, string(raw))
}

// kindOf sorts everything that a verb can run into.
func kindOf(err error) parley.Kind {
	if e, ok := errors.AsType[connectError](err); ok {
		return e.cause.Kind
	}
	if e, ok := errors.AsType[*parley.Error](err); ok {
		return e.Kind
	}
	if e, ok := errors.AsType[*a2a.Error](err); ok {
		return kindOfReason(e)
	}
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return parley.Timeout
	case errors.Is(err, context.Canceled):
		return parley.Canceled
	}
	if e, ok := errors.AsType[*a2a.TransportError](err); ok {
		if e.Stage == a2a.StageBody || e.Stage == a2a.StageStream {
			return parley.AgentFailed
		}
		return parley.Unavailable
	}
	return parley.Internal
}

// kindsOfReasons says what an answer of the edge means for the exit code.
// What is not here is the agent's failure.
var kindsOfReasons = map[a2a.Reason]parley.Kind{
	a2a.ReasonTaskNotFound:            parley.NotFound,
	a2a.ReasonMethodNotFound:          parley.NotFound,
	"AGENT_NOT_FOUND":                 parley.NotFound,
	a2a.ReasonUnauthenticated:         parley.Unauthorized,
	a2a.ReasonForbidden:               parley.Denied,
	"PRINCIPAL_FROZEN":                parley.Frozen,
	a2a.ReasonInvalidParams:           parley.Invalid,
	a2a.ReasonInvalidRequest:          parley.Invalid,
	a2a.ReasonParse:                   parley.Invalid,
	a2a.ReasonTooLarge:                parley.Invalid,
	a2a.ReasonContentTypeNotSupported: parley.Invalid,
	a2a.ReasonTaskNotCancelable:       parley.Conflict,
	a2a.ReasonTimeout:                 parley.Timeout,
	a2a.ReasonRateLimited:             parley.Exhausted,
	a2a.ReasonUnavailable:             parley.Unavailable,
}

func kindOfReason(e *a2a.Error) parley.Kind {
	if kind, ok := kindsOfReasons[e.Reason]; ok {
		return kind
	}
	switch e.HTTP { // an answer that is no A2A error, such as a proxy's page
	case http.StatusUnauthorized:
		return parley.Unauthorized
	case http.StatusForbidden:
		return parley.Denied
	case http.StatusServiceUnavailable, http.StatusBadGateway:
		return parley.Unavailable
	case http.StatusGatewayTimeout:
		return parley.Timeout
	}
	return parley.AgentFailed
}

// message is what a person reads of err. The command line's own errors have no
// internal half: whoever runs it may know all of it.
func message(ctx context.Context, err error) string {
	if errors.Is(err, context.Canceled) && ctx.Err() != nil {
		return "interrupted"
	}
	return cleanText(plainMessage(err))
}

func plainMessage(err error) string {
	if e, ok := errors.AsType[connectError](err); ok {
		return e.cause.Public()
	}
	if e, ok := errors.AsType[*parley.Error](err); ok {
		return publicLines(e)
	}
	if e, ok := errors.AsType[*a2a.Error](err); ok {
		return a2aMessage(e)
	}
	if e, ok := errors.AsType[*a2a.TransportError](err); ok {
		switch {
		case errors.Is(err, context.DeadlineExceeded):
			return "no answer within --timeout; the agent may still be working (parley calls list --outcome open)"
		case errors.Is(err, a2a.ErrEndEarly):
			return "the stream ended before the task came to rest; look at it with parley task get"
		case e.Stage == a2a.StageBody:
			return "what answered is no A2A agent: is this the address of a mesh? " + e.Error()
		}
		return e.Error()
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return "no answer within the time allowed"
	}
	return err.Error()
}

// oneLine is plainMessage in one line.
func oneLine(err error) string {
	head, rest, found := strings.Cut(plainMessage(err), "\n")
	if !found {
		return head
	}
	return head + ": " + strings.ReplaceAll(strings.TrimSpace(rest), "\n  ", "; ")
}

// publicLines is the message with each wrong field on a line of its own.
func publicLines(e *parley.Error) string {
	if len(e.Fields) == 0 {
		return e.Public()
	}
	lines := []string{e.Message}
	for _, f := range e.Fields {
		line := "  " + strings.TrimPrefix(f.Path, "/") + ": " + f.Problem
		if f.Path == "" {
			line = "  " + f.Problem
		}
		if f.Fix != "" {
			line += " (" + f.Fix + ")"
		}
		lines = append(lines, line)
	}
	return strings.Join(lines, "\n")
}

func a2aMessage(e *a2a.Error) string {
	s := e.Message
	if s == "" {
		s = string(e.Reason)
	}
	for _, v := range e.Violations {
		s += "\n  " + v.Field + ": " + v.Description
	}
	switch {
	case e.Reason == a2a.ReasonUnsupportedOperation && strings.Contains(s, "stream"):
		s += "; leave out --stream"
	case kindOfReason(e) == parley.Unauthorized:
		s += "; set PARLEY_KEY or --key-file"
	}
	return s
}
