package a2atest

import (
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/parley-mesh/parley/internal/a2a"
)

// task is one task. The agent's mutex guards it.
type task struct {
	id, contextID, owner string
	status               a2a.TaskStatus
	artifacts            []a2a.Artifact
	history              []a2a.Message
	bytes                int64 // of the messages that were sent to it
	receivers            []*receiver

	// log holds the latest events, encoded, for those who follow; first is the
	// number of the oldest. A follower who needs an older one is cut.
	log     []a2a.Frame
	first   int
	changed chan struct{} // closed and replaced with every event
}

// Bounds of one task, beyond which it takes no more messages.
const maxTurns = 256

// newID makes ids that sort by time; the random source does not fail.
func newID() string { return uuid.Must(uuid.NewV7()).String() }

// snapshot copies the task. history is the number of messages wanted, -1 for all.
func (t *task) snapshot(history int, artifacts bool) *a2a.Task {
	out := &a2a.Task{ID: t.id, ContextID: t.contextID, Status: t.status}
	if artifacts {
		out.Artifacts = slices.Clone(t.artifacts)
	}
	switch {
	case history < 0 || history > len(t.history):
		out.History = t.history
	case history > 0:
		out.History = t.history[len(t.history)-history:]
	}
	return out
}

// admit makes a task for a message that names none, in its context or a new one.
// a.mu is held.
func (a *Agent) admit(owner string, contextID string, bytes int64) (*task, *a2a.Error) {
	contextID, err := a.converse(owner, contextID)
	if err != nil {
		return nil, err
	}
	if err := a.makeRoom(1, bytes); err != nil {
		return nil, err
	}
	t := &task{id: newID(), contextID: contextID, owner: owner, changed: make(chan struct{})}
	stamp := a.stamp()
	t.status = a2a.TaskStatus{State: a2a.StateSubmitted, Timestamp: &stamp}
	a.tasks[t.id] = t
	if a.contexts[contextID] == nil {
		a.contexts[contextID] = &conversation{owner: owner}
	}
	a.contexts[contextID].tasks++
	return t, nil
}

// converse settles the context of a message: a new one, or the caller's if it is
// well-formed and nobody else's. It is never replaced by another. a.mu is held.
func (a *Agent) converse(owner, contextID string) (string, *a2a.Error) {
	if contextID == "" {
		return newID(), nil
	}
	wrong := func(text string) *a2a.Error {
		return a2a.InvalidParams(a2a.FieldViolation{Field: "message.contextId", Description: text})
	}
	const longest = 128
	if len(contextID) > longest {
		return "", wrong("is longer than 128 bytes; use an id the agent gave, or a UUID")
	}
	if c := a.contexts[contextID]; c != nil && c.owner != owner {
		return "", wrong("is not known; leave it out to begin a new context")
	}
	return contextID, nil
}

// makeRoom lets the tasks go that ended longest ago, as far as needed. a.mu is
// held.
func (a *Agent) makeRoom(tasks int, bytes int64) *a2a.Error {
	full := func() bool {
		return len(a.tasks)+tasks > a.opt.MaxTasks || a.bytes+bytes > a.opt.MaxBytes
	}
	if !full() {
		return nil
	}
	var ended []*task
	for _, t := range a.tasks {
		if t.status.State.Terminal() {
			ended = append(ended, t)
		}
	}
	slices.SortFunc(ended, func(x, y *task) int { return x.status.Timestamp.Compare(y.status.Timestamp.Time) })
	for _, t := range ended {
		a.forget(t)
		if !full() {
			return nil
		}
	}
	e := a2a.NewError(a2a.ReasonUnavailable, "the agent has all the work it can hold; try again later")
	e.RetryAfter = time.Second
	return e
}

func (a *Agent) forget(t *task) {
	delete(a.tasks, t.id)
	a.bytes -= t.bytes
	c := a.contexts[t.contextID]
	if c.tasks--; c.tasks == 0 {
		delete(a.contexts, t.contextID)
	}
}

// take adds a message to the task's history. a.mu is held.
func (a *Agent) take(t *task, m a2a.Message, bytes int64) {
	m.TaskID, m.ContextID = t.id, t.contextID
	t.history = append(t.history, m)
	t.bytes += bytes
	a.bytes += bytes
	close(a.taken)
	a.taken = make(chan struct{})
}

// stamp gives every status a time of its own, so that lists have one order.
// a.mu is held.
func (a *Agent) stamp() a2a.Timestamp {
	now := a2a.Now()
	if !now.After(a.last) {
		now.Time = a.last.Add(time.Millisecond)
	}
	a.last = now.Time
	return now
}

// setStatus moves the task on and tells whoever follows it. A task that has
// ended does not move. a.mu is held.
func (a *Agent) setStatus(t *task, state a2a.TaskState, text string) bool {
	if t.status.State.Terminal() {
		return false
	}
	stamp := a.stamp()
	t.status = a2a.TaskStatus{State: state, Timestamp: &stamp}
	if text != "" {
		t.status.Message = &a2a.Message{MessageID: newID(), Role: a2a.RoleAgent, TaskID: t.id, ContextID: t.contextID, Parts: []a2a.Part{a2a.TextPart(text)}}
	}
	a.tell(t, a2a.StreamResponse{StatusUpdate: &a2a.TaskStatusUpdateEvent{TaskID: t.id, ContextID: t.contextID, Status: t.status}})
	return true
}

// addArtifact adds an artifact, or parts to one that exists. A task that has
// ended gets none. a.mu is held.
func (a *Agent) addArtifact(t *task, artifact a2a.Artifact, more, last bool) bool {
	if t.status.State.Terminal() {
		return false
	}
	i := slices.IndexFunc(t.artifacts, func(x a2a.Artifact) bool { return x.ArtifactID == artifact.ArtifactID })
	switch {
	case i < 0:
		t.artifacts = append(t.artifacts, artifact)
	case more:
		// Snapshots share the parts, so they grow in a new array.
		t.artifacts[i].Parts = append(slices.Clip(t.artifacts[i].Parts), artifact.Parts...)
	default:
		t.artifacts[i] = artifact
	}
	a.tell(t, a2a.StreamResponse{ArtifactUpdate: &a2a.TaskArtifactUpdateEvent{
		TaskID: t.id, ContextID: t.contextID, Artifact: artifact, Append: more && i >= 0, LastChunk: last}})
	return true
}

// tell logs an event, wakes the followers and has it pushed. a.mu is held.
func (a *Agent) tell(t *task, event a2a.StreamResponse) {
	frame := a2a.StreamFrame(event)
	a.push(t, frame)
	t.log = append(t.log, frame)
	if over := len(t.log) - a.opt.MaxLag; over > 0 {
		t.log = append([]a2a.Frame(nil), t.log[over:]...)
		t.first += over
	}
	close(t.changed)
	t.changed = make(chan struct{})
}

// next is the number the next event will have.
func (t *task) next() int { return t.first + len(t.log) }

// event returns the event of a number, whether it is there yet, and an error if
// it is there no more.
func (t *task) event(n int) (f a2a.Frame, ok bool, err error) {
	switch {
	case n < t.first:
		return a2a.Frame{}, false, fmt.Errorf("event %d of task %s is gone, the oldest left is %d", n, t.id, t.first)
	case n >= t.next():
		return a2a.Frame{}, false, nil
	}
	return t.log[n-t.first], true, nil
}
