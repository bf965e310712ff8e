package a2a

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/parley-mesh/parley/internal/jsonwire"
)

// Endpoint is one interface of an agent.
type Endpoint struct {
	URL     string // gRPC: see ParseGRPCAddress
	Binding Binding
	Version Version // V10 or V03; empty means V10
	Tenant  string  // routing key of the card's interface, sent with every request; 0.3 has none
}

// old tells whether the endpoint speaks version 0.3.
func (ep *Endpoint) old() bool { return ep.Version == V03 }

// Exchanger sends requests in a binding that this package leaves to others.
type Exchanger interface {
	// Do keeps what Client.Do promises.
	Do(ctx context.Context, ep Endpoint, q *Request, header http.Header) (*Reply, error)
}

// Client sends requests to agents. The zero value is not usable: Transport is
// required, and decides what addresses may be dialled, how long a dial may take
// and how many connections are kept. Redirects are not followed.
type Client struct {
	Transport http.RoundTripper
	Limits    jsonwire.Limits // of a unary answer
	MaxFrame  int             // bytes of one event of a stream; 0 means DefaultMaxFrame
	GRPC      Exchanger       // for endpoints of that binding; nil: they are not spoken
}

// Stage is how far a request to a peer came before it failed.
type Stage string

const (
	StageDial    Stage = "dial"    // no connection
	StageWrite   Stage = "write"   // while the request was written
	StageHeaders Stage = "headers" // waiting for the answer to begin
	StageBody    Stage = "body"    // the answer is incomplete, too large or no A2A
	StageStream  Stage = "stream"  // a stream broke, or ended before its task came to rest
)

// TransportError says that no answer in the protocol's terms was had.
type TransportError struct {
	Stage  Stage
	Wrote  bool // the request, or a part of it, may have reached the peer
	Status int  // the HTTP status that came; 0 if none
	Err    error
}

// Error names stage, status and cause, which may tell of internal addresses: it
// is for logs.
func (e *TransportError) Error() string {
	if e.Status != 0 {
		return fmt.Sprintf("a2a %s (HTTP %d): %v", e.Stage, e.Status, e.Err)
	}
	return fmt.Sprintf("a2a %s: %v", e.Stage, e.Err)
}

// Unwrap returns the cause, such as a context's error.
func (e *TransportError) Unwrap() error { return e.Err }

// Faults of an answer that arrived but is no answer.
var (
	ErrNotA2A   = errors.New("the answer is not an A2A answer")
	ErrWrongID  = errors.New("the answer carries another request's id")
	ErrEndEarly = errors.New("the stream ended before the task came to rest")
	ErrTooLarge = errors.New("the answer is over the size limit")
)

// Do sends q to an endpoint and returns its answer. Where the endpoint speaks q's
// binding and version, the body is q.Raw and Reply.Raw the answer as it came; only
// tenant is set to the endpoint's. Result and Facts are those of 1.0 in any case.
// header is sent too, without being changed: credentials and trace context go
// there. Its A2A-Extensions win over q.Extensions.
//
// A failure in the protocol's terms is a Reply with Err, also an HTTP error
// without an A2A body (Err.Bare). Anything else is a *TransportError. A request
// is sent once, but for a subscription: the peer may want it by another verb, and
// one of 0.3 is asked for the task too. ctx
// bounds the whole call, the stream included.
func (c *Client) Do(ctx context.Context, ep Endpoint, q *Request, header http.Header) (*Reply, error) {
	if ep.Version != "" && !speaks(ep.Version) {
		return nil, &TransportError{Stage: StageDial, Err: fmt.Errorf("version %q is not spoken here", ep.Version)}
	}
	if q.Method == SubscribeToTask && ep.old() && !q.passes(ep) {
		return c.followOld(ctx, ep, q, header)
	}
	reply, err := c.do(ctx, ep, q, header)
	if err == nil && reply.Stream != nil && ep.old() && !q.passes(ep) {
		reply.Stream = &leadingStream{Stream: reply.Stream, limits: roomier(c.frameLimits())}
	}
	return reply, err
}

// do sends one request in the endpoint's binding.
func (c *Client) do(ctx context.Context, ep Endpoint, q *Request, header http.Header) (*Reply, error) {
	switch ep.Binding {
	case JSONRPC:
		return c.doRPC(ctx, ep, q, header)
	case HTTPJSON:
		return c.doREST(ctx, ep, q, header)
	case GRPC:
		if c.GRPC != nil {
			return c.GRPC.Do(ctx, ep, q, header)
		}
	}
	return nil, &TransportError{Stage: StageDial, Err: fmt.Errorf("binding %q is not spoken here", ep.Binding)}
}

// ownID is the id of requests that came without one. Each travels alone in its
// HTTP request, so one number will do.
var ownID = jsontext.Value("1")

func (c *Client) doRPC(ctx context.Context, ep Endpoint, q *Request, header http.Header) (*Reply, error) {
	var body []byte
	var id jsontext.Value
	var err error
	if ep.old() {
		body, id, err = q.oldRPCBody()
	} else {
		body, id, err = q.rpcBody(ep.Tenant)
	}
	if err != nil {
		return q.Untold(err)
	}
	x := exchange{client: c, q: q, binding: JSONRPC, id: id, same: q.passes(ep), old: ep.old()}
	resp, err := x.send(ctx, http.MethodPost, ep.URL, body, header)
	if err != nil {
		return nil, err
	}
	return x.receive(resp)
}

// rpcBody writes the JSON-RPC body for an endpoint's tenant.
func (q *Request) rpcBody(tenant string) (body []byte, id jsontext.Value, err error) {
	body, id = q.Raw, q.ID
	offset := q.paramsOffset
	raw := q.Binding == JSONRPC && !q.old && len(body) > 0
	if !raw {
		id, offset = ownID, 0
	}
	if tenant == q.Tenant && raw {
		return body, id, nil
	}
	params := q.Params
	if tenant != q.Tenant {
		var s jsonwire.Splice
		if s, err = tenantSplice(params, tenant); err != nil {
			return nil, nil, err
		}
		if offset > 0 {
			return s.Shift(offset).Apply(body), id, nil
		}
		params = s.Apply(params)
	}
	if raw {
		body, err = jsonwire.Set(body, "/params", params)
		return body, id, err
	}
	return jsonwire.AppendCall(make([]byte, 0, len(params)+80), id, string(q.Method), params), id, nil
}

func tenantSplice(params jsontext.Value, tenant string) (jsonwire.Splice, error) {
	if tenant != "" {
		return jsonwire.PlanSet(params, "/tenant", jsonwire.Quote(tenant))
	}
	s, _, err := jsonwire.PlanDelete(params, "/tenant")
	return s, err
}

func (c *Client) doREST(ctx context.Context, ep Endpoint, q *Request, header http.Header) (*Reply, error) {
	call, err := q.restFor(ep)
	if err != nil {
		return q.Untold(err)
	}
	target, err := url.Parse(ep.URL)
	if err != nil {
		return nil, &TransportError{Stage: StageDial, Err: err}
	}
	// Joined as text: the path is escaped already, and an escaped slash in an id
	// must stay one.
	address := strings.TrimSuffix(target.Scheme+"://"+target.Host+target.EscapedPath(), "/") + call.path
	query := call.query.Encode()
	if target.RawQuery != "" && query != "" {
		query = target.RawQuery + "&" + query
	} else if query == "" {
		query = target.RawQuery
	}
	if query != "" {
		address += "?" + query
	}
	x := exchange{client: c, q: q, binding: HTTPJSON, same: q.passes(ep), old: ep.old()}
	resp, err := x.send(ctx, call.verb, address, call.body, header)
	if err != nil {
		return nil, err
	}
	if q.Method == SubscribeToTask && (resp.StatusCode == http.StatusNotFound || resp.StatusCode == http.StatusMethodNotAllowed) {
		// The specification contradicts itself about the verb; a router that lacks
		// POST may also take the whole segment for an id.
		first, err := x.receive(resp)
		if err != nil {
			return nil, err
		}
		again, err := x.send(ctx, http.MethodGet, address, nil, header)
		if err != nil {
			return first, nil
		}
		if !subscribed(again) {
			again.Body.Close()
			return first, nil
		}
		resp = again
	}
	return x.receive(resp)
}

// subscribed tells whether an answer to the second try is about the subscription
// rather than about a task with a strange id.
func subscribed(resp *http.Response) bool {
	switch resp.StatusCode {
	case http.StatusOK:
		return isJSON(resp.Header.Get("Content-Type"), mediaSSE)
	case http.StatusNotFound, http.StatusMethodNotAllowed:
		return false
	}
	return true
}

// exchange is one HTTP request to a peer and the reading of its answer.
type exchange struct {
	client  *Client
	q       *Request
	binding Binding        // of the peer
	id      jsontext.Value // sent in a JSON-RPC request
	same    bool           // the caller speaks the peer's binding and version
	old     bool           // the peer speaks version 0.3
	stage   atomic.Int32   // index into stages
	wrote   atomic.Bool
}

const (
	atDial = iota
	atWrite
	atHeaders
)

func (x *exchange) stageNow() Stage {
	return [...]Stage{StageDial, StageWrite, StageHeaders}[x.stage.Load()]
}

func (x *exchange) send(ctx context.Context, verb, address string, body []byte, header http.Header) (*http.Response, error) {
	ctx = httptrace.WithClientTrace(ctx, x.trace())
	var reader io.Reader
	if body != nil {
		reader = bytes.NewReader(body)
	}
	req, err := http.NewRequestWithContext(ctx, verb, address, reader)
	if err != nil {
		return nil, &TransportError{Stage: StageDial, Err: err}
	}
	x.setHeader(req.Header, header, body != nil)
	resp, err := x.client.Transport.RoundTrip(req)
	if err != nil {
		return nil, &TransportError{Stage: x.stageNow(), Wrote: x.wrote.Load(), Err: err}
	}
	return resp, nil
}

// trace notes how far the request has come. Headers go through a buffer, so a
// written header field means that bytes may be out, never the contrary.
func (x *exchange) trace() *httptrace.ClientTrace {
	return &httptrace.ClientTrace{
		GetConn: func(string) { x.stage.Store(atDial) },
		GotConn: func(httptrace.GotConnInfo) { x.stage.Store(atWrite) },
		WroteHeaderField: func(string, []string) {
			if !x.wrote.Load() {
				x.wrote.Store(true)
			}
		},
		WroteRequest: func(info httptrace.WroteRequestInfo) {
			if info.Err == nil {
				x.stage.Store(atHeaders)
			}
		},
	}
}

var (
	headerV10      = []string{string(V10)}
	headerV03      = []string{string(V03)}
	headerIdentity = []string{"identity"}
	acceptRPC      = []string{mediaJSON}
	acceptREST     = []string{mediaA2A + ", " + mediaJSON}
	acceptSSE      = []string{mediaSSE + ", " + mediaJSON}
	acceptSSEREST  = []string{mediaSSE + ", " + mediaA2A + ", " + mediaJSON}
)

// setHeader writes the headers of the protocol over those given. Compression is
// declined, so that what arrives is what was sent; and Idempotency-Key would make
// Go's transport repeat a request that may have had effects.
func (x *exchange) setHeader(h, given http.Header, body bool) {
	for name, values := range given {
		h[name] = values
	}
	delete(h, "Idempotency-Key")
	delete(h, "X-Idempotency-Key")
	h[keyVersion] = headerV10
	h["Accept-Encoding"] = headerIdentity
	if _, ok := h[keyExtensions]; !ok && len(x.q.Extensions) > 0 {
		h[keyExtensions] = []string{joinExtensions(x.q.Extensions)}
	}
	if x.old { // which an agent of both versions takes for 0.3 only if it is told so
		h[keyVersion] = headerV03
		oldForms(h)
	}
	rpc := x.binding == JSONRPC
	switch {
	case x.q.Method.Streaming() && rpc:
		h["Accept"] = acceptSSE
	case x.q.Method.Streaming():
		h["Accept"] = acceptSSEREST
	case rpc:
		h["Accept"] = acceptRPC
	default:
		h["Accept"] = acceptREST
	}
	switch {
	case !body:
	case rpc, x.old:
		h["Content-Type"] = contentTypeJSON
	default:
		h["Content-Type"] = contentTypeA2A
	}
}

func joinExtensions(uris []string) string { return strings.Join(uris, ", ") }

// receive reads the answer, or its beginning if it is a stream.
func (x *exchange) receive(resp *http.Response) (*Reply, error) {
	rep := &Reply{Status: resp.StatusCode, Received: resp.Header, HeadersAt: time.Now()}
	echo := resp.Header[keyExtensions]
	if x.old {
		echo = slices.Concat(echo, resp.Header[keyOldExtensions])
	}
	if len(echo) > 0 {
		rep.addHeader(keyExtensions, joinExtensions(splitExtensions(echo)))
	}
	if mediaType := resp.Header["Content-Type"]; x.same && len(mediaType) == 1 && x.binding == HTTPJSON && isJSON(mediaType[0], mediaA2A, mediaJSON) {
		rep.addHeader("Content-Type", mediaType[0]) // goes with Raw
	}
	if encoded(resp.Header) != nil {
		resp.Body.Close()
		return nil, x.bodyError(resp.StatusCode, fmt.Errorf("%w: it is compressed (%s) although that was declined", ErrNotA2A, clip(resp.Header.Get("Content-Encoding"))))
	}
	if x.q.Method.Streaming() && resp.StatusCode == http.StatusOK && isJSON(resp.Header.Get("Content-Type"), mediaSSE) {
		rep.Stream = newClientStream(x, resp.Body)
		return rep, nil
	}
	defer resp.Body.Close()
	body, err := readLimited(resp.Body, resp.ContentLength, x.client.Limits.Bytes())
	if err != nil {
		if errors.Is(err, errTooLarge) {
			err = ErrTooLarge
		}
		return nil, x.bodyError(resp.StatusCode, err)
	}
	if x.binding == JSONRPC {
		err = x.readRPC(rep, body)
	} else {
		err = x.readREST(rep, body)
	}
	if err != nil {
		return nil, err
	}
	if x.q.Method.Streaming() && rep.Err == nil {
		return nil, x.bodyError(resp.StatusCode, fmt.Errorf("%w: a stream was asked for, %q came", ErrNotA2A, clip(resp.Header.Get("Content-Type"))))
	}
	return rep, nil
}

func (x *exchange) bodyError(status int, err error) *TransportError {
	return &TransportError{Stage: StageBody, Wrote: true, Status: status, Err: err}
}

// readRPC reads a unary JSON-RPC answer. An HTTP error without a JSON-RPC error in
// it, such as a proxy's page, is told by its status.
func (x *exchange) readRPC(rep *Reply, body []byte) error {
	answer, sink, err := x.parseAnswer(body)
	if rep.Status < 200 || rep.Status > 299 {
		if err != nil || answer.Error == nil {
			rep.Err = DecodeREST(rep.Status, rep.Received, body)
			return nil
		}
	}
	if err != nil {
		return x.bodyError(rep.Status, err)
	}
	if answer.Error != nil {
		rep.Err = DecodeRPC(answer.Error)
		rep.Err.readHeader(rep.Received)
		if statusMatters(rep.Status) {
			rep.Err.HTTP = rep.Status
		}
	} else {
		rep.Result, rep.Facts = x.result(answer.Result), sink.of(x.q.Method)
	}
	if x.same {
		rep.Raw = body
	}
	return nil
}

// statusMatters tells whether an HTTP status beside a JSON-RPC error says more
// than the error's code.
func statusMatters(status int) bool {
	return status >= 400 && statusOf(JSONRPC, &Error{HTTP: status}) == status
}

// parseAnswer reads one JSON-RPC response, unary or of a stream.
func (x *exchange) parseAnswer(body []byte) (jsonwire.Answer, *factSink, error) {
	sink := new(factSink)
	sink.reset()
	shape := x.resultShape()
	if x.old {
		shape = nil
	}
	answer, problems := jsonwire.ParseAnswer(body, shape, x.checkOptions(sink))
	if problems != nil {
		return answer, nil, fmt.Errorf("%w: %w", ErrNotA2A, problems[0])
	}
	// An error may come without the id: a peer that could not read it.
	if !jsonwire.SameID(answer.ID, x.id) && (answer.Error == nil || answer.ID != nil && string(answer.ID) != "null") {
		return answer, nil, ErrWrongID
	}
	if x.old {
		if err := x.translate(&answer, sink); err != nil {
			return answer, nil, err
		}
	}
	return answer, sink, nil
}

func (x *exchange) resultShape() *jsonwire.Shape { return operations[x.q.Method].result }

func (x *exchange) checkOptions(sink *factSink) jsonwire.CheckOptions {
	return jsonwire.CheckOptions{Limits: x.client.Limits, Sink: sink, Lax: true}
}

// result mends what peers answer to a deletion: the protocol leaves it open.
func (x *exchange) result(raw jsontext.Value) jsontext.Value {
	if x.q.Method == DeletePushConfig && (len(raw) == 0 || string(raw) == "null") {
		return jsontext.Value("{}")
	}
	return raw
}

// readREST reads a unary HTTP+JSON answer.
func (x *exchange) readREST(rep *Reply, body []byte) error {
	if rep.Status < 200 || rep.Status > 299 {
		rep.Err = DecodeREST(rep.Status, rep.Received, body)
		if x.old && rep.Err.Bare {
			if e := bareError(body); e != nil {
				e.HTTP = rep.Status
				e.readHeader(rep.Received)
				rep.Err = e
			}
		}
		if x.same && !rep.Err.Bare {
			rep.Raw = body
		}
		return nil
	}
	sink := new(factSink)
	sink.reset()
	raw := body
	if x.old {
		var err error
		if body, err = x.translateResult(body, sink); err != nil {
			return x.bodyError(rep.Status, err)
		}
	} else if shape := x.resultShape(); shape != nil {
		if problems := shape.Check(body, x.checkOptions(sink)); problems != nil {
			return x.bodyError(rep.Status, fmt.Errorf("%w: %w", ErrNotA2A, problems[0]))
		}
	} else if len(body) > 0 { // a deletion, which some answer without a body
		if e := jsonwire.Valid(body, x.client.Limits); e != nil {
			return x.bodyError(rep.Status, fmt.Errorf("%w: %w", ErrNotA2A, e))
		}
	}
	rep.Result, rep.Facts = x.result(body), sink.of(x.q.Method)
	if x.same {
		rep.Raw = raw
	}
	return nil
}
