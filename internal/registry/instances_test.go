package registry

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/parley-mesh/parley/internal/parley"
)

// siblings looks at every address as a test says.
type siblings map[string]*Inspection

// Inspect implements Inspector.
func (s siblings) Inspect(_ context.Context, req InspectRequest) (*Inspection, error) {
	in := s[req.URL]
	if in == nil {
		return &Inspection{Use: -1}, parley.E("test.inspect", parley.AgentFailed, "", "nothing answers", nil)
	}
	copied := *in
	return &copied, nil
}

func sibling(url, card string) *Inspection {
	return &Inspection{
		CardURL: url, Card: []byte(card), Hash: card, Use: 0,
		Interfaces: []Interface{{URL: url + "rpc", Binding: "JSONRPC", Version: "1.0", Probe: ProbeOK}},
	}
}

const (
	cardOne   = `{"name":"echo","version":"1","skills":[{"id":"say"},{"id":"sing"}]}`
	cardTwo   = `{"name":"echo","version":"2","skills":[{"id":"sing"},{"id":"say"}]}`
	cardOther = `{"name":"echo","version":"1","skills":[{"id":"say"}]}`
)

func TestInstanceLife(t *testing.T) {
	ctx := t.Context()
	m, now := newMemory(), time.Unix(1_000_000, 0)
	looks := siblings{"https://a.example/": sibling("https://a.example/", cardOne), "https://b.example/": sibling("https://b.example/", cardOne)}
	var gone []string
	r := New(Options{Store: m, Inspector: looks, Directory: NewDirectory(m), Now: func() time.Time { return now },
		InstanceRemoved: func(agent parley.AgentName, id string) { gone = append(gone, string(agent)+"/"+id) }})
	if _, _, err := r.Add(ctx, AddRequest{Name: "echo", URL: "https://a.example/"}); err != nil {
		t.Fatal(err)
	}
	if _, _, err := r.AddInstance(ctx, "echo", NewInstance{ID: "two", URL: "https://b.example/"}); err != nil {
		t.Fatal(err)
	}
	state := func() *Instance {
		t.Helper()
		all, err := m.Instances(ctx, "echo")
		if err != nil || len(all) != 1 {
			t.Fatalf("%d instances, %v", len(all), err)
		}
		return all[0]
	}
	for _, test := range []struct {
		what  string
		found *Inspection
		want  InstanceStatus
		says  string
	}{
		{"a new version", sibling("https://b.example/", cardTwo), InstanceReady, ""},
		{"other skills", sibling("https://b.example/", cardOther), InstanceDiffers, "lacks sing"},
		{"the agent's card again", sibling("https://b.example/", cardOne), InstanceReady, ""},
		{"no answer", nil, InstanceReady, "nothing answers"},
		{"another origin", sibling("https://elsewhere.example/", cardOne), InstanceReady, "new origin"},
	} {
		looks["https://b.example/"] = test.found
		if _, _, err := r.Refresh(ctx, "echo"); err != nil {
			t.Fatal(err)
		}
		got := state()
		if got.Status != test.want || test.says == "" && got.CheckErr != "" || !strings.Contains(got.CheckErr, test.says) {
			t.Errorf("%s: status %s, %q; want %s and %q", test.what, got.Status, got.CheckErr, test.want, test.says)
		}
		if at := got.inUse().URL; at != "https://b.example/rpc" {
			t.Errorf("%s: calls go to %s", test.what, at)
		}
	}

	m.open["echo two"] = 1
	if open, err := r.RemoveInstance(ctx, "echo", "two", false); err != nil || open != 1 {
		t.Fatalf("drain: %d open, %v", open, err)
	}
	looks["https://b.example/"] = sibling("https://b.example/", cardOne)
	if _, _, err := r.Refresh(ctx, "echo"); err != nil || state().Status != InstanceDraining {
		t.Errorf("a look makes a draining instance %s (%v)", state().Status, err)
	}
	ends := func() {
		t.Helper()
		if err := r.endDrained(ctx); err != nil {
			t.Fatal(err)
		}
	}
	now = now.Add(time.Hour)
	ends()
	state() // something is open there
	m.open["echo two"] = 0
	ends()
	if all, _ := m.Instances(ctx, "echo"); len(all) != 0 || len(gone) != 1 || gone[0] != "echo/two" {
		t.Errorf("after all is final there are %v, told of %v", all, gone)
	}
	// Calls that were about to begin there get a moment.
	if _, _, err := r.AddInstance(ctx, "echo", NewInstance{ID: "two", URL: "https://b.example/"}); err != nil {
		t.Fatal(err)
	}
	if _, err := r.RemoveInstance(ctx, "echo", "two", false); err != nil {
		t.Fatal(err)
	}
	now = now.Add(drainAtLeast - time.Millisecond)
	ends()
	state()
	now = now.Add(time.Millisecond)
	ends()
	if all, _ := m.Instances(ctx, "echo"); len(all) != 0 {
		t.Error("an instance with nothing open does not go")
	}
}

// TestInstanceCredential: what is stored for one origin goes to another only
// where that was confirmed, and never to a third.
func TestInstanceCredential(t *testing.T) {
	c := &Credential{Kind: Bearer, Secret: "s", Origin: "https://a.example:443"}
	for _, test := range []struct {
		card, address string
		confirmed     bool
		want          bool
	}{
		{"https://a.example/card", "https://a.example/two", false, true},
		{"https://b.example/card", "https://b.example/", false, false},
		{"https://b.example/card", "https://b.example/", true, true},
		{"https://b.example/card", "https://c.example/", true, false},
		{"http://b.example/card", "https://b.example/", true, false},
	} {
		i := &Instance{CardURL: test.card, Credential: test.confirmed}
		if got := i.allowed(c).For(test.address); got != test.want {
			t.Errorf("card %s, interface %s, confirmed %v: goes there %v", test.card, test.address, test.confirmed, got)
		}
	}
	if c.Origin != "https://a.example:443" {
		t.Error("the agent's own credential was changed")
	}
}
