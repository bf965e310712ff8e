package parley

import (
	"fmt"

	"github.com/google/uuid"
)

// CallID identifies one call. It is a UUIDv7 made by the mesh, so ids sort by
// the time they were made. The zero value means "no call".
type CallID [16]byte

// NewCallID makes a fresh id.
func NewCallID() CallID { return CallID(uuid.Must(uuid.NewV7())) }

// ParseCallID reads the textual form of a call id.
func ParseCallID(s string) (CallID, error) {
	u, err := uuid.Parse(s)
	if err != nil || len(s) != 36 {
		return CallID{}, fmt.Errorf("call id %.40q is not a UUID such as 01970000-0000-7000-8000-000000000000", s)
	}
	return CallID(u), nil
}

// String is the usual textual form; empty for the zero value.
func (id CallID) String() string {
	if id == (CallID{}) {
		return ""
	}
	return uuid.UUID(id).String()
}

// IsZero reports whether id names no call.
func (id CallID) IsZero() bool { return id == CallID{} }

// MarshalText gives the textual form.
func (id CallID) MarshalText() ([]byte, error) { return []byte(id.String()), nil }

// UnmarshalText reads the textual form; empty text is the zero value.
func (id *CallID) UnmarshalText(b []byte) error {
	if len(b) == 0 {
		*id = CallID{}
		return nil
	}
	parsed, err := ParseCallID(string(b))
	if err != nil {
		return err
	}
	*id = parsed
	return nil
}
