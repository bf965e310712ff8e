package gateway

import (
	"context"
	"errors"
	"testing"

	"github.com/parley-mesh/parley/internal/call"
	"github.com/parley-mesh/parley/internal/parley"
)

// A call that was let in just before its caller was frozen ends when it reaches
// its agent, and not one that comes after the freeze was taken back.
func TestExchangeThatBeginsAfterTheFreeze(t *testing.T) {
	o := newOpenCalls()
	begin := func(caller parley.PrincipalName) context.Context {
		ctx, cancel := context.WithCancelCause(t.Context())
		o.start(&call.Record{ID: parley.NewCallID(), Caller: caller}, cancel)
		return ctx
	}
	early := begin("ann")
	if ended := o.freeze([]parley.PrincipalName{"ann"}); ended != 1 {
		t.Errorf("%d exchanges ended, want 1", ended)
	}
	late, other := begin("ann"), begin("bob")
	for name, ctx := range map[string]context.Context{"early": early, "late": late} {
		if !errors.Is(context.Cause(ctx), errFrozen) {
			t.Errorf("the %s exchange goes on: %v", name, context.Cause(ctx))
		}
	}
	if o.freeze(nil); other.Err() != nil || begin("ann").Err() != nil {
		t.Error("an exchange ended that nobody froze")
	}
}

// A stream that is taken up while the mesh stops ends like those before it: else
// the stop would wait for it as long as a call may take.
func TestExchangeThatBeginsAfterTheLast(t *testing.T) {
	o := newOpenCalls()
	o.cancelAll(errShutdown)
	ctx, cancel := context.WithCancelCause(t.Context())
	defer cancel(nil)
	o.start(&call.Record{ID: parley.NewCallID()}, cancel)
	if !errors.Is(context.Cause(ctx), errShutdown) {
		t.Errorf("the exchange goes on: %v", context.Cause(ctx))
	}
}
