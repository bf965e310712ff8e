package a2a

import (
	"errors"
	"io"
	"mime"
	"net/http"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/parley-mesh/parley/internal/a2a/v03"
	"github.com/parley-mesh/parley/internal/jsonwire"
)

// ServerOptions tell how calls are read and answered. The zero value is good.
type ServerOptions struct {
	// StrictVersion takes a call without a version for 0.3, as the specification
	// says. Otherwise one that is unmistakably v1 counts as 1.0.
	StrictVersion bool
	Limits        jsonwire.Limits // of a request body
	// KeepAlive is the longest silence on a stream before a comment is sent, and
	// the longest wait for the first frame before the headers are. 0 means
	// DefaultKeepAlive, below 0 never.
	KeepAlive time.Duration
	// FrameTimeout bounds one write to the caller, so that one who does not read
	// holds nothing for ever. 0 means DefaultFrameTimeout.
	FrameTimeout time.Duration
	// BodyTimeout bounds the reading of a request body by ReadFrom. 0 means
	// DefaultBodyTimeout. (http.Server.ReadTimeout will not do: it also ends
	// streams.)
	BodyTimeout time.Duration
}

// Defaults of ServerOptions.
const (
	DefaultBodyTimeout  = 30 * time.Second
	DefaultKeepAlive    = 15 * time.Second // proxies cut idle connections from 30 s on
	DefaultFrameTimeout = 30 * time.Second
)

func (o ServerOptions) keepAlive() time.Duration {
	if o.KeepAlive == 0 {
		return DefaultKeepAlive
	}
	return o.KeepAlive
}

func (o ServerOptions) frameTimeout() time.Duration {
	if o.FrameTimeout <= 0 {
		return DefaultFrameTimeout
	}
	return o.FrameTimeout
}

func (o ServerOptions) bodyTimeout() time.Duration {
	if o.BodyTimeout <= 0 {
		return DefaultBodyTimeout
	}
	return o.BodyTimeout
}

// Request is one operation as it arrived, free of its binding. Change Params and
// Raw only through Set and Delete, which keep them alike.
type Request struct {
	Binding    Binding
	Version    Version        // as asked for, reduced to major and minor; "" until ReadBody decided what a call without one is
	Method     Method         // JSON-RPC: known after ReadBody
	Params     jsontext.Value // the request object, in the form of 1.0; REST: path and query are merged in
	Raw        []byte         // the body as received, in the form of Version
	ID         jsontext.Value // of a JSON-RPC request
	Tenant     string
	Extensions []string // URIs of A2A-Extensions, each once, in order
	Header     http.Header
	Facts      Facts

	// Notification marks a JSON-RPC call without an id. It is refused, and by the
	// rules of JSON-RPC no error may be sent back.
	Notification bool

	old          bool         // the call is in the forms of version 0.3, and so is its answer
	edited       bool         // version 0.3: Params were changed, and Raw no longer says the same
	paramsOffset int          // of Params in Raw, JSON-RPC of 1.0; 0 if Raw has none
	query        []restMember // REST: members that the query gives, then those of the path, which win
	hasBody      bool         // REST: the verb may bring one
	contentType  string
	contentSize  int64
	opt          ServerOptions
	editRaw      RawEditor // gRPC
	early        *Error    // JSON-RPC: refused by the headers, told once the id is known
}

// Open reads what the request line and the headers tell, without the body. path is
// what follows the agent's address, still percent-encoded ("" or "/" is JSON-RPC,
// the rest REST). The Request is never nil: with an error it still tells Respond
// which binding to answer in. A JSON-RPC call with a bad header is refused by
// ReadBody only, since the answer must carry the id.
func Open(r *http.Request, path string, opt ServerOptions) (*Request, *Error) {
	q := &Request{Header: r.Header, opt: opt,
		contentType: r.Header.Get("Content-Type"), contentSize: r.ContentLength}
	q.Extensions = splitExtensions(r.Header[keyExtensions])
	q.Facts.HistoryLength = -1
	version, versionErr := askedVersion(r)
	q.Version = version
	q.old = version == V03
	if old := r.Header[keyOldExtensions]; len(old) > 0 {
		q.Extensions = splitExtensions(slices.Concat(r.Header[keyExtensions], old))
	}
	if err := encoded(r.Header); err != nil {
		versionErr = err
	}
	if path == "" || path == "/" {
		q.Binding = JSONRPC
		if r.Method != http.MethodPost {
			return q, methodNotAllowed(r.Method, http.MethodPost)
		}
		q.early = versionErr
		return q, nil
	}
	q.Binding = HTTPJSON
	q.old = q.Version == V03 || q.Version == "" && looksOld(path)
	err := q.route(r, path)
	if versionErr == nil {
		versionErr = q.settleVersion(q.versionOf(path, err == nil), path)
	}
	switch {
	case versionErr != nil:
		return q, versionErr
	case err != nil:
		return q, err
	}
	return q, nil
}

// encoded refuses a body that is compressed: what a small one unpacks to has no
// bound that the caller pays for, and no client of A2A sends one unasked.
func encoded(h http.Header) *Error {
	for _, line := range h["Content-Encoding"] {
		if line = strings.TrimSpace(line); line != "" && !strings.EqualFold(line, "identity") {
			return NewError(ReasonEncoding, "Content-Encoding %q is not supported; send the body as it is", clip(line))
		}
	}
	return nil
}

func methodNotAllowed(verb, allowed string) *Error {
	e := NewError(ReasonMethodNotAllowed, "HTTP %s is not allowed here; use %s", clip(verb), allowed)
	e.Allow = allowed
	return e
}

func splitExtensions(lines []string) []string {
	if len(lines) == 0 {
		return nil
	}
	var list []string
	seen := map[string]bool{}
	for _, line := range lines {
		for uri := range strings.SplitSeq(line, ",") {
			if uri = strings.TrimSpace(uri); uri != "" && !seen[uri] {
				seen[uri] = true
				list = append(list, uri)
			}
		}
	}
	return list
}

// ReadBody reads and checks the body: type, size, envelope, and every member of
// the request that the method knows. All fields that are wrong are named. It
// fills Method, Params, Raw, ID, Tenant and Facts. Values alias Raw.
func (q *Request) ReadBody(body io.Reader) *Error {
	if q.Binding == HTTPJSON {
		return q.readREST(body)
	}
	if q.early != nil && q.early.Reason == ReasonEncoding {
		return q.early // there is no id that could be read
	}
	raw, err := q.readAll(body)
	if err != nil {
		return err
	}
	q.Raw = raw
	var sink factSink
	sink.reset()
	call, rpcErr := jsonwire.ParseCall(raw, callShape, jsonwire.CheckOptions{Limits: q.opt.Limits, Sink: &sink})
	q.ID, q.Notification, q.Method = call.ID, call.Notification, Method(call.Method)
	q.Params, q.paramsOffset = call.Params, call.ParamsOffset
	seen := methodVersion(call.Method)
	if seen == V03 {
		q.Method = Method(v03.V1Method(call.Method))
	}
	switch {
	case !isJSON(q.contentType, mediaJSON):
		return NewError(ReasonContentTypeNotSupported, "Content-Type %q is not supported; send %s", clip(q.contentType), mediaJSON)
	case rpcErr != nil && (rpcErr.Code == jsonwire.CodeParse || rpcErr.Code == jsonwire.CodeInvalidRequest):
		return rpcFailure(rpcErr)
	case q.early != nil:
		return q.early
	}
	if err := q.settleVersion(seen, call.Method); err != nil {
		return err
	}
	switch {
	case rpcErr != nil:
		return rpcFailure(rpcErr)
	case q.Notification:
		return NewError(ReasonInvalidRequest, "id is missing; every A2A call is answered, so give it an id")
	}
	if q.old {
		return q.readOldCall()
	}
	if q.Params == nil {
		q.Params, q.paramsOffset = jsontext.Value("{}"), 0 // Raw stays as it came until something is set
	}
	return q.take(&sink)
}

// ReadFrom is ReadBody of r's body, which must arrive within BodyTimeout.
func (q *Request) ReadFrom(w http.ResponseWriter, r *http.Request) *Error {
	if r.ContentLength == 0 {
		return q.ReadBody(r.Body)
	}
	rc := http.NewResponseController(w)
	// A writer without deadlines, as in tests, needs none.
	if rc.SetReadDeadline(time.Now().Add(q.opt.bodyTimeout())) == nil {
		defer func() { _ = rc.SetReadDeadline(time.Time{}) }()
	}
	return q.ReadBody(r.Body)
}

func rpcFailure(e *jsonwire.RPCError) *Error {
	message := e.Message
	if len(e.Problems) > 0 {
		message = problemText(e.Problems[0])
	}
	switch e.Code {
	case jsonwire.CodeParse:
		return NewError(ReasonParse, "%s", message)
	case jsonwire.CodeMethodNotFound:
		return NewError(ReasonMethodNotFound, "%s", e.Message)
	case jsonwire.CodeInvalidParams:
		if len(e.Problems) > 0 {
			return fromProblems(e.Problems)
		}
		return InvalidParams(FieldViolation{"params", strings.TrimPrefix(e.Message, "params ")})
	}
	return NewError(ReasonInvalidRequest, "%s", message)
}

// take moves the collected facts over and checks what no single field shows.
func (q *Request) take(sink *factSink) *Error {
	q.Facts = sink.facts
	q.Tenant = jsonwire.String(sink.tenant)
	if q.Method == CreatePushConfig && q.Facts.TaskID == "" {
		return InvalidParams(FieldViolation{"taskId", "is required"})
	}
	return nil
}

// isJSON compares a media type, parameters aside, with those allowed.
func isJSON(contentType string, allowed ...string) bool {
	for _, a := range allowed {
		if contentType == a {
			return true
		}
	}
	media, params, err := mime.ParseMediaType(contentType)
	if err != nil {
		return false
	}
	if charset, ok := params["charset"]; ok && !strings.EqualFold(charset, "utf-8") {
		return false
	}
	for _, a := range allowed {
		if media == a {
			return true
		}
	}
	return false
}

// readAll reads a body up to the limit. The size a caller announces is believed
// only as far as a small buffer.
func (q *Request) readAll(body io.Reader) ([]byte, *Error) {
	raw, err := readLimited(body, q.contentSize, q.opt.Limits.Bytes())
	switch {
	case err == nil:
		return raw, nil
	case errors.Is(err, errTooLarge):
		return nil, NewError(ReasonTooLarge, "the request has more than %d bytes; refer to files by URL", q.opt.Limits.Bytes())
	}
	var tooLarge *http.MaxBytesError
	if errors.As(err, &tooLarge) {
		return nil, NewError(ReasonTooLarge, "the request has more than %d bytes; refer to files by URL", tooLarge.Limit)
	}
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return nil, NewError(ReasonInvalidRequest, "the request body did not arrive within %v", q.opt.bodyTimeout())
	}
	return nil, NewError(ReasonInvalidRequest, "the request body could not be read to its end")
}

var errTooLarge = errors.New("a2a: body over the limit")

// readLimited reads r to its end. announced is the size it is said to have, -1 if
// unknown.
func readLimited(r io.Reader, announced, limit int64) ([]byte, error) {
	const trusted = 64 << 10
	if announced > limit {
		return nil, errTooLarge
	}
	size := int64(2 << 10)
	if announced >= 0 {
		size = min(announced, trusted) + 1 // one more, to see the end without growing
	}
	buf := make([]byte, 0, size)
	for {
		n, err := r.Read(buf[len(buf):cap(buf)])
		buf = buf[:len(buf)+n]
		if int64(len(buf)) > limit {
			return nil, errTooLarge
		}
		if err == io.EOF {
			return buf, nil
		}
		if err != nil {
			return nil, err
		}
		if len(buf) == cap(buf) {
			buf = append(buf, 0)[:len(buf)]
		}
	}
}

// Set gives the member of Params at path (a JSON pointer through objects) the
// value, in Raw too; every other byte stays, but for a call of 0.3, which is
// written anew. The object that holds it must exist.
func (q *Request) Set(path string, value jsontext.Value) error {
	s, err := jsonwire.PlanSet(q.Params, path, value)
	if err != nil {
		return err
	}
	if q.Binding == GRPC {
		return q.editMessage(s, path, value)
	}
	if q.old {
		q.Params, q.edited = s.Apply(q.Params), true
		return nil
	}
	q.splice(s, func(raw []byte) ([]byte, error) { return jsonwire.Set(raw, path, value) })
	return nil
}

// Delete takes the member at path out of Params and Raw. It is no error if there
// is none.
func (q *Request) Delete(path string) error {
	s, ok, err := jsonwire.PlanDelete(q.Params, path)
	if err != nil || !ok {
		return err
	}
	if q.Binding == GRPC {
		return q.editMessage(s, path, nil)
	}
	if q.old {
		q.Params, q.edited = s.Apply(q.Params), true
		return nil
	}
	q.splice(s, func(raw []byte) ([]byte, error) { return jsonwire.Delete(raw, path) })
	return nil
}

// splice changes Params, and Raw in the same way: at the same place in a JSON-RPC
// body, by path in a REST body, which may lack what came by path or query.
func (q *Request) splice(s jsonwire.Splice, edit func([]byte) ([]byte, error)) {
	params := s.Apply(q.Params)
	switch {
	case q.Binding == JSONRPC && q.paramsOffset > 0:
		q.Raw = s.Shift(q.paramsOffset).Apply(q.Raw)
		q.Params = q.Raw[q.paramsOffset : q.paramsOffset+len(params)]
		return
	case q.Binding == JSONRPC && len(q.Raw) > 0:
		if raw, err := jsonwire.Set(q.Raw, "/params", params); err == nil {
			q.Raw = raw
		}
	case q.Binding == HTTPJSON && len(q.Raw) > 0:
		if raw, err := edit(q.Raw); err == nil {
			q.Raw = raw
		}
	}
	q.Params = params
}
