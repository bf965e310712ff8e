package conformance

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/parley-mesh/parley/internal/a2a"
)

// The harness writes and reads the wire by itself: a mistake that our client and
// our server share must not hide itself.

// obj is a JSON object as the wire has it.
type obj = map[string]any

// patience bounds every wait on a target, in case it hangs.
const patience = 20 * time.Second

// caller is a client of one target with one credential.
type caller struct {
	t       *testing.T
	base    string
	grpc    string // host:port
	tenant  string // of gRPC
	binding a2a.Binding
	header  http.Header
}

// as returns a caller with an Authorization value, or without one if empty.
func (w *world) as(t *testing.T, credential string) *caller {
	c := &caller{t: t, base: strings.TrimSuffix(w.URL, "/"), grpc: w.GRPC, tenant: w.Tenant, binding: w.side.Caller, header: http.Header{"A2a-Version": {"1.0"}}}
	if credential != "" {
		c.header.Set("Authorization", credential)
	}
	return c
}

// with returns a copy of the caller that sends one more header.
func (c *caller) with(name string, values ...string) *caller {
	d := *c
	d.header = c.header.Clone()
	d.header.Del(name)
	if len(values) > 0 {
		d.header[http.CanonicalHeaderKey(name)] = values
	}
	return &d
}

// over returns a copy of the caller that speaks another binding.
func (c *caller) over(b a2a.Binding) *caller {
	d := *c
	d.binding = b
	return &d
}

// answer is what came back for a request that is no stream.
type answer struct {
	status int
	header http.Header
	body   []byte
	result obj    // nil for a fault
	fault  *fault // nil for a result
}

// fault is an error as the wire has it.
type fault struct {
	code    int    // JSON-RPC code, or the HTTP status in the body
	status  string // HTTP+JSON only
	message string
	details []obj
}

// info is the fault's ErrorInfo, nil if it has none.
func (f *fault) info() obj {
	for _, d := range f.details {
		if d["@type"] == "type.googleapis.com/google.rpc.ErrorInfo" {
			return d
		}
	}
	return nil
}

// reason is the word of its ErrorInfo.
func (f *fault) reason() string { return text(f.info(), "reason") }

// fields are the names and descriptions of the fields it finds wrong.
func (f *fault) fields() map[string]string {
	out := map[string]string{}
	for _, d := range f.details {
		if d["@type"] != "type.googleapis.com/google.rpc.BadRequest" {
			continue
		}
		for _, v := range list(d, "fieldViolations") {
			out[text(v, "field")] = text(v, "description")
		}
	}
	return out
}

// call sends one operation and reads an answer that is no stream.
func (c *caller) call(method string, params obj) answer {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(c.t.Context(), patience)
	defer cancel()
	if c.binding == a2a.GRPC {
		return c.invoke(ctx, method, params)
	}
	resp := c.send(ctx, method, params)
	defer resp.Body.Close()
	if media(resp) == "text/event-stream" {
		c.t.Fatalf("%s: a stream came where none was asked for", method)
	}
	return c.read(method, resp)
}

// must is call for an operation that has to succeed.
func (c *caller) must(method string, params obj) obj {
	c.t.Helper()
	a := c.call(method, params)
	if a.fault != nil {
		c.t.Fatalf("%s %s: HTTP %d %s", method, encode(params), a.status, a.body)
	}
	return a.result
}

func (c *caller) read(method string, resp *http.Response) answer {
	c.t.Helper()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		c.t.Fatalf("%s: read answer: %v", method, err)
	}
	a := answer{status: resp.StatusCode, header: resp.Header, body: body}
	var in obj
	if err := json.Unmarshal(body, &in); err != nil {
		c.t.Fatalf("%s: HTTP %d, no JSON: %s", method, resp.StatusCode, body)
	}
	if c.binding == a2a.JSONRPC {
		// What is refused by who asks, or by its headers, has no claim on being
		// read: such an answer need not know the request's id.
		switch resp.StatusCode {
		case http.StatusUnauthorized, http.StatusForbidden, http.StatusRequestEntityTooLarge, http.StatusUnsupportedMediaType, http.StatusTooManyRequests:
			if in["id"] == nil {
				in["id"] = rpcID
			}
		}
		a.result, a.fault = c.unwrap(in)
	} else if e, ok := in["error"].(obj); ok && resp.StatusCode >= 400 {
		a.fault = &fault{code: int(number(e, "code")), status: text(e, "status"), message: text(e, "message"), details: list(e, "details")}
	} else {
		a.result = in
	}
	return a
}

// rpcID is the id of every JSON-RPC request of the harness.
const rpcID = "row-1"

// unwrap checks a JSON-RPC response and takes it apart.
func (c *caller) unwrap(in obj) (obj, *fault) {
	c.t.Helper()
	result, hasResult := in["result"]
	e, hasError := in["error"].(obj)
	if in["jsonrpc"] != "2.0" || in["id"] != rpcID || hasResult == hasError {
		c.t.Fatalf("not a JSON-RPC response to this request: %s", encode(in))
	}
	if hasError {
		return nil, &fault{code: int(number(e, "code")), message: text(e, "message"), details: list(e, "data")}
	}
	object, _ := result.(obj)
	if object == nil {
		object = obj{}
	}
	return object, nil
}

// send writes one operation in the caller's binding.
func (c *caller) send(ctx context.Context, method string, params obj) *http.Response {
	c.t.Helper()
	verb, target, body := http.MethodPost, c.base+"/", any(obj{"jsonrpc": "2.0", "id": rpcID, "method": method, "params": params})
	contentType := "application/json"
	if c.binding == a2a.HTTPJSON {
		var path string
		verb, path, body = restRequest(method, params)
		target, contentType = c.base+path, "application/a2a+json"
	}
	var reader io.Reader
	if body != nil {
		reader = strings.NewReader(encode(body))
	}
	return c.raw(ctx, verb, target, contentType, reader)
}

// raw sends one HTTP request with the caller's headers.
func (c *caller) raw(ctx context.Context, verb, target, contentType string, body io.Reader) *http.Response {
	c.t.Helper()
	req, err := http.NewRequestWithContext(ctx, verb, target, body)
	if err != nil {
		c.t.Fatal(err)
	}
	req.Header = c.header.Clone()
	if body != nil && req.Header.Get("Content-Type") == "" {
		req.Header.Set("Content-Type", contentType)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		c.t.Fatalf("%s %s: %v", verb, target, err)
	}
	return resp
}

// restRequest writes an operation as HTTP+JSON has it.
func restRequest(method string, params obj) (verb, path string, body any) {
	rest := obj{}
	for k, v := range params {
		rest[k] = v
	}
	take := func(name string) string {
		value, _ := rest[name].(string)
		delete(rest, name)
		return strings.ReplaceAll(url.PathEscape(value), ":", "%3A")
	}
	prefix := ""
	if tenant := take("tenant"); tenant != "" {
		prefix = "/" + tenant
	}
	query := func() string {
		values := url.Values{}
		for k, v := range rest {
			values.Set(k, fmt.Sprint(v))
		}
		if len(values) == 0 {
			return ""
		}
		return "?" + values.Encode()
	}
	switch method {
	case "SendMessage":
		return "POST", prefix + "/message:send", rest
	case "SendStreamingMessage":
		return "POST", prefix + "/message:stream", rest
	case "GetTask":
		return "GET", prefix + "/tasks/" + take("id") + query(), nil
	case "ListTasks":
		return "GET", prefix + "/tasks" + query(), nil
	case "CancelTask":
		return "POST", prefix + "/tasks/" + take("id") + ":cancel", rest
	case "SubscribeToTask":
		return "POST", prefix + "/tasks/" + take("id") + ":subscribe", nil
	case "CreateTaskPushNotificationConfig":
		return "POST", prefix + "/tasks/" + take("taskId") + "/pushNotificationConfigs", rest
	case "ListTaskPushNotificationConfigs":
		return "GET", prefix + "/tasks/" + take("taskId") + "/pushNotificationConfigs" + query(), nil
	case "GetTaskPushNotificationConfig":
		return "GET", prefix + "/tasks/" + take("taskId") + "/pushNotificationConfigs/" + take("id"), nil
	case "DeleteTaskPushNotificationConfig":
		return "DELETE", prefix + "/tasks/" + take("taskId") + "/pushNotificationConfigs/" + take("id"), nil
	case "GetExtendedAgentCard":
		return "GET", prefix + "/extendedAgentCard", nil
	}
	panic("no operation " + method)
}

// stream is an open stream.
type stream struct {
	c      *caller
	body   io.Closer
	lines  *bufio.Scanner
	cancel context.CancelFunc
	Header http.Header
	grpc   *grpcStream // instead of body and lines
}

// open sends a streaming operation. It fails the test if no stream comes.
func (c *caller) open(method string, params obj) *stream {
	c.t.Helper()
	s, a := c.try(method, params)
	if s == nil {
		c.t.Fatalf("%s %s: HTTP %d %s", method, encode(params), a.status, a.body)
	}
	return s
}

// try sends a streaming operation and returns the stream, or else the answer.
func (c *caller) try(method string, params obj) (*stream, answer) {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(c.t.Context(), patience)
	c.t.Cleanup(cancel)
	if c.binding == a2a.GRPC {
		return c.tryGRPC(ctx, cancel, method, params)
	}
	resp := c.send(ctx, method, params)
	if media(resp) != "text/event-stream" {
		defer resp.Body.Close()
		return nil, c.read(method, resp)
	}
	lines := bufio.NewScanner(resp.Body)
	lines.Buffer(nil, 1<<20)
	s := &stream{c: c, body: resp.Body, lines: lines, cancel: cancel, Header: resp.Header}
	c.t.Cleanup(s.close)
	return s, answer{}
}

func (s *stream) close() {
	s.cancel()
	if s.body != nil {
		s.body.Close()
	}
}

// next reads one event; ok is false at the end of the stream.
func (s *stream) next() (event obj, f *fault, ok bool) {
	s.c.t.Helper()
	if s.grpc != nil {
		return s.grpc.next(s.c.t)
	}
	var data []byte
	for s.lines.Scan() {
		line := s.lines.Bytes()
		switch {
		case len(line) == 0 && data != nil:
			return s.decode(data)
		case bytes.HasPrefix(line, []byte("data:")):
			data = append(append(data, '\n'), bytes.TrimPrefix(line[5:], []byte(" "))...)
		}
	}
	if err := s.lines.Err(); err != nil {
		s.c.t.Fatalf("stream broke: %v", err)
	}
	return nil, nil, false
}

func (s *stream) decode(data []byte) (obj, *fault, bool) {
	s.c.t.Helper()
	var in obj
	if err := json.Unmarshal(data, &in); err != nil {
		s.c.t.Fatalf("event is no JSON: %s", data)
	}
	if s.c.binding == a2a.JSONRPC {
		event, f := s.c.unwrap(in)
		return event, f, true
	}
	if e, ok := in["error"].(obj); ok {
		return nil, &fault{code: int(number(e, "code")), status: text(e, "status"), message: text(e, "message"), details: list(e, "details")}, true
	}
	return in, nil, true
}

// must reads one event of a kind and returns its content.
func (s *stream) must(kind string) obj {
	s.c.t.Helper()
	event, f, ok := s.next()
	if !ok || f != nil || len(event) != 1 || event[kind] == nil {
		s.c.t.Fatalf("stream: got event %s, error %v, more %v; want a %s alone", encode(event), f, ok, kind)
	}
	return event[kind].(obj)
}

// rest reads to the end of the stream and returns the events.
func (s *stream) rest() []obj {
	s.c.t.Helper()
	var events []obj
	for {
		event, f, ok := s.next()
		switch {
		case !ok:
			return events
		case f != nil:
			s.c.t.Fatalf("stream ended in an error after %d events: %+v", len(events), f)
		}
		events = append(events, event)
	}
}

func media(resp *http.Response) string {
	m, _, _ := strings.Cut(resp.Header.Get("Content-Type"), ";")
	return m
}

func encode(v any) string {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		panic(err) // the harness's own values always encode
	}
	return strings.TrimSuffix(b.String(), "\n")
}

// at walks into nested objects; nil where there is none.
func at(o obj, path ...string) any {
	var v any = o
	for _, name := range path {
		in, ok := v.(obj)
		if !ok {
			return nil
		}
		v = in[name]
	}
	return v
}

func text(o obj, path ...string) string    { s, _ := at(o, path...).(string); return s }
func number(o obj, path ...string) float64 { n, _ := at(o, path...).(float64); return n }
func object(o obj, path ...string) obj     { x, _ := at(o, path...).(obj); return x }

func list(o obj, path ...string) []obj {
	values, _ := at(o, path...).([]any)
	var out []obj
	for _, v := range values {
		x, _ := v.(obj)
		out = append(out, x)
	}
	return out
}
