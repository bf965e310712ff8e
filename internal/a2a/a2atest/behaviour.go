package a2atest

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/parley-mesh/parley/internal/a2a"
)

// behaviour is what the agent does with a message: it works on a task, or answers
// without one.
type behaviour struct {
	prefix string                                                   // of the message id
	work   func(a *Agent, t *task, m *a2a.Message, wanted []string) // a.mu is held
	answer func(a *Agent, owner string, m *a2a.Message) (string, *a2a.Error)
}

// behaviours are in the order they are tried; the package comment says what they
// do.
var behaviours = []behaviour{
	{prefix: "tck-message-response", answer: sayHello},
	{prefix: "tck-input-required", work: rest(a2a.StateInputRequired, "what is the amount?")},
	{prefix: "tck-reject-task", work: rest(a2a.StateRejected, "this is nothing for me")},
	{prefix: "tck-delayed-complete", work: completeLater},
	{prefix: "test-resubscribe-message-id", work: completeLater},
	{prefix: "tck-artifact-text", work: produce(textPart)},
	{prefix: "tck-artifact-file-url", work: produce(linkPart)},
	{prefix: "tck-artifact-file", work: produce(filePart)},
	{prefix: "tck-artifact-data", work: produce(dataPart)},
	{prefix: "ref-auth-required", work: rest(a2a.StateAuthRequired, "allow access at https://auth.example.com/device, code ABCD")},
	{prefix: "ref-fail", work: rest(a2a.StateFailed, "it did not work")},
	{prefix: "ref-submit", work: func(*Agent, *task, *a2a.Message, []string) {}},
	{prefix: "ref-hold", work: rest(a2a.StateWorking, "")},
	{prefix: "ref-stream-", work: chunks},
	{prefix: "ref-recall", answer: recall},
	{prefix: "ref-error-", answer: failAs},
	{prefix: "", work: produce(textPart)}, // tck-complete-task and all others
}

func (a *Agent) behaviourOf(messageID string) behaviour {
	for _, id := range []string{messageID, a.opt.Default} {
		for _, b := range behaviours[:len(behaviours)-1] {
			if strings.HasPrefix(id, b.prefix) {
				return b
			}
		}
	}
	return behaviours[len(behaviours)-1]
}

// rest leaves the task in a state.
func rest(state a2a.TaskState, text string) func(*Agent, *task, *a2a.Message, []string) {
	return func(a *Agent, t *task, _ *a2a.Message, _ []string) {
		if state != a2a.StateRejected && state != a2a.StateWorking {
			a.setStatus(t, a2a.StateWorking, "")
		}
		a.setStatus(t, state, text)
	}
}

// outputModes are the media types the agent can produce text in.
var outputModes = []string{"text/plain", "application/json"}

// produce completes the task with one artifact.
func produce(part func(m *a2a.Message, wanted []string) a2a.Part) func(*Agent, *task, *a2a.Message, []string) {
	return func(a *Agent, t *task, m *a2a.Message, wanted []string) {
		a.setStatus(t, a2a.StateWorking, "")
		a.addArtifact(t, a2a.Artifact{ArtifactID: newID(), Name: "result", Parts: []a2a.Part{part(m, wanted)}}, false, true)
		a.setStatus(t, a2a.StateCompleted, "")
	}
}

// textPart repeats the message's text, as JSON for a caller who takes no text.
func textPart(m *a2a.Message, wanted []string) a2a.Part {
	text := "done"
	for _, p := range m.Parts {
		if p.Text != nil {
			text = *p.Text
		}
	}
	if len(wanted) == 0 || covers(wanted, "text/plain") {
		p := a2a.TextPart(text)
		p.MediaType = "text/plain"
		return p
	}
	raw, err := json.Marshal(map[string]string{"text": text})
	if err != nil {
		raw = []byte("{}") // a string always encodes
	}
	p := a2a.DataPart(jsontext.Value(raw))
	p.MediaType = "application/json"
	return p
}

func filePart(*a2a.Message, []string) a2a.Part {
	return a2a.FilePart("output.txt", "text/plain", []byte("the content of a file"))
}

func linkPart(*a2a.Message, []string) a2a.Part {
	p := a2a.LinkPart("https://files.example.com/output.txt", "text/plain")
	p.Filename = "output.txt"
	return p
}

func dataPart(*a2a.Message, []string) a2a.Part {
	p := a2a.DataPart(jsontext.Value(`{"key":"value","count":42}`))
	p.MediaType = "application/json"
	return p
}

// completeLater lets a timer complete the task; one that was canceled meanwhile
// stays so.
func completeLater(a *Agent, t *task, m *a2a.Message, wanted []string) {
	a.setStatus(t, a2a.StateWorking, "")
	time.AfterFunc(a.opt.Delay, func() {
		a.mu.Lock()
		defer a.mu.Unlock()
		produce(textPart)(a, t, m, wanted)
	})
}

// maxChunks bounds the number in ref-stream-N.
const maxChunks = 2000

// chunks writes an artifact in as many pieces as the message id says.
func chunks(a *Agent, t *task, m *a2a.Message, _ []string) {
	digits, _, _ := strings.Cut(strings.TrimPrefix(m.MessageID, "ref-stream-"), "-")
	n, err := strconv.Atoi(digits)
	if err != nil || n < 1 || n > maxChunks {
		a.setStatus(t, a2a.StateRejected, fmt.Sprintf("write the message id as ref-stream-N with N from 1 to %d", maxChunks))
		return
	}
	a.setStatus(t, a2a.StateWorking, "")
	id := newID()
	for i := range n {
		a.addArtifact(t, a2a.Artifact{ArtifactID: id, Name: "chunks", Parts: []a2a.Part{a2a.TextPart(strconv.Itoa(i))}}, i > 0, i == n-1)
	}
	a.setStatus(t, a2a.StateCompleted, "")
}

func sayHello(*Agent, string, *a2a.Message) (string, *a2a.Error) { return "hello", nil }

// recall lists the tasks the message refers to, as far as they are its sender's.
func recall(a *Agent, owner string, m *a2a.Message) (string, *a2a.Error) {
	var known []string
	for _, id := range m.ReferenceTaskIDs {
		if _, err := a.find(owner, id); err == nil {
			known = append(known, id)
		}
	}
	return strings.Join(known, " "), nil
}

func failAs(_ *Agent, _ string, m *a2a.Message) (string, *a2a.Error) {
	reason := strings.TrimPrefix(m.MessageID, "ref-error-")
	if i := strings.IndexByte(reason, '-'); i >= 0 {
		reason = reason[:i]
	}
	return "", a2a.NewError(a2a.Reason(reason), "failed as asked")
}
