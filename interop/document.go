package interop

import (
	"encoding/json"
	"fmt"
	"strings"
)

// Document is what one scenario gave, as a client prints it: with ids replaced
// by numbered words, timestamps by their form and page tokens by the word
// "token", so that two runs can be compared.
type Document struct {
	Scenario string `json:"scenario"`
	Client   string `json:"client"`
	Steps    []Step `json:"steps"`
}

// Step is the outcome of one operation. A stream may have events and then an
// error; other operations have a result or an error.
type Step struct {
	Op     string            `json:"op"`
	Result json.RawMessage   `json:"result,omitempty"`
	Events []json.RawMessage `json:"events,omitempty"`
	Error  *Failure          `json:"error,omitempty"`
}

// Failure is an error as the SDK shows it to its user.
type Failure struct {
	Reason  string `json:"reason"` // the ErrorInfo reason, or the SDK's name for what has none
	Message string `json:"message"`
}

// Transcript tells a document in lines for people, one per step: states,
// words and reasons, without what every SDK represents in its own way.
func (d Document) Transcript() (string, error) {
	var b strings.Builder
	for _, step := range d.Steps {
		var told []string
		if step.Result != nil {
			words, err := tell(step.Result)
			if err != nil {
				return "", fmt.Errorf("%s: %s: %w", d.Scenario, step.Op, err)
			}
			told = append(told, words)
		}
		for _, event := range step.Events {
			words, err := tell(event)
			if err != nil {
				return "", fmt.Errorf("%s: %s: %w", d.Scenario, step.Op, err)
			}
			told = append(told, words)
		}
		if step.Error != nil {
			told = append(told, "error "+step.Error.Reason)
		}
		fmt.Fprintf(&b, "%s: %s\n", step.Op, strings.Join(told, " | "))
	}
	return b.String(), nil
}

// answer is the part of an SDK's JSON that a transcript tells.
type answer struct {
	Message        *message `json:"message"`
	Task           *task    `json:"task"`
	StatusUpdate   *task    `json:"statusUpdate"`
	ArtifactUpdate *chunk   `json:"artifactUpdate"`

	Tasks         []task `json:"tasks"`
	TotalSize     *int   `json:"totalSize"`
	NextPageToken string `json:"nextPageToken"`

	Open string `json:"open"`
}

type message struct {
	Parts      []part          `json:"parts"`
	Metadata   json.RawMessage `json:"metadata"`
	Extensions []string        `json:"extensions"`
}

type part struct {
	Text *string         `json:"text"`
	Data json.RawMessage `json:"data"`
}

type task struct {
	Status struct {
		State   string   `json:"state"`
		Message *message `json:"message"`
	} `json:"status"`
	Artifacts []artifact        `json:"artifacts"`
	History   []json.RawMessage `json:"history"`
	Metadata  json.RawMessage   `json:"metadata"`
}

type artifact struct {
	ID string `json:"artifactId"`
	message
}

type chunk struct {
	Artifact  artifact `json:"artifact"`
	Append    bool     `json:"append"`
	LastChunk bool     `json:"lastChunk"`
}

func tell(text json.RawMessage) (string, error) {
	var a answer
	if err := json.Unmarshal(text, &a); err != nil {
		return "", err
	}
	switch {
	case a.Message != nil:
		return "message" + a.Message.tell(), nil
	case a.Task != nil:
		return a.Task.tell(), nil
	case a.StatusUpdate != nil:
		return strings.TrimPrefix(a.StatusUpdate.tell(), "task "), nil
	case a.ArtifactUpdate != nil:
		return a.ArtifactUpdate.tell(), nil
	case a.TotalSize != nil:
		return a.tellPage(), nil
	case a.Open != "":
		return "open task", nil
	default:
		return "", fmt.Errorf("neither a message, a task, an update nor a page: %s", text)
	}
}

func (a answer) tellPage() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d of %d", len(a.Tasks), *a.TotalSize)
	for _, t := range a.Tasks {
		b.WriteString(", " + t.tell())
	}
	if a.NextPageToken != "" {
		b.WriteString(", more")
	}
	return b.String()
}

func (t task) tell() string {
	var b strings.Builder
	b.WriteString("task " + strings.TrimPrefix(t.Status.State, "TASK_STATE_"))
	if t.Status.Message != nil {
		b.WriteString(t.Status.Message.tell())
	}
	for _, a := range t.Artifacts {
		b.WriteString("; " + a.ID + a.tell())
	}
	if len(t.Metadata) > 0 {
		b.WriteString(" metadata " + plain(t.Metadata))
	}
	return b.String()
}

func (c chunk) tell() string {
	sign := ""
	if c.Append {
		sign = "+"
	}
	words := c.Artifact.ID + sign + c.Artifact.tell()
	if c.LastChunk {
		words += " last"
	}
	return words
}

func (m message) tell() string {
	var b strings.Builder
	for _, p := range m.Parts {
		if p.Text != nil {
			fmt.Fprintf(&b, " %q", *p.Text)
		} else {
			b.WriteString(" " + plain(p.Data))
		}
	}
	if len(m.Metadata) > 0 {
		b.WriteString(" metadata " + plain(m.Metadata))
	}
	if len(m.Extensions) > 0 {
		b.WriteString(" extensions " + strings.Join(m.Extensions, ","))
	}
	return b.String()
}

// plain writes a JSON value in one way, whatever wrote it: SDKs differ on 1
// and 1.0, and on the order of members.
func plain(text json.RawMessage) string {
	var value any
	if err := json.Unmarshal(text, &value); err != nil {
		return string(text)
	}
	again, err := json.Marshal(value)
	if err != nil {
		return string(text)
	}
	return string(again)
}
