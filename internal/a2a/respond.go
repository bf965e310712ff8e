package a2a

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/parley-mesh/parley/internal/jsonwire"
)

// Written tells what Respond sent.
type Written struct {
	Status    int
	Bytes     int64     // of the body, keep-alive comments included
	Frames    int       // of a stream, an error frame included
	FirstByte time.Time // when the first byte of the body went out; zero if none did
	Err       *Error    // the error the caller was told, if any
}

// Respond writes rep to the caller in the binding q came by. ctx is the caller's:
// when it ends, a stream ends. It returns what was sent; the error is one of
// writing, or of a stream that broke, which the caller was told already.
//
// A stream's headers wait for its first frame, so that an error before it gets a
// status of its own, but no longer than one keep-alive interval. A stream has no
// time limit. Respond closes it.
func Respond(ctx context.Context, w http.ResponseWriter, q *Request, rep *Reply, opt ServerOptions) (Written, error) {
	for name, values := range rep.Header {
		w.Header()[name] = values
	}
	if q.old {
		oldForms(w.Header())
	}
	if rep.Stream != nil {
		return respondStream(ctx, w, q, rep, opt)
	}
	return respondUnary(w, q, rep, opt)
}

func respondUnary(w http.ResponseWriter, q *Request, rep *Reply, opt ServerOptions) (Written, error) {
	if q.Notification {
		w.WriteHeader(http.StatusNoContent)
		return Written{Status: http.StatusNoContent, Err: rep.Err}, nil
	}
	if q.old && rep.Raw == nil && rep.Err == nil {
		rep = q.oldReply(rep)
	}
	body, status := encodeReply(q, rep)
	if status == http.StatusNoContent {
		w.WriteHeader(status)
		return Written{Status: status}, nil
	}
	h := w.Header()
	if _, ok := h["Content-Type"]; !ok || rep.Raw == nil {
		h["Content-Type"] = contentType(q)
	}
	if _, ok := h["Cache-Control"]; !ok {
		h["Cache-Control"] = noStore
	}
	if rep.Err != nil && q.Binding == JSONRPC && q.Method.Streaming() && status == http.StatusOK && asksFor(q.Header, mediaSSE) {
		// The official Go client reads a stream and nothing else: it loses a
		// plain error without a word. As a stream's only frame all SDKs read it.
		var frame bytes.Buffer
		writeData(&frame, body)
		body, h["Content-Type"] = frame.Bytes(), contentTypeSSE
	}
	h["Content-Length"] = []string{strconv.Itoa(len(body))}
	if rep.Err != nil {
		errorHeaders(h, rep.Err)
	}
	out := Written{Status: status, Err: rep.Err}
	done := guardWrite(w, len(body), opt)
	w.WriteHeader(status)
	out.FirstByte = time.Now()
	n, err := w.Write(body)
	out.Bytes = int64(n)
	if err == nil {
		err = done()
	}
	return out, err
}

// asksFor tells whether a caller asks for the media type by name.
func asksFor(h http.Header, media string) bool {
	for _, line := range h["Accept"] {
		for one := range strings.SplitSeq(line, ",") {
			if one, _, _ = strings.Cut(one, ";"); strings.TrimSpace(one) == media {
				return true
			}
		}
	}
	return false
}

// Header values that are the same for every call, so that none is allocated.
var (
	contentTypeJSON = []string{mediaJSON}
	contentTypeA2A  = []string{mediaA2A}
	contentTypeSSE  = []string{mediaSSE}
	noStore         = []string{"no-store"}
	noCache         = []string{"no-cache"}
	accelOff        = []string{"no"}
)

// contentType is what a unary answer is called: the protocol's own type in REST,
// but plain JSON for a caller who says what it reads and does not name ours.
// Stock clients exist that drop every error typed otherwise.
func contentType(q *Request) []string {
	if q.Binding != HTTPJSON || q.old {
		return contentTypeJSON
	}
	accept := q.Header.Values("Accept")
	if len(accept) == 0 {
		return contentTypeA2A
	}
	for _, line := range accept {
		if strings.Contains(line, mediaA2A) || strings.Contains(line, "*/*") || strings.Contains(line, "application/*") {
			return contentTypeA2A
		}
	}
	return contentTypeJSON
}

// guardWrite bounds the writing of a body that may not fit into the connection's
// buffers. Smaller ones never block the handler and are spared the timers.
func guardWrite(w http.ResponseWriter, size int, opt ServerOptions) (done func() error) {
	const buffered = 32 << 10
	if size <= buffered {
		return func() error { return nil }
	}
	rc := http.NewResponseController(w)
	if rc.SetWriteDeadline(time.Now().Add(opt.frameTimeout())) != nil {
		return func() error { return nil } // a writer without deadlines, as in tests
	}
	return func() error {
		err := rc.Flush()
		return errors.Join(err, rc.SetWriteDeadline(time.Time{}))
	}
}

// encodeReply writes the body of a unary answer.
func encodeReply(q *Request, rep *Reply) (body []byte, status int) {
	if rep.Raw != nil {
		return rep.Raw, cmp.Or(rep.Status, http.StatusOK)
	}
	// A peer's own status goes with its own body only: some answer a message with
	// 201, which other clients take for a failure.
	status = statusOf(q.Binding, rep.Err)
	result := rep.Result
	if result == nil {
		result = jsontext.Value("{}")
	}
	switch {
	case rep.Err == nil && q.Binding == HTTPJSON:
		return result, status
	case rep.Err == nil:
		return jsonwire.AppendResult(make([]byte, 0, len(result)+len(q.ID)+40), q.ID, result), http.StatusOK
	case q.Binding == HTTPJSON:
		return q.restError(rep.Err), status
	}
	return jsonwire.AppendError(nil, q.ID, q.rpcError(rep.Err)), status
}

// statusOf is the HTTP status of an answer. JSON-RPC answers 200 with an error in
// the body, but for what HTTP itself must know: who is asked to authenticate, to
// use another verb, to send less or uncompressed, or to come later. The official Go and Python
// clients lose the typed error behind any other status, so the rest keep 200.
func statusOf(b Binding, err *Error) int {
	if err == nil {
		return http.StatusOK
	}
	if b == HTTPJSON {
		if err.HTTP < 400 || err.HTTP > 599 {
			return http.StatusInternalServerError
		}
		return err.HTTP
	}
	switch err.HTTP {
	case 401, 403, 405, 413, 415, 429:
		return err.HTTP
	}
	return http.StatusOK
}

func errorHeaders(h http.Header, err *Error) {
	if err.Challenge != "" && err.HTTP == http.StatusUnauthorized || err.Challenge != "" && err.HTTP == http.StatusForbidden {
		h.Set("WWW-Authenticate", err.Challenge)
	}
	if err.Allow != "" {
		h.Set("Allow", err.Allow)
	}
	if err.Reason == ReasonEncoding {
		h.Set("Accept-Encoding", "identity") // RFC 9110, section 15.5.16
	}
	if err.RetryAfter > 0 {
		seconds := int64((err.RetryAfter + time.Second - 1) / time.Second)
		h.Set("Retry-After", strconv.FormatInt(seconds, 10))
	}
}
