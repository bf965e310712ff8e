package control

import (
	"context"
	"time"

	"github.com/parley-mesh/parley/internal/call"
	"github.com/parley-mesh/parley/internal/parley"
)

// CallReader finds records of calls; see call.Reader.
type CallReader = call.Reader

// Canceller ends calls that are under way.
type Canceller interface {
	// Cancel asks the agent to cancel the call's task and closes the call.
	// Errors: parley.NotFound, parley.Conflict where it has ended already.
	Cancel(ctx context.Context, id parley.CallID) error
}

// Call is the record of one call.
type Call struct {
	ID             string               `json:"id"`
	Root           string               `json:"root" doc:"The call that starts the chain; the call itself where it does."`
	Parent         string               `json:"parent,omitempty"`
	Link           call.LinkKind        `json:"link" enum:"root,parent,ambiguous,turn" doc:"How sure the mesh is of the parent; turn: a further message of a task, beside the call that began it."`
	Depth          int                  `json:"depth"`
	Candidates     []string             `json:"candidates" nullable:"false" doc:"Calls that may be the parent, at most 16."`
	CandidateCount int                  `json:"candidateCount"`
	Caller         parley.PrincipalName `json:"caller"`
	CallerOwner    parley.OwnerName     `json:"callerOwner"`
	CallerAgent    parley.AgentName     `json:"callerAgent,omitempty"`
	Environment    parley.Environment   `json:"environment"`
	Agent          parley.AgentName     `json:"agent"`
	AgentOwner     parley.OwnerName     `json:"agentOwner,omitempty"`
	Instance       string               `json:"instance,omitempty"`
	Method         string               `json:"method"`
	CallerBinding  string               `json:"callerBinding,omitempty"`
	AgentBinding   string               `json:"agentBinding,omitempty"`
	Version        string               `json:"version,omitempty" doc:"A2A version that the caller spoke."`
	MessageID      string               `json:"messageId,omitempty"`
	ContextID      string               `json:"contextId,omitempty"`
	TaskID         string               `json:"taskId,omitempty"`
	TaskState      string               `json:"taskState,omitempty"`
	Reference      string               `json:"reference,omitempty" doc:"The caller's own."`
	TraceID        string               `json:"traceId,omitempty"`
	SpanID         string               `json:"spanId,omitempty"`
	Begun          time.Time            `json:"begun"`
	Deadline       *time.Time           `json:"deadline,omitempty"`
	Ended          *time.Time           `json:"ended,omitempty" doc:"Missing: the call is open."`
	Asked          *CallAsked           `json:"asked,omitempty" doc:"The agent asked the caller's side for a credential."`
	Outcome        string               `json:"outcome" doc:"open, or how it ended."`
	Reason         string               `json:"reason,omitempty"`
	Detail         string               `json:"detail,omitempty"`
	Status         int                  `json:"status,omitempty" doc:"HTTP status given to the caller."`
	BytesIn        int64                `json:"bytesIn"`
	BytesOut       int64                `json:"bytesOut"`
	FirstByteMs    float64              `json:"firstByteMs"`
	TotalMs        float64              `json:"totalMs"`
	Steps          []CallStep           `json:"steps" nullable:"false"`
}

// CallStep is the time one step of a call took.
type CallStep struct {
	Name   string  `json:"name"`
	TookMs float64 `json:"tookMs"`
}

// CallTree is all calls of one chain, oldest first. Each names its parent.
type CallTree struct {
	Root  string `json:"root"`
	Calls []Call `json:"calls" nullable:"false"`
}

// CallFilter selects calls; empty members select all.
type CallFilter struct {
	Caller    parley.PrincipalName `query:"caller" maxLength:"63"`
	Owner     parley.OwnerName     `query:"owner" maxLength:"63" doc:"The caller's or the agent's."`
	Agent     parley.AgentName     `query:"agent" maxLength:"63"`
	Method    string               `query:"method" maxLength:"64" doc:"As SendMessage."`
	Task      string               `query:"task" maxLength:"512"`
	Reference string               `query:"reference" maxLength:"512"`
	Root      string               `query:"root" maxLength:"36"`
	Outcome   string               `query:"outcome" maxLength:"16" doc:"open, ok, caller_error, timeout, schema_error, agent_error, crash, rejected, canceled, denied or unknown."`
	Since     time.Time            `query:"since" doc:"RFC 3339."`
	Until     time.Time            `query:"until" doc:"RFC 3339."`
}

// CallAsked is an agent's asking for a credential, to be given out of band. Who
// asked is the call's agent; how deep in a chain, the call's depth.
type CallAsked struct {
	At      time.Time `json:"at"`
	Schemes []string  `json:"schemes,omitempty" nullable:"false" doc:"As the agent names them; none where it does not."`
}

func callOf(r *call.Record) Call {
	out := Call{
		ID: r.ID.String(), Root: r.Root.String(), Parent: r.Link.Parent.String(), Link: r.Link.Kind, Depth: r.Link.Depth,
		Candidates: []string{}, CandidateCount: r.Link.Count,
		Caller: r.Caller, CallerOwner: r.CallerOwner, CallerAgent: r.CallerAgent, Environment: r.Environment,
		Agent: r.Agent, AgentOwner: r.AgentOwner, Instance: r.Instance,
		Method: r.Method, CallerBinding: r.CallerBinding, AgentBinding: r.AgentBinding, Version: r.Version,
		MessageID: r.MessageID, ContextID: r.ContextID, TaskID: r.TaskID, TaskState: r.TaskState,
		Reference: r.Reference, TraceID: r.TraceID, SpanID: r.SpanID,
		Begun: r.Begun.UTC(), Deadline: timeOf(r.Deadline), Ended: timeOf(r.Ended),
		Outcome: string(r.Outcome), Reason: r.Reason, Detail: r.Detail, Status: r.Status,
		BytesIn: r.BytesIn, BytesOut: r.BytesOut, FirstByteMs: millis(r.FirstByte), TotalMs: millis(r.Total),
		Steps: []CallStep{},
	}
	if r.Open() {
		out.Outcome = "open"
	}
	if r.Asked != nil {
		out.Asked = &CallAsked{At: r.Asked.At.UTC(), Schemes: r.Asked.Schemes}
	}
	for _, id := range r.Link.Candidates {
		out.Candidates = append(out.Candidates, id.String())
	}
	for _, step := range r.Steps {
		out.Steps = append(out.Steps, CallStep{Name: step.Name, TookMs: millis(step.Took)})
	}
	return out
}

// callID reads the id of a call out of a parameter.
func callID(name, text string) (parley.CallID, error) {
	id, err := parley.ParseCallID(text)
	if err != nil {
		return id, badParam(name, err.Error(), "use the id as the header Parley-Call-Id or a list gives it")
	}
	return id, nil
}

// filter is what the parameters ask for.
func (f *CallFilter) filter() (call.Filter, error) {
	out := call.Filter{
		Caller: f.Caller, Owner: f.Owner, Agent: f.Agent, Method: f.Method, Task: f.Task,
		Reference: f.Reference, Outcome: f.Outcome, Since: f.Since, Until: f.Until,
	}
	if _, ok := parley.ParseOutcome(f.Outcome); !ok && f.Outcome != "" {
		return out, badParam("outcome", "is unknown", "use open or the name of an outcome, as ok, crash or denied")
	}
	if f.Root != "" {
		root, err := callID("root", f.Root)
		if err != nil {
			return out, err
		}
		out.Root = root
	}
	return out, nil
}

func (s *Server) callRoutes() {
	calls := s.opts.Calls
	type list struct {
		Paging
		CallFilter
	}
	type one struct {
		ID string `path:"id" maxLength:"36"`
	}
	route(s, operation("listCalls", "GET", "/calls", "List calls, newest first", 200),
		func(ctx context.Context, in *list) (*listed[Call], error) {
			f, err := in.filter()
			if err != nil {
				return nil, err
			}
			if f.Owner, err = readable(ctx, "listCalls", f.Owner); err != nil {
				return nil, err
			}
			at, err := in.place("calls", 1)
			if err != nil {
				return nil, err
			}
			if at[0] != "" {
				if f.Before, err = callID("cursor", at[0]); err != nil {
					return nil, err
				}
			}
			f.Limit = in.Limit + 1
			records, err := calls.Calls(ctx, f)
			return page(records, in.Limit, callOf, func(r *call.Record) string { return cursorOf("calls", r.ID.String()) }), err
		})
	show := func(ctx context.Context, operation string, id parley.CallID) (*entity[Call], error) {
		r, err := calls.Call(ctx, id)
		if err != nil {
			return nil, err
		}
		if err := permitRead(ctx, operation, r.CallerOwner, r.AgentOwner); err != nil {
			return nil, err
		}
		return &entity[Call]{Body: callOf(r)}, nil
	}
	route(s, operation("getCall", "GET", "/calls/{id}", "Show a call", 200),
		func(ctx context.Context, in *one) (*entity[Call], error) {
			id, err := callID("id", in.ID)
			if err != nil {
				return nil, err
			}
			return show(ctx, "getCall", id)
		})
	route(s, operation("getCallTree", "GET", "/calls/{id}/tree", "Show the whole chain a call stands in, at most 1,000 calls", 200),
		func(ctx context.Context, in *one) (*entity[CallTree], error) { return s.callTree(ctx, in.ID) })
	route(s, operation("cancelCall", "POST", "/calls/{id}/cancel", "Cancel an open call", 200),
		func(ctx context.Context, in *one) (*entity[Call], error) {
			id, err := callID("id", in.ID)
			if err != nil {
				return nil, err
			}
			if err := s.opts.Cancel.Cancel(ctx, id); err != nil {
				return nil, err
			}
			return show(ctx, "cancelCall", id)
		})
}

// callTree gives the chain that a call stands in; to whoever sees one owner's
// calls only, those of the chain.
func (s *Server) callTree(ctx context.Context, text string) (*entity[CallTree], error) {
	id, err := callID("id", text)
	if err != nil {
		return nil, err
	}
	r, err := s.opts.Calls.Call(ctx, id)
	if err != nil {
		return nil, err
	}
	if err := permitRead(ctx, "getCallTree", r.CallerOwner, r.AgentOwner); err != nil {
		return nil, err
	}
	records, err := s.opts.Calls.Tree(ctx, r.Root)
	if err != nil {
		return nil, err
	}
	out := &entity[CallTree]{Body: CallTree{Root: r.Root.String(), Calls: make([]Call, 0, len(records))}}
	for _, r := range records {
		if permitRead(ctx, "getCallTree", r.CallerOwner, r.AgentOwner) != nil {
			continue
		}
		out.Body.Calls = append(out.Body.Calls, callOf(r))
	}
	return out, nil
}
