package gateway

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"strings"

	"github.com/parley-mesh/parley/internal/a2a"
	"github.com/parley-mesh/parley/internal/identity"
	"github.com/parley-mesh/parley/internal/limit"
	"github.com/parley-mesh/parley/internal/parley"
	"github.com/parley-mesh/parley/internal/registry"
)

// Causes of an exchange that the mesh itself ended.
var (
	errShutdown = errors.New("the mesh is stopping")
	errCanceled = errors.New("canceled by an operator")
	errDeadline = errors.New("the call's deadline passed")
	errFrozen   = errors.New("the caller was frozen")
)

// Reasons of the mesh's own, beside those that the protocol and package a2a
// define.
const (
	ReasonAgentUnknown a2a.Reason = "AGENT_NOT_FOUND"  // no agent has that name
	ReasonFrozen       a2a.Reason = "PRINCIPAL_FROZEN" // everything of the caller's is stopped
)

// refuse turns what stopped a call into the caller's answer and into how the
// record ends. Internal causes go to the log, never to the caller.
func (g *Gateway) refuse(c *Call, err error) *a2a.Reply {
	if e, ok := errors.AsType[*a2a.Error](err); ok {
		c.ends(parley.Judge(parley.ShapeInvalid).Outcome, string(e.Reason), e.Message)
		return &a2a.Reply{Err: e}
	}
	kind := parley.KindOf(err)
	message := parley.PublicMessage(err)
	if kind == parley.Unavailable && fromStore(err) {
		message = "the mesh cannot reach its records; try again later"
	}
	e := protocolError(kind, message)
	switch kind {
	case parley.Unauthorized, parley.Exhausted, parley.Denied:
		e.Challenge = identity.Challenge(err, g.metadataOf(c.record.Agent))
		e.RetryAfter = max(identity.RetryAfter(err), limit.RetryAfter(err))
	case parley.Frozen:
		e.Reason = ReasonFrozen
	case parley.NotFound:
		e.Reason, e.RPCCode, e.HTTP, e.Status = ReasonAgentUnknown, -32601, http.StatusNotFound, "NOT_FOUND"
	case parley.Internal, parley.Unavailable:
		g.Log.Log(context.Background(), refusalLevel(err), "call refused", "call", c.record.ID, "agent", c.record.Agent, "kind", kind, "err", err)
	}
	shape := parley.ShapeRefused
	switch kind {
	case parley.NotFound, parley.Invalid:
		shape = parley.ShapeInvalid
	case parley.Canceled:
		shape = parley.ShapeCallerGone
	}
	c.ends(parley.Judge(shape).Outcome, reasonOf(kind, err), parley.PublicMessage(err))
	return &a2a.Reply{Err: e}
}

// metadataOf is where whoever is refused reads which issuers there are.
func (g *Gateway) metadataOf(agent parley.AgentName) string {
	if g.MetadataOf == nil || parley.CheckName("agent", string(agent)) != nil {
		return ""
	}
	return g.MetadataOf(agent)
}

// Reasons in the record of calls that could not be taken on just then. They
// are stable, and set apart from those of callers who may not call.
const (
	reasonSuspended = "agent_suspended"
	reasonUnproven  = "agent_unproven"
	reasonStore     = "store"
)

// reasonOf is the reason that the record of a refused call gives.
func reasonOf(kind parley.Kind, err error) string {
	switch {
	case kind == parley.Canceled:
		return string(parley.ShapeCallerGone)
	case errors.Is(err, registry.ErrSuspended):
		return reasonSuspended
	case errors.Is(err, registry.ErrUnproven):
		return reasonUnproven
	case storeFails(err), fromStore(err) && (kind == parley.Timeout || kind == parley.Internal):
		return reasonStore
	}
	return kind.String()
}

// refusalLevel is how loudly a refusal is logged: not at all loudly where
// operators see it in the record, or the store has logged its own failing once.
func refusalLevel(err error) slog.Level {
	if errors.Is(err, registry.ErrSuspended) || errors.Is(err, registry.ErrUnproven) || storeFails(err) {
		return slog.LevelDebug
	}
	return slog.LevelError
}

// fromStore reports whether err is the store's own, whose message tells an
// operator about files and disks.
func fromStore(err error) bool {
	e, ok := errors.AsType[*parley.Error](err)
	return ok && strings.HasPrefix(string(e.Op), "store.")
}

// storeFails reports whether a call was refused because the store's disk fails
// or does not keep up.
func storeFails(err error) bool {
	for e, ok := errors.AsType[*parley.Error](err); ok; e, ok = errors.AsType[*parley.Error](e.Err) {
		if e.Kind == parley.Unavailable && fromStore(e) {
			return true
		}
	}
	return false
}

// protocolError is a failure of the mesh as the protocol says it.
func protocolError(kind parley.Kind, message string) *a2a.Error {
	reason := a2a.ReasonInternal
	switch kind {
	case parley.Invalid, parley.Conflict:
		reason = a2a.ReasonInvalidParams
	case parley.NotFound:
		reason = a2a.ReasonTaskNotFound
	case parley.Unauthorized:
		reason = a2a.ReasonUnauthenticated
	case parley.Denied, parley.Frozen:
		reason = a2a.ReasonForbidden
	case parley.Exhausted:
		reason = a2a.ReasonRateLimited
	case parley.Unavailable, parley.Canceled: // a caller who left may have closed only its own side
		reason = a2a.ReasonUnavailable
	case parley.Timeout:
		reason = a2a.ReasonTimeout
	case parley.AgentFailed:
		reason = a2a.ReasonInvalidAgentResponse
	case parley.Unsupported:
		reason = a2a.ReasonUnsupportedOperation
	}
	return a2a.NewError(reason, "%s", message)
}

// ends notes how the call ended; the first note counts.
func (c *Call) ends(o parley.Outcome, reason, detail string) {
	if c.record.Outcome == parley.OutcomeOpen {
		c.record.Outcome, c.record.Reason, c.record.Detail = o, reason, detail
	}
}

// a2aReason is the protocol's reason for err, empty where it has none.
func a2aReason(err error) a2a.Reason {
	if e, ok := errors.AsType[*a2a.Error](err); ok {
		return e.Reason
	}
	return ""
}

// judgeError sorts an error that the agent reported.
func judgeError(e *a2a.Error) parley.Verdict {
	switch {
	case e.Reason.InA2A():
		return parley.Judge(parley.Shape(e.Reason))
	case e.Bare:
		return parley.JudgeHTTP(e.HTTP)
	}
	return parley.JudgeRPC(e.RPCCode)
}

// gone tells why ctx ended an exchange: the mesh's own reasons first.
func gone(ctx context.Context) (parley.Shape, bool) {
	switch cause := context.Cause(ctx); {
	case cause == nil:
		return "", false
	case errors.Is(cause, errShutdown):
		return parley.ShapeStopped, true
	case errors.Is(cause, errFrozen):
		return parley.ShapeFrozen, true
	case errors.Is(cause, errCanceled):
		return parley.ShapeCanceled, true
	case errors.Is(cause, context.Canceled):
		return parley.ShapeCallerGone, true
	}
	return parley.ShapeDeadline, true
}
