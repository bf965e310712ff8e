package v03

import (
	"slices"
	"strconv"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/parley-mesh/parley/internal/jsonwire"
)

// enum is the value of an enumeration as it came: a word, or a number in ProtoJSON.
type enum jsontext.Value

// CheckWire implements jsonwire.Checker. Which words there are depends on the
// dialect, which the conversion knows.
func (enum) CheckWire(raw jsontext.Value, _ bool) (problem, fix string) {
	if len(raw) > 0 && (raw[0] == '"' || raw[0] >= '0' && raw[0] <= '9') {
		return "", ""
	}
	return "is not one of the defined values", ""
}

// UnmarshalJSON keeps the value.
func (e *enum) UnmarshalJSON(raw []byte) error {
	*e = enum(slices.Clone(raw))
	return nil
}

// MarshalJSON writes the value as it is.
func (e enum) MarshalJSON() ([]byte, error) { return e, nil }

// word is one value of an enumeration in all three forms. Its place in the table
// is its number in ProtoJSON.
type word struct{ v1, rpc, proto string }

// Version 1.0 never sends its unspecified state; what reads a 1.0 document refuses it.
var states = []word{
	{"TASK_STATE_UNSPECIFIED", "unknown", "TASK_STATE_UNSPECIFIED"},
	{"TASK_STATE_SUBMITTED", "submitted", "TASK_STATE_SUBMITTED"},
	{"TASK_STATE_WORKING", "working", "TASK_STATE_WORKING"},
	{"TASK_STATE_COMPLETED", "completed", "TASK_STATE_COMPLETED"},
	{"TASK_STATE_FAILED", "failed", "TASK_STATE_FAILED"},
	{"TASK_STATE_CANCELED", "canceled", "TASK_STATE_CANCELLED"},
	{"TASK_STATE_INPUT_REQUIRED", "input-required", "TASK_STATE_INPUT_REQUIRED"},
	{"TASK_STATE_REJECTED", "rejected", "TASK_STATE_REJECTED"},
	{"TASK_STATE_AUTH_REQUIRED", "auth-required", "TASK_STATE_AUTH_REQUIRED"},
}

// Roles: 0.3 has no word for the unspecified one, and nobody sends it.
var roles = []word{
	{},
	{"ROLE_USER", "user", "ROLE_USER"},
	{"ROLE_AGENT", "agent", "ROLE_AGENT"},
}

// find gives the row of an enumeration's value for which same holds.
func find(e enum, words []word, same func(w word, text string) bool) (word, bool) {
	if len(e) > 0 && e[0] != '"' {
		n, err := strconv.Atoi(string(e))
		if err != nil || n < 0 || n >= len(words) {
			return word{}, false
		}
		return words[n], words[n].v1 != ""
	}
	text := jsonwire.String(jsontext.Value(e))
	for _, w := range words {
		if w.v1 != "" && same(w, text) {
			return w, true
		}
	}
	return word{}, false
}

// enumToV1 reads a 0.3 value.
func (r reader) enumToV1(e enum, words []word) (enum, error) {
	isNumber := len(e) > 0 && e[0] != '"'
	w, ok := find(e, words, func(w word, text string) bool {
		rpc := text == w.rpc
		proto := text == w.proto || text == w.v1 // stubs exist with either spelling of a canceled state
		return rpc && (r.lax || r.dialect == RPC) || proto && (r.lax || r.dialect == Proto)
	})
	if !ok || isNumber && r.dialect == RPC {
		list := ""
		for _, w := range words {
			if w.v1 == "" {
				continue
			}
			if list != "" {
				list += ", "
			}
			list += w.in(r.dialect)
		}
		return nil, problem("", "is not one of the defined values", "use one of "+list)
	}
	return enum(jsonwire.Quote(w.v1)), nil
}

// enumFromV1 writes a 1.0 value in a dialect.
func enumFromV1(e enum, words []word, d Dialect) (enum, error) {
	w, ok := find(e, words, func(w word, text string) bool { return text == w.v1 })
	if !ok {
		return nil, problem("", "is not one of the defined values", "")
	}
	return enum(jsonwire.Quote(w.in(d))), nil
}

func (w word) in(d Dialect) string {
	if d == RPC {
		return w.rpc
	}
	return w.proto
}

// ends tells whether a status event with this 1.0 state is the final one of a 0.3
// stream: the task has ended, or it is the caller's turn.
func ends(state enum) bool {
	switch jsonwire.String(jsontext.Value(state)) {
	case "TASK_STATE_COMPLETED", "TASK_STATE_FAILED", "TASK_STATE_CANCELED", "TASK_STATE_REJECTED", "TASK_STATE_INPUT_REQUIRED":
		return true
	}
	return false
}

// StateToV1 is the 1.0 name of a task state in either dialect; what is none stays
// as it is.
func StateToV1(state string) string {
	e, err := reader{lax: true}.enumToV1(enum(jsonwire.Quote(state)), states)
	if err != nil {
		return state
	}
	return jsonwire.String(jsontext.Value(e))
}
