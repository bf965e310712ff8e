package a2a

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"

	"github.com/parley-mesh/parley/internal/jsonwire"
)

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
