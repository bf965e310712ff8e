package a2a

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
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

// respondStream passes frames on until the stream ends. Most of its time it
// waits, on a stack that every open stream keeps: what is not needed to wait
// stands in functions of its own.
func respondStream(ctx context.Context, w http.ResponseWriter, q *Request, rep *Reply, opt ServerOptions) (Written, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	s := &streamWriter{q: q, rc: http.NewResponseController(w), w: w, opt: opt, cancel: cancel}
	defer rep.Stream.Close()
	s.startTimer()
	defer s.end()
	for {
		frame, err := rep.Stream.Next(ctx)
		if over, err := s.pass(ctx, rep, &frame, err); over {
			return s.out(), err
		}
	}
}

// pass writes what came from the stream, and tells whether that was its end. The
// first frame decides how to answer.
func (s *streamWriter) pass(ctx context.Context, rep *Reply, frame *Frame, err error) (over bool, _ error) {
	if !s.start(frame.Err == nil && err == nil) {
		return true, s.refuse(ctx, rep, frame, err)
	}
	if err != nil {
		return true, s.finish(ctx, err)
	}
	last := false
	if s.q.old && frame.Raw == nil && frame.Err == nil {
		last = endsOld(frame)
		s.q.oldFrame(frame)
	}
	if err := s.frame(frame); err != nil {
		return true, err
	}
	return last || frame.Err != nil, nil
}

// refuse answers a stream that fails before it has begun: with an ordinary error.
func (s *streamWriter) refuse(ctx context.Context, rep *Reply, frame *Frame, err error) error {
	failure := frame.Err
	if failure == nil {
		failure = streamFailure(err)
	}
	if errors.Is(ctx.Err(), context.Canceled) {
		return ctx.Err() // the caller is gone
	}
	out, writeErr := respondUnary(s.w, s.q, &Reply{Err: failure, Header: rep.Header}, s.opt)
	s.mu.Lock()
	s.sent = out
	s.mu.Unlock()
	return errors.Join(ignoreEOF(err), writeErr)
}

func ignoreEOF(err error) error {
	if err == io.EOF {
		return nil
	}
	return err
}

// streamFailure is what a caller is told of a stream that broke. Only an *Error
// was made for a caller's eyes.
func streamFailure(err error) *Error {
	var e *Error
	switch {
	case errors.As(err, &e):
		return e
	case err == io.EOF:
		return NewError(ReasonInvalidAgentResponse, "the agent ended the stream without an answer")
	case errors.Is(err, context.DeadlineExceeded):
		return NewError(ReasonTimeout, "the call took longer than it may")
	}
	return NewError(ReasonInvalidAgentResponse, "the stream from the agent broke off before the task came to rest")
}

// streamWriter writes one stream. The keep-alive timer writes too, so every write
// holds mu; an idle stream costs no goroutine of its own.
type streamWriter struct {
	q      *Request
	w      http.ResponseWriter
	rc     *http.ResponseController
	opt    ServerOptions
	cancel context.CancelFunc

	mu     sync.Mutex
	timer  *time.Timer
	begun  bool // headers are out
	plain  bool // the answer is no stream after all
	ended  bool
	failed error // of a write; nothing is written after it
	sent   Written
	buf    bytes.Buffer
}

func (s *streamWriter) startTimer() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if every := s.opt.keepAlive(); every > 0 {
		s.timer = time.AfterFunc(every, s.keepAlive)
	}
}

// end stops the timer and lifts the write deadline, so that the connection can
// serve its next request.
func (s *streamWriter) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ended = true
	if s.timer != nil {
		s.timer.Stop()
	}
	_ = s.rc.SetWriteDeadline(time.Time{}) // writers without deadlines have none to lift
}

// keepAlive runs when nothing was written for a while. A caller who is gone is
// noticed here, if the server did not notice before.
func (s *streamWriter) keepAlive() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended || s.plain || s.failed != nil {
		return
	}
	s.begin()
	s.buf.Reset()
	s.buf.WriteString(": keep-alive\n\n")
	if s.write() != nil {
		s.cancel()
		return
	}
	s.timer.Reset(s.opt.keepAlive())
}

// start settles whether the answer is a stream: if its first frame is good, or if
// the timer or an earlier frame has begun it.
func (s *streamWriter) start(good bool) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !good && !s.begun {
		s.plain = true
		return false
	}
	s.begin()
	return true
}

func (s *streamWriter) begin() {
	if s.begun {
		return
	}
	s.begun = true
	h := s.w.Header()
	h["Content-Type"] = contentTypeSSE
	h["Cache-Control"] = noCache
	h["X-Accel-Buffering"] = accelOff
	s.w.WriteHeader(http.StatusOK)
	s.sent.Status = http.StatusOK
}

func (s *streamWriter) frame(f *Frame) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.buf.Reset()
	rpc := s.q.Binding == JSONRPC
	if f.ID != "" {
		s.buf.WriteString("id: " + f.ID + "\n")
	}
	switch {
	case f.Raw != nil && f.Event != "":
		s.buf.WriteString("event: " + f.Event + "\n")
	case f.Raw == nil && f.Err != nil && !rpc:
		s.buf.WriteString("event: error\n")
	}
	switch {
	case f.Raw != nil:
		writeData(&s.buf, f.Raw)
	case f.Err != nil && rpc:
		writeData(&s.buf, jsonwire.AppendError(nil, s.q.ID, s.q.rpcError(f.Err)))
	case f.Err != nil:
		writeData(&s.buf, s.q.restError(f.Err))
	case rpc:
		writeData(&s.buf, jsonwire.AppendResult(nil, s.q.ID, f.Result))
	default:
		writeData(&s.buf, f.Result)
	}
	if f.Err != nil {
		s.sent.Err = f.Err
	}
	if err := s.write(); err != nil {
		return err
	}
	s.sent.Frames++
	if s.timer != nil {
		s.timer.Reset(s.opt.keepAlive())
	}
	return nil
}

// writeData writes one event. A payload may hold line breaks between its tokens;
// each line gets its field name, and the reader joins them again.
func writeData(buf *bytes.Buffer, data []byte) {
	for {
		i := bytes.IndexAny(data, "\r\n")
		if i < 0 {
			break
		}
		buf.WriteString("data: ")
		buf.Write(data[:i])
		buf.WriteByte('\n')
		if data[i] == '\r' && i+1 < len(data) && data[i+1] == '\n' {
			i++
		}
		data = data[i+1:]
	}
	buf.WriteString("data: ")
	buf.Write(data)
	buf.WriteString("\n\n")
}

// write sends the buffer and flushes it, within the time for one frame.
func (s *streamWriter) write() error {
	if s.failed != nil {
		return s.failed
	}
	// Writers without deadlines, as in tests, say so here: they cannot block.
	_ = s.rc.SetWriteDeadline(time.Now().Add(s.opt.frameTimeout()))
	if s.sent.FirstByte.IsZero() {
		s.sent.FirstByte = time.Now()
	}
	n, err := s.w.Write(s.buf.Bytes())
	s.sent.Bytes += int64(n)
	if err == nil {
		err = s.rc.Flush()
	}
	if err != nil {
		s.failed = fmt.Errorf("write to the caller: %w", err)
		return s.failed
	}
	return nil
}

// finish ends a stream on err: silently at its end or when the caller is gone,
// else with a last frame that tells.
func (s *streamWriter) finish(ctx context.Context, err error) error {
	if err == io.EOF {
		return nil
	}
	s.mu.Lock()
	gone := s.failed
	s.mu.Unlock()
	if gone != nil {
		return gone
	}
	if errors.Is(ctx.Err(), context.Canceled) {
		return ctx.Err()
	}
	writeErr := s.frame(&Frame{Err: streamFailure(err)})
	return errors.Join(err, writeErr)
}

func (s *streamWriter) out() Written {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.sent
}
