package gateway

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"testing"
	"time"

	"github.com/parley-mesh/parley/internal/a2a"
	"github.com/parley-mesh/parley/internal/parley"
	"github.com/parley-mesh/parley/internal/registry"
)

// TestReasonsOfRefusals: an agent that is away and a store that fails do not
// read like a caller who may not call.
func TestReasonsOfRefusals(t *testing.T) {
	target := func(s registry.Status) error {
		return (&registry.Target{Agent: &registry.Agent{Name: "a", Status: s, Reason: "why"}}).Ready()
	}
	for _, tc := range []struct {
		err  error
		want string
	}{
		{target(registry.Suspended), "agent_suspended"},
		{target(registry.Unproven), "agent_unproven"},
		{parley.E("store.begin", parley.Unavailable, "", "the disk is full", errors.New("cause")), "store"},
		{parley.E("store.begin", parley.Internal, "", "failed", nil), "store"},
		{parley.E("store.agent", parley.NotFound, "", "not found", nil), "not_found"},
		{parley.E("gateway.resolve", parley.Denied, "", "may not", nil), "denied"},
		{parley.E("gateway.stop", parley.Unavailable, "", "stopping", nil), "unavailable"},
	} {
		if got := reasonOf(parley.KindOf(tc.err), tc.err); got != tc.want {
			t.Errorf("%v is recorded for the reason %q, want %q", tc.err, got, tc.want)
		}
	}
}

// TestCallerLeavesBeforeItsCall: that is no fault of the mesh's, and nobody was
// refused.
func TestCallerLeavesBeforeItsCall(t *testing.T) {
	var log bytes.Buffer
	g := New(Options{Log: slog.New(slog.NewTextHandler(&log, nil)), Now: time.Now})
	c := &Call{}
	reply := g.refuse(c, parley.E("store.agent", parley.Canceled, "", "whoever asked has left", context.Canceled))
	if reply.Err == nil || reply.Err.Reason != a2a.ReasonUnavailable {
		t.Errorf("answered with %v", reply.Err)
	}
	if c.record.Outcome != parley.OutcomeCanceled || c.record.Reason != string(parley.ShapeCallerGone) {
		t.Errorf("recorded as %s, %s", c.record.Outcome, c.record.Reason)
	}
	if log.Len() > 0 {
		t.Errorf("logged: %s", log.String())
	}
}

func TestShapesOfFailedExchanges(t *testing.T) {
	for _, test := range []struct {
		name string
		err  error
		want parley.Shape
	}{
		{"refused", &a2a.TransportError{Stage: a2a.StageDial, Err: errors.New("connection refused")}, parley.ShapeDial},
		{"dial too slow", &a2a.TransportError{Stage: a2a.StageDial, Err: context.DeadlineExceeded}, parley.ShapeDial},
		{"reset", &a2a.TransportError{Stage: a2a.StageHeaders, Wrote: true, Err: errors.New("reset")}, parley.ShapeCut},
		{"early end", &a2a.TransportError{Stage: a2a.StageStream, Err: a2a.ErrEndEarly}, parley.ShapeCut},
		{"not A2A", &a2a.TransportError{Stage: a2a.StageBody, Err: a2a.ErrNotA2A}, parley.ShapeNonsense},
		{"too large", &a2a.TransportError{Stage: a2a.StageBody, Err: a2a.ErrTooLarge}, parley.ShapeTooLarge},
		{"foreign", errForeign, parley.ShapeForeignID},
	} {
		if got := shapeOf(t.Context(), test.err); got != test.want {
			t.Errorf("%s: %q, want %q", test.name, got, test.want)
		}
	}
	ended, cancel := context.WithCancelCause(t.Context())
	cancel(errDeadline)
	if got := shapeOf(ended, context.Canceled); got != parley.ShapeDeadline {
		t.Errorf("the mesh's own deadline: %q, want %q", got, parley.ShapeDeadline)
	}
}
