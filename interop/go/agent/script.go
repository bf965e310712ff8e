package main

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"strconv"
	"strings"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/a2aproject/a2a-go/v2/a2asrv"
)

// slowSteps is how many status updates a slow task sends while it works.
const slowSteps = 4

// script answers by the first word of the message, see interop/README.md.
type script struct{}

// Execute implements a2asrv.AgentExecutor.
func (s *script) Execute(ctx context.Context, in *a2asrv.ExecutorContext) iter.Seq2[a2a.Event, error] {
	return func(yield func(a2a.Event, error) bool) {
		verb, rest, _ := strings.Cut(text(in.Message), " ")
		t := &turn{ctx: ctx, in: in, yield: yield}
		if in.StoredTask != nil {
			t.answer(text(in.Message))
			return
		}
		switch verb {
		case "task":
			t.task(rest)
		case "slow":
			t.slow(rest)
		case "ask":
			t.ask(rest)
		case "fail":
			t.end(a2a.TaskStateFailed, rest)
		case "reject":
			t.end(a2a.TaskStateRejected, rest)
		case "data":
			t.data(rest)
		case "file":
			t.files()
		case "echo":
			t.reply(a2a.NewTextPart(rest))
		case "headers":
			t.reply(a2a.NewDataPart(seenHeaders(in.ServiceParams)))
		case "relay":
			t.relay(rest)
		default:
			t.reply(a2a.NewTextPart("first word must be echo, task, slow, ask, fail, reject, data, file, headers or relay"))
		}
	}
}

// Cancel implements a2asrv.AgentExecutor.
func (s *script) Cancel(_ context.Context, in *a2asrv.ExecutorContext) iter.Seq2[a2a.Event, error] {
	return func(yield func(a2a.Event, error) bool) {
		yield(a2a.NewStatusUpdateEvent(in, a2a.TaskStateCanceled, say(in, "canceled")), nil)
	}
}

// turn is one message being worked on. Its methods stop quietly once the SDK
// no longer wants events.
type turn struct {
	ctx   context.Context
	in    *a2asrv.ExecutorContext
	yield func(a2a.Event, error) bool
	over  bool
}

func (t *turn) send(e a2a.Event) {
	if !t.over {
		t.over = !t.yield(e, nil)
	}
}

func (t *turn) status(state a2a.TaskState, words string) {
	t.send(a2a.NewStatusUpdateEvent(t.in, state, say(t.in, words)))
}

func (t *turn) submit() {
	task := a2a.NewSubmittedTask(t.in, t.in.Message)
	task.Metadata = echoedMetadata(t.in)
	t.send(task)
}

func (t *turn) chunk(id string, appended, last bool, part *a2a.Part) {
	e := a2a.NewArtifactUpdateEvent(t.in, a2a.ArtifactID(id), part)
	e.Append, e.LastChunk = appended, last
	e.Artifact.Name = id
	e.Artifact.Metadata = echoedMetadata(t.in)
	e.Artifact.Extensions = t.in.Message.Extensions
	t.send(e)
}

func (t *turn) task(topic string) {
	t.submit()
	t.status(a2a.TaskStateWorking, "working on "+topic)
	t.chunk("result", false, false, a2a.NewTextPart("first half of "+topic))
	t.chunk("result", true, true, a2a.NewTextPart("second half of "+topic))
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
	for step := 1; step <= slowSteps && !t.over; step++ {
		t.status(a2a.TaskStateWorking, fmt.Sprintf("step %d of %d", step, slowSteps))
		select {
		case <-t.ctx.Done():
			return
		case <-time.After(pause):
		}
	}
	t.chunk("result", false, true, a2a.NewTextPart(topic))
	t.status(a2a.TaskStateCompleted, "done")
}

func (t *turn) ask(question string) {
	t.submit()
	t.status(a2a.TaskStateInputRequired, question)
}

func (t *turn) answer(words string) {
	t.status(a2a.TaskStateWorking, "thank you")
	t.chunk("answer", false, true, a2a.NewTextPart("you said: "+words))
	t.status(a2a.TaskStateCompleted, "done")
}

func (t *turn) end(state a2a.TaskState, words string) {
	t.submit()
	t.status(state, words)
}

func (t *turn) data(rest string) {
	part := firstData(t.in.Message)
	if rest != "" {
		var value any
		if err := json.Unmarshal([]byte(rest), &value); err != nil {
			t.end(a2a.TaskStateRejected, "data needs JSON after it, or a data part")
			return
		}
		part = a2a.NewDataPart(value)
	}
	if part == nil {
		t.end(a2a.TaskStateRejected, "data needs JSON after it, or a data part")
		return
	}
	t.submit()
	t.chunk("data", false, true, part)
	t.status(a2a.TaskStateCompleted, "done")
}

// files sends back the files of the message.
func (t *turn) files() {
	t.submit()
	e := a2a.NewArtifactUpdateEvent(t.in, "file")
	e.Append, e.LastChunk = false, true
	for _, part := range t.in.Message.Parts {
		if part.Raw() != nil || part.URL() != "" {
			e.Artifact.Parts = append(e.Artifact.Parts, part)
		}
	}
	t.send(e)
	t.status(a2a.TaskStateCompleted, "done")
}

func (t *turn) reply(parts ...*a2a.Part) {
	message := a2a.NewMessage(a2a.MessageRoleAgent, parts...)
	message.ContextID = t.in.ContextID
	message.Metadata = echoedMetadata(t.in)
	message.Extensions = t.in.Message.Extensions
	t.send(message)
}

func say(in *a2asrv.ExecutorContext, words string) *a2a.Message {
	return a2a.NewMessageForTask(a2a.MessageRoleAgent, in, a2a.NewTextPart(words))
}

// echoedMetadata is the message's metadata, and the request's under "request".
func echoedMetadata(in *a2asrv.ExecutorContext) map[string]any {
	echoed := map[string]any{}
	for k, v := range in.Message.Metadata {
		echoed[k] = v
	}
	if len(in.Metadata) > 0 {
		echoed["request"] = in.Metadata
	}
	if len(echoed) == 0 {
		return nil
	}
	return echoed
}

// seenHeaders says what arrived beside the message: protocol headers in full,
// of the others only whether they are there.
func seenHeaders(params *a2asrv.ServiceParams) map[string]any {
	first := func(key string) string {
		values, _ := params.Get(key)
		return strings.Join(values, ",")
	}
	return map[string]any{
		"a2a-version":    first("a2a-version"),
		"a2a-extensions": first("a2a-extensions"),
		"authorization":  first("authorization") != "",
		"traceparent":    first("traceparent") != "",
	}
}

func text(m *a2a.Message) string {
	for _, part := range m.Parts {
		if words := part.Text(); words != "" {
			return words
		}
	}
	return ""
}

func firstData(m *a2a.Message) *a2a.Part {
	for _, part := range m.Parts {
		if _, ok := part.Content.(a2a.Data); ok {
			return part
		}
	}
	return nil
}
