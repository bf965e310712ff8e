package parley

import (
	"errors"
	"fmt"
)

// Kind is the closed set of ways an operation of the mesh can fail. Metrics
// label by it; kinds says what each becomes on every surface.
type Kind uint8

// The kinds. The zero value is Internal, so that a forgotten kind is loud.
const (
	Internal     Kind = iota // a fault of the mesh
	Invalid                  // the input is wrong; the message names the field and the fix
	NotFound                 // no such thing, or the caller may not know of it
	Conflict                 // the thing exists already, or has changed meanwhile
	Unauthorized             // no credential, or one that is not valid
	Denied                   // who asks is known and may not
	Frozen                   // who asks is known, and everything of theirs is stopped
	Exhausted                // a limit is reached; later may help
	Unavailable              // something needed is away; later may help
	Timeout                  // a deadline passed
	Canceled                 // whoever asked has left
	AgentFailed              // the agent answered with a failure or not at all
	Unsupported              // the mesh cannot do this
)

// KindInfo is what a kind becomes on each surface.
type KindInfo struct {
	Code       string // stable code in problem details and JSON errors
	HTTPStatus int
	RPCCode    int // JSON-RPC error code on the A2A edge
	Exit       int // exit code of the command line
	Retry      bool
}

// kinds is the one table from kind to surfaces; a test checks it is total.
var kinds = [...]KindInfo{
	Internal:     {"internal", 500, -32603, 1, false},
	Invalid:      {"invalid", 400, -32602, 5, false},
	NotFound:     {"not_found", 404, -32001, 3, false},
	Conflict:     {"conflict", 409, -32602, 5, false},
	Unauthorized: {"unauthorized", 401, -31401, 4, false},
	Denied:       {"denied", 403, -31403, 4, false},
	Frozen:       {"principal_frozen", 403, -31403, 4, false},
	Exhausted:    {"exhausted", 429, -31429, 7, true},
	Unavailable:  {"unavailable", 503, -31503, 7, true},
	Timeout:      {"timeout", 504, -31504, 6, true},
	Canceled:     {"canceled", 499, -31499, 1, false},
	AgentFailed:  {"agent_failed", 502, -31502, 1, true},
	Unsupported:  {"unsupported", 501, -32004, 1, false},
}

// Info tells what k becomes on each surface.
func (k Kind) Info() KindInfo {
	if int(k) < len(kinds) {
		return kinds[k]
	}
	return kinds[Internal]
}

// String is the kind's stable code.
func (k Kind) String() string { return k.Info().Code }

// KindOfCode is the kind whose stable code is code; Internal for any other.
func KindOfCode(code string) Kind {
	for k, info := range kinds {
		if info.Code == code {
			return Kind(k)
		}
	}
	return Internal
}

// Op names the operation that failed, as package.verb ("registry.add").
type Op string

// Subject is what the operation was about, such as an agent's name.
type Subject string

// Error is a failure of the mesh as data. Message is for whoever asked and
// never holds internal causes; Err is the cause and goes to the operator's
// log only.
type Error struct {
	Op      Op
	Kind    Kind
	Subject Subject
	Message string
	Fields  []Field
	Err     error
}

// Field is one wrong part of an input: where, what is wrong, what to do.
type Field struct {
	Path    string `json:"path"`    // JSON pointer, or the name of a flag or key
	Problem string `json:"problem"` // what is wrong with it
	Fix     string `json:"fix,omitempty"`
}

// E makes an Error whose cause, if any, stays internal.
func E(op Op, kind Kind, subject Subject, message string, cause error) *Error {
	return &Error{Op: op, Kind: kind, Subject: subject, Message: message, Err: cause}
}

// Error gives the whole story, cause included: it is for logs, not for whoever
// asked (see PublicMessage).
func (e *Error) Error() string {
	s := string(e.Op)
	if e.Subject != "" {
		s += " " + string(e.Subject)
	}
	s += ": " + e.Public()
	if e.Err != nil {
		s += ": " + e.Err.Error()
	}
	return s
}

// Unwrap gives the cause.
func (e *Error) Unwrap() error { return e.Err }

// Public is what whoever asked may read: the message and the wrong fields.
func (e *Error) Public() string {
	s := e.Message
	if s == "" {
		s = e.Kind.String()
	}
	for _, f := range e.Fields {
		s += fmt.Sprintf("; %s: %s", f.Path, f.Problem)
		if f.Fix != "" {
			s += " (" + f.Fix + ")"
		}
	}
	return s
}

// KindOf is the kind of the first *Error in err's chain; Internal if there is
// none.
func KindOf(err error) Kind {
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Kind
	}
	return Internal
}

// PublicMessage is what whoever asked may read of err.
func PublicMessage(err error) string {
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Public()
	}
	return "internal error; the operator's log says more"
}
