package netguard

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"sync/atomic"
	"time"
)

// Defaults of FetchOptions.
const (
	DefaultMaxBody       = 64 << 10
	DefaultHeaderTimeout = 10 * time.Second
	DefaultFetchTimeout  = 30 * time.Second
)

// FetchOptions tunes a FetchClient. The zero value works.
type FetchOptions struct {
	MaxBody       int64         // largest response body in bytes; zero: DefaultMaxBody
	HeaderTimeout time.Duration // from the sent request to the response's headers; zero: DefaultHeaderTimeout
	Timeout       time.Duration // the whole exchange; zero: DefaultFetchTimeout
	UserAgent     string        // empty: "parley"
	TLS           *tls.Config   // nil: the system's roots
	Webhooks      bool          // public addresses also at ports from 1024 on, as CheckWebhook lets them be
}

// FetchClient asks strangers' servers for documents: cards, keys, metadata.
// Every fetch has a connection of its own, bounded in time and size.
type FetchClient struct {
	plain, secure *http.Transport
	opts          FetchOptions
}

// FetchClient returns a client with opts.
func (g *Guard) FetchClient(opts FetchOptions) *FetchClient {
	opts.MaxBody = orDefault(opts.MaxBody, DefaultMaxBody)
	opts.HeaderTimeout = orDefault(opts.HeaderTimeout, DefaultHeaderTimeout)
	opts.Timeout = orDefault(opts.Timeout, DefaultFetchTimeout)
	if opts.UserAgent == "" {
		opts.UserAgent = "parley"
	}
	return &FetchClient{
		plain:  g.fetchTransport("http", opts),
		secure: g.fetchTransport("https", opts),
		opts:   opts,
	}
}

func fetchPurpose(scheme string, webhooks bool) purpose {
	if webhooks {
		return purpose{scheme: scheme, ownPorts: true, clientName: "webhooks"}
	}
	return purpose{scheme: scheme, onlyPort: 443, clientName: "fetches"}
}

func (g *Guard) fetchTransport(scheme string, opts FetchOptions) *http.Transport {
	return &http.Transport{
		Proxy:                  nil, // see the package comment
		DialContext:            g.dial(fetchPurpose(scheme, opts.Webhooks)),
		TLSClientConfig:        tlsConfig(opts.TLS),
		TLSHandshakeTimeout:    handshakeTimeout,
		ResponseHeaderTimeout:  opts.HeaderTimeout,
		MaxResponseHeaderBytes: DefaultHeaderBytes,
		DisableCompression:     true,
		DisableKeepAlives:      true,
	}
}

// Request says what a fetch sends. The zero value is a GET.
type Request struct {
	Method    string      // empty: GET
	Header    http.Header // added to the request; may be nil
	Body      []byte      // sent as it is
	MaxBody   int64       // for this fetch, instead of the client's; zero: the client's
	AnyStatus bool        // hand out every response but redirects instead of failing unless 2xx
	NoBody    bool        // leave the response's body unread, whatever its size and form
}

// Response is what came back, whole.
type Response struct {
	Status int
	Header http.Header
	Body   []byte
	URL    *url.URL // what was asked; redirects are not followed
}

// Fetch asks once and reads the whole answer. Errors are *Error; no redirect is
// followed, because the new target would be the peer's choice and the caller
// can name it himself. A Response comes beside a ReasonStatus error, for its
// status and headers.
func (c *FetchClient) Fetch(ctx context.Context, rawURL string, r Request) (*Response, error) {
	u, err := ParseURL(rawURL)
	if err != nil {
		return nil, &Error{Reason: ReasonURL, URL: clip(rawURL), Problem: err.Error()}
	}
	f := &fetch{client: c, url: u, request: r, limit: orDefault(r.MaxBody, c.opts.MaxBody)}
	ctx, cancel := context.WithTimeout(ctx, c.opts.Timeout)
	defer cancel()
	return f.do(ctx)
}

// clip keeps a URL that could not be read from carrying a password or a page of
// text into messages.
func clip(raw string) string {
	if u, err := url.Parse(raw); err == nil && len(raw) <= MaxURLLength {
		return shown(u)
	}
	return "the URL"
}

// fetch is one exchange.
type fetch struct {
	client  *FetchClient
	url     *url.URL
	request Request
	limit   int64

	connected, inTLS atomic.Bool // set by the transport's goroutines
}

func (f *fetch) do(ctx context.Context) (*Response, error) {
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		ConnectDone:       func(_, _ string, err error) { f.connected.CompareAndSwap(false, err == nil) },
		TLSHandshakeStart: func() { f.inTLS.Store(true) },
		TLSHandshakeDone:  func(_ tls.ConnectionState, err error) { f.inTLS.Store(err != nil) },
	})
	req, err := http.NewRequestWithContext(ctx, orGet(f.request.Method), f.url.String(), bytes.NewReader(f.request.Body))
	if err != nil {
		return nil, f.fail(ReasonURL, "cannot be asked for: "+err.Error(), err)
	}
	for name, values := range f.request.Header {
		req.Header[name] = values
	}
	if req.Header.Get("User-Agent") == "" {
		req.Header.Set("User-Agent", f.client.opts.UserAgent)
	}
	transport := f.client.secure
	if f.url.Scheme == "http" {
		transport = f.client.plain
	}
	resp, err := transport.RoundTrip(req)
	if err != nil {
		return nil, f.explain(err)
	}
	defer resp.Body.Close() // the connection is not used again
	return f.read(resp)
}

func orGet(method string) string {
	if method == "" {
		return http.MethodGet
	}
	return method
}

// read takes the response apart, cheapest check first.
func (f *fetch) read(resp *http.Response) (*Response, error) {
	out := &Response{Status: resp.StatusCode, Header: resp.Header, URL: f.url}
	if isRedirect(resp) {
		return out, f.failStatus(resp, redirectProblem(f.url, resp))
	}
	if !f.request.AnyStatus && (resp.StatusCode < 200 || resp.StatusCode > 299) {
		return out, f.failStatus(resp, fmt.Sprintf("answered with status %d", resp.StatusCode))
	}
	if f.request.NoBody {
		return out, nil
	}
	if encoding := resp.Header.Get("Content-Encoding"); encoding != "" && encoding != "identity" {
		return nil, f.fail(ReasonProtocol, "answered compressed although that was not asked for: turn compression off for this path", nil)
	}
	if resp.ContentLength > f.limit {
		return nil, f.tooLarge()
	}
	body, err := io.ReadAll(io.LimitReader(resp.Body, f.limit+1))
	if err != nil {
		return nil, f.explain(err)
	}
	if int64(len(body)) > f.limit {
		return nil, f.tooLarge()
	}
	out.Body = body
	return out, nil
}

func isRedirect(resp *http.Response) bool {
	return resp.StatusCode >= 300 && resp.StatusCode < 400 && resp.Header.Get("Location") != ""
}

// redirectProblem names the redirect's target if it is a URL one could give.
func redirectProblem(from *url.URL, resp *http.Response) string {
	problem := fmt.Sprintf("answered with status %d, a redirect, and redirects are not followed", resp.StatusCode)
	target, err := from.Parse(resp.Header.Get("Location"))
	if err != nil {
		return problem
	}
	if target, err = ParseURL(target.String()); err != nil {
		return problem
	}
	return problem + ": if you trust it, give " + shown(target) + " instead"
}

func (f *fetch) fail(reason Reason, problem string, err error) *Error {
	return &Error{Reason: reason, URL: shown(f.url), Problem: problem, Err: err}
}

func (f *fetch) failStatus(resp *http.Response, problem string) *Error {
	e := f.fail(ReasonStatus, problem, nil)
	e.Status = resp.StatusCode
	return e
}

func (f *fetch) tooLarge() *Error {
	return f.fail(ReasonTooLarge, fmt.Sprintf("answered with more than %d bytes, which is the limit", f.limit), nil)
}

// explain sorts an error of the transport and says it in words.
func (f *fetch) explain(err error) *Error {
	reason := ReasonOf(err)
	if f.inTLS.Load() && reason == ReasonProtocol {
		reason = ReasonTLS
	}
	host := f.url.Hostname()
	switch reason {
	case ReasonRefused:
		var refused *RefusedError
		errors.As(err, &refused)
		return f.fail(reason, "not connected: "+refused.Error(), err)
	case ReasonDNS:
		return f.fail(reason, "the host name "+host+" cannot be resolved: check it, and the resolver of this machine", err)
	case ReasonConnect:
		return f.fail(reason, "nothing answers at "+f.url.Host+": check host and port, and that the server runs", err)
	case ReasonTLS:
		return f.fail(reason, "no TLS handshake with "+f.url.Host+": "+tlsProblem(err), err)
	case ReasonTimeout:
		return f.fail(reason, "no answer in time: "+f.phase(), err)
	case ReasonCanceled:
		return f.fail(reason, "given up by the caller", err)
	default:
		return f.fail(reason, "the answer broke off or is not HTTP", err)
	}
}

// phase says how far a fetch came before its time was over.
func (f *fetch) phase() string {
	switch {
	case !f.connected.Load():
		return "no connection"
	case f.inTLS.Load():
		return "connected, but no TLS handshake"
	default:
		return "connected, but the response did not come or did not end"
	}
}

// tlsProblem is the reason a certificate was refused, which comes from our own
// verification, or a general hint: other messages may quote the peer.
func tlsProblem(err error) string {
	var certificate *tls.CertificateVerificationError
	if errors.As(err, &certificate) {
		return certificate.Err.Error()
	}
	return "does that port speak TLS 1.2 or newer?"
}
