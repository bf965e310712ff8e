package registry_test

import (
	"context"
	"fmt"
	"iter"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
	"time"

	sdk "github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/a2aproject/a2a-go/v2/a2asrv"

	"github.com/parley-mesh/parley/internal/netguard"
	"github.com/parley-mesh/parley/internal/parley"
	"github.com/parley-mesh/parley/internal/probe"
	"github.com/parley-mesh/parley/internal/registry"
	"github.com/parley-mesh/parley/internal/store"
)

// idle is an executor that is never reached.
type idle struct{}

func (idle) Execute(context.Context, *a2asrv.ExecutorContext) iter.Seq2[sdk.Event, error] {
	return func(func(sdk.Event, error) bool) {}
}

func (idle) Cancel(context.Context, *a2asrv.ExecutorContext) iter.Seq2[sdk.Event, error] {
	return func(func(sdk.Event, error) bool) {}
}

// stranger is an agent on the official Go SDK. Its card names the version and
// the address it is told to.
type stranger struct {
	*httptest.Server
	version, address, token string
	cards, unchanged        int // how often the card was given, or said to be the same
}

func newStranger(t *testing.T) *stranger {
	s := &stranger{version: "1"}
	rpc := a2asrv.NewJSONRPCHandler(a2asrv.NewHandler(idle{}))
	mux := http.NewServeMux()
	mux.HandleFunc("GET /.well-known/agent-card.json", func(w http.ResponseWriter, r *http.Request) {
		tag := `"` + s.version + s.address + `"`
		w.Header().Set("ETag", tag)
		if r.Header.Get("If-None-Match") == tag {
			s.unchanged++
			w.WriteHeader(http.StatusNotModified)
			return
		}
		s.cards++
		fmt.Fprintf(w, `{"name":"echo","description":"","version":%q,"capabilities":{},"defaultInputModes":[],"defaultOutputModes":[],"skills":[{"id":"e","name":"e","description":"","tags":[]}],`+
			`"supportedInterfaces":[{"url":%q,"protocolBinding":"JSONRPC","protocolVersion":"1.0"}]}`, s.version, s.address)
	})
	mux.HandleFunc("/rpc", func(w http.ResponseWriter, r *http.Request) {
		if s.token != "" && r.Header.Get("Authorization") != "Bearer "+s.token {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		rpc.ServeHTTP(w, r)
	})
	s.Server = httptest.NewServer(mux)
	t.Cleanup(s.Close)
	s.address = s.URL + "/rpc"
	return s
}

// The life of an agent, against a real one: found, changed, moved, approved,
// gone and back, locked, suspended, removed.
func TestLifeOfAnAgent(t *testing.T) {
	home, elsewhere := newStranger(t), newStranger(t)
	store, err := store.Open(t.Context(), store.Options{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := store.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	directory := registry.NewDirectory(store)
	guard := netguard.New(netguard.Options{Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}})
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	r := registry.New(registry.Options{
		Store: store, Directory: directory, Inspector: probe.New(guard, probe.Options{}),
		Now: func() time.Time { now = now.Add(time.Minute); return now },
	})
	ctx := t.Context()
	// see checks what calls would use now.
	see := func(when, url string, ready bool) *registry.Target {
		t.Helper()
		target, err := directory.Lookup(ctx, "echo")
		if err != nil {
			t.Fatalf("%s: %v", when, err)
		}
		if target.Interface.URL != url || (target.Ready() == nil) != ready {
			t.Errorf("%s: calls go to %q, ready %v; want %q, ready %v", when, target.Interface.URL, target.Ready(), url, ready)
		}
		return target
	}
	refresh := func(when string) *registry.Agent {
		t.Helper()
		a, _, err := r.Refresh(ctx, "echo")
		if err != nil {
			t.Fatalf("%s: %v", when, err)
		}
		return a
	}

	_, report, err := r.Add(ctx, registry.AddRequest{Name: "echo", URL: strings.TrimPrefix(home.URL, "http://")})
	if err != nil || report.Chosen != 0 || report.CardURL != home.URL+"/.well-known/agent-card.json" {
		t.Fatalf("add: %+v, %v", report, err)
	}
	see("added", home.address, true)

	if refresh("nothing new"); home.cards != 1 || home.unchanged != 1 {
		t.Errorf("the card was given %d times and said to be the same %d times, want 1 and 1", home.cards, home.unchanged)
	}

	home.version = "2"
	if a := refresh("a new version"); a.AgentVersion != "2" || a.Pending != nil {
		t.Errorf("a new version: %+v", a)
	}

	old := home.address
	home.address = elsewhere.address
	if a := refresh("moved"); a.Pending == nil || !strings.Contains(a.Pending.Why, elsewhere.URL) {
		t.Errorf("moved: %+v", a.Pending)
	}
	see("moved, not approved", old, true)
	if _, err := r.Approve(ctx, "echo"); err != nil {
		t.Fatal(err)
	}
	see("approved", elsewhere.address, true)

	elsewhere.token = "hush"
	if a := refresh("locked"); a.Status != registry.Active || !strings.Contains(a.CheckErr, "parley agent auth echo") {
		t.Errorf("locked: %s, %q", a.Status, a.CheckErr)
	}
	if a, _, err := r.SetCredential(ctx, "echo", registry.Credential{Kind: registry.Bearer, Secret: "hush"}); err != nil || a.Status != registry.Active || a.CheckErr != "" {
		t.Errorf("with its credential: %+v, %v", a, err)
	}
	if target := see("with its credential", elsewhere.address, true); target.Presented.Value != "Bearer hush" {
		t.Errorf("calls show %+v", target.Presented)
	}

	if _, err := r.Suspend(ctx, "echo", ""); err != nil {
		t.Fatal(err)
	}
	see("suspended", elsewhere.address, false)
	if _, err := r.Resume(ctx, "echo"); err != nil {
		t.Fatal(err)
	}

	home.Close()
	if a, report, err := r.Refresh(ctx, "echo"); parley.KindOf(err) != parley.AgentFailed || a.Status != registry.Active || len(report.Tried) != 1 || !strings.Contains(a.CheckErr, "nothing answers") {
		t.Errorf("gone: %+v, %v", a, err)
	}
	see("gone", elsewhere.address, true)

	if err := r.Remove(ctx, "echo"); err != nil {
		t.Fatal(err)
	}
	if _, err := directory.Lookup(ctx, "echo"); parley.KindOf(err) != parley.NotFound {
		t.Errorf("removed: %v", err)
	}
}
