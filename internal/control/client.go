package control

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/parley-mesh/parley/internal/parley"
)

// maxAnswer bounds what a client reads of one answer, in bytes.
const maxAnswer = 32 << 20

// Client speaks to a mesh's control API. Every method gives a *parley.Error
// with the kind, message and fields that the mesh gave; parley.Unavailable
// where no mesh answers, parley.Timeout and parley.Canceled as ctx ends.
type Client struct {
	http *http.Client
	base string // without a trailing slash
	key  string
	name string // where it connects to, for messages
}

// NewClient makes a client of the mesh at base, as "https://mesh:7400". The key
// goes to that origin only: redirects are not followed. A nil hc means
// http.DefaultClient's transport.
func NewClient(hc *http.Client, base, key string) (*Client, error) {
	u, err := url.Parse(base)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.RawQuery != "" || u.Fragment != "" || u.User != nil {
		return nil, &parley.Error{
			Op: "control.connect", Kind: parley.Invalid, Message: "the server's address is not valid",
			Fields: []parley.Field{{Path: "server", Problem: fmt.Sprintf("%.200q is not an http or https URL", base), Fix: "use one such as http://127.0.0.1:7400"}},
		}
	}
	own := http.Client{}
	if hc != nil {
		own = *hc
	}
	own.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return &Client{http: &own, base: strings.TrimSuffix(u.String(), "/"), key: key, name: base}, nil
}

// NewSocketClient makes a client of the mesh behind a Unix socket, where no key
// is needed.
func NewSocketClient(path string) *Client {
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", path)
	}
	return &Client{
		http: &http.Client{
			Transport:     &http.Transport{DialContext: dial, MaxIdleConns: 4, IdleConnTimeout: time.Minute},
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
		base: "http://parley", name: path,
	}
}

// Close ends idle connections.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// request is one operation as it is sent.
type request struct {
	op      parley.Op
	method  string
	path    string // relative to Prefix, escaped
	query   url.Values
	body    any   // nil for none
	version int64 // for If-Match; 0 for none
	header  http.Header
}

// do sends a request and decodes the answer into out, unless that is nil.
func (c *Client) do(ctx context.Context, r request, out any) error {
	resp, err := c.send(ctx, r)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer+1))
	if err != nil {
		return c.lost(ctx, r.op, err)
	}
	if len(body) > maxAnswer {
		return parley.E(r.op, parley.AgentFailed, "", fmt.Sprintf("the answer is larger than %d bytes", maxAnswer), nil)
	}
	if resp.StatusCode < 200 || resp.StatusCode > 299 {
		return c.failed(r.op, resp, body, out)
	}
	if out == nil || resp.StatusCode == http.StatusNoContent {
		return nil
	}
	if err := json.Unmarshal(body, out); err != nil {
		return parley.E(r.op, parley.Unavailable, "", fmt.Sprintf("what answers at %s is not a Parley mesh of this version", c.name), err)
	}
	return nil
}

// send opens one exchange. Writes carry an Idempotency-Key of their own: the
// transport may then send them again over a fresh connection, and nothing
// happens twice.
func (c *Client) send(ctx context.Context, r request) (*http.Response, error) {
	target := c.base + Prefix + r.path
	if len(r.query) > 0 {
		target += "?" + r.query.Encode()
	}
	var body io.Reader
	if r.body != nil {
		raw, err := json.Marshal(r.body)
		if err != nil {
			return nil, parley.E(r.op, parley.Invalid, "", "the request cannot be written as JSON", err)
		}
		body = bytes.NewReader(raw)
	}
	req, err := http.NewRequestWithContext(ctx, r.method, target, body)
	if err != nil {
		return nil, parley.E(r.op, parley.Invalid, "", "the request cannot be addressed", err)
	}
	for name, values := range r.header {
		req.Header[name] = values
	}
	req.Header.Set("User-Agent", "parley")
	if req.Header.Get("Accept") == "" {
		req.Header.Set("Accept", "application/json, "+ProblemType)
	}
	if r.body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	if c.key != "" {
		req.Header.Set("Authorization", "Bearer "+c.key)
	}
	if r.version != 0 {
		req.Header.Set("If-Match", etag(r.version))
	}
	if r.method == http.MethodPost {
		req.Header.Set(idempotencyHeader, uuid.NewString())
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return nil, c.lost(ctx, r.op, err)
	}
	return resp, nil
}

// lost words a broken connection.
func (c *Client) lost(ctx context.Context, op parley.Op, err error) error {
	if ctx.Err() != nil {
		return contextError(op, ctx)
	}
	if t, ok := errors.AsType[net.Error](err); ok && t.Timeout() {
		return parley.E(op, parley.Timeout, "", fmt.Sprintf("the mesh at %s did not answer in time", c.name), err)
	}
	return parley.E(op, parley.Unavailable, "", fmt.Sprintf("no mesh answers at %s: start one with 'parley serve', or name another with --server", c.name), err)
}

// failed decodes a failure. A *LookedAt gets the report that came with it.
func (c *Client) failed(op parley.Op, resp *http.Response, body []byte, out any) error {
	var p Problem
	if !strings.HasPrefix(resp.Header.Get("Content-Type"), ProblemType) || json.Unmarshal(body, &p) != nil || p.Code == "" {
		return parley.E(op, parley.Unavailable, "", fmt.Sprintf("what answers at %s is not a Parley mesh: it said %s", c.name, resp.Status), nil)
	}
	if looked, ok := out.(*LookedAt); ok {
		looked.Report = p.Report
	}
	return &parley.Error{Op: op, Kind: parley.KindOfCode(p.Code), Message: p.Detail, Fields: p.Fields}
}

// List says which page to give. The zero value is the first, of the default
// size.
type List struct {
	Cursor string // Page.Next of the page before
	Limit  int    // items, 1 to 200; 0 means 50
}

func (l List) values() url.Values {
	q := url.Values{}
	setText(q, "cursor", l.Cursor)
	if l.Limit > 0 {
		q.Set("limit", strconv.Itoa(l.Limit))
	}
	return q
}

// setText adds a parameter unless it is empty.
func setText[T ~string](q url.Values, name string, value T) {
	if value != "" {
		q.Set(name, string(value))
	}
}

// setTime adds a parameter unless it is zero.
func setTime(q url.Values, name string, t time.Time) {
	if !t.IsZero() {
		q.Set(name, t.UTC().Format(time.RFC3339Nano))
	}
}

// All walks a list page by page, from l on. It ends after the first error.
func All[T any](ctx context.Context, l List, get func(context.Context, List) (Page[T], error)) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		for {
			p, err := get(ctx, l)
			if err != nil {
				var none T
				yield(none, err)
				return
			}
			for _, item := range p.Items {
				if !yield(item, nil) {
					return
				}
			}
			if p.Next == "" {
				return
			}
			l.Cursor = p.Next
		}
	}
}

// segment escapes one part of a path, also one that is all dots.
func segment[T ~string](s T) string {
	if s != "" && strings.Trim(string(s), ".") == "" {
		return strings.ReplaceAll(string(s), ".", "%2E")
	}
	return url.PathEscape(string(s))
}
