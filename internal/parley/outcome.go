package parley

import "strconv"

// Outcome is how a call ended: a closed set, used alike by records, metrics,
// retries and trust.
type Outcome string

// The outcomes. An empty outcome means that the call is still open.
const (
	OutcomeOpen        Outcome = ""
	OutcomeOK          Outcome = "ok"
	OutcomeCallerError Outcome = "caller_error" // the mesh itself found the input bad
	OutcomeTimeout     Outcome = "timeout"
	OutcomeSchemaError Outcome = "schema_error"
	OutcomeAgentError  Outcome = "agent_error"
	OutcomeCrash       Outcome = "crash" // no connection, 5xx, protocol nonsense, truncated stream
	OutcomeRejected    Outcome = "rejected"
	OutcomeCanceled    Outcome = "canceled"
	OutcomeDenied      Outcome = "denied"  // the mesh refused
	OutcomeUnknown     Outcome = "unknown" // the mesh died or the result is in doubt
)

// Outcomes lists every outcome of an ended call.
var Outcomes = []Outcome{
	OutcomeOK, OutcomeCallerError, OutcomeTimeout, OutcomeSchemaError, OutcomeAgentError,
	OutcomeCrash, OutcomeRejected, OutcomeCanceled, OutcomeDenied, OutcomeUnknown,
}

// ParseOutcome reads an outcome's name; ok is false for anything else. "open"
// is the name of OutcomeOpen.
func ParseOutcome(s string) (o Outcome, ok bool) {
	if s == "open" {
		return OutcomeOpen, true
	}
	for _, o := range Outcomes {
		if s == string(o) {
			return o, true
		}
	}
	return "", false
}

// Verdict is what a failure shape means: its class, and whether trying the
// same thing again later may help.
type Verdict struct {
	Outcome   Outcome
	Transient bool
}

// Shape is a failure as it is seen from outside, before it is judged.
type Shape string

// Shapes that are not task states, protocol errors or HTTP statuses.
const (
	ShapeDial       Shape = "dial"        // no connection
	ShapeCut        Shape = "cut"         // the connection broke before the answer was whole
	ShapeDeadline   Shape = "deadline"    // the mesh's deadline passed
	ShapeCallerGone Shape = "caller_gone" // the caller left before the answer
	ShapeCanceled   Shape = "canceled"    // an operator ended the call
	ShapeStopped    Shape = "stopped"     // the mesh stopped while the agent worked
	ShapeFrozen     Shape = "frozen"      // the caller was frozen while the agent worked
	ShapeNonsense   Shape = "nonsense"    // an answer that is not the protocol
	ShapeForeignID  Shape = "foreign_id"  // an answer with an id that belongs to somebody else
	ShapeTooLarge   Shape = "too_large"   // an answer over the size limit
	ShapeInvalid    Shape = "invalid"     // the mesh found the input bad
	ShapeRefused    Shape = "refused"     // the mesh refused
	ShapeMeshDied   Shape = "mesh_died"   // begun, and no end was recorded
	ShapeStore      Shape = "store"       // the mesh's own store failed
	ShapeToken      Shape = "token"       // no access token for the agent could be had; nothing was sent to it
)

// verdicts is the one table that sorts failure shapes into classes: task
// states as A2A 1.0 writes them, A2A error reasons, HTTP statuses ("http_503")
// and the shapes above.
var verdicts = map[Shape]Verdict{
	"TASK_STATE_COMPLETED":      {OutcomeOK, false},
	"TASK_STATE_INPUT_REQUIRED": {OutcomeOpen, false},
	"TASK_STATE_AUTH_REQUIRED":  {OutcomeOpen, false},
	"TASK_STATE_SUBMITTED":      {OutcomeOpen, false},
	"TASK_STATE_WORKING":        {OutcomeOpen, false},
	"TASK_STATE_FAILED":         {OutcomeAgentError, false},
	"TASK_STATE_CANCELED":       {OutcomeCanceled, false},
	"TASK_STATE_REJECTED":       {OutcomeRejected, false},

	// What an agent says of input that the mesh had passed counts as its own
	// error: caller_error is only for what the mesh itself found bad.
	"TASK_NOT_FOUND":                     {OutcomeAgentError, false},
	"TASK_NOT_CANCELABLE":                {OutcomeAgentError, false},
	"PUSH_NOTIFICATION_NOT_SUPPORTED":    {OutcomeAgentError, false},
	"UNSUPPORTED_OPERATION":              {OutcomeAgentError, false},
	"CONTENT_TYPE_NOT_SUPPORTED":         {OutcomeAgentError, false},
	"INVALID_AGENT_RESPONSE":             {OutcomeSchemaError, false},
	"EXTENDED_AGENT_CARD_NOT_CONFIGURED": {OutcomeAgentError, false},
	"EXTENSION_SUPPORT_REQUIRED":         {OutcomeAgentError, false},
	"VERSION_NOT_SUPPORTED":              {OutcomeAgentError, false},
	"rpc_-32700":                         {OutcomeAgentError, false},
	"rpc_-32600":                         {OutcomeAgentError, false},
	"rpc_-32601":                         {OutcomeAgentError, false},
	"rpc_-32602":                         {OutcomeAgentError, false},
	"rpc_-32603":                         {OutcomeAgentError, true},

	"http_400": {OutcomeAgentError, false},
	"http_401": {OutcomeAgentError, false},
	"http_403": {OutcomeAgentError, false},
	"http_404": {OutcomeAgentError, false},
	"http_408": {OutcomeTimeout, true},
	"http_409": {OutcomeAgentError, false},
	"http_413": {OutcomeAgentError, false},
	"http_415": {OutcomeAgentError, false},
	"http_422": {OutcomeAgentError, false},
	"http_429": {OutcomeAgentError, true},
	"http_500": {OutcomeCrash, true},
	"http_501": {OutcomeCrash, false},
	"http_502": {OutcomeCrash, true},
	"http_503": {OutcomeCrash, true},
	"http_504": {OutcomeTimeout, true},

	ShapeDial:       {OutcomeCrash, true},
	ShapeCut:        {OutcomeCrash, true},
	ShapeDeadline:   {OutcomeTimeout, true},
	ShapeCallerGone: {OutcomeCanceled, false},
	ShapeCanceled:   {OutcomeCanceled, false},
	ShapeStopped:    {OutcomeUnknown, false},
	ShapeFrozen:     {OutcomeCanceled, false},
	ShapeNonsense:   {OutcomeCrash, false},
	ShapeForeignID:  {OutcomeCrash, false},
	ShapeTooLarge:   {OutcomeCrash, false},
	ShapeInvalid:    {OutcomeCallerError, false},
	ShapeRefused:    {OutcomeDenied, false},
	ShapeMeshDied:   {OutcomeUnknown, false},
	ShapeStore:      {OutcomeDenied, true},
	ShapeToken:      {OutcomeAgentError, true}, // as its 401 would be, which is what it would answer
}

// Judge sorts a failure shape into its class. A shape that the table does not
// name is protocol nonsense: a permanent crash.
func Judge(s Shape) Verdict {
	if v, ok := verdicts[s]; ok {
		return v
	}
	return verdicts[ShapeNonsense]
}

// JudgeRPC sorts a JSON-RPC error code that came without a reason the protocol
// defines. A code without a row of its own is an error of the agent.
func JudgeRPC(code int) Verdict {
	if v, ok := verdicts[Shape("rpc_"+strconv.Itoa(code))]; ok {
		return v
	}
	return Verdict{OutcomeAgentError, false}
}

// JudgeHTTP sorts an HTTP status that carried no protocol error of its own.
// Statuses without a row of their own follow their class of hundred.
func JudgeHTTP(status int) Verdict {
	if v, ok := verdicts[Shape("http_"+strconv.Itoa(status))]; ok {
		return v
	}
	switch {
	case status >= 500:
		return verdicts["http_500"]
	case status >= 400:
		return verdicts["http_400"]
	}
	return verdicts[ShapeNonsense]
}
