package stream

import (
	"time"

	"github.com/parley-mesh/parley/internal/call"
	"github.com/parley-mesh/parley/internal/parley"
)

// Event is one event of a task as the journal keeps it.
type Event struct {
	Seq   int64     // from 1, without holes within the task
	At    time.Time // when it was journaled
	Frame []byte    // StreamResponse of A2A 1.0 as JSON
}

// Limits bound what the journal of one task keeps. The oldest events go first;
// the newest one stays whatever its size. Zero means the default.
type Limits struct {
	Events int // zero: DefaultEvents
	Bytes  int // sealed; zero: DefaultBytes
}

// The default limits.
const (
	DefaultEvents = 10_000
	DefaultBytes  = 16 << 20
)

// WithDefaults is l with what is missing.
func (l Limits) WithDefaults() Limits {
	if l.Events <= 0 {
		l.Events = DefaultEvents
	}
	if l.Bytes <= 0 {
		l.Bytes = DefaultBytes
	}
	return l
}

// Entry is events that one source hands over to the journal of a task.
type Entry struct {
	Task  call.TaskKey
	Owner parley.OwnerName // whose key seals the frames
	// Source is the call whose exchange with the agent shows the events. While
	// the journal has another source, nothing is added, so that two streams of
	// one task at two replicas do not tell everything twice. Zero: somebody who
	// is no stream, and always heard.
	Source parley.CallID
	Take   bool // make Source the journal's source
	Frames [][]byte
	// Done is told once when the entry is durable, with the number of its last
	// event, or why it is not. It is called in the order of handing over, by the
	// goroutine that writes, and must return at once.
	Done func(last int64, err error)
}

// Keys in the metadata of a Task that the mesh itself puts into a stream.
const (
	// ReconciledKey marks a Task that the mesh has asked the agent for after the
	// stream from it had broken: it stands for what happened meanwhile. Its value
	// is true.
	ReconciledKey = Extension + "/reconciled"
	// GapKey marks a Task that stands for events which are not kept any more. Its
	// value is an object: after, the number of the last event that the subscriber
	// has seen, and next, that of the first one that follows the Task.
	GapKey = Extension + "/gap"
	// Extension is the URI of what Parley adds to streams.
	Extension = "https://parley.invalid/ext/stream"
)
