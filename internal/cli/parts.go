package cli

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/parley-mesh/parley/internal/a2a"
)

// maxShownFile is the largest text file that is shown in full, in bytes.
const maxShownFile = 64 << 10

// partText is a part as a person reads it, cleaned.
func partText(part a2a.Part) string {
	switch {
	case part.Text != nil:
		return cleanText(*part.Text)
	case part.URL != nil:
		return cleanLine(strings.TrimSpace(fmt.Sprintf("[file %s %s: %s]", part.Filename, part.MediaType, *part.URL)))
	case part.Raw != nil:
		return fileText(part)
	}
	return cleanText(indented(part.Data))
}

func fileText(part a2a.Part) string {
	label := cleanLine(fmt.Sprintf("[file %s %s, %d bytes]", part.Filename, part.MediaType, len(part.Raw)))
	text := strings.HasPrefix(part.MediaType, "text/") || part.MediaType == "application/json"
	if !text || len(part.Raw) > maxShownFile || !utf8.Valid(part.Raw) {
		return label
	}
	return label + "\n" + cleanText(string(part.Raw))
}

// partsText joins parts, each on lines of its own.
func partsText(parts []a2a.Part) string {
	var texts []string
	for _, part := range parts {
		texts = append(texts, strings.TrimRight(partText(part), "\n"))
	}
	return strings.Join(texts, "\n")
}

// messageText is what a message says; empty for none.
func messageText(m *a2a.Message) string {
	if m == nil {
		return ""
	}
	return partsText(m.Parts)
}

// stateText is a task's state in words: "input required".
func stateText(s a2a.TaskState) string {
	name := strings.ToLower(strings.TrimPrefix(string(s), "TASK_STATE_"))
	return cleanLine(strings.ReplaceAll(name, "_", " "))
}

// parseState reads a state as people write it: "working", "input-required" or
// as A2A writes it.
func parseState(s string) (a2a.TaskState, error) {
	if s == "" {
		return "", nil
	}
	name := strings.ToUpper(strings.NewReplacer("-", "_", " ", "_").Replace(s))
	state := a2a.TaskState("TASK_STATE_" + strings.TrimPrefix(name, "TASK_STATE_"))
	for _, known := range taskStates {
		if state == known {
			return state, nil
		}
	}
	var names []string
	for _, known := range taskStates {
		names = append(names, strings.ReplaceAll(stateText(known), " ", "-"))
	}
	return "", usagef("state %q is unknown: use %s", s, strings.Join(names, ", "))
}

var taskStates = []a2a.TaskState{
	a2a.StateSubmitted, a2a.StateWorking, a2a.StateInputRequired, a2a.StateAuthRequired,
	a2a.StateCompleted, a2a.StateFailed, a2a.StateCanceled, a2a.StateRejected,
}
