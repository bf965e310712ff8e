package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/parley-mesh/parley/internal/a2a"
	"github.com/parley-mesh/parley/internal/parley"
)

func TestExitCodes(t *testing.T) {
	for _, tc := range []struct {
		err  error
		want int
	}{
		{usagef("x"), 2},
		{fmt.Errorf("wrapped: %w", usagef("x")), 2},
		{parley.E("x", parley.NotFound, "", "", nil), 3},
		{parley.E("x", parley.Denied, "", "", nil), 4},
		{parley.E("x", parley.Unauthorized, "", "", nil), 4},
		{parley.E("x", parley.Invalid, "", "", nil), 5},
		{parley.E("x", parley.Timeout, "", "", nil), 6},
		{parley.E("x", parley.Unavailable, "", "", nil), 7},
		{parley.E("x", parley.AgentFailed, "", "", nil), 1},
		{errors.New("x"), 1},
		{a2a.TaskNotFound("t"), 3},
		{a2a.NewError("AGENT_NOT_FOUND", "x"), 3},
		{a2a.NewError(a2a.ReasonUnauthenticated, "x"), 4},
		{a2a.NewError(a2a.ReasonForbidden, "x"), 4},
		{a2a.NewError(a2a.ReasonInvalidParams, "x"), 5},
		{a2a.NewError(a2a.ReasonTimeout, "x"), 6},
		{a2a.NewError(a2a.ReasonUnavailable, "x"), 7},
		{a2a.NewError(a2a.ReasonRateLimited, "x"), 7},
		{a2a.NewError(a2a.ReasonUnsupportedOperation, "x"), 1},
		{a2a.NewError("WHATEVER", "x"), 1},
		{&a2a.Error{HTTP: 403, Bare: true}, 4},
		{&a2a.TransportError{Stage: a2a.StageDial, Err: errors.New("x")}, 7},
		{&a2a.TransportError{Stage: a2a.StageStream, Err: a2a.ErrEndEarly}, 1},
		{&a2a.TransportError{Stage: a2a.StageHeaders, Err: context.DeadlineExceeded}, 6},
		{&a2a.TransportError{Stage: a2a.StageDial, Err: connectError{parley.E("x", parley.Denied, "", "", nil)}}, 4},
		{parley.E("above", parley.Internal, "", "", connectError{parley.E("x", parley.Unavailable, "", "", nil)}), 7},
		{context.Canceled, 1},
	} {
		if got := exitCode(tc.err); got != tc.want {
			t.Errorf("%v (%T): exit code %d, want %d", tc.err, tc.err, got, tc.want)
		}
	}
}

func TestMessages(t *testing.T) {
	fields := &parley.Error{Kind: parley.Invalid, Message: "not valid", Fields: []parley.Field{
		{Path: "/name", Problem: "is empty", Fix: "give one"}, {Path: "cursor", Problem: "is odd"}, {Problem: "all of it"},
	}}
	for _, tc := range []struct {
		err  error
		want string
	}{
		{fields, "not valid\n  name: is empty (give one)\n  cursor: is odd\n  all of it"},
		{parley.E("op", parley.Denied, "s", "you may not \x1b[31m", errors.New("cause")), `you may not \x1b[31m`},
		{a2a.UnsupportedOperation("this agent does not stream"), "this agent does not stream; leave out --stream"},
		{a2a.NewError(a2a.ReasonUnauthenticated, "no credential"), "no credential; set PARLEY_KEY or --key-file"},
		{a2a.InvalidParams(a2a.FieldViolation{Field: "message.parts", Description: "is empty"}), "\n  message.parts: is empty"},
		{&a2a.TransportError{Stage: a2a.StageStream, Err: a2a.ErrEndEarly}, "parley task get"},
	} {
		if got := message(t.Context(), tc.err); !strings.HasSuffix(got, tc.want) {
			t.Errorf("%v: %q, want %q at the end", tc.err, got, tc.want)
		}
	}
	if got := oneLine(fields); got != "not valid: name: is empty (give one); cursor: is odd; all of it" {
		t.Errorf("oneLine gives %q", got)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if got := message(ctx, &a2a.TransportError{Stage: a2a.StageHeaders, Err: context.Canceled}); got != "interrupted" {
		t.Errorf("Ctrl-C reads %q", got)
	}
}
