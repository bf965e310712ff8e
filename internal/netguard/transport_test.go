package netguard_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"strings"
	"testing"

	"github.com/parley-mesh/parley/internal/netguard"
)

func localGuard() *netguard.Guard {
	return netguard.New(netguard.Options{Allow: prefixes("127.0.0.0/8")})
}

// ask sends one POST and reports whether it went over a connection that was
// used before.
func ask(t *testing.T, transport http.RoundTripper, url string) (proto string, reused bool) {
	t.Helper()
	ctx := httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{
		GotConn: func(info httptrace.GotConnInfo) { reused = info.Reused },
	})
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, strings.NewReader("{}"))
	if err != nil {
		t.Fatal(err)
	}
	resp, err := transport.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if _, err := io.Copy(io.Discard, resp.Body); err != nil {
		t.Fatal(err)
	}
	return resp.Proto, reused
}

func TestTransportKeepsConnections(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Accept-Encoding") != "" {
			t.Errorf("Accept-Encoding %q was added", r.Header.Get("Accept-Encoding"))
		}
	}))
	defer server.Close()
	transport := localGuard().AgentTransport(netguard.TransportOptions{})
	defer transport.CloseIdleConnections()
	if _, reused := ask(t, transport, server.URL); reused {
		t.Error("the first request found a connection")
	}
	if proto, reused := ask(t, transport, server.URL); !reused || proto != "HTTP/1.1" {
		t.Errorf("second request: reused %t over %s, want true over HTTP/1.1", reused, proto)
	}
}

func TestTransportSpeaksHTTP2(t *testing.T) {
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	server.EnableHTTP2 = true
	server.StartTLS()
	defer server.Close()
	roots := x509.NewCertPool()
	roots.AddCert(server.Certificate())
	transport := localGuard().AgentTransport(netguard.TransportOptions{TLS: &tls.Config{RootCAs: roots}})
	defer transport.CloseIdleConnections()
	if proto, _ := ask(t, transport, server.URL); proto != "HTTP/2.0" {
		t.Errorf("got %s, want HTTP/2.0", proto)
	}
}

// TestTransportFollowsTheContext: there is no other limit on how long an agent
// may think.
func TestTransportFollowsTheContext(t *testing.T) {
	arrived, release := make(chan struct{}), make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		close(arrived)
		<-release
	}))
	defer server.Close()
	defer close(release)
	ctx, cancel := context.WithCancel(t.Context())
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, server.URL, nil)
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		<-arrived
		cancel()
	}()
	resp, err := localGuard().AgentTransport(netguard.TransportOptions{}).RoundTrip(req)
	if err == nil {
		resp.Body.Close()
	}
	if netguard.ReasonOf(err) != netguard.ReasonCanceled {
		t.Errorf("got %v, want the context's end", err)
	}
}

func TestTransportRefusesOtherSchemes(t *testing.T) {
	for _, url := range []string{"ftp://1.1.1.1/", "file:///etc/passwd", "ws://127.0.0.1/"} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := localGuard().AgentTransport(netguard.TransportOptions{}).RoundTrip(req)
		if err == nil {
			resp.Body.Close()
			t.Errorf("%s was answered", url)
		}
	}
}

func TestTransportsAreApart(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	defer server.Close()
	set := localGuard().Transports(netguard.TransportOptions{})
	defer set.Close()
	if first := set.For("a", netguard.Client{}); first != set.For("a", netguard.Client{}) {
		t.Error("one agent has two pools")
	}
	ask(t, set.For("a", netguard.Client{}), server.URL)
	if _, reused := ask(t, set.For("b", netguard.Client{}), server.URL); reused {
		t.Error("agent b was asked over a connection of agent a")
	}
	before := set.For("a", netguard.Client{})
	set.Forget(func(agent string) bool { return agent == "a" })
	if set.For("a", netguard.Client{}) == before {
		t.Error("a forgotten pool came back")
	}
	if _, reused := ask(t, before, server.URL); reused {
		t.Error("forgetting left the connection open")
	}
}
