package control

import (
	"errors"
	"io"
	"reflect"
	"strings"

	stdjson "encoding/json"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/parley-mesh/parley/internal/parley"
)

// syntaxError is a body that is not the JSON it should be.
type syntaxError struct {
	pointer string
	problem string
}

// problemUnknown is the problem of a member that nothing has.
const problemUnknown = "is not known here"

// syntaxMark starts the text of a syntaxError: huma hands on only the text of
// what went wrong with a body, and must not hand on what the body said.
const syntaxMark = "the body cannot be read at "

func (e *syntaxError) Error() string { return syntaxMark + e.pointer + "\n" + e.problem }

// field words e for an operation with that input.
func (e *syntaxError) field(input reflect.Type) parley.Field {
	if e.problem == problemUnknown {
		return unknownMember(input, strings.ReplaceAll(strings.TrimPrefix(e.pointer, "/"), "/", "."))
	}
	return parley.Field{Path: e.pointer, Problem: e.problem, Fix: "send one JSON object as " + OpenAPIPath + " describes it"}
}

// syntaxIn finds the syntaxError whose text huma kept.
func syntaxIn(text string) (*syntaxError, bool) {
	rest, ok := strings.CutPrefix(text, syntaxMark)
	if !ok {
		return nil, false
	}
	at, problem, _ := strings.Cut(rest, "\n")
	return &syntaxError{pointer: at, problem: problem}, true
}

// decodeJSON reads one JSON value strictly: exact names, no duplicate names,
// valid UTF-8, nothing behind it. The size is bounded before.
func decodeJSON(data []byte, v any) error {
	err := json.Unmarshal(data, v, json.RejectUnknownMembers(true))
	if err == nil {
		return nil
	}
	e := &syntaxError{problem: "is not the JSON that is expected here"}
	if s, ok := errors.AsType[*jsontext.SyntacticError](err); ok {
		e.pointer, e.problem = string(s.JSONPointer), "is not valid JSON"
		if errors.Is(err, jsontext.ErrDuplicateName) {
			e.problem = "stands twice"
		}
	} else if s, ok := errors.AsType[*json.SemanticError](err); ok {
		if e.pointer = string(s.JSONPointer); errors.Is(err, json.ErrUnknownName) {
			e.problem = problemUnknown
		}
	}
	return e
}

// encodeJSON writes answers.
func encodeJSON(w io.Writer, v any) error {
	enc := stdjson.NewEncoder(w)
	enc.SetEscapeHTML(false)
	return enc.Encode(v)
}
