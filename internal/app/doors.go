package app

import (
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// doors sends each request to the door of its path, else answers 404. It takes
// the place of http.ServeMux, which answers paths that are not clean with a
// redirect: clients lose their body or their credential on the way, and what a
// path means must not depend on who cleaned it.
type doors []door

// door is what serves every path that begins with a prefix.
type door struct {
	prefix string
	serves http.Handler
}

// ServeHTTP implements http.Handler. The path counts as it was sent, with its
// escapes.
func (d doors) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	path := r.URL.EscapedPath()
	for _, one := range d {
		if strings.HasPrefix(path, one.prefix) {
			one.serves.ServeHTTP(w, r)
			return
		}
	}
	http.NotFound(w, r)
}

// inTime gives callers limit to send their body, from the moment their request
// has arrived and whoever serves it or refuses to: else the server would wait
// for the rest of a body that nobody wants. The deadline is lifted at the
// body's end, since streams live longer. What a refusal left unread is read
// away, at most leftover bytes of it, see readAway.
func inTime(h http.Handler, limit time.Duration, leftover int64) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.ContentLength == 0 {
			h.ServeHTTP(w, r)
			return
		}
		conn := http.NewResponseController(w)
		if err := conn.SetReadDeadline(time.Now().Add(limit)); err != nil {
			h.ServeHTTP(w, r)
			return
		}
		// In a copy: the server must find its own body in its request, else it
		// reads what is left of one that is too large.
		r = r.WithContext(r.Context())
		body := &timedBody{ReadCloser: r.Body, conn: conn}
		r.Body = body
		h.ServeHTTP(w, r)
		small := r.ContentLength > 0 && r.ContentLength <= serverReads
		if !body.ended && !small && r.ProtoMajor == 1 && r.Header.Get("Expect") == "" {
			readAway(body, conn, leftover)
		}
	})
}

const (
	// lingerTime is how long the rest of a refused body is read.
	lingerTime = 2 * time.Second
	// serverReads is how many bytes net/http itself reads away.
	serverReads = 256 << 10
)

// readAway sends the answer and then reads what is left of the body, at most
// leftover bytes and for lingerTime. Clients that send all of their request
// before they read would else find their connection reset instead of the
// refusal: a server that closes with bytes unread resets. HTTP/2 needs none of
// this, and a client that expects to be asked for its body has sent none.
func readAway(body *timedBody, conn *http.ResponseController, leftover int64) {
	if conn.Flush() != nil || conn.SetReadDeadline(time.Now().Add(lingerTime)) != nil {
		return // the connection is gone
	}
	_, _ = io.CopyN(io.Discard, body, leftover) // whatever ends it, the server closes the connection
}

// timedBody lifts the read deadline at its end.
type timedBody struct {
	io.ReadCloser
	conn  *http.ResponseController
	ended bool // nothing is left to read, or nothing can be read
}

// Read implements io.Reader.
func (b *timedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	b.ended = b.ended || err != nil
	if err == io.EOF {
		_ = b.conn.SetReadDeadline(time.Time{}) // a connection that is gone needs none
	}
	return n, err
}

// overTLS tells browsers to come over TLS only from now on (RFC 6797). age 0
// tells nothing.
func overTLS(h http.Handler, age time.Duration) http.Handler {
	if age <= 0 {
		return h
	}
	value := []string{"max-age=" + strconv.FormatInt(int64(age/time.Second), 10)}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header()["Strict-Transport-Security"] = value
		h.ServeHTTP(w, r)
	})
}

// readInTime gives HTTP/2 callers limit to take each part of their answer. Over
// HTTP/1 the connection itself has such a bound; here a caller can read the
// connection and yet open no window for an answer, which then waits for ever.
// Handlers may set other deadlines.
func readInTime(h http.Handler, limit time.Duration) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.ProtoMajor == 2 {
			w = &promptWriter{ResponseWriter: w, conn: http.NewResponseController(w), limit: limit}
		}
		h.ServeHTTP(w, r)
	})
}

// promptWriter sets a write deadline before each write. It holds until a flush
// is through or, for what the handler leaves to the server, until the stream is
// closed. A deadline that passes resets the stream, also between two writes: so
// it must not be left standing on a stream that lives on.
type promptWriter struct {
	http.ResponseWriter
	conn  *http.ResponseController
	limit time.Duration
}

// Write implements http.ResponseWriter.
func (w *promptWriter) Write(p []byte) (int, error) {
	_ = w.conn.SetWriteDeadline(time.Now().Add(w.limit)) // of a stream that is gone: Write says so
	return w.ResponseWriter.Write(p)
}

// FlushError is for http.ResponseController.
func (w *promptWriter) FlushError() error {
	_ = w.conn.SetWriteDeadline(time.Now().Add(w.limit))
	err := w.conn.Flush()
	_ = w.conn.SetWriteDeadline(time.Time{})
	return err
}

// Unwrap is for http.ResponseController.
func (w *promptWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }
