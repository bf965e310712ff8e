package a2a

import (
	"strconv"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/parley-mesh/parley/internal/jsonwire"
)

// Kind is what a result or a frame carries. It is empty for requests and for
// results without a task or message.
type Kind string

const (
	KindTask           Kind = "task"
	KindMessage        Kind = "message"
	KindStatusUpdate   Kind = "statusUpdate"
	KindArtifactUpdate Kind = "artifactUpdate"
)

// Facts are what a gateway must know of a message without decoding it. They are
// about the message, task or event itself, never about one nested in its history,
// status or artifacts. Empty means not given.
type Facts struct {
	Kind      Kind // results and frames only
	TaskID    string
	ContextID string
	MessageID string
	ConfigID  string // of a push notification configuration
	Role      Role

	ReferenceTaskIDs    []string
	AcceptedOutputModes []string
	HistoryLength       int // -1 if not given
	ReturnImmediately   bool
	InlinePush          bool // the configuration of a send names a push target

	State      TaskState // results and frames only
	StatusTime Timestamp // zero if not given

	// Reconciled says that the peer was asked for this task, since its stream may
	// have left something out.
	Reconciled bool // frames only
}

// Final tells whether these facts end their exchange: a message, or a task in a
// terminal state. Those of nothing do not.
func (f *Facts) Final() bool { return f != nil && (f.Kind == KindMessage || f.State.Terminal()) }

// Interrupted tells whether there is a task that waits for the caller's side.
func (f *Facts) Interrupted() bool { return f != nil && f.State.Interrupted() }

// factSink collects Facts while a document is checked.
type factSink struct {
	facts  Facts
	tenant jsontext.Value
}

func (s *factSink) reset() { *s = factSink{facts: Facts{HistoryLength: -1}} }

// of returns the facts of a method's result. A task that is the whole result has
// no member around it to tell its kind.
func (s *factSink) of(m Method) Facts {
	if m == GetTask || m == CancelTask {
		s.facts.Kind = KindTask
	}
	return s.facts
}

// Fact implements jsonwire.Sink. The names are those in the wire tags of the
// data model.
func (s *factSink) Fact(name string, raw jsontext.Value) {
	f := &s.facts
	switch name {
	case "taskId":
		f.TaskID = jsonwire.String(raw)
	case "contextId":
		f.ContextID = jsonwire.String(raw)
	case "messageId":
		f.MessageID = jsonwire.String(raw)
	case "configId":
		f.ConfigID = jsonwire.String(raw)
	case "role":
		f.Role = enumValue(raw, roles)
	case "referenceTaskIds":
		f.ReferenceTaskIDs = jsonwire.Strings(raw)
	case "acceptedOutputModes":
		f.AcceptedOutputModes = jsonwire.Strings(raw)
	case "historyLength":
		f.HistoryLength, _ = strconv.Atoi(string(raw)) // checked to be a number before
	case "returnImmediately":
		f.ReturnImmediately = raw[0] == 't'
	case "pushConfig":
		f.InlinePush = true
	case "state":
		f.State = enumValue(raw, taskStates)
	case "timestamp":
		f.StatusTime, _ = parseTimestamp(jsonwire.String(raw)) // checked to be one before
	case "tenant":
		s.tenant = raw
	default:
		f.Kind = Kind(name)
	}
}
