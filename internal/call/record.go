package call

import (
	"context"
	"time"

	"github.com/parley-mesh/parley/internal/parley"
)

// Record is one call. Begin writes everything known before the request leaves;
// End completes it.
type Record struct {
	ID   parley.CallID
	Root parley.CallID // the call's own id where it starts a chain
	Link Link

	Caller      parley.PrincipalName
	CallerOwner parley.OwnerName
	CallerAgent parley.AgentName // set where the caller is an agent's own key
	Environment parley.Environment

	Agent      parley.AgentName
	AgentOwner parley.OwnerName
	Instance   string // which instance of the agent; empty for its own address
	// Moved is set where Instance and AgentBinding are others than at Begin,
	// because nothing of the call reached the instance that was chosen first. It
	// is no part of what is stored.
	Moved bool

	// Sent makes Begin look for an earlier call that sent the same message; nil
	// where none is looked for. It is no part of what is stored.
	Sent *Sent

	Method        string // A2A method name, as "SendMessage"
	CallerBinding string // A2A binding name, as "JSONRPC"
	AgentBinding  string
	Version       string // A2A version the caller spoke
	MessageID     string
	ContextID     string
	Reference     string // the caller's own business reference
	TraceID       string // W3C trace id, 32 hex digits
	SpanID        string // the span the mesh made for this call, 16 hex digits

	Begun    time.Time
	Deadline time.Time // when the mesh stops waiting for the task

	// Seq and EndSeq are the places of the call's two events, begun and ended,
	// in the mesh's feed; 0 until the store has given them.
	Seq    int64
	EndSeq int64

	// TaskID and TaskState are the task the call works on, once known.
	TaskID    string
	TaskState string

	End
}

// Sent is what tells a message that is sent again from another one under the
// same id.
type Sent struct {
	Digest [16]byte
	Window time.Duration // how far back an earlier call counts; one that is open always does
}

// RepeatedError says that the caller has sent a message of that id to that agent
// before.
type RepeatedError struct {
	First parley.CallID // the call that sent it
	Same  bool          // it was the same message
}

// Error names the first call.
func (e *RepeatedError) Error() string { return "sent before, in call " + e.First.String() }

// End is how a call ended. A zero Ended means that the call is open.
type End struct {
	Ended     time.Time
	Outcome   parley.Outcome
	Reason    string // stable code of the failure, such as "TASK_NOT_FOUND" or "dial"
	Detail    string // one sentence for a person; never payload, never a secret
	Status    int    // HTTP status given to the caller
	BytesIn   int64  // request body
	BytesOut  int64  // everything sent to the caller
	FirstByte time.Duration
	Total     time.Duration
	Steps     []Step
}

// Step is the time one step of the gateway took.
type Step struct {
	Name string        `json:"name"`
	Took time.Duration `json:"took"` // nanoseconds in JSON
}

// Open reports whether the call has not ended.
func (r *Record) Open() bool { return r.Ended.IsZero() }

// Settlement is what one call leaves behind, written in one transaction.
type Settlement struct {
	// Record has Ended set, or is still open and bound to a task. It is nil
	// where the mesh itself looked at a task: then only Task is written.
	Record *Record
	// Insert is set where no Begin has succeeded: reads write one row, at their
	// end. A row that a failed Begin has left all the same is ended.
	Insert bool
	// Unsent is set where nothing of the call's message was taken: it may be sent
	// again.
	Unsent bool
	// Refusal is set where the mesh refused the call and nothing of it left:
	// while the disk does not keep up, such a record may be left out.
	Refusal bool
	Task    *Task // the task's newest state, if one was seen
	// Context is the context to record as the caller's, if one was seen. That
	// of Record.ContextID at Begin is the caller's already.
	Context string
	Events  []parley.Event
}

// Filter selects records; zero members select all. Records come newest first.
type Filter struct {
	Caller    parley.PrincipalName
	Owner     parley.OwnerName // caller's or agent's owner
	Agent     parley.AgentName
	Method    string
	Task      string
	Reference string
	Root      parley.CallID
	Outcome   string // an outcome's name, or "open"
	Since     time.Time
	Until     time.Time
	Before    parley.CallID // page cursor: only calls older than this one
	Limit     int           // 1 to 500
}

// Reader finds records.
type Reader interface {
	// Call gives one record, or a parley.NotFound error.
	Call(ctx context.Context, id parley.CallID) (*Record, error)
	// Calls gives the records that match, newest first.
	Calls(ctx context.Context, f Filter) ([]*Record, error)
	// Tree gives all calls of one root, oldest first, 1,000 at most.
	Tree(ctx context.Context, root parley.CallID) ([]*Record, error)
}
