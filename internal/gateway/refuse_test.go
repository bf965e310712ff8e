package gateway

import (
	"errors"
	"testing"

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
