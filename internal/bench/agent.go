package bench

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"
	"time"
)

// Kind is what an Agent answers SendMessage with.
type Kind string

// The two shapes of an answer. A mesh has more to keep of a task than of a
// message, so both are measured.
const (
	RepliesMessage Kind = "message"
	RepliesTask    Kind = "task"
	// HoldsStreams answers like RepliesTask, but its streams stay silent after
	// their first event until the caller leaves.
	HoldsStreams Kind = "silent"
	// Ticks answers like RepliesTask, but its streams carry an event each
	// tickInterval until the caller leaves, and tasks can be subscribed to.
	Ticks Kind = "ticking"
	// RepliesOldMessage and RepliesOldTask speak A2A 0.3, and do not stream.
	RepliesOldMessage Kind = "message, A2A 0.3"
	RepliesOldTask    Kind = "task, A2A 0.3"
)

// old tells whether such an agent speaks A2A 0.3.
func (k Kind) old() bool { return k == RepliesOldMessage || k == RepliesOldTask }

// StreamEvents is the number of events in every stream of an Agent: the task,
// the pieces of an artifact, the final status.
const StreamEvents = 10

// Lengths of texts: of a unary reply, which they fill to about one kilobyte, and
// of one artifact piece in a stream.
const (
	replyTextBytes = 800
	pieceTextBytes = 120
)

var replyText, pieceText = quoted(filler(replyTextBytes)), quoted(filler(pieceTextBytes))

// Agent is a small A2A agent, of v1.0 unless its kind says otherwise, with the JSON-RPC binding. It does no work:
// it answers SendMessage with a message or a completed task of about one
// kilobyte and SendStreamingMessage with StreamEvents events, the first at
// once. It keeps no tasks, so GetTask and CancelTask know none. It is an
// http.Handler and safe for concurrent use.
type Agent struct {
	kind   Kind
	card   []byte
	prefix string // of every id the agent makes, random per process
	made   atomic.Uint64
	bodies sync.Pool // *[]byte of request and reply bodies
	ticks  ticks
}

// NewAgent returns an agent that says in its card that it lives at base, an
// absolute URL.
func NewAgent(kind Kind, base string) (*Agent, error) {
	var described any = newCard(kind, base)
	if kind.old() {
		described = newOldCard(kind, base)
	}
	card, err := json.Marshal(described)
	if err != nil {
		return nil, fmt.Errorf("encode agent card: %w", err)
	}
	a := &Agent{kind: kind, card: card, prefix: newPrefix()}
	a.bodies.New = func() any { b := make([]byte, 0, 4<<10); return &b }
	return a, nil
}

// ServeHTTP implements http.Handler.
func (a *Agent) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch {
	case r.URL.Path == "/.well-known/agent-card.json" && (r.Method == http.MethodGet || r.Method == http.MethodHead):
		w.Header().Set("Content-Type", "application/json")
		w.Write(a.card) // a caller that has gone needs no card
	case r.URL.Path == "/" && r.Method == http.MethodPost:
		a.call(w, r)
	default:
		http.NotFound(w, r)
	}
}

// call answers one JSON-RPC request.
func (a *Agent) call(w http.ResponseWriter, r *http.Request) {
	pooled := a.bodies.Get().(*[]byte)
	defer a.bodies.Put(pooled)
	request, err := appendAll((*pooled)[:0], http.MaxBytesReader(w, r.Body, maxResponseBytes))
	if err != nil {
		http.Error(w, "read request: "+err.Error(), http.StatusBadRequest)
		return
	}
	id, method, params := []byte("null"), "", []byte(nil)
	err = members(request, func(name, value []byte) {
		switch string(name) {
		case "id":
			id = value
		case "method":
			method = string(value)
		case "params":
			params = value
		}
	})
	reply := request[len(request):] // behind the request, whose id the reply quotes
	switch {
	case err != nil:
		reply = appendFault(reply, []byte("null"), -32700, "the body is not a JSON object", "")
	case a.kind.old():
		reply = a.appendOld(reply, id, method)
	case r.Header.Get("A2A-Version") != "1.0":
		reply = appendFault(reply, id, -32009, "send the header A2A-Version: 1.0", "VERSION_NOT_SUPPORTED")
	case method == `"SendMessage"`:
		reply = a.appendAnswer(reply, id)
	case method == `"SendStreamingMessage"` && a.kind == Ticks:
		a.tick(r.Context(), w, id, a.made.Add(1))
		return
	case method == `"SendStreamingMessage"`:
		a.stream(r.Context(), w, id)
		return
	case method == `"SubscribeToTask"` && a.kind == Ticks:
		if n, ok := a.taskOf(params); ok {
			a.tick(r.Context(), w, id, n)
			return
		}
		reply = appendFault(reply, id, -32001, "this agent has made no such task", "TASK_NOT_FOUND")
	case method == `"GetTask"`, method == `"CancelTask"`:
		reply = appendFault(reply, id, -32001, "this agent keeps no tasks", "TASK_NOT_FOUND")
	default:
		reply = appendFault(reply, id, -32601, "unknown method", "")
	}
	header := w.Header()
	header["Content-Type"] = jsonType
	header["Content-Length"] = []string{strconv.Itoa(len(reply))}
	w.Write(reply) // an error here is the caller's departure; it counts on its side
	*pooled = request
}

var jsonType = []string{"application/json"}

// appendAnswer appends the reply to SendMessage.
func (a *Agent) appendAnswer(dst, id []byte) []byte {
	n := a.made.Add(1)
	dst = appendResult(dst, id)
	if a.kind != RepliesMessage {
		dst = a.appendTask(dst, n, "TASK_STATE_COMPLETED")
		dst = append(dst, `,"artifacts":[{"artifactId":"answer","parts":[{"text":`...)
		dst = append(dst, replyText...)
		return append(dst, `}]}]}}}`...)
	}
	dst = append(dst, `{"message":{"messageId":"m-`...)
	dst = a.appendID(dst, n)
	dst = append(dst, `","contextId":"c-`...)
	dst = a.appendID(dst, n)
	dst = append(dst, `","role":"ROLE_AGENT","parts":[{"text":`...)
	dst = append(dst, replyText...)
	return append(dst, `}]}}}`...)
}

// stream answers SendStreamingMessage: the task, pieces of one artifact, the
// final status, each flushed by itself.
func (a *Agent) stream(ctx context.Context, w http.ResponseWriter, id []byte) {
	n := a.made.Add(1)
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("Cache-Control", "no-cache")
	flush := http.NewResponseController(w)
	event := make([]byte, 0, 1<<10)
	for i := range StreamEvents {
		event = append(event[:0], "data: "...)
		event = appendResult(event, id)
		switch i {
		case 0:
			event = a.appendTask(event, n, "TASK_STATE_WORKING")
			event = append(event, `}}`...)
		case StreamEvents - 1:
			event = a.appendUpdate(event, n, "statusUpdate")
			event = append(event, `"status":`...)
			event = appendStatus(event, "TASK_STATE_COMPLETED")
			event = append(event, `}}`...)
		default:
			event = a.appendUpdate(event, n, "artifactUpdate")
			event = append(event, `"artifact":{"artifactId":"answer","parts":[{"text":`...)
			event = append(event, pieceText...)
			event = append(event, `}]},"append":`...)
			event = strconv.AppendBool(event, i > 1)
			event = append(event, `}}`...)
		}
		event = append(event, "}\n\n"...)
		if _, err := w.Write(event); err != nil {
			return
		}
		if err := flush.Flush(); err != nil {
			return
		}
		if a.kind == HoldsStreams {
			<-ctx.Done()
			return
		}
	}
}

// appendTask appends `{"task":{` up to and including the status.
func (a *Agent) appendTask(dst []byte, n uint64, state string) []byte {
	dst = append(dst, `{"task":{"id":"t-`...)
	dst = a.appendID(dst, n)
	dst = append(dst, `","contextId":"c-`...)
	dst = a.appendID(dst, n)
	dst = append(dst, `","status":`...)
	return appendStatus(dst, state)
}

// appendUpdate appends an update event up to its own members.
func (a *Agent) appendUpdate(dst []byte, n uint64, name string) []byte {
	dst = append(dst, `{"`...)
	dst = append(dst, name...)
	dst = append(dst, `":{"taskId":"t-`...)
	dst = a.appendID(dst, n)
	dst = append(dst, `","contextId":"c-`...)
	dst = a.appendID(dst, n)
	return append(dst, `",`...)
}

func (a *Agent) appendID(dst []byte, n uint64) []byte {
	dst = append(dst, a.prefix...)
	return appendHex(dst, n)
}

func appendStatus(dst []byte, state string) []byte {
	dst = append(dst, `{"state":"`...)
	dst = append(dst, state...)
	dst = append(dst, `","timestamp":"`...)
	dst = time.Now().UTC().AppendFormat(dst, "2006-01-02T15:04:05.000Z")
	return append(dst, `"}`...)
}

// appendResult appends a JSON-RPC response up to the value of result.
func appendResult(dst, id []byte) []byte {
	dst = append(dst, `{"jsonrpc":"2.0","id":`...)
	dst = append(dst, id...)
	return append(dst, `,"result":`...)
}

// appendFault appends a JSON-RPC error; an empty reason leaves out the detail
// that A2A's own errors carry.
func appendFault(dst, id []byte, code int, message, reason string) []byte {
	dst = fmt.Appendf(dst, `{"jsonrpc":"2.0","id":%s,"error":{"code":%d,"message":%s`, id, code, quoted(message))
	if reason != "" {
		dst = fmt.Appendf(dst, `,"data":[{"@type":"type.googleapis.com/google.rpc.ErrorInfo","reason":%s,"domain":"a2a-protocol.org"}]`, quoted(reason))
	}
	return append(dst, `}}`...)
}
