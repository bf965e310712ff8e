package a2a

import (
	"encoding/base64"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/parley-mesh/parley/internal/jsonwire"
)

// TaskState is the state of a task. The zero value stands for none given.
type TaskState string

const (
	StateUnspecified   TaskState = "TASK_STATE_UNSPECIFIED"
	StateSubmitted     TaskState = "TASK_STATE_SUBMITTED"
	StateWorking       TaskState = "TASK_STATE_WORKING"
	StateCompleted     TaskState = "TASK_STATE_COMPLETED"
	StateFailed        TaskState = "TASK_STATE_FAILED"
	StateCanceled      TaskState = "TASK_STATE_CANCELED"
	StateInputRequired TaskState = "TASK_STATE_INPUT_REQUIRED"
	StateRejected      TaskState = "TASK_STATE_REJECTED"
	StateAuthRequired  TaskState = "TASK_STATE_AUTH_REQUIRED"
)

// taskStates holds the names by their number in the protocol.
var taskStates = []TaskState{StateUnspecified, StateSubmitted, StateWorking, StateCompleted, StateFailed,
	StateCanceled, StateInputRequired, StateRejected, StateAuthRequired}

// Terminal tells whether a task in this state can never change again.
func (s TaskState) Terminal() bool {
	switch s {
	case StateCompleted, StateFailed, StateCanceled, StateRejected:
		return true
	}
	return false
}

// Interrupted tells whether a task in this state waits for the caller's side.
func (s TaskState) Interrupted() bool { return s == StateInputRequired || s == StateAuthRequired }

// CheckWire accepts the names and the numbers of the states, but not the
// unspecified one.
func (TaskState) CheckWire(raw jsontext.Value, _ bool) (problem, fix string) {
	return checkEnum(raw, taskStates)
}

// UnmarshalJSON accepts what CheckWire accepts.
func (s *TaskState) UnmarshalJSON(raw []byte) error { return decodeEnum(raw, taskStates, s) }

// Role says who made a message. The zero value stands for none given.
type Role string

const (
	RoleUnspecified Role = "ROLE_UNSPECIFIED"
	RoleUser        Role = "ROLE_USER"
	RoleAgent       Role = "ROLE_AGENT"
)

var roles = []Role{RoleUnspecified, RoleUser, RoleAgent}

// CheckWire accepts the names and the numbers of the roles, but not the
// unspecified one.
func (Role) CheckWire(raw jsontext.Value, _ bool) (problem, fix string) {
	return checkEnum(raw, roles)
}

// UnmarshalJSON accepts what CheckWire accepts.
func (r *Role) UnmarshalJSON(raw []byte) error { return decodeEnum(raw, roles, r) }

func checkEnum[E ~string](raw jsontext.Value, names []E) (problem, fix string) {
	if e := enumValue(raw, names); e != "" && e != names[0] {
		return "", ""
	}
	rest := make([]string, 0, len(names))
	for _, n := range names[1:] {
		rest = append(rest, string(n))
	}
	return "is not one of the defined values", "use one of " + strings.Join(rest, ", ")
}

func decodeEnum[E ~string](raw []byte, names []E, into *E) error {
	if string(raw) == "null" {
		*into = ""
		return nil
	}
	e := enumValue(raw, names)
	if e == "" {
		return fmt.Errorf("%.64s is not one of the defined values", raw)
	}
	*into = e
	return nil
}

// enumValue reads an enumeration as ProtoJSON does: by name or by number.
func enumValue[E ~string](raw jsontext.Value, names []E) E {
	if len(raw) == 0 {
		return ""
	}
	if raw[0] == '"' {
		for _, n := range names {
			if string(raw[1:len(raw)-1]) == string(n) {
				return n
			}
		}
		if i := slices.Index(names, E(jsonwire.String(raw))); i >= 0 {
			return names[i]
		}
		return ""
	}
	if i, err := strconv.Atoi(string(raw)); err == nil && i >= 0 && i < len(names) {
		return names[i]
	}
	return ""
}

// Timestamp is a point in time, written in UTC with milliseconds, or with
// nanoseconds where it has them.
type Timestamp struct{ time.Time }

// Now is the current time as a Timestamp, cut to milliseconds.
func Now() Timestamp { return Timestamp{time.Now().UTC().Truncate(time.Millisecond)} }

const timestampLayout = "2006-01-02T15:04:05.000Z"

// CheckWire accepts RFC 3339 in UTC, written with Z; from an answering peer
// with another offset too, since some agents write local time.
func (Timestamp) CheckWire(raw jsontext.Value, lax bool) (problem, fix string) {
	const form = `write UTC as in "2026-01-02T03:04:05.678Z"`
	text := jsonwire.String(raw)
	if _, err := parseTimestamp(text); err != nil {
		return "is not a timestamp", form
	}
	if !lax && !strings.HasSuffix(text, "Z") {
		return "must be in UTC", form
	}
	return "", ""
}

func parseTimestamp(text string) (Timestamp, error) {
	t, err := time.Parse(time.RFC3339Nano, text)
	if err != nil {
		return Timestamp{}, fmt.Errorf("%.64q is not a timestamp", text)
	}
	if y := t.UTC().Year(); y < 1 || y > 9999 {
		return Timestamp{}, fmt.Errorf("%.64q is outside the years 1 to 9999", text)
	}
	return Timestamp{t.UTC()}, nil
}

// String is the form on the wire.
func (t Timestamp) String() string {
	u := t.UTC()
	if u.Nanosecond()%int(time.Millisecond) == 0 {
		return u.Format(timestampLayout)
	}
	return u.Format(time.RFC3339Nano)
}

// MarshalJSON writes the form on the wire.
func (t Timestamp) MarshalJSON() ([]byte, error) { return jsonwire.Quote(t.String()), nil }

// UnmarshalJSON reads RFC 3339 with any offset.
func (t *Timestamp) UnmarshalJSON(raw []byte) (err error) {
	if string(raw) == "null" {
		*t = Timestamp{}
		return nil
	}
	*t, err = parseTimestamp(jsonwire.String(raw))
	return err
}

// Bytes is content written in base64. nil means absent.
type Bytes []byte

// CheckWire accepts standard and URL-safe base64, padded or not.
func (Bytes) CheckWire(raw jsontext.Value, _ bool) (problem, fix string) {
	if len(raw) < 2 || raw[0] != '"' {
		return "must be a string of base64", ""
	}
	text := raw[1 : len(raw)-1]
	if !plainBase64(text) {
		if _, err := decodeBase64(jsonwire.String(raw)); err != nil {
			return "is not base64", "encode the bytes in standard base64 with padding"
		}
	}
	return "", ""
}

// plainBase64 recognises clean base64 without decoding a large file.
func plainBase64(text []byte) bool {
	n := len(text)
	for pad := 0; pad < 2 && n > 0 && text[n-1] == '='; pad++ {
		n--
	}
	if n%4 == 1 || (n < len(text) && len(text)%4 != 0) {
		return false
	}
	std, url := false, false
	for _, b := range text[:n] {
		switch {
		case b >= 'A' && b <= 'Z', b >= 'a' && b <= 'z', b >= '0' && b <= '9':
		case b == '+', b == '/':
			std = true
		case b == '-', b == '_':
			url = true
		default:
			return false
		}
	}
	return !(std && url)
}

func decodeBase64(text string) ([]byte, error) {
	text = strings.TrimRight(text, "=")
	if strings.ContainsAny(text, "-_") {
		return base64.RawURLEncoding.DecodeString(text)
	}
	return base64.RawStdEncoding.DecodeString(text)
}

// MarshalJSON writes standard base64 with padding.
func (b Bytes) MarshalJSON() ([]byte, error) {
	return jsonwire.Quote(base64.StdEncoding.EncodeToString(b)), nil
}

// UnmarshalJSON accepts what CheckWire accepts.
func (b *Bytes) UnmarshalJSON(raw []byte) error {
	if string(raw) == "null" {
		*b = nil
		return nil
	}
	text, err := decodeBase64(jsonwire.String(raw))
	if err != nil {
		return fmt.Errorf("is not base64: %w", err)
	}
	*b = Bytes(text)
	if *b == nil {
		*b = Bytes{}
	}
	return nil
}
