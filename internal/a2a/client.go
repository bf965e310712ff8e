package a2a

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"

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
