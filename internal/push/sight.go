package push

import (
	"strings"
	"time"

	"github.com/parley-mesh/parley/internal/call"
)

// Sight is what a look showed of a task.
type Sight struct {
	State  string    // as A2A writes it
	At     time.Time // the status' own timestamp; zero where it has none
	Digest string    // of all that subscribers are shown; empty where it is not known
}

// Mark is s as one word, to be kept until the next look.
func (s Sight) Mark() string {
	at := ""
	if !s.At.IsZero() {
		at = s.At.UTC().Format(time.RFC3339Nano)
	}
	return s.State + "@" + at + "#" + s.Digest
}

// Tells reports whether s shows subscribers something that a sight with that
// mark did not: another status, or another content where both are known. Nothing
// follows a final state. An empty mark is that of nothing.
func (s Sight) Tells(mark string) bool {
	if mark == "" {
		return true
	}
	state, rest, _ := strings.Cut(mark, "@")
	at, digest, _ := strings.Cut(rest, "#")
	switch {
	case call.Final(state):
		return false
	case digest != "" && s.Digest != "":
		return digest != s.Digest
	case state != s.State:
		return true
	}
	known, err := time.Parse(time.RFC3339Nano, at)
	return err == nil && !s.At.IsZero() && !s.At.Equal(known)
}
