package netguard_test

import (
	"compress/gzip"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/parley-mesh/parley/internal/netguard"
	"github.com/parley-mesh/parley/internal/netguardtest"
)

// publicSite serves handler over TLS under https://example.com at a public
// address, without leaving the process.
func publicSite(t *testing.T, handler http.HandlerFunc, opts netguard.FetchOptions) *netguard.FetchClient {
	t.Helper()
	server := httptest.NewTLSServer(handler)
	t.Cleanup(server.Close)
	roots := x509.NewCertPool()
	roots.AddCert(server.Certificate())
	if opts.TLS == nil {
		opts.TLS = &tls.Config{RootCAs: roots}
	}
	recorder := &netguardtest.Recorder{}
	recorder.Resolve("example.com", "1.1.1.1")
	recorder.StandIn("1.1.1.1:443", server.Listener.Addr())
	return netguard.New(netguard.Options{NewDialer: recorder.NewDialer}).FetchClient(opts)
}

const site = "https://example.com/card.json"

func TestFetch(t *testing.T) {
	var got *http.Request
	client := publicSite(t, func(w http.ResponseWriter, r *http.Request) {
		got = r
		w.Header().Set("ETag", `"1"`)
		_, _ = w.Write([]byte(`{"name":"x"}`))
	}, netguard.FetchOptions{UserAgent: "parley/test"})
	resp, err := client.Fetch(t.Context(), site+"?v=1", netguard.Request{Header: http.Header{"Accept": {"application/json"}}})
	if err != nil {
		t.Fatal(err)
	}
	if resp.Status != 200 || string(resp.Body) != `{"name":"x"}` || resp.Header.Get("ETag") != `"1"` || resp.URL.String() != site+"?v=1" {
		t.Errorf("response: %+v, body %q", resp, resp.Body)
	}
	if got.Method != "GET" || got.Header.Get("Accept") != "application/json" || got.Header.Get("User-Agent") != "parley/test" ||
		got.Header.Get("Accept-Encoding") != "" || !got.Close {
		t.Errorf("request: %s %v, close %t; want GET, the given headers, no Accept-Encoding, no kept connection", got.Method, got.Header, got.Close)
	}
}

func TestFetchFailures(t *testing.T) {
	const limit = 1000
	write := func(n int) func(http.ResponseWriter) {
		return func(w http.ResponseWriter) { _, _ = w.Write([]byte(strings.Repeat("x", n))) }
	}
	for _, test := range []struct {
		name    string
		answer  func(w http.ResponseWriter)
		reason  netguard.Reason
		problem string
	}{
		{"at the limit", write(limit), "", ""},
		{"over the limit", write(limit + 1), netguard.ReasonTooLarge, "answered with more than 1000 bytes, which is the limit"},
		{"over the limit, length unknown", func(w http.ResponseWriter) {
			w.(http.Flusher).Flush()
			write(limit + 1)(w)
		}, netguard.ReasonTooLarge, "more than 1000 bytes"},
		{"lying length", func(w http.ResponseWriter) { w.Header().Set("Content-Length", "99999999999") }, netguard.ReasonTooLarge, "more than 1000 bytes"},
		{"unauthorized", func(w http.ResponseWriter) { w.WriteHeader(401); write(5)(w) }, netguard.ReasonStatus, "answered with status 401"},
		{"redirect", func(w http.ResponseWriter) { w.Header().Set("Location", "/other?k=v"); w.WriteHeader(302) },
			netguard.ReasonStatus, "answered with status 302, a redirect, and redirects are not followed: if you trust it, give https://example.com/other instead"},
		{"redirect to nonsense", func(w http.ResponseWriter) { w.Header().Set("Location", "gopher://u:p@h/"); w.WriteHeader(302) },
			netguard.ReasonStatus, "answered with status 302, a redirect, and redirects are not followed"},
		{"compressed", func(w http.ResponseWriter) {
			w.Header().Set("Content-Encoding", "gzip")
			z := gzip.NewWriter(w)
			_, _ = z.Write(make([]byte, 1<<20))
			_ = z.Close()
		}, netguard.ReasonProtocol, "answered compressed although that was not asked for"},
		{"cut", func(w http.ResponseWriter) {
			w.Header().Set("Content-Length", "500")
			write(100)(w)
			panic(http.ErrAbortHandler)
		}, netguard.ReasonProtocol, "the answer broke off"},
		{"huge headers", func(w http.ResponseWriter) { w.Header().Set("X", strings.Repeat("x", 100<<10)) }, netguard.ReasonProtocol, "the answer broke off"},
	} {
		t.Run(test.name, func(t *testing.T) {
			client := publicSite(t, func(w http.ResponseWriter, _ *http.Request) { test.answer(w) }, netguard.FetchOptions{MaxBody: limit})
			resp, err := client.Fetch(t.Context(), site, netguard.Request{})
			expect(t, err, test.reason, test.problem)
			if test.reason == netguard.ReasonStatus && (resp == nil || resp.Body != nil) {
				t.Errorf("response %+v, want one without a body", resp)
			}
		})
	}
}

// expect checks the reason, the end of the message, and that it begins with the
// URL without a query.
func expect(t *testing.T, err error, reason netguard.Reason, problem string) {
	t.Helper()
	if netguard.ReasonOf(err) != reason {
		t.Errorf("got reason %q (%v), want %q", netguard.ReasonOf(err), err, reason)
		return
	}
	if reason == "" {
		return
	}
	var fetch *netguard.Error
	if !errors.As(err, &fetch) || !strings.Contains(fetch.Problem, problem) {
		t.Errorf("got %q, want %q in it", err, problem)
	}
}

func TestFetchAnyStatus(t *testing.T) {
	client := publicSite(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Method != "POST" {
			w.Header().Set("Location", "/x")
			w.WriteHeader(302)
			return
		}
		w.WriteHeader(404)
		_, _ = w.Write([]byte("why"))
	}, netguard.FetchOptions{})
	resp, err := client.Fetch(t.Context(), site, netguard.Request{Method: "POST", Body: []byte("{}"), AnyStatus: true})
	if err != nil || resp.Status != 404 || string(resp.Body) != "why" {
		t.Errorf("got %+v, %v", resp, err)
	}
	_, err = client.Fetch(t.Context(), site, netguard.Request{AnyStatus: true})
	expect(t, err, netguard.ReasonStatus, "redirect")
}

func TestFetchTimes(t *testing.T) {
	release := make(chan struct{})
	hang := func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/body" {
			_, _ = w.Write([]byte("x"))
			w.(http.Flusher).Flush()
		}
		<-release
	}
	short := publicSite(t, hang, netguard.FetchOptions{Timeout: 50 * time.Millisecond})
	headers := publicSite(t, hang, netguard.FetchOptions{HeaderTimeout: 50 * time.Millisecond})
	t.Cleanup(func() { close(release) }) // runs before the servers close

	for _, path := range []string{"/headers", "/body"} {
		_, err := short.Fetch(t.Context(), "https://example.com"+path, netguard.Request{})
		expect(t, err, netguard.ReasonTimeout, "connected, but the response did not come")
	}
	_, err := headers.Fetch(t.Context(), site, netguard.Request{})
	expect(t, err, netguard.ReasonTimeout, "connected, but the response did not come")

	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = headers.Fetch(ctx, site, netguard.Request{})
	expect(t, err, netguard.ReasonCanceled, "given up by the caller")
}

func TestFetchConnectionFailures(t *testing.T) {
	ok := func(http.ResponseWriter, *http.Request) {}
	strangers := publicSite(t, ok, netguard.FetchOptions{TLS: &tls.Config{RootCAs: x509.NewCertPool()}})
	_, err := strangers.Fetch(t.Context(), site, netguard.Request{})
	expect(t, err, netguard.ReasonTLS, "certificate signed by unknown authority")

	plain := httptest.NewServer(http.HandlerFunc(ok))
	defer plain.Close()
	recorder := &netguardtest.Recorder{}
	recorder.Resolve("plain.example", "1.1.1.1")
	recorder.StandIn("1.1.1.1:443", plain.Listener.Addr())
	recorder.Resolve("dead.example", "1.0.0.1")
	dead, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	recorder.StandIn("1.0.0.1:443", dead.Addr())
	if err := dead.Close(); err != nil {
		t.Fatal(err)
	}
	client := netguard.New(netguard.Options{NewDialer: recorder.NewDialer}).FetchClient(netguard.FetchOptions{})
	for url, want := range map[string]struct {
		reason  netguard.Reason
		problem string
	}{
		"https://plain.example/":   {netguard.ReasonTLS, "does that port speak TLS"},
		"https://dead.example/":    {netguard.ReasonConnect, "nothing answers at dead.example"},
		"https://missing.example/": {netguard.ReasonDNS, "the host name missing.example cannot be resolved"},
	} {
		_, err := client.Fetch(t.Context(), url, netguard.Request{})
		expect(t, err, want.reason, want.problem)
	}
}

// TestParseURL lists what is refused before anything is resolved, with the part
// of the message that says why.
func TestParseURL(t *testing.T) {
	for raw, want := range map[string]string{
		"https://example.com":               "",
		"HTTPS://example.com:8443/a?b=c":    "",
		"http://[::1]:80/":                  "",
		"":                                  "scheme",
		"example.com":                       "scheme",
		"//example.com/":                    "scheme",
		"ftp://example.com/":                "scheme",
		"file:///etc/passwd":                "scheme",
		"https:example.com":                 "no host",
		"https:///x":                        "no host",
		"https://:443/":                     "no host",
		"https://user:hunter2@example.com/": "user name",
		"https://user@example.com/":         "user name",
		"https://example.com@127.0.0.1/":    "user name",
		"https://example.com/#x":            "fragment",
		"https://example.com/#":             "fragment",
		"https://example.com:0/":            "port 0",
		"https://example.com:65536/":        "port 65536",
		"https://example.com:/":             "no port",
		"https://example.com:http/":         "not a URL",
		"https://exa mple.com/":             "' '",
		"https://example.com/\r\nX: y":      `'\r'`,
		"https://example.com\\@127.0.0.1/":  `'\\'`,
		"https://ex\u00e4mple.com/":         "xn--",
		"https://127.0.0.1\uff0e/":          "xn--",
		"https://example.com/" + strings.Repeat("a", netguard.MaxURLLength): "bytes long",
	} {
		u, err := netguard.ParseURL(raw)
		if want == "" {
			if err != nil || u == nil {
				t.Errorf("%q: %v", raw, err)
			}
			continue
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %v, want %q in it", raw, err, want)
		}
		_, fetchErr := (&netguard.FetchClient{}).Fetch(t.Context(), raw, netguard.Request{})
		expect(t, fetchErr, netguard.ReasonURL, want)
		if fetchErr != nil && strings.Contains(fetchErr.Error(), "hunter2") {
			t.Errorf("the message repeats a password: %v", fetchErr)
		}
	}
}

// FuzzParseURL checks that whatever passes has a host that net/url and a second
// reading agree on.
func FuzzParseURL(f *testing.F) {
	for _, seed := range []string{"https://example.com:8443/a?b#c", "http://[::ffff:127.0.0.1]/", "https://a@b\\c/", "https://0x7f.1/"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, raw string) {
		u, err := netguard.ParseURL(raw)
		if err != nil {
			return
		}
		again, err := url.Parse(u.String())
		if err != nil || again.Host != u.Host || again.User != nil {
			t.Errorf("%q reads as host %q, and its printed form as %v, %v", raw, u.Host, again, err)
		}
		if addr, err := netip.ParseAddr(u.Hostname()); err == nil && addr.IsLoopback() {
			if netguard.New(netguard.Options{}).CheckURL(u) == nil {
				t.Errorf("%q passes the check", raw)
			}
		}
	})
}
