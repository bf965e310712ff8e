package registry

import (
	"context"
	"strings"
	"testing"

	"github.com/parley-mesh/parley/internal/parley"
)

func TestDirectoryAnswersFromMemoryUntilAWrite(t *testing.T) {
	look := looks(wantsToken)
	r, m := registrar(&look)
	d := r.directory
	if _, err := d.Lookup(t.Context(), "echo"); parley.KindOf(err) != parley.NotFound {
		t.Fatalf("before registration: %v", err)
	}
	if _, _, err := r.Add(t.Context(), AddRequest{Name: "echo", URL: home}); err != nil {
		t.Fatal(err)
	}
	target, err := d.Lookup(t.Context(), "echo")
	if err != nil || parley.KindOf(target.Ready()) != parley.Unavailable || strings.Contains(parley.PublicMessage(target.Ready()), "a.example") {
		t.Fatalf("unproven: %+v, ready %v, %v", target, target.Ready(), err)
	}
	if _, _, err := r.SetCredential(t.Context(), "echo", Credential{Kind: Bearer, Secret: "good"}); err != nil {
		t.Fatal(err)
	}
	target, err = d.Lookup(t.Context(), "echo")
	if err != nil || target.Ready() != nil || target.Interface.URL != home || target.Binding != "JSONRPC" || target.Presented.Value != "Bearer good" {
		t.Fatalf("proven: %+v, ready %v, %v", target, target.Ready(), err)
	}
	reads := m.reads
	if again, _ := d.Lookup(t.Context(), "echo"); again != target || m.reads != reads {
		t.Error("a second look-up asked the store")
	}
	for name, write := range map[string]func() error{
		"suspend": func() error { _, err := r.Suspend(t.Context(), "echo", ""); return err },
		"allow":   func() error { _, err := r.Allow(t.Context(), "echo", "red"); return err },
		"refresh": func() error { _, _, err := r.Refresh(t.Context(), "echo"); return err },
	} {
		before, _ := d.Lookup(t.Context(), "echo")
		if err := write(); err != nil {
			t.Fatal(err)
		}
		if after, _ := d.Lookup(t.Context(), "echo"); after == before || after.Agent.Version <= before.Agent.Version {
			t.Errorf("%s is not seen", name)
		}
	}
	if err := r.Remove(t.Context(), "echo"); err != nil {
		t.Fatal(err)
	}
	if _, err := d.Lookup(t.Context(), "echo"); parley.KindOf(err) != parley.NotFound {
		t.Errorf("removed: %v", err)
	}
}

func TestDirectoryGivesTheCredentialToItsOriginOnly(t *testing.T) {
	m := newMemory()
	a := registered(found("1", at(home, ProbeOK)))
	a.Version = 0
	if err := m.SaveAgent(t.Context(), a); err != nil {
		t.Fatal(err)
	}
	if err := m.SaveCredential(t.Context(), &Credential{Agent: "echo", Kind: Bearer, Secret: "s", Origin: "https://b.example:443"}); err != nil {
		t.Fatal(err)
	}
	target, err := NewDirectory(m).Lookup(t.Context(), "echo")
	if err != nil || target.Credential != nil || target.Presented != (Presented{}) {
		t.Errorf("target %+v, %v", target, err)
	}
}

// raced is a store in which something happens while an agent is read.
type raced struct {
	*memory
	during func()
}

func (s *raced) Agent(ctx context.Context, name parley.AgentName) (*Agent, error) {
	a, err := s.memory.Agent(ctx, name)
	if s.during != nil {
		s.during()
	}
	return a, err
}

func TestDirectoryKeepsNothingReadBeforeAWrite(t *testing.T) {
	m := newMemory()
	a := registered(found("1", at(home, ProbeOK)))
	a.Version = 0
	if err := m.SaveAgent(t.Context(), a); err != nil {
		t.Fatal(err)
	}
	s := &raced{memory: m}
	d := NewDirectory(s)
	s.during = func() {
		s.during = nil
		a.Status = Suspended
		if err := m.SaveAgent(t.Context(), a); err != nil {
			t.Error(err)
		}
		d.Invalidate("echo")
	}
	if _, err := d.Lookup(t.Context(), "echo"); err != nil {
		t.Fatal(err)
	}
	if target, err := d.Lookup(t.Context(), "echo"); err != nil || target.Agent.Status != Suspended {
		t.Errorf("the agent read before the write is kept: %v, %v", target.Agent.Status, err)
	}
}

func TestInvalidateAll(t *testing.T) {
	m := newMemory()
	a := registered(found("1", at(home, ProbeOK)))
	a.Version = 0
	if err := m.SaveAgent(t.Context(), a); err != nil {
		t.Fatal(err)
	}
	d := NewDirectory(m)
	before, _ := d.Lookup(t.Context(), "echo")
	d.Invalidate()
	if after, _ := d.Lookup(t.Context(), "echo"); after == before {
		t.Error("an agent was kept")
	}
}

func BenchmarkLookup(b *testing.B) {
	m := newMemory()
	a := registered(found("1", at(home, ProbeOK)))
	a.Version = 0
	if err := m.SaveAgent(b.Context(), a); err != nil {
		b.Fatal(err)
	}
	d := NewDirectory(m)
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			if _, err := d.Lookup(b.Context(), "echo"); err != nil {
				b.Error(err)
			}
		}
	})
}
