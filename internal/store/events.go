package store

import (
	"cmp"
	"context"
	"database/sql/driver"
	"encoding/json"
	"errors"
	"slices"
	"strings"

	"github.com/parley-mesh/parley/internal/call"
	"github.com/parley-mesh/parley/internal/parley"
)

// callSubject is what the subjects of calls begin with. The two events of a
// call are its row; nothing else may tell of it.
const callSubject = "calls/"

// Types of the events that rows of calls stand for.
const (
	callBegun = "call.begun"
	callEnded = "call.ended"
)

// eventColumns are the columns of an event without its place, and eventValues
// what goes into them: the subject comes twice.
const (
	eventColumns = `subject, subject_seq, type, time, owner, environment, data`
	eventValues  = `?, coalesce((SELECT max(subject_seq) FROM events WHERE subject = ?), 0) + 1, ?, ?, ?, ?, ?`
)

// events writes events that tell of a change of what replicas keep in memory, and
// notes it for them.
func (t *tx) events(events []parley.Event) error {
	for i := range events {
		domain, _, _ := strings.Cut(events[i].Subject, "/")
		if err := t.note(domain); err != nil {
			return err
		}
	}
	return t.tell(events)
}

// tell writes events, with their places where the writer gives them.
func (t *tx) tell(events []parley.Event) error {
	for i := range events {
		e := &events[i]
		if strings.HasPrefix(e.Subject, callSubject) {
			return parley.E("store.events", parley.Internal, parley.Subject(e.Subject), "the events of a call are its row and are not written one by one", nil)
		}
		data := e.Data
		if len(data) == 0 {
			data = []byte("{}")
		}
		v := make([]driver.Value, 0, 8)
		if t.db.pg == nil {
			v = append(v, t.next())
		}
		v = append(v, e.Subject, e.Subject, e.Type, e.Time.UnixMicro(), string(e.Owner), string(e.Environment), data)
		if _, err := t.run(t.db.sql.insertEvent, v...); err != nil {
			return err
		}
	}
	return nil
}

// AppendEvents keeps events that belong to no other change of state.
func (db *DB) AppendEvents(ctx context.Context, events ...parley.Event) error {
	return db.fault("store.append_events", "", db.w.do(ctx, statements(func(t *tx) error { return t.tell(events) })))
}

// Events gives the events behind the place after, in order, limit at most. A
// reader that goes on behind the last one it was given misses none.
func (db *DB) Events(ctx context.Context, after int64, limit int) (events []parley.Event, err error) {
	const op parley.Op = "store.events"
	limit = page(limit)
	// One snapshot for the three sources: between two statements a commit
	// could add to a source that was read already.
	tx, err := db.read.begin(ctx)
	if err != nil {
		return nil, db.fault(op, "", err)
	}
	defer func() { err = db.fault(op, "", errors.Join(err, tx.end())) }()
	if events, err = queryOn(ctx, tx, scanEvent, `SELECT seq, subject, subject_seq, type, time, owner, environment, data
		FROM events WHERE seq > ? ORDER BY seq LIMIT ?`, after, limit); err != nil {
		return nil, err
	}
	begun, err := queryOn(ctx, tx, scanCall,
		`SELECT `+callColumns+` FROM calls WHERE seq > ? ORDER BY seq LIMIT ?`, after, limit)
	if err != nil {
		return nil, err
	}
	ended, err := queryOn(ctx, tx, scanCall,
		`SELECT `+callColumns+` FROM calls WHERE end_seq > ? ORDER BY end_seq LIMIT ?`, after, limit)
	if err != nil {
		return nil, err
	}
	for _, r := range begun {
		events = append(events, begunEvent(r))
	}
	for _, r := range ended {
		events = append(events, endedEvent(r))
	}
	slices.SortFunc(events, func(a, b parley.Event) int { return cmp.Compare(a.Seq, b.Seq) })
	return events[:min(len(events), limit)], nil
}

func scanEvent(row scanner) (e parley.Event, err error) {
	err = row.Scan(&e.Seq, &e.Subject, &e.SubjectSeq, &e.Type, timeColumn{&e.Time}, &e.Owner, &e.Environment, &e.Data)
	return e, err
}

// begunData is the data of call.begun.
type begunData struct {
	Call        parley.CallID        `json:"call"`
	Root        parley.CallID        `json:"root"`
	Link        call.LinkKind        `json:"link"`
	Parent      string               `json:"parent,omitempty"`
	Depth       int                  `json:"depth"`
	Caller      parley.PrincipalName `json:"caller"`
	CallerOwner parley.OwnerName     `json:"callerOwner"`
	CallerAgent parley.AgentName     `json:"callerAgent,omitempty"`
	Agent       parley.AgentName     `json:"agent"`
	AgentOwner  parley.OwnerName     `json:"agentOwner"`
	Method      string               `json:"method"`
	Reference   string               `json:"reference,omitempty"`
	TraceID     string               `json:"traceId,omitempty"`
}

func begunEvent(r *call.Record) parley.Event {
	return callEvent(r, r.Seq, 1, callBegun, begunData{
		Call: r.ID, Root: r.Root, Link: r.Link.Kind, Parent: r.Link.Parent.String(), Depth: r.Link.Depth,
		Caller: r.Caller, CallerOwner: r.CallerOwner, CallerAgent: r.CallerAgent,
		Agent: r.Agent, AgentOwner: r.AgentOwner, Method: r.Method, Reference: r.Reference, TraceID: r.TraceID,
	})
}

// endedData is the data of call.ended.
type endedData struct {
	Call            parley.CallID        `json:"call"`
	Root            parley.CallID        `json:"root"`
	Caller          parley.PrincipalName `json:"caller"`
	Agent           parley.AgentName     `json:"agent"`
	Method          string               `json:"method"`
	Outcome         parley.Outcome       `json:"outcome"`
	Reason          string               `json:"reason,omitempty"`
	Task            string               `json:"task,omitempty"`
	TaskState       string               `json:"taskState,omitempty"`
	Reference       string               `json:"reference,omitempty"`
	BytesIn         int64                `json:"bytesIn"`
	BytesOut        int64                `json:"bytesOut"`
	FirstByteMicros int64                `json:"firstByteMicros"`
	TotalMicros     int64                `json:"totalMicros"`
}

func endedEvent(r *call.Record) parley.Event {
	return callEvent(r, r.EndSeq, 2, callEnded, endedData{
		Call: r.ID, Root: r.Root, Caller: r.Caller, Agent: r.Agent, Method: r.Method,
		Outcome: r.Outcome, Reason: r.Reason, Task: r.TaskID, TaskState: r.TaskState, Reference: r.Reference,
		BytesIn: r.BytesIn, BytesOut: r.BytesOut,
		FirstByteMicros: r.FirstByte.Microseconds(), TotalMicros: r.Total.Microseconds(),
	})
}

func callEvent(r *call.Record, seq, subjectSeq int64, kind string, data any) parley.Event {
	b, err := json.Marshal(data)
	if err != nil { // strings, numbers and ids always encode
		panic(err)
	}
	at := r.Begun
	if kind == callEnded {
		at = r.Ended
	}
	return parley.Event{
		Seq: seq, Subject: callSubject + r.ID.String(), SubjectSeq: subjectSeq, Type: kind, Time: at,
		Owner: r.CallerOwner, Environment: r.Environment, Data: b,
	}
}

// selectLastSeq gives the last place in the feed. meta remembers it where rows
// were pruned away.
const selectLastSeq = `SELECT max(
	coalesce((SELECT max(seq) FROM events), 0),
	coalesce((SELECT max(seq) FROM calls), 0),
	coalesce((SELECT max(end_seq) FROM calls WHERE end_seq IS NOT NULL), 0),
	coalesce((SELECT CAST(value AS INTEGER) FROM meta WHERE name = 'last_seq'), 0))`

// LastSeq is the last place in the feed that is taken.
func (db *DB) LastSeq(ctx context.Context) (seq int64, err error) {
	err = db.read.QueryRowContext(ctx, db.sql.lastSeq).Scan(&seq)
	return seq, db.fault("store.last_seq", "", err)
}
