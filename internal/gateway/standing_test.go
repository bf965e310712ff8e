package gateway

import (
	"fmt"
	"testing"
	"time"

	"github.com/parley-mesh/parley/internal/registry"
)

// addresses is an agent with its own address and n instances, all looked at
// well at a time.
func addresses(n int, looked time.Time) *registry.Target {
	a := &registry.Agent{Name: "agent", Status: registry.Active, CheckedAt: looked}
	home := &registry.Target{Agent: a, Interface: registry.Interface{URL: "https://0.example/"}}
	for i := range n {
		home.Instances = append(home.Instances, &registry.Target{
			Agent: a, Interface: registry.Interface{URL: fmt.Sprintf("https://%d.example/", i+1)},
			Instance: &registry.Instance{ID: fmt.Sprint(i + 1), Status: registry.InstanceReady, CheckedAt: looked},
		})
	}
	return home
}

// chosen counts where n new calls in a row would go.
func chosen(s *standings, home *registry.Target, n int, now time.Time) map[string]int {
	got := map[string]int{}
	for range n {
		t := s.choose(home, nil, now)
		got[t.Place()]++
	}
	return got
}

func TestChooseLeastLoaded(t *testing.T) {
	now := time.Unix(1_000_000, 0)
	home, s := addresses(2, now), newStandings()
	if got := chosen(s, home, 30, now); got[""] != 10 || got["1"] != 10 || got["2"] != 10 {
		t.Errorf("equals do not take turns: %v", got)
	}
	s.enter(place{"agent", ""})
	s.enter(place{"agent", "1"})
	if got := chosen(s, home, 9, now); got["2"] != 9 {
		t.Errorf("the one without load is not chosen: %v", got)
	}
	s.enter(place{"agent", "2"})
	s.failed(place{"agent", "2"}, false, now)
	s.failed(place{"agent", "1"}, false, now.Add(-10*time.Minute))
	if got := chosen(s, home, 9, now); got[""] != 9 {
		t.Errorf("with equal load the one without trouble is not chosen: %v", got)
	}
	s.enter(place{"agent", ""})
	if got := chosen(s, home, 9, now); got["1"] != 9 {
		t.Errorf("trouble of long ago counts as much as that of now: %v", got)
	}
}

// TestAway: an address that cannot be reached stays away ever longer, and comes
// back with time, with a call that goes well, or with a look that did since.
func TestAway(t *testing.T) {
	now := time.Unix(1_000_000, 0)
	one := place{"agent", "1"}
	home, s := addresses(1, now), newStandings()
	for i, wait := range []time.Duration{time.Second, 2 * time.Second, 4 * time.Second, 8 * time.Second, 16 * time.Second, 32 * time.Second, time.Minute, time.Minute} {
		s.failed(one, true, now)
		if got := chosen(s, home, 4, now.Add(wait-time.Millisecond)); got["1"] != 0 {
			t.Errorf("failure %d: back before %v", i+1, wait)
		}
		now = now.Add(wait)
		s.of[one].trouble = 0 // another test's matter
		if got := chosen(s, home, 4, now); got["1"] != 2 {
			t.Errorf("failure %d: not back after %v: %v", i+1, wait, got)
		}
	}
	s.failed(one, true, now)
	s.well(one, now)
	s.of[one].trouble = 0
	if got := chosen(s, home, 4, now); got["1"] != 2 {
		t.Error("a call that went well does not bring it back")
	}
	s.failed(one, true, now)
	s.of[one].trouble = 0
	home.Instances[0].Instance.CheckedAt = now.Add(time.Millisecond)
	if got := chosen(s, home, 4, now.Add(2*time.Millisecond)); got["1"] != 2 {
		t.Error("a look that went well does not bring it back")
	}
}

func TestChooseAmongTheUnhealthy(t *testing.T) {
	now := time.Unix(1_000_000, 0)
	home, s := addresses(2, now), newStandings()
	for range 3 {
		s.failed(place{"agent", ""}, true, now)
	}
	s.failed(place{"agent", "1"}, true, now)
	for range 2 {
		s.failed(place{"agent", "2"}, true, now)
	}
	if got := chosen(s, home, 3, now); got["1"] != 3 {
		t.Errorf("with none healthy: %v, want the one that is back first", got)
	}
	if got := s.choose(home, []place{{"agent", ""}, {"agent", "1"}, {"agent", "2"}}, now); got != nil {
		t.Errorf("all were tried, and %q is chosen", got.Place())
	}
	// What failed its last look gets no new work until a call goes well there.
	home, s = addresses(1, now), newStandings()
	home.Instances[0].Instance.CheckErr = "no answer"
	if got := chosen(s, home, 4, now); got[""] != 4 {
		t.Errorf("an instance that failed its look: %v", got)
	}
	s.well(place{"agent", "1"}, now.Add(time.Second))
	if got := chosen(s, home, 4, now.Add(2*time.Second)); got["1"] != 2 {
		t.Errorf("after a call that went well: %v", got)
	}
	for _, status := range []registry.InstanceStatus{registry.InstanceDraining, registry.InstanceDiffers} {
		home.Instances[0].Instance.Status = status
		if got := chosen(s, home, 4, now.Add(2*time.Second)); got["1"] != 0 {
			t.Errorf("status %s: got new work", status)
		}
	}
	home.Agent.Status, home.Interface = registry.Unproven, registry.Interface{}
	home.Instances[0].Instance.Status = registry.InstanceReady
	if home.Callable() != nil || chosen(s, home, 2, now)["1"] != 2 {
		t.Error("an agent whose own address is unproven is not called at its instance")
	}
	home.Agent.Status = registry.Suspended
	if home.Callable() == nil || s.choose(home, nil, now) != nil {
		t.Error("a suspended agent is called")
	}
}

// TestForget leaves what is under way alone.
func TestForget(t *testing.T) {
	s := newStandings()
	for _, id := range []string{"", "1", "2"} {
		s.enter(place{"agent", id})
		s.leave(place{"agent", id})
	}
	s.enter(place{"agent", "2"})
	s.forget("agent", "1", false)
	if len(s.of) != 2 {
		t.Errorf("left: %v", s.of)
	}
	s.forget("agent", "", true)
	if len(s.of) != 1 {
		t.Errorf("left: %v", s.of)
	}
	s.leave(place{"agent", "2"})
}
