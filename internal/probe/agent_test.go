package probe_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
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
	"github.com/parley-mesh/parley/internal/netguardtest"
	"github.com/parley-mesh/parley/internal/parley"
	"github.com/parley-mesh/parley/internal/probe"
	"github.com/parley-mesh/parley/internal/registry"
)

// face is an interface, in the text that stands in the card.
type face struct{ url, binding, version string }

func rpc(url string) face  { return face{url, "JSONRPC", "1.0"} }
func rest(url string) face { return face{url, "HTTP+JSON", "1.0"} }

// cardOf writes a card with these interfaces. more is put in front of its end,
// as `,"securitySchemes":{…}`.
func cardOf(more string, faces ...face) string {
	var list []string
	for _, f := range faces {
		list = append(list, fmt.Sprintf(`{"url":"%s","protocolBinding":"%s","protocolVersion":"%s"}`, f.url, f.binding, f.version))
	}
	return `{"name":"echo","description":"says it again","version":"7","capabilities":{},"defaultInputModes":["text/plain"],"defaultOutputModes":["text/plain"],` +
		`"skills":[{"id":"echo","name":"echo","description":"says it again","tags":["echo"]}],` +
		`"supportedInterfaces":[` + strings.Join(list, ",") + `]` + more + `}`
}

// silence is an executor nobody should reach: the probe executes nothing.
type silence struct{ t *testing.T }

func (s silence) Execute(context.Context, *a2asrv.ExecutorContext) iter.Seq2[sdk.Event, error] {
	s.t.Error("the probe made the agent execute something")
	return func(func(sdk.Event, error) bool) {}
}

func (s silence) Cancel(ctx context.Context, ec *a2asrv.ExecutorContext) iter.Seq2[sdk.Event, error] {
	return s.Execute(ctx, ec)
}

// stock are the handlers of an agent built on the official Go SDK.
func stock(t *testing.T) (rpc, rest http.Handler) {
	h := a2asrv.NewHandler(silence{t})
	return a2asrv.NewJSONRPCHandler(h), a2asrv.NewRESTHandler(h)
}

// agent is an HTTP server on loopback that shows card at the well-known place
// and serves the stock bindings below /rpc and /rest.
type agent struct {
	*httptest.Server
	mux  *http.ServeMux
	card string // may be changed between looks
	gets []*http.Request
}

func newAgent(t *testing.T) *agent {
	t.Helper()
	a := &agent{mux: http.NewServeMux()}
	rpc, rest := stock(t)
	a.mux.Handle("/rpc", rpc)
	a.mux.Handle("/rest/", http.StripPrefix("/rest", rest))
	a.mux.HandleFunc("GET /.well-known/agent-card.json", func(w http.ResponseWriter, r *http.Request) {
		a.gets = append(a.gets, r)
		fmt.Fprint(w, a.card)
	})
	a.Server = httptest.NewServer(a.mux)
	t.Cleanup(a.Close)
	return a
}

// loopbackGuard lets loopback through, and nothing else that is not public.
func loopbackGuard() *netguard.Guard {
	return netguard.New(netguard.Options{Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}})
}

// loopback inspects agents on loopback.
func loopback() *probe.Inspector {
	return probe.New(loopbackGuard(), probe.Options{Limits: probe.Limits{Fetch: 5 * time.Second, Probe: 5 * time.Second, Total: 20 * time.Second}})
}

// world is a guard whose every connection ends at stand-ins in this process.
type world struct {
	*netguardtest.Recorder
	roots *x509.CertPool
}

func newWorld() *world { return &world{&netguardtest.Recorder{}, x509.NewCertPool()} }

// site serves h over TLS as https://example.com at a public address.
func (w *world) site(t *testing.T, h http.Handler) {
	t.Helper()
	s := httptest.NewTLSServer(h)
	t.Cleanup(s.Close)
	w.roots.AddCert(s.Certificate())
	w.Resolve("example.com", "1.1.1.1")
	w.StandIn("1.1.1.1:443", s.Listener.Addr())
}

func (w *world) inspector(allow ...string) *probe.Inspector {
	o := netguard.Options{NewDialer: w.NewDialer}
	for _, a := range allow {
		o.Allow = append(o.Allow, netip.MustParsePrefix(a))
	}
	return probe.New(netguard.New(o), probe.Options{TLS: &tls.Config{RootCAs: w.roots}, Limits: probe.Limits{Fetch: 5 * time.Second, Probe: 5 * time.Second}})
}

// look inspects and gives what was found, the error's kind and its text.
func look(t *testing.T, i *probe.Inspector, r registry.InspectRequest) (*registry.Inspection, parley.Kind, string) {
	t.Helper()
	in, err := i.Inspect(t.Context(), r)
	if err == nil {
		return in, 0, ""
	}
	return in, parley.KindOf(err), parley.PublicMessage(err)
}

// lines are the problems of a level, one a line.
func lines(in *registry.Inspection, level registry.Level) string {
	var b strings.Builder
	for _, p := range in.Problems {
		if p.Level == level {
			b.WriteString(p.String() + "\n")
		}
	}
	return b.String()
}

// tried are the addresses and results, one a line, without the server's own
// address.
func tried(in *registry.Inspection, base string) string {
	var b strings.Builder
	for _, a := range in.Tried {
		b.WriteString(strings.ReplaceAll(a.URL, base, "") + ": " + strings.ReplaceAll(a.Result, strings.TrimPrefix(base, "http://"), "HOST") + "\n")
	}
	return b.String()
}
