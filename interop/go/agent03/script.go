package main

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"strconv"
	"strings"
	"time"

	"github.com/a2aproject/a2a-go/a2a"
	"github.com/a2aproject/a2a-go/a2asrv"
	"github.com/a2aproject/a2a-go/a2asrv/eventqueue"
)

// slowSteps is how many status updates a slow task sends while it works.
const slowSteps = 4

// script answers by the first word of the message, see interop/README.md.
type script struct{}

// Execute implements a2asrv.AgentExecutor.
func (*script) Execute(ctx context.Context, in *a2asrv.RequestContext, queue eventqueue.Queue) error {
	t := &turn{ctx: ctx, in: in, queue: queue}
	words := text(in.Message)
	if in.StoredTask != nil {
		t.answer(words)
		return t.err
	}
	verb, rest, _ := strings.Cut(words, " ")
	switch verb {
	case "task":
		t.task(rest)
	case "slow":
		t.slow(rest)
	case "ask":
		t.end(a2a.TaskStateInputRequired, rest)
	case "fail":
		t.end(a2a.TaskStateFailed, rest)
	case "reject":
		t.end(a2a.TaskStateRejected, rest)
	case "data":
		t.data(rest)
	case "file":
		t.files()
	case "echo":
		t.reply(a2a.TextPart{Text: rest})
	case "headers":
		t.reply(a2a.DataPart{Data: seenHeaders(ctx)})
	default:
		t.reply(a2a.TextPart{Text: "first word must be echo, task, slow, ask, fail, reject, data, file or headers"})
	}
	return t.err
}

// Cancel implements a2asrv.AgentExecutor.
func (*script) Cancel(ctx context.Context, in *a2asrv.RequestContext, queue eventqueue.Queue) error {
	t := &turn{ctx: ctx, in: in, queue: queue}
	t.status(a2a.TaskStateCanceled, "canceled")
	return t.err
}

// turn is one message being worked on. After the first event that nobody takes
// its methods do nothing.
type turn struct {
	ctx   context.Context
	in    *a2asrv.RequestContext
	queue eventqueue.Queue
	err   error
}

func (t *turn) send(e a2a.Event) {
	if t.err == nil {
		t.err = t.queue.Write(t.ctx, e)
	}
}

// status sends a state, which ends the turn unless the agent works on.
func (t *turn) status(state a2a.TaskState, words string) {
	e := a2a.NewStatusUpdateEvent(t.in, state, a2a.NewMessageForTask(a2a.MessageRoleAgent, t.in, a2a.TextPart{Text: words}))
	e.Final = state != a2a.TaskStateWorking
	t.send(e)
}

func (t *turn) submit() {
	task := a2a.NewSubmittedTask(t.in, t.in.Message)
	now := time.Now()
	task.Status.Timestamp = &now
	task.Metadata = t.metadata()
	t.send(task)
}

func (t *turn) chunk(id string, appended, last bool, parts ...a2a.Part) {
	e := a2a.NewArtifactUpdateEvent(t.in, a2a.ArtifactID(id), parts...)
	e.Append, e.LastChunk = appended, last
	e.Artifact.Name = id
	e.Artifact.Metadata = t.metadata()
	e.Artifact.Extensions = t.in.Message.Extensions
	t.send(e)
}

func (t *turn) task(topic string) {
	t.submit()
	t.status(a2a.TaskStateWorking, "working on "+topic)
	t.chunk("result", false, false, a2a.TextPart{Text: "first half of " + topic})
	t.chunk("result", true, true, a2a.TextPart{Text: "second half of " + topic})
	t.status(a2a.TaskStateCompleted, "done")
}

func (t *turn) slow(rest string) {
	number, topic, _ := strings.Cut(rest, " ")
	total, err := strconv.Atoi(number)
	if err != nil || total < 0 {
		t.end(a2a.TaskStateRejected, "slow needs a number of milliseconds")
		return
	}
	t.submit()
	pause := time.Duration(total) * time.Millisecond / slowSteps
	for step := 1; step <= slowSteps; step++ {
		t.status(a2a.TaskStateWorking, fmt.Sprintf("step %d of %d", step, slowSteps))
		select {
		case <-t.ctx.Done():
			t.err = t.ctx.Err()
			return
		case <-time.After(pause):
		}
	}
	t.chunk("result", false, true, a2a.TextPart{Text: topic})
	t.status(a2a.TaskStateCompleted, "done")
}

func (t *turn) answer(words string) {
	t.status(a2a.TaskStateWorking, "thank you")
	t.chunk("answer", false, true, a2a.TextPart{Text: "you said: " + words})
	t.status(a2a.TaskStateCompleted, "done")
}

func (t *turn) end(state a2a.TaskState, words string) {
	t.submit()
	t.status(state, words)
}

func (t *turn) data(rest string) {
	part, ok := first[a2a.DataPart](t.in.Message)
	if rest != "" {
		ok = json.Unmarshal([]byte(rest), &part.Data) == nil
	}
	if !ok {
		t.end(a2a.TaskStateRejected, "data needs JSON after it, or a data part")
		return
	}
	t.submit()
	t.chunk("data", false, true, part)
	t.status(a2a.TaskStateCompleted, "done")
}

// files sends back the files of the message.
func (t *turn) files() {
	var files []a2a.Part
	for _, part := range t.in.Message.Parts {
		if file, ok := part.(a2a.FilePart); ok {
			files = append(files, file)
		}
	}
	t.submit()
	t.chunk("file", false, true, files...)
	t.status(a2a.TaskStateCompleted, "done")
}

func (t *turn) reply(parts ...a2a.Part) {
	message := a2a.NewMessage(a2a.MessageRoleAgent, parts...)
	message.ContextID = t.in.ContextID
	message.Metadata = t.metadata()
	message.Extensions = t.in.Message.Extensions
	t.send(message)
}

// metadata is the message's, and the request's under "request".
func (t *turn) metadata() map[string]any {
	echoed := maps.Clone(t.in.Message.Metadata)
	if len(t.in.Metadata) > 0 {
		if echoed == nil {
			echoed = map[string]any{}
		}
		echoed["request"] = t.in.Metadata
	}
	return echoed
}

// seenHeaders says what arrived beside the message: protocol headers in full,
// of the others only whether they are there.
func seenHeaders(ctx context.Context) map[string]any {
	seen := func(key string) string {
		call, _ := a2asrv.CallContextFrom(ctx)
		values, _ := call.RequestMeta().Get(key)
		return strings.Join(values, ",")
	}
	return map[string]any{
		"x-a2a-extensions": seen("x-a2a-extensions"),
		"authorization":    seen("authorization") != "",
		"traceparent":      seen("traceparent") != "",
	}
}

func text(m *a2a.Message) string {
	part, _ := first[a2a.TextPart](m)
	return part.Text
}

// first is the first part of one kind.
func first[P a2a.Part](m *a2a.Message) (P, bool) {
	for _, part := range m.Parts {
		if p, ok := part.(P); ok {
			return p, true
		}
	}
	var none P
	return none, false
}
