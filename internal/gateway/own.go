package gateway

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"github.com/parley-mesh/parley/internal/a2a"
	"github.com/parley-mesh/parley/internal/call"
	"github.com/parley-mesh/parley/internal/parley"
)

// maxReferences is how many referenceTaskIds of one message are looked up;
// messages with more are refused.
const maxReferences = 64

// read takes in the body and checks the request against its method.
func (g *Gateway) read(ctx context.Context, c *Call) error {
	c.record.Reference = reference(c.from.Header)
	c.incoming = trace.SpanContextFromContext(traceContext.Extract(context.Background(), propagation.HeaderCarrier(c.from.Header)))
	if c.incoming.IsValid() && !c.anonymous() {
		c.record.TraceID = c.incoming.TraceID().String()
	}
	if c.early != nil {
		return c.early
	}
	if err := c.locate(ctx); err != nil {
		return err
	}
	size, err := c.from.receive(ctx)
	q := c.req
	c.record.BytesIn = size
	c.record.Method = methodName(q.Method)
	c.record.Version = string(q.Version)
	c.record.MessageID = q.Facts.MessageID
	c.record.TaskID = q.Facts.TaskID
	c.record.ContextID = q.Facts.ContextID
	if err == nil {
		g.identifyMessage(c)
	}
	g.lap(c, "read")
	if err != nil {
		return err
	}
	return nil
}

// methods are those of the protocol.
var methods = func() map[a2a.Method]bool {
	known := map[a2a.Method]bool{}
	for _, m := range a2a.Methods() {
		known[m] = true
	}
	return known
}()

// methodName is a method as records and metrics name it: there is no end to
// the names that callers can make up.
func methodName(m a2a.Method) string {
	if m != "" && !methods[m] {
		return "unknown"
	}
	return string(m)
}

// HeaderReference carries the caller's own business reference of a call, which
// is recorded and searchable.
const HeaderReference = "Parley-Reference"

// maxReference is the longest business reference, in bytes.
const maxReference = 200

// reference is the caller's reference as text, cut to its longest.
func reference(h http.Header) string {
	ref := strings.ToValidUTF8(h.Get(HeaderReference), "\uFFFD")
	if len(ref) <= maxReference {
		return ref
	}
	cut := maxReference
	for !utf8.RuneStart(ref[cut]) {
		cut--
	}
	return ref[:cut]
}

// countingReader counts what was read.
type countingReader struct {
	r io.Reader
	n int64
}

func (c *countingReader) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	c.n += int64(n)
	return n, err
}

// own checks that the task and context a request names belong to its caller,
// and takes out references to tasks that do not. What is not the caller's
// reads like what does not exist.
func (g *Gateway) own(ctx context.Context, c *Call) error {
	facts := &c.req.Facts
	if facts.TaskID != "" && (c.req.Method.NamesTask() || c.req.Method.Sends()) {
		task, err := g.task(ctx, c, facts.TaskID)
		if err != nil {
			return err
		}
		c.pin(task.Instance)
		c.sees = seen{key: task.Key(), state: task.State, statusAt: task.StatusAt, owned: true, context: task.ContextID}
		c.turnOf = task.Call
		if c.record.ContextID == "" {
			c.record.ContextID = task.ContextID
		}
	}
	if !c.req.Method.Sends() {
		return nil
	}
	err := g.pinContext(ctx, c, facts.ContextID)
	if err == nil {
		err = g.claim(ctx, c, facts.ContextID)
	}
	switch {
	case errors.Is(err, errForeign):
		return noContext(c)
	case err != nil:
		return err
	}
	if len(facts.ReferenceTaskIDs) > 0 {
		return g.dropForeignReferences(ctx, c)
	}
	return nil
}

// task gives a task of the caller's, or TaskNotFound.
func (g *Gateway) task(ctx context.Context, c *Call, id string) (*call.Task, error) {
	for _, instance := range c.instances() {
		task, err := g.Journal.Task(ctx, call.TaskKey{Agent: c.record.Agent, Instance: instance, ID: id})
		switch {
		case err == nil && task.Principal == c.record.Caller:
			return task, nil
		case err != nil && parley.KindOf(err) != parley.NotFound:
			return nil, err
		}
	}
	return nil, a2a.TaskNotFound(id)
}

// claim notes that the call is about a context, which is the caller's or
// nobody's yet; errForeign where it is somebody else's. An empty id is none.
func (g *Gateway) claim(ctx context.Context, c *Call, id string) error {
	if id == "" || id == c.sees.context {
		return nil
	}
	owner, err := g.Journal.ContextOwner(ctx, c.record.Agent, c.record.Instance, id)
	switch {
	case err == nil && owner != c.record.Caller:
		return errForeign
	case err != nil && parley.KindOf(err) != parley.NotFound:
		return err
	case err != nil:
		c.sees.changed, c.sees.fresh = true, true
	}
	c.sees.context, c.record.ContextID = id, id
	return nil
}

// dropForeignReferences leaves only references to the caller's own tasks, so
// that an agent, which sees one client, mixes no two principals' work.
func (g *Gateway) dropForeignReferences(ctx context.Context, c *Call) error {
	named := c.req.Facts.ReferenceTaskIDs
	if len(named) > maxReferences {
		return a2a.InvalidParams(a2a.FieldViolation{Field: "message.referenceTaskIds", Description: "names more than 64 tasks; name fewer"})
	}
	var mine []string
	for _, id := range named {
		switch task, err := g.task(ctx, c, id); {
		case err == nil:
			// What another instance has done, this one does not know.
			if c.pin(task.Instance) {
				mine = append(mine, id)
			}
		case a2aReason(err) != a2a.ReasonTaskNotFound:
			return err
		}
	}
	switch {
	case len(mine) == len(named):
		return nil
	case len(mine) == 0:
		return c.req.Delete("/message/referenceTaskIds")
	}
	raw, err := json.Marshal(mine)
	if err != nil {
		return err
	}
	return c.req.Set("/message/referenceTaskIds", jsontext.Value(raw))
}

// notice takes over what a result or frame shows: errForeign where that belongs
// to somebody else, or is about another task than the call.
func (g *Gateway) notice(ctx context.Context, c *Call, f *a2a.Facts) error {
	if err := g.claim(context.WithoutCancel(ctx), c, f.ContextID); err != nil {
		return err
	}
	if c.note(f, g.Now()) {
		return errForeign
	}
	return nil
}

// note takes over what a result or frame shows of a task. It reports whether
// the answer contradicts what the call is about.
func (c *Call) note(f *a2a.Facts, now time.Time) (contradiction bool) {
	if f.TaskID == "" || f.Kind == a2a.KindMessage {
		return false
	}
	if c.sees.key == (call.TaskKey{}) {
		c.sees.key = call.TaskKey{Agent: c.record.Agent, Instance: c.record.Instance, ID: f.TaskID}
		c.record.TaskID = f.TaskID
		c.sees.changed = true
	}
	if c.sees.key.ID != f.TaskID {
		return true
	}
	if f.State == "" {
		c.sees.snapshot, c.sees.changed = nil, true
		return false
	}
	c.sees.statusAt = statusAt(f, now, c.sees.state, c.sees.statusAt)
	c.sees.state, c.sees.changed = string(f.State), true
	c.record.TaskState = c.sees.state
	return false
}

// clockSkew is how far an agent's clock may be ahead of the mesh's.
const clockSkew = time.Minute

// statusAt is when the status that f shows came about, as the index has it,
// where the status seen before it was known, of the time at: what the agent
// says, but never before what was seen before, and never in the mesh's future,
// where it would lead every list for ever. An agent that says nothing usable
// is taken at the mesh's own clock, once for each state.
func statusAt(f *a2a.Facts, now time.Time, known string, at time.Time) time.Time {
	says := f.StatusTime.Time
	if says.IsZero() || says.After(now.Add(clockSkew)) {
		if known == string(f.State) && !at.IsZero() {
			return at
		}
		says = now
	}
	if says.Before(at) {
		return at
	}
	return says
}

// indexed is the index entry for what was seen, nil if no task was.
func (c *Call) indexed(now time.Time) *call.Task {
	if c.sees.key == (call.TaskKey{}) || c.sees.state == "" {
		return nil
	}
	began := c.record.ID
	if !c.turnOf.IsZero() {
		began = c.turnOf
	}
	return &call.Task{
		Agent: c.sees.key.Agent, Instance: c.sees.key.Instance, ID: c.sees.key.ID,
		Principal: c.record.Caller, Owner: c.record.CallerOwner,
		ContextID: c.record.ContextID, State: c.sees.state, StatusAt: c.sees.statusAt,
		Final: call.Final(c.sees.state), Call: began, UpdatedAt: now, Snapshot: c.sees.snapshot,
	}
}
