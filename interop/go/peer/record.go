package peer

import (
	"encoding/json"
	"fmt"
	"iter"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"
)

// UnknownTask is an id no agent has given out.
const UnknownTask = "00000000-0000-4000-8000-000000000000"

// PushToken is what pushes to a client must bear.
const PushToken = "interop-token-of-the-subscriber"

// Document is what a scenario gives: one step per operation, in order.
type Document struct {
	Scenario string `json:"scenario"`
	Client   string `json:"client"`
	Steps    []Step `json:"steps"`
}

type Step struct {
	Op     string   `json:"op"`
	Result any      `json:"result,omitempty"`
	Events []any    `json:"events,omitempty"`
	Error  *Failure `json:"error,omitempty"`
}

type Failure struct {
	Reason  string `json:"reason"`
	Message string `json:"message"`
}

// Recorder writes down what came back with everything that differs from run to
// run put aside: ids become numbered words in order of appearance, timestamps
// their form, page tokens the fact that there is one.
type Recorder struct {
	Doc Document
	SDK SDK

	seen map[string]string
	next map[string]int
}

// SDK is how one SDK shows its values.
type SDK struct {
	Client string                 // the client's name in the document
	Wire   func(value any) any    // the value as what is to be written as JSON
	Reason func(err error) string // the name of an error
	Open   func(value any) (task, context string, ok bool)
}

// NewRecorder begins the document of a scenario.
func NewRecorder(scenario string, sdk SDK) *Recorder {
	return &Recorder{
		Doc:  Document{Scenario: scenario, Client: sdk.Client, Steps: []Step{}},
		SDK:  sdk,
		seen: map[string]string{},
		next: map[string]int{},
	}
}

// Answer records the outcome of one operation.
func (r *Recorder) Answer(op string, result any, err error) {
	s := Step{Op: op}
	if err != nil {
		s.Error = r.failure(err)
	} else {
		s.Result = r.steady(result)
	}
	r.Doc.Steps = append(r.Doc.Steps, s)
}

// Accepted records a task that was returned at once. Whether the agent has
// taken it up by then is chance, so only that it is open is written down.
func (r *Recorder) Accepted(op string, result any, err error) {
	task, context, ok := r.SDK.Open(result)
	if !ok || err != nil {
		r.Answer(op, result, err)
		return
	}
	r.Doc.Steps = append(r.Doc.Steps, Step{Op: op, Result: map[string]string{
		"open":      r.placeholder("task", task),
		"contextId": r.placeholder("context", context),
	}})
}

// Stream records events until the stream ends or more, if given, says no.
func Stream[E any](r *Recorder, op string, events iter.Seq2[E, error], more func(E) bool) {
	s := Step{Op: op}
	for event, err := range events {
		if err != nil {
			s.Error = r.failure(err)
			break
		}
		s.Events = append(s.Events, r.steady(event))
		if more != nil && !more(event) {
			break
		}
	}
	r.Doc.Steps = append(r.Doc.Steps, s)
}

func (r *Recorder) failure(err error) *Failure {
	return &Failure{Reason: r.SDK.Reason(err), Message: r.redact(err.Error())}
}

// steady turns an SDK value into its JSON with the changing parts put aside.
func (r *Recorder) steady(value any) any {
	encoded, err := json.Marshal(r.SDK.Wire(value))
	if err != nil {
		return fmt.Sprintf("not JSON: %v", err)
	}
	var tree any
	if err := json.Unmarshal(encoded, &tree); err != nil {
		return fmt.Sprintf("not JSON: %v", err)
	}
	return r.walk(tree)
}

func (r *Recorder) walk(node any) any {
	switch node := node.(type) {
	case []any:
		for i := range node {
			node[i] = r.walk(node[i])
		}
	case map[string]any:
		_, isTask := node["status"]
		for _, key := range slices.Sorted(maps.Keys(node)) {
			value, isText := node[key].(string)
			if !isText {
				node[key] = r.walk(node[key])
				continue
			}
			node[key] = r.member(key, value, isTask)
		}
	}
	return node
}

func (r *Recorder) member(key, value string, ofTask bool) string {
	switch {
	case value == "":
		return value
	case key == "taskId" || key == "id" && ofTask:
		return r.placeholder("task", value)
	case key == "contextId":
		return r.placeholder("context", value)
	case key == "messageId":
		return r.placeholder("message", value)
	case key == "nextPageToken":
		return "token"
	case key == "timestamp":
		return timeForm(value)
	default:
		return value
	}
}

func (r *Recorder) placeholder(kind, id string) string {
	if id == UnknownTask {
		return "task-unknown"
	}
	if _, ok := r.seen[id]; !ok {
		r.next[kind]++
		r.seen[id] = fmt.Sprintf("%s-%d", kind, r.next[kind])
	}
	return r.seen[id]
}

// redact replaces ids in text that is meant for people.
func (r *Recorder) redact(words string) string {
	for _, id := range slices.Sorted(maps.Keys(r.seen)) {
		words = strings.ReplaceAll(words, id, r.seen[id])
	}
	return words
}

var utcTime = regexp.MustCompile(`^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z$`)

func timeForm(value string) string {
	if utcTime.MatchString(value) {
		return "utc"
	}
	if _, err := time.Parse(time.RFC3339Nano, value); err == nil {
		return "offset"
	}
	return "malformed"
}
