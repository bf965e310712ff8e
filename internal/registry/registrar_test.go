package registry

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/parley-mesh/parley/internal/parley"
)

// looks is an Inspector made of a function.
type looks func(ctx context.Context, req InspectRequest) (*Inspection, error)

func (l looks) Inspect(ctx context.Context, req InspectRequest) (*Inspection, error) {
	return l(ctx, req)
}

const home = "https://a.example/"

// wantsToken answers like an agent at home that wants the bearer token "good".
func wantsToken(_ context.Context, req InspectRequest) (*Inspection, error) {
	probe := ProbeUnauthorized
	if c := req.Credential; c.For(home) && c.Secret == "good" {
		probe = ProbeOK
	}
	return found("1", at(home, probe)), nil
}

// open answers like an agent at home that wants nothing.
func open(context.Context, InspectRequest) (*Inspection, error) {
	return found("1", at(home, ProbeOK)), nil
}

// gone finds no card anywhere.
func gone(context.Context, InspectRequest) (*Inspection, error) {
	in := &Inspection{Use: -1, Tried: []Attempt{{URL: home, Result: "connection refused"}}}
	return in, parley.E("probe.inspect", parley.AgentFailed, "", "no agent card was found", nil)
}

// registrar makes a registrar over an empty store, whose inspector can be
// changed.
func registrar(look *looks) (*Registrar, *memory) {
	m := newMemory()
	r := New(Options{Store: m, Directory: NewDirectory(m), Inspector: looks(func(ctx context.Context, req InspectRequest) (*Inspection, error) {
		return (*look)(ctx, req)
	}), Now: func() time.Time { return day }})
	return r, m
}

func TestAdd(t *testing.T) {
	look := looks(open)
	r, m := registrar(&look)
	a, report, err := r.Add(t.Context(), AddRequest{Name: "echo", URL: home, Allow: []parley.OwnerName{"red", "blue", "red"}})
	if err != nil {
		t.Fatal(err)
	}
	if a.Owner != parley.DefaultOwner || a.Environment != parley.Dev || a.Status != Active || a.Version != 1 || len(a.Allow) != 2 || a.CardURL != "https://a.example/card" {
		t.Errorf("agent %+v", a)
	}
	if report.Chosen != 0 || report.CardURL != a.CardURL || len(report.Interfaces) != 1 {
		t.Errorf("report %+v", report)
	}
	if got := m.told(); got != EventAdded {
		t.Errorf("events %q", got)
	}
	if _, _, err := r.Add(t.Context(), AddRequest{Name: "echo", URL: home}); parley.KindOf(err) != parley.Conflict || !strings.Contains(err.Error(), "parley agent rm echo") {
		t.Errorf("the same name again: %v", err)
	}
}

func TestAddStoresNothingThatDidNotPass(t *testing.T) {
	look := looks(gone)
	r, m := registrar(&look)
	_, report, err := r.Add(t.Context(), AddRequest{Name: "echo", URL: home, Credential: &Credential{Kind: Bearer, Secret: "x"}})
	if parley.KindOf(err) != parley.AgentFailed || len(report.Tried) != 1 || report.Chosen != -1 {
		t.Errorf("report %+v, %v", report, err)
	}
	if len(m.agents) != 0 || len(m.credentials) != 0 || m.told() != "" {
		t.Errorf("stored: %v %v", m.agents, m.credentials)
	}
}

func TestAddNamesEveryWrongMember(t *testing.T) {
	look := looks(func(context.Context, InspectRequest) (*Inspection, error) {
		return nil, errors.New("looked at an agent whose registration is invalid")
	})
	r, _ := registrar(&look)
	_, _, err := r.Add(t.Context(), AddRequest{
		Name: "Echo", URL: strings.Repeat("x", maxURLBytes+1), Owner: "?", Environment: "moon", Allow: []parley.OwnerName{"ok", "no good"},
		Credential: &Credential{Kind: "magic"},
	})
	e, ok := errors.AsType[*parley.Error](err)
	if !ok || e.Kind != parley.Invalid {
		t.Fatalf("error %v", err)
	}
	var paths []string
	for _, f := range e.Fields {
		paths = append(paths, f.Path)
	}
	if got, want := strings.Join(paths, " "), "name owner environment url allow kind secret origin"; got != want {
		t.Errorf("wrong fields %q, want %q", got, want)
	}
	if _, _, err := r.Add(t.Context(), AddRequest{Name: "echo", URL: "a.example", Credential: &Credential{Kind: Bearer, Secret: "x"}}); !strings.Contains(err.Error(), "give the URL with its scheme") {
		t.Errorf("a bare host with a credential: %v", err)
	}
}

func TestCredentialProvesTheAgent(t *testing.T) {
	look := looks(wantsToken)
	r, m := registrar(&look)
	a, _, err := r.Add(t.Context(), AddRequest{Name: "echo", URL: home})
	if err != nil || a.Status != Unproven {
		t.Fatalf("status %v, %v", a, err)
	}
	m.told()
	if a, _, err = r.SetCredential(t.Context(), "echo", Credential{Kind: Bearer, Secret: "bad"}); err != nil || a.Status != Unproven {
		t.Errorf("with a wrong credential: %v, %v", a, err)
	}
	if a, _, err = r.SetCredential(t.Context(), "echo", Credential{Kind: Bearer, Secret: "good"}); err != nil || a.Status != Active || a.CheckErr != "" {
		t.Errorf("with the right credential: %v, %v", a, err)
	}
	if got := m.credentials["echo"]; got.Origin != "https://a.example:443" || got.Owner != parley.DefaultOwner || !got.CreatedAt.Equal(day) {
		t.Errorf("stored %+v", got)
	}
	for _, e := range m.events {
		if strings.Contains(string(e.Data), "good") || strings.Contains(string(e.Data), "bad") {
			t.Errorf("an event tells the secret: %s", e.Data)
		}
	}
	if got := m.told(); got != "agent.auth_set agent.refreshed agent.auth_set agent.refreshed" {
		t.Errorf("events %q", got)
	}
	if a, _, err = r.RemoveCredential(t.Context(), "echo"); err != nil || a.Status != Unproven || !strings.Contains(a.Reason, "parley agent auth echo") {
		t.Errorf("without it: %v, %v", a, err)
	}
	if _, _, err = r.RemoveCredential(t.Context(), "echo"); parley.KindOf(err) != parley.NotFound {
		t.Errorf("removed twice: %v", err)
	}
}

func TestCredentialForAnotherOriginIsRefused(t *testing.T) {
	look := looks(wantsToken)
	r, m := registrar(&look)
	if _, _, err := r.Add(t.Context(), AddRequest{Name: "echo", URL: home}); err != nil {
		t.Fatal(err)
	}
	_, _, err := r.SetCredential(t.Context(), "echo", Credential{Kind: Bearer, Secret: "good", Origin: "https://elsewhere.example"})
	if parley.KindOf(err) != parley.Invalid || !strings.Contains(err.Error(), "use one of https://a.example:443") || len(m.credentials) != 0 {
		t.Errorf("error %v, stored %v", err, m.credentials)
	}
}

func TestAddWithCredential(t *testing.T) {
	look := looks(wantsToken)
	r, m := registrar(&look)
	a, _, err := r.Add(t.Context(), AddRequest{Name: "echo", URL: home, Credential: &Credential{Kind: Bearer, Secret: "good"}})
	if err != nil || a.Status != Active || m.credentials["echo"].Secret != "good" {
		t.Errorf("agent %+v, %v", a, err)
	}
}

func TestRefreshOfAGoneAgent(t *testing.T) {
	look := looks(open)
	r, m := registrar(&look)
	if _, _, err := r.Add(t.Context(), AddRequest{Name: "echo", URL: home}); err != nil {
		t.Fatal(err)
	}
	look = gone
	a, report, err := r.Refresh(t.Context(), "echo")
	if parley.KindOf(err) != parley.AgentFailed || a.Status != Active || a.CheckErr != "no agent card was found" || len(report.Tried) != 1 {
		t.Errorf("agent %+v, report %+v, %v", a, report, err)
	}
	if m.agents["echo"].CheckErr == "" {
		t.Error("the problem is not stored")
	}
}

func TestRefreshAsksForTheStoredCard(t *testing.T) {
	look := looks(open)
	r, _ := registrar(&look)
	if _, _, err := r.Add(t.Context(), AddRequest{Name: "echo", URL: "a.example"}); err != nil {
		t.Fatal(err)
	}
	var got InspectRequest
	look = func(ctx context.Context, req InspectRequest) (*Inspection, error) { got = req; return open(ctx, req) }
	if _, _, err := r.Refresh(t.Context(), "echo"); err != nil {
		t.Fatal(err)
	}
	if got.URL != "https://a.example/card" || !got.Exact || got.ETag != `"1"` || string(got.Card) != "{1}" {
		t.Errorf("asked for %+v", got)
	}
}

func TestCanceledRefreshSaysNothingOfTheAgent(t *testing.T) {
	look := looks(open)
	r, m := registrar(&look)
	if _, _, err := r.Add(t.Context(), AddRequest{Name: "echo", URL: home}); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	look = func(ctx context.Context, _ InspectRequest) (*Inspection, error) {
		cancel()
		return nil, parley.E("probe.inspect", parley.Canceled, "", "canceled", ctx.Err())
	}
	if _, _, err := r.Refresh(ctx, "echo"); parley.KindOf(err) != parley.Canceled || m.agents["echo"].CheckErr != "" {
		t.Errorf("%v; CheckErr %q", err, m.agents["echo"].CheckErr)
	}
}

func TestLostSaveIsDecidedAgain(t *testing.T) {
	look := looks(open)
	r, m := registrar(&look)
	if _, _, err := r.Add(t.Context(), AddRequest{Name: "echo", URL: home}); err != nil {
		t.Fatal(err)
	}
	once := sync.OnceFunc(func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		m.agents["echo"].Status, m.agents["echo"].Version = Suspended, 7
	})
	m.before = func(*Agent) error { once(); return nil }
	a, err := r.Allow(t.Context(), "echo", "red")
	if err != nil || a.Status != Suspended || a.Version != 8 || !a.MayCall("red", parley.Prod) {
		t.Errorf("agent %+v, %v", a, err)
	}
}

func TestSaveThatAlwaysLosesGivesUp(t *testing.T) {
	look := looks(open)
	r, m := registrar(&look)
	if _, _, err := r.Add(t.Context(), AddRequest{Name: "echo", URL: home}); err != nil {
		t.Fatal(err)
	}
	tries := 0
	m.before = func(*Agent) error {
		tries++
		return parley.E("memory.save", parley.Conflict, "echo", "changed meanwhile", nil)
	}
	if _, err := r.Suspend(t.Context(), "echo", ""); parley.KindOf(err) != parley.Conflict || tries != maxSaveTries {
		t.Errorf("%d tries, %v", tries, err)
	}
}

func TestRefreshOfAnAgentRegisteredAnew(t *testing.T) {
	look := looks(open)
	r, m := registrar(&look)
	if _, _, err := r.Add(t.Context(), AddRequest{Name: "echo", URL: home}); err != nil {
		t.Fatal(err)
	}
	look = func(ctx context.Context, req InspectRequest) (*Inspection, error) {
		m.mu.Lock()
		m.agents["echo"].CreatedAt = next
		m.mu.Unlock()
		return found("2", at(home, ProbeOK)), nil
	}
	if _, _, err := r.Refresh(t.Context(), "echo"); parley.KindOf(err) != parley.Conflict || m.agents["echo"].CardHash != "1" {
		t.Errorf("card %s, %v", m.agents["echo"].CardHash, err)
	}
}

func TestRemoveTakesTheCredentialToo(t *testing.T) {
	look := looks(wantsToken)
	r, m := registrar(&look)
	if _, _, err := r.Add(t.Context(), AddRequest{Name: "echo", URL: home, Credential: &Credential{Kind: Bearer, Secret: "good"}}); err != nil {
		t.Fatal(err)
	}
	if err := r.Remove(t.Context(), "echo"); err != nil || len(m.agents)+len(m.credentials) != 0 {
		t.Errorf("left %v %v, %v", m.agents, m.credentials, err)
	}
	if err := r.Remove(t.Context(), "echo"); parley.KindOf(err) != parley.NotFound {
		t.Errorf("removed twice: %v", err)
	}
}

func TestVerbsOnAMissingAgent(t *testing.T) {
	look := looks(open)
	r, _ := registrar(&look)
	ctx := t.Context()
	for name, do := range map[string]func() error{
		"refresh":  func() error { _, _, err := r.Refresh(ctx, "nobody"); return err },
		"approve":  func() error { _, err := r.Approve(ctx, "nobody"); return err },
		"suspend":  func() error { _, err := r.Suspend(ctx, "nobody", ""); return err },
		"resume":   func() error { _, err := r.Resume(ctx, "nobody"); return err },
		"allow":    func() error { _, err := r.Allow(ctx, "nobody", "red"); return err },
		"disallow": func() error { _, err := r.Disallow(ctx, "nobody", "red"); return err },
		"auth":     func() error { _, _, err := r.SetCredential(ctx, "nobody", Credential{}); return err },
	} {
		if err := do(); parley.KindOf(err) != parley.NotFound {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestRunLooksAtEachAgentInItsTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory()
		var mu sync.Mutex
		var at1, at2 []time.Time
		running, most := 0, 0
		look := func(ctx context.Context, req InspectRequest) (*Inspection, error) {
			mu.Lock()
			running++
			most = max(most, running)
			down := strings.Contains(req.URL, "down")
			if down {
				at2 = append(at2, time.Now())
			} else {
				at1 = append(at1, time.Now())
			}
			mu.Unlock()
			time.Sleep(time.Second)
			mu.Lock()
			running--
			mu.Unlock()
			if down {
				return gone(ctx, req)
			}
			return found("1", at(home, ProbeOK)), nil
		}
		r := New(Options{Store: m, Inspector: looks(look), RefreshEvery: 10 * time.Minute, Concurrency: 3})
		for i := range 7 {
			a, _ := admit(AddRequest{Name: parley.AgentName(fmt.Sprintf("up%d", i))}, found("1", at(home, ProbeOK)), time.Now())
			if err := m.SaveAgent(t.Context(), a); err != nil {
				t.Fatal(err)
			}
		}
		a, _ := admit(AddRequest{Name: "down"}, found("1", at(home, ProbeOK)), time.Now())
		a.CardURL = "https://down.example/card"
		if err := m.SaveAgent(t.Context(), a); err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithTimeout(t.Context(), time.Hour)
		defer stop()
		begun := time.Now()
		if err := r.Run(ctx); err != nil {
			t.Fatal(err)
		}
		if d := at1[0].Sub(begun); d < 9*time.Minute || d > 12*time.Minute {
			t.Errorf("first look after %v, want about 10m", d)
		}
		if n := len(at1); n < 7*5 || n > 7*6 {
			t.Errorf("%d looks at 7 agents in an hour, want 35 to 42", n)
		}
		if n := len(at2); n < 5 || n > 7 { // at about 10, 11, 13, 17, 25, 41 minutes
			t.Errorf("%d looks at the agent that is down, want about 6", n)
		}
		if most > 3 {
			t.Errorf("%d looks at once, at most 3 are allowed", most)
		}
		if got := kinds(m.events); got != EventRefreshed {
			t.Errorf("events %q, want one: the agent that is down", got)
		}
	})
}
