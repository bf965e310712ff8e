package storetest

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/parley-mesh/parley/internal/call"
	"github.com/parley-mesh/parley/internal/parley"
	"github.com/parley-mesh/parley/internal/registry"
)

// addAgent makes an agent of owner alpha, found well at its registration.
func addAgent(t *testing.T, s Store, name parley.AgentName, created time.Time) *registry.Agent {
	t.Helper()
	a := &registry.Agent{Name: name, Owner: "alpha", Environment: parley.Dev, CheckedAt: created, CreatedAt: created, UpdatedAt: created}
	must(t, s.SaveAgent(t.Context(), a))
	return a
}

func testCredentialParts(t *testing.T, s Store) {
	ctx := t.Context()
	addOwner(t, s, "alpha")
	addAgent(t, s, "echo", at(1))
	for _, c := range []*registry.Credential{
		{Kind: registry.OAuth2, Name: "mesh", Secret: "client secret", Token: &registry.TokenRequest{URL: "https://login.example/token", Scopes: []string{"a", "b"}, Audience: "x", Style: registry.AuthPost}},
		{Kind: registry.Bearer, Secret: "t", Certificate: &registry.ClientCertificate{Chain: "chain", Key: "key", CA: "ca"}},
		{Kind: registry.Certificate, Certificate: &registry.ClientCertificate{Chain: "chain 2", Key: "key 2"}},
		{Kind: registry.Bearer, Secret: "alone"}, // nothing of the one before is left
	} {
		c.Agent, c.Owner, c.Origin, c.CreatedAt = "echo", "alpha", "https://a.example:443", at(1)
		must(t, s.SaveCredential(ctx, c))
		got, err := s.Credential(ctx, "echo")
		must(t, err)
		if diff := cmp.Diff(c, got); diff != "" {
			t.Errorf("credential %s (-saved +read):\n%s", c.Kind, diff)
		}
	}
}

func testInstances(t *testing.T, s Store) {
	ctx := t.Context()
	addOwner(t, s, "alpha")
	echo := addAgent(t, s, "echo", at(1))
	addAgent(t, s, "foxtrot", at(1))
	i := &registry.Instance{
		Agent: "echo", ID: "second", URL: "https://b.example/", CardURL: "https://b.example/card", Status: registry.InstanceReady,
		Card: []byte(`{"name":"Echo"}`), CardETag: `"1"`, AgentVersion: "2.1",
		Interfaces: []registry.Interface{{URL: "https://b.example/rpc", Binding: "JSONRPC", Version: "1.0", Probe: "ok"}}, Use: 0,
		Credential: true, CheckedAt: at(2), CheckErr: "timeout", CreatedAt: at(1), UpdatedAt: at(2),
	}
	must(t, s.SaveInstance(ctx, i, happened("agents/echo", "agent.instance_added")))
	must(t, s.SaveInstance(ctx, &registry.Instance{Agent: "foxtrot", ID: "second", CreatedAt: at(1), UpdatedAt: at(1)}))
	must(t, s.SaveInstance(ctx, &registry.Instance{Agent: "echo", ID: "another", CreatedAt: at(1), UpdatedAt: at(1)}))
	all, err := s.Instances(ctx, "echo")
	must(t, err)
	if len(all) != 2 || all[0].ID != "another" {
		t.Fatalf("instances of echo: %+v", all)
	}
	if diff := cmp.Diff(i, all[1]); diff != "" {
		t.Errorf("instance (-saved +read):\n%s", diff)
	}
	if all, err = s.Instances(ctx, ""); err != nil || len(all) != 3 {
		t.Errorf("instances of all agents: %d, %v", len(all), err)
	}
	stale := *i
	i.Status, i.Use = registry.InstanceDraining, -1
	must(t, s.SaveInstance(ctx, i))
	wantKind(t, "a stale save", s.SaveInstance(ctx, &stale), parley.Conflict)
	wantKind(t, "the same id again", s.SaveInstance(ctx, &registry.Instance{Agent: "echo", ID: "second", CreatedAt: at(1), UpdatedAt: at(1)}), parley.Conflict)
	wantKind(t, "an instance of nobody", s.SaveInstance(ctx, &registry.Instance{Agent: "nobody", ID: "x", CreatedAt: at(1), UpdatedAt: at(1)}), parley.NotFound)
	wantKind(t, "a stale delete", s.DeleteInstance(ctx, "echo", "second", stale.Version), parley.Conflict)
	must(t, s.DeleteInstance(ctx, "echo", "second", i.Version, happened("agents/echo", "agent.instance_removed")))
	wantKind(t, "deleting it again", s.DeleteInstance(ctx, "echo", "second", i.Version), parley.NotFound)
	must(t, s.DeleteAgent(ctx, "echo", echo.Version))
	if all, err = s.Instances(ctx, ""); err != nil || len(all) != 1 || all[0].Agent != "foxtrot" {
		t.Errorf("instances after their agent is gone: %+v, %v", all, err)
	}
}

func testOpenAt(t *testing.T, s Store) {
	ctx := t.Context()
	want := func(what string, instance string, n int) {
		t.Helper()
		if got, err := s.OpenAt(ctx, "echo", instance); err != nil || got != n {
			t.Errorf("%s: %d open at %q, %v; want %d", what, got, instance, err, n)
		}
	}
	r := newRecord(1)
	must(t, s.Begin(ctx, r))
	want("a call without a task", "one", 1)
	want("elsewhere", "two", 0)
	r.TaskID = "t1"
	must(t, s.Settle(ctx, call.Settlement{Record: r, Task: newTask(r, "t1", at(2))}, true))
	want("a call with its task", "one", 1)
	done := newTask(r, "t1", at(3))
	done.State, done.Final = "TASK_STATE_COMPLETED", true
	finish(r, parley.OutcomeOK)
	must(t, s.Settle(ctx, call.Settlement{Record: r, Task: done}, true))
	want("a final task", "one", 0)
}

// testMovedCall: what became of a call at another instance than it was begun
// for is found there.
func testMovedCall(t *testing.T, s Store) {
	ctx := t.Context()
	for i, ends := range []bool{false, true} {
		r := newRecord(i)
		must(t, s.Begin(ctx, r))
		r.Instance, r.AgentBinding, r.Moved = "two", "JSONRPC", true
		if ends {
			finish(r, parley.OutcomeOK)
		}
		must(t, s.Settle(ctx, call.Settlement{Record: r}, true))
		got, err := s.Call(ctx, r.ID)
		must(t, err)
		if got.Instance != "two" || got.AgentBinding != "JSONRPC" {
			t.Errorf("the call is at %q over %q, want two over JSONRPC", got.Instance, got.AgentBinding)
		}
	}
}

func testQuietAgents(t *testing.T, s Store) {
	ctx := t.Context()
	addOwner(t, s, "alpha")
	addAgent(t, s, "called", at(0))
	addAgent(t, s, "fresh", at(5000))
	lost := addAgent(t, s, "lost", at(0))
	seen := addAgent(t, s, "seen", at(0))
	lost.CheckedAt, lost.CheckErr = at(9000), "no answer"
	must(t, s.SaveAgent(ctx, lost))
	seen.CheckedAt = at(8000)
	must(t, s.SaveAgent(ctx, seen))

	begun, read, refused, nobody := newRecord(7000), newRecord(7001), newRecord(7002), newRecord(7003)
	begun.Agent, read.Agent, refused.Agent, nobody.Agent = "called", "seen", "lost", "unregistered"
	must(t, s.Begin(ctx, begun))
	finish(read, parley.OutcomeOK)
	must(t, s.Settle(ctx, call.Settlement{Record: read, Insert: true}, true))
	finish(refused, parley.OutcomeDenied)
	must(t, s.Settle(ctx, call.Settlement{Record: refused, Insert: true, Refusal: true}, true))
	must(t, s.Begin(ctx, nobody))

	for _, test := range []struct {
		what string
		f    registry.QuietFilter
		want []parley.AgentName
	}{
		{"all", registry.QuietFilter{}, []parley.AgentName{"called", "fresh", "lost", "seen"}},
		{"a page", registry.QuietFilter{After: "called", Limit: 2}, []parley.AgentName{"fresh", "lost"}},
		{"never called", registry.QuietFilter{Unused: true}, []parley.AgentName{"fresh", "lost"}},
		{"not called of late", registry.QuietFilter{Unused: true, UnusedSince: at(4000)}, []parley.AgentName{"lost"}},
		{"not called since the last call", registry.QuietFilter{Unused: true, UnusedSince: at(7001)}, []parley.AgentName{"called", "fresh", "lost"}},
		{"stale", registry.QuietFilter{SeenBefore: at(4000)}, []parley.AgentName{"called", "lost"}},
		{"stale and unused", registry.QuietFilter{SeenBefore: at(4000), Unused: true, UnusedSince: at(4000)}, []parley.AgentName{"lost"}},
		{"another owner's", registry.QuietFilter{Owner: "beta"}, nil},
	} {
		found, err := s.QuietAgents(ctx, test.f)
		must(t, err)
		var names []parley.AgentName
		for _, a := range found {
			names = append(names, a.Name)
		}
		if diff := cmp.Diff(test.want, names); diff != "" {
			t.Errorf("%s (-want +got):\n%s", test.what, diff)
		}
	}
	got, err := s.Agent(ctx, "seen")
	must(t, err)
	if !got.SeenAt.Equal(at(8000)) || !got.CalledAt.Equal(at(7001)) {
		t.Errorf("seen at %v and called at %v, want %v and %v", got.SeenAt, got.CalledAt, at(8000), at(7001))
	}
	// Within a minute one mark will do; after it the next call leaves another.
	for _, second := range []int{7030, 7061} {
		r := newRecord(second)
		r.Agent = "called"
		must(t, s.Begin(ctx, r))
		got, err := s.Agent(ctx, "called")
		must(t, err)
		want := at(7000)
		if second > 7060 {
			want = at(second)
		}
		if !got.CalledAt.Equal(want) {
			t.Errorf("after a call at %d: called at %v, want %v", second, got.CalledAt, want)
		}
	}
	must(t, s.DeleteAgent(ctx, "seen", seen.Version))
	addAgent(t, s, "seen", at(1))
	if got, err = s.Agent(ctx, "seen"); err != nil || !got.CalledAt.IsZero() {
		t.Errorf("an agent that was registered anew was called at %v (%v)", got.CalledAt, err)
	}
}
