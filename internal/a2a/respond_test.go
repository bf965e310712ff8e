package a2a

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-json-experiment/json/jsontext"
)

// recorder is a ResponseWriter that knows write deadlines and when each write
// came; stuck makes every write run into its deadline.
type recorder struct {
	mu       sync.Mutex
	header   http.Header
	status   int
	body     bytes.Buffer
	times    []time.Time
	deadline time.Time
	stuck    bool
}

func (r *recorder) Header() http.Header {
	if r.header == nil {
		r.header = http.Header{}
	}
	return r.header
}

func (r *recorder) WriteHeader(status int) { r.status = status }

func (r *recorder) Write(p []byte) (int, error) {
	if r.stuck {
		time.Sleep(time.Until(r.deadline))
		return 0, context.DeadlineExceeded
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.times = append(r.times, time.Now())
	return r.body.Write(p)
}

func (r *recorder) Flush() {}

func (r *recorder) SetWriteDeadline(t time.Time) error { r.deadline = t; return nil }

func streamRequest() *Request {
	return &Request{Binding: JSONRPC, Method: SendStreamingMessage, ID: jsontext.Value("1"), Version: V10}
}

var workingFrame = Frame{Result: jsontext.Value(`{"x":1}`)}

func TestStreamKeepAlive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		frames := make(chan Frame)
		var w recorder
		done := make(chan Written, 1)
		start := time.Now()
		go func() {
			out, err := Respond(t.Context(), &w, streamRequest(), &Reply{Stream: NewChanStream(frames)}, ServerOptions{})
			if err != nil {
				t.Errorf("Respond: %v", err)
			}
			done <- out
		}()
		time.Sleep(40 * time.Second) // two comments, at 15 and 30 s
		frames <- workingFrame
		time.Sleep(16 * time.Second) // one more, 15 s after the frame
		frames <- workingFrame
		close(frames)
		out := <-done
		const want = ": keep-alive\n\n: keep-alive\n\ndata: {\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{\"x\":1}}\n\n: keep-alive\n\ndata: {\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{\"x\":1}}\n\n"
		if got := w.body.String(); got != want {
			t.Errorf("body\n%q\nwant\n%q", got, want)
		}
		if got := w.times[0].Sub(start); got != DefaultKeepAlive {
			t.Errorf("headers and first comment after %v, want %v", got, DefaultKeepAlive)
		}
		if got := w.times[3].Sub(w.times[2]); got != DefaultKeepAlive {
			t.Errorf("comment %v after a frame, want %v", got, DefaultKeepAlive)
		}
		if out.Frames != 2 || out.Bytes != int64(len(want)) || out.Status != 200 || out.FirstByte != w.times[0] {
			t.Errorf("Written = %+v", out)
		}
		if !w.deadline.IsZero() {
			t.Error("the write deadline must be lifted for the connection's next request")
		}
		if got := w.header.Get("X-Accel-Buffering"); got != "no" {
			t.Errorf("X-Accel-Buffering = %q", got)
		}
	})
}

func TestStreamHasNoFixedEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		frames := make(chan Frame)
		var w recorder
		done := make(chan error, 1)
		go func() {
			_, err := Respond(t.Context(), &w, streamRequest(), &Reply{Stream: NewChanStream(frames)}, ServerOptions{})
			done <- err
		}()
		time.Sleep(30 * time.Hour)
		frames <- workingFrame
		close(frames)
		if err := <-done; err != nil {
			t.Errorf("a stream of 30 hours: %v", err)
		}
	})
}

func TestStreamSlowReader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		frames := make(chan Frame, 1)
		frames <- workingFrame
		stream := NewChanStream(frames)
		w := recorder{stuck: true}
		start := time.Now()
		_, err := Respond(t.Context(), &w, streamRequest(), &Reply{Stream: stream}, ServerOptions{FrameTimeout: 7 * time.Second})
		if !errors.Is(err, context.DeadlineExceeded) || time.Since(start) != 7*time.Second {
			t.Errorf("a caller who does not read: %v after %v", err, time.Since(start))
		}
		select {
		case <-stream.Done():
		default:
			t.Error("the stream is still open")
		}
	})
}

func TestStreamCallerGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		stream := NewChanStream(make(chan Frame))
		var w recorder
		done := make(chan error, 1)
		go func() {
			_, err := Respond(ctx, &w, streamRequest(), &Reply{Stream: stream}, ServerOptions{})
			done <- err
		}()
		synctest.Wait()
		cancel()
		if err := <-done; !errors.Is(err, context.Canceled) {
			t.Errorf("Respond: %v, want context.Canceled", err)
		}
		if w.status != 0 || w.body.Len() != 0 {
			t.Errorf("status %d, body %q for a caller who is gone", w.status, &w.body)
		}
		<-stream.Done()
	})
}

func TestStreamDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		var w recorder
		out, err := Respond(ctx, &w, streamRequest(), &Reply{Stream: NewChanStream(make(chan Frame))}, ServerOptions{})
		if !errors.Is(err, context.DeadlineExceeded) || out.Err == nil || out.Err.Reason != ReasonTimeout {
			t.Errorf("Respond: %v, told %v", err, out.Err)
		}
		if !strings.Contains(w.body.String(), `"reason":"TIMEOUT"`) {
			t.Errorf("body %s", &w.body)
		}
	})
}

// A stream that fails before its first frame, and soon, is an ordinary answer.
func TestStreamErrorBeforeFirstFrame(t *testing.T) {
	for _, tt := range []struct {
		name   string
		frame  *Frame
		err    error
		status int
		reason Reason
	}{
		{"error frame", &Frame{Err: TaskNotFound("t1")}, nil, 404, ReasonTaskNotFound},
		{"empty stream", nil, io.EOF, 500, ReasonInvalidAgentResponse},
		{"internal cause stays inside", nil, errors.New("dial tcp 10.0.0.7:5432"), 500, ReasonInvalidAgentResponse},
		{"own error", nil, NewError(ReasonUnavailable, "later"), 503, ReasonUnavailable},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var w recorder
			q := streamRequest()
			q.Binding = HTTPJSON
			out, _ := Respond(t.Context(), &w, q, &Reply{Stream: &oneShot{frame: tt.frame, err: tt.err}}, ServerOptions{})
			if w.status != tt.status || out.Status != tt.status || out.Err == nil || out.Err.Reason != tt.reason {
				t.Errorf("status %d, %+v; want %d %s", w.status, out, tt.status, tt.reason)
			}
			if ct := w.header.Get("Content-Type"); ct != mediaA2A {
				t.Errorf("Content-Type %q", ct)
			}
			if strings.Contains(w.body.String(), "10.0.0.7") {
				t.Errorf("the cause leaks: %s", &w.body)
			}
		})
	}
}

type oneShot struct {
	frame *Frame
	err   error
}

func (s *oneShot) Next(context.Context) (Frame, error) {
	if s.frame != nil {
		return *s.frame, nil
	}
	return Frame{}, s.err
}

func (*oneShot) Close() error { return nil }

func TestUnaryErrorHeaders(t *testing.T) {
	e := NewError(ReasonUnauthenticated, "a key is needed")
	e.Challenge = `Bearer realm="parley"`
	busy := NewError(ReasonUnavailable, "full")
	busy.RetryAfter = 1500 * time.Millisecond
	for _, b := range []Binding{JSONRPC, HTTPJSON} {
		var w recorder
		q := &Request{Binding: b, ID: jsontext.Value(`"a"`)}
		_, _ = Respond(t.Context(), &w, q, Fail(e), ServerOptions{})
		if w.status != 401 || w.header.Get("WWW-Authenticate") != e.Challenge {
			t.Errorf("%s: %d %v", b, w.status, w.header)
		}
		w = recorder{}
		_, _ = Respond(t.Context(), &w, q, Fail(busy), ServerOptions{})
		if want := map[Binding]int{JSONRPC: 200, HTTPJSON: 503}[b]; w.status != want || w.header.Get("Retry-After") != "2" {
			t.Errorf("%s: %d %v", b, w.status, w.header)
		}
	}
}

// A payload that spans lines arrives as the same text.
func TestFrameWithLineBreaks(t *testing.T) {
	const payload = "{\n  \"a\": 1,\r\n  \"b\": 2\r}"
	var w recorder
	q := streamRequest()
	_, err := Respond(t.Context(), &w, q, &Reply{Stream: &frameList{Frame{Raw: []byte(payload)}}}, ServerOptions{})
	if err != nil {
		t.Fatal(err)
	}
	_, data, err := newSSEReader(&w.body, 1<<10).next()
	if want := "{\n  \"a\": 1,\n  \"b\": 2\n}"; err != nil || string(data) != want {
		t.Errorf("read back %q, %v; want %q", data, err, want)
	}
}

type frameList []Frame

func (l *frameList) Next(context.Context) (Frame, error) {
	if len(*l) == 0 {
		return Frame{}, io.EOF
	}
	f := (*l)[0]
	*l = (*l)[1:]
	return f, nil
}

func (*frameList) Close() error { return nil }
