package a2atest

import (
	"context"
	"io"
	"slices"
	"strings"

	"github.com/parley-mesh/parley/internal/a2a"
)

// send answers SendMessage and SendStreamingMessage.
func (a *Agent) send(ctx context.Context, owner string, q *a2a.Request) *a2a.Reply {
	var in a2a.SendMessageRequest
	if err := q.Decode(&in); err != nil {
		return a2a.Fail(a2a.Internal("the message could not be read"))
	}
	m := in.Message
	act := a.behaviourOf(m.MessageID)
	if err := a.acceptable(&m, q.Facts.AcceptedOutputModes); err != nil {
		return a2a.Fail(err)
	}
	a.mu.Lock()
	t, err := a.target(owner, &m)
	if err == nil && act.answer != nil {
		defer a.mu.Unlock()
		return a.sayInstead(owner, q, t, &m, act)
	}
	if err == nil && t == nil {
		t, err = a.admit(owner, m.ContextID, int64(len(q.Params)))
	} else if err == nil {
		err = a.makeRoom(0, int64(len(q.Params)))
	}
	if err != nil {
		a.mu.Unlock()
		return a2a.Fail(err)
	}
	if q.Facts.InlinePush {
		if _, err := a.subscribePush(t, *in.Configuration.PushConfig); err != nil {
			a.mu.Unlock()
			return a2a.Fail(err)
		}
	}
	a.take(t, m, int64(len(q.Params)))
	var stream a2a.Stream
	if q.Method == a2a.SendStreamingMessage {
		stream = a.follow(t, q.Facts.HistoryLength, true)
	}
	act.work(a, t, &m, q.Facts.AcceptedOutputModes)
	a.mu.Unlock()
	if stream != nil {
		return &a2a.Reply{Stream: stream}
	}
	if !q.Facts.ReturnImmediately && !a.rests(ctx, t) {
		return a2a.Fail(a2a.NewError(a2a.ReasonTimeout, "the caller left before the task came to rest"))
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	return a2a.Answer(q.Method, a2a.SendMessageResponse{Task: t.snapshot(q.Facts.HistoryLength, true)})
}

// acceptable checks what the message brings and wants back against the agent's
// media types.
func (a *Agent) acceptable(m *a2a.Message, wanted []string) *a2a.Error {
	if m.Role != a2a.RoleUser {
		return a2a.InvalidParams(a2a.FieldViolation{Field: "message.role", Description: "must be ROLE_USER in a request"})
	}
	for _, p := range m.Parts {
		if p.MediaType != "" && !covers(a.opt.InputModes, p.MediaType) {
			return a2a.NewError(a2a.ReasonContentTypeNotSupported, "a part of type %.80q is not taken; send one of %s", p.MediaType, strings.Join(a.opt.InputModes, ", "))
		}
	}
	if len(wanted) > 0 && !slices.ContainsFunc(outputModes, func(mode string) bool { return covers(wanted, mode) }) {
		return a2a.NewError(a2a.ReasonContentTypeNotSupported, "acceptedOutputModes holds none of %s", strings.Join(outputModes, ", "))
	}
	return nil
}

// covers tells whether a media type, parameters aside, is in a list that may hold
// patterns such as image/*.
func covers(modes []string, mediaType string) bool {
	mediaType, _, _ = strings.Cut(strings.ToLower(mediaType), ";")
	mediaType = strings.TrimSpace(mediaType)
	group, _, _ := strings.Cut(mediaType, "/")
	return slices.ContainsFunc(modes, func(mode string) bool {
		return mode == mediaType || mode == "*/*" || mode == group+"/*"
	})
}

// target finds the task a message is for, nil if it is to begin one. a.mu is held.
func (a *Agent) target(owner string, m *a2a.Message) (*task, *a2a.Error) {
	if m.TaskID == "" {
		return nil, nil
	}
	t, err := a.find(owner, m.TaskID)
	switch {
	case err != nil:
		return nil, err
	case m.ContextID != "" && m.ContextID != t.contextID:
		return nil, a2a.InvalidParams(a2a.FieldViolation{Field: "message.contextId", Description: "is not the context of the task; leave it out"})
	case t.status.State.Terminal():
		return nil, ended(t)
	case len(t.history) >= maxTurns:
		return nil, a2a.UnsupportedOperation("the task takes no more messages; begin a new one").With("taskId", t.id)
	}
	return t, nil
}

// sayInstead answers with a message or an error and makes no task. a.mu is held.
func (a *Agent) sayInstead(owner string, q *a2a.Request, t *task, m *a2a.Message, act behaviour) *a2a.Reply {
	contextID := ""
	if t != nil {
		contextID = t.contextID
	} else {
		var err *a2a.Error
		if contextID, err = a.converse(owner, m.ContextID); err != nil {
			return a2a.Fail(err)
		}
	}
	text, err := act.answer(a, owner, m)
	if err != nil {
		return a2a.Fail(err)
	}
	reply := &a2a.Message{MessageID: newID(), ContextID: contextID, Role: a2a.RoleAgent, Parts: []a2a.Part{a2a.TextPart(text)}}
	if t != nil {
		reply.TaskID = t.id
	}
	if q.Method == a2a.SendMessage {
		return a2a.Answer(q.Method, a2a.SendMessageResponse{Message: reply})
	}
	return &a2a.Reply{Stream: &oneFrame{frame: a2a.StreamFrame(a2a.StreamResponse{Message: reply})}}
}

// oneFrame is the stream of an answer that is no task.
type oneFrame struct {
	frame a2a.Frame
	given bool
}

// Next implements a2a.Stream.
func (s *oneFrame) Next(context.Context) (a2a.Frame, error) {
	if s.given {
		return a2a.Frame{}, io.EOF
	}
	s.given = true
	return s.frame, nil
}

// Close implements a2a.Stream.
func (s *oneFrame) Close() error { return nil }

// rests waits until the task has ended or waits for its caller. It returns false
// when ctx ends first; the task goes on then.
func (a *Agent) rests(ctx context.Context, t *task) bool {
	for {
		a.mu.Lock()
		state, changed := t.status.State, t.changed
		a.mu.Unlock()
		if state.Terminal() || state.Interrupted() {
			return true
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return false
		}
	}
}
