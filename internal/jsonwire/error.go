package jsonwire

import (
	"errors"
	"fmt"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// Kind says what sort of rule a document broke.
type Kind string

const (
	KindSyntax Kind = "syntax" // not JSON, invalid UTF-8, a duplicate name, or more than one value
	KindLimit  Kind = "limit"  // over a limit of size or depth
	KindName   Kind = "name"   // a member whose name is a known one misspelt
	KindValue  Kind = "value"  // a member missing, of the wrong type, or out of range
)

// Error is one thing wrong with a document.
type Error struct {
	Kind    Kind
	Path    string // JSON pointer to the member; empty is the document itself
	Offset  int64  // byte offset in the document, at or shortly before the place
	Problem string // what is wrong, without the path
	Fix     string // what to do about it; may be empty
}

// Error names the place, the problem and the fix in one line.
func (e *Error) Error() string {
	var b strings.Builder
	if e.Path != "" {
		fmt.Fprintf(&b, "%s: ", e.Path)
	}
	b.WriteString(e.Problem)
	if e.Path == "" && e.Offset > 0 {
		fmt.Fprintf(&b, " (byte %d)", e.Offset)
	}
	if e.Fix != "" {
		b.WriteString("; ")
		b.WriteString(e.Fix)
	}
	return b.String()
}

// asError turns an error of the JSON library into one of ours, which names no
// Go type: the text may go back to whoever sent the document.
func asError(err error) *Error {
	var syntactic *jsontext.SyntacticError
	if errors.As(err, &syntactic) {
		e := &Error{Kind: KindSyntax, Path: string(syntactic.JSONPointer), Offset: syntactic.ByteOffset}
		if errors.Is(err, jsontext.ErrDuplicateName) {
			e.Problem, e.Fix = "the name is used twice in one object", "keep one of them"
			return e
		}
		e.Problem = "not valid JSON: " + strings.TrimPrefix(syntactic.Err.Error(), "jsontext: ")
		return e
	}
	var semantic *json.SemanticError
	if errors.As(err, &semantic) {
		return &Error{Kind: KindValue, Path: string(semantic.JSONPointer), Offset: semantic.ByteOffset,
			Problem: "the value cannot be read: " + semanticCause(semantic)}
	}
	return &Error{Kind: KindSyntax, Problem: "not valid JSON: " + strings.TrimPrefix(err.Error(), "jsontext: ")}
}

func semanticCause(err *json.SemanticError) string {
	if err.Err != nil {
		return err.Err.Error()
	}
	return "unexpected " + kindName(err.JSONKind)
}

// kindName is the word for a JSON kind in messages to people.
func kindName(k jsontext.Kind) string {
	switch k {
	case 'n':
		return "null"
	case 't', 'f':
		return "a boolean"
	case '"':
		return "a string"
	case '0':
		return "a number"
	case '{':
		return "an object"
	case '[':
		return "an array"
	}
	return "nothing"
}
