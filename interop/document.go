package interop

import (
	"encoding/json"
	"fmt"
	"path"
	"slices"
	"strconv"
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

	Configs []pushConfig `json:"configs"`
	Deleted bool         `json:"deleted"`
	pushConfig
}

// pushConfig is an address that is told of a task.
type pushConfig struct {
	ID     string      `json:"id"`
	URL    string      `json:"url"`
	Config *pushConfig `json:"pushNotificationConfig"` // of version 0.3
}

type message struct {
	Parts      []part          `json:"parts"`
	Metadata   json.RawMessage `json:"metadata"`
	Extensions []string        `json:"extensions"`
}

type part struct {
	Text *string         `json:"text"`
	Data json.RawMessage `json:"data"`

	Raw       string `json:"raw"`
	URL       string `json:"url"`
	MediaType string `json:"mediaType"`
	Filename  string `json:"filename"`
	File      *file  `json:"file"` // of version 0.3
}

// file is what version 0.3 has inside a part.
type file struct {
	Bytes    string `json:"bytes"`
	URI      string `json:"uri"`
	MimeType string `json:"mimeType"`
	Name     string `json:"name"`
}

type task struct {
	Final  *bool `json:"final"` // of version 0.3, in status updates
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
	a, err := readAnswer(text)
	if err != nil {
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
	case a.URL != "" || a.Config != nil:
		return a.pushConfig.tell(), nil
	case a.Configs != nil:
		return tellConfigs(a.Configs), nil
	case a.Deleted:
		return "deleted", nil
	default:
		return "", fmt.Errorf("neither a message, a task, an update nor a page: %s", text)
	}
}

// tell names a config and whether it has the address that it was given.
func (c pushConfig) tell() string {
	if c.Config != nil {
		return c.Config.tell()
	}
	return fmt.Sprintf("config %q at %s", c.ID, path.Base(c.URL))
}

// tellConfigs lists them by their names: their order is nobody's promise.
func tellConfigs(configs []pushConfig) string {
	told := make([]string, len(configs))
	for i, c := range configs {
		told[i] = c.tell()
	}
	slices.Sort(told)
	return strings.Join(told, ", ")
}

// readAnswer reads what either version of the protocol has in this place: a
// member for each kind, or the value itself with its kind.
func readAnswer(text json.RawMessage) (answer, error) {
	var old struct {
		Kind string `json:"kind"`
	}
	if err := json.Unmarshal(text, &old); err != nil {
		return answer{}, err
	}
	var a answer
	switch old.Kind {
	case "message":
		return a, json.Unmarshal(text, &a.Message)
	case "task":
		return a, json.Unmarshal(text, &a.Task)
	case "status-update":
		return a, json.Unmarshal(text, &a.StatusUpdate)
	case "artifact-update":
		return a, json.Unmarshal(text, &a.ArtifactUpdate)
	default:
		return a, json.Unmarshal(text, &a)
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
	// Version 0.3 has "input-required" for TASK_STATE_INPUT_REQUIRED.
	state := strings.ToUpper(strings.ReplaceAll(t.Status.State, "-", "_"))
	b.WriteString("task " + strings.TrimPrefix(state, "TASK_STATE_"))
	if t.Status.Message != nil {
		b.WriteString(t.Status.Message.tell())
	}
	for _, a := range t.Artifacts {
		b.WriteString("; " + a.ID + a.tell())
	}
	b.WriteString(tellMetadata(t.Metadata))
	if t.Final != nil && *t.Final != slices.Contains(endsTurn, strings.TrimPrefix(state, "TASK_STATE_")) {
		fmt.Fprintf(&b, " final %t", *t.Final)
	}
	return b.String()
}

// endsTurn are the states with which a stream of version 0.3 ends: their updates
// are final. An update is told to be final or not only where it should not be.
var endsTurn = []string{"COMPLETED", "FAILED", "CANCELED", "REJECTED", "INPUT_REQUIRED", "AUTH_REQUIRED"}

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
		b.WriteString(" " + p.tell())
	}
	b.WriteString(tellMetadata(m.Metadata))
	if len(m.Extensions) > 0 {
		b.WriteString(" extensions " + strings.Join(m.Extensions, ","))
	}
	return b.String()
}

func (p part) tell() string {
	switch {
	case p.File != nil:
		return part{Raw: p.File.Bytes, URL: p.File.URI, MediaType: p.File.MimeType, Filename: p.File.Name}.tell()
	case p.Text != nil:
		return strconv.Quote(*p.Text)
	case p.Data != nil:
		return plain(p.Data)
	default:
		return fmt.Sprintf("file %q %s %s%s", p.Filename, p.MediaType, p.Raw, p.URL)
	}
}

// tellMetadata says nothing of metadata that is empty or null.
func tellMetadata(metadata json.RawMessage) string {
	if words := plain(metadata); len(metadata) > 0 && words != "{}" && words != "null" {
		return " metadata " + words
	}
	return ""
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
