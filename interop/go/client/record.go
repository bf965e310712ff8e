package main

import (
	"encoding/json"
	"fmt"
	"iter"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"
)

// document is what a scenario gives: one step per operation, in order.
type document struct {
	Scenario string `json:"scenario"`
	Client   string `json:"client"`
	Steps    []step `json:"steps"`
}

type step struct {
	Op     string   `json:"op"`
	Result any      `json:"result,omitempty"`
	Events []any    `json:"events,omitempty"`
	Error  *failure `json:"error,omitempty"`
}

type failure struct {
	Reason  string `json:"reason"`
	Message string `json:"message"`
}

// recorder writes down what came back with everything that differs from run to
// run put aside: ids become numbered words in order of appearance, timestamps
// their form, page tokens the fact that there is one.
type recorder struct {
	doc  document
	seen map[string]string
	next map[string]int
}

func newRecorder(scenario string) *recorder {
	return &recorder{
		doc:  document{Scenario: scenario, Client: "go", Steps: []step{}},
		seen: map[string]string{},
		next: map[string]int{},
	}
}

func (r *recorder) answer(op string, result any, err error) {
	s := step{Op: op}
	if err != nil {
		s.Error = r.failure(err)
	} else {
		s.Result = r.steady(result)
	}
	r.doc.Steps = append(r.doc.Steps, s)
}

// accepted records a task that was returned at once. Whether the agent has
// taken it up by then is chance, so only that it is open is written down.
func (r *recorder) accepted(op string, result any, err error) {
	task, ok := result.(*a2a.Task)
	if !ok || err != nil || task.Status.State.Terminal() {
		r.answer(op, result, err)
		return
	}
	r.doc.Steps = append(r.doc.Steps, step{Op: op, Result: map[string]string{
		"open":      r.placeholder("task", string(task.ID)),
		"contextId": r.placeholder("context", task.ContextID),
	}})
}

// stream records events until the stream ends or more, if given, says no.
func (r *recorder) stream(op string, events iter.Seq2[a2a.Event, error], more func(a2a.Event) bool) {
	s := step{Op: op}
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
	r.doc.Steps = append(r.doc.Steps, s)
}

func (r *recorder) failure(err error) *failure {
	return &failure{Reason: a2a.ErrorReason(err), Message: r.redact(err.Error())}
}

// steady turns an SDK value into its JSON with the changing parts put aside.
func (r *recorder) steady(value any) any {
	if event, ok := value.(a2a.Event); ok {
		value = a2a.StreamResponse{Event: event}
	}
	encoded, err := json.Marshal(value)
	if err != nil {
		return fmt.Sprintf("not JSON: %v", err)
	}
	var tree any
	if err := json.Unmarshal(encoded, &tree); err != nil {
		return fmt.Sprintf("not JSON: %v", err)
	}
	return r.walk(tree)
}

func (r *recorder) walk(node any) any {
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

func (r *recorder) member(key, value string, ofTask bool) string {
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

func (r *recorder) placeholder(kind, id string) string {
	if id == string(unknownTask) {
		return "task-unknown"
	}
	if _, ok := r.seen[id]; !ok {
		r.next[kind]++
		r.seen[id] = fmt.Sprintf("%s-%d", kind, r.next[kind])
	}
	return r.seen[id]
}

// redact replaces ids in text that is meant for people.
func (r *recorder) redact(words string) string {
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
