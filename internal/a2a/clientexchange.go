package a2a

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/parley-mesh/parley/internal/jsonwire"
)

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
